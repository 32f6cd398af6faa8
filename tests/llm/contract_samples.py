"""Answers for the conformance kit in each of the five protocols: recordings, and small bodies where there are none."""

import json
from typing import Any

from wire_files import wire_file

from sapwood.core.errors import AuthenticationError, ContextOverflowError, RateLimitError, ServerError
from sapwood.core.model import ModelProfile
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.gemini import GeminiCodec
from sapwood.llm.ollama import OllamaCodec
from sapwood.llm.openai import ChatCodec
from sapwood.llm.openai.responses import ResponsesCodec
from sapwood.testing.providers import ProviderSamples, Sample

ODD = "one\u2028two\u0085three\u2029 🦊 é"
READ = ("read", {"n": 1})
JSON = "application/json"
NDJSON = "application/x-ndjson"
MALFORMED = '{"n": 1'


def recorded(name: str, number: int = 0) -> bytes:
    document = json.loads(wire_file(name).read_text("utf-8"))
    return str(document["exchanges"][number]["response"]["text"]).encode()


def sse(*events: Any) -> bytes:
    """Events as most servers frame them; characters stay raw."""
    return b"".join(b"data: " + (e if isinstance(e, bytes) else dumped(e)) + b"\n\n" for e in events)


def named(*events: dict[str, Any]) -> bytes:
    """Events that repeat their type as their name."""
    return b"".join(b"event: " + e["type"].encode() + b"\ndata: " + dumped(e) + b"\n\n" for e in events)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message}}


# ---- Anthropic


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def claude(*blocks: list[dict[str, Any]], stop: str = "end_turn") -> bytes:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 1}
    start = {"id": "m1", "model": "claude", "role": "assistant", "content": [], "usage": usage}
    end = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}
    inner = [event for events in blocks for event in events]
    return named({"type": "message_start", "message": start}, *inner, end, {"type": "message_stop"})


def spoken(index: int, *texts: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in texts))


def use(index: int, arguments: str) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": f"toolu_{index}", "name": "read", "input": {}}
    return block(index, start, *({"type": "input_json_delta", "partial_json": piece} for piece in ("", arguments)))


THOUGHT = block(
    0,
    {"type": "thinking", "thinking": ""},
    {"type": "thinking_delta", "thinking": "so\u2028 it is"},
    {"type": "signature_delta", "signature": "c2ln+/4711=="},
)
BEGUN = claude(spoken(0, "be", "gun")).partition(b"event: content_block_stop")[0]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
UNKNOWN_BLOCK = block(0, {"type": "x_block", "y": 1}, {"type": "x_delta", "z": 2})
CITED = block(
    1,
    {"type": "text", "text": "", "citations": []},
    {"type": "text_delta", "text": "cited"},
    {"type": "citations_delta", "citation": {"type": "x", "cited_text": "é"}},
)

