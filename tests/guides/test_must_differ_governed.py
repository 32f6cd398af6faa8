"""Faults of a peer in limits, hooks, approval and subagents: each test has the number of its fault and asserts what is right.

B12 is in tests/core/test_limits.py and test_approval.py, B35's checks of input in test_guide_a_governed.py.
"""

import asyncio
import contextlib
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    CancelToken,
    ConfigError,
    HookResult,
    RunCancelledError,
    ServerError,
    SubagentDefinition,
    Usage,
    UsageLimits,
    tool,
)
from sapwood.core.agent_tool import AgentTool
from sapwood.testing import call, calls, fails, says, scripted
from support.governed import of_type, run
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def hand(name: str = "helper", task: str = "t", id: str = "") -> Any:
    return call("task", {"agent_name": name, "task": task}, id=id)


@RUNTIMES
def test_b5_hooks_and_approval_of_the_caller_hold_below_it(runtime: str) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []
    seen: list[str] = []

    @tool(requires_approval=True)
    def erase() -> str:
        """Erase."""
        return "erased"

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append((request.id, request.path))
        return ApprovalDecision(True)

    def deny(name: str, given: Any) -> HookResult | None:
        seen.append(name)
        return HookResult(decision="deny", reason="no sums") if name == "add" else None

    helper = SubagentDefinition(name="helper", description="Helps.", tools=(add, erase))
    model = scripted(calls(hand(id="t1")), calls(call("add", {"a": 1}), call("erase", id="e1")), says("x"), says("y"))
    agent = Agent(llm=model).with_subagents([helper]).with_hooks(pre_tool_use=deny).with_approval(approve)
    events = run(agent, runtime)
    assert seen == ["task", "add", "erase"]
    assert asked == [("t1/e1", ("t1",))]
    below = [finish.result for finish in finishes(events) if finish.path]
    assert below == ["Denied: no sums", "erased"]


@RUNTIMES
def test_b5_time_outs_caps_and_what_is_shown_of_errors_hold_below_it_and_only_narrow(runtime: str) -> None:
    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.sleep(5)
        return "late"

    @tool
    def long() -> str:
        """Long."""
        return "word " * 5_000

    @tool
    def boom() -> str:
        """Boom."""
        raise ValueError("the secret")

    model = scripted(calls(call("ask", {"task": "t"})), calls("hang", "long", "boom"), says("x"), says("y"))
    inner = Agent(llm=model, tool_timeout=60, tool_result_max_tokens=100_000).with_tools([hang, long, boom])
    outer = Agent(llm=model, tool_timeout=0.05, tool_result_max_tokens=100, expose_errors=False)
    events = run(outer.with_tools([inner.as_tool("ask", "Asks.")]), runtime)
    hung, cut, failed = [finish.result for finish in finishes(events) if finish.path]
    assert hung.startswith("hang timed out after 0.05 s")
    assert len(cut) < 2_000
    assert failed == "Internal error"


def test_b5_hooks_of_both_are_asked_the_callers_first_and_last() -> None:
    seen: list[str] = []

    def note(word: str) -> Any:
        return lambda *given: seen.append(word)

    model = scripted(calls(call("ask", {"task": "t"})), calls(call("add", {"a": 1})), says("x"), says("y"))
    inner = Agent(llm=model).with_tools([add]).with_hooks(pre_tool_use=note("in pre"), post_tool_use=note("in post"))
    outer = Agent(llm=model).with_tools([inner.as_tool("ask", "Asks.")])
    outer.with_hooks(pre_tool_use=note("out pre"), post_tool_use=note("out post"))
    run(outer)
    assert seen == ["out pre", "out pre", "in pre", "in post", "out post", "out post"]


def test_b17_two_turns_at_once_and_one_inside_another_keep_apart() -> None:
    async def main() -> list[str]:
        def answer(request: Any) -> Any:
            last = request.transcript[-1]
            return says(f"{request.transcript[0].text} done") if last.role == "tool" else calls(call("add", {"a": 1}))

        agent = Agent(llm=scripted(*[answer] * 40)).with_tools([add]).with_usage_limits(UsageLimits(tool_calls_limit=1))

        async def one(name: str) -> str:
            events = [event async for event in agent.astream(name)]
            assert events[-1].stopped_by == "stop", "each turn has a pool of its own"  # type: ignore[union-attr]
            return events[-1].text  # type: ignore[union-attr, return-value]

        return list(await asyncio.gather(*(one(f"q{n}") for n in range(10))))

    assert asyncio.run(main()) == [f"q{n} done" for n in range(10)]


