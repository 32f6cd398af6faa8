"""The loop by the scripted model, on both runtimes."""

import asyncio

import pytest

from sapwood.core.errors import LLMError, RateLimitError, ServerError, ToolError
from sapwood.core.events import (
    MessageInterrupted,
    RoundFinished,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from sapwood.core.messages import Message, Text, ToolCall, ToolResult
from sapwood.core.usage import Usage
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import start_run
from sapwood.testing import assert_prefix_kept, call, calls, fails, says, scripted
from support.turns import bound, finishes, folded, kinds, spec, turn, with_policy

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


def add(a: int, b: int) -> int:
    return a + b


@RUNTIMES
def test_a_turn_without_tools_streams_its_text_and_ends(runtime: str) -> None:
    model = scripted(says("Hello you", usage=Usage(10, 2)))
    events = turn(spec(model), "hi", runtime=runtime)

    assert kinds(events) == [
        "turn_started",
        "context_prepared",
        "round_started",
        "text_delta",
        "text_delta",
        "message_added",
        "round_finished",
        "turn_finished",
    ]
    assert isinstance(events[0], TurnStarted)
    last = events[-1]
    assert isinstance(last, TurnFinished)
    assert (last.text, last.stopped_by, last.diagnostics.total_tokens) == ("Hello you", "stop", 12)
    assert folded(events).messages == (
        Message.user("hi"),
        Message("assistant", (Text("Hello you"),), "scripted/scripted"),
    )


@RUNTIMES
def test_tools_run_and_their_results_go_back(runtime: str) -> None:
    model = scripted(calls(call("add", {"a": 1, "b": 2}, id="c1"), text="let me."), says("it is 3"))
    events = turn(spec(model, [bound("add", add)]), runtime=runtime)

    (finish,) = finishes(events)
    assert (finish.tool_call_id, finish.name, finish.result, finish.value, finish.is_error) == (
        "c1",
        "add",
        "3",
        3,
        False,
    )
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "let me.it is 3"
    second = model.requests[1].transcript
    assert second[-1] == Message("tool", (ToolResult("r0c0", "add", (Text("3"),)),))
    assert_prefix_kept(model.requests)


@RUNTIMES
def test_results_enter_the_transcript_in_call_order(runtime: str) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "slow"

    async def fast() -> str:
        return "fast"

    model = scripted(calls("slow", "fast"), says("done"))
    events = turn(
        spec(model, [bound("slow", slow, read_only=True), bound("fast", fast, read_only=True)]), runtime=runtime
    )

    expected = ["fast", "slow"] if runtime == "asyncio" else ["slow", "fast"]
    assert [event.name for event in finishes(events)] == expected
    assert [result.name for result in model.requests[1].transcript[-1].tool_results] == ["slow", "fast"]


def test_sync_equals_async() -> None:
    def script() -> object:
        return scripted(calls(call("add", {"a": 1, "b": 1}), call("add", {"a": 2, "b": 2})), says("ok"))

    first = turn(spec(script(), [bound("add", add, read_only=True)]), runtime="blocking")  # type: ignore[arg-type]
    second = turn(spec(script(), [bound("add", add, read_only=True)]), runtime="asyncio")  # type: ignore[arg-type]
    assert folded(first).messages == folded(second).messages


@RUNTIMES
def test_a_write_runs_alone_and_reads_overlap(runtime: str) -> None:
    running: list[str] = []
    overlaps: list[tuple[str, ...]] = []

    async def work(name: str) -> str:
        running.append(name)
        overlaps.append(tuple(running))
        await asyncio.sleep(0.02)
        running.remove(name)
        return name

    model = scripted(
        calls(
            call("read", {"name": "a"}),
            call("read", {"name": "b"}),
            call("write", {"name": "w"}),
            call("read", {"name": "c"}),
        ),
        says("done"),
    )
    turn(spec(model, [bound("read", work, read_only=True), bound("write", work)]), runtime=runtime)

    if runtime == "asyncio":
        assert overlaps == [("a",), ("a", "b"), ("w",), ("c",)]
    else:
        assert overlaps == [("a",), ("b",), ("w",), ("c",)]


@RUNTIMES
def test_thinking_streams_and_stays_in_the_reply(runtime: str) -> None:
    events = turn(spec(scripted(says("4", thinking="2 and 2"))), runtime=runtime)
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "2 and 2"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "4"


@RUNTIMES
def test_the_last_round_gets_a_notice_and_no_tools(runtime: str) -> None:
    model = scripted(calls("ping"), calls("ping", text="so far"))
    given = with_policy(spec(model, [bound("ping", lambda: "pong")]), max_rounds=2)
    events = turn(given, runtime=runtime)

    assert (model.requests[0].tool_choice, model.requests[0].notice) == (None, None)
    assert model.requests[1].tool_choice == "none"
    assert (model.requests[1].notice or "").startswith("[system] Final round:")
    assert model.requests[1].tools == model.requests[0].tools
    assert [event.is_error for event in finishes(events)] == [False, True]
    last = events[-1]
    assert isinstance(last, TurnFinished)
    assert (last.stopped_by, last.text) == ("max_rounds", "so far")


@RUNTIMES
def test_without_a_final_round_the_calls_of_the_last_step_still_run(runtime: str) -> None:
    model = scripted(calls("ping"))
    given = with_policy(spec(model, [bound("ping", lambda: "pong")]), max_rounds=1, final_round=False)
    events = turn(given, runtime=runtime)
    assert [event.result for event in finishes(events)] == ["pong"]
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].stopped_by == "max_rounds"


