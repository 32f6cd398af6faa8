"""Budgets: the room they leave and the values they refuse."""

import pytest

from sapwood.core.budget import Allocation, Budget, TokenBudget
from sapwood.core.errors import ConfigError

MEMORY = Allocation("memory", 200)


def test_the_room_is_the_window_without_the_reserve() -> None:
    assert [Budget(100).room, Budget(100, reserve=99).room] == [100, 1]
    assert [TokenBudget(100).room, TokenBudget(100, reserve_tokens=99).room] == [100, 1]


def test_a_share_is_found_by_the_name_of_its_source() -> None:
    budget = TokenBudget(1_000, allocations=(MEMORY, Allocation("documents", 300, "truncate")))
    assert budget.of("documents") == Allocation("documents", 300, overflow="truncate")
    assert budget.of("memory") is MEMORY
    assert budget.of("tools") is None


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Budget(0), "max_tokens must be above 0, not 0"),
        (lambda: Budget(-5), "max_tokens must be above 0, not -5"),
        (lambda: Budget(100, reserve=-1), "reserve must be 0 to 99, not -1"),
        (lambda: Budget(100, reserve=100), "reserve must be 0 to 99, not 100"),
        (lambda: TokenBudget(0), "total_tokens must be above 0, not 0"),
        (lambda: TokenBudget(100, reserve_tokens=100), "reserve_tokens must be 0 to 99, not 100"),
        (lambda: TokenBudget(100, reserve_tokens=-1), "reserve_tokens must be 0 to 99, not -1"),
        (lambda: TokenBudget(100).replace(total_tokens=-1), "total_tokens must be above 0, not -1"),
    ],
)
def test_a_window_that_leaves_no_room_is_refused(make: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()  # type: ignore[operator]
