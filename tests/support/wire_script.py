"""A transport that plays scripted replies in each protocol's own words and keeps the bodies that were sent."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import HttpCall
from sapwood.llm.gemini import GeminiProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider

Said = str | Sequence[tuple[str, dict[str, Any]]]
"""A text, or calls by name and arguments."""
PROVIDERS: dict[str, tuple[type[BaseLLMProvider], str]] = {
    "anthropic": (AnthropicProvider, "claude-sonnet-4-5"),
    "chat": (OpenAIChatProvider, "gpt-4.1"),
    "responses": (OpenAIResponsesProvider, "gpt-5.1"),
    "gemini": (GeminiProvider, "gemini-3-flash-preview"),
}


class Script:
    """Plays the replies in order; bodies: what was sent, request by request.

    input_tokens: what each reply reports for its request, by the body's length where it is None.
    """

    def __init__(self, protocol: str, replies: Sequence[Said] = (), *, input_tokens: int | None = None) -> None:
        self.replies = list(replies)
        self.bodies: list[bytes] = []
        self._write: Callable[[Said, int, int], list[dict[str, Any]]] = WRITERS[protocol]
        self._input_tokens = input_tokens

    def send(self, call: HttpCall) -> "Played":
        self.bodies.append(call.body)
        tokens = len(call.body) // 4 if self._input_tokens is None else self._input_tokens
        events = self._write(self.replies[len(self.bodies) - 1], len(self.bodies), tokens)
        return Played([f"data: {json.dumps(event)}\n\n".encode() for event in events])

    async def asend(self, call: HttpCall) -> "AsyncPlayed":
        return AsyncPlayed(self.send(call))


class Played:
    def __init__(self, pieces: list[bytes]) -> None:
        self.status = 200
        self.headers = {"content-type": "text/event-stream"}
        self.pieces = pieces

    @property
    def body(self) -> Iterator[bytes]:
        return iter(self.pieces)

    def close(self) -> None:
        pass


class AsyncPlayed:
    def __init__(self, played: Played) -> None:
        self.status, self.headers = played.status, played.headers
        self._played = played

    @property
    def body(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self._played.pieces:
            yield piece

    async def aclose(self) -> None:
        pass


def provider_for(protocol: str, script: Script, **options: Any) -> BaseLLMProvider:
    """The provider of a protocol, on this transport."""
    kind, model = PROVIDERS[protocol]
    options = {"base_url": "http://127.0.0.1:9", "api_key": "k", **options}
    return kind(options.pop("model", model), transport=script, **options)  # type: ignore[call-arg]


def anthropic_events(said: Said, number: int, tokens: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": f"m{number}", "usage": usage}}]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if isinstance(said, str):
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": said}))
    else:
        for index, (name, arguments) in enumerate(said):
            block = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": name, "input": {}}
            blocks.append((block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    for index, (block, delta) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = "end_turn" if isinstance(said, str) else "tool_use"
    return [
        *events,
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def chat_events(said: Said, number: int, tokens: int) -> list[dict[str, Any]]:
    delta: dict[str, Any] = {"role": "assistant"}
    if isinstance(said, str):
        delta["content"] = said
    else:
        delta["tool_calls"] = [
            {
                "index": i,
                "id": f"call_{number}_{i}",
                "type": "function",
                "function": {"name": n, "arguments": json.dumps(a)},
            }
            for i, (n, a) in enumerate(said)
        ]
    reason = "stop" if isinstance(said, str) else "tool_calls"
    usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    return [
        {"id": f"c{number}", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"id": f"c{number}", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"id": f"c{number}", "choices": [], "usage": usage},
    ]


def responses_events(said: Said, number: int, tokens: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if isinstance(said, str):
        content = [{"type": "output_text", "text": said, "annotations": []}]
        items.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
        )
    else:
        hidden = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAAA" + "b" * 400}
        items.append(hidden)
        for index, (name, arguments) in enumerate(said):
            call = {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}"}
            items.append({**call, "name": name, "arguments": json.dumps(arguments), "status": "completed"})
    events = [
        {"type": f"response.output_item.{what}", "output_index": index, "item": item}
        for index, item in enumerate(items)
        for what in ("added", "done")
    ]
    usage = {"input_tokens": tokens, "output_tokens": 9, "total_tokens": tokens + 9}
    final = {"id": f"resp_{number}", "status": "completed", "output": items, "usage": usage, "model": "m"}
    return [*events, {"type": "response.completed", "response": final}]


def gemini_events(said: Said, number: int, tokens: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if isinstance(said, str):
        parts.append({"text": said})
    else:
        for index, (name, arguments) in enumerate(said):
            part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
            parts.append(part if index else {**part, "thoughtSignature": "Eq0eCqoe" * 20})
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 9, "totalTokenCount": tokens + 9}
    content = {"role": "model", "parts": parts}
    return [{"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]


WRITERS: dict[str, Callable[[Said, int, int], list[dict[str, Any]]]] = {
    "anthropic": anthropic_events,
    "chat": chat_events,
    "responses": responses_events,
    "gemini": gemini_events,
}
