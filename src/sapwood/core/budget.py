"""Budgets: how many tokens a request may hold and who may take how much of them."""

from collections.abc import Callable
from typing import ClassVar, Literal

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.struct import Data


class Budget(msgspec.Struct, frozen=True):
    """The budget that every source and history compaction draw from (guide D).

    max_tokens: the window. reserve: tokens of it that are kept for the reply.
    count: text -> tokens; None takes the calibrating estimate. It is called on text only.

    >>> Budget(100_000, reserve=4_000).room
    96000
    """

    max_tokens: int
    reserve: int = 0
    count: Callable[[str], int] | None = None

    def __post_init__(self) -> None:
        if self.max_tokens <= 0:
            raise ConfigError(f"max_tokens must be above 0, not {self.max_tokens}")
        if not 0 <= self.reserve < self.max_tokens:
            raise ConfigError(f"reserve must be 0 to {self.max_tokens - 1}, not {self.reserve}")

    @property
    def room(self) -> int:
        """Tokens that a request may take."""
        return self.max_tokens - self.reserve


class Allocation(Data, frozen=True, tag="allocation"):
    """How much of the window one source may take, and how much of it is its own.

    source: the source's name; `history` is the past messages. max_tokens: what it may take at most, in tokens; share:
    the same as a part of the room (0 to 1); of both the smaller counts, and without either there is no such limit.
    overflow: `drop` leaves out what does not fit whole; `truncate` keeps the beginning of it. min_tokens: its floor,
    which no other source may take while it has not been asked. priority: sources of a higher one are asked first;
    those of one priority in their order.
    """

    type: ClassVar[Literal["allocation"]] = "allocation"
    source: str
    max_tokens: int | None = None
    overflow: Literal["drop", "truncate"] = "drop"
    share: float | None = None
    min_tokens: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        if not self.source:
            raise ConfigError("an allocation needs the name of a source")
        if self.max_tokens is not None and self.max_tokens < 0:
            raise ConfigError(f"the share of {self.source!r} must not be below 0, it is {self.max_tokens}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ConfigError(f"the share of {self.source!r} is a part of the room, from 0 to 1, not {self.share!r}")
        if self.overflow not in ("drop", "truncate"):
            raise ConfigError(f'the overflow of {self.source!r} is "drop" or "truncate", not {self.overflow!r}')
        if self.min_tokens < 0 or (self.max_tokens is not None and self.min_tokens > self.max_tokens):
            most = "" if self.max_tokens is None else f" and at most its max_tokens ({self.max_tokens})"
            raise ConfigError(f"the floor of {self.source!r} must be at least 0{most}, it is {self.min_tokens}")

    def limit(self, room: int) -> int:
        """Return what the source may take at most out of a room of so many tokens.

        >>> Allocation("memory", 500, share=0.1).limit(2_000)
        200
        """
        most = room if self.max_tokens is None else min(room, self.max_tokens)
        return max(0, most if self.share is None else min(most, int(self.share * room)))


class TokenBudget(Data, frozen=True, tag="token_budget"):
    """The budget of an Agent (guide A): the window, the reserve and a share for each source.

    reserve_tokens: kept for the reply. Raises ConfigError where floors and reserve are more than the window.

    >>> TokenBudget(100_000, reserve_tokens=4_000, allocations=(Allocation("memory", 2_000),)).room
    96000
    """

    type: ClassVar[Literal["token_budget"]] = "token_budget"
    total_tokens: int
    reserve_tokens: int = 0
    allocations: tuple[Allocation, ...] = ()

    def __post_init__(self) -> None:
        if self.total_tokens <= 0:
            raise ConfigError(f"total_tokens must be above 0, not {self.total_tokens}")
        if not 0 <= self.reserve_tokens < self.total_tokens:
            raise ConfigError(f"reserve_tokens must be 0 to {self.total_tokens - 1}, not {self.reserve_tokens}")
        names = [item.source for item in self.allocations]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"the source {name!r} has more than one allocation; give it one")
        floors = sum(item.min_tokens for item in self.allocations)
        if floors > self.room:
            raise ConfigError(
                f"the floors of the sources take {floors} tokens together, and {self.room} of the {self.total_tokens} "
                "are left after the reserve"
            )

    @property
    def room(self) -> int:
        """Tokens that a request may take."""
        return self.total_tokens - self.reserve_tokens

    def of(self, source: str) -> Allocation | None:
        """Return the share of a source, None where it has none of its own."""
        return next((item for item in self.allocations if item.source == source), None)


_MOST_RESERVED = 4_096


def default_chat_budget(total_tokens: int) -> TokenBudget:
    """Return a budget for a chat with memory: most of the room is the history's.

    total_tokens: the window. An eighth of it, at most 4,096 tokens, is kept for the reply.

    >>> default_chat_budget(16_000).of("memory").limit(14_000)
    2100
    """
    room = total_tokens - _reserve(total_tokens)
    return _budget(total_tokens, Allocation("memory", share=0.15), Allocation("history", min_tokens=room // 2))


def default_rag_budget(total_tokens: int) -> TokenBudget:
    """Return a budget for questions about documents: half of the room may be what was retrieved.

    >>> default_rag_budget(16_000).of("retrieval").limit(14_000)
    7000
    """
    room = total_tokens - _reserve(total_tokens)
    return _budget(
        total_tokens,
        Allocation("retrieval", share=0.5, priority=1),
        Allocation("memory", share=0.1),
        Allocation("history", min_tokens=room // 5),
    )


def default_agent_budget(total_tokens: int) -> TokenBudget:
    """Return a budget for an agent with tools: what was recalled and retrieved leaves room for their results.

    >>> [item.source for item in default_agent_budget(16_000).allocations]
    ['memory', 'retrieval', 'history']
    """
    room = total_tokens - _reserve(total_tokens)
    return _budget(
        total_tokens,
        Allocation("memory", share=0.1),
        Allocation("retrieval", share=0.2),
        Allocation("history", min_tokens=room * 3 // 10),
    )


def _budget(total_tokens: int, *allocations: Allocation) -> TokenBudget:
    return TokenBudget(total_tokens, _reserve(total_tokens), allocations)


def _reserve(total_tokens: int) -> int:
    return max(0, min(_MOST_RESERVED, total_tokens // 8))
