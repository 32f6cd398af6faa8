"""Tokens and money add up, for a reply, a round, a turn and the turns below it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.diagnostics import ChildTurn, TurnDiagnostics
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.usage import RoundUsage, Usage

_count = st.integers(0, 10_000)
_usages = st.builds(
    Usage, _count, _count, _count, _count, _count, st.none() | st.sampled_from([0.0, 0.25, 0.5]), st.booleans()
)


def test_no_token_is_counted_twice() -> None:
    usage = Usage(prompt_tokens=100, completion_tokens=20, cache_creation_tokens=30, cache_read_tokens=400)
    assert (usage.input_tokens, usage.total_tokens) == (530, 550)
    assert usage.replace(thinking_tokens=15).total_tokens == 550  # a part of the output
    assert RoundUsage(0, 100, 20, 50, 60, 30, 400).total_tokens == 550  # schemas and results lie in the prompt


@given(first=_usages, second=_usages, third=_usages)
def test_usage_adds_up_in_any_order(first: Usage, second: Usage, third: Usage) -> None:
    assert (first + second) + third == first + (second + third)
    assert first + second == second + first
    assert first + Usage() == first
    assert (first + second).total_tokens == first.total_tokens + second.total_tokens


@pytest.mark.parametrize(
    ("first", "second", "cost"), [(None, None, None), (0.5, None, 0.5), (None, 0.5, 0.5), (0.25, 0.5, 0.75)]
)
def test_a_cost_that_is_not_told_is_not_zero(first: Any, second: Any, cost: Any) -> None:
    assert (Usage(cost_usd=first) + Usage(cost_usd=second)).cost_usd == cost


def test_a_turn_adds_its_own_rounds_and_the_turns_below_it() -> None:
    rounds = (
        RoundUsage(0, 100, 20, tool_result_tokens=5, cache_creation_tokens=1, cache_read_tokens=2, tool_calls=2,
                   cost_usd=0.5),
        RoundUsage(1, 200, 30, tool_result_tokens=7, tool_calls=1, cost_usd=0.25),
    )  # fmt: skip
    grandchild = TurnDiagnostics((RoundUsage(0, 1_000, tool_calls=4, cost_usd=4.0),))
    child = TurnDiagnostics(
        (RoundUsage(0, 10, 1, tool_calls=1, cost_usd=1.0),), children=(ChildTurn("b", "x", grandchild),)
    )
    turn = TurnDiagnostics(rounds, children=(ChildTurn("a", "helper", child),))
    assert (
        turn.total_prompt_tokens,
        turn.total_completion_tokens,
        turn.total_tool_result_tokens,
        turn.total_tokens,
        turn.total_tool_calls,
        turn.total_cost_usd,
    ) == (300, 50, 12, 353, 3, 0.75)
    assert (turn.run_total_tokens, turn.run_total_tool_calls, turn.run_total_cost_usd) == (353 + 11 + 1_000, 8, 5.75)
    unpriced = TurnDiagnostics((RoundUsage(0, 5), rounds[0]))
    assert (unpriced.total_cost_usd, unpriced.run_total_cost_usd) == (None, None)
    above = turn.replace(children=(*turn.children, ChildTurn("c", "y", unpriced)))
    assert (above.total_cost_usd, above.run_total_cost_usd) == (0.75, None)  # what is not known is not free
    lost = turn.replace(broken_off=Usage(1_000, 10, 5, 6, cost_usd=1.0))
    assert (lost.total_prompt_tokens, lost.total_completion_tokens, lost.total_tokens) == (1_300, 60, 353 + 1_021)
    assert (lost.total_cost_usd, lost.run_total_cost_usd) == (1.75, 6.75)
    assert turn.replace(broken_off=Usage(1)).total_cost_usd is None
    empty = TurnDiagnostics()
    assert (empty.run_total_tokens, empty.run_total_tool_calls, empty.run_total_cost_usd) == (0, 0, 0)


def test_a_ledger_adds_its_sections_and_finds_its_lines() -> None:
    kept, skipped = LedgerLine("a", "a", "memory", 1), LedgerLine("b", "b", "memory", 2, "skipped", "too long")
    ledger = ContextLedger({"system": 5, "memory": 3}, (kept, skipped))
    assert ledger.estimated_tokens == 8
    assert (ledger.of("kept"), ledger.of("skipped"), ledger.of("failed")) == ((kept,), (skipped,), ())
