"""Public cases on serialisation (SER): histories, times, and what a newer version wrote. Each test is named by its id."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from sapwood import Agent, Message, tool
from sapwood.core.codec import UNKNOWN, dump_run, event_from_json, from_json, load_run, to_json
from sapwood.core.events import ApprovalRequested, MessageAdded
from sapwood.core.messages import Image, Opaque, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelRequest
from sapwood.core.render_result import render_result
from sapwood.core.run import Run
from sapwood.core.stored import ConversationSummary
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.gemini import GeminiCodec
from sapwood.llm.ollama import OllamaCodec
from sapwood.llm.openai import ChatCodec
from sapwood.llm.openai.responses import ResponsesCodec
from sapwood.llm.profiles import profile_of
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
CODECS: list[tuple[Any, str, str]] = [
    (AnthropicCodec, "anthropic", "claude-sonnet-4-5"),
    (ChatCodec, "openai-chat", "gpt-4o"),
    (ResponsesCodec, "openai", "gpt-5"),
    (GeminiCodec, "gemini", "gemini-3-flash-preview"),
    (OllamaCodec, "ollama", "llava"),
]


def history(origin: str) -> list[Message]:
    """A user's picture, a result of raw bytes, nested arguments, signed thinking."""
    provider = origin.partition("/")[0]
    arguments = {"where": {"path": ["a", {"b": None}], "deep": [[1, 2.5], []]}, "ok": True}
    signed = Thinking("I should look.", {provider: {"signature": "c2lnbmVk"}})
    rendered = render_result(b"\xff\xfe")
    result = ToolResult("r0c0", "read", (Text(rendered.text), *rendered.parts))
    return [
        Message.user("What is this?", Image(data=PIXEL)),
        Message("assistant", (signed, Text("Let me see."), ToolCall("read", arguments, key="r0c0", id="c1")), origin),
        Message("tool", (result,)),
        Message("assistant", (Text("Two bytes."),), origin),
        Message.user("And now?"),
    ]


@pytest.mark.parametrize(("codec", "provider", "model"), CODECS)
def test_ser_01_a_history_with_bytes_and_images_survives_and_sends_the_same_request(
    codec: Any, provider: str, model: str
) -> None:
    profile = profile_of(provider, model).replace(images=True, files=True)
    messages = history(profile.origin)
    loaded = [from_json(to_json(message), Message) for message in messages]
    assert loaded == messages
    assert load_run(dump_run(Run("r", messages=tuple(messages)))).messages == tuple(messages)

    def body(given: list[Message]) -> bytes:
        request = ModelRequest(Transcript.of(given))
        found: bytes = codec().encode(request, profile, base_url="http://host", api_key=None).body
        return found

    assert body(loaded) == body(messages)


def test_ser_01_a_history_with_bytes_survives_a_store() -> None:
    @tool
    def read() -> bytes:
        """Read."""
        return b"\xff\xfe"

    store = SqliteStore(":memory:")
    model = scripted(calls(call("read")), says("Two bytes."), says("Yes."))
    agent = Agent(llm=model).with_tools([read]).with_conversation(store, "c1")
    assert "".join(agent.chat(["What is this?", Image(data=PIXEL)])) == "Two bytes."
    before = model.requests[-1].transcript[:]
    assert "".join(agent.chat("Sure?")) == "Yes."
    assert model.requests[-1].transcript[: len(before)] == before


TIMES = [
    datetime(2026, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC),
    datetime(2026, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2026, 5, 6, 7, 8, 9),
]


@pytest.mark.parametrize("time", TIMES)
def test_ser_02_times_keep_their_instant_and_their_offset(time: datetime) -> None:
    event = ApprovalRequested(key="r0c0", tool_call_id="c1", name="pay", tool_input={}, digest="d", expires_at=time)
    kept = event_from_json(to_json(event))
    assert isinstance(kept, ApprovalRequested)
    assert kept.expires_at == time
    assert (kept.expires_at and kept.expires_at.utcoffset()) == time.utcoffset()
    plain = msgspec.to_builtins(event)
    assert json.loads(json.dumps(plain))["expires_at"] == plain["expires_at"]
    summary = ConversationSummary("c", 1, time, time)
    assert from_json(to_json(summary), ConversationSummary) == summary


