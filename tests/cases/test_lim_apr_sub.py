"""Public cases on limits (LIM, and USE-05's half), approvals (APR), subagents (SUB) and records (SER-03, SER-04), by id."""

import asyncio
import copy
import pickle
import threading
import time
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    HookResult,
    ServerError,
    SubagentDefinition,
    Usage,
    UsageLimits,
    tool,
)
from sapwood.core import errors
from sapwood.core.errors import LLMError, SapwoodError, UsageLimitError
from sapwood.core.limits import LimitBreach
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import pending_calls, repair
from sapwood.testing import call, calls, fails, says, scripted
from support.governed import Process, answer, of_type, requests_of, run
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def hand(name: str, task: str = "t", id: str = "") -> Any:
    return call("task", {"agent_name": name, "task": task}, id=id)


# ---- limits


@RUNTIMES
@pytest.mark.parametrize("usage", [None, Usage()])
def test_use_05_a_limit_of_tokens_ends_a_run_whose_provider_reports_nothing(usage: Usage | None, runtime: str) -> None:
    def grows(request: ModelRequest) -> Any:
        n = len(request.transcript)
        return calls(call("add", {"a": n}), text="word " * 300, usage=None)

    model = scripted(*[grows] * 30, says("end"))
    agent = Agent(llm=model, max_rounds=30).with_tools([add]).with_usage_limits(UsageLimits(total_tokens_limit=8_000))
    events = run(agent, runtime)
    assert events[-1].stopped_by == "usage_limit"  # type: ignore[union-attr]
    assert len(model.requests) < 15
    assert all(item.estimated for item in events[-1].diagnostics.rounds)  # type: ignore[union-attr]


@RUNTIMES
def test_lim_01_a_tool_call_limit_with_a_parallel_batch(runtime: str) -> None:
    ran: list[int] = []

    @tool(read_only=True)
    def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return n

    model = scripted(calls(*(call("look", {"n": n}) for n in range(7))), says("that is what I saw"))
    agent = Agent(llm=model).with_tools([look]).with_usage_limits(UsageLimits(tool_calls_limit=5))
    events = run(agent, runtime)
    assert sorted(ran) == [0, 1, 2, 3, 4]
    results = model.requests[1].transcript[-1].tool_results
    assert [result.text for result in results[:5]] == ["0", "1", "2", "3", "4"]
    assert all(result.is_error and "limit of 5 tool calls" in result.text for result in results[5:])
    end = events[-1]
    assert (end.stopped_by, end.text) == ("usage_limit", "that is what I saw")  # type: ignore[union-attr]


@RUNTIMES
def test_lim_02_a_child_uses_the_parents_limits(runtime: str) -> None:
    """Five requests in all, the child's last round among them; one more is the parent's own last round."""

    def answer_(request: ModelRequest) -> Any:
        is_child = request.transcript[0].text == "dig"
        if request.tool_choice == "none":
            return says("dug a little" if is_child else "here is what there is")
        return calls(call("add", {"a": len(request.transcript)})) if is_child else calls(hand("digger", "dig"))

    digger = SubagentDefinition(name="digger", description="Digs.", tools=(add,), max_rounds=20)
    model = scripted(*[answer_] * 30)
    agent = Agent(llm=model).with_subagents([digger]).with_usage_limits(UsageLimits(requests_limit=5))
    events = run(agent, runtime)
    assert len(model.requests) == 6
    (task,) = [finish for finish in finishes(events) if not finish.path]
    assert task.result == "dug a little\n\n[partial result] the subagent was stopped by a usage limit."
    assert (events[-1].text, events[-1].stopped_by) == ("here is what there is", "usage_limit")  # type: ignore[union-attr]


