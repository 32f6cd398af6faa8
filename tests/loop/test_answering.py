"""What a round does where a model does not answer: it waits, asks another one, starts again, or raises."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflowError,
    LLMError,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
)
from sapwood.core.events import (
    AgentEvent,
    MessageInterrupted,
    ProviderWaiting,
    RoundFinished,
    RoundRestarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    TurnFinished,
)
from sapwood.core.messages import Message, Text
from sapwood.core.model import (
    LLMProvider,
    ModelProfile,
    ModelRequest,
    Reply,
    RestartChunk,
    ServerCallChunk,
    ServerResultChunk,
    StreamChunk,
    TextChunk,
    UsageChunk,
)
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.retry import RetryPolicy
from sapwood.llm.scripted import ScriptedProvider
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import calls, fails, fold, says, scripted
from support.clockless import Clockless
from support.turns import bound, long_history, spec

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
DOWN = ServerError("down", status=503)


def model(name: str, *replies: Any, **facts: Any) -> ScriptedProvider:
    return scripted(*replies, profile=ModelProfile(provider=name, model="m", **facts))


def of(kind: type, events: list[AgentEvent]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@RUNTIMES
def test_a_waiting_turn_says_so(runtime: str) -> None:
    asked = RateLimitError("slow down", status=429, retry_after_seconds=7.0)
    clock = Clockless(runtime)
    events = clock.run(spec(model("a", fails(asked), fails(DOWN), says("ok"))))

    waits = of(ProviderWaiting, events)
    assert [(wait.attempt, wait.model, wait.round) for wait in waits] == [(1, "a/m", 0), (2, "a/m", 0)]
    assert waits[0].seconds == 7.0
    assert "slow down" in waits[0].reason
    assert [wait.seconds for wait in waits] == clock.waited
    assert events[-1].text == "ok"  # type: ignore[union-attr]


@RUNTIMES
def test_a_fallback_answers_once_the_tries_are_used_up_and_stays_for_the_turn(runtime: str) -> None:
    first = model("a", *[fails(DOWN)] * 3)
    second = model("b", calls("ping"), says("done"))
    clock = Clockless(runtime)
    events = clock.run(spec(FallbackProvider([first, second]), [bound("ping", lambda: "pong")]))

    assert len(first.requests) == 3
    assert len(clock.waited) == 2
    assert not of(RoundRestarted, events)  # nothing had been shown
    assert [event.usage.model for event in of(RoundFinished, events)] == ["b/m", "b/m"]
    assert events[-1].text == "done"  # type: ignore[union-attr]


@RUNTIMES
def test_a_stream_that_dies_after_text_starts_again_with_the_next_model(runtime: str) -> None:
    first = model("a", fails(ServerError("reset"), after="Hello wor"))
    events = Clockless(runtime).run(spec(FallbackProvider([first, model("b", says("Hello world!"))])))

    (restart,) = of(RoundRestarted, events)
    assert (restart.round, restart.reason, restart.model) == (0, "ServerError", "b/m")
    place = events.index(restart)
    assert "".join(event.text for event in of(TextDelta, events[:place])) == "Hello wor"
    assert "".join(event.text for event in of(TextDelta, events[place:])) == "Hello world!"
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text == "Hello world!"
    assert [message.text for message in fold(events).messages] == ["go", "Hello world!"]


@RUNTIMES
@pytest.mark.parametrize(
    ("error", "second", "answers"),
    [
        (ModelNotFoundError("no such model"), {}, True),
        (AuthenticationError("bad key"), {}, True),
        (LLMError("bad request", status=400), {}, False),
        (RateLimitError("out of credit", is_transient=False), {}, False),
        (ContextOverflowError("too long"), {"context_window": 2_000}, True),
        (ContextOverflowError("too long"), {"context_window": 500}, False),
        (ContextOverflowError("too long"), {}, True),
        (ConnectionResetError("peer"), {}, True),
        (RateLimitError("tomorrow", retry_after_seconds=86_400), {}, True),
    ],
)
def test_which_errors_go_to_the_fallback(
    runtime: str, error: BaseException, second: dict[str, int], answers: bool
) -> None:
    chain = FallbackProvider([model("a", fails(error), context_window=1_000), model("b", says("ok"), **second)])
    given = spec(chain, retry=RetryPolicy(max_retries=0))
    if answers:
        assert Clockless(runtime).run(given)[-1].text == "ok"  # type: ignore[union-attr]
        return
    with pytest.raises(type(error)):
        Clockless(runtime).run(given)


@RUNTIMES
def test_a_wrong_key_is_raised_where_the_chain_says_so(runtime: str) -> None:
    chain = FallbackProvider(
        [model("a", fails(AuthenticationError("bad key"))), model("b", says("ok"))], on_authentication=False
    )
    with pytest.raises(AuthenticationError):
        Clockless(runtime).run(spec(chain))


def test_a_wrong_key_is_never_passed_over_silently(caplog: pytest.LogCaptureFixture) -> None:
    chain = FallbackProvider([model("a", fails(AuthenticationError("bad key"))), model("b", says("ok"))])
    with caplog.at_level("WARNING", "sapwood.llm"):
        Clockless("blocking").run(spec(chain))
    assert "b/m takes over: bad key" in caplog.text


@RUNTIMES
def test_an_error_of_the_last_model_tells_of_those_before(runtime: str) -> None:
    chain = FallbackProvider(
        [model("a", fails(ServerError("first is down"))), model("b", fails(ServerError("so am I")))]
    )
    with pytest.raises(ServerError, match="so am I") as caught:
        Clockless(runtime).run(spec(chain, retry=RetryPolicy(max_retries=0)))
    assert caught.value.__notes__ == ["before it: first is down"]


class Blind:
    """A model that cannot take the request at all."""

    profile = ModelProfile(provider="blind", model="m")

    def stream(self, request: ModelRequest) -> Any:
        raise ConfigError("blind/m reads no images")


@RUNTIMES
def test_a_fallback_that_cannot_take_the_request_is_passed_over(runtime: str) -> None:
    first = model("a", fails(DOWN))
    given = spec(FallbackProvider([first, Blind(), model("c", says("ok"))]), retry=RetryPolicy(max_retries=0))
    assert Clockless(runtime).run(given)[-1].text == "ok"  # type: ignore[union-attr]

    alone = spec(FallbackProvider([model("a", fails(DOWN)), Blind()]), retry=RetryPolicy(max_retries=0))
    with pytest.raises(ServerError, match="down") as caught:
        Clockless(runtime).run(alone)
    assert "blind/m reads no images" in caught.value.__notes__[0]

    with pytest.raises(ConfigError):
        Clockless(runtime).run(spec(Blind()))


@RUNTIMES
def test_a_network_error_of_a_foreign_provider_is_tried_again_and_raised_unchanged(runtime: str) -> None:
    clock = Clockless(runtime)
    events = clock.run(spec(model("a", fails(ConnectionResetError("peer")), says("ok"))))
    assert events[-1].text == "ok"  # type: ignore[union-attr]
    with pytest.raises(ConnectionResetError):
        Clockless(runtime).run(spec(model("a", *[fails(ConnectionResetError("peer"))] * 3)))
    with pytest.raises(FileNotFoundError):
        Clockless(runtime).run(spec(model("a", fails(FileNotFoundError("x")))))


@RUNTIMES
def test_a_request_that_the_provider_finds_too_long_is_sent_once_more_and_shorter(runtime: str) -> None:
    provider = model("a", fails(ContextOverflowError("prompt is too long")), says("ok"))
    events = Clockless(runtime).run(spec(provider, history=long_history(), window=100_000))

    (restart,) = of(RoundRestarted, events)
    assert restart.room > 0
    before, after = (len(request.transcript) for request in provider.requests)
    assert after < before
    assert provider.requests[1].transcript[-1].text == "go"
    assert events[-1].text == "ok"  # type: ignore[union-attr]


@RUNTIMES
@pytest.mark.parametrize("history", [True, False])
def test_a_request_that_stays_too_long_is_a_distinct_error(runtime: str, history: bool) -> None:
    provider = model("a", *[fails(ContextOverflowError("prompt is too long"))] * 2)
    given = spec(provider, history=long_history() if history else (), window=100_000)
    with pytest.raises(ContextOverflowError):
        Clockless(runtime).run(given)
    assert len(provider.requests) == (2 if history else 1)


@RUNTIMES
def test_nothing_at_all_in_answer_to_the_user_is_asked_for_once_more(runtime: str) -> None:
    silent = says(usage=Usage(10, 0))
    provider = model("a", silent, fails(DOWN), says("ok", usage=Usage(10, 1)))
    events = Clockless(runtime).run(spec(provider))
    run = fold(events)
    assert [message.role for message in run.messages] == ["user", "assistant"]
    assert run.usage == Usage(20, 1)

    assert Clockless(runtime).run(spec(model("a", silent, silent)))[-1].text == ""  # type: ignore[union-attr]


class Streams:
    """Yields these chunks, the last of which may be an error."""

    profile = ModelProfile(provider="a", model="m")

    def __init__(self, *chunks: StreamChunk | BaseException) -> None:
        self._chunks = chunks

    def stream(self, request: ModelRequest) -> Any:
        return _Both(self._chunks)


class _Both:
    def __init__(self, chunks: tuple[Any, ...]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Any:
        for chunk in self._chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk

    async def __aiter__(self) -> Any:
        for chunk in self:
            yield chunk


@RUNTIMES
def test_what_an_aborted_reply_used_is_counted(runtime: str) -> None:
    used = Usage(500)
    clock = Clockless(runtime)
    with pytest.raises(ServerError):
        clock.run(spec(Streams(UsageChunk(used), TextChunk("so"), ServerError("reset"))))
    interrupted = clock.events[-1]
    assert isinstance(interrupted, MessageInterrupted)
    assert (interrupted.usage, interrupted.message.text) == (used, "so")
    assert clock.live.run.usage == used
    told = clock.live.run.diagnostics("error")
    assert (told.total_prompt_tokens, told.total_cost_usd) == (500, None)  # its price is not known

    silent = Clockless(runtime)
    with pytest.raises(ServerError):
        silent.run(spec(Streams(UsageChunk(used), ServerError("reset")), retry=RetryPolicy(max_retries=0)))
    assert silent.live.run.usage == used
    assert len(fold(silent.events).messages) == 1


def test_what_a_cancelled_reply_used_is_counted() -> None:
    used = Usage(500)
    given = spec(Streams(UsageChunk(used), TextChunk("so"), TextChunk(" on"), Reply((Text("so on"),))))
    run = start_run("run-1")
    live = LiveTurn(run, given)
    events = iterate(run_turn(run, given, BlockingRuntime(), prompt=Message.user("go"), live=live))
    for event in events:
        if isinstance(event, TextDelta):
            break
    events.close()  # type: ignore[attr-defined]
    assert live.run.usage == used
    assert live.run.messages[-1].partial


@RUNTIMES
def test_a_restart_inside_a_provider_reaches_the_user(runtime: str) -> None:
    chunks = (TextChunk("Hel"), UsageChunk(Usage(9)), RestartChunk("ServerError", "b/m"), TextChunk("Hi"))
    events = Clockless(runtime).run(spec(Streams(*chunks, Reply((Text("Hi"),), usage=Usage(5, 1), origin="b/m"))))
    (restart,) = of(RoundRestarted, events)
    assert (restart.model, restart.usage) == ("b/m", Usage(9))
    assert fold(events).usage == Usage(14, 1)
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].diagnostics.broken_off, events[-1].diagnostics.total_tokens) == (Usage(9), 15)
    assert fold(events).messages[-1].origin == "b/m"


@RUNTIMES
def test_tools_of_the_provider_show_as_events(runtime: str) -> None:
    chunks = (
        ServerCallChunk("s1", "web_search", {"query": "x"}),
        ServerResultChunk("s1", "web_search", ["y" * 70_000], is_error=False),
        TextChunk("found"),
    )
    later: Any = object()  # a kind of chunk that a later version may bring
    events = Clockless(runtime).run(spec(Streams(later, *chunks, Reply((Text("found"),)))))
    (started,) = of(ServerToolStarted, events)
    (finished,) = of(ServerToolFinished, events)
    assert (started.tool_call_id, started.name, started.tool_input) == ("s1", "web_search", {"query": "x"})
    assert (finished.tool_call_id, finished.value) == ("s1", None)  # too large for an event


def chunks_of(provider: LLMProvider, way: Callable[..., Any]) -> list[str]:
    request = ModelRequest(Transcript.of([Message.user("hi")]))
    if way is list:
        return [chunk.type for chunk in provider.stream(request)]  # type: ignore[union-attr]

    async def main() -> list[str]:
        return [chunk.type async for chunk in provider.stream(request)]  # type: ignore[union-attr]

    return asyncio.run(main())


@pytest.mark.parametrize("way", [list, asyncio.run])
def test_a_chain_used_alone_says_that_it_starts_again(way: Callable[..., Any]) -> None:
    chain = FallbackProvider([model("a", fails(DOWN, after="x")), FallbackProvider([model("b", says("y"))])])
    assert chunks_of(chain, way) == ["text_chunk", "restart_chunk", "text_chunk", "reply"]
    with pytest.raises(ServerError):
        chunks_of(FallbackProvider([model("a", fails(DOWN)), model("b", fails(DOWN))]), way)


@RUNTIMES
def test_a_round_costs_what_the_model_that_answered_asks(runtime: str) -> None:
    million = Usage(prompt_tokens=1_000_000)
    chain = FallbackProvider(
        [
            scripted(fails(ModelNotFoundError("gone")), profile=ModelProfile("anthropic", "claude-haiku-4-5")),
            scripted(says("ok", usage=million), profile=ModelProfile("openai", "gpt-4o")),
        ]
    )
    costs = [event.usage.cost_usd for event in of(RoundFinished, Clockless(runtime).run(spec(chain)))]
    assert costs == [2.5]
    unknown = scripted(says("ok", usage=million), profile=ModelProfile("acme", "rocket-1"))
    assert of(RoundFinished, Clockless(runtime).run(spec(unknown)))[0].usage.cost_usd is None
    billed = scripted(says("ok", usage=million.replace(cost_usd=0.1)), profile=ModelProfile("openai", "gpt-4o"))
    assert of(RoundFinished, Clockless(runtime).run(spec(billed)))[0].usage.cost_usd == 0.1
    routed = scripted(says("ok", usage=million, model="gpt-4o"), profile=ModelProfile("openai", "router"))
    assert of(RoundFinished, Clockless(runtime).run(spec(routed)))[0].usage.cost_usd == 2.5


def test_each_chain_says_for_its_own_entries_what_a_wrong_key_means() -> None:
    wrong = fails(AuthenticationError("bad key"))
    strict = FallbackProvider([model("a", wrong), model("b", says("hidden"))], on_authentication=False)
    outer = FallbackProvider([strict, model("c", says("hidden too"))])
    with pytest.raises(AuthenticationError):
        Clockless("blocking").run(spec(outer))
    strict = FallbackProvider([model("a", wrong), model("b", says("hidden"))], on_authentication=False)
    first = FallbackProvider([model("d", wrong), strict])
    with pytest.raises(AuthenticationError):
        Clockless("blocking").run(spec(first))
    assert len(strict.providers[1].requests) == 0  # type: ignore[attr-defined]


@RUNTIMES
def test_a_restart_names_the_model_that_does_take_over(runtime: str) -> None:
    chain = FallbackProvider([model("a", fails(DOWN, after="Hello wor")), Blind(), model("c", says("Hello world!"))])
    events = Clockless(runtime).run(spec(chain))
    restarts = of(RoundRestarted, events)
    assert [restart.model for restart in restarts] == ["blind/m", "c/m"]
    assert {restart.reason for restart in restarts} == {"ServerError"}
    assert fold(events).text == "Hello world!"


@pytest.mark.parametrize("way", [list, asyncio.run])
def test_a_chain_used_alone_passes_over_who_cannot_take_the_request(way: Callable[..., Any]) -> None:
    chain = FallbackProvider([model("a", fails(DOWN, after="x")), Blind(), model("c", says("y"))])
    assert chunks_of(chain, way) == ["text_chunk", "restart_chunk", "text_chunk", "reply"]
    with pytest.raises(ServerError, match="down") as caught:
        chunks_of(FallbackProvider([model("a", fails(DOWN)), Blind()]), way)
    assert "blind/m reads no images" in str(caught.value.__notes__)
    with pytest.raises(ConfigError, match="reads no images"):
        chunks_of(FallbackProvider([Blind(), model("c", says("y"))]), way)
