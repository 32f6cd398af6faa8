"""Facts of servers that speak Chat Completions, as data of a profile: what each of them gets and gives."""

import json
from typing import Any

import pytest

from sapwood.core.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import (
    CachePlan,
    ModelProfile,
    ModelRequest,
    Reply,
    ServerCallChunk,
    ServerResultChunk,
    StreamChunk,
)
from sapwood.core.transcript import Transcript
from sapwood.llm.openai.chat_decode import ChatDecoder
from sapwood.llm.openai.chat_encode import encode_body
from sapwood.llm.options import ModelOptions
from sapwood.testing.strict import check_chat_body

CALL = ToolCall("add", {"a": 1}, "r0c0", "toolu_01AbC")
TALK = (
    Message.user("add"),
    Message("assistant", (Thinking("hm", {"here": {"field": "reasoning"}}), Text("I will"), CALL), "here/m"),
    Message("tool", (ToolResult("r0c0", "add", (Text("3"),)),)),
    Message.assistant("It is 3."),
    Message.user("thanks"),
)


def body(*messages: Message, options: ModelOptions | None = None, request: Any = None, **facts: Any) -> dict[str, Any]:
    profile = ModelProfile("here", "m", **facts)
    asked = request or ModelRequest(Transcript.of(messages))
    written: dict[str, Any] = json.loads(encode_body(asked, profile, options or ModelOptions()))
    check_chat_body(written)
    return written


def test_ids_are_nine_letters_where_the_server_takes_no_others() -> None:
    second = ToolCall("add", {"a": 1}, "r1c0", "toolu_01AbC")
    again = (
        *TALK,
        Message("assistant", (second, ToolCall("add", {}, "r1c1", "g6fVbXS8K"))),
        Message("tool", (ToolResult("r1c0", "add", (Text("3"),)), ToolResult("r1c1", "add", (Text("4"),)))),
    )
    messages = body(*again, short_call_ids=True)["messages"]
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    assert len(set(ids)) == 3
    assert ids[2] == "g6fVbXS8K"
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids


def test_thinking_goes_back_as_the_server_wants_it() -> None:
    def replies(**facts: Any) -> list[dict[str, Any]]:
        return [message for message in body(*TALK, **facts)["messages"] if message["role"] == "assistant"]

    plain = replies()
    assert all("reasoning_content" not in reply for reply in plain)
    demanded = replies(returned_thinking="reasoning_content")
    assert [reply["reasoning_content"] for reply in demanded] == ["", ""]
    tagged = replies(returned_thinking="<think>")
    assert tagged[0]["content"] == "<think>\nhm\n</think>\n\nI will"
    assert tagged[1]["content"] == "It is 3."


@pytest.mark.parametrize(
    ("mode", "asked", "fields"),
    [
        ("effort", "high", {"reasoning_effort": "high"}),
        ("effort", True, {"reasoning_effort": "medium"}),
        ("effort", False, {"reasoning_effort": "none"}),
        ("switch", True, {"thinking": {"type": "enabled", "clear_thinking": False}}),
        ("switch", False, {"thinking": {"type": "disabled"}}),
        ("any", "low", {"reasoning": {"effort": "low"}}),
        ("any", 2_000, {"reasoning": {"max_tokens": 2_000}}),
        ("any", True, {"reasoning": {"enabled": True}}),
    ],
)
def test_thinking_is_asked_for_in_the_servers_words(mode: Any, asked: Any, fields: dict[str, Any]) -> None:
    written = body(Message.user("hi"), options=ModelOptions(thinking=asked), thinking=mode, kept_thinking=True)
    assert {key: written[key] for key in fields} == fields


def test_options_facts_and_shapes_reach_the_body() -> None:
    request = ModelRequest(
        Transcript.of([Message.user("hi")]),
        max_tokens=9_000,
        output_schema={"type": "object"},
        cache=CachePlan(key="k"),
    )
    options = ModelOptions(temperature=0.2, top_p=0.9, stop=("END",), seed=7, extra_body={"stream": None, "user": "u"})
    written = body(request=request, options=options, max_output_tokens=4_000, stream_usage=False, cache_key=True)
    assert written == {
        "model": "m",
        "max_tokens": 4_000,
        "temperature": 0.2,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": False},
        },
        "prompt_cache_key": "k",
        "user": "u",
        "messages": [{"role": "user", "content": "hi"}],
    }


