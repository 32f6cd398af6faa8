"""A model that says what it was told to say: for tests, examples and benchmarks.

Laws: it behaves as a real provider does (nothing happens before the first chunk is asked for, the last
chunk is a `Reply`, its streams work with `for` and `async for`) and it keeps every request it saw.
"""

import itertools
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, TypeAlias

import msgspec

from sapwood.core.messages import Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    ModelRequest,
    Reply,
    StopReason,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
)
from sapwood.core.usage import Usage
from sapwood.llm.arguments import read_call
from sapwood.llm.shapes import encode_json

_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")


class ScriptedReply(msgspec.Struct, frozen=True):
    """One reply of a script; made by `says`, `calls` and `fails`.

    texts, thinking: the pieces that are streamed. error: raised after them in place of the reply.
    content: the parts of the reply, None to make them of the pieces and the calls.
    piece_size: characters of argument text in each piece that is streamed of a call; 0 streams none.
    """

    texts: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: StopReason = "stop"
    usage: Usage | None = None
    error: BaseException | None = None
    content: tuple[Part, ...] | None = None
    model: str = ""
    request_id: str | None = None
    piece_size: int = 0

    def chunks(self) -> Iterator[StreamChunk]:
        """Yield what a provider would."""
        for piece in self.thinking:
            yield ThinkingChunk(piece)
        for piece in self.texts:
            yield TextChunk(piece)
        if self.piece_size:
            for index, made in enumerate(self.tool_calls):
                yield from _deltas(index, made, self.piece_size)
        if self.error is not None:
            raise self.error
        yield Reply(self._parts(), self.stop_reason, self.usage, self.model, self.request_id)

    def _parts(self) -> tuple[Part, ...]:
        if self.content is not None:
            return self.content
        thinking = (Thinking("".join(self.thinking)),) if self.thinking else ()
        text = (Text("".join(self.texts)),) if self.texts else ()
        return (*thinking, *text, *self.tool_calls)


def _deltas(index: int, made: ToolCall, size: int) -> Iterator[StreamChunk]:
    text = made.raw if made.raw is not None else encode_json(made.arguments).decode()
    yield ToolDeltaChunk(index, made.name)
    for start in range(0, len(text), size):
        yield ToolDeltaChunk(index, "", text[start : start + size])


Answer: TypeAlias = ScriptedReply | Callable[[ModelRequest], ScriptedReply]


def says(
    *texts: str,
    thinking: str = "",
    stop_reason: StopReason = "stop",
    usage: Usage | None = None,
    error: BaseException | None = None,
    content: tuple[Part, ...] | None = None,
    model: str = "",
    request_id: str | None = None,
) -> ScriptedReply:
    """Script a reply of text: one text is streamed word by word, several as they are given.

    error: raised after the text instead of completing the reply.

    >>> says("hello you").texts
    ('hello', ' you')
    """
    pieces = tuple(_WORD.findall(texts[0])) if len(texts) == 1 else texts
    thoughts = tuple(_WORD.findall(thinking))
    return ScriptedReply(pieces, thoughts, (), stop_reason, usage, error, content, model=model, request_id=request_id)


def call(name: str, arguments: dict[str, Any] | None = None, *, id: str = "", raw: str | None = None) -> ToolCall:
    """Script one tool call, by its arguments or by the raw text of them.

    >>> call("add", raw="{").problem
    'malformed'
    """
    if raw is not None:
        return read_call(name, raw, id=id)
    return ToolCall(name, arguments or {}, id=id)


def calls(
    *items: str | ToolCall,
    text: str = "",
    thinking: str = "",
    stop_reason: StopReason = "tool_use",
    usage: Usage | None = None,
    piece_size: int = 0,
    error: BaseException | None = None,
) -> ScriptedReply:
    """Script a reply that calls tools, each by its name alone or as a `call(...)`.

    text: said before the calls. piece_size: their arguments are streamed in pieces of so many characters, as most
    providers do; 0 gives them whole. error: raised after the pieces instead of completing the reply.

    >>> [item.name for item in calls("slow", call("fast", {"n": 1})).tool_calls]
    ['slow', 'fast']
    """
    made = tuple(ToolCall(item) if isinstance(item, str) else item for item in items)
    texts, thoughts = tuple(_WORD.findall(text)), tuple(_WORD.findall(thinking))
    return ScriptedReply(texts, thoughts, made, stop_reason, usage, error, piece_size=piece_size)


def fails(error: BaseException, *, after: str = "") -> ScriptedReply:
    """Script a failure, at once or after some text was streamed."""
    return says(after, error=error)


class ScriptedStream:
    """One streamed reply. closed: it was closed or read to its end. started: a chunk was asked for."""

    def __init__(self, open_chunks: Callable[[], Generator[StreamChunk, None, None]]) -> None:
        self._chunks = open_chunks()
        self.started = False
        self.closed = False

    def __iter__(self) -> "ScriptedStream":
        return self

    def __next__(self) -> StreamChunk:
        self.started = True
        try:
            return next(self._chunks)
        except BaseException:
            self.closed = True
            raise

    def close(self) -> None:
        """End the stream; it yields nothing more."""
        self.closed = True
        self._chunks.close()

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self

    async def __anext__(self) -> StreamChunk:
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """End the stream; it yields nothing more."""
        self.close()


class ScriptedProvider:
    """A provider that answers from a script and keeps what it was asked.

    requests: every request, in order. streams: every stream that was made, with `started` and `closed`.
    """

    def __init__(self, replies: tuple[Answer, ...], profile: ModelProfile) -> None:
        self.profile = profile
        self.requests: list[ModelRequest] = []
        self.streams: list[ScriptedStream] = []
        self._replies = replies
        self._numbers = itertools.count()

    def stream(self, request: ModelRequest) -> ScriptedStream:
        """Return the next reply of the script, as a stream that is iterable and async-iterable."""
        stream = ScriptedStream(lambda: self._chunks(request))
        self.streams.append(stream)
        return stream

    def _chunks(self, request: ModelRequest) -> Generator[StreamChunk, None, None]:
        self.requests.append(request)
        number = next(self._numbers)
        if number >= len(self._replies):
            raise AssertionError(
                f"the script holds {len(self._replies)} replies and this is request {number + 1}; "
                "give scripted(...) another one"
            )
        reply = self._replies[number]
        yield from (reply if isinstance(reply, ScriptedReply) else reply(request)).chunks()


def scripted(*replies: Answer, profile: ModelProfile | None = None) -> ScriptedProvider:
    """Return a provider that gives these replies, one for each request.

    A reply may be a function that is given the request. A request too many raises AssertionError.

    >>> from sapwood.core.transcript import Transcript
    >>> model = scripted(says("hi"))
    >>> list(model.stream(ModelRequest(Transcript())))[0]
    TextChunk(text='hi')
    """
    default = ModelProfile("scripted", "scripted", context_window=200_000, max_output_tokens=8_192)
    return ScriptedProvider(replies, profile or default)
