"""memory_source: recall before the turn, remember after it.

Laws: it never decides by itself what to save; what comes of one run is saved once, though `commit` may run twice;
what fails in the background never touches a turn; nothing is learnt from a block that was only recalled.
Source: guide D, `memorySource`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from sapwood.context.source import ContextSource, Saved, Selection, Turn
from sapwood.core.errors import ConfigError
from sapwood.core.events import Placement
from sapwood.core.maybe import then
from sapwood.core.memory import MemoryRecord, RecallOptions, has_provenance
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.consolidate import Consolidate, by_likeness
from sapwood.memory.learn import Extract, Learning, TurnText
from sapwood.memory.recall import TURN, Recall, certainty, has_strangers, recalled, texts_of, without_block
from sapwood.memory.remember import remembered

Remember: TypeAlias = Callable[[Turn], MaybeAwaitable[Iterable[str] | None]]
"""A finished turn (`turn.text` the user's words, `turn.reply` the answer) -> facts to keep."""


class MemorySourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a memory source recalls and what it keeps.

    recall: None takes five records; of a store with provenance, none that covers too little of the prompt to be about
    it (`certainty`). remember: facts of a turn; without it, and without `keep_turns` and `extract`, nothing is ever
    written. kind: of the facts that are saved. placement: `turn` puts what was recalled beside the prompt, which keeps
    the provider's cache warm; `system` into the system prompt. None takes the turn's: `turn` in an Agent, `system` in
    `run_agent` (guide D). A block with text from a tool or from the web goes beside the prompt wherever others go.

    keep_turns: keep what was said, word for word, as records of the kind "turn"; needs a store with provenance, such as
    `SqliteStore(path).memory`. conversation: the id they belong to; None takes that of the stored conversation.
    extract: finds facts in what was said, in the background: a function, or `model_extractor(provider)`. consolidate:
    what becomes of a found fact beside those that are like it; by likeness where none is given. extract_every: turns
    that are gathered for one call of `extract`. extract_window: turns that it sees at most.
    """

    recall: RecallOptions | None = None
    remember: Remember | None = None
    kind: str = "fact"
    placement: Placement | None = None
    keep_turns: bool = False
    conversation: str | None = None
    extract: Extract | None = None
    consolidate: Consolidate | None = None
    extract_every: int = 1
    extract_window: int = 10

    def __post_init__(self) -> None:
        for name in ("extract_every", "extract_window"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is a number of turns from 1 on, not {getattr(self, name)!r}")


class MemorySource(ContextSource):
    """A source over a memory store."""

    name = "memory"

    def __init__(self, store: MemoryStore, options: MemorySourceOptions) -> None:
        if options.keep_turns and not has_provenance(store):
            raise ConfigError(
                f"keep_turns needs a store that keeps who said what and when, such as SqliteStore(path).memory; "
                f"{type(store).__name__} has save and no save_many"
            )
        self.waits = bool(getattr(store, "waits", False))
        self._is_rich = has_provenance(store)
        self._store = store
        self._options = options
        self._saved_runs: dict[str, None] = {}
        self._learning: Learning | None = None
        if options.extract is not None:
            self._learning = Learning(
                store,
                options.extract,
                options.consolidate or by_likeness,
                kind=options.kind,
                every=options.extract_every,
                window=options.extract_window,
            )

    def scoped(self, user: str) -> "MemorySource":
        """Return the same source over the part of the store that belongs to a user.

        Raises ConfigError for a store that knows no users, or has another one.
        """
        return MemorySource(store_of(self._store, user), self._options)

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Search with the user's words and return the hits as a block."""
        options = self._options
        recall = options.recall or RecallOptions(min_score=certainty(turn.text) if self._is_rich else 0.0)
        # Turns that the history shows are not recalled; facts are short, and may well be repeated.
        known = texts_of(part.text for part in turn.messages) if options.keep_turns else ()

        def selection(found: Recall) -> Selection | None:
            if not found.records:
                return None
            count = len(found.records)
            placement = options.placement or turn.placement
            return Selection(
                text=found.block,
                records=found.records,
                label=f"{count} {'memory' if count == 1 else 'memories'}",
                placement="turn" if has_strangers(found.records) else placement,
            )

        hits = recalled(self._store, turn.text, recall, room=room, count=turn.count, known=known)
        return then(hits, selection)

    def commit(self, turn: Turn) -> MaybeAwaitable[Saved | None]:
        """Keep the turn, and what `remember` makes of it; nothing where this run was saved before."""
        if turn.run_id in self._saved_runs or not self._writes:
            return None
        kept = self._kept(turn) if self._options.keep_turns else ()
        return then(kept, lambda turns: self._remembered(turn, turns))

    @property
    def _writes(self) -> bool:
        options = self._options
        return options.remember is not None or options.keep_turns or self._learning is not None

    def _kept(self, turn: Turn) -> MaybeAwaitable[Sequence[MemoryRecord]]:
        """Keep what was said; the key of each makes a second commit of this run harmless."""
        store = cast("Any", self._store)  # it has save_many, as was looked at
        conversation = self._conversation(turn)
        said = (("user", "user", turn.text), ("assistant", "model", turn.reply))
        items = [
            {
                "text": text,
                "kind": TURN,
                "origin": origin,
                "speaker": speaker,
                "conversation": conversation,
                "turn": turn.run_id or None,
                "key": f"{turn.run_id}/{speaker}" if turn.run_id else None,
            }
            for speaker, origin, whole in said
            if (text := _cut(without_block(whole)))
        ]
        saved: MaybeAwaitable[Sequence[MemoryRecord]] = store.save_many(items)
        return saved

    def _remembered(self, turn: Turn, turns: Sequence[MemoryRecord]) -> MaybeAwaitable[Saved | None]:
        remember = self._options.remember
        facts = remember(turn) if remember is not None else None
        return then(facts, lambda found: self._saved(turn, turns, found))

    def _saved(
        self, turn: Turn, turns: Sequence[MemoryRecord], facts: Iterable[str] | None
    ) -> MaybeAwaitable[Saved | None]:
        if isinstance(facts, str):
            facts = [facts]  # one fact, not its characters

        def whole(records: Sequence[MemoryRecord]) -> Saved | None:
            self._note(turn.run_id)
            later = self._learning.after(self._said(turn, turns)) if self._learning is not None else None
            if not turns and not records and later is None:
                return None
            return Saved(records=(*turns, *records), later=later)

        # A store with provenance is told which turn a fact is from.
        more: dict[str, Any] = {}
        if turn.run_id and self._is_rich:
            more = {
                "turn": turn.run_id,
                "conversation": self._conversation(turn),
                "key": f"{turn.run_id}/{self._options.kind}",
            }
        return then(remembered(self._store, facts or (), kind=self._options.kind, more=more), whole)

    def _said(self, turn: Turn, turns: Sequence[MemoryRecord]) -> TurnText:
        # What a tool told is a stranger's, and the answer may repeat it: then the user's own words are learnt from.
        reply = "" if _used_tools(turn) else without_block(turn.reply)
        text = without_block(turn.text)
        return TurnText(turn.run_id, text, reply, tuple(turns), self._conversation(turn))

    def _conversation(self, turn: Turn) -> str | None:
        return self._options.conversation or turn.conversation or None

    def _note(self, run_id: str) -> None:
        self._saved_runs[run_id] = None
        while len(self._saved_runs) > _RUNS_KEPT:
            del self._saved_runs[next(iter(self._saved_runs))]


def _used_tools(turn: Turn) -> bool:
    for message in reversed(turn.messages):
        if message.role in ("tool", "user"):
            return message.role == "tool"
    return False


def _cut(text: str) -> str:
    """Return a text that a store takes: of a very long one, its beginning and its end."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}\n… {len(text) - LONGEST:,} characters are left out …\n{text[-LONGEST // 2 :]}"


LONGEST = 100_000
"""Characters of one side of a turn that are kept."""
_RUNS_KEPT = 1_000


def memory_source(
    store: MemoryStore,
    options: MemorySourceOptions | None = None,
    *,
    recall: RecallOptions | None = None,
    remember: Remember | None = None,
    kind: str = "fact",
    placement: Placement | None = None,
    keep_turns: bool = False,
    conversation: str | None = None,
    extract: Extract | None = None,
    consolidate: Consolidate | None = None,
    extract_every: int = 1,
    extract_window: int = 10,
) -> MemorySource:
    """Return a source named `memory` over a store; give either options or keywords, see `MemorySourceOptions`.

    >>> from sapwood import create_memory_store
    >>> memory_source(create_memory_store(), recall=RecallOptions(k=6)).name
    'memory'
    """
    if options is None:
        options = MemorySourceOptions(
            recall=recall,
            remember=remember,
            kind=kind,
            placement=placement,
            keep_turns=keep_turns,
            conversation=conversation,
            extract=extract,
            consolidate=consolidate,
            extract_every=extract_every,
            extract_window=extract_window,
        )
    return MemorySource(store, options)


def store_of(store: MemoryStore, user: str) -> MemoryStore:
    """Return the part of a memory that belongs to a user; raises ConfigError for one that knows no users."""
    scoped: Callable[..., MemoryStore] | None = getattr(store, "scoped", None)
    if scoped is None:
        raise ConfigError(
            f"{type(store).__name__} keeps what all users said in one place, so it cannot be given to one of them; use "
            "SqliteStore(path).memory or create_memory_store(), or make an agent for each user"
        )
    return scoped(user=user)
