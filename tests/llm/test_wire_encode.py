"""Recorded requests, read into our messages and written again, compared field by field.

What may differ, and why:
- `stream`, `stream_options`: we always stream and always ask for usage.
- cache marks: ours are put in at the join, wherever the recording had its own.
- a text alone may be a string or a list of one block; `is_error: false` may be left out; several system
  messages become one: the server reads the same.
- `content` of an assistant's message with calls only may be null or "": both mean no text; a message
  without either is left out.
- neighbours of one role are one message in ours, as the Messages API reads them anyway.
- `reasoning` beside `reasoning_content`: one of the two is enough; chat replies of other fields than ours.
- an empty description of a tool and an empty list of tools are left out; so are blank text blocks, which
  some models refuse.
- `n: 1`, an empty `extra_*`: the defaults.
"""

import json
from typing import Any

import pytest
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core.messages import File, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, ToolChoice
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic.encode import encode_body as encode_messages
from sapwood.llm.openai.chat_encode import encode_body as encode_chat
from sapwood.llm.options import ModelOptions

HERE = exchanges(SMALL, "anthropic.messages", "openai.chat")
NAMES = {item.name for item in HERE}
ALL = [item for item in exchanges(whole_set(), "anthropic.messages", "openai.chat") if item.name not in NAMES]

LEFT_OUT = {
    "anthropic-messages-cache-mid-conversation-system": "a system entry among the messages: no part of ours",
    "anthropic-messages-system-mid-conversation": "a system entry among the messages: no part of ours",
    "anthropic-messages-search-result-blocks": "search_result blocks in a tool result: no part of ours",
    "anthropic-messages-fable5-three-rounds": "tool_reference blocks: deferred loading is not written yet",
    "openai-chat-prompt-cache": "explicit prompt_cache_breakpoint on content parts: not written by us",
    "huggingface-chat-tools": "a user message with tool_calls, which no server asks for",
}


def cases(api: str) -> list[Any]:
    found = [
        pytest.param(item, id=item.name, marks=[] if item.name in NAMES else [pytest.mark.wire])
        for item in [*HERE, *ALL]
        if item.api == api and item.is_recorded and item.name.partition("#")[0] not in LEFT_OUT
    ]
    if not ALL:
        skip = pytest.mark.skip("the whole set of recordings is not here")
        found.append(pytest.param(None, id="whole-set", marks=skip))
    return found


@pytest.mark.parametrize("exchange", cases("anthropic.messages"))
def test_a_recorded_messages_request_is_written_again(exchange: Exchange) -> None:
    body: dict[str, Any] = exchange.request["body"]
    origin = "anthropic/" + body["model"]
    tools, extra_tools = read_tools(body.get("tools", []))
    choice = body.get("tool_choice")
    known = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "cache_control"}
    extra = {key: value for key, value in body.items() if key not in known}
    if extra_tools:
        extra["tools"] = body["tools"]
    is_ours = choice and set(choice) == {"type"} and choice["type"] != "tool" and not extra_tools
    if choice and not is_ours:
        extra["tool_choice"] = choice
    system = body.get("system", [])
    request = ModelRequest(
        Transcript.of(read_messages(body["messages"], origin)),
        system=(system,) if isinstance(system, str) else tuple(block["text"] for block in system),
        tools=() if extra_tools else tools,
        tool_choice=choice["type"] if is_ours else None,
        max_tokens=body["max_tokens"],
    )
    profile = ModelProfile("anthropic", body["model"], cache_marks=True)

    written = json.loads(encode_messages(request, profile, ModelOptions(extra_body=extra)))
    assert written.pop("stream") is True
    assert plain_messages(written) == plain_messages({k: v for k, v in body.items() if k != "stream"})


def read_tools(tools: list[dict[str, Any]]) -> tuple[tuple[ToolSchema, ...], bool]:
    """Our tools, and whether some are the provider's own or have fields that we do not write."""
    ours = {"name", "description", "input_schema"}
    extra = any(set(tool) - ours - {"cache_control"} or "input_schema" not in tool for tool in tools)
    read = [ToolSchema(t["name"], t.get("description", ""), t["input_schema"]) for t in tools if "input_schema" in t]
    return tuple(read), extra


def read_messages(messages: list[dict[str, Any]], origin: str) -> list[Message]:
    read: list[Message] = []
    keys: dict[str, tuple[str, str]] = {}
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                keys[block["id"]] = (f"m{number}c{index}", block["name"])
        parts = [read_block(block, keys) for block in blocks]
        if message["role"] == "assistant":
            read.append(Message("assistant", tuple(parts), origin))
            continue
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        read += [Message("tool", results)] if results else []
        read += [Message("user", rest)] if rest else []
    return read


def read_block(block: dict[str, Any], keys: dict[str, tuple[str, str]]) -> Part:
    block = {key: value for key, value in block.items() if key != "cache_control"}
    match block["type"]:
        case "text":
            return Text(block["text"], {"anthropic": block} if block.get("citations") else None)
        case "thinking":
            return Thinking(block["thinking"], {"anthropic": {"signature": block["signature"]}})
        case "tool_use":
            data = {"anthropic": {"caller": block["caller"]}} if "caller" in block else None
            key, _ = keys[block["id"]]
            return ToolCall(block["name"], block["input"], key, block["id"], provider_data=data)
        case "tool_result":
            key, name = keys[block["tool_use_id"]]
            content = block["content"]
            inner = [{"type": "text", "text": content}] if isinstance(content, str) else content
            parts: Any = tuple(read_block(item, keys) for item in inner)
            return ToolResult(key, name, parts, bool(block.get("is_error")))
        case "image" if block["source"]["type"] == "base64":
            return Image(block["source"]["data"], block["source"]["media_type"])
        case "document" if set(block) == {"type", "source"}:
            return File(block["source"]["data"], block["source"]["media_type"])
        case kind:
            return Opaque(kind, {"anthropic": block})


