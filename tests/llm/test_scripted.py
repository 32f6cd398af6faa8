"""The scripted model behaves as a provider does."""

import asyncio

import pytest

from sapwood.core.errors import ServerError
from sapwood.core.messages import Message, Text, Thinking, ToolCall
from sapwood.core.model import LLMProvider, ModelRequest, Reply, TextChunk, ThinkingChunk
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.scripted import call, calls, fails, says, scripted

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))


def test_text_comes_in_several_chunks_and_the_reply_last() -> None:
    model = scripted(says("hello  you ", thinking="so so", usage=Usage(1, 2)))

    assert list(model.stream(REQUEST)) == [
        ThinkingChunk("so"),
        ThinkingChunk(" so"),
        TextChunk("hello"),
        TextChunk("  you "),
        Reply((Thinking("so so"), Text("hello  you ")), "stop", Usage(1, 2)),
    ]
    assert isinstance(model, LLMProvider)
    assert model.requests == [REQUEST]


def test_calls_keep_names_arguments_and_what_could_not_be_read() -> None:
    reply = list(scripted(calls("a", call("b", {"x": 1}, id="i"), call("c", raw='{"x'))).stream(REQUEST))[-1]

    assert reply == Reply(
        (ToolCall("a"), ToolCall("b", {"x": 1}, id="i"), ToolCall("c", raw='{"x', problem="malformed")),
        "tool_use",
    )


def test_a_failure_is_raised_before_or_after_text() -> None:
    model = scripted(fails(ServerError("down")), fails(ServerError("cut"), after="some text"), says("ok"))

    with pytest.raises(ServerError, match="down"):
        next(model.stream(REQUEST))
    stream = model.stream(REQUEST)
    assert [next(stream), next(stream)] == [TextChunk("some"), TextChunk(" text")]
    with pytest.raises(ServerError, match="cut"):
        next(stream)
    assert stream.closed
    assert list(model.stream(REQUEST))[-1] == Reply((Text("ok"),))


def test_one_request_too_many_says_so() -> None:
    model = scripted(says("only"))
    list(model.stream(REQUEST))

    with pytest.raises(AssertionError, match="holds 1 replies and this is request 2"):
        list(model.stream(REQUEST))


def test_streams_work_with_async_for_and_close() -> None:
    model = scripted(says("a b"), lambda request: says(str(len(request.transcript))))

    async def ask() -> tuple[list[object], object]:
        chunks = [chunk async for chunk in model.stream(REQUEST)]
        second = model.stream(REQUEST)
        first_chunk = await anext(second)
        await second.aclose()
        return chunks, first_chunk

    assert asyncio.run(ask()) == ([TextChunk("a"), TextChunk(" b"), Reply((Text("a b"),))], TextChunk("1"))
    assert [stream.closed for stream in model.streams] == [True, True]


def test_nothing_is_asked_before_the_first_chunk() -> None:
    model = scripted(says("a"))
    stream = model.stream(REQUEST)

    assert (model.requests, stream.started, stream.closed) == ([], False, False)
