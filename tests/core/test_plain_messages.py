"""Messages in the words of Anthropic and OpenAI."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import ConfigError
from sapwood.core.messages import File, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from sapwood.core.plain_messages import from_plain


def anthropic(*blocks: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


BLOCKS: list[tuple[Any, Part]] = [
    ("hi", Text("hi")),
    ({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}, Text("hi")),
    ({"type": "thinking", "thinking": "hm"}, Thinking("hm")),
    (
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        Thinking("hm", {"anthropic": {"signature": "c2ln"}}),
    ),
    ({"type": "tool_use", "id": "x", "name": "add", "input": {"a": [1]}}, ToolCall("add", {"a": [1]}, id="x")),
    ({"type": "tool_use", "name": "add"}, ToolCall("add")),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aGk="}},
        Image("aGk=", "image/gif"),
    ),
    ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, Image(url="https://x/y.png")),
    ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, Image(url="https://x/y.png")),
    ({"type": "image_url", "image_url": {"url": "data:image/gif;base64,aGk="}}, Image("aGk=", "image/gif")),
    ({"type": "image_url", "image_url": {"url": "data:image/gif;base64,"}}, Image(url="data:image/gif;base64,")),
    (
        {"type": "document", "title": "y", "source": {"type": "base64", "media_type": "text/plain", "data": "aGk="}},
        File("aGk=", "text/plain", name="y"),
    ),
    ({"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}, File(url="https://x/y.pdf")),
    (
        {"type": "redacted_thinking", "data": "xyz"},
        Opaque("redacted_thinking", {"anthropic": {"type": "redacted_thinking", "data": "xyz"}}),
    ),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_block_becomes_a_part(block: Any, part: Part, role: Any) -> None:
    is_own = role == "assistant" and isinstance(part, Thinking | Opaque)
    assert from_plain(anthropic(block, role=role)) == (Message(role, (part,), "anthropic/" if is_own else None),)


RESULT = {"type": "tool_result", "tool_use_id": "x", "content": "3"}
DEEP = '{"a":' * 600 + "1" + "}" * 600
CALL = {"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def openai_call(arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "add", "arguments": arguments}}]}


MESSAGES: list[tuple[str, dict[str, Any], tuple[Message, ...]]] = [
    ("text", {"role": "user", "content": "hi"}, (Message.user("hi"),)),
    ("several blocks", anthropic("a", {"type": "text", "text": "b"}), (Message.user("a", "b"),)),
    ("a tuple of blocks", {"role": "user", "content": ("a",)}, (Message.user("a"),)),
    ("an empty user text", {"role": "user", "content": ""}, ()),
    ("no content", {"role": "assistant", "content": None}, (Message("assistant", ()),)),
    (
        "results, then text",
        anthropic("and", RESULT, {"type": "tool_result", "tool_use_id": "y", "is_error": True, "content": ["no"]}),
        (
            Message("tool", (ToolResult("x", "", (Text("3"),)), ToolResult("y", "", (Text("no"),), is_error=True))),
            Message.user("and"),
        ),
    ),
    (
        "a result with a picture and without anything",
        anthropic(
            {"type": "tool_result", "tool_use_id": "x", "content": [BLOCKS[6][0]]},
            {"type": "tool_result", "tool_use_id": "y"},
        ),
        (
            Message(
                "tool",
                (ToolResult("x", "", (Image("aGk=", "image/gif"),)), ToolResult("y", "", (Text("(no content)"),))),
            ),
        ),
    ),
    (
        "OpenAI's tool message",
        {"role": "tool", "tool_call_id": "x", "content": "3"},
        (Message("tool", (ToolResult("x", "", (Text("3"),)),)),),
    ),
    (
        "OpenAI's calls",
        {"role": "assistant", "content": "so", "tool_calls": [CALL]},
        (Message("assistant", (Text("so"), ToolCall("add", {"a": 1}, id="x"))),),
    ),
    ("arguments as an object", openai_call({"a": 1}), (Message("assistant", (ToolCall("add", {"a": 1}, id="x"),)),)),
    ("no arguments", openai_call(""), (Message("assistant", (ToolCall("add", id="x"),)),)),
    (
        "arguments cut off",
        openai_call('{"a"'),
        (Message("assistant", (ToolCall("add", id="x", raw='{"a"', problem="malformed"),)),),
    ),
    (
        "arguments nested without end",
        openai_call(DEEP),
        (Message("assistant", (ToolCall("add", id="x", raw=DEEP, problem="malformed"),)),),
    ),
    (
        "arguments that are a list",
        openai_call("[1]"),
        (Message("assistant", (ToolCall("add", id="x", raw="[1]", problem="not_an_object"),)),),
    ),
]


@pytest.mark.parametrize(("plain", "messages"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_becomes_ours_and_stays_as_it_was(plain: dict[str, Any], messages: tuple[Message, ...]) -> None:
    before = json.dumps(plain)
    assert from_plain(plain) == messages
    assert json.dumps(plain) == before


def test_nothing_given_is_kept_by_reference() -> None:
    inner = {"a": [1]}
    (first,) = from_plain(anthropic({"type": "tool_use", "name": "add", "input": inner}))
    (second,) = from_plain(openai_call(inner))
    (third,) = from_plain(anthropic({"type": "server_thing", "deep": inner}))
    inner["a"].append(2)
    assert first.tool_calls[0].arguments == second.tool_calls[0].arguments == {"a": [1]}
    assert third.content == (Opaque("server_thing", {"anthropic": {"type": "server_thing", "deep": {"a": [1]}}}),)


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        ({"role": "system", "content": "x"}, "give it as the system prompt instead"),
        ({"role": "developer", "content": "x"}, "'developer' cannot stand in the history"),
        ({"role": "function", "content": "x"}, "role must be user, assistant or tool, not 'function'"),
        ({"content": "x"}, "not None"),
        ({"role": "user", "content": 5}, "content must be a text or a list of blocks, not int"),
        ({"role": "user", "content": [5]}, "a content block must be a text or a dictionary, not int"),
        (anthropic({"text": "hi"}), r"needs a type; got keys \['text'\]"),
        (anthropic({"type": 5}), "needs a type"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "a tool call needs a function with a name"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "a tool call needs a function with a name"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_way_out(plain: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_plain(plain)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_block = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "document", "thinking", "image_url"])},
    optional={
        "text": _json, "input": st.none() | st.dictionaries(st.text(), _json), "content": st.text(max_size=3),
        "source": _json, "name": _json, "id": _json,
    },
)  # fmt: skip


@given(role=st.sampled_from(["user", "assistant", "tool", "other"]), content=st.lists(_block, max_size=3) | _json)
def test_any_dictionary_is_read_or_refused(role: str, content: Any) -> None:
    try:
        messages = from_plain({"role": role, "content": content})
    except ConfigError:
        return
    assert all(message.role in ("user", "assistant", "tool") for message in messages)


@pytest.mark.parametrize(
    ("message", "part"),
    [
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "http://x/y.png"}]},
            Image(url="http://x/y.png"),
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}
                ],
            },
            File("aGk=", "application/pdf", name="a.pdf"),
        ),
        (
            {"role": "user", "content": [{"type": "document", "title": "t", "source": {"type": "text", "data": "hi"}}]},
            File("aGk=", "text/plain", name="t"),
        ),
        ({"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, Text("hi")),
        ({"role": "assistant", "content": None, "refusal": "no"}, Text("no")),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, Text("no")),
    ],
)
def test_what_other_apis_say_is_understood(message: Any, part: Part) -> None:
    assert from_plain(message)[0].content == (part,)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]},
        {"role": "user", "content": [{"type": "text", "text": None}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "t", "input": "{}"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "t", "input": [1]}]},
        {"role": "assistant", "tool_calls": 5},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "content": None, "function_call": {"name": "t", "arguments": "{}"}},
    ],
)
def test_what_cannot_be_understood_is_refused_and_never_dropped(message: Any) -> None:
    with pytest.raises(ConfigError):
        from_plain(message)
