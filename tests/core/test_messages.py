"""Messages and parts: what they show, what they refuse, and what JSON keeps of them."""

from typing import Any, get_args

import pytest

from sapwood.core.codec import from_json, to_json
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.struct import Data

SIGNED = {"anthropic": {"signature": "c2ln"}}
PARTS: list[tuple[Part, str]] = [
    (Text("hi"), '{"type":"text","text":"hi"}'),
    (
        Thinking("2+2", SIGNED),
        '{"type":"thinking","text":"2+2","provider_data":{"anthropic":{"signature":"c2ln"}}}',
    ),
    (Image("aGk=", "image/gif"), '{"type":"image","data":"aGk=","media_type":"image/gif"}'),
    (Image(url="https://x/y.png"), '{"type":"image","url":"https://x/y.png"}'),
    (File("aGk=", name="a.pdf"), '{"type":"file","data":"aGk=","name":"a.pdf"}'),
    (Recalled("likes tea", "memory"), '{"type":"recalled","text":"likes tea","source":"memory"}'),
    (
        ToolCall("add", {"a": 1}, "r0c0", "c1"),
        '{"type":"tool_call","name":"add","arguments":{"a":1},"key":"r0c0","id":"c1"}',
    ),
    (
        ToolCall("add", raw='{"a"', problem="incomplete"),
        '{"type":"tool_call","name":"add","raw":"{\\"a\\"","problem":"incomplete"}',
    ),
    (
        ToolResult("r0c0", "add", (Text("3"),), True, ("late",), {"ms": 2}),
        '{"type":"tool_result","key":"r0c0","name":"add","content":[{"type":"text","text":"3"}],'
        '"is_error":true,"loaded":["late"],"details":{"ms":2}}',
    ),
    (Summary("so far", ("late",)), '{"type":"summary","text":"so far","loaded":["late"]}'),
    (
        Opaque("server_tool_use", {"anthropic": {"id": 1}}),
        '{"type":"opaque","kind":"server_tool_use","provider_data":{"anthropic":{"id":1}}}',
    ),
]


@pytest.mark.parametrize(("part", "json"), PARTS)
def test_a_part_survives_json_under_its_stable_names(part: Part, json: str) -> None:
    message = Message("assistant", (part,), "anthropic/claude", partial=True)
    assert to_json(part).decode() == json
    assert from_json(to_json(message), Message) == message


def test_every_kind_of_part_is_in_the_table() -> None:
    assert {type(part) for part, _ in PARTS} == set(get_args(Part))


def test_the_views_of_a_message_leave_out_what_they_do_not_name() -> None:
    first, second = ToolCall("a", key="r0c0"), ToolCall("b", key="r0c1")
    reply = Message.assistant(Thinking("hm"), "I ", first, "will", second, Recalled("r"), Summary("s"))
    assert (reply.text, reply.tool_calls, reply.tool_results) == ("I will", (first, second), ())

    result = ToolResult("r0c0", "a", (Text("one"), Image("aGk="), Text(" two")))
    answer = Message("tool", (result,))
    assert (answer.text, answer.tool_calls, answer.tool_results, result.text) == ("", (), (result,), "one two")


def test_a_prompt_is_made_of_texts_and_parts() -> None:
    picture = Image(url="https://x/y.png")
    assert Message.user("look", picture) == Message("user", (Text("look"), picture))
    assert Message.assistant("yes", Thinking("t")) == Message("assistant", (Text("yes"), Thinking("t")))


def test_values_are_frozen_and_no_two_share_a_dictionary() -> None:
    call = ToolCall("a")
    with pytest.raises(AttributeError):
        call.name = "b"  # type: ignore[misc]
    assert call.arguments is not ToolCall("a").arguments


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Text("a", colour="red"),
        lambda: Text("a").replace(txt="b"),
        lambda: Message("user", (), sender="x"),
        lambda: ToolCall(),
    ],
)
def test_a_misspelt_or_missing_field_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


@pytest.mark.parametrize(
    "json",
    [
        '{"type":"message","role":"system","content":[]}',
        '{"type":"message","role":"user"}',
        '{"type":"message","role":"user","content":[{"text":"no type"}]}',
        '{"type":"text","text":"another class"}',
    ],
)
def test_json_of_another_shape_is_refused(json: str) -> None:
    with pytest.raises(ValueError, match="not a Message"):
        from_json(json, Message)


def test_a_copy_differs_in_what_was_changed_alone() -> None:
    call = ToolCall("a", {"n": 1}, "r0c0", "c1")
    assert call.replace(name="b") == ToolCall("b", {"n": 1}, "r0c0", "c1")
    assert call == ToolCall("a", {"n": 1}, "r0c0", "c1")
    assert isinstance(call, Data)