@RUNTIMES
def test_b17_an_agent_may_be_asked_from_its_own_tool(runtime: str) -> None:
    agents: list[Agent] = []

    @tool
    def recurse() -> str:
        """Ask again."""
        return "".join(agents[0].chat("inner"))

    def answer(request: Any) -> Any:
        if request.transcript[-1].role == "tool":
            return says("outer done")
        return says("inner done") if request.transcript[0].text == "inner" else calls("recurse")

    agent = Agent(llm=scripted(*[answer] * 5)).with_tools([recurse]).with_usage_limits(UsageLimits(tool_calls_limit=1))
    agents.append(agent)
    events = run(agent, runtime)
    assert finishes(events)[0].result == "inner done"
    assert (events[-1].text, events[-1].stopped_by) == ("outer done", "stop")  # type: ignore[union-attr]
    assert agent.last_turn == events[-1].diagnostics  # type: ignore[union-attr]


@RUNTIMES
def test_b29_a_wide_batch_runs_as_far_as_the_limit_and_not_further(runtime: str) -> None:
    ran: list[int] = []

    @tool(read_only=True)
    async def look(n: int) -> int:
        """Look."""
        await asyncio.sleep(0)
        ran.append(n)
        return n

    model = scripted(calls(*(call("look", {"n": n}) for n in range(12))), says("enough"))
    agent = Agent(llm=model).with_tools([look]).with_usage_limits(UsageLimits(tool_limits={"look": 5}))
    events = run(agent, runtime)
    assert sorted(ran) == [0, 1, 2, 3, 4]
    assert len(finishes(events)) == 12
    assert events[-1].diagnostics.limits[0].name == "tool:look"  # type: ignore[union-attr]


@RUNTIMES
def test_b31_why_a_turn_ended_is_said_of_errors_cancels_and_early_leaves(runtime: str) -> None:
    broken = Agent(llm=scripted(fails(ServerError("gone", is_transient=False))))
    with pytest.raises(ServerError):
        run(broken, runtime)
    assert broken.last_turn is not None
    assert (broken.last_turn.stopped_by, broken.last_turn.error) == ("error", "ServerError: gone")

    token = CancelToken()

    @tool
    def stop() -> str:
        """Stop."""
        token.cancel("enough")
        return "stopped"

    cancelled = Agent(llm=scripted(calls("stop"), says("x"))).with_tools([stop])
    with pytest.raises(RunCancelledError):
        run(cancelled, runtime, cancel=token)
    assert cancelled.last_turn is not None
    assert (cancelled.last_turn.stopped_by, cancelled.last_turn.error) == ("cancelled", "RunCancelledError: enough")

    left = Agent(llm=scripted(says("a b c")))
    with contextlib.closing(left.chat("go")) as texts:
        next(texts)
    assert left.last_turn is not None
    assert left.last_turn.stopped_by == "cancelled"


@RUNTIMES
@pytest.mark.parametrize("how", ["stop", "limit", "error", "cancelled", "paused", "closed"])
def test_b31_the_turns_of_children_are_reported_however_they_ended(how: str, runtime: str) -> None:
    token = CancelToken()

    @tool(requires_approval=how == "paused")
    def act() -> str:
        """Act."""
        if how == "cancelled":
            token.cancel()
        return "acted"

    used = Usage(5_000, 0)
    second: Any = says("acted", usage=used)
    if how == "error":
        second = fails(ServerError("gone", is_transient=False))
    helper = SubagentDefinition(
        name="helper",
        description="Helps.",
        tools=(act,),
        usage_limits=UsageLimits(total_tokens_limit=4_000) if how == "limit" else None,
    )
    agent = Agent(llm=scripted(calls(hand()), calls("act", usage=used), second, says("done"))).with_subagents([helper])
    agent = agent.with_approval(defer=True) if how == "paused" else agent
    if how == "closed":
        _leave_in_child(agent, runtime)
    else:
        with contextlib.suppress(RunCancelledError):
            run(agent, runtime, cancel=token)
    assert agent.last_turn is not None
    (child,) = agent.last_turn.children
    causes = {"limit": "usage_limit", "paused": "approval", "closed": "cancelled"}
    assert (child.name, child.diagnostics.stopped_by) == ("helper", causes.get(how, how))
    assert child.diagnostics.total_tokens >= 5_000
    assert agent.last_turn.run_total_tokens >= agent.last_turn.total_tokens + 5_000
    if how == "error":
        assert child.diagnostics.error == "helper failed: ServerError: gone"


def _leave_in_child(agent: Agent, runtime: str) -> None:
    async def main() -> None:
        async with contextlib.aclosing(agent.astream("go")) as events:
            async for event in events:
                if event.type == "tool_running" and event.path:
                    return

    if runtime == "asyncio":
        asyncio.run(main())
        return
    with contextlib.closing(agent.stream("go")) as events:
        for event in events:
            if event.type == "tool_running" and event.path:
                return


