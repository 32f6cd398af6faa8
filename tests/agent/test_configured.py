"""What an Agent is told: wrong values are refused at once, and what is not named stays."""

from typing import Any

import pytest

from sapwood import Agent, ApprovalDecision, ConfigError, SubagentDefinition, UsageLimits, tool
from sapwood.core.events import ToolFinished
from sapwood.core.require import MOST_SECONDS
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool
def look(what: str = "it") -> str:
    """Look."""
    return f"saw {what}"


def paying(*replies: Any) -> Agent:
    return Agent(llm=scripted(*replies)).with_tools([pay]).with_approval(defer=True)


LIMITED = SubagentDefinition(name="a", description="A.")
WRONG: list[tuple[Any, str]] = [
    (lambda a: a.with_approval(defer=True, expires_seconds=float("inf")), "expires_seconds .* not inf"),
    (lambda a: a.with_approval(defer=True, expires_seconds=float("nan")), "expires_seconds .* not nan"),
    (lambda a: a.with_approval(defer=True, expires_seconds=1e12), "at most 3,162,240,000; not 1000000000000.0"),
    (lambda a: a.with_approval(defer=True, expires_seconds="1"), "expires_seconds .* not '1'"),
    (lambda a: a.with_approval(defer=True, expires_seconds=True), "expires_seconds .* not True"),
    (lambda a: a.with_approval(defer="no"), "defer is True or False, not 'no'"),
    (lambda a: a.with_subagents([], max_depth="3"), "max_depth must be a whole number of at least 1, not '3'"),
    (lambda a: a.with_subagents(LIMITED), "with_subagents takes a list of SubagentDefinitions"),
    (lambda a: a.with_tools(5), "with_tools takes a list of tools, not 5"),
    (lambda a: a.with_sources(5), "with_sources takes a list of context sources, not 5"),
    (lambda a: a.with_hooks(pre_tool_use=5), "pre_tool_use takes a list of functions, not 5"),
    (lambda a: a.with_usage_limits({}), "with_usage_limits takes UsageLimits, not dict"),
    (lambda a: a.with_usage_limits(remaining_budget="yes"), "remaining_budget is True or False"),
    (lambda a: a.as_tool("bad name!", "Asks."), "the name of a tool of an agent .* not 'bad name!'"),
    (lambda a: a.as_tool("good", ""), "needs a description: the model chooses by it"),
    (lambda a: a.as_tool("good", "Asks.", timeout="3"), "timeout .* not '3'"),
    (lambda _: Agent(tool_timeout=float("nan")), "tool_timeout .* not nan"),
    (lambda _: LIMITED.__class__(name="a", description="A.", usage_limits={}), "usage_limits takes UsageLimits"),  # type: ignore[arg-type]
    (lambda _: LIMITED.__class__(name="a", description="A.", timeout="3"), "timeout .* not '3'"),  # type: ignore[arg-type]
    (lambda _: LIMITED.__class__(name="a", description=None), "needs a description"),  # type: ignore[arg-type]
    (lambda _: LIMITED.__class__(name="a", description="A.", tools=5), "tools takes a list of tools, not 5"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "said"), WRONG)