@RUNTIMES
def test_lim_03_reaching_a_limit_gives_an_answer_and_a_history_that_can_go_on(runtime: str) -> None:
    """The last of max_rounds is the one that forbids tools, so three rounds of tools want four."""
    ran: list[int] = []

    @tool
    def look(n: int) -> int:
        """Look."""
        ran.append(n)
        return n

    model = scripted(*(calls(call("look", {"n": n})) for n in range(3)), says("so far: A"), says("on"))
    agent = Agent(llm=model, max_rounds=4).with_tools([look])
    events = run(agent, runtime)
    assert (ran, events[-1].text, model.requests[3].tool_choice) == ([0, 1, 2], "so far: A", "none")  # type: ignore[union-attr]
    history = tuple(agent.last_messages)
    assert repair(history) == history
    assert pending_calls(history) == ()
    assert run(agent, runtime, messages=agent.last_messages)[-1].text == "on"  # type: ignore[union-attr]

    stubborn = Agent(llm=scripted(*[calls(call("look", {"n": n})) for n in range(3)]), max_rounds=3).with_tools([look])
    assert run(stubborn, runtime)[-1].stopped_by == "max_rounds"  # type: ignore[union-attr]


@RUNTIMES
def test_lim_04_counters_start_again_for_every_run(runtime: str) -> None:
    model = scripted(*[calls(call("add", {"a": 1}), call("add", {"a": 2}), call("add", {"a": 3})), says("ok")] * 3)
    limits = UsageLimits(tool_calls_limit=3)
    agent = Agent(llm=model, max_rounds=3).with_tools([add]).with_usage_limits(limits, turn=limits)
    history: Any = ()
    for _ in range(3):
        assert run(agent, runtime, messages=history)[-1].stopped_by == "stop"  # type: ignore[union-attr]
        history = agent.last_messages


@RUNTIMES
def test_lim_05_no_tool_is_forced_but_in_the_last_round(runtime: str) -> None:
    """There is no setting that forces a tool of the user's; a structured output releases its own (tests of output)."""
    model = scripted(calls(call("add", {"a": 1})), says("2"))
    agent = Agent(llm=model).with_tools([add])
    before = agent._config
    run(agent, runtime)
    assert [request.tool_choice for request in model.requests] == [None, None]
    assert agent._config is before


def test_lim_06_limits_hold_for_every_way_of_reading_the_run() -> None:
    def made() -> tuple[Agent, Any]:
        model = scripted(
            calls(call("add", {"a": 1})),
            calls(call("add", {"a": 2}), usage=Usage(9_000, 10)),
            says("end"),
            says("never"),
        )
        limits = UsageLimits(total_tokens_limit=8_000)
        return Agent(llm=model).with_tools([add]).with_usage_limits(limits), model

    async def async_text(agent: Agent) -> None:
        assert "".join([text async for text in agent.achat("go")]) == "end"

    ways: list[Any] = [
        lambda agent: run(agent, "blocking"),
        lambda agent: run(agent, "asyncio"),
        lambda agent: "".join(agent.chat("go")),
        lambda agent: asyncio.run(async_text(agent)),
    ]
    for way in ways:
        agent, model = made()
        way(agent)
        assert (len(model.requests), agent.last_turn.stopped_by) == (3, "usage_limit")  # type: ignore[union-attr]


# ---- approvals


@RUNTIMES
def test_apr_01_one_denied_the_others_approved_or_free(runtime: str) -> None:
    ran: list[str] = []

    def made(name: str, gated: bool) -> Any:
        def fn() -> str:
            ran.append(name)
            return name

        return tool(fn, name=name, description=name, requires_approval=gated)

    tools = [made("drop_table", True), made("sum_up", False), made("send", True)]
    model = scripted(calls(call("drop_table", id="c1"), call("sum_up", id="c2"), call("send", id="c3")), says("done"))
    agent = Agent(llm=model).with_tools(tools)
    agent.with_approval(lambda request: ApprovalDecision(request.name == "send", reason="never that table"))
    run(agent, runtime)
    assert ran == ["sum_up", "send"]
    results = model.requests[1].transcript[-1].tool_results
    assert [(result.text, result.is_error) for result in results] == [
        ("Denied: never that table", True),
        ("sum_up", False),
        ("send", False),
    ]


