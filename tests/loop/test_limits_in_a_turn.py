"""Limits while a turn runs: clocks, reservations, streams that break, children side by side, notes to the model."""

import asyncio
import json
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    LLMError,
    ServerError,
    SubagentDefinition,
    Usage,
    UsageLimitError,
    UsageLimits,
    tool,
)
from sapwood.core.codec import dump_run
from sapwood.core.events import MessageAdded, MessageInterrupted, RoundRestarted
from sapwood.core.limits import Tally
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile, ModelRequest, Reply, TextChunk, UsageChunk
from sapwood.core.run import Run
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.loop.pool import Stopwatch, UsagePool
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import assert_prefix_kept, call, calls, fails, says, scripted
from support.governed import Process, of_type, run, spec_of
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


# ---- clocks


def test_a_stopwatch_stands_still_as_long_as_anybody_is_waited_for() -> None:
    watch = Stopwatch()
    assert watch.read(100.0) == 0.0
    assert watch.read(103.0) == 3.0
    watch.wait(104.0)
    watch.wait(110.0)
    assert watch.read(120.0) == 4.0
    watch.go_on(130.0)
    assert watch.read(140.0) == 4.0
    watch.go_on(150.0)
    assert watch.read(151.0) == 5.0


@RUNTIMES
def test_a_limit_of_seconds_ends_a_tool_that_hangs(runtime: str) -> None:
    release = threading.Event()

    @tool
    def hang() -> str:
        """Hang."""
        release.wait(30)
        return "never"

    @tool
    async def sleep() -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    for name, kind in (("hang", hang), ("sleep", sleep)):
        model = scripted(calls(name), says("so far"))
        agent = Agent(llm=model).with_tools([kind]).with_usage_limits(UsageLimits(seconds_limit=0.15))
        began = time.monotonic()
        events = run(agent, runtime)
        assert time.monotonic() - began < 10
        assert finishes(events)[0].result.startswith(f"{name} timed out after 0.")
        assert events[-1].stopped_by == "usage_limit"  # type: ignore[union-attr]
        assert events[-1].diagnostics.limits[0].kind == "seconds"  # type: ignore[union-attr]
    release.set()


@RUNTIMES
def test_the_clock_does_not_run_while_a_person_thinks(runtime: str) -> None:
    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        time.sleep(0.4)
        return ApprovalDecision(True)

    model = scripted(calls("act"), says("done"))
    agent = Agent(llm=model).with_tools([act]).with_approval(approve)
    agent.with_usage_limits(UsageLimits(seconds_limit=0.3), turn=UsageLimits(seconds_limit=0.3))
    events = run(agent, runtime)
    assert events[-1].stopped_by == "stop"  # type: ignore[union-attr]
    assert sum(item.seconds for item in events[-1].diagnostics.rounds) < 0.3  # type: ignore[union-attr]


def test_seconds_of_earlier_segments_count_and_a_spec_that_is_used_again_begins_a_new_clock() -> None:
    pool = UsagePool(UsageLimits(seconds_limit=10))
    assert pool.spent(1_000.0).seconds == 0.0
    assert pool.spent(1_002.0).seconds == 2.0
    pool.rebuild(Run(tally=Tally(seconds=2.0)))
    assert pool.spent(90_000.0).seconds == 2.0, "the days between do not count"
    assert pool.spent(90_001.0).seconds == 3.0


# ---- the pool


def test_what_is_set_aside_counts_until_it_is_given_back() -> None:
    pool = UsagePool(UsageLimits(total_tokens_limit=100))
    one = Tally(Usage(10, 5), 1, cost_usd=0.1)
    first, second = pool.reserve_model_call(one), pool.reserve_model_call(one)
    assert (pool.spent(0.0).usage.total_tokens, pool.spent(0.0).requests) == (30, 2)
    first.give_back()
    first.give_back()
    pool.note(MessageAdded(message=Message.assistant("a"), usage=Usage(7, 3)))
    assert (pool.spent(0.0).usage.total_tokens, pool.spent(0.0).requests) == (25, 2)
    with second:
        pass
    pool.note(MessageInterrupted(message=Message.assistant("a"), usage=Usage(1, 1)))
    pool.note(RoundRestarted(round=0, usage=Usage(1, 0)))
    pool.note(MessageAdded(message=Message.user("a nudge"), nudge="stuck"))
    pool.note(RoundRestarted(round=0))
    assert (pool.spent(0.0).usage.total_tokens, pool.spent(0.0).requests) == (13, 3)