def test_what_cannot_work_is_refused_when_it_is_said(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(Agent(llm=scripted()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": 7}, "by is a text or None, not 7"),
        ({"by": "\ud800"}, "by holds half a character"),
        ({"decisions": ["yes"]}, "decisions is a dict: an answer by the id of each request"),
        ({"extend": []}, "extend is a dict: how much more is allowed, by kind"),
        ({"extend": {"tool_calls": float("nan")}}, r"extend\['tool_calls'\] .* not nan"),
        ({"extend": {"tool_calls": float("inf")}}, r"extend\['tool_calls'\] .* not inf"),
        ({"extend": {"tool_calls": 10**400}}, r"extend\['tool_calls'\] .* not 1000"),
        ({"extend": {"tool_calls": True}}, r"extend\['tool_calls'\] .* not True"),
    ],
)
def test_an_answer_that_could_not_be_read_back_is_refused_and_the_run_goes_on(given: dict[str, Any], said: str) -> None:
    store = InProcessStore()
    list(paying(calls(call("pay", {"cents": 1}))).with_run_store(store).stream("pay"))
    (summary,) = store.runs.waiting(None)
    (request,) = store.runs.load(summary.run_id).waiting()
    answers = {"decisions": {request.id: ApprovalDecision(True)}, **given}

    with pytest.raises(ConfigError, match=said):
        list(paying().with_run_store(store).resume(summary.run_id, **answers))

    after = paying(says("Paid.")).with_run_store(store)
    events = list(after.resume(summary.run_id, {request.id: ApprovalDecision(True)}, by="ann"))
    assert [event.result for event in events if isinstance(event, ToolFinished)] == ["paid 1"]


def called(agent: Agent) -> list[bool]:
    """Return of each call whether it was refused."""
    return [event.is_error for event in agent.stream("go") if isinstance(event, ToolFinished)]


def looking() -> Agent:
    return Agent(llm=scripted(calls(*[call("look")] * 5), says("Seen."))).with_tools([look])


@pytest.mark.parametrize(
    "more", [{"turn": UsageLimits(requests_limit=9)}, {"remaining_budget": True}, {"turn": None}, {}]
)
def test_limits_that_are_not_named_stay(more: dict[str, Any]) -> None:
    agent = looking().with_usage_limits(UsageLimits(tool_calls_limit=2)).with_usage_limits(**more)

    assert called(agent) == [False, False, True, True, True]


def test_calls_that_a_limit_refused_are_not_counted() -> None:
    agent = looking().with_usage_limits(UsageLimits(tool_calls_limit=2))

    list(agent.stream("go"))

    assert agent.last_turn is not None
    assert (agent.last_turn.total_tool_calls, agent.last_turn.run_total_tool_calls) == (2, 2)
    assert [item.tool_calls for item in agent.last_turn.rounds] == [2, 0]


def test_a_limit_on_a_tool_that_nobody_has_is_warned_of() -> None:
    agent = looking().with_usage_limits(UsageLimits(tool_limits={"lok": 2}))

    with pytest.warns(UserWarning, match="tool_limits names 'lok', which is no tool of this agent; it has: look"):
        list(agent.stream("go"))


def test_none_takes_limits_away() -> None:
    agent = looking().with_usage_limits(UsageLimits(tool_calls_limit=2)).with_usage_limits(None)

    assert called(agent) == [False] * 5


def test_a_depth_that_is_not_named_stays() -> None:
    other = SubagentDefinition(name="b", description="B.")
    agent = Agent(llm=scripted()).with_subagents([LIMITED], max_depth=1).with_subagents([other])

    assert agent._config.max_depth == 1


def test_the_longest_time_to_answer_is_a_date() -> None:
    agent = paying(calls(call("pay", {"cents": 1}))).with_approval(defer=True, expires_seconds=MOST_SECONDS)

    list(agent.stream("pay"))

    assert agent.last_turn is not None
    (request,) = agent.last_turn.waiting
    assert request.expires_at is not None


def test_an_agent_that_may_ask_itself_does_so_down_to_the_depth() -> None:
    asks = [calls(call("me", {"task": "deeper"}))] * 4
    agent = Agent(llm=scripted(*asks, *[says("Back.")] * 4))
    agent.with_tools([agent.as_tool("me", "Asks myself.")]).with_subagents([], max_depth=3)

    results = [event.result for event in agent.stream("go") if isinstance(event, ToolFinished)]

    assert results[0].startswith("agents may be nested 3 deep; me would be deeper")
    assert results[1:] == ["Back."] * 3


def test_two_agents_may_ask_each_other() -> None:
    first = Agent(llm=scripted(calls(call("second", {"task": "b"})), says("First is back.")))
    second = Agent(llm=scripted(calls(call("look")), says("Second is back.")))
    first.with_tools([second.as_tool("second", "The second.")])
    second.with_tools([first.as_tool("first", "The first."), look])

    assert "".join(first.chat("go")) == "First is back."


def test_the_limits_of_a_circle_hold_for_every_agent_in_it() -> None:
    first = Agent(llm=scripted())
    second = Agent(llm=scripted())
    first.with_tools([second.as_tool("second", "The second.")])
    second.with_tools([first.as_tool("first", "The first.")])

    with pytest.raises(ConfigError, match="price"):
        second.with_usage_limits(UsageLimits(cost_limit=1.0, strict_cost=True))