@RUNTIMES
def test_a_failure_before_the_first_chunk_is_tried_again(runtime: str) -> None:
    model = scripted(fails(RateLimitError("slow down", retry_after_seconds=0.0)), says("ok"))
    events = turn(spec(model), runtime=runtime)
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "ok"
    assert len(model.requests) == 2


@RUNTIMES
def test_a_failure_after_text_is_raised_with_the_partial_text_kept(runtime: str) -> None:
    model = scripted(fails(ServerError("gone"), after="The answer is"))
    given = spec(model)
    live = LiveTurn(start_run("run-1"), given)
    with pytest.raises(ServerError) as caught:
        turn(given, runtime=runtime, live=live)

    assert caught.value.partial == Message("assistant", (Text("The answer is"),), "scripted/scripted", partial=True)
    assert live.run.messages[-1] == caught.value.partial
    assert live.run.phase == "idle"
    assert len(model.requests) == 1


@RUNTIMES
def test_a_stream_that_just_ends_is_an_error(runtime: str) -> None:
    class Cut:
        profile = scripted().profile

        def stream(self, request: object) -> object:
            return iter(())

    with pytest.raises(ServerError, match="ended early"):
        turn(spec(Cut(), retry=_no_retries()), runtime=runtime)  # type: ignore[arg-type]


@RUNTIMES
def test_an_error_of_another_kind_keeps_the_partial_text_too(runtime: str) -> None:
    model = scripted(fails(ConnectionResetError("reset"), after="half"))
    given = spec(model)
    live = LiveTurn(start_run("run-1"), given)
    with pytest.raises(ConnectionResetError):
        turn(given, runtime=runtime, live=live)
    assert live.run.messages[-1].text == "half"
    assert live.run.messages[-1].partial


@RUNTIMES
def test_a_reply_without_content_is_no_message(runtime: str) -> None:
    model = scripted(calls("ping"), says())
    events = turn(spec(model, [bound("ping", lambda: "pong")]), runtime=runtime)
    assert [message.role for message in folded(events).messages] == ["user", "assistant", "tool"]
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].text, events[-1].stopped_by) == ("", "stop")


@RUNTIMES
def test_usage_is_estimated_where_the_provider_reports_none(runtime: str) -> None:
    events = turn(spec(scripted(says("hello there"))), runtime=runtime)
    usage = next(event.usage for event in events if isinstance(event, RoundFinished))
    assert usage.estimated
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens > 0


@RUNTIMES
def test_pause_turn_asks_again_with_what_came(runtime: str) -> None:
    model = scripted(says("searching", stop_reason="pause_turn"), says(" found"))
    events = turn(spec(model), runtime=runtime)
    assert model.requests[1].transcript[-1].text == "searching"
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "searching found"


@RUNTIMES
def test_a_tool_error_shows_its_message_and_others_as_the_policy_says(runtime: str) -> None:
    def known() -> None:
        raise ToolError("no such customer")

    def unknown() -> None:
        raise RuntimeError("disk is full")

    def run(expose: bool) -> list[str]:
        model = scripted(calls("known", "unknown"), says("ok"))
        given = spec(model, [bound("known", known), bound("unknown", unknown)], expose_errors=expose)
        return [event.result for event in finishes(turn(given, runtime=runtime))]

    assert run(expose=True) == ["no such customer", "RuntimeError: disk is full"]
    assert run(expose=False) == ["no such customer", "Internal error"]


@RUNTIMES
def test_events_show_the_providers_id_where_it_is_unique_and_else_the_key(runtime: str) -> None:
    model = scripted(
        calls(call("ping", id="x"), call("ping", id="x"), call("ping")), calls(call("ping", id="x")), says("ok")
    )
    events = turn(spec(model, [bound("ping", lambda: "pong")]), runtime=runtime)
    starts = [(event.key, event.tool_call_id) for event in events if isinstance(event, ToolStarted)]
    assert starts == [("r0c0", "x"), ("r0c1", "r0c1"), ("r0c2", "r0c2"), ("r1c0", "r1c0")]


@RUNTIMES
def test_history_stands_before_the_prompt_and_is_repaired_at_the_door(runtime: str) -> None:
    model = scripted(says("ok"))
    past = [Message.user("a"), Message.assistant(ToolCall("gone", key="k1"))]
    turn(spec(model, history=past), "b", runtime=runtime)
    roles = [message.role for message in model.requests[0].transcript]
    assert roles == ["user", "assistant", "tool", "user"]
    assert model.requests[0].transcript[2].tool_results[0].is_error


@RUNTIMES
def test_an_error_before_the_request_reaches_the_consumer(runtime: str) -> None:
    with pytest.raises(LLMError, match="bad key"):
        turn(spec(scripted(fails(LLMError("bad key")))), runtime=runtime)


def test_interrupted_text_is_yielded_before_the_error() -> None:
    from sapwood.loop.turn import run_turn
    from sapwood.runtime.blocking import BlockingRuntime, iterate

    given = spec(scripted(fails(ServerError("gone"), after="half")))
    events = iterate(run_turn(start_run("r"), given, BlockingRuntime(), prompt=Message.user("go")))
    seen: list[object] = []
    with pytest.raises(ServerError):
        seen.extend(events)
        for event in events:
            seen.append(event)
    del seen
    events = iterate(
        run_turn(
            start_run("r"), spec(scripted(fails(ServerError("gone"), after="half"))), BlockingRuntime(), prompt=None
        )
    )
    collected: list[object] = []
    with pytest.raises(ServerError):
        for event in events:
            collected.append(event)
    assert isinstance(collected[-1], MessageInterrupted)


def _no_retries() -> object:
    from sapwood.llm.retry import RetryPolicy

    return RetryPolicy(max_retries=0)