@RUNTIMES
def test_apr_02_the_approver_sees_what_will_run(runtime: str) -> None:
    got: list[Any] = []
    shown: list[Any] = []
    ruled: list[Any] = []

    def above(given: dict[str, Any]) -> bool:
        ruled.append(dict(given))
        return bool(given["cents"] > 600)

    @tool(requires_approval=above)
    def refund(cents: int, reason: str = "kindness") -> str:
        """Refund."""
        got.append({"cents": cents, "reason": reason})
        return "refunded"

    def clamp(name: str, given: dict[str, Any]) -> HookResult:
        return HookResult(updated_input={**given, "cents": min(int(given["cents"]), 500)})

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        shown.append(copy.deepcopy(request.tool_input))
        request.tool_input["cents"] = 1_000_000  # it changes nothing
        return ApprovalDecision(True)

    script = calls(call("refund", {"cents": "900"}))
    clamped = Agent(llm=scripted(script, says("ok"))).with_tools([refund]).with_approval(approve)
    run(clamped.with_hooks(pre_tool_use=clamp), runtime)
    assert (shown, ruled, got) == ([], [{"cents": 500, "reason": "kindness"}], [{"cents": 500, "reason": "kindness"}])

    plain = Agent(llm=scripted(script, says("ok"))).with_tools([refund]).with_approval(approve)
    run(plain, runtime)
    assert shown == [{"cents": 900, "reason": "kindness"}]
    assert got[1] == ruled[1] == shown[0]


@RUNTIMES
def test_apr_03_edited_arguments(runtime: str) -> None:
    sent: list[tuple[str, str]] = []

    @tool(requires_approval=True)
    def send(to: str, body: str) -> str:
        """Send."""
        sent.append((to, body))
        return "sent"

    for edit, expected in (({"to": "bob", "body": "hi"}, [("bob", "hi")]), ({"to": ["x"], "body": "hi"}, [])):
        sent.clear()
        agent = Agent(llm=scripted(calls(call("send", {"to": "ann", "body": "hi"})), says("ok"))).with_tools([send])
        agent.with_approval(lambda request, edit=edit: ApprovalDecision(True, updated_input=edit))
        (finish,) = finishes(run(agent, runtime))
        assert sent == expected
        if expected:
            assert finish.result == 'sent\n[The input was changed before it ran: {"to":"bob","body":"hi"}]'
        else:
            assert finish.is_error
            assert finish.result.startswith("Invalid input for send: to")


def test_apr_04_several_open_approvals_answered_out_of_order() -> None:
    ran: list[int] = []

    @tool(requires_approval=True)
    def act(n: int) -> int:
        """Act."""
        ran.append(n)
        return n

    def made(*replies: Any) -> Agent:
        return Agent(llm=scripted(*replies)).with_tools([act]).with_approval(defer=True)

    first = Process(made(calls(*(call("act", {"n": n}) for n in range(3)))))
    zero, one, two = requests_of(first.run)
    state = Process(made(), first.stored, [answer(two)])
    state = Process(made(), state.stored, [answer(two), answer(two, False), answer(zero).replace(key="r9c9")])
    state = Process(made(), state.stored, [answer(zero)])
    assert (ran, state.end.stopped_by) == ([2, 0], "approval"), "the third one keeps waiting, and no model is asked"
    last = Process(made(says("ok")), state.stored, [answer(one)])
    assert (ran, last.end.stopped_by) == ([2, 0, 1], "stop")
    assert last.tool_results() == [("0", False), ("1", False), ("2", False)]


@RUNTIMES
def test_apr_05_a_remembered_pattern_of_a_path_is_not_climbed_out_of(runtime: str) -> None:
    asked: list[str] = []

    @tool(requires_approval=True)
    def write(path: str) -> str:
        """Write."""
        return f"wrote {path}"

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        path = request.tool_input["path"]
        asked.append(path)
        inside = path == "/memories/a.txt"
        return ApprovalDecision(inside, remember={"path": "/memories/*"} if inside else None)

    paths = ("/memories/a.txt", "/memories/b.txt", "/memories/../settings/main.yaml", "/memories/%2e%2e/x", "/etc/x")
    model = scripted(*(calls(call("write", {"path": path})) for path in paths), says("ok"))
    agent = Agent(llm=model).with_tools([write]).with_approval(approve)
    events = run(agent, runtime)
    assert asked == [paths[0], *paths[2:]]
    assert [finish.result for finish in finishes(events) if not finish.is_error] == [
        "wrote /memories/a.txt",
        "wrote /memories/b.txt",
    ]
    (grant,) = agent.approvals.list()
    assert (grant.tool, grant.arguments, grant.patterns) == ("write", {"path": "/memories/*"}, ("path",))
    assert agent.approvals.revoke(grant.id)
    assert not agent.approvals.revoke(grant.id)
    assert agent.approvals.list() == ()


