"""Public cases on usage (USE) and retries (RTY), each by its id, over real HTTP where the wire matters."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.errors import ContextOverflowError, LLMError, RateLimitError, ServerError
from sapwood.core.events import ProviderWaiting, RoundRestarted, TextDelta, TurnFinished
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile, UsageChunk
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.failures import retry_after
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.openai.chat_decode import usage_of
from sapwood.llm.retry import RetryPolicy, retry_delay
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import fails, fold, says, scripted
from support.clockless import Clockless
from support.replay_server import Faults, ReplayServer
from support.turns import long_history, spec, turn

WIRE = Path(__file__).parents[1] / "llm" / "wire"
TEXT = "anthropic-messages-text-stream"
RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


@pytest.fixture
def serve() -> Iterator[Any]:
    with ExitStack() as stack:

        def start(source: Any = TEXT, **faults: Any) -> ReplayServer:
            found = WIRE / f"{source}.json" if isinstance(source, str) else source
            return stack.enter_context(ReplayServer(found, faults=Faults(**faults), on_exhausted="repeat"))

        yield start


def asking(server: ReplayServer, **more: Any) -> Any:
    return spec(AnthropicProvider("some", base_url=server.url), **more)


def stream_of(*events: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(event["type"].encode(), json.dumps(event).encode()) for event in events]


# -- usage -----------------------------------------------------------------------------------------------------


def test_use_01_cumulative_usage_in_a_stream_is_not_added_up() -> None:
    start = {"input_tokens": 31, "cache_read_input_tokens": 120, "output_tokens": 2}
    events = stream_of(
        {"type": "message_start", "message": {"id": "m", "model": "x", "usage": start}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {**start, "output_tokens": 58}},
        {"type": "message_stop"},
    )
    decoder = AnthropicCodec().decoder(ModelProfile("anthropic", "x"))
    chunks = [chunk for name, data in events for chunk in decoder.feed(name, data)]
    expected = Usage(31, 58, 0, 120)
    assert decoder.finish().usage == expected
    assert chunks[0] == UsageChunk(Usage(31, 2, 0, 120))

    whole = {"id": "m", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
    body = json.dumps({**whole, "usage": {**start, "output_tokens": 58}}).encode()
    assert AnthropicCodec().decoder(ModelProfile("anthropic", "x")).whole(body).usage == expected


def test_use_02_cached_tokens_inside_or_beside_the_input_count_are_the_same() -> None:
    inside = usage_of(
        {"prompt_tokens": 8_012, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 8_000}}
    )
    whole = {"id": "m", "content": [], "stop_reason": "end_turn"}
    beside = AnthropicCodec().decoder(ModelProfile("anthropic", "x"))
    reply = beside.whole(
        json.dumps({**whole, "usage": {"input_tokens": 12, "cache_read_input_tokens": 8_000}}).encode()
    )
    for usage in (inside, reply.usage):
        assert usage is not None
        assert (usage.input_tokens, usage.cache_read_tokens, usage.prompt_tokens) == (8_012, 8_000, 12)


@pytest.mark.parametrize("how", ["cancel", "drop"])
def test_use_03_usage_of_an_aborted_stream_is_counted(serve: Any, how: str) -> None:
    server = serve("anthropic-messages-error-overloaded-midtext-stream")
    given = asking(server)
    run = start_run("run-1")
    live = LiveTurn(run, given)
    events = iterate(run_turn(run, given, BlockingRuntime(), prompt=Message.user("go"), live=live))
    if how == "cancel":
        for event in events:
            if isinstance(event, TextDelta):
                break
        events.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(ServerError):
            list(events)
    assert live.run.usage.input_tokens == 10
    assert live.run.messages[-1].partial


@RUNTIMES
@pytest.mark.parametrize("usage", [None, Usage(), Usage(7, 0)])
def test_use_05_a_provider_that_reports_no_usage_is_no_error(runtime: str, usage: Usage | None) -> None:
    events = turn(spec(scripted(says("hello", usage=usage))), runtime=runtime)
    run = fold(events)
    assert run.rounds[0].estimated == (usage is None)
    if usage is None:
        assert run.usage.input_tokens > 0
        assert run.usage.completion_tokens > 0


def test_use_05_fields_that_are_null_are_nothing() -> None:
    found = usage_of({"prompt_tokens": 5, "completion_tokens": None, "prompt_tokens_details": None, "cost": None})
    assert found == Usage(5)


# -- retries ---------------------------------------------------------------------------------------------------


@RUNTIMES
def test_rty_01_a_retry_after_that_is_a_date(serve: Any, runtime: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=7), usegmt=True)
    server = serve(fail_first=1, fail_status=[429], retry_after=date)
    clock = Clockless(runtime)
    events = clock.run(asking(server))
    assert len(clock.waited) == 1
    assert 5.5 <= clock.waited[0] <= 7.5
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "Hello"


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("0.5", 0.5, 0.5),
        ("-5", 0.375, 0.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.375, 0.5),
        ("soon", 0.375, 0.5),
        ("", 0.375, 0.5),
        ("nan", 0.375, 0.5),
        ("1, 2", 2.0, 2.0),  # two headers
    ],
)
def test_rty_02_odd_values_of_retry_after(serve: Any, value: str, least: float, most: float) -> None:
    clock = Clockless("blocking")
    clock.run(asking(serve(fail_first=1, fail_status=[429], retry_after=value)))
    assert len(clock.waited) == 1
    assert least <= clock.waited[0] <= most
    assert retry_after({"retry-after": value}, now=0.0) is None or value != "soon"


def test_rty_02_a_day_is_not_waited_but_told(serve: Any) -> None:
    clock = Clockless("blocking")
    with pytest.raises(RateLimitError, match=r"asks to wait 86400 s, more than 60 s"):
        clock.run(asking(serve(fail_first=1, fail_status=[429], retry_after="86400")))
    assert clock.waited == []


@RUNTIMES
@pytest.mark.parametrize("retries", [0, 2])
def test_rty_03_an_overload_as_first_event_is_retried_or_a_fallback_answers(
    serve: Any, runtime: str, retries: int
) -> None:
    overloaded = serve("anthropic-messages-error-overloaded-first-event-stream")
    first = AnthropicProvider("some", base_url=overloaded.url)
    chain = FallbackProvider([first, AnthropicProvider("other", base_url=serve().url)])
    clock = Clockless(runtime)
    events = clock.run(spec(chain, retry=RetryPolicy(max_retries=retries)))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"
    assert len(clock.waited) == retries
    assert len(overloaded.requests) == retries + 1
    assert not [event for event in events if isinstance(event, RoundRestarted)]


@RUNTIMES
def test_rty_04_what_was_shown_before_a_failure_is_void_and_never_kept(serve: Any, runtime: str) -> None:
    first = AnthropicProvider("a", base_url=serve("anthropic-messages-error-overloaded-midtext-stream").url)
    second = AnthropicProvider("b", base_url=serve().url)
    events = Clockless(runtime).run(spec(FallbackProvider([first, second])))
    kinds = [event.type for event in events if isinstance(event, TextDelta | RoundRestarted)]
    assert kinds[0] == "text_delta"
    assert kinds.count("round_restarted") == 1
    assert [message.text for message in fold(events).messages] == ["go", "Hello"]

    with pytest.raises(ServerError) as caught:
        Clockless(runtime).run(spec(first))
    assert caught.value.partial is not None
    assert caught.value.partial.partial


TRANSIENT = [408, 409, 429, 500, 502, 503, 529]
PERMANENT = [400, 401, 403, 404, 422]


@pytest.mark.parametrize("status", TRANSIENT + PERMANENT)
def test_rty_05_which_statuses_are_tried_again(serve: Any, status: int) -> None:
    server = serve(fail_first=99, fail_status=[status])
    clock = Clockless("blocking")
    with pytest.raises(LLMError) as caught:
        clock.run(asking(server))
    assert caught.value.status == status
    assert len(server.requests) == (3 if status in TRANSIENT else 1)
    if status in TRANSIENT:
        first, second = clock.waited
        assert 0.375 <= first <= 0.5
        assert 0.75 <= second <= 1.0


def test_rty_05_a_reset_and_silence_are_tried_again(serve: Any) -> None:
    server = serve(drop_after_bytes=0, drop_how="rst", drop_times=1)
    assert Clockless("blocking").run(asking(server))[-1].text == "Hello"  # type: ignore[union-attr]
    assert len(server.requests) == 2
    assert retry_delay(TimeoutError(), 0, 0.0) == 0.5


@RUNTIMES
@pytest.mark.parametrize("stays", [False, True])
def test_rty_06_a_context_that_is_too_long_is_sent_once_more_and_only_shorter(runtime: str, stays: bool) -> None:
    too_long = fails(ContextOverflowError("prompt is too long"))
    model = scripted(too_long, too_long if stays else says("ok"))
    given = spec(model, history=long_history(), window=50_000)
    if stays:
        with pytest.raises(ContextOverflowError):
            Clockless(runtime).run(given)
    else:
        assert Clockless(runtime).run(given)[-1].text == "ok"  # type: ignore[union-attr]
    sizes = [len(request.transcript) for request in model.requests]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]


@RUNTIMES
def test_rty_07_a_retry_does_not_repeat_the_user_message(runtime: str) -> None:
    model = scripted(says(), fails(ServerError("down")), says("good"))
    events = Clockless(runtime).run(spec(model))
    assert [(message.role, message.text) for message in fold(events).messages] == [
        ("user", "go"),
        ("assistant", "good"),
    ]
    assert len([event for event in events if isinstance(event, ProviderWaiting)]) == 1
    for request in model.requests:
        assert [message.role for message in request.transcript] == ["user"]
