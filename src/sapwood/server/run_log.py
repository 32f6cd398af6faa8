"""The log of a run: its events, numbered and kept, for any number of readers.

Laws: a reader is a place in the log and nothing more, so one that stalls costs what it has not fetched yet and never
holds up the run; deltas that no other event came between are one entry, which grows, so that a reader who was slow gets
fewer and larger ones; what was given is never changed.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from sapwood.core.events import AgentEvent, TextDelta, ThinkingDelta
from sapwood.core.journal import ends_segment, is_journaled
from sapwood.server.journal_events import Timed

MAX_PIECE = 50_000
"""Characters of text that one event gives a reader who was slow."""


class Place(NamedTuple):
    """A place in a log: entries before it, and characters of the entry there that were read.

    >>> str(Place(3, 12)), str(Place(3)), Place.read("3.12")
    ('3.12', '3', Place(entry=3, offset=12))
    """

    entry: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.entry}.{self.offset}" if self.offset else str(self.entry)

    @classmethod
    def read(cls, text: str) -> "Place":
        """Return the place that a client names; raises ValueError for what is none."""
        entry, dot, offset = text.partition(".")
        if not text.isascii() or not entry.isdecimal() or not (offset if dot else "0").isdecimal() or len(text) > 20:
            raise ValueError(text[:40])
        return cls(int(entry), int(offset or 0))


class _Growing:
    """Deltas of one kind and path that follow each other."""

    __slots__ = ("at", "kind", "length", "path", "pieces")

    def __init__(self, event: TextDelta | ThinkingDelta, at: float) -> None:
        self.kind = type(event)
        self.path = event.path
        self.pieces = [event.text]
        self.length = len(event.text)
        self.at = at

    def takes(self, event: TextDelta | ThinkingDelta) -> bool:
        return type(event) is self.kind and event.path == self.path

    def between(self, start: int, stop: int) -> str:
        # A reader that keeps up is a few pieces behind, however long the text is.
        left, wanted = self.length - start, list[str]()
        for piece in reversed(self.pieces):
            if left <= 0:
                break
            wanted.append(piece)
            left -= len(piece)
        text = "".join(reversed(wanted))
        return text[-left if left < 0 else 0 :][: stop - start]


class Failure(NamedTuple):
    """Why a segment ended that did not finish. code: for programs. text: for people, without anything of the inside."""

    code: str
    text: str


_Entry: TypeAlias = tuple[AgentEvent, float] | _Growing


class RunLog:
    """The events of one run in this process.

    run_id, conversation_id: whose. is_live: a segment runs here. failure: of the last segment. segment: where it began.
    segments: where those began that a client has named. stored: events of it that a store keeps.
    over_at: when it ended, on the loop's clock.
    """

    def __init__(self, run_id: str, conversation_id: str) -> None:
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.is_live = False
        self.failure: Failure | None = None
        self.segment = Place()
        self.segments: dict[str, Place] = {}
        self.stored = 0
        self.readers = 0
        self.over_at = 0.0
        self._entries: list[_Entry] = []
        self._waiting: list[asyncio.Future[bool]] = []

    def load(self, events: Iterable[Timed]) -> None:
        """Fill it with what was stored."""
        for event, at in events:
            self.append(event, at)

    def begin(self) -> None:
        """Begin a segment: what follows is new to whoever has read all there is."""
        self.is_live, self.failure = True, None
        self.segment = self.end

    def append(self, event: AgentEvent, at: float) -> None:
        """Add an event and wake the readers."""
        last = self._entries[-1] if self._entries else None
        if isinstance(event, TextDelta | ThinkingDelta):
            if isinstance(last, _Growing) and last.takes(event):
                last.pieces.append(event.text)
                last.length += len(event.text)
            else:
                self._entries.append(_Growing(event, at))
        else:
            self._entries.append((event, at))
            self.stored += is_journaled(event)
        self._wake()

    def finish(self, failure: Failure | None, now: float) -> None:
        """End the segment."""
        self.is_live, self.failure, self.over_at = False, failure, now
        self._wake()

    def events(self) -> Iterator[AgentEvent]:
        """Yield what is in it, without the deltas."""
        return (entry[0] for entry in self._entries if isinstance(entry, tuple))

    def within(self, place: Place) -> Place:
        """Return a place that a client names, or the end where there is no such place."""
        if place.entry >= len(self._entries):
            return self.end
        entry = self._entries[place.entry]
        return Place(place.entry, min(place.offset, entry.length if isinstance(entry, _Growing) else 0))

    @property
    def end(self) -> Place:
        """The place after all there is."""
        if not self._entries:
            return Place()
        last = self._entries[-1]
        return Place(len(self._entries) - 1, last.length) if isinstance(last, _Growing) else Place(len(self._entries))

    @property
    def has_ended(self) -> bool:
        """The last event ends a segment: the run is over, or waits for a person."""
        last = self._entries[-1] if self._entries else None
        return isinstance(last, tuple) and ends_segment(last[0])

    def read(self, place: Place, until: Place | None = None) -> Iterator[tuple[AgentEvent, float, Place]]:
        """Yield the events from a place on, each with the place after it; up to another place, where one is given."""
        number, offset = place
        while number < len(self._entries) and (until is None or (number, offset) < until):
            entry = self._entries[number]
            if isinstance(entry, tuple):
                number, offset = number + 1, 0
                yield *entry, Place(number)
                continue
            stops_here = until is not None and number == until.entry
            # A client may name a place that there is not.
            stop = min(until.offset, entry.length) if until is not None and stops_here else entry.length
            while offset < stop:
                end = min(stop, offset + MAX_PIECE)
                text, offset = entry.between(offset, end), end
                yield entry.kind(path=entry.path, text=text), entry.at, Place(number, offset)
            if stops_here or number + 1 >= len(self._entries):
                return  # more of it may come
            number, offset = number + 1, 0

    def leave(self, waiter: "asyncio.Future[bool]") -> None:
        """Take back a waiter that nobody waits for any more."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)

    def waiter(self) -> "asyncio.Future[bool]":
        """Return what is settled once something was added."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        return waiter

    def _wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(True)
