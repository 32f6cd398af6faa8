"""Client objects of Anthropic's shape: the official SDK, and fakes of several kinds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sapwood.core.errors import ServerError
from sapwood.core.messages import Message, Text, ToolCall
from sapwood.core.model import (
    LLMProvider,
    ModelRequest,
    Reply,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
    UsageChunk,
)
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.anthropic.client import AnthropicClientProvider

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]), ("be brief",))
Serve = Callable[..., Any]

FINAL: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "hello you"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "output_tokens": 3},
}
REPLY = Reply((Text("hello you"), ToolCall("add", {"a": 1}, id="t1")), "tool_use", Usage(5, 3))
DELTAS: list[dict[str, Any]] = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    for text in ("hello", " you")
]
SHOWN = [TextChunk("hello"), TextChunk(" you")]


class Fake:
    """A stream that gives some events and a final message, in the way that `final` names."""

    def __init__(self, events: list[Any], message: Any, final: str = "get_final_message") -> None:
        self.events = events
        self.closed = False
        if final:
            setattr(self, final, lambda: message)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.events)


class AsyncFake(Fake):
    """The same for `async for`; its final message must be awaited."""

    def __init__(self, events: list[Any], message: Any, final: str = "get_final_message") -> None:
        super().__init__(events, message, "")

        async def ask() -> Any:
            return message

        setattr(self, final, ask)

    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self.events:
            yield event

    async def aclose(self) -> None:
        self.closed = True


class Managed:
    """A context manager around a stream, sync and async ones told apart by the stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream


class SyncManaged(Managed):
    def __enter__(self) -> Any:
        return self.stream

    def __exit__(self, *error: object) -> None:
        self.stream.closed = True


class AsyncManaged(Managed):
    async def __aenter__(self) -> Any:
        return self.stream

    async def __aexit__(self, *error: object) -> None:
        self.stream.closed = True


def client_of(stream: Any) -> Any:
    """A client whose `stream` returns this and keeps what it was called with."""
    calls: list[dict[str, Any]] = []

    def start(**body: Any) -> Any:
        calls.append(body)
        return stream

    return SimpleNamespace(messages=SimpleNamespace(stream=start), calls=calls)


def ask(client: Any) -> list[StreamChunk]:
    stream: Any = AnthropicClientProvider(client, "claude-sonnet-5").stream(REQUEST)
    if hasattr(stream, "__iter__"):
        return list(stream)

    async def collect() -> list[StreamChunk]:
        return [chunk async for chunk in stream]

    return asyncio.run(collect())


def objects(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: objects(item) for key, item in value.items()}) if "type" in value else value
    return [objects(item) for item in value] if isinstance(value, list) else value


async def awaited(value: Any) -> Any:
    return value


STREAMS: list[Callable[[], Any]] = [
    lambda: Fake(DELTAS, FINAL),
    lambda: Fake(DELTAS, FINAL, "final_message"),
    lambda: Fake(DELTAS, FINAL, "finalMessage"),
    lambda: Fake(objects(DELTAS), SimpleNamespace(**FINAL)),
    lambda: SyncManaged(Fake(DELTAS, FINAL)),
    lambda: AsyncFake(DELTAS, FINAL),
    lambda: AsyncFake(objects(DELTAS), objects({"type": "message", **FINAL}), "finalMessage"),
    lambda: AsyncManaged(AsyncFake(DELTAS, FINAL)),
    lambda: AsyncManaged(Fake(DELTAS, FINAL)),
    lambda: awaited(AsyncFake(DELTAS, FINAL)),
    lambda: awaited(AsyncManaged(AsyncFake(DELTAS, FINAL))),
]


@pytest.mark.parametrize("make", STREAMS)
def test_any_shape_of_stream_is_read(make: Callable[[], Any]) -> None:
    assert ask(client_of(make())) == [*SHOWN, REPLY]


def test_helper_events_of_a_client_are_ignored() -> None:
    helpers = [{"type": "text", "text": "hello", "snapshot": "hello"}, {"type": "input_json", "partial_json": "{"}]

    assert ask(client_of(Fake([helpers[0], *DELTAS, helpers[1], SimpleNamespace()], FINAL))) == [*SHOWN, REPLY]