@RUNTIMES
def test_apr_06_free_and_gated_calls_in_one_reply_with_resume(runtime: str) -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    def erase_temp() -> str:
        """Erase."""
        ran.append("erase")
        return "erased"

    @tool(read_only=True)
    def read_status() -> str:
        """Read."""
        ran.append("read")
        return "green"

    def made(*replies: Any) -> Agent:
        return Agent(llm=scripted(*replies)).with_tools([erase_temp, read_status]).with_approval(defer=True)

    first = Process(made(calls(call("erase_temp", id="c1"), call("read_status", id="c2"))), runtime=runtime)
    agent = made(says("ok"))
    Process(agent, first.stored, [answer(requests_of(first.run)[0])], runtime=runtime)
    assert ran == ["read", "erase"]
    results = agent._llm().requests[0].transcript[-1].tool_results  # type: ignore[attr-defined]
    assert [result.text for result in results] == ["erased", "green"]


@RUNTIMES
@pytest.mark.parametrize("second", [True, False])
def test_apr_07_an_approved_call_runs_once_and_is_not_asked_again(second: bool, runtime: str) -> None:
    ran: list[int] = []

    @tool(requires_approval=True)
    def close_ticket(n: int) -> str:
        """Close."""
        ran.append(n)
        return f"closed {n}"

    def made(*replies: Any) -> Agent:
        return Agent(llm=scripted(*replies)).with_tools([close_ticket]).with_approval(defer=True)

    asked = calls(call("close_ticket", {"n": 4}, id="c1"), call("close_ticket", {"n": 5}, id="c2"))
    first = Process(made(asked), runtime=runtime)
    one, two = requests_of(first.run)
    mid = Process(made(), first.stored, [answer(one, by="ann")], runtime=runtime)
    end = Process(made(says("ok")), mid.stored, [answer(two, second, reason="not that", by="bob")], runtime=runtime)
    assert ran == ([4, 5] if second else [4])
    assert not of_type([*mid.events, *end.events], "approval_requested")
    assert end.tool_results() == [("closed 4", False), ("closed 5", False) if second else ("Denied: not that", True)]
    decided = {item.public_id: (item.decision.approved, item.decision.by) for item in end.run.calls if item.decision}
    assert decided == {}, "the calls of an earlier reply are not kept; the journal of events is"
    said = [event for part in (mid, end) for event in of_type(part.events, "approval_resolved")]
    assert [(event.tool_call_id, event.approved, event.by) for event in said] == [
        ("c1", True, "ann"),
        ("c2", second, "bob"),
    ]


# ---- subagents


@RUNTIMES
def test_sub_01_a_child_that_raises_leaves_the_others_alone(runtime: str) -> None:
    gone = scripted(fails(ServerError("api_key=sk-abcdefghijklmnopqrstu", is_transient=False)))
    definitions = [
        SubagentDefinition(name="a", description="A.", llm=scripted(says("from a"))),
        SubagentDefinition(name="b", description="B.", llm=gone),
        SubagentDefinition(name="c", description="C.", llm=scripted(says("from c"))),
    ]
    model = scripted(calls(hand("a"), hand("b"), hand("c")), says("two of three"))
    events = run(Agent(llm=model).with_subagents(definitions), runtime)
    results = model.requests[1].transcript[-1].tool_results
    assert [(result.text, result.is_error) for result in results] == [
        ("from a", False),
        ("b failed: ServerError: api_key=***", True),
        ("from c", False),
    ]
    assert events[-1].stopped_by == "stop"  # type: ignore[union-attr]
    causes = {child.name: child.diagnostics.stopped_by for child in events[-1].diagnostics.children}  # type: ignore[union-attr]
    assert causes == {"a": "stop", "b": "error", "c": "stop"}


