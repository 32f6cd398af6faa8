"""A turn that pauses, and goes on from a JSON copy with the answers, as if in another process."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sapwood import Agent, ApprovalDecision, ApprovalRequest, HookResult, SubagentDefinition, Usage, UsageLimits, tool
from sapwood.core.approval import ApprovalGrant
from sapwood.core.codec import dump_run, load_run
from sapwood.core.events import ApprovalResolved, LimitExtended, ToolRunning
from sapwood.core.transcript import INTERRUPTED
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import call, calls, fold, says, scripted
from support.governed import Process, answer, of_type, requests_of, spec_of
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool(requires_approval=True)
def close(n: int, why: str = "done") -> str:
    """Close a ticket."""
    RAN.append((n, why))
    return f"closed {n}"


@tool(read_only=True)
def status() -> str:
    """Tell the status."""
    RAN.append("status")
    return "green"


@tool(external=True)
def measure(place: str) -> str:
    """Measure, by hand."""
    raise AssertionError("nothing runs here")


def agent(*replies: Any, **more: Any) -> Agent:
    return Agent(llm=scripted(*replies)).with_tools([close, status, measure]).with_approval(defer=True, **more)


def closes(*numbers: int) -> Any:
    return calls(*(call("close", {"n": number}) for number in numbers))


@RUNTIMES
def test_free_calls_run_and_the_turn_pauses_for_the_others(runtime: str) -> None:
    first = Process(agent(calls(call("close", {"n": 4}, id="c1"), "status")), runtime=runtime)
    assert (first.end.stopped_by, RAN) == ("approval", ["status"])
    (waiting,) = first.waiting
    assert (waiting.tool_call_id, waiting.name, waiting.tool_input) == ("c1", "close", {"n": 4, "why": "done"})
    assert (waiting.kind, waiting.run_id, waiting.path, waiting.expires_at) == ("approval", "run-1", (), None)

    second = Process(agent(says("ok")), first.stored, [answer(requests_of(first.run)[0])], runtime=runtime)
    assert RAN == ["status", (4, "done")]
    assert second.tool_results() == [("closed 4", False), ("green", False)], "in the order of the calls"
    assert second.end.stopped_by == "stop"
    assert second.events[0].type == "turn_resumed"


@RUNTIMES
def test_partial_answers_run_what_they_answer_and_the_rest_waits_on(runtime: str) -> None:
    first = Process(agent(closes(1, 2, 3)), runtime=runtime)
    one, two, three = requests_of(first.run)
    second = Process(agent(), first.stored, [answer(three)], runtime=runtime)
    assert (RAN, second.end.stopped_by) == ([(3, "done")], "approval")
    assert [request.tool_input["n"] for request in second.waiting] == [1, 2]
    third = Process(agent(), second.stored, [answer(one, False, reason="not yet")], runtime=runtime)
    assert third.end.stopped_by == "approval"
    last = Process(agent(says("ok")), third.stored, [answer(two)], runtime=runtime)
    assert RAN == [(3, "done"), (2, "done")]
    assert last.tool_results() == [("Denied: not yet", True), ("closed 2", False), ("closed 3", False)]


@RUNTIMES
def test_no_answer_at_all_pauses_again_and_asks_no_model(runtime: str) -> None:
    first = Process(agent(closes(1)), runtime=runtime)
    second = Process(agent(), first.stored, runtime=runtime)
    assert [event.type for event in second.events] == ["turn_resumed", "turn_finished"]
    assert second.run == first.run


def test_a_second_answer_a_strangers_and_one_to_another_input_count_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = Process(agent(closes(1, 2)))
    one, two = requests_of(first.run)
    odd = [
        answer(one),
        answer(one, False),
        answer(two).replace(key="r7c7"),
        answer(two).replace(path=("nobody",)),
        answer(two).replace(digest="0" * 16),
        answer(two).replace(digest=""),
        ToolRunning(key="r0c1"),
    ]
    with caplog.at_level(logging.WARNING):
        second = Process(agent(), first.stored, odd)
    assert (RAN, second.end.stopped_by) == ([(1, "done")], "approval")
    assert len(of_type(second.events, "approval_resolved")) == 1
    said = [record.message.partition(",")[2].partition(":")[0] for record in caplog.records]
    nothing, other = " as nothing waits for it", " as it is to another input"
    assert said == [nothing, nothing, nothing, other, other, nothing]
    late = Process(agent(says("ok")), second.stored, [answer(one), answer(two)])
    assert RAN == [(1, "done"), (2, "done")], "what has run does not run again"
    assert late.end.stopped_by == "stop"


def test_the_fold_lets_no_answer_wake_a_call_that_is_over() -> None:
    first = Process(agent(closes(1)))
    (request,) = requests_of(first.run)
    done = Process(agent(says("ok")), first.stored, [answer(request)]).run
    assert fold([answer(request)], done) == done
    running = fold([answer(request), ToolRunning(key="r0c0")], first.run.replace(phase="replied"))
    assert fold([answer(request, False)], running) == running


# ---- expiry

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@RUNTIMES
def test_an_expired_request_is_denied_whatever_the_answer_and_without_one(runtime: str) -> None:
    waits = agent(closes(1, 2), expires_seconds=60)
    first = Process(waits, runtime=runtime, now=NOON)
    one, _ = requests_of(first.run)
    assert one.expires_at == NOON + timedelta(seconds=60)

    in_time = Process(agent(), first.stored, [answer(one)], runtime=runtime, now=NOON + timedelta(seconds=60))
    assert (RAN, in_time.end.stopped_by) == ([(1, "done")], "approval"), "exactly then is in time, and the other waits"

    RAN.clear()
    late = Process(agent(says("ok")), first.stored, [answer(one)], runtime=runtime, now=NOON + timedelta(seconds=61))
    assert RAN == []
    assert late.tool_results() == [("Denied: nobody answered in time (until 2026-01-01 12:01:00+00:00)", True)] * 2


def test_a_request_of_an_inline_callback_and_of_no_expiry_never_expires() -> None:
    first = Process(agent(closes(1)), now=NOON)
    later = Process(agent(), first.stored, now=NOON + timedelta(days=4_000))
    assert later.end.stopped_by == "approval"


# ---- what was shown is what runs


def test_a_changed_definition_is_refused() -> None:
    first = Process(agent(closes(1)))

    @tool(name="close", requires_approval=True)
    def other(n: int, why: str = "done", also: str = "all") -> str:
        """Close a ticket."""
        pytest.fail("it ran")

    changed = Agent(llm=scripted(says("ok"))).with_tools([other]).with_approval(defer=True)
    second = Process(changed, first.stored, [answer(requests_of(first.run)[0])])
    assert second.tool_results() == [("Denied: close was changed since it was asked for; ask again", True)]


def test_a_tool_that_is_gone_is_an_error_result() -> None:
    first = Process(agent(closes(1)))
    gone = Agent(llm=scripted(says("ok"))).with_tools([status]).with_approval(defer=True)
    second = Process(gone, first.stored, [answer(requests_of(first.run)[0])])
    assert second.tool_results()[0][0].startswith("Unknown tool: close")


def test_a_stored_input_that_was_changed_is_refused() -> None:
    first = Process(agent(closes(1)))
    spoilt = first.stored.replace(b'"tool_input":{"n":1', b'"tool_input":{"n":9').replace(
        b'"raw_input":{"n":1', b'"raw_input":{"n":9'
    )
    assert spoilt != first.stored
    second = Process(agent(says("ok")), spoilt, [answer(requests_of(first.run)[0])])
    assert RAN == []
    assert second.tool_results() == [("Denied: the input of close is not what was shown; ask again", True)]


@RUNTIMES
def test_a_person_may_change_the_input_and_the_model_is_told(runtime: str) -> None:
    first = Process(agent(closes(1, 2)), runtime=runtime)
    one, two = requests_of(first.run)
    answers = [answer(one, updated_input={"n": 5}), answer(two, updated_input={"n": "many"})]
    second = Process(agent(says("ok")), first.stored, answers, runtime=runtime)
    assert RAN == [(5, "done")]
    (good, _), (bad, is_error) = second.tool_results()
    assert good == 'closed 5\n[The input was changed before it ran: {"n":5}]'
    assert bad.startswith("Invalid input for close: n")
    assert is_error


@RUNTIMES
def test_what_a_hook_made_of_the_input_is_shown_and_runs_and_hooks_are_not_asked_again(runtime: str) -> None:
    asked: list[int] = []

    def clamp(name: str, given: dict[str, Any]) -> HookResult:
        asked.append(given["n"])
        return HookResult(updated_input={**given, "n": str(min(int(given["n"]), 500))})

    first = Process(agent(closes(900)).with_hooks(pre_tool_use=clamp), runtime=runtime)
    (request,) = first.waiting
    assert request.tool_input == {"n": 500, "why": "done"}, "after hooks, conversion and defaults"
    second = Process(
        agent(says("ok")).with_hooks(pre_tool_use=clamp),
        first.stored,
        [answer(requests_of(first.run)[0])],
        runtime=runtime,
    )
    assert (RAN, asked) == ([(500, "done")], [900])
    assert second.end.stopped_by == "stop"


# ---- external results


@RUNTIMES
def test_an_external_tool_waits_for_its_result(runtime: str) -> None:
    outside = Agent(
        llm=scripted(calls(call("measure", {"place": "ridge"}), call("measure", {"place": "mill"})))
    ).with_tools([measure])
    first = Process(outside, runtime=runtime)  # without any approval: it always pauses
    assert [request.kind for request in first.waiting] == ["external", "external"]
    one, two = requests_of(first.run)
    answers = [answer(one, value={"mm": 12}), answer(two, value="the road is closed", is_error=True)]
    second = Process(agent(says("ok")), first.stored, answers, runtime=runtime)
    assert second.tool_results() == [('{"mm":12}', False), ("the road is closed", True)]
    assert finishes(second.events)[0].value == {"mm": 12}
    assert not of_type(second.events, "tool_running")


def test_an_external_result_that_cannot_be_shown_or_was_denied_is_an_error_result() -> None:
    first = Process(agent(calls(call("measure", {"place": "a"}), call("measure", {"place": "b"}))))
    one, two = requests_of(first.run)
    answers = [answer(one, value=object()), answer(two, False, reason="nobody went")]
    setup = spec_of(agent(says("ok")))
    events = list(iterate(run_turn(load_run(first.stored), setup, BlockingRuntime(), answers=answers)))
    shown, denied = finishes(events)
    assert "object" in shown.result
    assert (shown.is_error, denied.result, denied.is_error) == (True, "Denied: nobody went", True)


# ---- subagents


def nested(*replies: Any, defer: bool = True) -> Agent:
    inner = SubagentDefinition(name="inner", description="Inner.", tools=(close, measure, status))
    outer = SubagentDefinition(name="outer", description="Outer.", subagents=(inner,))
    made = Agent(llm=scripted(*replies)).with_subagents([outer])
    return made.with_approval(defer=True) if defer else made


def hand(name: str, id: str) -> Any:
    return call("task", {"agent_name": name, "task": "close it"}, id=id)


@RUNTIMES
def test_a_gate_two_subagents_down_pauses_the_whole_and_goes_on_where_it_was(runtime: str) -> None:
    first = Process(
        nested(calls(hand("outer", "o")), calls(hand("inner", "i")), calls(call("close", {"n": 7}, id="c"), "status")),
        runtime=runtime,
    )
    (waiting,) = first.waiting
    assert (waiting.path, waiting.id, waiting.run_id) == (("o", "i"), "o/i/c", "run-1")
    assert [event.stopped_by for event in of_type(first.events, "turn_finished")] == ["approval"] * 3
    assert first.run.children["o"].run.children["i"].run.phase == "paused"

    second = Process(
        nested(says("closed"), says("inner says closed"), says("all closed")),
        first.stored,
        [answer(requests_of(first.run)[0])],
        runtime=runtime,
    )
    assert RAN == ["status", (7, "done")]
    assert [event.path for event in of_type(second.events, "turn_resumed")] == [(), ("o",), ("o", "i")]
    assert second.end.text == "all closed"
    (outer,) = second.end.diagnostics.children
    assert outer.diagnostics.children[0].diagnostics.stopped_by == "stop"
    assert second.end.diagnostics.run_total_tool_calls == 4


@RUNTIMES
def test_parallel_children_wait_side_by_side_and_are_answered_one_by_one(runtime: str) -> None:
    def reply(request: Any) -> Any:
        last = request.transcript[-1]
        if last.role == "tool":
            return says("closed")
        if last.text == "go":
            return calls(*(call("task", {"agent_name": "inner", "task": str(n)}, id=f"t{n}") for n in (1, 2)))
        return calls(call("close", {"n": int(last.text)}))

    inner = SubagentDefinition(name="inner", description="Inner.", tools=(close,))

    def made() -> Agent:
        return Agent(llm=scripted(*[reply] * 9)).with_subagents([inner]).with_approval(defer=True)

    first = Process(made(), runtime=runtime)
    assert [request.path for request in first.waiting] == [("t1",), ("t2",)]
    one, two = requests_of(first.run)
    second = Process(made(), first.stored, [answer(two)], runtime=runtime)
    assert (RAN, [request.path for request in second.waiting]) == ([(2, "done")], [("t1",)])
    assert [finish.tool_call_id for finish in finishes(second.events) if not finish.path] == ["t2"]
    third = Process(made(), second.stored, [answer(one)], runtime=runtime)
    assert RAN == [(2, "done"), (1, "done")]
    assert third.tool_results() == [("closed", False), ("closed", False)]


def test_a_child_with_a_deferral_of_its_own_keeps_its_expiry() -> None:
    own = Agent(llm=scripted(closes(1))).with_tools([close]).with_approval(defer=True, expires_seconds=60)
    made = Agent(llm=scripted(calls(call("ask", {"task": "t"})))).with_tools([own.as_tool("ask", "Asks.")])
    first = Process(made, now=NOON)
    assert first.waiting[0].expires_at == NOON + timedelta(seconds=60)


# ---- somebody is there now


@RUNTIMES
def test_where_somebody_is_there_now_what_waited_is_asked_again_but_for_what_was_answered(runtime: str) -> None:
    first = Process(agent(closes(1, 2)), runtime=runtime)
    asked: list[int] = []

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.tool_input["n"])
        return ApprovalDecision(True)

    there = Agent(llm=scripted(says("ok"))).with_tools([close, status, measure]).with_approval(approve)
    second = Process(there, first.stored, [answer(requests_of(first.run)[0])], runtime=runtime)
    assert (asked, RAN) == ([2], [(1, "done"), (2, "done")])
    assert second.end.stopped_by == "stop"


# ---- crashes around the gate


def crashed(process: Process, kind: str, number: int = 0) -> bytes:
    """The stored run of a process that died just after this event."""
    place = [place for place, event in enumerate(process.events) if event.type == kind][number]
    return dump_run(fold(process.events[: place + 1]))


@RUNTIMES
def test_a_call_that_a_hook_changed_is_run_again_with_what_it_was_changed_to(runtime: str) -> None:
    @tool(idempotent=True)
    def refund(cents: int) -> str:
        """Refund."""
        RAN.append(cents)
        return "refunded"

    def made(*replies: Any, hook: Any = None) -> Agent:
        return Agent(llm=scripted(*replies)).with_tools([refund]).with_hooks(pre_tool_use=hook)

    clamp = lambda name, given: HookResult(updated_input={"cents": 500})  # noqa: E731
    whole = Process(made(calls(call("refund", {"cents": 900})), says("ok"), hook=clamp), runtime=runtime)
    Process(
        made(says("ok"), hook=lambda *given: pytest.fail("asked again")),
        crashed(whole, "tool_running"),
        runtime=runtime,
    )
    assert RAN == [500, 500]


@RUNTIMES
def test_an_approval_that_was_given_holds_after_a_crash_before_the_call(runtime: str) -> None:
    there = Agent(llm=scripted(closes(1), says("ok"))).with_tools([close])
    there.with_approval(lambda request: ApprovalDecision(True, updated_input={"n": 3}))
    whole = Process(there, runtime=runtime)
    again = Agent(llm=scripted(says("ok"))).with_tools([close])
    again.with_approval(lambda request: pytest.fail("asked again"))
    Process(again, crashed(whole, "approval_resolved"), runtime=runtime)
    assert RAN == [(3, "done"), (3, "done")]


@RUNTIMES
def test_a_remembered_answer_is_looked_up_anew_after_a_crash(runtime: str) -> None:
    there = Agent(llm=scripted(closes(1), says("ok"))).with_tools([close]).with_approval(defer=True)
    there.approvals.add(ApprovalGrant("g1", "close", {"n": 1, "why": "done"}))
    whole = Process(there, runtime=runtime)
    assert (RAN, of_type(whole.events, "approval_requested")) == ([(1, "done")], [])
    stored = crashed(whole, "approval_resolved")
    after = Process(agent(says("ok")), stored, runtime=runtime)
    assert after.end.stopped_by == "approval", "it was revoked meanwhile"


@RUNTIMES
@pytest.mark.parametrize("approved", [True, False])
def test_a_call_whose_outcome_is_unknown_is_put_before_a_person_each_time(approved: bool, runtime: str) -> None:
    @tool
    def write(n: int) -> str:
        """Write."""
        RAN.append(n)
        return "written"

    def made(*replies: Any) -> Agent:
        return Agent(llm=scripted(*replies)).with_tools([write]).with_approval(defer=True, on_unknown="ask")

    whole = Process(made(calls(call("write", {"n": 1})), says("ok")), runtime=runtime)
    first = Process(made(), crashed(whole, "tool_running"), runtime=runtime)
    (request,) = first.waiting
    assert (request.kind, request.reason, request.tool_input) == ("unknown", INTERRUPTED, {"n": 1})
    given = answer(requests_of(first.run)[0], approved, reason=None if approved else "it was written")
    second = Process(made(says("ok")), first.stored, [given], runtime=runtime)
    if not approved:
        assert second.tool_results() == [(f"Denied: it was written. {INTERRUPTED}", True)]
        return
    assert RAN == [1, 1]
    assert second.tool_results() == [("written", False)]
    place = next(i for i, event in enumerate(second.events) if event.type == "tool_running")
    died_again = dump_run(fold(second.events[: place + 1], first.run))
    third = Process(made(), died_again, runtime=runtime)
    assert [request.kind for request in third.waiting] == ["unknown"], "a yes is used once"


def test_an_unknown_outcome_is_an_error_result_where_nobody_is_to_be_asked() -> None:
    there = Agent(llm=scripted(closes(1), says("ok"))).with_tools([close])
    whole = Process(there.with_approval(lambda request: ApprovalDecision(True)))
    again = Process(agent(says("ok")), crashed(whole, "tool_running"))
    assert again.tool_results() == [(INTERRUPTED, True)]


# ---- limits that ask


def spends(tokens: int) -> Any:
    return calls("status", usage=Usage(tokens, 0))


def asks(*replies: Any, **limits: Any) -> Agent:
    made = Agent(llm=scripted(*replies)).with_tools([status])
    return made.with_usage_limits(UsageLimits(on_limit="ask", **limits))


@RUNTIMES
def test_a_limit_that_asks_pauses_and_goes_on_once_it_is_raised(runtime: str) -> None:
    first = Process(asks(spends(5_000), total_tokens_limit=4_000), runtime=runtime)
    assert first.end.stopped_by == "limit_ask"
    still = Process(asks(total_tokens_limit=4_000), first.stored, runtime=runtime)
    assert (still.end.stopped_by, len(still.events)) == ("limit_ask", 2)
    raised = LimitExtended(kind="total_tokens", amount=6_000, by="ann")
    second = Process(asks(spends(5_500), total_tokens_limit=4_000), still.stored, [raised], runtime=runtime)
    assert second.end.stopped_by == "limit_ask", "what was used before counts on"
    assert second.end.diagnostics.limits[0].limit == 10_000
    last = Process(
        asks(says("ok"), total_tokens_limit=4_000),
        second.stored,
        [LimitExtended(kind="total_tokens", amount=9_000)],
        runtime=runtime,
    )
    assert (last.end.stopped_by, last.end.diagnostics.limits) == ("stop", ())


@pytest.mark.parametrize("amount", [0, -5.0, float("nan")])
def test_a_limit_that_stands_gives_the_last_round(amount: float) -> None:
    first = Process(asks(spends(5_000), total_tokens_limit=4_000))
    stands = LimitExtended(kind="total_tokens", amount=amount)
    model = asks(says("so far"), total_tokens_limit=4_000)
    events = list(iterate(run_turn(load_run(first.stored), spec_of(model), BlockingRuntime(), answers=[stands])))
    assert (events[-1].stopped_by, events[-1].text) == ("usage_limit", "so far")  # type: ignore[union-attr]


@RUNTIMES
def test_a_limit_in_a_subagent_is_raised_for_it_alone_or_for_the_whole_tree(runtime: str) -> None:
    def made(*replies: Any, own: bool) -> Agent:
        limits = UsageLimits(total_tokens_limit=4_000, on_limit="ask")
        inner = SubagentDefinition(
            name="inner", description="Inner.", tools=(status,), usage_limits=limits if own else None
        )
        agent = Agent(llm=scripted(*replies)).with_subagents([inner])
        return agent if own else agent.with_usage_limits(limits)

    for own in (True, False):
        first = Process(made(calls(hand("inner", "t")), spends(5_000), own=own), runtime=runtime)
        assert first.end.stopped_by == "limit_ask"
        path, scope = (("t",), "turn") if own else ((), "run")
        raised = LimitExtended(kind="total_tokens", amount=9_000, scope=scope, path=path)  # type: ignore[arg-type]
        second = Process(made(says("green"), says("ok"), own=own), first.stored, [raised], runtime=runtime)
        assert (second.end.stopped_by, second.tool_results()) == ("stop", [("green", False)])


@RUNTIMES
def test_a_call_that_waited_keeps_its_place_under_a_limit_and_is_counted_once(runtime: str) -> None:
    def made(*replies: Any, turn: bool) -> Agent:
        limits = UsageLimits(tool_calls_limit=2)
        return agent(*replies).with_usage_limits(None if turn else limits, turn=limits if turn else None)

    for turn in (False, True):
        RAN.clear()
        first = Process(made(calls(call("close", {"n": 1}), "status", "status"), turn=turn), runtime=runtime)
        assert RAN == ["status"], "the waiting one and the first of the others fill the limit"
        second = Process(made(says("x"), turn=turn), first.stored, [answer(requests_of(first.run)[0])], runtime=runtime)
        assert RAN == ["status", (1, "done")]
        assert second.end.stopped_by == "usage_limit"
        assert second.run.tally.tool_calls == 2


@RUNTIMES
def test_a_limit_of_a_turn_counts_each_call_once_over_many_rounds(runtime: str) -> None:
    seen = iter(range(9))

    @tool
    def count() -> int:
        """Count."""
        RAN.append("count")
        return next(seen)

    made = Agent(llm=scripted(*[calls("count")] * 6, says("ok"))).with_tools([count])
    made.with_usage_limits(turn=UsageLimits(tool_calls_limit=6))
    whole = Process(made, runtime=runtime)
    assert (whole.end.stopped_by, RAN) == ("stop", ["count"] * 6)


def test_answers_to_a_new_turn_are_not_looked_at() -> None:
    stray = ApprovalResolved(key="r0c0", tool_call_id="r0c0", name="close", approved=True)
    first = Process(agent(closes(1)), None, [stray])
    assert (RAN, first.end.stopped_by) == ([], "approval")
