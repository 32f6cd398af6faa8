"""What a backend keeps, row by row, and the few things that it must be able to do with it.

Law: a backend stores and finds; what may happen is said once, in `rules.py`, which calls these inside one transaction.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from sapwood.core.codec import VERSION
from sapwood.core.diagnostics import Cause
from sapwood.core.struct import Data
from sapwood.stores.holder import Lease

Span = tuple[int, int]
OPEN_END = 1 << 53
"""The end of a span that takes in whatever is added."""


class RunRow(Data, frozen=True, tag="run_row"):
    """A run without its events. past: where its past messages are kept. format: the version of its events."""

    type: ClassVar[Literal["run_row"]] = "run_row"
    run_id: str
    conversation_id: str | None = None
    base_seq: int = 0
    fence: int = 0
    state: Literal["open", "paused", "ended"] = "open"
    stopped_by: Cause | None = None
    error: str | None = None
    prompt: str = ""
    past: int | None = None
    started_at: float = 0.0
    lease: Lease | None = None
    format: int = VERSION


class ConversationRow(Data, frozen=True, tag="conversation_row"):
    """A conversation without its messages.

    holder: the run that holds it. spans: the numbers of the messages that it shows, in order, both ends included.
    """

    type: ClassVar[Literal["conversation_row"]] = "conversation_row"
    conversation_id: str
    version: int = 0
    fence: int = 0
    holder: str | None = None
    spans: tuple[Span, ...] = ((1, OPEN_END),)
    started_at: float = 0.0
    updated_at: float = 0.0


class EventRow(NamedTuple):
    """An event to be stored. call: where it is bound to the arguments of one, see `journal.call_of`."""

    json: str
    call: str | None = None


class Titled(NamedTuple):
    """A conversation with the prompt of its first run; empty where no run of it is kept."""

    row: ConversationRow
    prompt: str


class Dated(NamedTuple):
    """A run with what its events tell: how many there are, and when the last one came."""

    row: RunRow
    version: int
    updated_at: float


class Rows(Protocol):
    """One transaction on a backend. Whatever is given here is stored as it is; an id that is there is replaced."""

    def run(self, run_id: str) -> RunRow | None:
        """Return a run."""
        ...

    def put_run(self, row: RunRow) -> None:
        """Store a run."""
        ...

    def drop_run(self, row: RunRow) -> None:
        """Remove a run, its events, and its past where no other run has it."""
        ...

    def dated(self, run_id: str) -> Dated | None:
        """Return a run with what its events tell."""
        ...

    def runs(
        self, conversation_id: str | None, *, unfinished: bool, limit: int, before: str | None = None
    ) -> list[Dated]:
        """Return runs, the one that began last first; all of them for a limit below 0. before: that began before it."""
        ...

    def version(self, run_id: str) -> int:
        """Return the number of the last event."""
        ...

    def add_events(self, run_id: str, after: int, events: Sequence[EventRow], at: float) -> None:
        """Store events, numbered from the one after this."""
        ...

    def times(self, run_id: str) -> list[float]:
        """Return when the events of a run were stored, in seconds since 1970."""
        ...

    def events(self, run_id: str, after: int) -> list[tuple[int, str]]:
        """Return the events after this number."""
        ...

    def events_of_call(self, run_id: str, call: str) -> list[str]:
        """Return the events that are bound to a call, in order."""
        ...

    def put_past(self, messages: Sequence[str]) -> int:
        """Store messages of which an earlier run may have stored the first ones; return where they are."""
        ...

    def past(self, place: int) -> list[str]:
        """Return the messages that are kept there."""
        ...

    def conversation(self, conversation_id: str) -> ConversationRow | None:
        """Return a conversation."""
        ...

    def put_conversation(self, row: ConversationRow) -> None:
        """Store a conversation."""
        ...

    def drop_conversation(self, conversation_id: str) -> None:
        """Remove a conversation and its messages."""
        ...

    def conversations(self, limit: int, prefix: str, before: str | None) -> list[Titled]:
        """Return the conversations whose id begins so, the one that was begun last first, with their first prompt.

        limit: below 0 for all of them. before: only those that were begun before this one.
        """
        ...

    def messages(self, conversation_id: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
        """Return numbered messages, span by span."""
        ...

    def add_messages(self, conversation_id: str, first: int, messages: Sequence[str]) -> None:
        """Store messages, numbered from this one on."""
        ...

    def turn(self, conversation_id: str, run_id: str) -> int | None:
        """Return the version that a run's append reached."""
        ...

    def put_turn(self, conversation_id: str, run_id: str, version: int) -> None:
        """Note the version that a run's append reached."""
        ...