@RUNTIMES
@pytest.mark.parametrize("broken", [RuntimeError("not an LLMError"), KeyError("x"), OSError("disk")])
def test_sub_01_whatever_a_childs_provider_raises_at_once(broken: Exception, runtime: str) -> None:
    class Raises:
        profile = ModelProfile("raises", "raises")

        def stream(self, request: ModelRequest) -> Any:
            raise broken

    b = SubagentDefinition(name="b", description="B.", llm=Raises())
    a = SubagentDefinition(name="a", description="A.", llm=scripted(says("from a")))
    model = scripted(calls(hand("b"), hand("a")), says("one"))
    events = run(Agent(llm=model).with_subagents([a, b]), runtime)
    results = [(finish.result.partition(":")[0], finish.is_error) for finish in finishes(events)]
    assert sorted(results) == [("b failed", True), ("from a", False)]


@RUNTIMES
def test_sub_02_a_child_without_a_final_text_is_never_blank(runtime: str) -> None:
    silent = SubagentDefinition(name="silent", description="S.", llm=scripted(says(""), says("")))
    rounds = scripted(calls(call("add", {"a": 1})), calls(call("add", {"a": 2})))
    cut = SubagentDefinition(name="cut", description="C.", llm=rounds, tools=(add,), max_rounds=2)
    halting = scripted(says("half a sen", stop_reason="max_tokens"))
    short = SubagentDefinition(name="short", description="H.", llm=halting)
    model = scripted(calls(hand("silent"), hand("cut"), hand("short")), says("ok"))
    run(Agent(llm=model).with_subagents([silent, cut, short]), runtime)
    texts = [result.text for result in model.requests[1].transcript[-1].tool_results]
    assert texts == [
        "silent ended without a text.",
        "cut ended without a text: the subagent used up its rounds.",
        "half a sen\n\n[partial result] the subagent's reply was cut off.",
    ]


def test_sub_03_a_child_that_hangs_ends_with_its_caller() -> None:
    cleaned = False

    @tool
    async def hang() -> str:
        """Hang."""
        nonlocal cleaned
        try:
            await asyncio.sleep(60)
        finally:
            cleaned = True
        return "never"

    model = scripted(calls(hand("helper")), calls("hang"))
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(hang,))
    agent = Agent(llm=model).with_subagents([helper])

    async def main() -> None:
        async def consume() -> None:
            async for _ in agent.astream("go"):
                pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 5
    assert cleaned
    assert all(stream.closed for stream in model.streams)
    (child,) = agent.last_turn.children  # type: ignore[union-attr]
    assert child.diagnostics.stopped_by == "cancelled"


@RUNTIMES
def test_sub_03_a_time_limit_ends_what_hangs_and_the_child_tells_what_it_has(runtime: str) -> None:
    """The hanging call is the error; the child may say what it has, marked partial, or is an error without a text."""
    release = threading.Event()

    @tool
    def hang() -> str:
        """Hang."""
        release.wait(30)
        return "never"

    for text, shown, is_error in (
        ("half of it", "half of it\n\n[partial result] the subagent was stopped by a usage limit.", False),
        ("", "helper ended without a text: the subagent was stopped by a usage limit.", True),
    ):
        model = scripted(calls(hand("helper")), calls("hang"), says(text), says("ok"))
        helper = SubagentDefinition(name="helper", description="Helps.", tools=(hang,), timeout=0.1)
        began = time.monotonic()
        events = run(Agent(llm=model).with_subagents([helper]), runtime)
        assert time.monotonic() - began < 5
        inner, outer = finishes(events)
        assert inner.is_error
        assert inner.result.startswith("hang timed out after 0.")
        assert (outer.result, outer.is_error) == (shown, is_error)
    release.set()


def test_sub_04_nothing_is_shared_through_defaults() -> None:
    a, b = Agent(llm=scripted()), Agent(llm=scripted())
    a.with_tools([add]).with_hooks(pre_tool_use=lambda *given: None).with_subagents(
        [SubagentDefinition(name="x", description="X.")]
    )
    c = Agent(llm=scripted())
    for agent in (b, c):
        config = agent._config
        assert (config.tools, config.pre_hooks, config.subagents, config.sources) == ((), (), (), ())
    assert [len(a._config.tools) for _ in range(3)] == [1, 1, 1]
    assert a.approvals is not b.approvals
    assert UsageLimits().tool_limits is not UsageLimits().tool_limits