class Halting:
    """A model that tells its usage and some text, and then breaks in a way of its own, once."""

    profile = ModelProfile("halting", "halting", context_window=200_000)

    def __init__(self, error: BaseException | None, calls_first: bool = False) -> None:
        self.error = error

    def stream(self, request: ModelRequest) -> Any:
        yield UsageChunk(Usage(300, 10))
        yield TextChunk("half")
        if self.error is not None:
            raise self.error
        yield Reply((), "stop", Usage(300, 20))


@RUNTIMES
@pytest.mark.parametrize("error", [ServerError("gone", is_transient=False), RuntimeError("broken"), KeyError("x")])
def test_a_childs_stream_that_fails_leaves_no_reservation_and_is_counted(error: Exception, runtime: str) -> None:
    helper = SubagentDefinition(name="helper", description="Helps.", llm=Halting(error))
    model = scripted(
        calls(call("task", {"agent_name": "helper", "task": "t"}), usage=Usage(10, 0)), says("ok", usage=Usage(20, 0))
    )
    agent = Agent(llm=model).with_subagents([helper]).with_usage_limits(UsageLimits(total_tokens_limit=50_000))
    process = Process(agent, runtime=runtime)
    pool = process.spec.pool
    assert pool.spent(0.0).replace(seconds=0) == pool.tally
    assert pool.tally.usage.total_tokens == 10 + 310 + 20
    assert process.end.diagnostics.run_total_tokens == 340


def test_a_turn_that_is_left_while_its_reply_streams_tells_the_pool() -> None:
    setup = spec_of(Agent(llm=Halting(None)).with_usage_limits(UsageLimits(total_tokens_limit=50_000)))
    live = LiveTurn(start_run("r"), setup)
    events = iterate(run_turn(live.run, setup, BlockingRuntime(), prompt=Message.user("go"), live=live))
    for event in events:
        if event.type == "text_delta":
            break
    events.close()  # type: ignore[attr-defined]
    assert setup.pool.tally.usage.total_tokens == 310
    assert setup.pool.spent(0.0).requests == 1


def test_what_is_set_aside_is_given_back_before_what_was_used_is_noted() -> None:
    """Else both would count as long as the consumer looks at the event, and another child would stop for it."""
    setup = spec_of(
        Agent(llm=scripted(says("hi", usage=Usage(100, 5)))).with_usage_limits(UsageLimits(requests_limit=9))
    )
    seen: list[int] = []
    for event in iterate(run_turn(start_run("r"), setup, BlockingRuntime(), prompt=Message.user("go"))):
        if event.type in ("round_started", "message_added", "round_finished"):
            seen.append(setup.pool.spent(0.0).requests)
    assert seen == [1, 1, 1]


def test_children_side_by_side_make_no_more_requests_than_the_pool_has() -> None:
    def reply(request: ModelRequest) -> Any:
        if request.transcript[0].text == "go":
            is_last = request.tool_choice == "none" or len(request.transcript) > 1
            asked = [call("task", {"agent_name": "helper", "task": f"t{n}"}) for n in range(5)]
            return says("end") if is_last else calls(*asked)
        return says("end") if request.tool_choice == "none" else calls(call("add", {"a": len(request.transcript)}))

    helper = SubagentDefinition(name="helper", description="Helps.", tools=(add,), max_rounds=30)
    model = scripted(*[reply] * 200)
    agent = Agent(llm=model).with_subagents([helper]).with_usage_limits(UsageLimits(requests_limit=12))
    events = run(agent, "asyncio")
    last_rounds = [request for request in model.requests if request.tool_choice == "none"]
    assert len(model.requests) - len(last_rounds) <= 11
    assert len(last_rounds) <= 6, "one for each of six agents"
    assert events[-1].diagnostics.run_total_tool_calls <= 12 + 5  # type: ignore[union-attr]


