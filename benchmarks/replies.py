"""Streams of text in the words of each protocol, with the fields that the providers really send."""

import json
from collections.abc import Callable
from typing import Any

from benchmarks.endpoint import WORD, reply


def stream_for(path: str, body: dict[str, Any]) -> list[bytes]:
    """Return the events of the reply to a request, by its address; the model's name says how many deltas there are."""
    if "streamGenerateContent" in path:
        return gemini(_count(path.rpartition("/models/")[2].partition(":")[0]))
    if path.endswith("/chat/completions"):
        return chat(_count(body["model"]))
    if path.endswith("/responses"):
        return responses(_count(body["model"]))
    return reply(body.get("model", "text-1"), body.get("messages", []))


def _count(model: str) -> int:
    return int(model.partition("-")[2] or 1)


def _line(value: Any, *, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + end


def anthropic(count: int) -> list[bytes]:
    """Return a reply of Anthropic's Messages API."""
    return reply(f"text-{count}", [])


def chat(count: int) -> list[bytes]:
    """Return a reply of OpenAI's Chat Completions."""

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _line({**head, "choices": [choice], "usage": None, "obfuscation": "a1B2c3D4"})

    head = {
        "id": "chatcmpl-ASYMZ4oSykiIFK4lXLReDiKyAjsQl",
        "object": "chat.completion.chunk",
        "created": 1731368639,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_07871e2ad8",
    }
    usage = {"prompt_tokens": 12, "completion_tokens": count, "total_tokens": 12 + count}
    return [
        chunk({"role": "assistant", "content": "", "refusal": None}),
        *[chunk({"content": WORD})] * count,
        chunk({}, "stop"),
        _line({**head, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def responses(count: int) -> list[bytes]:
    """Return a reply of OpenAI's Responses."""
    item_id = "msg_00592e63e61b66660169fab1bada8481a28ef92eb62c168ead"
    base: dict[str, Any] = {"id": "resp_00592e63e61b6666", "object": "response", "created_at": 1778037177}
    base |= {"model": "gpt-5.5", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}}
    part = {"type": "output_text", "annotations": [], "logprobs": []}
    item = {"id": item_id, "type": "message", "role": "assistant"}
    done = {**item, "status": "completed", "content": [{**part, "text": WORD * count}]}
    place = {"item_id": item_id, "output_index": 0, "content_index": 0}
    usage = {"input_tokens": 11, "output_tokens": count, "total_tokens": 11 + count}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    delta = {**place, "delta": WORD, "logprobs": [], "obfuscation": "mZhSFjZXJr0X"}
    final = {**base, "status": "completed", "output": [done], "usage": usage}
    events: list[tuple[str, dict[str, Any]]] = [
        ("created", {"response": {**base, "status": "in_progress", "output": []}}),
        ("output_item.added", {"item": {**item, "status": "in_progress", "content": []}, "output_index": 0}),
        ("content_part.added", {**place, "part": {**part, "text": ""}}),
        *[("output_text.delta", delta)] * count,
        ("output_text.done", {**place, "text": WORD * count, "logprobs": []}),
        ("content_part.done", {**place, "part": {**part, "text": WORD * count}}),
        ("output_item.done", {"item": done, "output_index": 0}),
        ("completed", {"response": final}),
    ]
    return [
        f"event: response.{kind}\n".encode() + _line({"type": f"response.{kind}", **fields, "sequence_number": number})
        for number, (kind, fields) in enumerate(events)
    ]


def gemini(count: int) -> list[bytes]:
    """Return a reply of Gemini, whose every event has its usage."""

    def chunk(number: int, reason: str | None = None) -> bytes:
        candidate: dict[str, Any] = {"content": {"parts": [{"text": WORD}], "role": "model"}, "index": 0}
        candidate |= {"finishReason": reason} if reason else {}
        usage = {"promptTokenCount": 8, "candidatesTokenCount": number, "totalTokenCount": 8 + number}
        usage |= {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}]}  # type: ignore[dict-item]
        last = {"modelVersion": "gemini-2.5-flash", "responseId": "6r6FarDODNmynsEP8cLCoQk"}
        return _line({"candidates": [candidate], "usageMetadata": usage, **last}, end=b"\r\n\r\n")

    return [chunk(number + 1, "STOP" if number == count - 1 else None) for number in range(count)]


STREAMS: dict[str, Callable[[int], list[bytes]]] = {
    "anthropic": anthropic,
    "openai chat": chat,
    "openai responses": responses,
    "gemini": gemini,
}
