"""Anthropic's streamed events, or a whole message, as StreamChunks and one Reply.

Laws: unknown events, blocks and fields never stop a reply and are kept raw; a reply is complete only with
its stop reason or `message_stop`; of each usage figure the last one wins.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sapwood.core.context_edits import MADE
from sapwood.core.errors import ServerError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import Opaque, Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    Reply,
    RestartChunk,
    ServerCallChunk,
    ServerResultChunk,
    StopReason,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
    UsageChunk,
)
from sapwood.core.usage import Usage
from sapwood.llm.arguments import read_call
from sapwood.llm.failures import Complaint, complaint, error_from, read_answer
from sapwood.llm.pricing import price_of
from sapwood.llm.shapes import UNREADABLE, count_in, decode_json, list_in, object_in, text_in

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
}
_CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
_TELLING = frozenset(
    {
        b"message_start",
        b"message_delta",
        b"content_block_start",
        b"content_block_delta",
        b"content_block_stop",
        b"error",
    }
)
BESIDE_BLOCKS = ("container", "stop_details", MADE)
"""What a message tells beside its blocks and a caller may need; kept as parts that are never sent as blocks."""
_NOTHING: tuple[StreamChunk, ...] = ()


class _Delta(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class _BlockDelta(msgspec.Struct, gc=False):
    index: int
    delta: _Delta


# Nearly all events are deltas, so these are decoded into slots; whatever does not fit goes the general way.
_decode_delta = msgspec.json.Decoder(_BlockDelta).decode


class _Block:
    """One content block while it streams. pieces: its text, thinking or argument text. call: its number among calls."""

    __slots__ = ("call", "closed", "pieces", "signature", "start")

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.pieces: list[str] = []
        self.signature = ""
        self.closed = False
        self.call = -1


class AnthropicDecoder:
    """Reads one reply; `profile.provider` keys what must go back as it came."""

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._restart()

    def _restart(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._model = ""
        self._answered = ""
        self._message_id = ""
        self._notes: dict[str, dict[str, Any]] = {}
        self._complete = False

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one event; raises LLMError where the event is an error."""
        if event == b"content_block_delta":
            try:
                found = _decode_delta(data)
            except UNREADABLE:  # ValidationError is a DecodeError
                return self._feed_any(event, data)
            delta = found.delta
            block = self._blocks.get(found.index)
            if block is not None:
                if delta.type == "text_delta":
                    block.pieces.append(text := delta.text)
                    return (TextChunk(text),) if text else _NOTHING
                if delta.type == "thinking_delta":
                    block.pieces.append(text := delta.thinking)
                    return (ThinkingChunk(text),) if text else _NOTHING
                if delta.type == "input_json_delta":
                    block.pieces.append(text := delta.partial_json)
                    return (ToolDeltaChunk(block.call, "", text),) if text and block.call >= 0 else _NOTHING
        return self._feed_any(event, data)

    def _feed_any(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        try:
            value = decode_json(data)
        except UNREADABLE:
            if not data.strip() or (event and event not in _TELLING):
                return _NOTHING  # a ping, or something that is not for us
            raise ServerError("the stream holds an event that cannot be read") from None
        return self.take(value, event.decode("utf-8", "replace"))

    def take(self, event: Any, name: str = "") -> Sequence[StreamChunk]:
        """Return the chunks of one decoded event."""
        kind = text_in(event, "type") or name
        index = event.get("index") if is_object(event) else None
        index = index if isinstance(index, int) else -1
        if kind == "content_block_delta":
            return self._take_delta(index, object_in(event, "delta"))
        if kind == "content_block_start":
            return self._take_start(index, object_in(event, "content_block"))
        if kind == "content_block_stop":
            if index in self._blocks:
                return self._close(self._blocks[index])
        elif kind == "message_start":
            was_shown = bool(self._blocks)
            before = self._blocks
            begun = self._begin(object_in(event, "message"))
            usage = self._counted()
            counted = () if usage is None else (UsageChunk(usage),)
            if was_shown and self._blocks is not before:
                return (RestartChunk("the message was started again", self._profile.origin), *counted, *begun)
            return (*counted, *begun)
        elif kind == "message_delta":
            self._stop = text_in(object_in(event, "delta"), "stop_reason") or self._stop
            self._note(object_in(event, "delta"))
            self._note({MADE: object_in(event, MADE)})
            self._add_usage(object_in(event, "usage"))
        elif kind == "message_stop":
            self._complete = True
        elif kind == "error" or name == "error" or (not kind and complaint(event)):
            raise error_from(complaint(event) or Complaint("the provider reported an error"))
        return _NOTHING

    def _close(self, block: _Block) -> Sequence[StreamChunk]:
        block.closed = True
        return _given(block) or _server_call(block)

    def _begin(self, message: dict[str, Any]) -> list[StreamChunk]:
        """Start a message; a gateway that starts another one means that everything before is void.

        Return the chunks of the blocks that it holds already, as after a program's calls.
        """
        if self._message_id != text_in(message, "id"):
            self._restart()
        self._model = text_in(message, "model")
        self._message_id = text_in(message, "id")
        self._stop = text_in(message, "stop_reason") or None
        self._note(message)
        self._add_usage(object_in(message, "usage"))
        chunks: list[StreamChunk] = []
        for index, block in enumerate(list_in(message, "content")):
            chunks += self._take_start(index, block if is_object(block) else {})
            chunks += _given(self._blocks[index])
        return chunks

    def _note(self, told: dict[str, Any]) -> None:
        """Keep what is told beside the blocks: where code runs, why a request was refused, what was cleared."""
        found = {name: value for name in BESIDE_BLOCKS if (value := object_in(told, name))}
        if not list_in(found.get(MADE), "applied_edits"):  # each reply may say that nothing was
            found.pop(MADE, None)
        self._notes.update(found)

    def _take_start(self, index: int, start: dict[str, Any]) -> Sequence[StreamChunk]:
        block = self._blocks[index] = _Block(start)
        kind = text_in(start, "type")
        if kind == "text" and (text := text_in(start, "text")):
            block.pieces.append(text)
            return (TextChunk(text),)
        if kind == "tool_use":
            block.call = self._calls
            self._calls += 1
            return (ToolDeltaChunk(block.call, text_in(start, "name")),)
        if kind == "fallback":
            self._answered = text_in(object_in(start, "to"), "model")
        if kind == "thinking":
            block.signature = text_in(start, "signature")
            if text := text_in(start, "thinking"):
                block.pieces.append(text)
                return (ThinkingChunk(text),)
        return _server_result(start)

    def _take_delta(self, index: int, delta: dict[str, Any]) -> Sequence[StreamChunk]:
        kind = text_in(delta, "type")
        if index not in self._blocks:  # a gateway that left out the start
            self._blocks[index] = _Block({"type": "thinking" if kind == "thinking_delta" else "text"})
        block = self._blocks[index]
        match kind:
            case "text_delta":
                block.pieces.append(text := text_in(delta, "text"))
                return (TextChunk(text),) if text else _NOTHING
            case "thinking_delta":
                block.pieces.append(text := text_in(delta, "thinking"))
                return (ThinkingChunk(text),) if text else _NOTHING
            case "input_json_delta":
                block.pieces.append(text := text_in(delta, "partial_json"))
                return (ToolDeltaChunk(block.call, "", text),) if text and block.call >= 0 else _NOTHING
            case "signature_delta":
                block.signature += text_in(delta, "signature")
            case "citations_delta":
                block.start = {
                    **block.start,
                    "citations": [*list_in(block.start, "citations"), delta.get("citation")],
                }
            case _:
                block.start = _merged(block.start, delta)
        return _NOTHING

    def _add_usage(self, usage: dict[str, Any]) -> None:
        self._usage.update((key, value) for key, value in usage.items() if value is not None)

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where the stream ended before its end was stated."""
        if not self._complete and self._stop is None:
            raise ServerError("stream ended early")
        content = tuple(self._parts())
        stop = _STOP_REASONS.get(self._stop or "", "stop")
        if stop == "stop" and any(isinstance(part, ToolCall) for part in content):
            stop = "tool_use"
        return Reply(content, stop, self._counted(), self._answered or self._model)

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        message = read_answer(body)
        return self.whole_message(message)

    def whole_message(self, message: Any) -> Reply:
        """Return the reply from a decoded message."""
        if (said := complaint(message)) is not None:
            raise error_from(said)
        if not is_object(message) or "content" not in message:
            raise ServerError("the provider's answer holds no message")
        self._restart()
        self._begin(message)
        for block in self._blocks.values():
            block.closed = True
        self._complete = True
        return self.finish()

    def _parts(self) -> list[Part]:
        ordered = [self._blocks[index] for index in sorted(self._blocks)]
        is_cut = self._stop in _CUT_SHORT
        parts = [self._part(block, is_cut and block is ordered[-1]) for block in ordered]
        found = [part for part in parts if part is not None]
        provider = self._profile.provider
        noted = [Opaque(kind, {provider: data}) for kind, data in self._notes.items() if found or kind != "container"]
        return [*found, *noted]

    def _counted(self) -> Usage | None:
        """Return the usage; where more than one model answered, with what each of them costs."""
        usage = _usage_of(self._usage)
        own = self._model or self._profile.model
        rows = [(text_in(row, "model") or own, row) for row in list_in(self._usage, "iterations")]
        if usage is None or all(model == own for model, _ in rows):
            return usage
        costs: list[float] = []
        for model, row in rows:
            price, used = price_of(self._profile.provider, model), _usage_of(row)
            if price is None:
                return usage
            costs.append(price.cost(used or Usage()))
        return usage.replace(cost_usd=sum(costs))

    def _part(self, block: _Block, is_cut: bool) -> Part | None:
        text = "".join(block.pieces)
        provider = self._profile.provider
        match text_in(block.start, "type"):
            case "text":
                citations = list_in(block.start, "citations")
                return Text(text, {provider: {"citations": citations}} if citations else None) if text else None
            case "thinking":
                data = {provider: {"signature": block.signature}} if block.signature else None
                return Thinking(text, data) if text or data else None
            case "tool_use":
                return self._call(block, text, is_complete=block.closed and not is_cut)
            case "":
                return None
            case kind:
                raw = _with_input(block.start, text, block.closed)
                return None if raw is None else Opaque(kind, {provider: raw}, readable(raw), _found(raw))

    def _call(self, block: _Block, text: str, *, is_complete: bool) -> ToolCall:
        name, id = text_in(block.start, "name"), text_in(block.start, "id")
        caller = object_in(block.start, "caller")
        data = None
        if caller and caller.get("type") != "direct":
            data = {self._profile.provider: {"caller": caller}}
        given = block.start.get("input")
        if not text.strip() and given:  # programmatic calls bring their input whole, without a delta
            if is_object(given):
                return ToolCall(name, given, id=id, provider_data=data)
            text = _as_text(given)
        return read_call(name, text, complete=is_complete, id=id, provider_data=data)


def _given(block: _Block) -> Sequence[StreamChunk]:
    """Return the arguments that a call brought whole, as programmatic ones do."""
    given = block.start.get("input")
    if block.call < 0 or block.pieces or not given:
        return _NOTHING
    try:
        text = _as_text(given)
    except (UnicodeEncodeError, TypeError):  # a client's own object; what cannot be told as text stays in the block
        return _NOTHING
    block.pieces.append(text)
    return (ToolDeltaChunk(block.call, "", text),)


def _as_text(given: Any) -> str:
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _server_call(block: _Block) -> Sequence[StreamChunk]:
    """Return the call of a tool that the provider runs itself, once its arguments are whole."""
    start = block.start
    if text_in(start, "type") not in ("server_tool_use", "mcp_tool_use"):
        return _NOTHING
    raw = _with_input(start, "".join(block.pieces), closed=True)
    return (ServerCallChunk(text_in(start, "id"), text_in(start, "name"), object_in(raw, "input")),)


def _server_result(start: dict[str, Any]) -> Sequence[StreamChunk]:
    """Return the result of a tool that the provider runs itself; it arrives whole."""
    kind = text_in(start, "type")
    if not kind.endswith("_tool_result"):
        return _NOTHING
    content = start.get("content")
    is_error = start.get("is_error") is True or text_in(content, "type").endswith("_error")
    return (ServerResultChunk(text_in(start, "tool_use_id"), kind.removesuffix("_tool_result"), content, is_error),)


def readable(block: dict[str, Any]) -> str:
    """Return what another model may read in place of a block of Anthropic's own, empty where it needs nothing.

    A summary stands for messages that may be gone, and what a program printed may be what the next words are about.

    >>> readable({"type": "compaction", "content": "They spoke of boats."})
    'Summary of the earlier conversation: They spoke of boats.'
    """
    match block:
        case {"type": "compaction", "content": str(summary)} if summary:
            return f"Summary of the earlier conversation: {summary}"
        case {"type": str(kind), "content": {"stdout": str(output)}} if kind.endswith("tool_result") and output:
            return f"[A program printed: {output}]"
        case _:
            return ""


def _merged(start: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Add a delta of an unknown kind to its block: texts and lists grow, other fields are replaced."""
    block = dict(start)
    for key, value in delta.items():
        old = block.get(key)
        if key == "type":
            continue
        if isinstance(value, str) and isinstance(old, str):
            block[key] = old + value
        elif is_list(value) and is_list(old):
            block[key] = [*old, *value]
        else:
            block[key] = value
    return block


def _found(block: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the tools that the provider's own search found."""
    references = list_in(object_in(block, "content"), "tool_references")
    return tuple(name for item in references if is_object(item) and (name := text_in(item, "tool_name")))


def _with_input(start: dict[str, Any], text: str, closed: bool) -> dict[str, Any] | None:
    """Return a block that goes back whole, None where it was cut off and so cannot."""
    if not closed:
        return None
    if not text.strip():
        return start
    try:
        return {**start, "input": decode_json(text)}
    except UNREADABLE:
        return None


def _usage_of(usage: dict[str, Any]) -> Usage | None:
    if not usage:
        return None
    # With compaction, advisors or fallbacks the top figures cover the last inference only.
    rows: list[Any] = list_in(usage, "iterations") or [usage]
    return Usage(
        prompt_tokens=sum(count_in(row, "input_tokens") for row in rows),
        completion_tokens=sum(count_in(row, "output_tokens") for row in rows),
        cache_creation_tokens=sum(count_in(row, "cache_creation_input_tokens") for row in rows),
        cache_read_tokens=sum(count_in(row, "cache_read_input_tokens") for row in rows),
        thinking_tokens=count_in(object_in(usage, "output_tokens_details"), "thinking_tokens"),
        long_cache_tokens=sum(count_in(object_in(row, "cache_creation"), "ephemeral_1h_input_tokens") for row in rows),
    )