# ---- policies


@RUNTIMES
@pytest.mark.parametrize(
    ("policies", "cause", "requests"),
    [
        ({}, "usage_limit", 2),
        ({"total_tokens": "stop"}, "usage_limit", 1),
        ({"total_tokens": "ask"}, "usage_limit", 2),  # the other one is stricter
        ({"total_tokens": "ask", "tool_calls": "ask"}, "limit_ask", 1),
        ({"tool_calls": "stop", "total_tokens": "ask"}, "usage_limit", 1),
    ],
)
def test_of_several_limits_the_strictest_policy_counts(
    policies: dict[Any, Any], cause: str, requests: int, runtime: str
) -> None:
    model = scripted(
        calls(call("add", {"a": 1}), call("add", {"a": 2}), usage=Usage(9_000, 0), text="hm."), says("end")
    )
    limits = UsageLimits(total_tokens_limit=8_000, tool_calls_limit=1, policies=policies)
    events = run(Agent(llm=model).with_tools([add]).with_usage_limits(limits), runtime)
    assert (events[-1].stopped_by, len(model.requests)) == (cause, requests)  # type: ignore[union-attr]
    assert len(events[-1].diagnostics.limits) == 2  # type: ignore[union-attr]


@RUNTIMES
def test_a_limit_that_raises_says_which(runtime: str) -> None:
    model = scripted(calls(call("add", {"a": 1}), usage=Usage(9_000, 0)))
    agent = (
        Agent(llm=model).with_tools([add]).with_usage_limits(UsageLimits(total_tokens_limit=8_000, on_limit="raise"))
    )
    with pytest.raises(UsageLimitError, match="the limit of 8000 total tokens") as caught:
        run(agent, runtime)
    assert caught.value.breach == agent.last_turn.limits[0]  # type: ignore[union-attr]
    assert agent.last_turn.stopped_by == "error"  # type: ignore[union-attr]


@RUNTIMES
def test_a_limit_that_raises_in_a_child_is_its_error_and_raises_in_the_parent_once_it_is_crossed(runtime: str) -> None:
    helper = SubagentDefinition(
        name="helper",
        description="Helps.",
        tools=(add,),
        usage_limits=UsageLimits(tool_calls_limit=0, on_limit="raise"),
    )
    model = scripted(
        calls(call("task", {"agent_name": "helper", "task": "t"})), calls(call("add", {"a": 1})), says("ok")
    )
    events = run(Agent(llm=model).with_subagents([helper]), runtime)
    (finish,) = [finish for finish in finishes(events) if not finish.path]
    assert finish.is_error
    assert finish.result.startswith("helper failed: UsageLimitError: the limit of 0 tool calls")
    assert events[-1].diagnostics.children[0].diagnostics.limits[0].kind == "tool_calls"  # type: ignore[union-attr]


@RUNTIMES
def test_a_strict_price_that_is_not_known_after_all_ends_the_turn(runtime: str) -> None:
    priced = ModelProfile("anthropic", "claude-haiku-4-5", context_window=200_000)
    reply = calls(call("add", {"a": 1}), usage=Usage(100, 0))
    model = scripted(reply, says("end"), profile=priced)
    agent = Agent(llm=model).with_tools([add]).with_usage_limits(UsageLimits(cost_limit=5.0, strict_cost=True))
    setup = spec_of(agent)
    setup.pool.tally = Tally(unpriced=True)  # as after a reply of a fallback that has no price
    events = list(iterate(run_turn(start_run("r"), setup, BlockingRuntime(), prompt=Message.user("go"))))
    assert of_type(events, "usage_limit_reached")[0].kind == "cost"


@RUNTIMES
def test_a_first_request_that_is_too_large_already_has_its_one_round(runtime: str) -> None:
    model = scripted(says("short answer"))
    agent = Agent(llm=model).with_tools([add]).with_usage_limits(UsageLimits(total_tokens_limit=300))
    events = run(agent, runtime, "word " * 1_000)
    assert [request.tool_choice for request in model.requests] == ["none"]
    assert (events[-1].stopped_by, events[-1].text) == ("usage_limit", "short answer")  # type: ignore[union-attr]


