"""Pieces of the arguments of calls, as they stream: from odd servers, through a chain, from a script."""

import json
from typing import Any

import pytest

from sapwood.core.errors import ServerError
from sapwood.core.messages import Message, ToolCall
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, ToolDeltaChunk
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic.decode import AnthropicDecoder
from sapwood.llm.codec import Decoder
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.openai.chat_decode import ChatDecoder
from sapwood.llm.openai.responses_decode import ResponsesDecoder
from sapwood.llm.scripted import call, calls, says, scripted
from sapwood.testing.provider_deltas import require_deltas

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
PROFILE = ModelProfile("p", "m")


def read(decoder: Decoder, *events: dict[str, Any], named: bool = True) -> list[StreamChunk]:
    chunks: list[StreamChunk] = []
    for event in events:
        name = str(event.get("type", "")).encode() if named else b""
        chunks += decoder.feed(name, json.dumps(event).encode())
    chunks.append(decoder.finish())
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    require_deltas(chunks, reply)
    return chunks


def deltas(chunks: list[StreamChunk]) -> list[tuple[int, str, str]]:
    return [(chunk.index, chunk.name, chunk.text) for chunk in chunks if isinstance(chunk, ToolDeltaChunk)]


def chat(*fragments: Any, finish: str = "tool_calls") -> list[dict[str, Any]]:
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": item}}]} for item in fragments]
    return [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


def fragment(index: int | None = 0, name: str = "", arguments: Any = None, id: str = "") -> dict[str, Any]:
    function = {"name": name} if name else {}
    function |= {} if arguments is None else {"arguments": arguments}
    made: dict[str, Any] = {"function": function}
    made |= {} if index is None else {"index": index}
    return made | ({"id": id} if id else {})


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        (
            [[fragment(0, "add", "", "c1")], [fragment(0, "", '{"a"')], [fragment(0, "", ": 1}")]],
            [(0, "add", ""), (0, "", '{"a"'), (0, "", ": 1}")],
        ),
        (
            [[fragment(0, "add", '{"a": 1}', "c1"), fragment(1, "add", "{}", "c2")]],
            [(0, "add", '{"a": 1}'), (1, "add", "{}")],
        ),
        ([[fragment(0, "add", {"a": 1}, "c1")]], [(0, "add", '{"a":1}')]),
        ([[fragment(0, "", '{"a"', "c1")], [fragment(0, "add", ": 1}", "c1")]], [(0, "add", '{"a": 1}')]),
        ([[fragment(None, "add", "{}")], [fragment(None, "add", "{}")]], [(0, "add", "{}"), (1, "add", "{}")]),
        ([[fragment(0, "add", None, "c1")], [fragment(0, "", "", "c1")]], [(0, "add", "")]),
    ],
)
def test_chat_completions_from_odd_servers(fragments: Any, expected: Any) -> None:
    assert deltas(read(ChatDecoder(PROFILE), *chat(*fragments))) == expected


def test_the_old_function_call_streams_too() -> None:
    events = [{"choices": [{"index": 0, "delta": {"function_call": {"name": "add", "arguments": "{}"}}}]}]
    assert deltas(read(ChatDecoder(PROFILE), *events, *chat())) == [(0, "add", "{}")]


def item(place: int, event: str, **fields: Any) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": f"c{place}", "name": "add", "status": "completed", **fields}
    return {"type": f"response.output_item.{event}", "output_index": place, "item": made}


def argued(place: int, text: str, event: str = "delta") -> dict[str, Any]:
    key = "delta" if event == "delta" else "arguments"
    return {"type": f"response.function_call_arguments.{event}", "output_index": place, key: text}


END = {"type": "response.completed", "response": {"status": "completed", "output": []}}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [
                item(0, "added", arguments=""),
                argued(0, '{"a"'),
                argued(0, ": 1}"),
                item(0, "done", arguments='{"a": 1}'),
            ],
            [(0, "add", ""), (0, "", '{"a"'), (0, "", ": 1}")],
        ),
        ([item(0, "done", arguments='{"a": 1}')], [(0, "add", '{"a": 1}')]),
        ([item(0, "added"), item(0, "done", arguments={"a": 1})], [(0, "add", ""), (0, "", '{"a":1}')]),
        (
            [item(0, "added"), argued(0, '{"a": 1}', "done"), item(0, "done", arguments="")],
            [(0, "add", ""), (0, "", '{"a": 1}')],
        ),
        (
            [
                item(1, "added"),
                item(4, "added"),
                argued(4, "{"),
                argued(1, "{}"),
                argued(4, "}"),
                item(1, "done"),
                item(4, "done"),
            ],
            [(0, "add", ""), (1, "add", ""), (1, "", "{"), (0, "", "{}"), (1, "", "}")],
        ),
    ],
)
def test_responses_from_odd_servers(events: Any, expected: Any, named: bool) -> None:
    assert deltas(read(ResponsesDecoder(PROFILE), *events, END, named=named)) == expected


