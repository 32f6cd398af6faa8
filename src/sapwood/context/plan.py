"""plan: what goes into the window, what is left out, and why. Pure.

Laws: fixed things come first and are never cut; then each block in the order of the sources; a block that
would push the total past the room is skipped and later, smaller ones may still enter; exactly at the limit is
allowed. Source: guide D, "How a turn uses the manager", step 2.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sapwood.core.budget import Allocation
from sapwood.core.errors import ContextOverflowError
from sapwood.core.ledger import LedgerLine, Section


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


def plan(demands: Sequence[Demand], room: int, allocations: Mapping[str, Allocation]) -> Plan:
    """Take the demands that fit, in order.

    room: tokens left after the fixed things. allocations: by source, what it may take at most.

    >>> plan([Demand("a", "", "memory", 8), Demand("b", "", "memory", 5)], 6, {}).taken
    (False, True)
    """
    left = dict.fromkeys((item.source for item in demands), room)
    left.update({name: item.max_tokens for name, item in allocations.items()})
    taken: list[bool] = []
    lines: list[LedgerLine] = []
    for demand in demands:
        line = judge(demand, room, left.get(demand.source, room))
        lines.append(line)
        taken.append(line.verdict == "kept")
        if line.verdict == "kept":
            room -= demand.tokens
            left[demand.source] = left.get(demand.source, room) - demand.tokens
    return Plan(tuple(taken), tuple(lines), room)


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
