"""Providers over real HTTP on this machine: faults, closing, loops, threads, keys."""

import asyncio
import gc
import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflowError,
    LLMError,
    LLMTimeoutError,
    RateLimitError,
    ServerError,
)
from sapwood.core.messages import Message, Text
from sapwood.core.model import LLMProvider, ModelRequest, Reply, StreamChunk, TextChunk, UsageChunk
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.codec import HttpCall, Timeouts
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.transport import Httpx2Transport, Transport, TransportFailure, inflater
from sapwood.llm.transport_aiohttp import AiohttpTransport

REQUEST = ModelRequest(Transcript.of([Message.user("the secret prompt of forty-two characters")]))
KEY = "sk-test-4711-do-not-show"
TEXT = "anthropic-messages-text-stream"
LONG = "anthropic-messages-tools-no-args-stream"
Serve = Callable[..., Any]


class Impatient:
    """A transport with short time-outs."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def send(self, call: HttpCall) -> Any:
        return self._inner.send(HttpCall(call.url, call.headers, call.body, timeouts=Timeouts(0.5, 0.3)))

    async def asend(self, call: HttpCall) -> Any:
        return await self._inner.asend(HttpCall(call.url, call.headers, call.body, timeouts=Timeouts(0.5, 0.3)))


async def collect(provider: AnthropicProvider | OpenAIChatProvider) -> list[StreamChunk]:
    return [chunk async for chunk in provider.stream(REQUEST)]


Ask = Callable[[str], list[StreamChunk]]


def asking(way: str, **options: Any) -> Ask:
    """Return a function that asks a server in one of three ways."""
    inner: Transport = AiohttpTransport() if way == "aiohttp" else Httpx2Transport()
    transport: Any = Impatient(inner) if options.pop("impatient", False) else inner

    def ask(url: str) -> list[StreamChunk]:
        provider = AnthropicProvider("some", base_url=url, transport=transport, api_key=KEY, **options)
        if way == "sync":
            return list(provider.stream(REQUEST))
        return asyncio.run(collect(provider))

    return ask


@pytest.fixture(params=["sync", "async", "aiohttp"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    "faults",
    [
        {"split": "byte"},
        {"split": "7", "gzip": True},
        {"newline": "crlf", "split": "awkward"},
        {"newline": "cr", "split": "awkward"},
        {"keepalive_every": 1},
        {"connection_close": True},
        {"split": "whole", "gzip": True},
    ],
)
def test_the_wire_may_be_odd(serve: Serve, way: str, faults: dict[str, Any]) -> None:
    chunks = asking(way)(serve(TEXT, **faults).url)

    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert reply.content == (Text("Hello"),)
    assert reply.request_id == "req_011CZknL2bUdgvrtea9HYSrj"


@pytest.mark.parametrize("how", ["rst", "fin", "clean"])
@pytest.mark.parametrize("after", [0, 10, 700, 900])
def test_a_stream_that_breaks_off_is_a_transient_error(serve: Serve, way: str, how: str, after: int) -> None:
    url = serve(TEXT, drop_after_bytes=after, drop_how=how, drop_times=-1).url

    with pytest.raises(ServerError) as caught:
        asking(way)(url)
    assert caught.value.is_transient
    assert (caught.value.provider, caught.value.model) == ("anthropic", "some")


@pytest.mark.parametrize("after", [0, 700])
def test_silence_is_a_timeout(serve: Serve, way: str, after: int) -> None:
    url = serve(TEXT, hang_after_bytes=after).url

    with pytest.raises(LLMTimeoutError, match=r"sent nothing for 0\.3 s"):
        asking(way, impatient=True)(url)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_server_is_a_transient_error(way: str, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    with pytest.raises(ServerError, match="no connection") as caught:
        asking(way)(f"{scheme}://127.0.0.1:{port}")
    assert caught.value.is_transient


def test_a_server_without_tls_is_no_connection(serve: Serve, way: str) -> None:
    with pytest.raises(LLMError, match="no connection") as caught:
        asking(way)(serve(TEXT).url.replace("http:", "https:"))
    assert caught.value.is_transient


def test_closing_a_transport_lets_it_be_used_again(serve: Serve) -> None:
    url = serve(TEXT).url
    for transport in (Httpx2Transport(), AiohttpTransport()):
        provider = AnthropicProvider("some", base_url=url, transport=transport)

        async def use(provider: Any = provider, transport: Any = transport) -> None:
            first = await collect(provider)
            await transport.aclose()
            assert await collect(provider) == first

        asyncio.run(use())
        list(provider.stream(REQUEST))
        transport.close()
        assert list(provider.stream(REQUEST))[-1].type == "reply"


def test_a_coding_that_nobody_asked_for_is_a_failure() -> None:
    with pytest.raises(TransportFailure, match="not asked for: 'br'"):
        inflater({"content-encoding": "br"})
    assert inflater({}) is inflater({"content-encoding": "identity"}) is None


def test_damaged_compression_is_a_transient_error(way: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head + b"this is no gzip")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerError, match="damaged"):
            asking(way)(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_an_answer_that_is_no_http_is_a_transient_error(way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"what?\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerError, match="broke"):
            asking(way)(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


@pytest.mark.parametrize(
    ("status", "kind", "transient"),
    [
        (429, RateLimitError, True),
        (529, ServerError, True),
        (503, ServerError, True),
        (401, AuthenticationError, False),
        (400, LLMError, False),
    ],
)
def test_statuses_become_errors(serve: Serve, way: str, status: int, kind: type, transient: bool) -> None:
    server = serve(TEXT, fail_first=1, fail_status=[status], retry_after="7")

    ask = asking(way)
    with pytest.raises(LLMError) as caught:
        ask(server.url)
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.is_transient, error.retry_after_seconds) == (status, transient, 7)
    assert ask(server.url)[-1].type == "reply"  # the connection is usable still


def test_an_error_after_text_comes_after_the_text(serve: Serve, way: str) -> None:
    provider = AnthropicProvider("some", base_url=serve("anthropic-messages-error-overloaded-midtext-stream").url)
    seen: list[StreamChunk] = []

    with pytest.raises(ServerError, match="Overloaded") as caught:
        for chunk in provider.stream(REQUEST):
            seen.append(chunk)
    assert [type(chunk) for chunk in seen] == [UsageChunk, TextChunk]
    assert caught.value.status == 529


def test_an_error_field_in_place_of_data_is_found(serve: Serve) -> None:
    provider = OpenAIChatProvider("gemma", base_url=serve("llamacpp-chat-error-field-200-stream").url)

    with pytest.raises(ContextOverflowError):
        list(provider.stream(REQUEST))


def test_a_whole_reply_is_understood_where_a_stream_was_asked_for(serve: Serve, way: str) -> None:
    chunks = asking(way)(serve("anthropic-messages-structured").url)

    assert [chunk.type for chunk in chunks] == ["text_chunk", "reply"]
    provider = OpenAIChatProvider("x/y", base_url=serve("openrouter-chat-error-in-200").url)
    with pytest.raises(ServerError, match="Provider returned error"):
        list(provider.stream(REQUEST))


def left(server: Any) -> bool:
    """Whether the client went away while the server was silent."""
    for _ in range(100):
        if any(request.get("client_left") for request in server.requests):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("transport", [Httpx2Transport, AiohttpTransport])
def test_closing_early_closes_the_socket(serve: Serve, transport: Callable[[], Transport]) -> None:
    server = serve("anthropic-messages-error-overloaded-midtext-stream", hang_after_bytes=800)
    provider = AnthropicProvider("some", base_url=server.url, transport=transport())

    async def stop_early() -> bool:
        stream = provider.stream(REQUEST)
        assert isinstance(await anext(stream), UsageChunk)
        assert await anext(stream) == TextChunk("Hello")
        await stream.aclose()
        return await asyncio.to_thread(left, server)

    assert asyncio.run(stop_early())
    server.requests.clear()
    sync = provider.stream(REQUEST)
    assert isinstance(next(sync), UsageChunk)
    assert next(sync) == TextChunk("Hello")
    sync.close()
    assert left(server)
    assert list(sync) == []


@pytest.mark.parametrize("transport", [Httpx2Transport, AiohttpTransport])
def test_cancelling_closes_the_socket(serve: Serve, transport: Callable[[], Transport]) -> None:
    server = serve(TEXT, hang_after_bytes=0)
    provider = AnthropicProvider("some", base_url=server.url, transport=transport())

    async def cancel() -> bool:
        task = asyncio.create_task(collect(provider))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(left, server)

    assert asyncio.run(cancel())


def test_nothing_is_sent_before_the_first_chunk(serve: Serve) -> None:
    server = serve(TEXT)
    provider = AnthropicProvider("some", base_url=server.url)

    stream = provider.stream(REQUEST)
    assert isinstance(provider, LLMProvider)
    assert server.requests == []
    stream.close()
    list(provider.stream(REQUEST))
    assert len(server.requests) == 1


@pytest.mark.parametrize("transport", [Httpx2Transport, AiohttpTransport])
def test_thr_01_one_provider_in_several_loops_and_threads(serve: Serve, transport: Callable[[], Transport]) -> None:
    server = serve(TEXT)
    provider = AnthropicProvider("some", base_url=server.url, transport=transport())
    found: list[list[StreamChunk]] = [list(provider.stream(REQUEST)) for _ in range(2)]
    found += [asyncio.run(collect(provider)) for _ in range(3)]

    async def at_once() -> list[list[StreamChunk]]:
        return await asyncio.gather(*(collect(provider) for _ in range(5)))

    def work() -> None:
        found.append(list(provider.stream(REQUEST)))
        found.append(asyncio.run(collect(provider)))
        found.extend(asyncio.run(at_once()))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 26
    gc.collect()  # an unclosed socket would warn here, and a warning is an error


@pytest.mark.parametrize("transport", [Httpx2Transport, AiohttpTransport])
def test_thr_05_a_client_of_a_dead_loop_is_not_used_again(serve: Serve, transport: Callable[[], Transport]) -> None:
    server = serve(LONG, split="event")
    provider = AnthropicProvider("some", base_url=server.url, transport=transport())
    asyncio.run(collect(provider))

    async def leave_early() -> None:
        stream = provider.stream(REQUEST)
        async with aclosing(stream.__aiter__()) as chunks:  # type: ignore[type-var]
            async for _ in chunks:
                break

    asyncio.run(leave_early())
    assert asyncio.run(collect(provider))[-1].type == "reply"

    async def forget() -> None:
        async for _ in provider.stream(REQUEST):
            return  # neither closed nor read to its end

    asyncio.run(forget())
    gc.collect()


def test_a_missing_key_is_told_at_the_first_call(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    provider = AnthropicProvider("claude-sonnet-4-5")
    with pytest.raises(AuthenticationError, match="set ANTHROPIC_API_KEY"):
        next(provider.stream(REQUEST))
    with pytest.raises(AuthenticationError, match="set OPENAI_API_KEY"):
        next(OpenAIChatProvider("gpt-4o").stream(REQUEST))
    with pytest.raises(ConfigError, match="pass base_url="):
        next(OpenAIChatProvider("m", provider="my-gateway").stream(REQUEST))

    server = serve(TEXT)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    list(provider.stream(REQUEST))
    assert "x-api-key" not in server.requests[-1]["headers"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    list(provider.stream(REQUEST))
    assert server.requests[-1]["headers"]["x-api-key"] == f"<{len(KEY)} characters>"


@pytest.mark.parametrize("url", ["ftp://host", "localhost:8000", "http://", "http://[::1", "http://ho st"])
def test_a_bad_address_is_a_mistake_of_the_set_up(url: str, way: str) -> None:
    with pytest.raises((ConfigError, LLMError)):
        asking(way)(url)


@pytest.mark.parametrize("key", ["sk-ключ-4711", "sk-4711\nx: y", "sk-4711\x00"])
def test_a_key_with_odd_characters_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        next(AnthropicProvider("some", api_key=key, base_url="http://127.0.0.1:9").stream(REQUEST))
    assert "4711" not in shown(caught.value)


def shown(error: BaseException) -> str:
    """All that a log, a traceback or a tracker could show of an error."""
    seen: list[str] = []
    link: BaseException | None = error
    while link is not None:
        seen += [repr(link), str(link), repr(vars(link)), repr(link.args)]
        link = link.__cause__ or link.__context__
    return "\n".join([*seen, *traceback.format_exception(error)])


@pytest.mark.parametrize("status", [400, 401, 429, 500, 200])
def test_no_key_and_no_prompt_in_errors_reprs_and_logs(
    serve: Serve, way: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f'{{"error": {{"message": "cannot read {REQUEST.transcript[0].text} with {KEY}"}}}}'
    server = serve(TEXT, fail_first=1, fail_status=[status], fail_body=echo)

    with pytest.raises(LLMError) as caught:
        asking(way)(server.url)
    with pytest.raises(LLMError) as refused:
        asking(way)("http://127.0.0.1:9")
    provider = AnthropicProvider("some", api_key=KEY, base_url=server.url)
    call = HttpCall(server.url, {"x-api-key": KEY}, b"the secret prompt")
    everything = [shown(caught.value), shown(refused.value), repr(provider), repr(call), repr(vars(provider)["_codec"])]
    everything += [record.getMessage() for record in caplog.records]
    assert [text for text in everything if KEY in text or "secret prompt" in text] == []


def test_a_gateway_that_marks_its_end_and_then_breaks_has_lost_nothing(serve: Serve, way: str) -> None:
    size = len(serve(TEXT).scenarios[TEXT].exchanges[0]["response"]["text"].encode())
    url = serve(TEXT, drop_after_bytes=size, drop_how="rst", drop_times=-1).url

    assert asking(way)(url)[-1].type == "reply"
