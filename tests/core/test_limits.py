"""Limits as values, and the pure questions asked of them."""

import re
from typing import Any

import pytest

from sapwood.core.errors import ConfigError
from sapwood.core.limits import (
    KINDS,
    LimitBreach,
    LimitKind,
    Tally,
    UsageLimits,
    crossed,
    refuses_call,
    would_cross,
)
from sapwood.core.require import MOST
from sapwood.core.usage import Usage

SPENT = Tally(Usage(10, 5, 2, 3, cost_usd=1.5), 2, {"look": 3, "write": 1}, 1.5, seconds=4.0)


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        ("total_tokens", 20),
        ("input_tokens", 15),
        ("output_tokens", 5),
        ("requests", 2),
        ("tool_calls", 4),
        ("cost", 1.5),
        ("seconds", 4.0),
    ],
)
def test_exactly_a_limit_is_allowed_and_more_is_not(kind: LimitKind, used: float) -> None:
    least = used - (0.5 if kind in ("cost", "seconds") else 1)
    assert crossed(UsageLimits(**{f"{kind}_limit": used}), SPENT, "run") == ()
    assert crossed(UsageLimits(**{f"{kind}_limit": least}), SPENT, "turn") == (LimitBreach(kind, used, least, "turn"),)


def test_a_tool_has_a_limit_of_its_own() -> None:
    limits = UsageLimits(tool_limits={"look": 2, "write": 1, "never": 0})
    (breach,) = crossed(limits, SPENT, "run")
    assert breach == LimitBreach("tool", 3, 2, "run", "look")
    assert (breach.name, str(breach)) == ("tool:look", "the limit of 2 calls of look (3 used)")
    assert str(LimitBreach("total_tokens", 20, 10)) == "the limit of 10 total tokens (20 used)"


def test_several_are_told_in_the_order_tokens_calls_cost() -> None:
    limits = UsageLimits(cost_limit=1, tool_calls_limit=1, total_tokens_limit=1, seconds_limit=1, requests_limit=1)
    kinds = [breach.kind for breach in crossed(limits, SPENT, "run")]
    assert kinds == ["total_tokens", "tool_calls", "cost", "requests", "seconds"]


def test_a_cost_that_is_not_known_is_not_free_where_that_is_strict() -> None:
    unpriced = Tally().with_reply(Usage(10, 5))
    assert (unpriced.unpriced, unpriced.cost_usd) == (True, 0.0)
    assert crossed(UsageLimits(cost_limit=1), unpriced, "run") == ()
    strict = UsageLimits(cost_limit=1, strict_cost=True)
    assert [breach.kind for breach in crossed(strict, unpriced, "run")] == ["cost"]
    assert crossed(strict, Tally().with_reply(Usage(10, 5, cost_usd=0.5)), "run") == ()
    assert not Tally().with_reply(Usage()).unpriced


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("total_tokens_limit", 0),
        ("total_tokens_limit", 1.5),
        ("requests_limit", True),
        ("tool_calls_limit", -1),
        ("tool_calls_limit", "5"),
        ("cost_limit", 0),
        ("cost_limit", float("nan")),
        ("seconds_limit", -1.0),
        ("seconds_limit", False),
        ("tool_limits", {"look": -1}),
        ("on_limit", "explode"),
        ("policies", {"cost": "explode"}),
        ("policies", {"costs": "stop"}),
    ],
)
def test_what_cannot_be_a_limit_is_refused_naming_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"must be|a policy is|is no kind") as caught:
        UsageLimits(**{name: value})
    shown = next(iter(value)) if isinstance(value, dict) and name == "tool_limits" else value
    assert name in str(caught.value) or str(shown) in str(caught.value) or "cost" in str(caught.value)


def test_b12_a_misspelt_limit_is_refused() -> None:
    with pytest.raises(TypeError, match="token_limit"):
        UsageLimits(token_limit=5)  # type: ignore[call-arg]


def test_a_policy_is_that_of_the_kind_or_of_all() -> None:
    limits = UsageLimits(on_limit="stop", policies={"cost": "ask"})
    assert (limits.policy_of("cost"), limits.policy_of("tool")) == ("ask", "stop")
    assert {kind for kind, _, _ in UsageLimits(**{f"{k}_limit": 1 for k in KINDS if k != "tool"}).items()} == set(
        KINDS
    ) - {"tool"}


def test_of_two_limits_the_narrower_counts_and_the_own_policy_stays() -> None:
    own = UsageLimits(requests_limit=5, tool_limits={"a": 3}, on_limit="stop")
    other = UsageLimits(requests_limit=7, cost_limit=1.0, tool_limits={"a": 1, "b": 2}, strict_cost=True)
    assert own.narrowed(other) == UsageLimits(
        requests_limit=5, cost_limit=1.0, tool_limits={"a": 1, "b": 2}, strict_cost=True, on_limit="stop"
    )
    assert own.narrowed(None) is own