@RUNTIMES
def test_a_last_round_that_breaks_off_is_the_last_one_again(runtime: str) -> None:
    model = scripted(calls(call("add", {"a": 1}), usage=Usage(9_000, 0)), fails(ServerError("gone"), after="so"))
    agent = Agent(llm=model, max_retries=0).with_tools([add]).with_usage_limits(UsageLimits(total_tokens_limit=8_000))
    with pytest.raises(LLMError):
        run(agent, runtime)
    stored = agent._last.live.run  # type: ignore[union-attr]
    assert stored.wrapping == "usage_limit"
    again = (
        Agent(llm=scripted(says("so far"))).with_tools([add]).with_usage_limits(UsageLimits(total_tokens_limit=8_000))
    )
    later = Process(again, dump_run(stored), runtime=runtime)
    assert (later.end.stopped_by, later.end.text) == ("usage_limit", "soso far")
    assert again._llm().requests[0].tool_choice == "none"  # type: ignore[attr-defined]


# ---- the note on what is left


@pytest.mark.parametrize("codec", ["anthropic", "chat"])
def test_the_note_on_the_budget_moves_nothing_that_is_cached(codec: str) -> None:
    model = scripted(*[calls(call("add", {"a": n}), usage=Usage(100, 5)) for n in range(4)], says("ok"))
    agent = Agent(llm=model).with_tools([add]).with_system_prompt("Be brief. " * 50)
    limits = UsageLimits(
        total_tokens_limit=90_000,
        tool_calls_limit=9,
        tool_limits={"add": 7},
        seconds_limit=600,
        output_tokens_limit=5_000,
    )
    agent.with_usage_limits(limits, turn=UsageLimits(tool_calls_limit=8), remaining_budget=True)
    run(agent)
    assert_prefix_kept(model.requests)
    notes = [request.notice or "" for request in model.requests]
    assert notes[0] == (
        "[system] Left for this task: 8 tool calls, 90,000 tokens, 5,000 output tokens, 600 seconds, 7 calls of add."
    )
    assert notes[1].startswith("[system] Left for this task: 7 tool calls, 89,895 tokens, 4,995 output tokens")
    kind: Any = AnthropicProvider if codec == "anthropic" else OpenAIChatProvider
    provider = kind("m", api_key="k", base_url="http://127.0.0.1:9")
    bodies = [json.loads(bytes(provider._call(request).body)) for request in model.requests]
    for before, after in pairwise(bodies):
        kept = _unmarked(before["messages"])
        if codec == "anthropic":
            assert before["system"] == after["system"]
        *earlier, last = kept
        grown = _unmarked(after["messages"])
        assert grown[: len(earlier)] == earlier
        assert notes[0][:20] in json.dumps(last), "the note is the last word, and is not kept"


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return value


def test_there_is_no_note_without_limits() -> None:
    model = scripted(says("ok"))
    run(Agent(llm=model).with_usage_limits(None, remaining_budget=True))
    assert model.requests[0].notice is None


# ---- ids


@RUNTIMES
def test_calls_that_share_an_id_or_have_one_that_looks_like_ours_stay_apart(runtime: str) -> None:
    def reply(request: ModelRequest) -> Any:
        if request.transcript[0].text != "go":
            return says(f"for {request.transcript[0].text}")
        if len(request.transcript) > 1:
            return says("end")
        ids = ["c", "c", "r0c4", "a/b", ""]
        return calls(*(call("task", {"agent_name": "helper", "task": f"t{n}"}, id=id) for n, id in enumerate(ids)))

    helper = SubagentDefinition(name="helper", description="Helps.")
    events = run(Agent(llm=scripted(*[reply] * 9)).with_subagents([helper]), runtime)
    found = {finish.tool_call_id: finish.result for finish in finishes(events)}
    assert found == {"c": "for t0", "r0c1": "for t1", "r0c2": "for t2", "r0c3": "for t3", "r0c4": "for t4"}
    assert sorted(child.tool_call_id for child in events[-1].diagnostics.children) == sorted(found)  # type: ignore[union-attr]