@RUNTIMES
def test_agents_nest_three_deep_and_a_deeper_one_is_refused(runtime: str) -> None:
    def chain(depth: int) -> SubagentDefinition:
        below = (chain(depth + 1),) if depth < 5 else ()
        return SubagentDefinition(name=f"d{depth}", description="D.", subagents=below)

    def reply(request: ModelRequest) -> Any:
        last = request.transcript[-1]
        if last.role == "tool":
            return says(f"[{last.tool_results[0].text}]")
        depth = 0 if last.text == "go" else int(last.text)
        return calls(hand(f"d{depth + 1}", str(depth + 1)))

    events = run(Agent(llm=scripted(*[reply] * 20)).with_subagents([chain(1)]), runtime)
    assert events[-1].text == (  # type: ignore[union-attr]
        "[[[[agents may be nested 3 deep; d4 would be deeper. Do the task yourself.]]]]"
    )
    narrow = run(Agent(llm=scripted(*[reply] * 20)).with_subagents([chain(1)], max_depth=1), runtime)
    assert "nested 1 deep; d2" in narrow[-1].text  # type: ignore[union-attr]


@RUNTIMES
def test_a_depth_of_ones_own_counts_from_where_one_stands(runtime: str) -> None:
    leaf = SubagentDefinition(name="leaf", description="L.", llm=scripted(says("leaf")))
    middle = Agent(llm=scripted(calls(hand("leaf")), says("middle"))).with_subagents([leaf], max_depth=1)
    agent = Agent(llm=scripted(calls(call("ask", {"task": "t"})), says("top")))
    events = run(agent.with_tools([middle.as_tool("ask", "Asks.")]), runtime)
    assert [finish.result for finish in finishes(events)] == ["leaf", "middle"]


# ---- records


def classes(base: type[BaseException]) -> list[type[BaseException]]:
    return [base, *(found for sub in base.__subclasses__() for found in classes(sub))]


BUILT: list[BaseException] = [
    *(
        kind("it failed", provider="p", model="m", status=500, request_id="r", retry_after_seconds=1.5)
        for kind in classes(LLMError)
    ),
    UsageLimitError("the limit is reached", breach=LimitBreach("cost", 2.0, 1.0)),
    *(
        kind("it failed")
        for kind in classes(SapwoodError)
        if not issubclass(kind, LLMError | UsageLimitError) and kind.__module__ == errors.__name__
    ),
]


@pytest.mark.parametrize("error", BUILT, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("through", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_ser_03_every_error_survives_pickle_and_copies(error: BaseException, through: Any) -> None:
    other = through(error)
    assert type(other) is type(error)
    assert (str(other), other.args[:1], other.__dict__) == (str(error), error.args[:1], error.__dict__)


def test_ser_04_a_tool_called_from_code_with_what_is_no_json_returns_its_value() -> None:
    class Thing:
        pass

    thing, agent = Thing(), Agent(llm=scripted())

    @tool
    def keep(a: Any, fn: Any, who: Any) -> Any:
        """Keep."""
        return (a, fn, who)

    assert keep(thing, print, agent) == (thing, print, agent)


@RUNTIMES
def test_ser_04_what_is_shown_of_arguments_that_are_no_json_is_what_they_are_made_of(runtime: str) -> None:
    """Inside a turn arguments are JSON; a value that a check made of them and that is none is shown as it came."""
    from support.turns import bound, spec, turn

    class Thing:
        def __init__(self, n: int) -> None:
            self.n = n

    seen: list[Any] = []
    act = bound("act", lambda thing: thing.n, check=lambda raw: {"thing": Thing(raw["n"])}, requires_approval=True)
    from sapwood.loop.gate import Gate

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        seen.append(request.tool_input)
        return ApprovalDecision(True)

    model = scripted(calls(call("act", {"n": 7})), says("ok"))
    events = turn(spec(model, [act], gate=Gate(approve=approve)), runtime=runtime)
    assert (seen, finishes(events)[0].result) == ([{"n": 7}], "7")
