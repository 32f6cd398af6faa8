"""The gate before a function, where the guides' tests do not reach: remembered answers, async things, faults, children."""

import asyncio
import logging
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    BlockingCallError,
    HookResult,
    ServerError,
    SubagentDefinition,
    Usage,
    UsageLimits,
    tool,
)
from sapwood.core.agent_tool import AgentTool
from sapwood.core.events import TextDelta
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile
from sapwood.core.run import Run
from sapwood.core.tools import ToolContext
from sapwood.loop.child import ChildRuntime
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.sources.subagents import SubagentSource
from sapwood.testing import call, calls, fails, says, scripted
from sapwood.testing.faults import Crash, crash_at
from support.clockless import Clockless
from support.governed import of_type, run, spec_of
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


@tool(requires_approval=True)
def act(text: str, n: int = 1) -> str:
    """Act."""
    return f"acted {text}"


def acts(*texts: str) -> Any:
    return [*(calls(call("act", {"text": text})) for text in texts), says("ok")]


# ---- remembered answers


@RUNTIMES
def test_this_very_call_is_not_asked_again_and_a_star_in_it_is_only_a_star(runtime: str) -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.tool_input["text"])
        return ApprovalDecision(True, remember={})

    agent = Agent(llm=scripted(*acts("rm *", "rm *", "rm -rf /"))).with_tools([act]).with_approval(approve)
    events = run(agent, runtime)
    assert asked == ["rm *", "rm -rf /"]
    remembered = of_type(events, "approval_resolved")[1]
    assert (remembered.approved, remembered.by) == (True, f"remembered {agent.approvals.list()[0].id}")


@RUNTIMES
def test_a_remembered_no_counts_before_a_remembered_yes_with_its_reason(runtime: str) -> None:
    decisions = iter(
        [
            ApprovalDecision(True, remember={"text": "*"}),
            ApprovalDecision(False, reason="never", remember={}),
        ]
    )
    agent = Agent(llm=scripted(*acts("a", "b", "b"), *acts("b", "c"))).with_tools([act])
    agent.with_approval(lambda request: next(decisions))
    run(agent, runtime)
    agent.approvals.clear()
    agent.with_approval(lambda request: ApprovalDecision(False, reason="never", remember={}))
    run(agent, runtime)
    assert [(grant.arguments["text"], grant.approved) for grant in agent.approvals.list()] == [
        ("b", False),
        ("c", False),
    ]
    agent.with_approval(lambda request: pytest.fail("asked"))
    again = Agent(llm=scripted(*acts("b")))
    again.with_tools([act]).with_approval(lambda request: pytest.fail("asked"))
    for grant in agent.approvals.list():
        again.approvals.add(grant)
    assert finishes(run(again, runtime))[0].result == "Denied: never"


@RUNTIMES
def test_a_pattern_for_an_argument_that_is_not_there_is_told_of(runtime: str, caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(llm=scripted(*acts("a"))).with_tools([act])
    agent.with_approval(lambda request: ApprovalDecision(True, remember={"txt": "*"}))
    with caplog.at_level(logging.WARNING):
        run(agent, runtime)
    assert "act has no argument txt" in caplog.text
    assert agent.approvals.list()[0].patterns == ()


@RUNTIMES
def test_an_answer_holds_for_a_subagent_of_the_same_agent_too(runtime: str) -> None:
    asked: list[Any] = []

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.path)
        return ApprovalDecision(True, remember={})

    helper = SubagentDefinition(name="helper", description="Helps.", tools=(act,))
    model = scripted(
        calls(call("act", {"text": "a"})),
        calls(call("task", {"agent_name": "helper", "task": "t"})),
        *acts("a"),
        says("end"),
    )
    run(Agent(llm=model).with_tools([act]).with_subagents([helper]).with_approval(approve), runtime)
    assert asked == [()]


# ---- things that are async under a running loop


def test_what_is_async_is_refused_to_the_caller_where_a_loop_runs_in_the_thread() -> None:
    async def hook(*given: Any) -> None:
        await asyncio.sleep(0)

    async def rule(given: Any) -> bool:
        await asyncio.sleep(0)
        return True

    @tool
    def plain() -> str:
        """Plain."""
        return "ran"

    def agents() -> list[Agent]:
        ruled = AgentTool(
            name="plain", description="P.", input_schema={"type": "object"}, fn=lambda: "ran", requires_approval=rule
        )
        inner = SubagentDefinition(name="inner", description="I.", tools=(ruled,))
        ask = call("task", {"agent_name": "inner", "task": "t"})
        return [
            Agent(llm=scripted(calls("plain"))).with_tools([plain]).with_hooks(pre_tool_use=hook),
            Agent(llm=scripted(calls("plain"))).with_tools([plain]).with_hooks(post_tool_use=hook),
            Agent(llm=scripted(calls("plain"))).with_tools([ruled]),
            Agent(llm=scripted(calls(ask), calls("plain"))).with_subagents([inner]),
        ]

    async def main() -> None:
        for agent in agents():
            with pytest.raises(BlockingCallError):
                list(agent.stream("go"))

    asyncio.run(main())


# ---- crashes


