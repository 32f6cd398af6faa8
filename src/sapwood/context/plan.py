"""plan: what goes into the window, what is left out, and why. Pure.

Laws: fixed things come first and are never cut; then each block in the order of the sources, or of their priorities;
a block that would push the total past the room is skipped and later, smaller ones may still enter; exactly at the limit
is allowed; a floor is kept until its source was asked. Source: guide D, "How a turn uses the manager", step 2.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from sapwood.core.budget import Allocation
from sapwood.core.errors import ContextOverflowError
from sapwood.core.ledger import LedgerLine, Section

T = TypeVar("T")


class Demand(msgspec.Struct, frozen=True):
    """One block that a source would like to place, with its size in tokens."""

    source: str
    label: str
    section: Section
    tokens: int


class Plan(msgspec.Struct, frozen=True):
    """Which demands were taken, in their order, the ledger's lines and the room that is left."""

    taken: tuple[bool, ...]
    lines: tuple[LedgerLine, ...]
    room: int


class Planner:
    """Gives out the room, block by block, in the order in which blocks are placed.

    room: tokens left after the fixed things. allocations: by source, its limit and its floor. The floor of a source
    is kept for it until it is `done`.

    >>> planner = Planner(10, {"b": Allocation("b", min_tokens=4)})
    >>> planner.room_for("a"), planner.room_for("b")
    (6, 10)
    """

    def __init__(self, room: int, allocations: Mapping[str, Allocation]) -> None:
        self.room = room
        self._limits = {name: item.limit(room) for name, item in allocations.items()}
        self._floors = {name: item.min_tokens for name, item in allocations.items() if item.min_tokens}

    def room_for(self, source: str) -> int:
        """Return the tokens that are left for a source in the window, before its own limit counts."""
        kept = sum(floor for name, floor in self._floors.items() if name != source) if self._floors else 0
        return self.room - kept

    def share_of(self, source: str) -> int:
        """Return the tokens that are left of what a source may take."""
        return self._limits.get(source, self.room)

    def place(self, demand: Demand) -> LedgerLine:
        """Return whether this block goes in, and take its room if so."""
        line = judge(demand, self.room_for(demand.source), self.share_of(demand.source))
        if line.verdict == "kept":
            self.take(demand.source, demand.tokens)
        return line

    def take(self, source: str, tokens: int) -> None:
        """Note that a source takes so many tokens."""
        self.room -= tokens
        if source in self._limits:
            self._limits[source] -= tokens
        if source in self._floors:
            self._floors[source] = max(0, self._floors[source] - tokens)

    def done(self, source: str) -> None:
        """Note that a source has nothing more to place, so that its floor is free for others."""
        self._floors.pop(source, None)


def plan(demands: Sequence[Demand], room: int, allocations: Mapping[str, Allocation]) -> Plan:
    """Take the demands that fit, those of sources with a higher priority first, else in order.

    room: tokens left after the fixed things. allocations: by source, what it may take, and what is its own.

    >>> plan([Demand("a", "", "memory", 8), Demand("b", "", "memory", 5)], 6, {}).taken
    (False, True)
    """
    planner = Planner(room, {name: item for name, item in allocations.items() if _has(name, demands)})
    lines: dict[int, LedgerLine] = {}
    order = ranked(range(len(demands)), lambda place: demands[place].source, allocations)
    last = {demands[place].source: place for place in order}
    for place in order:
        lines[place] = planner.place(demands[place])
        if last[demands[place].source] == place:
            planner.done(demands[place].source)
    in_order = tuple(lines[place] for place in range(len(demands)))
    return Plan(tuple(line.verdict == "kept" for line in in_order), in_order, planner.room)


def ranked(items: Iterable[T], source_of: Callable[[T], str], allocations: Mapping[str, Allocation]) -> list[T]:
    """Return the items with those of sources of a higher priority first, else in their order."""

    def rank(item: T) -> int:
        own = allocations.get(source_of(item))
        return -own.priority if own is not None else 0

    return sorted(items, key=rank)


def _has(source: str, demands: Sequence[Demand]) -> bool:
    return any(demand.source == source for demand in demands)


def judge(demand: Demand, room: int, share: int) -> LedgerLine:
    """Return the line that says whether this demand is kept.

    room: tokens left in the window. share: tokens left of what its source may take.
    """
    reason = ""
    if demand.tokens > room:
        reason = f"{demand.tokens} tokens do not fit the {max(0, room)} that are left"
    elif demand.tokens > share:
        reason = f"{demand.tokens} tokens are over the source's share of {max(0, share)}"
    return LedgerLine(
        demand.source, demand.label, demand.section, demand.tokens, "skipped" if reason else "kept", reason
    )


def truncated(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of a text, found by halving, that takes at most these tokens."""
    if count(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= tokens else (low, middle - 1)
    return text[:low]


def require_fit(fixed: Mapping[str, int], window: int) -> None:
    """Raise ContextOverflowError, naming each size, where the fixed things alone are over the window.

    window: tokens that a request may take; 0 means that it is not known, and nothing is checked.
    """
    total = sum(fixed.values())
    if not window or total <= window:
        return
    sizes = ", ".join(f"{name} {size}" for name, size in fixed.items() if size)
    raise ContextOverflowError(
        f"the request would take about {total} tokens and {window} are left after the reserve for the reply "
        f"({sizes}); shorten the largest of these, raise max_tokens or choose a model with a larger window",
        sizes=fixed,
    )


def droppable(sizes: Sequence[int], excess: int) -> int:
    """Return how many exchanges, oldest first, must go so that at least `excess` tokens become free.

    sizes: tokens of each exchange, oldest first.

    >>> droppable([5, 5, 5], 7)
    2
    """
    for dropped, size in enumerate(sizes):
        if excess <= 0:
            return dropped
        excess -= size
    return len(sizes)