def test_a_final_message_alone_is_shown_too() -> None:
    assert ask(client_of(Fake([], FINAL))) == [TextChunk("hello you"), REPLY]


def test_a_cut_stream_is_no_reply_even_where_the_client_says_so() -> None:
    events = [{"type": "message_start", "message": {"id": "m", "content": []}}, *DELTAS]
    cut = {**FINAL, "stop_reason": None}

    with pytest.raises(ServerError, match="stream ended early") as caught:
        ask(client_of(Fake(events, cut)))
    assert caught.value.provider == "anthropic"


def test_the_body_is_given_as_keyword_arguments() -> None:
    client = client_of(Fake([], FINAL))
    ask(client)

    assert client.calls == [
        {
            "model": "claude-sonnet-5",
            "max_tokens": 32_768,
            "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
                }
            ],
        }
    ]


def test_errors_of_the_client_pass_unchanged() -> None:
    class Broken(Exception):
        pass

    def events() -> Iterator[Any]:
        yield DELTAS[0]
        raise Broken("mine")

    with pytest.raises(Broken, match="mine"):
        ask(client_of(events()))


def test_leaving_early_closes_the_clients_stream() -> None:
    fakes = [Fake(DELTAS, FINAL), AsyncFake(DELTAS, FINAL), AsyncFake(DELTAS, FINAL)]
    first: Any = AnthropicClientProvider(client_of(SyncManaged(fakes[0])), "claude").stream(REQUEST)
    assert next(first) == TextChunk("hello")
    first.close()

    async def leave(client: Any) -> None:
        stream: Any = AnthropicClientProvider(client, "claude").stream(REQUEST)
        assert await anext(stream) == TextChunk("hello")
        await stream.aclose()

    asyncio.run(leave(client_of(AsyncManaged(fakes[1]))))
    asyncio.run(leave(client_of(fakes[2])))
    assert [fake.closed for fake in fakes] == [True] * 3


@pytest.mark.parametrize(
    "name",
    [
        "anthropic-messages-text-stream",
        "anthropic-messages-thinking-tools-stream",
        "anthropic-messages-tools-parallel-stream",
        "anthropic-messages-max-tokens-mid-tool-stream",
        "anthropic-messages-thinking-redacted-stream",
    ],
)
def test_the_official_client_gives_what_our_own_does(serve: Serve, name: str) -> None:
    anthropic = pytest.importorskip("anthropic", reason="the anthropic SDK is not installed")
    server = serve(name)
    own = list(AnthropicProvider("claude-sonnet-5", base_url=server.url).stream(REQUEST))
    sent = server.requests[-1]["body"]
    server.reset()
    with anthropic.Anthropic(base_url=server.url, api_key="k") as client:
        provider = AnthropicClientProvider(client, "claude-sonnet-5")
        assert isinstance(provider, LLMProvider)
        through = list(provider.stream(REQUEST))  # type: ignore[arg-type]
    assert server.requests[-1]["body"] == sent
    server.reset()

    async def collect() -> list[StreamChunk]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k") as client:
            stream: Any = AnthropicClientProvider(client, "claude-sonnet-5").stream(REQUEST)
            return [chunk async for chunk in stream]

    assert plain(through) == plain(own)
    assert plain(asyncio.run(collect())) == plain(own)


def plain(chunks: list[StreamChunk]) -> list[Any]:
    kinds = {TextChunk: "text", ThinkingChunk: "thinking", ToolDeltaChunk: "arguments"}
    chunks = [chunk for chunk in chunks if not isinstance(chunk, UsageChunk)]
    shown = [(kinds[type(chunk)], chunk.text) for chunk in chunks if not isinstance(chunk, Reply)]
    return [*shown, chunks[-1].replace(request_id=None)]


def test_the_official_clients_errors_pass_unchanged(serve: Serve) -> None:
    anthropic = pytest.importorskip("anthropic", reason="the anthropic SDK is not installed")
    server = serve("anthropic-messages-error-401")

    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        stream: Any = AnthropicClientProvider(client, "claude").stream(REQUEST)
        with pytest.raises(anthropic.AuthenticationError):
            list(stream)
