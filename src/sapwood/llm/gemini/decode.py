"""Gemini's streamed responses, or a whole one, as StreamChunks and one Reply.

Laws: an error is looked for before content; a reply is complete only with a finish reason; a part that is
signed is never joined to another, and one that only Gemini understands is kept whole, in its place; of each
usage figure the last one wins.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from sapwood.core.errors import ContentFilterError, LLMError, ServerError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import File, Image, Opaque, Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    Reply,
    ServerCallChunk,
    ServerResultChunk,
    StopReason,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from sapwood.core.usage import Usage
from sapwood.llm.failures import clean, complaint, error_from, read_answer, read_event
from sapwood.llm.gemini.calls import CallInProgress
from sapwood.llm.shapes import UNREADABLE, count_in, list_in, object_in, text_in

_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
_CUT_SHORT = _FILTERED | {"MAX_TOKENS"}
_FAILED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER", "NO_IMAGE"})
"""Reasons that come without an answer by chance; another try may bring one."""
_NOTES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
_NOTHING: tuple[StreamChunk, ...] = ()


class _Part(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part]


class _Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content
    index: int = 0
    finish_reason: Any = None
    grounding_metadata: Any = None
    citation_metadata: Any = None
    url_context_metadata: Any = None

    def is_text_only(self) -> bool:
        return (
            self.finish_reason is None
            and self.grounding_metadata is None
            and self.citation_metadata is None
            and self.url_context_metadata is None
        )


class _Counts(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    cached_content_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _Chunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[_Candidate]
    usage_metadata: _Counts | None = None
    error: Any = None
    prompt_feedback: Any = None


_FIELDS = tuple(zip(_Counts.__struct_fields__, _Counts.__struct_encode_fields__, strict=True))
_COUNTS = _Counts.__struct_encode_fields__
# Nearly all chunks add text, so that is decoded into slots; whatever does not fit goes the general way.
_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class _Words:
    """Text or thinking while it streams."""

    __slots__ = ("is_thought", "pieces", "signature")

    def __init__(self, is_thought: bool, signature: str = "") -> None:
        self.is_thought = is_thought
        self.pieces: list[str] = []
        self.signature = signature


_Block: TypeAlias = _Words | CallInProgress | Part


class GeminiDecoder:
    """Reads one reply; of several candidates it reads the first that came."""

    def __init__(self, profile: ModelProfile) -> None:
        self._provider = profile.provider
        self._index: int | None = None
        self._blocks: list[_Block] = []
        self._notes: dict[str, Any] = {}
        self._usage: dict[str, int] = {}
        self._usage_told = False
        self._finish = ""
        self._finish_message = ""
        self._blocked = ""
        self._model = ""
        self._response_id = ""
        self._server_calls = 0

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one event; raises LLMError where the event is an error."""
        if self._index is not None:
            try:
                chunk = _decode_chunk(data)
            except UNREADABLE:  # ValidationError is a DecodeError
                return self._feed_any(data)
            if len(chunk.candidates) == 1 and chunk.error is None and chunk.prompt_feedback is None:
                candidate = chunk.candidates[0]
                counts = chunk.usage_metadata
                is_news = counts is not None and counts.prompt_token_count and not self._usage_told
                if candidate.index == self._index and candidate.is_text_only() and not is_news:
                    if counts is not None:
                        self._count(counts)
                    chunks: list[StreamChunk] = []
                    for part in candidate.content.parts:
                        self._say(part.text, part.thought, "", chunks)
                    return chunks
        return self._feed_any(data)

    def _count(self, counts: _Counts) -> None:
        for field, name in _FIELDS:
            if (value := getattr(counts, field)) is not None:
                self._usage[name] = value

    def _feed_any(self, data: bytes) -> Sequence[StreamChunk]:
        if data.strip() in (b"", b"[DONE]"):
            return _NOTHING
        value = read_event(data)
        return self._take(value)

    def _take(self, response: Any) -> list[StreamChunk]:
        if (said := complaint(response)) is not None:
            raise error_from(said)
        self._model = text_in(response, "modelVersion") or self._model
        self._response_id = text_in(response, "responseId") or self._response_id
        self._blocked = text_in(object_in(response, "promptFeedback"), "blockReason") or self._blocked
        usage = object_in(response, "usageMetadata")
        self._usage.update({name: count_in(usage, name) for name in _COUNTS if usage.get(name) is not None})
        chunks: list[StreamChunk] = []
        if not self._usage_told and self._usage.get("promptTokenCount") and (known := usage_of(self._usage)):
            self._usage_told = True
            chunks.append(UsageChunk(known))
        for candidate in list_in(response, "candidates"):
            if is_object(candidate):
                self._take_candidate(candidate, chunks)
        return chunks

    def _take_candidate(self, candidate: dict[str, Any], chunks: list[StreamChunk]) -> None:
        index = candidate.get("index", 0)
        if self._index is None:
            self._index = index if isinstance(index, int) else 0
        if index != self._index:
            return
        for part in list_in(object_in(candidate, "content"), "parts"):
            if is_object(part):
                self._take_part(part, chunks)
        for name in _NOTES:
            if found := object_in(candidate, name):
                self._notes[name] = found
        self._finish = text_in(candidate, "finishReason") or self._finish
        self._finish_message = text_in(candidate, "finishMessage") or self._finish_message

    def _take_part(self, part: dict[str, Any], chunks: list[StreamChunk]) -> None:
        signature = text_in(part, "thoughtSignature")
        text = part.get("text")
        if isinstance(text, str):
            self._say(text, part.get("thought") is True, signature, chunks)
        elif "functionCall" in part:
            self._call(object_in(part, "functionCall"), signature)
        elif "inlineData" in part and part.get("thought") is not True:
            self._blocks.append(_media(object_in(part, "inlineData"), signature, self._provider))
        else:
            self._keep(part, chunks)

    def _say(self, text: str, is_thought: bool, signature: str, chunks: list[StreamChunk]) -> None:
        if not text and not signature:
            return
        last = self._blocks[-1] if self._blocks else None
        if type(last) is not _Words or last.is_thought is not is_thought or last.signature or signature:
            last = _Words(is_thought, signature)
            self._blocks.append(last)
        if text:
            last.pieces.append(text)
            chunks.append(ThinkingChunk(text) if is_thought else TextChunk(text))

    def _call(self, function: dict[str, Any], signature: str) -> None:
        last = self._blocks[-1] if self._blocks else None
        name = text_in(function, "name")
        if isinstance(last, CallInProgress) and last.is_open and not name:
            last.take(function, signature)
        elif name or signature or function.get("args") or function.get("partialArgs"):
            self._blocks.append(CallInProgress(function, signature))

    def _keep(self, part: dict[str, Any], chunks: list[StreamChunk]) -> None:
        """Keep a part as it is, and tell of what the provider ran."""
        kind = next((key for key in part if key not in ("thought", "thoughtSignature")), "thoughtSignature")
        self._blocks.append(Opaque(kind, {self._provider: part}, _shown(part)))
        inner = object_in(part, kind)
        if kind in ("executableCode", "toolCall"):
            self._server_calls += 1
            code = {key: value for key, value in inner.items() if key in ("code", "language")}
            arguments = object_in(inner, "args") if kind == "toolCall" else code
            chunks.append(ServerCallChunk(self._server_id(inner), _server_name(kind, inner), arguments))
        elif kind in ("codeExecutionResult", "toolResponse"):
            result = inner.get("output") if kind == "codeExecutionResult" else inner.get("response")
            is_error = text_in(inner, "outcome") not in ("", "OUTCOME_OK")
            chunks.append(ServerResultChunk(self._server_id(inner), _server_name(kind, inner), result, is_error))

    def _server_id(self, inner: dict[str, Any]) -> str:
        return text_in(inner, "id") or f"server_{self._server_calls}"

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where no finish reason came, or one that tells of a failure.

        A prompt that was blocked is an error, as with other providers: no model has answered, so there is no
        message to keep. An answer that was blocked is a reply with its stop reason.
        """
        if self._blocked and not self._blocks:
            raise ContentFilterError(f"the prompt was blocked ({self._blocked})")
        if not self._finish:
            raise ServerError("stream ended early")
        content = self._parts()
        self._require_answer(content)
        stop: StopReason = "stop"
        if self._finish in _FILTERED:
            stop = "content_filter"
        elif self._finish == "MAX_TOKENS":
            stop = "max_tokens"
        elif any(isinstance(part, ToolCall) for part in content):
            stop = "tool_use"
        return Reply(content, stop, usage_of(self._usage), self._model, self._response_id or None)

    def _require_answer(self, content: tuple[Part, ...]) -> None:
        if any(not isinstance(part, Thinking) and not (isinstance(part, Text) and not part.text) for part in content):
            return
        told = f": {clean(self._finish_message)}" if self._finish_message else ""
        if self._finish == "MISSING_THOUGHT_SIGNATURE":
            raise LLMError(f"the provider refused the history ({self._finish}){told}")
        if self._finish in _FAILED:
            raise ServerError(f"the model gave no answer ({self._finish}){told}")

    def _parts(self) -> tuple[Part, ...]:
        is_cut = self._finish in _CUT_SHORT
        used = {block.id for block in self._blocks if isinstance(block, CallInProgress)}
        parts: list[Part] = []
        for number, block in enumerate(self._blocks):
            if isinstance(block, CallInProgress):
                spare = f"call_{number}"
                while spare in used:
                    spare += "_"
                is_last = block is self._blocks[-1]
                parts.append(block.finish(self._provider, is_cut=is_cut and is_last, spare_id=spare))
            elif isinstance(block, _Words):
                parts.append(self._words(block))
            else:
                parts.append(block)
        return self._noted(parts)

    def _words(self, block: _Words) -> Part:
        data = _signed(block.signature, self._provider)
        text = "".join(block.pieces)
        return Thinking(text, data) if block.is_thought else Text(text, data)

    def _noted(self, parts: list[Part]) -> tuple[Part, ...]:
        """Hang what was cited on the last text that says something."""
        if self._notes:
            for place in range(len(parts) - 1, -1, -1):
                part = parts[place]
                if isinstance(part, Text) and part.text:
                    own = (part.provider_data or {}).get(self._provider, {})
                    parts[place] = part.replace(provider_data={self._provider: {**own, **self._notes}})
                    break
        return tuple(parts)

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        value = read_answer(body)
        for response in value if is_list(value) else [value]:
            self._take(response)
        if self._index is None and not self._blocked:
            raise ServerError("the provider's answer holds no candidates")
        return self.finish()


def usage_of(usage: dict[str, Any]) -> Usage | None:
    """Return the usage in our terms, None where nothing was counted.

    >>> usage_of({"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 2}).prompt_tokens
    6
    """
    if not any(usage.get(name) for name in _COUNTS):
        return None
    given = count_in(usage, "promptTokenCount")
    read = min(count_in(usage, "cachedContentTokenCount"), given)
    thoughts = count_in(usage, "thoughtsTokenCount")
    return Usage(
        prompt_tokens=given - read + count_in(usage, "toolUsePromptTokenCount"),
        completion_tokens=count_in(usage, "candidatesTokenCount") + thoughts,
        cache_read_tokens=read,
        thinking_tokens=thoughts,
    )


def _signed(signature: str, provider: str) -> dict[str, Any] | None:
    return {provider: {"thoughtSignature": signature}} if signature else None


def _media(data: dict[str, Any], signature: str, provider: str) -> Part:
    kind, own = text_in(data, "mimeType"), _signed(signature, provider)
    if kind.startswith("image/"):
        return Image(text_in(data, "data"), kind, provider_data=own)
    return File(text_in(data, "data"), kind, name=text_in(data, "displayName") or None, provider_data=own)


def _server_name(kind: str, inner: dict[str, Any]) -> str:
    if kind in ("executableCode", "codeExecutionResult"):
        return "code_execution"
    return text_in(inner, "toolType").lower() or text_in(inner, "name") or "tool"


def _shown(part: dict[str, Any]) -> str:
    """Return what another model may read in place of a part."""
    code, output = (object_in(part, "executableCode"), object_in(part, "codeExecutionResult"))
    text = text_in(code, "code") or text_in(output, "output")
    return f"```\n{text.rstrip()}\n```" if text.strip() else ""