@RUNTIMES
def test_b35_errors_with_secrets_can_be_redacted_and_the_record_stays(runtime: str) -> None:
    @tool
    def leak(n: int) -> str:
        """Leak."""
        raise RuntimeError("customer 4711 is broke")

    model = scripted(calls(call("leak", {"n": 1})), says("ok"))
    agent = Agent(llm=model).with_tools([leak])
    agent.with_hooks(post_tool_use=lambda name, given, text: HookResult(updated_output=text.replace("4711", "…")))
    events = run(agent, runtime)
    assert "4711" not in repr(events)
    assert "4711" not in repr(model.requests)
    assert finishes(events)[0].is_error


def test_b37_an_agent_as_a_tool_works_under_one_event_loop_after_another() -> None:
    inner = Agent(llm=scripted(*[says("inner")] * 4))
    ask = [call("ask", {"task": str(n)}) for n in range(2)]
    model = scripted(*[calls(*ask), says("done")] * 2)
    agent = Agent(llm=model).with_tools([inner.as_tool("ask", "Asks.")])
    for _ in range(2):
        events = run(agent, "asyncio")
        assert [finish.result for finish in finishes(events) if not finish.path] == ["inner", "inner"]


def test_an_agent_as_a_tool_is_a_function_too() -> None:
    asks = Agent(llm=scripted(says("an answer"))).as_tool("ask", "Asks.")
    assert isinstance(asks, AgentTool)
    assert asks("a question") == "an answer"


def test_hooks_and_approval_that_cannot_be_meant_are_refused_when_configured() -> None:
    agent = Agent(llm=scripted())
    for wrong, said in [
        (lambda: agent.with_hooks(pre_tool_use="x"), "pre_tool_use takes a list of functions, not 'x'"),
        (lambda: agent.with_hooks(post_tool_use=[1]), "post_tool_use takes functions, not 1"),
        (lambda: agent.with_approval(), "needs a callback, or defer=True"),
        (lambda: agent.with_approval(print, defer=True), "not both"),
        (lambda: agent.with_approval(7), "must be a function, not 7"),
        (
            lambda: agent.with_approval(defer=True, expires_seconds=0),
            "expires_seconds is None for never, or seconds, a number above 0",
        ),
        (lambda: agent.with_approval(defer=True, on_unknown="guess"), "on_unknown is"),
        (lambda: agent.with_usage_limits({"cost_limit": 1}), "takes UsageLimits, not dict"),
    ]:
        with pytest.raises(ConfigError, match=said):
            wrong()  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match="pre_tool"):
        agent.with_hooks(pre_tool=print)  # type: ignore[call-arg]


@RUNTIMES
def test_hooks_are_asked_about_meta_tools_too(runtime: str) -> None:
    from sapwood.context.source import ContextSource, Contribution, Loaded, Turn
    from sapwood.core.messages import ToolCall
    from sapwood.core.tools import ToolSchema

    handled: list[Any] = []

    class Finder(ContextSource):
        name = "finder"

        def contribute(self, turn: Turn) -> Contribution:
            return Contribution(tools=[ToolSchema("find")], meta_tools=["find"])

        def handle(self, call: ToolCall, turn: Turn) -> Loaded:
            handled.append(call.arguments)
            return Loaded(result="found it")

    def hook(name: str, given: dict[str, Any]) -> HookResult:
        if given["q"] == "secret":
            return HookResult(decision="deny", reason="not that")
        return HookResult(updated_input={"q": given["q"].upper()})

    model = scripted(calls(call("find", {"q": "tea"}), call("find", {"q": "secret"})), says("ok"))
    agent = Agent(llm=model).with_sources([Finder()])
    agent.with_hooks(pre_tool_use=hook, post_tool_use=lambda name, given, text: HookResult(updated_output=f"<{text}>"))
    events = run(agent, runtime)
    assert handled == [{"q": "TEA"}]
    assert [finish.result for finish in finishes(events)] == ["<found it>", "<Denied: not that>"]


@RUNTIMES
def test_an_answer_that_comes_after_the_cancel_runs_nothing(runtime: str) -> None:
    token = CancelToken()

    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        pytest.fail("it ran")

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        token.cancel()
        return ApprovalDecision(True)

    agent = Agent(llm=scripted(calls("act"))).with_tools([act]).with_approval(approve)
    with pytest.raises(RunCancelledError):
        run(agent, runtime, cancel=token)
    live = agent._last.live.run  # type: ignore[union-attr]
    assert [item.state for item in live.calls] in ([["decided"], ["waiting"]])


@RUNTIMES
def test_a_callback_that_is_cancelled_inside_is_a_no_and_the_turn_goes_on(runtime: str) -> None:
    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        pytest.fail("it ran")

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        raise asyncio.CancelledError

    agent = Agent(llm=scripted(calls("act"), says("ok"))).with_tools([act]).with_approval(approve)
    events = run(agent, runtime)
    assert finishes(events)[0].result.startswith("Denied: the approval failed (StepCancelledError")
    assert of_type(events, "turn_finished")[0].stopped_by == "stop"