def test_ser_02_own_times_are_aware() -> None:
    store = SqliteStore(":memory:")

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(llm=scripted(calls(call("pay")))).with_tools([pay]).with_conversation(store, "c1")
    agent = agent.with_approval(defer=True, expires_seconds=60)
    list(agent.stream("go"))
    assert agent.last_turn is not None
    (request,), (run,), (talk,) = agent.last_turn.waiting, store.runs.waiting(), store.conversations.list()
    times = [run.started_at, run.updated_at, talk.started_at, talk.updated_at, request.expires_at]
    assert all(time is not None and time.utcoffset() is not None for time in times)
    assert run.started_at <= run.updated_at < (request.expires_at or run.started_at)


LATER = {
    "type": "message",
    "role": "assistant",
    "origin": "acme/rocket-9",
    "mood": "bright",
    "content": [
        {"type": "text", "text": "Look:", "language": "en"},
        {"type": "hologram", "text": "a cube", "layers": [{"depth": 3}]},
        {"type": "smell", "strength": 0.5},
        {"type": "text", "text": "Nice."},
    ],
}


def test_ser_05_a_field_that_is_not_known_is_left_out_and_a_part_that_is_not_known_stays() -> None:
    message = from_json(json.dumps(LATER), Message)
    assert message.text == "Look:Nice."
    hologram, smell = message.content[1:3]
    assert isinstance(hologram, Opaque)
    assert (hologram.kind, hologram.text) == ("hologram", "a cube")
    assert hologram.provider_data[UNKNOWN] == LATER["content"][1]  # type: ignore[index]
    assert isinstance(smell, Opaque)
    assert smell.text == ""
    # Saved again, it is still there, whole.
    again = from_json(to_json(message), Message)
    assert again == message
    assert b'"layers":[{"depth":3}]' in to_json(again)


@pytest.mark.parametrize(("codec", "provider", "model"), CODECS)
def test_ser_05_a_conversation_with_such_a_part_goes_on_with_any_model(codec: Any, provider: str, model: str) -> None:
    message = from_json(json.dumps(LATER), Message)
    transcript = Transcript.of([Message.user("hi"), message, Message.user("on")])
    profile = profile_of(provider, model)
    body = codec().encode(ModelRequest(transcript), profile, base_url="http://host", api_key=None).body
    assert b"a cube" in body
    assert b"hologram" not in body


def test_ser_05_whatever_holds_such_a_part_is_loaded() -> None:
    message = from_json(json.dumps(LATER), Message)
    event = json.dumps({"type": "message_added", "later": 1, "message": LATER})
    added = event_from_json(event)
    assert isinstance(added, MessageAdded)
    assert added.message == message
    run = json.dumps({"v": 1, "value": {"type": "run", "run_id": "r", "messages": [LATER], "weather": "fine"}})
    assert load_run(run).messages == (message,)


@pytest.mark.parametrize(
    ("source", "kind", "told"),
    [
        ('{"type": "message", "role": "user", "content": [{"kind": "?"}]}', Message, "content"),
        ('{"type": "message", "role": "judge", "content": []}', Message, "role"),
        ('{"type": "tool_result", "key": "k", "name": "n", "content": [{"type": "smell"}]}', ToolResult, "content"),
        ("{", Message, "truncated"),
    ],
)
def test_ser_05_anything_else_that_is_not_known_is_an_error_that_names_its_place(
    source: str, kind: Any, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        from_json(source, kind)


def test_ser_05_a_newer_version_and_an_unknown_event_are_clear_errors() -> None:
    with pytest.raises(ValueError, match="newer version"):
        load_run('{"v": 99, "value": {"type": "run"}}')
    with pytest.raises(ValueError, match="telepathy"):
        event_from_json('{"type": "telepathy"}')
