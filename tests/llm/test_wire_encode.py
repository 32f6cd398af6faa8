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

from sapwood.core.model import ModelProfile
from sapwood.llm.anthropic.encode import encode_body as encode_messages
from sapwood.llm.openai.chat_encode import encode_body as encode_chat
from support.read_requests import anthropic_request, chat_request, text_of

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
    request, options = anthropic_request(body)
    profile = ModelProfile("anthropic", body["model"], cache_marks=True)

    written = json.loads(encode_messages(request, profile, options))
    assert written.pop("stream") is True
    assert plain_messages(written) == plain_messages({k: v for k, v in body.items() if k != "stream"})


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
    request, options = chat_request(body, provider)
    system = [message for message in body["messages"] if message["role"] in ("system", "developer")]
    role = system[0]["role"] if system else "system"
    profile = ModelProfile(provider, body["model"], system_role=role)

    written = json.loads(encode_chat(request, profile, options))
    assert written.pop("stream") is True
    assert written.pop("stream_options") == {"include_usage": True}
    for name in ("stream", "stream_options", "n"):
        body = {key: value for key, value in body.items() if key != name}
    assert plain_chat(written) == plain_chat(body)


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