def marked(written: dict[str, Any]) -> list[tuple[int, int]]:
    """Where the cache marks stand: number of the message and of its part."""
    return [
        (number, place)
        for number, message in enumerate(written["messages"])
        if isinstance(message.get("content"), list)
        for place, part in enumerate(message["content"])
        if "cache_control" in part
    ]


def test_a_gateway_that_passes_marks_on_gets_them_in_parts() -> None:
    system = ("Be brief.", "Be kind.", "recalled for this turn")
    plan = CachePlan("1h", stable=2)
    request = ModelRequest(Transcript.of(TALK[:3]), system, cache=plan)
    written = body(request=request, cache_marks=True, cache_ttls=("5m", "1h"))
    assert [part["text"] for part in written["messages"][0]["content"]] == ["Be brief.\n\nBe kind.", system[2]]
    assert marked(written) == [(0, 0), (3, 0)]
    assert written["messages"][3]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}

    shown = Message("tool", (ToolResult("r0c0", "add", (Text("3"), Image("aGk=", "image/png"))),))
    assert marked(body(*TALK[:2], shown, cache_marks=True)) == [(3, 1)]
    assert marked(body(*TALK, cache_marks=True)) == [(4, 0)]
    without = ModelRequest(Transcript.of(TALK[:3]), system, cache=CachePlan(prefix=False, messages=False))
    assert marked(body(request=without, cache_marks=True)) == []
    assert marked(body(request=ModelRequest(Transcript.of(TALK), system, cache=None), cache_marks=True)) == []


def test_what_only_another_provider_understands_leaves_its_text() -> None:
    foreign = Message(
        "assistant",
        (
            Opaque("compaction", {"anthropic": {"type": "compaction"}}, "Summary: boats."),
            Opaque("web_search_tool_result", {"anthropic": {"type": "x"}}),
            Text("", {"gemini": {"thoughtSignature": "c2ln"}}),
            Text(" Yes."),
        ),
        "anthropic/m",
    )
    assert body(Message.user("hi"), foreign, Message.user("and?"))["messages"][1] == {
        "role": "assistant",
        "content": "Summary: boats. Yes.",
    }


def decoded(*chunks: dict[str, Any]) -> list[StreamChunk]:
    decoder = ChatDecoder(ModelProfile("here", "m"))
    found: list[StreamChunk] = []
    for chunk in chunks:
        found += decoder.feed(b"", json.dumps(chunk).encode())
    return [*found, decoder.finish()]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_a_tool_that_the_server_ran_shows_as_a_call_and_a_result() -> None:
    arguments = json.dumps({"query": "weather"})
    run = {"index": 0, "type": "search", "arguments": arguments}
    chunks = decoded(
        delta(role="assistant", content="Let me see. "),
        delta(executed_tools=[run]),
        delta(executed_tools=[{**run, "output": "sunny"}]),
        delta(content="Sunny."),
        delta("stop"),
    )
    assert chunks[1] == ServerCallChunk("executed_0", "search", {"query": "weather"})
    assert chunks[2] == ServerResultChunk("executed_0", "search", "sunny")
    assert isinstance(chunks[-1], Reply)
    assert chunks[-1].content == (Text("Let me see. Sunny."),)


def test_sources_that_every_chunk_repeats_are_kept_once() -> None:
    first = {**delta(content="a"), "citations": ["u1"]}
    last = {**delta(content="b"), "citations": ["u1", "u2"], "search_results": [{"url": "u1"}]}
    reply = decoded(first, last, delta("stop"))[-1]
    assert isinstance(reply, Reply)
    own = {"citations": ["u1", "u2"], "search_results": [{"url": "u1"}]}
    assert reply.content == (Text("ab", {"here": own}),)
