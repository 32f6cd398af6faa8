"""What a conversation leaves open for Anthropic: thinking in a tool loop, and its own tools without a result."""

import json
from typing import Any

import pytest

from sapwood.core.messages import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic.encode import encode_body
from sapwood.llm.options import ModelOptions
from sapwood.testing.strict import check_anthropic_body

CLAUDE = ModelProfile("anthropic", "some", thinking="budget")
GO = Message.user("go")
THOUGHT = Thinking("so", {"anthropic": {"signature": "s"}})
REDACTED = Opaque("redacted_thinking", {"anthropic": {"type": "redacted_thinking", "data": "x"}})
CALL = ToolCall("read", {}, "r0c0", "t0")
RESULT = Message("tool", (ToolResult("r0c0", "read", (Text("found"),)),))


def reply(*parts: Part, origin: str = CLAUDE.origin) -> Message:
    return Message("assistant", parts, origin)


def body(*history: Message, profile: ModelProfile = CLAUDE, notice: str | None = None) -> dict[str, Any]:
    request = ModelRequest(Transcript.of(history), notice=notice)
    found: dict[str, Any] = json.loads(encode_body(request, profile, ModelOptions(thinking=2048)))
    check_anthropic_body(found)
    return found


@pytest.mark.parametrize(
    ("history", "thinks"),
    [
        ([GO], True),
        ([GO, reply(THOUGHT, CALL), RESULT], True),
        ([GO, reply(REDACTED, CALL), RESULT], True),
        ([GO, reply(CALL), RESULT], False),
        ([GO, reply(THOUGHT, CALL, origin="openai/m"), RESULT], False),
        ([GO, reply(THOUGHT, CALL, origin="anthropic/other"), RESULT], False),
        ([GO, reply(CALL), RESULT, Message.user("stop that")], False),
        ([GO, reply(CALL), RESULT, reply(Text("done")), Message.user("more")], True),
        ([GO, reply(THOUGHT, CALL), RESULT, reply(Text("done")), Message.user("more")], True),
    ],
)
def test_a_budget_for_thinking_is_asked_for_where_the_open_loop_began_so(history: list[Message], thinks: bool) -> None:
    assert ("thinking" in body(*history)) == thinks


def test_a_model_that_thinks_as_it_sees_fit_may_begin_without() -> None:
    adaptive = CLAUDE.replace(thinking="adaptive")
    request = ModelRequest(Transcript.of([GO, reply(CALL), RESULT]))
    found = json.loads(encode_body(request, adaptive, ModelOptions(thinking="low")))
    assert found["thinking"] == {"type": "adaptive"}
    check_anthropic_body(found)


def search(id: str) -> Opaque:
    return Opaque("server_tool_use", {"anthropic": {"type": "server_tool_use", "id": id, "name": "w", "input": {}}})


def found(id: str) -> Opaque:
    block = {"type": "web_search_tool_result", "tool_use_id": id, "content": []}
    return Opaque("web_search_tool_result", {"anthropic": block})


def kinds(body: dict[str, Any]) -> list[str]:
    return [block["type"] for message in body["messages"] for block in message["content"]]


def test_a_search_that_was_never_answered_is_left_out_once_the_user_speaks() -> None:
    paused = [GO, reply(Text("wait"), search("s1"), found("s1"), search("s2"))]

    assert kinds(body(*paused)).count("server_tool_use") == 2
    assert kinds(body(*paused, Message.user("never mind"))).count("server_tool_use") == 1
    assert kinds(body(*paused, notice="the last round")).count("server_tool_use") == 1
    resumed = [*paused, reply(found("s2"), Text("done")), Message.user("thanks")]
    assert kinds(body(*resumed)).count("server_tool_use") == 2


def test_a_result_whose_call_is_gone_is_left_out() -> None:
    assert "web_search_tool_result" not in kinds(body(GO, reply(found("s1"), Text("done")), Message.user("thanks")))


def test_code_may_wait_for_a_tool_of_ours() -> None:
    """Code that calls our tools ends in a reply after ours have answered."""
    history = [GO, reply(search("s1"), CALL), RESULT]
    assert kinds(body(*history)) == ["text", "server_tool_use", "tool_use", "tool_result"]
    assert kinds(body(*history, reply(found("s1")), Message.user("thanks")))[-2:] == ["web_search_tool_result", "text"]