ANTHROPIC = ProviderSamples(
    codec=AnthropicCodec(),
    profile=ModelProfile("anthropic", "some", cache_marks=True, thinking="budget"),
    text=Sample(body=claude(spoken(0, "Hel", "lo")), text="Hello", stop_reason="stop", usage=Usage(10, 7, 3, 4)),
    unicode=Sample(body=claude(spoken(0, ODD, ODD)), text=ODD * 2),
    empty=Sample(body=claude(), text="", stop_reason="stop"),
    tools=Sample(body=claude(spoken(0, "so"), use(1, '{"n": 1}'), stop="tool_use"), text="so", calls=(READ,)),
    parallel_tools=Sample(body=claude(use(0, '{"n": 1}'), use(1, '{"n": 1}'), stop="tool_use"), calls=(READ, READ)),
    no_argument_tools=Sample(body=recorded("anthropic-messages-tools-no-args-stream")),
    broken_arguments=Sample(body=claude(use(0, MALFORMED), stop="tool_use"), problem="malformed"),
    cut_arguments=Sample(body=recorded("anthropic-messages-max-tokens-mid-tool-stream"), problem="incomplete"),
    thinking=Sample(
        body=claude(THOUGHT, use(1, '{"n": 1}'), stop="tool_use"),
        thinking="so\u2028 it is",
        returned=('"thinking":"so\u2028 it is"'.encode(), b'"signature":"c2ln+/4711=="'),
    ),
    refusal=Sample(body=claude(spoken(0, "I "), stop="refusal"), text="I ", stop_reason="refusal"),
    max_tokens=Sample(body=claude(spoken(0, "and"), stop="max_tokens"), text="and"),
    overflow=Sample(body=recorded("anthropic-messages-error-400-context-length"), status=400, content_type=JSON),
    refused_key=Sample(body=recorded("anthropic-messages-error-401"), status=401, content_type=JSON),
    error_first=Sample(body=named(OVERLOADED), error=ServerError),
    error_later=Sample(body=BEGUN + named(OVERLOADED), error=ServerError, text="begun"),
    unknown_event=Sample(
        body=named({"type": "x_event", "index": 0}) + claude(UNKNOWN_BLOCK, CITED, spoken(2, ".")), text="cited."
    ),
    whole=Sample(
        body=dumped({"content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}),
        content_type=JSON,
        text="Hello",
    ),
)

# ---- Chat Completions


def chat(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
    usage = {"prompt_tokens": 17, "completion_tokens": 7, "total_tokens": 24}
    usage["prompt_tokens_details"] = {"cached_tokens": 4, "cache_write_tokens": 3}  # type: ignore[assignment]
    chunks = [{"model": "m", "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return sse({"choices": [{"index": 0, "delta": {"role": "assistant"}}]}, *chunks, end) + sse(
        {"choices": [], "usage": usage}, b"[DONE]"
    )


def says(*texts: str) -> list[dict[str, Any]]:
    return [{"content": text} for text in texts]


def fragment(index: int, arguments: str) -> list[dict[str, Any]]:
    first = {"index": index, "id": f"call_{index}", "function": {"name": "read", "arguments": ""}}
    return [
        {"tool_calls": [first]},
        {"tool_calls": [{"index": index, "function": {"arguments": arguments[:3]}}]},
        {"tool_calls": [{"index": index, "function": {"arguments": arguments[3:]}}]},
    ]


CHAT_BEGUN = chat(*says("be", "gun")).partition(b'data: {"choices": [{"index": 0, "delta": {}')[0]
CHAT_FAILS = {"error": {"code": 502, "message": "Provider returned error"}}
TOO_LONG = error("context_length_exceeded", "This model's maximum context length is 8192 tokens")
BAD_KEY = error("invalid_api_key", "Incorrect API key provided")

CHAT = ProviderSamples(
    codec=ChatCodec(),
    profile=ModelProfile("deepseek", "some", returned_thinking="reasoning_content"),
    text=Sample(body=chat(*says("Hel", "lo")), text="Hello", stop_reason="stop", usage=Usage(10, 7, 3, 4)),
    unicode=Sample(body=chat(*says(ODD, ODD)), text=ODD * 2),
    empty=Sample(body=chat(), text="", stop_reason="stop"),
    tools=Sample(body=chat(*says("so"), *fragment(0, '{"n": 1}'), finish="tool_calls"), calls=(READ,), text="so"),
    parallel_tools=Sample(
        body=chat(*fragment(0, '{"n": 1}'), *fragment(1, '{"n": 1}'), finish="tool_calls"), calls=(READ, READ)
    ),
    no_argument_tools=Sample(body=chat(*fragment(0, ""), finish="tool_calls"), calls=(("read", {}),)),
    broken_arguments=Sample(body=chat(*fragment(0, MALFORMED), finish="tool_calls"), problem="malformed"),
    cut_arguments=Sample(body=chat(*fragment(0, MALFORMED), finish="length"), problem="incomplete"),
    thinking=Sample(
        body=chat({"reasoning_content": "so\u2028"}, {"reasoning_content": " it is"}, *fragment(0, '{"n": 1}')),
        thinking="so\u2028 it is",
        returned=('"reasoning_content":"so\u2028 it is"'.encode(),),
    ),
    refusal=Sample(body=chat({"refusal": "I "}, {"refusal": "won't"}), text="I won't", stop_reason="refusal"),
    max_tokens=Sample(body=chat(*says("and"), finish="length"), text="and"),
    overflow=Sample(body=dumped(TOO_LONG), status=400, content_type=JSON),
    refused_key=Sample(body=dumped(BAD_KEY), status=401, content_type=JSON),
    error_first=Sample(body=sse(CHAT_FAILS), error=ServerError),
    error_later=Sample(body=CHAT_BEGUN + sse(CHAT_FAILS), error=ServerError, text="begun"),
    unknown_event=Sample(body=sse({"object": "x"}, {"choices": []}) + chat(*says("ok"), {"x": {"y": 1}}), text="ok"),
    whole=Sample(
        body=b"\n " + dumped({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}),
        content_type=JSON,
        text="Hello",
    ),
)

# ---- Responses


def responses(*items: dict[str, Any], status: str = "completed", reason: str = "") -> bytes:
    usage = {
        "input_tokens": 17,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "output_tokens": 7,
        "total_tokens": 24,
    }
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    final = {"status": status, "model": "gpt", "output": list(items), "usage": usage, **details}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}]
    for place, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": place, "item": {**item, "content": []}})
        events += deltas_of(place, item)
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return named(*events, {"type": f"response.{status}", "response": final})


def deltas_of(place: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "reasoning":
        texts = [("reasoning_summary_text", part["text"]) for part in item["summary"]]
    elif item["type"] == "message":
        kinds = {"output_text": "text", "refusal": "refusal"}
        texts = [(b["type"], b[kinds[b["type"]]]) for b in item["content"]]
    else:
        return [{"type": "response.function_call_arguments.delta", "output_index": place, "delta": item["arguments"]}]
    halves = [(kind, half) for kind, text in texts for half in (text[:2], text[2:])]
    return [{"type": f"response.{kind}.delta", "output_index": place, "delta": half} for kind, half in halves]


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def function(arguments: str, number: int = 0, status: str = "completed") -> dict[str, Any]:
    named_call = {"call_id": f"call_{number}", "name": "read", "arguments": arguments}
    return {"type": "function_call", "id": f"fc_{number}", "status": status, **named_call}


REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "so\u2028 it is"}],
    "encrypted_content": "gAAAA+/4711==",
}
REFUSED = {**message("-"), "content": [{"type": "refusal", "refusal": "I won't"}]}
RESPONSES_BEGUN = responses(message("begun")).partition(b"event: response.output_item.done")[0]
RESPONSES_FAILS = {"type": "error", "code": "server_error", "message": "The server had an error"}

