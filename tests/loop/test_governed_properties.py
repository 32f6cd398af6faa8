"""Properties of governed turns over random scripts: approvals, limits, repeats, subagents two deep and side by side."""

import asyncio
import contextlib
from typing import Any

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    HookResult,
    SubagentDefinition,
    ToolError,
    Usage,
    UsageLimits,
    tool,
)
from sapwood.core.codec import dump_run, event_from_json, load_run, to_json
from sapwood.core.events import AgentEvent, TextDelta, TurnFinished
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run
from sapwood.core.transcript import pending_calls, repair
from sapwood.llm.scripted import ScriptedReply
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import finished_transcript, start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import assert_ordered, assert_prefix_kept, call, calls, fold, says, scripted
from support.examples import examples
from support.governed import Process, answer, requests_of, spec_of

NAMES = ("read", "write", "gated", "boom", "same", "ask", "dig")
_calls = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
_reply = st.one_of(st.just(None), _calls)
SCRIPTS = st.lists(_reply, min_size=1, max_size=4)
LIMITS = st.one_of(
    st.none(),
    st.builds(
        UsageLimits,
        tool_calls_limit=st.one_of(st.none(), st.integers(0, 6)),
        total_tokens_limit=st.one_of(st.none(), st.integers(500, 4_000)),
        requests_limit=st.one_of(st.none(), st.integers(1, 6)),
        tool_limits=st.sampled_from([{}, {"read": 1}]),
        on_limit=st.sampled_from(["finish", "stop"]),
    ),
)
QUICK = examples(25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@tool(read_only=True)
def read(n: int) -> str:
    """Read."""
    return f"read {n}"


@tool(idempotent=True)
def write(n: int) -> dict[str, int]:
    """Write."""
    return {"written": n}


@tool(read_only=True, requires_approval=True)
async def gated(n: int) -> str:
    """Act."""
    await asyncio.sleep(0)
    return f"acted {n}"


@tool(read_only=True)
def boom(n: int) -> str:
    """Boom."""
    raise ToolError(f"boom {n}")


@tool(read_only=True)
def same() -> str:
    """The same, always."""
    return "same"


TOOLS = [read, write, gated, boom, same]


def model(script: list[Any]) -> Any:
    """A model whose reply depends on the request alone, so that a resumed turn meets the same one, at any depth."""

    def reply(request: ModelRequest) -> ScriptedReply:
        round_ = sum(message.role == "assistant" for message in request.transcript)
        usage = Usage(100, 20)
        depth = request.transcript[0].text.count("deeper")
        wanted = script[(round_ + depth) % len(script)] if round_ < len(script) - depth else None
        if wanted is None or request.tool_choice == "none":
            return says(f"end of {depth}", usage=usage)
        made = []
        for place, name in enumerate(wanted):
            if name in ("ask", "dig"):
                given = {"agent_name": name, "task": f"{request.transcript[0].text} deeper"}
                made.append(call("task", given, id=f"c{place}"))
            else:
                made.append(call(name, {} if name == "same" else {"n": place}, id=f"c{place}"))
        return calls(*made, text="hm ", usage=usage)

    return scripted(*[reply] * 400)


def made(script: list[Any], limits: UsageLimits | None = None, *, approval: str = "inline") -> Agent:
    def clamp(name: str, given: dict[str, Any]) -> HookResult | None:
        return HookResult(updated_input={"n": 1}) if given.get("n") == 2 else None

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(request.tool_input["n"] != 0, reason="not that one")

    dig = SubagentDefinition(name="dig", description="Digs.", tools=tuple(TOOLS), max_rounds=4)
    ask = SubagentDefinition(name="ask", description="Asks.", tools=tuple(TOOLS), subagents=(dig,), max_rounds=4)
    agent = (
        Agent(llm=model(script), max_rounds=8).with_tools(TOOLS).with_subagents([ask, dig]).with_usage_limits(limits)
    )
    agent.with_hooks(pre_tool_use=clamp)
    return agent.with_approval(defer=True) if approval == "defer" else agent.with_approval(approve)


def to_the_end(agent_of: Any, runtime: str, stored: bytes | None = None) -> tuple[Run, list[Process]]:
    """Run segment after segment, with the answers that the callback above would give, one at a time."""
    parts = [Process(agent_of(), stored, runtime=runtime)]
    while parts[-1].end.stopped_by == "approval":
        request = requests_of(parts[-1].run)[-1]
        given = answer(request, request.tool_input["n"] != 0, reason="not that one")
        parts.append(Process(agent_of(), parts[-1].stored, [given], runtime=runtime))
    return parts[-1].run, parts


def whole(script: list[Any], limits: UsageLimits | None, runtime: str) -> Process:
    return Process(made(script, limits), runtime=runtime)


@QUICK
@given(script=SCRIPTS, limits=LIMITS)
def test_order_pairing_prefix_and_json_hold_for_any_governed_turn(
    script: list[Any], limits: UsageLimits | None
) -> None:
    for runtime in ("blocking", "asyncio"):
        process = whole(script, limits, runtime)
        run = process.run
        assert repair(run.messages) == run.messages
        assert pending_calls(run.messages) == ()
        assert [event_from_json(to_json(event)) for event in process.events] == process.events
        top = [r for r in process.spec.provider.requests if r.transcript[0].text == "go"]  # type: ignore[attr-defined]
        assert_prefix_kept(top)
        assert run.children == {}
        _accounts_agree(process)


def _accounts_agree(process: Process) -> None:
    """What the pool counted, what the run tells and what was asked are the same; nothing stays set aside."""
    pool, run = process.spec.pool, process.run
    total = run.whole_tally()
    asked = len(process.spec.provider.requests)  # type: ignore[attr-defined]
    if pool.limits is not None:
        assert (pool.tally.usage, pool.tally.requests, pool.tally.calls) == (total.usage, total.requests, total.calls)
        assert pool.spent(0.0).requests == asked
    assert total.requests == asked
    assert process.end.diagnostics.run_total_tokens == total.usage.total_tokens


@QUICK
@given(script=SCRIPTS, limit=st.integers(0, 8))
def test_no_tree_runs_more_calls_than_its_limit(script: list[Any], limit: int) -> None:
    for runtime in ("blocking", "asyncio"):
        process = whole(script, UsageLimits(tool_calls_limit=limit), runtime)
        assert process.run.whole_tally().tool_calls <= limit


@QUICK
@given(script=SCRIPTS)
def test_sync_and_async_give_the_same_transcript_and_the_same_accounts(script: list[Any]) -> None:
    first, second = (whole(script, None, runtime) for runtime in ("blocking", "asyncio"))
    assert first.run.messages == second.run.messages
    assert first.run.whole_tally().calls == second.run.whole_tally().calls
    assert first.end.stopped_by == second.end.stopped_by


@QUICK
@given(script=SCRIPTS, on_asyncio=st.booleans())
def test_a_turn_that_pauses_for_every_answer_ends_as_one_that_asks_inline(script: list[Any], on_asyncio: bool) -> None:
    runtime = "asyncio" if on_asyncio else "blocking"
    run, parts = to_the_end(lambda: made(script, approval="defer"), runtime)
    inline = whole(script, None, runtime)
    assert run.messages == inline.run.messages
    assert run.whole_tally().replace(seconds=0) == inline.run.whole_tally().replace(seconds=0)
    assert parts[-1].end.diagnostics.run_total_tokens == inline.end.diagnostics.run_total_tokens
    asked = [event.type for part in parts for event in part.events].count("approval_requested")
    assert asked == [event.type for event in inline.events].count("approval_requested"), "nothing is asked twice"


@examples(8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=SCRIPTS, limits=LIMITS, on_asyncio=st.booleans(), inline=st.booleans())
def test_a_json_copy_after_any_event_ends_in_the_same_transcript(
    script: list[Any], limits: UsageLimits | None, on_asyncio: bool, inline: bool
) -> None:
    runtime = "asyncio" if on_asyncio else "blocking"
    if on_asyncio:
        limits = None  # which of several calls meets a limit first is a matter of time there
    if limits is not None:
        # What a next call would take is estimated, and a new process has not learned yet how far off that is.
        limits = limits.replace(total_tokens_limit=None)

    def again() -> Agent:
        return made(script, limits, approval="inline" if inline else "defer")

    if inline:
        process = Process(again(), runtime=runtime)
        end, events = process.run, process.events
    else:
        end, parts = to_the_end(again, runtime)
        events = [event for part in parts for event in part.events]
    run = Run("run-1")
    for event in events:
        run = fold([event], run)
        if isinstance(event, TextDelta) or run.phase == "ended":
            continue
        copy = load_run(dump_run(run))
        assert copy == run
        resumed, _ = to_the_end(again, runtime, dump_run(copy))
        assert resumed.messages == end.messages, event
        assert resumed.stopped_by == end.stopped_by


@QUICK
@given(script=SCRIPTS, limits=LIMITS, stop_after=st.integers(0, 60), on_asyncio=st.booleans())
def test_leaving_early_at_any_event_leaves_a_history_that_can_go_on_and_nothing_set_aside(
    script: list[Any], limits: UsageLimits | None, stop_after: int, on_asyncio: bool
) -> None:
    setup = spec_of(made(script, limits))
    live = LiveTurn(start_run("r"), setup)
    seen: list[AgentEvent] = []
    if on_asyncio:
        asyncio.run(_leave(live, stop_after, seen))
    else:
        with contextlib.closing(
            iterate(run_turn(live.run, setup, BlockingRuntime(), prompt=Message.user("go"), live=live))
        ) as events:  # type: ignore[type-var]
            for event in events:
                seen.append(event)
                if len(seen) > stop_after:
                    break
    assert_ordered(seen, ended=isinstance(seen[-1], TurnFinished) and not seen[-1].path)
    assert all(stream.closed for stream in setup.provider.streams if stream.started)  # type: ignore[attr-defined]
    assert setup.pool.spent(0.0).requests == setup.pool.tally.requests, "a reservation leaked"
    after = finished_transcript(setup.history, live.run)
    assert repair(tuple(after)) == tuple(after)
    diagnostics = live.run.diagnostics("cancelled")
    assert diagnostics.run_total_tokens == live.run.whole_tally().usage.total_tokens
    if limits is not None:
        assert setup.pool.tally.usage.total_tokens >= diagnostics.run_total_tokens


async def _leave(live: LiveTurn, stop_after: int, seen: list[AgentEvent]) -> None:
    events = run_turn(live.run, live.spec, AsyncioRuntime(), prompt=Message.user("go"), live=live)
    async for event in events:
        seen.append(event)
        if len(seen) > stop_after:
            break
    await events.aclose()
    assert len(asyncio.all_tasks()) == 1


def test_the_scripts_reach_what_they_are_for() -> None:
    """So that the properties above are not vacuous: one script that asks, digs, repeats and meets a limit."""
    script = [["ask", "dig", "gated"], ["dig", "gated"], ["gated", "read"], None]
    _, parts = to_the_end(lambda: made(script, approval="defer"), "blocking")
    assert len(parts) > 3
    assert max(len(event.path) for part in parts for event in part.events) == 2
    limited = whole(script, UsageLimits(tool_calls_limit=3), "asyncio")
    assert {event.type for event in limited.events} >= {"usage_limit_reached", "approval_resolved"}
    stuck = whole([["same"]] * 9, None, "blocking")
    assert stuck.end.stopped_by == "stuck"
    assert msgspec.json.decode(stuck.stored)["v"] == 1