def test_a_call_that_a_gateway_never_announced_waits_for_its_name() -> None:
    events = [argued(0, '{"a"'), argued(0, ": 1}"), item(0, "done", arguments='{"a": 1}')]
    assert deltas(read(ResponsesDecoder(PROFILE), *events, END)) == [(0, "add", '{"a": 1}')]


def block(index: int, **fields: Any) -> dict[str, Any]:
    made = {"type": "tool_use", "id": f"t{index}", "name": "add", "input": {}, **fields}
    return {"type": "content_block_start", "index": index, "content_block": made}


def piece(index: int, text: str, kind: str = "input_json_delta") -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, "partial_json": text}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


START: dict[str, Any] = {"type": "message_start", "message": {"id": "m1", "content": []}}
STOPPED: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([block(0), piece(0, ""), piece(0, '{"a": 1}'), stop(0)], [(0, "add", ""), (0, "", '{"a": 1}')]),
        ([block(0, input={"a": 1}), stop(0)], [(0, "add", ""), (0, "", '{"a":1}')]),
        ([block(0), stop(0)], [(0, "add", "")]),
        ([block(0, type="server_tool_use"), piece(0, "{}"), stop(0), block(1), stop(1)], [(0, "add", "")]),
        (
            [block(0), piece(0, "{}"), stop(0), block(1), piece(1, "{}"), stop(1)],
            [(0, "add", ""), (0, "", "{}"), (1, "add", ""), (1, "", "{}")],
        ),
    ],
)
def test_anthropic_and_what_gateways_make_of_it(events: Any, expected: Any, named: bool) -> None:
    assert deltas(read(AnthropicDecoder(PROFILE), START, *events, STOPPED, named=named)) == expected


def test_calls_in_the_first_event_are_told_at_once() -> None:
    made = {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}}
    chunks = read(
        AnthropicDecoder(PROFILE), {"type": "message_start", "message": {"id": "m1", "content": [made]}}, STOPPED
    )

    assert deltas(chunks) == [(0, "add", ""), (0, "", '{"a":1}')]


def test_a_message_that_is_started_again_counts_its_calls_anew() -> None:
    again = {"type": "message_start", "message": {"id": "m2", "content": []}}
    chunks = read(
        AnthropicDecoder(PROFILE), START, block(0), piece(0, '{"b"'), again, block(0), piece(0, "{}"), stop(0), STOPPED
    )

    assert [chunk.type for chunk in chunks] == ["tool_delta_chunk"] * 2 + ["restart_chunk"] + [
        "tool_delta_chunk"
    ] * 2 + ["reply"]
    assert deltas(chunks)[2:] == [(0, "add", ""), (0, "", "{}")]


@pytest.mark.parametrize("size", [1, 4, 1_000])
def test_a_script_streams_its_calls_in_pieces(size: int) -> None:
    script = calls(call("add", {"a": 1, "b": "é"}), call("bad", raw='{"a"'), "none", piece_size=size)
    chunks = list(scripted(script).stream(REQUEST))
    reply = chunks[-1]

    assert isinstance(reply, Reply)
    require_deltas(chunks, reply)
    assert max(len(text) for _, _, text in deltas(chunks)) <= size
    assert deltas(list(scripted(calls("add")).stream(REQUEST))) == []


def test_pieces_that_were_shown_are_void_when_another_provider_takes_over() -> None:
    broken = scripted(calls(call("add", {"a": 1}), piece_size=3, error=ServerError("down")))
    whole = scripted(calls(call("add", {"a": 2}), piece_size=100))
    chunks = list(FallbackProvider([broken, whole]).stream(REQUEST))
    reply = chunks[-1]

    assert isinstance(reply, Reply)
    assert [chunk.type for chunk in chunks].index("restart_chunk") == 4
    require_deltas(chunks, reply)


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([ToolDeltaChunk(0, "", "{}")], "does not name the tool"),
        ([ToolDeltaChunk(1, "add", "{}")], r"calls \[1\], and the reply has 1"),
        ([ToolDeltaChunk(0, "sub", "{}")], "are of 'sub'"),
        ([ToolDeltaChunk(0, "add", '{"a"')], "is not what the reply holds"),
    ],
)
def test_the_kit_says_what_is_wrong_with_pieces(chunks: list[StreamChunk], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        require_deltas(chunks, Reply((ToolCall("add", {}),)))


def test_a_reply_without_pieces_is_fine() -> None:
    require_deltas(list(says("hi").chunks()), Reply((ToolCall("add", {"a": 1}),)))