RESPONSES = ProviderSamples(
    codec=ResponsesCodec(),
    profile=ModelProfile("openai", "some", encrypted_thinking=True, thinking="effort"),
    text=Sample(body=responses(message("Hello")), text="Hello", stop_reason="stop", usage=Usage(10, 7, 3, 4)),
    unicode=Sample(body=responses(message(ODD)), text=ODD),
    empty=Sample(body=responses(message("")), text="", stop_reason="stop"),
    tools=Sample(body=responses(message("so"), function('{"n": 1}')), text="so", calls=(READ,)),
    parallel_tools=Sample(body=responses(function('{"n": 1}'), function('{"n": 1}', 1)), calls=(READ, READ)),
    no_argument_tools=Sample(body=responses(function("")), calls=(("read", {}),)),
    broken_arguments=Sample(body=responses(function(MALFORMED)), problem="malformed"),
    cut_arguments=Sample(
        body=responses(function(MALFORMED, status="incomplete"), status="incomplete", reason="max_output_tokens"),
        problem="incomplete",
        stop_reason="max_tokens",
    ),
    thinking=Sample(
        body=responses(REASONING, function('{"n": 1}')),
        thinking="so\u2028 it is",
        returned=(b'"encrypted_content":"gAAAA+/4711=="', "so\u2028 it is".encode()),
    ),
    refusal=Sample(body=responses(REFUSED), text="I won't", stop_reason="refusal"),
    max_tokens=Sample(body=recorded("openai-responses-incomplete-max-tokens-stream")),
    overflow=Sample(body=dumped(TOO_LONG), status=400, content_type=JSON),
    refused_key=Sample(body=dumped(BAD_KEY), status=401, content_type=JSON),
    error_first=Sample(body=recorded("openai-responses-error-quota-midstream"), error=RateLimitError),
    error_later=Sample(body=RESPONSES_BEGUN + named(RESPONSES_FAILS), error=ServerError, text="begun"),
    unknown_event=Sample(
        body=named({"type": "response.x", "output_index": 0}, {"type": "keepalive"}) + responses(message("ok")),
        text="ok",
    ),
    whole=Sample(body=dumped({"status": "completed", "output": [message("Hello")]}), content_type=JSON, text="Hello"),
)