@RUNTIMES
@pytest.mark.parametrize("point", ["tool.before", "tool.after"])
def test_a_crash_at_a_fault_point_is_felt_by_the_caller(point: str, runtime: str) -> None:
    @tool
    def plain() -> str:
        """Plain."""
        return "ran"

    agent = Agent(llm=scripted(calls("plain"))).with_tools([plain])
    with crash_at(point), pytest.raises(Crash):
        run(agent, runtime)
    assert [item.state for item in agent._last.live.run.calls] == ["running"]  # type: ignore[union-attr]


# ---- children


@RUNTIMES
def test_a_child_waits_and_tries_again_on_the_callers_runtime(runtime: str) -> None:
    helper = SubagentDefinition(
        name="helper", description="Helps.", llm=scripted(fails(ServerError("busy")), says("x"))
    )
    model = scripted(calls(call("task", {"agent_name": "helper", "task": "t"})), says("ok"))
    clockless = Clockless(runtime)
    events = clockless.run(spec_of(Agent(llm=model).with_subagents([helper])))
    assert len(clockless.waited) == 1
    assert [event.path for event in of_type(events, "provider_waiting")] == [("r0c0",)]
    assert finishes(events)[0].result == "x"


@RUNTIMES
def test_a_subagent_that_asks_the_callers_model_has_its_retries_and_caching(runtime: str) -> None:
    helper = SubagentDefinition(name="helper", description="Helps.")
    model = scripted(calls(call("task", {"agent_name": "helper", "task": "t"})), fails(ServerError("busy")), says("ok"))
    agent = Agent(llm=model, max_retries=0, cache=False).with_subagents([helper])
    events = run(agent, runtime)
    assert finishes(events)[0].result == "helper failed: ServerError: busy"
    assert model.requests[1].cache == model.requests[0].cache


@RUNTIMES
def test_a_model_that_cannot_be_made_is_an_error_of_the_call_alone(runtime: str) -> None:
    strict = UsageLimits(cost_limit=1.0, strict_cost=True)
    priced = ModelProfile("anthropic", "claude-haiku-4-5", context_window=200_000)
    model = scripted(calls(call("ask", {"task": "t"})), says("without"), profile=priced)
    inner = Agent(llm=scripted())
    agent = Agent(llm=model).with_tools([inner.as_tool("ask", "Asks.")])
    setup = spec_of(agent)
    setup.pool.limits = strict  # as a price that was taken out of the table meanwhile
    events = list(iterate(run_turn(start_run("r"), setup, BlockingRuntime(), prompt=Message.user("go"))))
    (finish,) = finishes(events)
    assert finish.is_error
    assert finish.result.startswith("ConfigError: the price of scripted/scripted is not known")


def test_a_childs_runtime_is_the_callers_and_notes_outcomes_under_its_path() -> None:
    noted: list[Any] = []
    ran: list[str] = []

    class Noting(BlockingRuntime):
        async def settle(self, event: Any) -> None:
            noted.append(event.path)

        async def checkpoint(self, run: Run, event: Any) -> None:
            noted.append("checkpoint")

    rt = ChildRuntime(ChildRuntime(Noting(), "outer"), "inner")

    async def main() -> None:
        await rt.settle(TextDelta(text="a", path=("deep",)))
        await rt.checkpoint(Run(), TextDelta(text="a"))
        rt.background("b", lambda: ran.append("b"))

    asyncio.run(main())
    assert (noted, ran) == ([("outer", "inner", "deep")], ["b"])
    assert rt.now() is not None
    assert 0 <= rt.random() <= 1


def test_the_task_tool_does_nothing_outside_of_a_turn() -> None:
    source = SubagentSource({"helper": "Helps."})
    (task,) = source.contribute(None).tools  # type: ignore[arg-type]
    with pytest.raises(Exception, match="inside a turn only"):
        task.run({}, ToolContext())  # type: ignore[union-attr]


# ---- the note on a budget, in dollars


def test_what_is_left_of_a_budget_is_told_in_dollars() -> None:
    priced = ModelProfile("anthropic", "claude-haiku-4-5", context_window=200_000)
    model = scripted(calls("look", usage=Usage(10, 1, cost_usd=1.25)), says("ok"), profile=priced)

    @tool
    def look() -> str:
        """Look."""
        return "x"

    agent = Agent(llm=model).with_tools([look])
    run(agent.with_usage_limits(UsageLimits(cost_limit=2.0), remaining_budget=True))
    assert [request.notice for request in model.requests] == [
        "[system] Left for this task: $2.00.",
        "[system] Left for this task: $0.75.",
    ]


@RUNTIMES
def test_a_hook_that_asks_tells_why(runtime: str) -> None:
    reasons: list[Any] = []

    @tool
    def plain() -> str:
        """Plain."""
        return "ran"

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        reasons.append(request.reason)
        return ApprovalDecision(True)

    hooks = [lambda *given: HookResult(decision="ask", reason="odd hour"), lambda *given: HookResult(decision="ask")]
    agent = Agent(llm=scripted(calls("plain"), says("ok"))).with_tools([plain]).with_approval(approve)
    run(agent.with_hooks(pre_tool_use=hooks), runtime)
    assert reasons == ["odd hour"]
