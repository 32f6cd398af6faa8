"""memory_source: recall before the turn, remember after it.

Laws: it never decides by itself what to save; a fact is saved once for one run, though `commit` may run twice.
Source: guide D, `memorySource`.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from sapwood.context.source import ContextSource, Saved, Selection, Turn
from sapwood.core.events import Placement
from sapwood.core.maybe import then
from sapwood.core.memory import RecallOptions
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.recall import Recall, recalled
from sapwood.memory.remember import remembered

Remember: TypeAlias = Callable[[Turn], MaybeAwaitable[Iterable[str] | None]]
"""A finished turn (`turn.text` the user's words, `turn.reply` the answer) -> facts to keep."""


class MemorySourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a memory source recalls and what it keeps.

    remember: without it nothing is ever written. kind: of the facts that are saved.
    placement: `turn` puts what was recalled beside the prompt, which keeps the provider's cache warm; `system`
    into the system prompt. None takes the turn's: `turn` in an Agent, `system` in `run_agent` (guide D).
    """

    recall: RecallOptions = RecallOptions()
    remember: Remember | None = None
    kind: str = "fact"
    placement: Placement | None = None


class MemorySource(ContextSource):
    """A source over a memory store."""

    name = "memory"

    def __init__(self, store: MemoryStore, options: MemorySourceOptions) -> None:
        self._store = store
        self._options = options
        self._saved_runs: dict[str, None] = {}

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Search with the user's words and return the hits as a block."""

        def selection(found: Recall) -> Selection | None:
            if not found.records:
                return None
            count = len(found.records)
            return Selection(
                text=found.block,
                records=found.records,
                label=f"{count} {'memory' if count == 1 else 'memories'}",
                placement=self._options.placement or turn.placement,
            )

        return then(recalled(self._store, turn.text, self._options.recall), selection)

    def commit(self, turn: Turn) -> MaybeAwaitable[Saved | None]:
        """Save what `remember` makes of the turn; nothing where this run was saved before."""
        if self._options.remember is None or turn.run_id in self._saved_runs:
            return None

        def save(facts: Iterable[str] | None) -> MaybeAwaitable[Saved | None]:
            if not facts:
                return None
            if isinstance(facts, str):
                facts = [facts]  # one fact, not its characters
            self._saved_runs[turn.run_id] = None
            while len(self._saved_runs) > _RUNS_KEPT:
                del self._saved_runs[next(iter(self._saved_runs))]
            return then(remembered(self._store, facts, kind=self._options.kind), lambda records: Saved(records=records))

        return then(self._options.remember(turn), save)


_RUNS_KEPT = 1_000


def memory_source(
    store: MemoryStore,
    options: MemorySourceOptions | None = None,
    *,
    recall: RecallOptions | None = None,
    remember: Remember | None = None,
    kind: str = "fact",
    placement: Placement | None = None,
) -> MemorySource:
    """Return a source named `memory` over a store; give either options or keywords.

    >>> from sapwood import create_memory_store
    >>> memory_source(create_memory_store(), recall=RecallOptions(k=6)).name
    'memory'
    """
    if options is None:
        options = MemorySourceOptions(
            recall=recall or RecallOptions(), remember=remember, kind=kind, placement=placement
        )
    return MemorySource(store, options)