# ---- Gemini


def gemini(*parts: dict[str, Any], finish: str = "STOP") -> bytes:
    usage = {"promptTokenCount": 14, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
    chunks = [{"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts]
    end = {"candidates": [{"index": 0, "content": {}, "finishReason": finish}], "usageMetadata": usage}
    return sse({"usageMetadata": {"promptTokenCount": 14}}, *chunks, end).replace(b"\n", b"\r\n")


def called(*, signature: str = "", **arguments: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": "read", "args": arguments}}
    return {**part, "thoughtSignature": signature} if signature else part


STREAMED_ARGUMENTS = [
    {"functionCall": {"name": "read", "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.n", "stringValue": "a"}], "willContinue": True}},
]
GOOGLE_TOO_LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
GEMINI_FAILS = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
GEMINI_KEY = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}
GEMINI_BEGUN = gemini({"text": "begun"}).rpartition(b"data: ")[0]

GEMINI = ProviderSamples(
    codec=GeminiCodec(),
    profile=ModelProfile("gemini", "some", call_signatures=True, thinking="level"),
    text=Sample(
        body=gemini({"text": "Hel"}, {"text": "lo"}),
        text="Hello",
        stop_reason="stop",
        usage=Usage(10, 7, 0, 4, thinking_tokens=2),
    ),
    unicode=Sample(body=gemini({"text": ODD}, {"text": ODD}), text=ODD * 2),
    empty=Sample(body=gemini(), text="", stop_reason="stop"),
    tools=Sample(body=gemini({"text": "so"}, called(n=1)), text="so", calls=(READ,)),
    parallel_tools=Sample(body=gemini(called(n=1, signature="c2ln"), called(n=1)), calls=(READ, READ)),
    no_argument_tools=Sample(body=gemini(called()), calls=(("read", {}),)),
    cut_arguments=Sample(body=gemini(*STREAMED_ARGUMENTS, finish="MAX_TOKENS"), problem="incomplete"),
    thinking=Sample(
        body=gemini({"text": "so it is", "thought": True}, called(n=1, signature="c2ln+/4711==")),
        thinking="so it is",
        returned=(b'"thoughtSignature":"c2ln+/4711=="',),
    ),
    refusal=Sample(body=gemini({"text": "I "}, finish="SAFETY"), text="I ", stop_reason="content_filter"),
    max_tokens=Sample(body=gemini({"text": "and"}, finish="MAX_TOKENS"), text="and"),
    overflow=Sample(
        body=dumped({"error": {"code": 400, "message": GOOGLE_TOO_LONG, "status": "INVALID_ARGUMENT"}}),
        status=400,
        content_type=JSON,
    ),
    refused_key=Sample(body=dumped(GEMINI_KEY), status=400, content_type=JSON, error=AuthenticationError),
    error_first=Sample(body=sse(GEMINI_FAILS), error=ServerError),
    error_later=Sample(body=GEMINI_BEGUN + sse(GEMINI_FAILS), error=ServerError, text="begun"),
    unknown_event=Sample(body=sse({"x": 1}) + gemini({"xPart": {"y": 1}}, {"text": "ok"}), text="ok"),
    whole=Sample(
        body=dumped([{"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]}]),
        content_type=JSON,
        text="Hello",
    ),
)

# ---- Ollama


def ollama(*messages: dict[str, Any], reason: str = "stop") -> bytes:
    lines = [{"model": "m", "message": {"role": "assistant", **item}, "done": False} for item in messages]
    end = {"model": "m", "message": {"content": ""}, "done": True, "done_reason": reason}
    counts = {"prompt_eval_count": 14, "prompt_eval_cached_count": 4, "eval_count": 7}
    return b"".join(dumped(line) + b"\n" for line in (*lines, {**end, **counts}))


def local(body: bytes, **expected: Any) -> Sample:
    return Sample(body=body, content_type=NDJSON, **expected)


LOCAL_CALL = {"content": "", "tool_calls": [{"function": {"name": "read", "arguments": {"n": 1}}}]}
NO_ARGUMENTS = {"content": "", "tool_calls": [{"function": {"name": "read", "arguments": {}}}]}
TEXT_ARGUMENTS = {"content": "", "tool_calls": [{"function": {"name": "read", "arguments": MALFORMED}}]}
LOCAL_TOO_LONG = {"error": "prompt too long; exceeded max context length by 17 tokens"}

OLLAMA = ProviderSamples(
    codec=OllamaCodec(),
    profile=ModelProfile("ollama", "some"),
    text=local(
        ollama({"content": "Hel"}, {"content": "lo"}), text="Hello", stop_reason="stop", usage=Usage(10, 7, 0, 4)
    ),
    unicode=local(ollama({"content": ODD}, {"content": ODD}), text=ODD * 2),
    empty=local(ollama(), text="", stop_reason="stop"),
    tools=local(ollama({"content": "so"}, LOCAL_CALL), text="so", calls=(READ,)),
    parallel_tools=local(ollama(LOCAL_CALL, LOCAL_CALL), calls=(READ, READ)),
    no_argument_tools=local(ollama(NO_ARGUMENTS), calls=(("read", {}),)),
    broken_arguments=local(ollama(TEXT_ARGUMENTS), problem="malformed"),
    thinking=local(
        ollama({"content": "", "thinking": "so\u2028"}, {"content": "", "thinking": " it is"}, LOCAL_CALL),
        thinking="so\u2028 it is",
        returned=('"thinking":"so\u2028 it is"'.encode(),),
    ),
    max_tokens=local(ollama({"content": "and"}, reason="length"), text="and"),
    overflow=Sample(body=dumped(LOCAL_TOO_LONG), status=400, content_type=JSON, error=ContextOverflowError),
    refused_key=Sample(body=dumped({"error": "unauthorized"}), status=401, content_type=JSON),
    error_first=local(dumped({"error": "model runner has stopped"}) + b"\n", error=ServerError),
    error_later=local(
        dumped({"message": {"content": "begun"}, "done": False}) + b"\n" + dumped({"error": "stopped"}) + b"\n",
        error=ServerError,
        text="begun",
    ),
    unknown_event=local(dumped({"x": 1}) + b"\n" + ollama({"content": "ok", "x": []}), text="ok"),
    whole=Sample(
        body=dumped({"message": {"content": "Hello"}, "done": True, "done_reason": "stop"}),
        content_type=JSON,
        text="Hello",
    ),
)
