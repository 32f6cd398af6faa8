"""Recorded replies with values that nobody expects: a decoder answers or raises an LLMError, and nothing else.

What it answers can be stored and sent to every protocol.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_files import SMALL, Exchange, exchanges

from sapwood.core.codec import from_json, to_json
from sapwood.core.errors import LLMError
from sapwood.core.messages import Message, Text, ToolResult
from sapwood.core.model import ModelRequest, Reply
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.failures import error_of
from sapwood.llm.gemini import GeminiCodec
from sapwood.llm.ollama import OllamaCodec
from sapwood.llm.openai import ChatCodec
from sapwood.llm.openai.responses import ResponsesCodec
from sapwood.llm.profiles import profile_of
from support.examples import examples
from support.replay_server import split_bytes

CODECS: dict[str, tuple[Any, str]] = {
    "anthropic.messages": (AnthropicCodec(), "anthropic"),
    "openai.chat": (ChatCodec(), "openai"),
    "openai.responses": (ResponsesCodec(), "openai"),
    "google.stream_generate_content": (GeminiCodec(), "gemini"),
    "google.generate_content": (GeminiCodec(), "gemini"),
    "ollama.chat": (OllamaCodec(), "ollama"),
}
RECORDED = [item for item in exchanges(SMALL, *CODECS) if item.response["status"] == 200]
ODD = [None, True, 0, -1, 1.5, "", "x", [], {}, [None], [[]], {"a": 1}, [{"type": "text"}], "\ud83d", 10**30]


def events_of(exchange: Exchange) -> list[tuple[bytes, Any]]:
    """The events of a recording, decoded; a whole reply is one event."""
    splitter = exchange.splitter()
    if splitter is None:
        return [(b"", json.loads(exchange.body))]
    found = [event for piece in split_bytes(exchange.body, "whole") for event in splitter.feed(piece)]
    return [(name, json.loads(data)) for name, data in [*found, *splitter.finish()] if data.strip() != b"[DONE]"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any, *, drop: bool) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if drop and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(value[path[0]], path[1:], new, drop=drop)
    return copy


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("exchange", [pytest.param(item, id=item.name) for item in RECORDED])
@examples(60)
@given(data=st.data())
def test_no_value_is_too_odd(exchange: Exchange, data: st.DataObject) -> None:
    codec, provider = CODECS[exchange.api]
    events = events_of(exchange)
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(events) - 1))
        name, value = events[number]
        path = data.draw(st.sampled_from(places(value)))
        new = data.draw(st.sampled_from(ODD))
        events[number] = (name, changed(value, path, new, drop=data.draw(st.booleans())))
    decoder = codec.decoder(profile_of(provider, "some"))
    try:
        if exchange.splitter() is None:
            reply = decoder.whole(dump(events[0][1]))
        else:
            for name, value in events:
                decoder.feed(name, dump(value))
            reply = decoder.finish()
    except LLMError:
        return
    goes_anywhere(reply, f"{provider}/some")


def goes_anywhere(reply: Reply, origin: str) -> None:
    """Fail unless the reply, with its calls answered, can be stored and sent to every protocol."""
    content = tuple(
        part.replace(key=f"r0c{number}") if part.type == "tool_call" else part
        for number, part in enumerate(reply.content)
    )
    message = Message("assistant", content, origin)
    stored = from_json(to_json(message), Message)
    results = tuple(ToolResult(call.key, call.name, (Text("ok"),)) for call in stored.tool_calls)
    history = [Message.user("hi"), stored, *([Message("tool", results)] if results else []), Message.user("go on")]
    for codec, provider in CODECS.values():
        request = ModelRequest(Transcript.of(history))
        call = codec.encode(request, profile_of(provider, "some"), base_url="http://127.0.0.1:9", api_key="k")
        json.loads(call.body)


REFUSED = [item for item in exchanges(SMALL, *CODECS) if item.response["status"] >= 400]


@pytest.mark.parametrize("exchange", [pytest.param(item, id=item.name) for item in REFUSED])
@examples(60)
@given(data=st.data())
def test_no_refusal_is_too_odd(exchange: Exchange, data: st.DataObject) -> None:
    value = json.loads(exchange.body)
    path = data.draw(st.sampled_from(places(value)))
    body = dump(changed(value, path, data.draw(st.sampled_from(ODD)), drop=data.draw(st.booleans())))
    headers = {"retry-after": data.draw(st.text()), "x-should-retry": data.draw(st.text())}
    error = error_of(body, status=exchange.response["status"], headers=headers, now=0.0)
    assert isinstance(error, LLMError)
    assert str(error)