def plain_messages(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what may differ."""
    body = json.loads(json.dumps(body))
    body.pop("cache_control", None)
    if isinstance(body.get("system"), str):
        body["system"] = [{"type": "text", "text": body["system"]}]
    if not body.get("tools"):
        body.pop("tools", None)
    merged: list[dict[str, Any]] = []
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        message["content"] = [b for b in message["content"] if b["type"] != "text" or b["text"].strip()]
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += message["content"]
        else:
            merged.append(message)
    body["messages"] = merged
    for block in [b for m in merged for b in m["content"]] + body.get("system", []) + body.get("tools", []):
        block.pop("cache_control", None)
        if block.get("description") == "":
            del block["description"]
        if block.get("type") == "tool_result":
            if isinstance(block["content"], str):
                block["content"] = [{"type": "text", "text": block["content"]}]
            if block.get("is_error") is False:
                del block["is_error"]
    if merged[-1]["role"] == "assistant" and merged[-1]["content"][-1]["type"] == "text":
        merged[-1]["content"][-1]["text"] = merged[-1]["content"][-1]["text"].rstrip()
    return body


@pytest.mark.parametrize("exchange", cases("openai.chat"))
def test_a_recorded_chat_request_is_written_again(exchange: Exchange) -> None:
    body: dict[str, Any] = exchange.request["body"]
    provider = exchange.name.partition("-")[0]
    known = {"model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens", "n"}
    extra = {key: value for key, value in body.items() if key not in known}
    tools = body.get("tools", [])
    simple = all(set(t["function"]) <= {"name", "description", "parameters"} for t in tools)
    if not simple:
        extra["tools"] = tools
    choice = body.get("tool_choice")
    choices: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "any"}
    ours = choices.get(choice) if isinstance(choice, str) and simple else None
    if choice and not ours:
        extra["tool_choice"] = choice
    system = [m for m in body["messages"] if m["role"] in ("system", "developer")]
    request = ModelRequest(
        Transcript.of(read_chat([m for m in body["messages"] if m not in system], provider, body["model"])),
        system=tuple(text_of(message["content"]) for message in system),
        tools=tuple(
            ToolSchema(t["function"]["name"], t["function"].get("description", ""), t["function"]["parameters"])
            for t in tools
            if simple
        ),
        tool_choice=ours,
        max_tokens=body.get("max_tokens"),
    )
    role = system[0]["role"] if system else "system"
    profile = ModelProfile(provider, body["model"], system_role=role)

    written = json.loads(encode_chat(request, profile, ModelOptions(extra_body=extra)))
    assert written.pop("stream") is True
    assert written.pop("stream_options") == {"include_usage": True}
    for name in ("stream", "stream_options", "n"):
        body = {key: value for key, value in body.items() if key != name}
    assert plain_chat(written) == plain_chat(body)


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content or ())


def read_chat(messages: list[dict[str, Any]], provider: str, model: str) -> list[Message]:
    read: list[Message] = []
    names: dict[str, tuple[str, str]] = {}
    for number, message in enumerate(messages):
        match message["role"]:
            case "user":
                read.append(Message.user(text_of(message["content"])))
            case "assistant":
                parts: list[Part] = []
                data: dict[str, Any] = {}
                if message.get("reasoning_content") is not None:
                    data["field"] = "reasoning_content"
                if message.get("reasoning_details"):
                    data["reasoning_details"] = message["reasoning_details"]
                if data:
                    parts.append(Thinking(message.get("reasoning_content") or "", {provider: data}))
                if text := text_of(message.get("content")):
                    parts.append(Text(text))
                for index, call in enumerate(message.get("tool_calls", [])):
                    names[call["id"]] = (f"m{number}c{index}", call["function"]["name"])
                    arguments = json.loads(call["function"]["arguments"])
                    more = {k: v for k, v in call.items() if k not in ("id", "type", "function", "index")}
                    own = {provider: more} if more else None
                    key, name = names[call["id"]]
                    parts.append(ToolCall(name, arguments, key, call["id"], provider_data=own))
                read.append(Message("assistant", tuple(parts), f"{provider}/{model}"))
            case _:
                key, name = names[message["tool_call_id"]]
                result = ToolResult(key, name, (Text(text_of(message["content"])),))
                if read[-1].role == "tool":
                    result_message = read.pop()
                    read.append(Message("tool", (*result_message.tool_results, result)))
                else:
                    read.append(Message("tool", (result,)))
    return read


def plain_chat(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what may differ."""
    body = json.loads(json.dumps(body))
    if not body.get("tools"):
        body.pop("tools", None)
    for tool in body.get("tools", []):
        if tool["function"].get("description") == "":
            del tool["function"]["description"]
    messages: list[dict[str, Any]] = []
    for message in body["messages"]:
        message["content"] = text_of(message.get("content"))
        for name in ("reasoning", "name"):
            message.pop(name, None)
        for call in message.get("tool_calls", []):
            call.pop("index", None)
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if messages and messages[-1]["role"] == message["role"] in ("system", "developer", "user"):
            messages[-1]["content"] += "\n\n" + message["content"]
        elif message["content"] or message.get("tool_calls"):
            messages.append(message)
    if messages[-1]["role"] == "assistant":
        messages[-1]["content"] = messages[-1]["content"].rstrip()
    return {**body, "messages": messages}
