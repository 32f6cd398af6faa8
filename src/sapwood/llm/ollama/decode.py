"""Ollama's replies, a JSON value a line or one in all, as StreamChunks and one Reply.

Laws: a reply is complete only with `done`; an error may come in any line; calls come whole. A prompt that the
server cut is told of, as far as the figures show it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sapwood.core.errors import ServerError
from sapwood.core.json_object import is_object
from sapwood.core.messages import Part, Text, Thinking, ToolCall
from sapwood.core.model import ModelProfile, Reply, StopReason, StreamChunk, TextChunk, ThinkingChunk
from sapwood.core.usage import Usage
from sapwood.llm.arguments import read_call
from sapwood.llm.failures import complaint, error_from
from sapwood.llm.shapes import UNREADABLE, count_in, decode_json, list_in, object_in, text_in

BYTES_PER_TOKEN = 6
"""More bytes than nearly all text has to a token, so that a prompt is not taken to be longer than it was."""
_WINDOWS = tuple(2**power for power in range(11, 19))
_NEAR = 8  # tokens that the server keeps from the front, and one or two of its own
_STOP_REASONS: dict[str, StopReason] = {"length": "max_tokens"}
_NOTHING: tuple[StreamChunk, ...] = ()


class Sent(msgspec.Struct, frozen=True):
    """What is known of a request when its reply is read.

    text_bytes: of its body; 0 where they tell nothing of its tokens. window: the tokens that the server was told
    a prompt and its reply may take; 0 where it was told nothing.
    """

    text_bytes: int = 0
    window: int = 0


def was_cut(sent: Sent, evaluated: int) -> bool:
    """Tell whether the server has read less than was sent. evaluated: the tokens that it reports.

    A server that cuts fills the window or half of it, or drops whole messages until the rest fits; so what it
    reports is at least half of a window. Less than that is a prompt of which the beginning was still in the
    server's memory: older versions leave that part out of the figure.

    >>> was_cut(Sent(text_bytes=30_000), 2_050), was_cut(Sent(text_bytes=30_000), 7_000)
    (True, False)
    """
    least = sent.text_bytes / BYTES_PER_TOKEN
    smallest = (sent.window or _WINDOWS[0]) // 2
    if evaluated < smallest or least <= 1.1 * evaluated:
        return False
    windows = (sent.window,) if sent.window else _WINDOWS
    is_full = any(0 <= window - evaluated <= _NEAR or 0 <= evaluated - window // 2 <= _NEAR for window in windows)
    return is_full or least > 1.5 * evaluated


class _Message(msgspec.Struct, gc=False):
    content: str = ""
    thinking: str | None = None
    tool_calls: Any = None


class _Line(msgspec.Struct, gc=False):
    message: _Message
    done: bool = False
    error: Any = None


# Nearly all lines add text, so that is decoded into slots; whatever does not fit goes the general way.
_decode_line = msgspec.json.Decoder(_Line).decode


class OllamaDecoder:
    """Reads one reply. sent: the request; when_cut: called where the server has read less than that."""

    def __init__(
        self, profile: ModelProfile, *, sent: Sent | None = None, when_cut: Callable[[int], None] | None = None
    ) -> None:
        self._provider = profile.provider
        self._sent = sent
        self._when_cut = when_cut
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[Any] = []
        self._last: dict[str, Any] | None = None
        self._model = ""

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one line; raises LLMError where it is an error."""
        try:
            line = _decode_line(data)
        except UNREADABLE:  # ValidationError is a DecodeError
            return self._feed_any(data)
        message = line.message
        if line.done or line.error is not None or message.tool_calls is not None or message.thinking:
            return self._feed_any(data)
        if text := message.content:
            self._texts.append(text)
            return (TextChunk(text),)
        return _NOTHING

    def _feed_any(self, data: bytes) -> Sequence[StreamChunk]:
        if not data.strip():
            return _NOTHING
        try:
            value = decode_json(data)
        except UNREADABLE:
            raise ServerError("the stream holds a line that cannot be read") from None
        return self._take(value)

    def _take(self, line: Any) -> list[StreamChunk]:
        if (said := complaint(line)) is not None:
            # What is wrong with a request is told by a status; once a reply has begun, the server has failed.
            raise error_from(said if said.status else msgspec.structs.replace(said, status=500))
        chunks: list[StreamChunk] = []
        message = object_in(line, "message")
        if thought := text_in(message, "thinking"):
            self._thoughts.append(thought)
            chunks.append(ThinkingChunk(thought))
        if text := text_in(message, "content"):
            self._texts.append(text)
            chunks.append(TextChunk(text))
        self._calls += list_in(message, "tool_calls")
        self._model = text_in(line, "model") or self._model
        if is_object(line) and line.get("done") is True:
            self._last = line
        return chunks

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where no line said that it is done."""
        if self._last is None:
            raise ServerError("stream ended early")
        calls = self._read_calls()
        stop = _STOP_REASONS.get(text_in(self._last, "done_reason"), "tool_use" if calls else "stop")
        evaluated = count_in(self._last, "prompt_eval_count")
        if self._when_cut and self._sent and was_cut(self._sent, evaluated):
            self._when_cut(evaluated)
        return Reply((*self._parts(), *calls), stop, usage_of(self._last), self._model)

    def _parts(self) -> list[Part]:
        parts: list[Part] = []
        if self._thoughts:
            parts.append(Thinking("".join(self._thoughts), {self._provider: {"field": "thinking"}}))
        if self._texts:
            parts.append(Text("".join(self._texts)))
        return parts

    def _read_calls(self) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for number, call in enumerate(self._calls):
            function = object_in(call, "function")
            found = function.get("arguments")
            arguments = found if is_object(found) or isinstance(found, str) or found is None else repr(found)
            calls.append(read_call(text_in(function, "name"), arguments, id=text_in(call, "id") or f"call_{number}"))
        return tuple(calls)

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        try:
            self._take(decode_json(body))
        except UNREADABLE:  # lines, of which a gateway did not say that they are
            for line in body.split(b"\n"):
                self._feed_any(line)
        if self._last is None and not (self._texts or self._calls):
            raise ServerError("the provider's answer holds no message")
        return self.finish()


def usage_of(line: dict[str, Any]) -> Usage | None:
    """Return the usage in our terms, None where nothing was counted.

    >>> usage_of({"prompt_eval_count": 40, "prompt_eval_cached_count": 32, "eval_count": 5}).prompt_tokens
    8
    """
    given, output = count_in(line, "prompt_eval_count"), count_in(line, "eval_count")
    read = min(count_in(line, "prompt_eval_cached_count"), given)
    if not given and not output:
        return None
    return Usage(prompt_tokens=given - read, completion_tokens=output, cache_read_tokens=read)
