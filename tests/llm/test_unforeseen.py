"""What a decoder did not foresee is an LLMError, after the chunks before it, with the exception as its cause."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from sapwood.core.errors import LLMError, ServerError
from sapwood.core.messages import Message, Text
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.core.transcript import Transcript
from sapwood.llm.base import BaseLLMProvider, Endpoint
from sapwood.llm.codec import HttpCall
from sapwood.testing.loopback import MemoryTransport

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))


class Careless:
    """A decoder that raises what it is told to, in the place where it is told to."""

    def __init__(self, place: str, error: Exception) -> None:
        self.place, self.error = place, error

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        if self.place == "feed" and data == b'"bad"':
            raise self.error
        return (TextChunk("Hi"),)

    def finish(self) -> Reply:
        if self.place == "finish":
            raise self.error
        return Reply((Text("Hi"),))

    def whole(self, body: bytes) -> Reply:
        raise self.error


class CarelessCodec:
    name = "careless"

    def __init__(self, place: str, error: Exception) -> None:
        self.made: Callable[[], Careless] = lambda: Careless(place, error)

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        return HttpCall(f"{base_url}/ask", {}, b"{}")

    def decoder(self, profile: ModelProfile) -> Careless:
        return self.made()


def asked(place: str, error: Exception, *, is_async: bool) -> tuple[list[StreamChunk], LLMError]:
    body, kind = b'data: "good"\n\ndata: "bad"\n\n', "text/event-stream"
    if place == "whole":
        body, kind = b'{"nope": 1}', "application/json"
    provider: Any = BaseLLMProvider(
        CarelessCodec(place, error),
        ModelProfile("acme", "one"),
        Endpoint("http://127.0.0.1:9", "ACME_KEY", needs_key=False),
        transport=MemoryTransport([body], content_type=kind),
    )
    chunks: list[StreamChunk] = []

    async def read() -> None:
        async for chunk in provider.stream(REQUEST):
            chunks.append(chunk)

    with pytest.raises(LLMError) as caught:
        if is_async:
            asyncio.run(read())
        else:
            for chunk in provider.stream(REQUEST):
                chunks.append(chunk)
    return chunks, caught.value


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyError("word"), IndexError("x"), TypeError("x"), AttributeError("x"), msgspec.DecodeError("x")],
)
@pytest.mark.parametrize(("place", "shown"), [("feed", "'\"bad\"'"), ("finish", "what came"), ("whole", "nope")])
def test_it_is_an_error_of_the_server(place: str, shown: str, error: Exception, is_async: bool) -> None:
    chunks, raised = asked(place, error, is_async=is_async)
    assert type(raised) is ServerError
    assert raised.message.startswith("the decoder of acme/one could not read ")
    assert shown in raised.message
    assert type(error).__name__ in raised.message
    assert raised.__cause__ is error
    assert (raised.provider, raised.model, raised.status) == ("acme", "one", 200)
    assert [chunk.type for chunk in chunks] == ["text_chunk"] * {"feed": 1, "finish": 2, "whole": 0}[place]
