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
    """How much of the window one source may take.

    source: the source's name. max_tokens: its share at most, in tokens.
    overflow: `drop` leaves out what does not fit whole; `truncate` keeps the beginning of it.
    """

    type: ClassVar[Literal["allocation"]] = "allocation"
    source: str
    max_tokens: int
    overflow: Literal["drop", "truncate"] = "drop"

    def __post_init__(self) -> None:
        if self.max_tokens < 0:
            raise ConfigError(f"the share of {self.source!r} must not be below 0, it is {self.max_tokens}")


class TokenBudget(Data, frozen=True, tag="token_budget"):
    """The budget of an Agent (guide A): the window, the reserve and a share for each source.

    reserve_tokens: kept for the reply.

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

    @property
    def room(self) -> int:
        """Tokens that a request may take."""
        return self.total_tokens - self.reserve_tokens

    def of(self, source: str) -> Allocation | None:
        """Return the share of a source, None where it has none of its own."""
        return next((item for item in self.allocations if item.source == source), None)