def test_limits_are_raised_by_kind_and_by_tool_and_only_where_they_are_set() -> None:
    limits = UsageLimits(total_tokens_limit=10, cost_limit=1.0, tool_limits={"a": 3})
    raised = limits.extended({"total_tokens": 5.0, "cost": 0.5, "tool:a": 2, "tool:b": 9, "requests": 4})
    assert raised == UsageLimits(total_tokens_limit=15, cost_limit=1.5, tool_limits={"a": 5})
    assert limits.extended({}) is limits


def test_what_would_cross_leaves_room_for_a_last_round_but_never_more_than_a_quarter() -> None:
    call = Tally(Usage(100, 0), 1)
    limits = UsageLimits(total_tokens_limit=1_000)
    at = Tally(Usage(800, 0), 3)
    assert would_cross(limits, at, call, "run") == ()  # 800 + 100 + 100 is exactly 1,000
    more = Tally(Usage(801, 0), 3)
    assert would_cross(limits, more, call, "run") == (LimitBreach("total_tokens", 901, 1_000, "run"),)
    assert would_cross(limits, more, call, "run", keeps_last=False) == ()
    small = UsageLimits(total_tokens_limit=120)
    assert would_cross(small, Tally(), call, "run") == (LimitBreach("total_tokens", 100, 120, "run"),)
    assert would_cross(UsageLimits(total_tokens_limit=134), Tally(), call, "run") == ()
    assert would_cross(None, at, call, "run") == ()


def test_the_last_request_that_is_allowed_is_the_one_without_tools() -> None:
    limits, call = UsageLimits(requests_limit=3), Tally(requests=1)
    assert would_cross(limits, Tally(requests=1), call, "run") == ()
    assert would_cross(limits, Tally(requests=2), call, "run") == (LimitBreach("requests", 3, 3, "run"),)
    assert would_cross(limits, Tally(requests=2), call, "run", keeps_last=False) == ()


def test_a_call_is_refused_by_the_limits_that_count_calls_alone() -> None:
    tally = Tally(Usage(1_000, 0), calls={"look": 2})
    assert refuses_call(UsageLimits(total_tokens_limit=1), tally, "look", "run") is None
    assert refuses_call(UsageLimits(tool_calls_limit=3), tally, "look", "run") is None
    assert refuses_call(UsageLimits(tool_calls_limit=2), tally, "look", "run") == LimitBreach("tool_calls", 3, 2)
    assert refuses_call(UsageLimits(tool_limits={"look": 2}), tally, "look", "turn") == LimitBreach(
        "tool", 3, 2, "turn", "look"
    )
    assert refuses_call(UsageLimits(tool_limits={"look": 2}), tally, "other", "turn") is None
    assert refuses_call(None, tally, "look", "turn") is None


def test_tallies_add_up() -> None:
    other = Tally(Usage(1, 1), 1, {"look": 1, "read": 2}, 0.5, True, 1.0)
    both = SPENT + other
    assert both == Tally(Usage(11, 6, 2, 3), 3, {"look": 4, "write": 1, "read": 2}, 2.0, True, 5.0)
    assert (both.tool_calls, both.of("tool", "read"), both.of("tool", "x")) == (7, 2, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tool_limits": None}, "tool_limits is a dict: how many calls, by the name of a tool; not None"),
        ({"tool_limits": ["x"]}, "tool_limits is a dict"),
        ({"tool_limits": {"x": None}}, "tool_limits['x'] is None; leave 'x' out for no limit"),
        ({"tool_limits": {1: 1}}, "1 is no text"),
        ({"policies": None}, "policies is a dict"),
        ({"policies": {1: "stop"}}, "1 is no text"),
        ({"strict_cost": "yes"}, "strict_cost is True or False, not 'yes'"),
        ({"requests_limit": 10**400}, "requests_limit must be at most 9,007,199,254,740,992"),
        ({"cost_limit": 10**5000}, "not a huge int"),
        ({"seconds_limit": float("inf")}, "or None for no limit; not inf"),
        ({"cost_limit": float("nan")}, "or None for no limit; not nan"),
    ],
)
def test_a_limit_of_a_wrong_kind_is_refused_with_the_value(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        UsageLimits(**given)


def test_a_limit_that_is_raised_again_and_again_stays_one_that_can_be_stored() -> None:
    limits = UsageLimits(requests_limit=MOST, cost_limit=1.0, tool_limits={"x": MOST})
    extra = {"requests": MOST, "cost": MOST, "tool:x": 1}

    assert limits.extended(extra) == limits.replace(cost_limit=MOST)
