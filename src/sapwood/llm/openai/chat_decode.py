"""Chat Completions, streamed or whole, as StreamChunks and one Reply; tolerant of other servers.

Laws: an error is looked for before content; a reply is complete only with a finish reason, or with both
its usage and `[DONE]`; a call's index alone is never trusted; of each usage figure the last one wins.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sapwood.core.errors import ServerError
from sapwood.core.json_object import is_list, is_object, read_object
from sapwood.core.messages import Opaque, Part, Text, Thinking
from sapwood.core.model import (
    ModelProfile,
    Reply,
    ServerCallChunk,
    ServerResultChunk,
    StopReason,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
)
from sapwood.core.usage import Usage
from sapwood.llm.failures import Complaint, complaint, error_from, read_answer, read_event
from sapwood.llm.openai.chat_calls import CallAssembly
from sapwood.llm.shapes import UNREADABLE, count_in, list_in, object_in, text_in

TICKS_PER_DOLLAR = 1e10
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "content_filter",
}
_FAILED = frozenset({"error", "insufficient_system_resource"})
_CUT_SHORT = frozenset({"length", "content_filter"})
_SOURCES = ("citations", "search_results")
_NOTHING: tuple[StreamChunk, ...] = ()


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    reasoning_details: Any = None
    extra_content: Any = None
    annotations: Any = None
    executed_tools: Any = None

    def is_text_only(self) -> bool:
        return (
            self.tool_calls is None
            and self.reasoning_details is None
            and self.extra_content is None
            and not self.reasoning_content
            and not self.reasoning
            and not self.refusal
            and self.function_call is None
            and self.annotations is None
            and self.executed_tools is None
        )


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    index: int = 0
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    citations: Any = None


# Nearly all chunks add text, so that is decoded into slots; whatever does not fit goes the general way.
_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class ChatDecoder:
    """Reads one reply; of several choices it reads the first that came."""

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._index: int | None = None
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = ""
        self._details: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}
        self._annotations: list[Any] = []
        self._sources: dict[str, Any] = {}
        self._executed: dict[Any, bool] = {}
        self._calls = CallAssembly(profile.provider)
        self._refused = False
        self._finish = ""
        self._done = False
        self._model = ""
        self._usage: dict[str, Any] = {}

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one event; raises LLMError where the event is an error."""
        if self._index is not None and not event:
            try:
                chunk = _decode_chunk(data)
            except UNREADABLE:  # ValidationError is a DecodeError
                return self._feed_any(event, data)
            if len(chunk.choices) == 1 and chunk.usage is None and chunk.error is None and chunk.citations is None:
                choice = chunk.choices[0]
                delta = choice.delta
                if (
                    choice.index == self._index
                    and choice.finish_reason is None
                    and chunk.x_groq is None
                    and delta.is_text_only()
                ):
                    if text := delta.content:
                        self._texts.append(text)
                        return (TextChunk(text),)
                    return _NOTHING
        return self._feed_any(event, data)

    def _feed_any(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        if (word := data.strip()) in (b"[DONE]", b""):
            self._done = self._done or bool(word)
            return _NOTHING
        value = read_event(data)
        if event == b"error":
            raise error_from(complaint(value) or complaint({"error": value}) or Complaint("the provider failed"))
        return self._take(value)

    def _take(self, chunk: Any) -> list[StreamChunk]:
        said = complaint(chunk) or complaint(object_in(chunk, "x_groq"))
        if said is not None:
            raise error_from(said)
        self._model = text_in(chunk, "model") or self._model
        usage = object_in(chunk, "usage") or object_in(object_in(chunk, "x_groq"), "usage")
        self._usage.update((key, value) for key, value in usage.items() if value is not None)
        for name in _SOURCES:  # repeated in every chunk, so the last is whole
            if found := list_in(chunk, name):
                self._sources[name] = found
        chunks: list[StreamChunk] = []
        for choice in list_in(chunk, "choices"):
            index = choice.get("index") if is_object(choice) else None
            if self._index is None:
                self._index = index if isinstance(index, int) else 0
            if index is None or index == self._index:
                chunks += self._take_delta(object_in(choice, "delta"))
                self._finish = text_in(choice, "finish_reason") or self._finish
        return chunks

    def _take_delta(self, delta: dict[str, Any]) -> list[StreamChunk]:
        chunks: list[StreamChunk] = []
        thought = text_in(delta, "reasoning_content")
        if thought:
            self._think(thought, "reasoning_content", chunks)
        elif thought := text_in(delta, "reasoning"):
            self._think(thought, "reasoning", chunks)
        for part in list_in(delta, "content"):  # Mistral's way
            self._take_content_part(part, chunks)
        self._say(text_in(delta, "content"), chunks)
        if refusal := text_in(delta, "refusal"):
            self._refused = True
            self._say(refusal, chunks)
        self._calls.take(list_in(delta, "tool_calls"), chunks)
        if old := object_in(delta, "function_call"):
            self._calls.take([{"index": 0, "function": old}], chunks)
        for detail in list_in(delta, "reasoning_details"):
            self._add_detail(detail)
        if extra := object_in(delta, "extra_content"):
            self._extra = {"extra_content": extra}
        self._annotations += list_in(delta, "annotations")
        for tool in list_in(delta, "executed_tools"):
            self._take_executed(tool, chunks)
        return chunks

    def _take_executed(self, tool: Any, chunks: list[StreamChunk]) -> None:
        """Take a tool that the server ran itself (Groq): first its call, then the same with its output."""
        index = tool.get("index") if is_object(tool) else None
        id, name = f"executed_{index}", text_in(tool, "type") or "tool"
        if index not in self._executed:
            self._executed[index] = False
            found = read_object(text_in(tool, "arguments"))
            chunks.append(ServerCallChunk(id, name, found if isinstance(found, dict) else {}))
        if not self._executed[index] and "output" in tool:
            self._executed[index] = True
            chunks.append(ServerResultChunk(id, name, tool["output"]))

    def _take_content_part(self, part: Any, chunks: list[StreamChunk]) -> None:
        if text_in(part, "type") == "thinking":
            inner = list_in(part, "thinking")
            thought = "".join(text_in(item, "text") for item in inner) or text_in(part, "thinking")
            self._think(thought, "content", chunks)
        else:
            self._say(text_in(part, "text"), chunks)

    def _say(self, text: str, chunks: list[StreamChunk]) -> None:
        if text:
            self._texts.append(text)
            chunks.append(TextChunk(text))

    def _think(self, text: str, field: str, chunks: list[StreamChunk]) -> None:
        if text:
            self._thoughts.append(text)
            self._thought_field = field
            chunks.append(ThinkingChunk(text))

    def _add_detail(self, detail: Any) -> None:
        """Merge a fragment of OpenRouter's reasoning details into the one of its index."""
        if not is_object(detail):
            return
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(key) == detail.get(key) for key in ("index", "type"))
        if last is None or not same or detail.get("index") is None:
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            old = last.get(key)
            grows = key in ("text", "summary", "data") and isinstance(value, str) and isinstance(old, str)
            if value is not None:
                last[key] = f"{old}{value}" if grows else value

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where no finish reason came."""
        if not self._finish and not (self._done and self._usage):
            raise ServerError("stream ended early")
        if self._finish in _FAILED:
            raise ServerError(f"the provider broke off with the finish reason {self._finish!r}")
        is_complete = self._finish not in _CUT_SHORT
        calls = self._calls.finish(is_complete=is_complete)
        stop = _STOP_REASONS.get(self._finish, "stop")
        if calls and stop == "stop":
            stop = "tool_use"
        if self._refused and not calls:
            stop = "refusal"
        return Reply((*self._parts(), *calls), stop, usage_of(self._usage), self._model)

    def _parts(self) -> list[Part]:
        provider = self._profile.provider
        parts: list[Part] = []
        data: dict[str, Any] = {"field": self._thought_field} if self._thought_field else {}
        if self._details:
            data["reasoning_details"] = self._details
        if self._thoughts or data:
            parts.append(Thinking("".join(self._thoughts), {provider: data}))
        if self._extra:
            parts.append(Opaque("message", {provider: self._extra}))
        if self._texts:
            own = {"annotations": self._annotations} if self._annotations else {}
            notes = {provider: {**own, **self._sources}} if own or self._sources else None
            parts.append(Text("".join(self._texts), notes))
        return parts

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        value = read_answer(body)
        if (said := complaint(value)) is not None:
            raise error_from(said)
        choices = list_in(value, "choices")
        if not choices or not is_object(choices[0]):
            raise ServerError("the provider's answer holds no choices")
        first: dict[str, Any] = choices[0]
        message = object_in(first, "message")
        calls: list[Any] = [
            {**call, "index": number} if is_object(call) else call
            for number, call in enumerate(list_in(message, "tool_calls"))
        ]
        reason = text_in(first, "finish_reason") or "stop"
        delta = {**message, "tool_calls": calls}
        self._take({**value, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        return self.finish()


def usage_of(usage: dict[str, Any]) -> Usage | None:
    """Return the usage in our terms, None where the server reported none."""
    if not usage:
        return None
    details = object_in(usage, "prompt_tokens_details")
    given, output = count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")
    read = count_in(details, "cached_tokens") or count_in(usage, "prompt_cache_hit_tokens")
    read = min(read, given)
    written = min(count_in(details, "cache_write_tokens"), given - read)
    # xAI counts reasoning beside the completion: what the total holds besides is reasoning output.
    output += max(0, count_in(usage, "total_tokens") - given - output)
    cost, ticks = usage.get("cost"), usage.get("cost_in_usd_ticks")
    if isinstance(ticks, int | float):  # xAI's
        cost = ticks / TICKS_PER_DOLLAR
    elif is_object(cost):  # Perplexity's, with what a search costs beside its tokens
        cost = cost.get("total_cost")
    return Usage(
        prompt_tokens=given - read - written,
        completion_tokens=output,
        cache_creation_tokens=written,
        cache_read_tokens=read,
        thinking_tokens=count_in(object_in(usage, "completion_tokens_details"), "reasoning_tokens"),
        cost_usd=float(cost) if isinstance(cost, int | float) and not is_list(cost) else None,
    )
