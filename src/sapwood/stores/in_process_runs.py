"""Conversations, runs and memories in this process, for demos, tests and applications that may forget.

Laws: what is kept is JSON, so that nothing works here that would not survive a file; one transaction at a time.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import TypeVar

from sapwood.core.ports import Embedder
from sapwood.stores import rules
from sapwood.stores.embedding import Embedding
from sapwood.stores.faces import Conversations, Runs
from sapwood.stores.holder import Clock, Lease, this_process
from sapwood.stores.in_process_memory import InProcessMemories
from sapwood.stores.memory import Memory
from sapwood.stores.memory_home import MemoryHome
from sapwood.stores.rows import ConversationRow, Dated, EventRow, Rows, RunRow, Span, Titled
from sapwood.stores.rules import Session

T = TypeVar("T")


class InProcessStore:
    """Conversations, runs and memories in this process; lost on restart.

    A hold here lasts until its segment ends, it is released, or the store is reopened. embedder: lets memories be
    found by meaning, too.

    >>> from sapwood import Message
    >>> store = InProcessStore()
    >>> store.conversations.append("c1", [Message.user("Hi")], after=0, run_id="r1", fence=0)
    1
    >>> store.conversations.load("c1").messages[0].text
    'Hi'
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._lock = threading.Lock()
        self._open(_Memory())
        self.runs = Runs(self)
        self.conversations = Conversations(self)
        self._embedder = embedder
        self._keep(InProcessMemories())

    def _keep(self, memories: InProcessMemories) -> None:
        self._memories = memories
        embedding = Embedding(self._embedder) if self._embedder is not None else None
        self.memory = Memory(MemoryHome(memories, embedding))

    def _open(self, rows: "_Memory") -> None:
        owner = this_process()
        rows.alive = owner.token
        self._rows = rows

        def alive(lease: Lease) -> bool:
            return lease.owner.token == rows.alive

        self._session = Session(owner, Clock(), 0.0, alive)

    def reopened(self) -> "InProcessStore":
        """Return a store with the same content, as another process would see it after this one was killed."""
        other = InProcessStore(self._embedder)
        other._lock = self._lock
        other._keep(self._memories)
        other._open(self._rows)
        return other

    def close(self) -> None:
        """Do nothing; there is no file."""

    def __enter__(self) -> "InProcessStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, change: Callable[[Rows, Session], T]) -> T:
        """Run a transaction."""
        with self._lock:
            return change(self._rows, self._session)

    def read(self, look: Callable[[Rows, Session], T]) -> T:
        """Run a transaction that changes nothing."""
        return self.write(look)

    def hold(self, run_id: str, fence: int) -> None:
        """Nothing is renewed: a hold here has no end."""

    def drop(self, run_id: str) -> None:
        """Nothing is renewed: a hold here has no end."""

    def release(self, run_id: str, fence: int) -> None:
        """End a hold."""
        self.write(lambda rows, _: rules.release(rows, run_id, fence))


class _Conversation:
    def __init__(self, row: ConversationRow) -> None:
        self.row = row
        self.messages: dict[int, str] = {}
        self.turns: dict[str, int] = {}


class _Run:
    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.events: list[tuple[EventRow, float]] = []


class _Memory:
    """The rows, as dictionaries in the order of their making. alive: the owner whose holds count."""

    def __init__(self) -> None:
        self.alive = ""
        self._runs: dict[str, _Run] = {}
        self._conversations: dict[str, _Conversation] = {}
        self._pasts: dict[int, list[str]] = {}
        self._last_past = 0

    def run(self, run_id: str) -> RunRow | None:
        found = self._runs.get(run_id)
        return found.row if found is not None else None

    def put_run(self, row: RunRow) -> None:
        self._runs.setdefault(row.run_id, _Run(row)).row = row

    def drop_run(self, row: RunRow) -> None:
        del self._runs[row.run_id]
        if row.past is not None:
            del self._pasts[row.past]

    def dated(self, run_id: str) -> Dated | None:
        found = self._runs.get(run_id)
        if found is None:
            return None
        return Dated(found.row, len(found.events), found.events[-1][1] if found.events else found.row.started_at)

    def runs(
        self, conversation_id: str | None, *, unfinished: bool, limit: int, before: str | None = None
    ) -> list[Dated]:
        found: list[Dated] = []
        for run_id in _before(self._runs, before):
            item = self.dated(run_id)
            if item is None or (unfinished and item.row.state == "ended"):
                continue
            if conversation_id is None or item.row.conversation_id == conversation_id:
                found.append(item)
        return found if limit < 0 else found[:limit]

    def version(self, run_id: str) -> int:
        return len(self._runs[run_id].events)

    def add_events(self, run_id: str, after: int, events: Sequence[EventRow], at: float) -> None:
        self._runs[run_id].events += [(event, at) for event in events]

    def times(self, run_id: str) -> list[float]:
        return [at for _, at in self._runs[run_id].events]

    def events(self, run_id: str, after: int) -> list[tuple[int, str]]:
        found = self._runs[run_id].events
        return [(number, event.json) for number, (event, _) in enumerate(found, 1) if number > after]

    def events_of_call(self, run_id: str, call: str) -> list[str]:
        return [event.json for event, _ in self._runs[run_id].events if event.call == call]

    def put_past(self, messages: Sequence[str]) -> int:
        self._last_past += 1
        self._pasts[self._last_past] = list(messages)
        return self._last_past

    def past(self, place: int) -> list[str]:
        return self._pasts[place]

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        found = self._conversations.get(conversation_id)
        return found.row if found is not None else None

    def put_conversation(self, row: ConversationRow) -> None:
        self._conversations.setdefault(row.conversation_id, _Conversation(row)).row = row

    def drop_conversation(self, conversation_id: str) -> None:
        del self._conversations[conversation_id]

    def conversations(self, limit: int, prefix: str, before: str | None) -> list[Titled]:
        ids = [id for id in _before(self._conversations, before) if id.startswith(prefix)]
        return [self._titled(id) for id in (ids if limit < 0 else ids[:limit])]

    def _titled(self, conversation_id: str) -> Titled:
        runs = self.runs(conversation_id, unfinished=False, limit=-1)
        return Titled(self._conversations[conversation_id].row, runs[-1].row.prompt if runs else "")

    def messages(self, conversation_id: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
        kept = self._conversations[conversation_id].messages
        last = max(kept, default=0)
        return [
            (number, kept[number])
            for first, end in spans
            for number in range(first, min(end, last) + 1)
            if number in kept
        ]

    def add_messages(self, conversation_id: str, first: int, messages: Sequence[str]) -> None:
        self._conversations[conversation_id].messages.update(enumerate(messages, first))

    def turn(self, conversation_id: str, run_id: str) -> int | None:
        found = self._conversations.get(conversation_id)
        return found.turns.get(run_id) if found is not None else None

    def put_turn(self, conversation_id: str, run_id: str, version: int) -> None:
        self._conversations[conversation_id].turns[run_id] = version


def _before(ids: Mapping[str, object], before: str | None) -> Iterator[str]:
    """Yield the ids in the order of their making, the last one first; those that were made before this one."""
    found = reversed(list(ids))
    if before is None:
        return found
    return iter([*dropwhile(lambda id: id != before, found)][1:])
