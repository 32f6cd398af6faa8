"""OpenAI's Responses, streamed or whole, as StreamChunks and one Reply; also of servers that speak them.

Laws: what is stored comes from finished items, never from deltas alone; items are told apart by their place
in the output, never by their ids, which gateways change; a reply is complete only with its final event; an
item that is not understood is kept whole.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sapwood.core.errors import LLMError, ServerError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import Opaque, Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    Reply,
    StopReason,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
)
from sapwood.core.usage import Usage
from sapwood.llm.arguments import read_call
from sapwood.llm.failures import Complaint, complaint, error_from, read_answer, read_event
from sapwood.llm.openai.chat_decode import TICKS_PER_DOLLAR
from sapwood.llm.openai.responses_tools import ServerTools, found_by, text_of_item
from sapwood.llm.shapes import UNREADABLE, count_in, encode_json, list_in, object_in, text_in

PART_END = "\n\n"
"""Stands between two parts of one reasoning item, in what is streamed and in what is stored."""
_STOP_REASONS: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}
_TEXT = frozenset({b"response.output_text.delta", b"response.refusal.delta"})
_THOUGHT = frozenset({b"response.reasoning_summary_text.delta", b"response.reasoning_text.delta"})
_ARGUMENTS = b"response.function_call_arguments.delta"
_DELTAS = _TEXT | _THOUGHT | {_ARGUMENTS}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_CALL_FIELDS = frozenset({"type", "id", "call_id", "name", "arguments", "status"})
_NOTHING: tuple[StreamChunk, ...] = ()


class _Delta(msgspec.Struct, gc=False):
    delta: str
    output_index: int
    summary_index: int = 0
    content_index: int = 0


# Nearly all events are deltas, so these are decoded into slots; whatever does not fit goes the general way.
_decode_delta = msgspec.json.Decoder(_Delta).decode


class _Item:
    """One output item while it streams.

    pieces: its text, thinking or argument text as it was passed on. final: as it ended. call: its number among calls.
    """

    __slots__ = ("arguments", "call", "final", "part", "pieces", "start")

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.final: dict[str, Any] | None = None
        self.pieces: list[str] = []
        self.part: tuple[int, int] | None = None  # the part of a reasoning item that was passed on last
        self.arguments = ""
        self.call = -1

    def think(self, text: str, part: tuple[int, int]) -> str:
        """Note a piece of thinking; return it as it is passed on, set off from the part before it."""
        if self.part not in (None, part):
            text = PART_END + text
        self.part = part
        self.pieces.append(text)
        return text


class ResponsesDecoder:
    """Reads one reply; `profile.provider` keys what must go back as it came.

    >>> decoder = ResponsesDecoder(ModelProfile("openai", "gpt-5"))
    >>> decoder.feed(b"response.output_text.delta", b'{"delta": "Hi", "output_index": 0}')
    (TextChunk(text='Hi'),)
    """

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._items: dict[int, _Item] = {}
        self._tools = ServerTools()
        self._model = ""
        self._response: dict[str, Any] | None = None  # the final one
        self._is_cut = False
        self._calls = 0

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one event; raises LLMError where the event is an error."""
        if event in _DELTAS:
            try:
                found = _decode_delta(data)
            except UNREADABLE:  # ValidationError is a DecodeError
                return self._feed_any(event, data)
            item, text = self._items.get(found.output_index), found.delta
            if item is None or not text:
                return self._feed_any(event, data)
            if event in _TEXT:
                item.pieces.append(text)
                return (TextChunk(text),)
            if event == _ARGUMENTS:
                return self._argue(item, text)
            part = (0 if event == b"response.reasoning_summary_text.delta" else 1, found.summary_index)
            return (ThinkingChunk(item.think(text, part if part[0] == 0 else (1, found.content_index))),)
        return self._feed_any(event, data)

    def _feed_any(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        if data.strip() in (b"[DONE]", b""):
            return _NOTHING
        value = read_event(data)
        kind = text_in(value, "type") or event.decode("utf-8", "replace")
        if kind == "error" or event == b"error" or (not kind and complaint(value)):
            raise error_from(complaint(value) or complaint({"error": value}) or Complaint("the provider failed"))
        return self._take(kind, value) if is_object(value) else _NOTHING

    def _take(self, kind: str, event: dict[str, Any]) -> Sequence[StreamChunk]:
        if kind.encode() in _DELTAS:
            return self._take_delta(kind, event)
        if kind in _ENDS:
            return self._end(object_in(event, "response"), kind.removeprefix("response."))
        if kind in ("response.output_item.added", "response.output_item.done"):
            raw = object_in(event, "item")
            item = self._item(event, raw)
            if kind.endswith(".added"):
                if text_in(raw, "type") == "function_call":
                    return self._argue(item, "")
                return self._tools.added(self._place(event), raw)
            return self._close(self._place(event), item, raw)
        if kind.startswith("response.") and (response := object_in(event, "response")):
            self._model = text_in(response, "model") or self._model
        elif kind == "response.function_call_arguments.done":
            self._item(event, {"type": "function_call"}).arguments = text_in(event, "arguments")
        elif kind.endswith(".done"):
            return self._tools.told(self._place(event), event)
        return _NOTHING

    def _place(self, event: dict[str, Any]) -> int:
        index = event.get("output_index")
        return index if isinstance(index, int) else max(self._items, default=0)

    def _item(self, event: dict[str, Any], start: dict[str, Any]) -> _Item:
        return self._items.setdefault(self._place(event), _Item(start))

    def _take_delta(self, kind: str, event: dict[str, Any]) -> Sequence[StreamChunk]:
        text = text_in(event, "delta")
        if kind.encode() == _ARGUMENTS:
            return self._argue(self._item(event, {"type": "function_call"}), text)
        is_thought = kind.encode() in _THOUGHT
        item = self._item(event, {"type": "reasoning" if is_thought else "message"})
        if not text:
            return _NOTHING
        if not is_thought:
            item.pieces.append(text)
            return (TextChunk(text),)
        is_summary = kind == "response.reasoning_summary_text.delta"
        part = (0 if is_summary else 1, count_in(event, "summary_index" if is_summary else "content_index"))
        return (ThinkingChunk(item.think(text, part)),)

    def _argue(self, item: _Item, text: str) -> Sequence[StreamChunk]:
        """Note a piece of a call's arguments; return it as it is passed on, nothing before the name is known."""
        name = text_in(item.final or item.start, "name")
        if not name or (not text and item.call >= 0):
            return _NOTHING
        is_first = item.call < 0
        if is_first:
            item.call = self._calls
            self._calls += 1
        item.pieces.append(text)
        return (ToolDeltaChunk(item.call, name if is_first else "", text),)

    def _close(self, place: int, item: _Item, raw: dict[str, Any]) -> list[StreamChunk]:
        """Take an item as it ended; what of its text was not passed on follows now."""
        item.final = raw
        kind, passed = text_in(raw, "type"), "".join(item.pieces)
        chunks: list[StreamChunk] = []
        if kind in ("message", "reasoning"):
            text = said_in(raw) if kind == "message" else thought_in(raw)
            if text.startswith(passed) and (rest := text[len(passed) :]):
                item.pieces.append(rest)
                chunks.append(TextChunk(rest) if kind == "message" else ThinkingChunk(rest))
        elif kind == "function_call":
            text = _arguments_in(raw) or item.arguments
            chunks += self._argue(item, text[len(passed) :] if text.startswith(passed) else "")
        else:
            chunks += self._tools.done(place, raw)
        return chunks

    def _end(self, response: dict[str, Any], how: str) -> list[StreamChunk]:
        """Take the final response. how: the word of its event or its status."""
        if (said := complaint(response)) is not None:
            raise error_from(said)
        if how in ("failed", "cancelled"):
            raise ServerError(f"the provider ended the response as {how}", is_transient=how == "failed")
        self._response = response
        self._is_cut = "incomplete" in (how, text_in(response, "status"))
        self._model = text_in(response, "model") or self._model
        output = list_in(response, "output")
        if sum(item.final is not None for item in self._items.values()) >= len(output):
            return []  # all of them ended, wherever the server counts from
        chunks: list[StreamChunk] = []
        for place, raw in enumerate(output):
            item = self._items.get(place)
            if is_object(raw) and (item is None or item.final is None):
                item = item or self._item({"output_index": place}, raw)
                chunks += self._close(place, item, raw)
        return chunks

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where the final event never came."""
        if self._response is None:
            raise ServerError("stream ended early")
        content: list[Part] = []
        for _, item in sorted(self._items.items()):
            content += self._parts(item)
        calls = any(isinstance(part, ToolCall) for part in content)
        stop: StopReason = "tool_use" if calls else "stop"
        if self._is_cut:
            reason = text_in(object_in(self._response, "incomplete_details"), "reason")
            stop = _STOP_REASONS.get(reason, "max_tokens")
        elif not calls and any(_is_refusal(part, self._profile.provider) for part in content):
            stop = "refusal"
        return Reply(tuple(content), stop, usage_of(object_in(self._response, "usage")), self._model)

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        value = read_answer(body)
        if (said := complaint(value)) is not None:
            raise error_from(said)
        if not is_object(value) or not is_list(value.get("output")):
            raise ServerError("the provider's answer holds no output")
        if (status := text_in(value, "status")) in ("queued", "in_progress"):
            raise LLMError(f"the response is {status}: replies in the background are not waited for")
        self._end(value, status)
        return self.finish()

    def _parts(self, item: _Item) -> list[Part]:
        raw, provider = item.final or item.start, self._profile.provider
        match text_in(raw, "type"):
            case "message":
                return self._message(raw) if item.final else _text_alone("".join(item.pieces))
            case "reasoning":
                text = "".join(item.pieces) or thought_in(raw)
                data = {provider: raw} if item.final and can_return(raw) else None
                return [Thinking(text, data)] if text or data else []
            case "function_call":
                return [self._call(item, raw)]
            case "":
                return []
            case kind:
                is_whole = item.final is not None and not (self._is_cut and text_in(raw, "status") in _UNFINISHED)
                return [Opaque(kind, {provider: raw}, text_of_item(raw), found_by(raw))] if is_whole else []

    def _message(self, raw: dict[str, Any]) -> list[Part]:
        """Return the texts of a message, each with what goes back beside it."""
        parts: list[Part] = []
        for block in list_in(raw, "content"):
            text = text_in(block, "text") or text_in(block, "refusal")
            if not text:
                continue
            data: dict[str, Any] = {}
            if text_in(block, "type") == "refusal":
                data["refusal"] = True
            if annotations := list_in(block, "annotations"):
                data["annotations"] = annotations
            if phase := text_in(raw, "phase"):
                data["phase"] = phase
            if parts:
                data["continues"] = True  # of one message with the text before
            parts.append(Text(text, {self._profile.provider: data} if data else None))
        return parts

    def _call(self, item: _Item, raw: dict[str, Any]) -> ToolCall:
        status = text_in(raw, "status")
        # Calls of a program are done while they say that they are in progress.
        is_whole = item.final is not None and status != "incomplete" and not (self._is_cut and status in _UNFINISHED)
        extra = {key: value for key, value in raw.items() if key not in _CALL_FIELDS and value is not None}
        given = raw.get("arguments")
        return read_call(
            text_in(raw, "name"),
            given if is_object(given) else text_in(raw, "arguments") or item.arguments,
            complete=is_whole,
            id=text_in(raw, "call_id") or text_in(raw, "id"),
            provider_data={self._profile.provider: extra} if extra else None,
        )


_UNFINISHED = frozenset({"in_progress", "incomplete", "searching", "interpreting", "calling", "generating"})


def _arguments_in(call: dict[str, Any]) -> str:
    given = call.get("arguments")
    return encode_json(given).decode() if is_object(given) else text_in(call, "arguments")


def _text_alone(text: str) -> list[Part]:
    return [Text(text)] if text else []


def _is_refusal(part: Part, provider: str) -> bool:
    return isinstance(part, Text) and bool(object_in(part.provider_data, provider).get("refusal"))


def said_in(message: dict[str, Any]) -> str:
    """Return what a message item says, refusals among it.

    >>> said_in({"content": [{"type": "output_text", "text": "No"}, {"type": "refusal", "refusal": "!"}]})
    'No!'
    """
    blocks = list_in(message, "content")
    return "".join(text_in(block, "text") or text_in(block, "refusal") for block in blocks)


def thought_in(item: dict[str, Any]) -> str:
    """Return what a reasoning item shows: the parts of its summary, then those of its own text.

    >>> thought_in({"summary": [{"text": "First."}, {"text": "Then."}]})
    'First.\\n\\nThen.'
    """
    parts = [text_in(part, "text") for part in (*list_in(item, "summary"), *list_in(item, "content"))]
    return PART_END.join(part for part in parts if part)


def can_return(item: dict[str, Any]) -> bool:
    """Tell whether a reasoning item holds what a server can go on from; a summary alone is none.

    >>> can_return({"type": "reasoning", "summary": [{"text": "First."}], "encrypted_content": None})
    False
    """
    return bool(text_in(item, "encrypted_content")) or any(text_in(part, "text") for part in list_in(item, "content"))


def usage_of(usage: dict[str, Any]) -> Usage | None:
    """Return the usage in our terms, None where the server reported none.

    >>> usage_of({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 1}).prompt_tokens
    5
    """
    if not usage:
        return None
    details = object_in(usage, "input_tokens_details")
    given, output = count_in(usage, "input_tokens"), count_in(usage, "output_tokens")
    read = min(count_in(details, "cached_tokens"), given)
    written = min(count_in(details, "cache_write_tokens"), given - read)
    output += max(0, count_in(usage, "total_tokens") - given - output)
    cost, ticks = usage.get("cost"), usage.get("cost_in_usd_ticks")
    if isinstance(ticks, int | float):  # xAI's
        cost = ticks / TICKS_PER_DOLLAR
    return Usage(
        prompt_tokens=given - read - written,
        completion_tokens=output,
        cache_creation_tokens=written,
        cache_read_tokens=read,
        thinking_tokens=count_in(object_in(usage, "output_tokens_details"), "reasoning_tokens"),
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )
