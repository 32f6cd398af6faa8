"""Learn: facts found in what was said, in batches, after the turn.

Laws: bounded: so many turns of a conversation wait at most, and the oldest are left out first; conversations are never
mixed; a batch that fails is tried again with the next one, and is given up after three times; what was found in a run
is kept once, however often it is looked at.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.maybe import stepped
from sapwood.core.memory import UNTRUSTED, MemoryRecord
from sapwood.core.ports import MemoryStore
from sapwood.core.require import shown
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.consolidate import Consolidate, NewFact, consolidated

MOST_FACTS = 20
"""Facts of one batch that are kept; more is no memory but a transcript."""
TRIES = 3
MOST_CONVERSATIONS = 1_000
"""Conversations with turns that wait; the one that began to wait first is left out for another."""


class TurnText(NamedTuple):
    """What was said in a turn: the user's words and the answer, which is empty where tools had a part in it.

    records: where they are kept word for word, if so. conversation: the one that it belongs to.
    """

    run_id: str
    text: str
    reply: str
    records: tuple[MemoryRecord, ...] = ()
    conversation: str | None = None


Extract: TypeAlias = Callable[[Sequence[TurnText]], MaybeAwaitable[Iterable[str | NewFact]]]
"""What was said, oldest first -> the facts in it that last."""


class _Waiting:
    def __init__(self, said: TurnText) -> None:
        self.said = said
        self.tries = 0


class Learning:
    """Gathers turns, and finds and keeps the facts in them."""

    def __init__(
        self, store: MemoryStore, extract: Extract, consolidate: Consolidate, *, kind: str, every: int, window: int
    ) -> None:
        self._store = store
        self._extract = extract
        self._consolidate = consolidate
        self._kind = kind
        self._every = every
        self._window = max(every, window)
        # By conversation. Its own methods are atomic, so that turns that overlap may share it.
        self._waiting: dict[str | None, deque[_Waiting]] = {}

    def after(self, said: TurnText) -> Callable[[], MaybeAwaitable[None]] | None:
        """Take a turn in; return what is to be done in the background once enough of its conversation are gathered."""
        waiting = self._waiting.setdefault(said.conversation, deque(maxlen=self._window))
        waiting.append(_Waiting(said))
        while len(self._waiting) > MOST_CONVERSATIONS:
            self._waiting.pop(next(iter(self._waiting)), None)
        return partial(self.learn, said.conversation) if len(waiting) >= self._every else None

    def learn(self, conversation: str | None = None) -> MaybeAwaitable[None]:
        """Find and keep the facts of all that waits of a conversation."""
        return stepped(self._learn(conversation))

    def _learn(self, conversation: str | None) -> Generator[MaybeAwaitable[Any], Any, None]:
        batch = list(self._waiting.pop(conversation, ()))
        if not batch:
            return
        try:
            found = yield self._extract([item.said for item in batch])
            for number, fact in enumerate(self._facts(cast("object", found), batch)):
                last = batch[-1].said
                key = f"{last.run_id}/fact/{number}" if last.run_id else None
                yield from consolidated(
                    self._store, fact, self._consolidate, run_id=last.run_id, key=key, conversation=conversation
                )
        except Exception:
            waiting = self._waiting.setdefault(conversation, deque(maxlen=self._window))
            for item in reversed(batch):
                item.tries += 1
                if item.tries < TRIES and len(waiting) < self._window:
                    waiting.appendleft(item)
            raise

    def _facts(self, found: object, batch: Sequence[_Waiting]) -> list[NewFact]:
        if found is None:
            return []
        if isinstance(found, str | NewFact) or not isinstance(found, Iterable):
            raise ConfigError(f"extract returns a list of facts, not {shown(found)}")
        sources = tuple(record.id for item in batch for record in item.said.records)
        facts: list[NewFact] = []
        for item in list(cast("Iterable[object]", found))[:MOST_FACTS]:
            fact = NewFact(text=item, kind=self._kind) if isinstance(item, str) else item
            if not isinstance(fact, NewFact):
                raise ConfigError(f"a fact is a text or a NewFact, not {shown(item)}")
            if not fact.text.strip():
                continue
            more: dict[str, Any] = {} if fact.derived_from else {"derived_from": sources}
            if fact.origin in UNTRUSTED:
                more["quarantined"] = True  # until a person confirms it
            facts.append(msgspec.structs.replace(fact, **more))
        return facts
