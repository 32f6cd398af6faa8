"""Properties of the loop over random scripts of text, calls, errors and cancels."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.cancel import CancelToken
from sapwood.core.codec import dump_run, event_from_json, load_run, to_json
from sapwood.core.decide import Policy
from sapwood.core.errors import RunCancelledError, ServerError, ToolError
from sapwood.core.events import AgentEvent, TextDelta, ToolRunning
from sapwood.core.messages import Message, ToolCall
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run
from sapwood.core.transcript import INTERRUPTED, Transcript, pending_calls, repair
from sapwood.llm.scripted import ScriptedReply
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import finished_transcript, start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import assert_ordered, assert_prefix_kept, call, calls, fails, says, scripted
from support.examples import examples
from support.turns import bound, folded, spec, turn, with_policy

TOOLS = ("read", "write", "boom", "slow")
_texts = st.sampled_from(["", "one", "two words", "雪 and 🦊"])
_calls = st.lists(st.sampled_from([*TOOLS, "unknown"]), min_size=1, max_size=4)
_rounds = st.one_of(
    st.builds(lambda names, text: ("calls", names, text), _calls, _texts),
    st.builds(lambda text: ("text", text), _texts),
)
SCRIPTS = st.lists(_rounds, min_size=1, max_size=4)


def reply(script: list[Any], number: int) -> ScriptedReply:
    if number >= len(script):
        return says("the end")
    kind = script[number]
    if kind[0] == "text":
        return says(kind[1])
    _, names, text = kind
    return calls(*(call(name, {"n": place}, id=f"c{place}") for place, name in enumerate(names)), text=text)


def model(script: list[Any]) -> Any:
    """A model whose reply depends on the request alone, so that a resumed turn meets the same one."""

    def answer(request: ModelRequest) -> ScriptedReply:
        return reply(script, sum(message.role == "assistant" for message in request.transcript))

    return scripted(*[answer] * 50)


def tools(**more: Any) -> list[Any]:
    def read(n: int) -> str:
        return f"read {n}"

    async def slow(n: int) -> str:
        await asyncio.sleep(0)
        return f"slow {n}"

    def boom(n: int) -> str:
        raise ToolError(f"boom {n}")

    return [
        bound("read", read, read_only=True),
        bound("slow", slow, read_only=True),
        bound("boom", boom, read_only=True),
        bound("write", lambda n: {"written": n}, **{"idempotent": True, **more}),
    ]


def given_spec(script: list[Any], **more: Any) -> TurnSpec:
    return spec(model(script), tools(), policy=Policy(max_rounds=4), **more)


@examples(60, deadline=None)
@given(script=SCRIPTS)
def test_order_pairing_and_prefix_hold_for_any_script(script: list[Any]) -> None:
    for runtime in ("blocking", "asyncio"):
        setup = given_spec(script)
        events = turn(setup, runtime=runtime)
        run = folded(events)
        assert_prefix_kept(setup.provider.requests)  # type: ignore[attr-defined]
        assert repair(run.messages) == run.messages
        assert pending_calls(run.messages) == ()
        assert run.phase == "ended"
        assert [event_from_json(to_json(event)) for event in events] == events


@examples(40, deadline=None)
@given(script=SCRIPTS)
def test_sync_and_async_give_the_same_transcript(script: list[Any]) -> None:
    first, second = (folded(turn(given_spec(script), runtime=name)) for name in ("blocking", "asyncio"))
    assert first.messages == second.messages


@examples(40, deadline=None)
@given(script=SCRIPTS, on_asyncio=st.booleans())
def test_a_json_copy_of_the_run_after_any_event_ends_in_the_same_transcript(
    script: list[Any], on_asyncio: bool
) -> None:
    events = turn(given_spec(script), runtime="asyncio" if on_asyncio else "blocking")
    whole = folded(events)
    run = Run("run-1")
    for event in events:
        run = folded([event], run)
        if isinstance(event, TextDelta):
            continue
        copy = load_run(dump_run(run))
        assert copy == run
        resumed = turn(given_spec(script), None, run=copy, runtime="blocking")
        end = folded(resumed, copy)
        assert end.messages == whole.messages
        assert end.stopped_by == whole.stopped_by


@examples(40, deadline=None)
@given(names=_calls)
def test_a_call_in_flight_at_a_crash_is_not_run_again_unless_that_does_no_harm(names: list[str]) -> None:
    script = [("calls", names, "")]
    ran: list[int] = []
    setup = spec(model(script), [*tools()[:3], bound("write", lambda n: ran.append(n))], policy=Policy(max_rounds=4))
    events = turn(setup)
    for place, event in enumerate(events):
        if not isinstance(event, ToolRunning):
            continue
        crashed = folded(events[: place + 1], Run("run-1"))
        name = next(item.call.name for item in crashed.calls if item.call.key == event.key)
        ran.clear()
        end = folded(turn(setup_again(setup, script), None, run=load_run(dump_run(crashed))), crashed)
        result = next(result for result in end.messages[2].tool_results if result.key == event.key)
        if name == "write":
            assert (result.text, result.is_error) == (INTERRUPTED, True)
            assert int(event.key.rpartition("c")[2]) not in ran
        else:
            assert result.text != INTERRUPTED


def setup_again(setup: TurnSpec, script: list[Any]) -> TurnSpec:
    import msgspec

    return msgspec.structs.replace(setup, provider=model(script))


@examples(60, deadline=None)
@given(script=SCRIPTS, stop_after=st.integers(0, 30), on_asyncio=st.booleans())
def test_leaving_early_at_any_event_leaves_a_history_that_can_go_on(
    script: list[Any], stop_after: int, on_asyncio: bool
) -> None:
    setup = given_spec(script)
    run = start_run("r")
    live = LiveTurn(run, setup)
    seen: list[AgentEvent] = []
    if on_asyncio:
        asyncio.run(_leave(setup, run, live, stop_after, seen))
    else:
        events = iterate(run_turn(run, setup, BlockingRuntime(), prompt=Message.user("go"), live=live))
        for event in events:
            seen.append(event)
            if len(seen) > stop_after:
                break
        events.close()  # type: ignore[attr-defined]
    assert_ordered(seen, ended=seen[-1].type == "turn_finished")
    assert all(stream.closed for stream in setup.provider.streams if stream.started)  # type: ignore[attr-defined]
    after = finished_transcript(setup.history, live.run)
    assert repair(tuple(after)) == tuple(after)
    again = spec(scripted(says("on")), history=after)
    assert turn(again, "and now?")[-1].type == "turn_finished"


async def _leave(setup: TurnSpec, run: Run, live: LiveTurn, stop_after: int, seen: list[AgentEvent]) -> None:
    events = run_turn(run, setup, AsyncioRuntime(), prompt=Message.user("go"), live=live)
    async for event in events:
        seen.append(event)
        if len(seen) > stop_after:
            break
    await events.aclose()
    assert len(asyncio.all_tasks()) == 1


@examples(40, deadline=None)
@given(script=SCRIPTS, cancel_after=st.integers(0, 20), on_asyncio=st.booleans())
def test_a_cancel_token_ends_the_turn_with_its_error_or_comes_too_late(
    script: list[Any], cancel_after: int, on_asyncio: bool
) -> None:
    token = CancelToken()
    setup = given_spec(script, cancel=token)
    seen: list[AgentEvent] = []

    def take(event: AgentEvent) -> None:
        seen.append(event)
        if len(seen) > cancel_after:
            token.cancel()

    async def main() -> None:
        async for event in run_turn(start_run("r"), setup, AsyncioRuntime(cancel=token), prompt=Message.user("go")):
            take(event)

    try:
        if on_asyncio:
            asyncio.run(main())
        else:
            for event in iterate(run_turn(start_run("r"), setup, BlockingRuntime(cancel=token), prompt=None)):
                take(event)
    except RunCancelledError:
        assert token.cancelled
    else:
        assert seen[-1].type == "turn_finished"


@examples(40, deadline=None)
@given(script=SCRIPTS, broken=st.integers(0, 3), text=_texts)
def test_a_provider_that_dies_in_any_round_leaves_the_text_it_showed(script: list[Any], broken: int, text: str) -> None:
    def answer(request: ModelRequest) -> ScriptedReply:
        number = sum(message.role == "assistant" for message in request.transcript)
        return fails(ServerError("gone", is_transient=False), after=text) if number == broken else reply(script, number)

    setup = spec(scripted(*[answer] * 50), tools(), policy=Policy(max_rounds=4))
    live = LiveTurn(start_run("r"), setup)
    try:
        turn(setup, live=live)
    except ServerError as error:
        if text:
            assert error.partial is not None
            assert live.run.messages[-1] == error.partial
        assert live.run.phase in ("idle", "calling")


@examples(100, deadline=None)
@given(cut=st.lists(st.integers(0, 8), max_size=8))
def test_repair_makes_any_selection_of_messages_valid_and_leaves_valid_ones_alone(cut: list[int]) -> None:
    from sapwood.core.messages import Text, ToolResult

    whole = [
        Message.user("a"),
        Message.assistant(ToolCall("x", key="k1", id="1")),
        Message("tool", (ToolResult("k1", "x", (Text("r1"),)),)),
        Message.assistant("t", ToolCall("x", key="k2", id="2"), ToolCall("y", key="k3", id="3")),
        Message("tool", (ToolResult("k3", "y", (Text("r3"),)), ToolResult("k2", "x", (Text("r2"),)))),
        Message.assistant("b"),
        Message.user("c"),
        Message.assistant(),
        Message.user("d"),
    ]
    fixed = repair([whole[place] for place in cut])
    assert repair(fixed) == fixed
    for place, message in enumerate(fixed):
        if message.tool_calls:
            keys = [call.key for call in message.tool_calls]
            assert [result.key for result in fixed[place + 1].tool_results] == keys
        if message.role == "tool":
            assert fixed[place - 1].tool_calls
        assert message.content


def test_a_transcript_that_is_extended_twice_keeps_both_branches() -> None:
    root = Transcript.of([Message.user("root")])
    left = root.extend([Message.user("left")])
    right = root.extend([Message.user("right")])
    assert [message.text for message in left] == ["root", "left"]
    assert [message.text for message in right] == ["root", "right"]
    assert [message.text for message in left.extend([Message.user("more")])] == ["root", "left", "more"]
    assert [message.text for message in root] == ["root"]


def test_final_round_is_reached_by_a_model_that_never_stops_calling() -> None:
    setup = with_policy(given_spec([("calls", ["read"], "")] * 10), max_rounds=3)
    assert turn(setup)[-1].stopped_by == "max_rounds"  # type: ignore[union-attr]
