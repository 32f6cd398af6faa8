"""Cases from public bug reports, as far as the wire is concerned."""

import json
from typing import Any

import pytest

from sapwood.core.errors import ServerError
from sapwood.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.codec import Decoder
from sapwood.llm.openai import ChatCodec
from sapwood.llm.sse import SseSplitter
from sapwood.testing.strict import check_anthropic_body, check_chat_body

CLAUDE = ModelProfile("anthropic", "claude")
CHAT = ModelProfile("openai", "gpt")


def decode(decoder: Decoder, *pieces: bytes) -> list[StreamChunk]:
    splitter, chunks = SseSplitter(), list[StreamChunk]()
    for piece in pieces:
        for name, data in splitter.feed(piece):
            chunks += decoder.feed(name, data)
    return [*chunks, decoder.finish()]


def sse(*events: dict[str, Any], named: bool = False) -> bytes:
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    ]
    return "".join(lines).encode()


def claude_events(*blocks: dict[str, Any], stop: str | None = "end_turn") -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    for index, block in enumerate(blocks):
        start = {key: value for key, value in block.items() if key != "deltas"}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in block.get("deltas", [])]
        events.append({"type": "content_block_stop", "index": index})
    if stop:
        events += [{"type": "message_delta", "delta": {"stop_reason": stop}}, {"type": "message_stop"}]
    return events


def text_block(*texts: str) -> dict[str, Any]:
    return {"type": "text", "text": "", "deltas": [{"type": "text_delta", "text": text} for text in texts]}


def chat_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def claude_decoder() -> Decoder:
    return AnthropicCodec().decoder(CLAUDE)


def chat_decoder() -> Decoder:
    return ChatCodec().decoder(CHAT)


def bodies(*messages: Message) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request to both, checked."""
    transcript = Transcript.of(messages)
    first, second = (
        json.loads(codec.encode(ModelRequest(transcript), profile, base_url="http://x", api_key=None).body)
        for codec, profile in ((AnthropicCodec(), CLAUDE), (ChatCodec(), CHAT))
    )
    check_anthropic_body(first)
    check_chat_body(second)
    return first, second


def result(key: str, text: str = "found") -> Message:
    return Message("tool", (ToolResult(key, "read", (Text(text),)),))


@pytest.mark.parametrize("decoder", [claude_decoder, chat_decoder])
def test_str_05_characters_cut_at_chunk_borders(decoder: Any) -> None:
    text = "雪と🦊é"
    if decoder is claude_decoder:
        stream = sse(*claude_events(text_block(text)), named=True)
    else:
        stream = sse(chat_chunk(content=""), chat_chunk(content=text), chat_chunk("stop"))
    expected = decode(decoder(), stream)

    assert expected[0] == TextChunk(text)
    for cut in range(len(stream)):
        assert decode(decoder(), stream[:cut], stream[cut:]) == expected
    assert decode(decoder(), *(stream[i : i + 1] for i in range(len(stream)))) == expected


def test_str_06_chunks_with_usage_and_no_choices() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    stream = sse(
        {"choices": [], "prompt_filter_results": []},
        chat_chunk(content="a"),
        {"choices": []},
        {"choices": None},
        chat_chunk(content="b"),
        chat_chunk("stop"),
        {"choices": [], "usage": usage},
    )

    reply = decode(chat_decoder(), stream + b"data: [DONE]\n\n")[-1]
    assert isinstance(reply, Reply)
    assert (reply.content, reply.stop_reason) == ((Text("ab"),), "stop")
    assert reply.usage is not None
    assert reply.usage.total_tokens == 7


def chat_calls(*fragments: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    chunks = [chat_chunk(tool_calls=[fragment]) for fragment in fragments]
    reply = decode(chat_decoder(), sse(chat_chunk(content=""), *chunks, chat_chunk("tool_calls")))[-1]
    assert isinstance(reply, Reply)
    return [(call.name, call.arguments) for call in reply.content if isinstance(call, ToolCall)]


def fragment(arguments: Any = "", *, id: str = "", name: str = "", **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"function": function, **({"id": id} if id else {}), **more}


TWO = [("read", {"p": 1}), ("read", {"p": 2})]


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        (  # one index, two ids, whole
            [fragment('{"p": 1}', id="a", name="read", index=0), fragment('{"p": 2}', id="b", name="read", index=0)],
            TWO,
        ),
        (  # as OpenAI sends them
            [
                fragment(id="a", name="read", index=0),
                fragment('{"p"', index=0),
                fragment(": 1}", index=0),
                fragment(id="b", name="read", index=1),
                fragment('{"p": 2}', index=1),
            ],
            TWO,
        ),
        (  # no index, no id: a new name after whole arguments is a new call
            [fragment('{"p": 1}', name="read"), fragment('{"p": 2}', name="read")],
            TWO,
        ),
        (  # one index, no ids
            [fragment('{"p": 1}', name="read", index=0), fragment('{"p": 2}', name="read", index=0)],
            TWO,
        ),
        (  # counted from 1
            [fragment(id="a", name="read", index=1), fragment('{"p": 1}', index=1)],
            TWO[:1],
        ),
        (  # a wrong index on the head only
            [fragment(id="a", name="read", index=3), fragment('{"p": 1}', index=0)],
            TWO[:1],
        ),
        (  # the name after the arguments
            [fragment('{"p": 1}', id="a", index=0), fragment(name="read", index=0)],
            TWO[:1],
        ),
        (  # the id repeated on every fragment
            [fragment('{"p"', id="a", name="read", index=0), fragment(": 1}", id="a", name="read", index=0)],
            TWO[:1],
        ),
        (  # one id for two calls (PAR-05)
            [fragment('{"p": 1}', id="a", name="read", index=0), fragment('{"p": 2}', id="a", name="read", index=1)],
            TWO,
        ),
        ([fragment({"p": 1}, id="a", name="read", index=0)], TWO[:1]),  # an object in place of text
        ([], []),
    ],
)
def test_str_07_calls_under_one_index_stay_apart(fragments: list[Any], calls: list[Any]) -> None:
    assert chat_calls(*fragments) == calls


def test_str_08_unknown_events_and_blocks_are_kept_and_do_no_harm() -> None:
    unknown = {"type": "hologram", "beam": 1, "deltas": [{"type": "beam_delta", "note": "x"}]}
    events = claude_events(text_block("good"), unknown, text_block(" stream"))
    events.insert(2, {"type": "novelty", "value": [1]})

    chunks = decode(claude_decoder(), sse(*events, named=True), b"event: odd\ndata: \n\nevent: ping\ndata: x\n\n")
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert [chunk.text for chunk in chunks[:-1] if isinstance(chunk, TextChunk)] == ["good", " stream"]
    assert [part.type for part in reply.content] == ["text", "opaque", "text"]
    body, _ = bodies(Message.user("hi"), Message("assistant", reply.content, CLAUDE.origin))
    assert body["messages"][1]["content"][1] == {"type": "hologram", "beam": 1, "note": "x"}


def test_str_09_a_stream_without_its_end_is_no_reply() -> None:
    cut = claude_events(text_block("The answer is"), stop=None)
    with pytest.raises(ServerError, match="stream ended early") as caught:
        decode(claude_decoder(), sse(*cut, named=True))
    assert caught.value.is_transient
    with pytest.raises(ServerError, match="stream ended early"):
        decode(chat_decoder(), sse(chat_chunk(content="The answer is")) + b"data: [DONE]\n\n")

    no_sentinel = claude_events(text_block("done"))[:-1]
    assert decode(claude_decoder(), sse(*no_sentinel, named=True))[-1] == Reply((Text("done"),))
    assert decode(chat_decoder(), sse(chat_chunk(content="done"), chat_chunk("stop")))[-1] == Reply((Text("done"),))


def test_msg_01_signed_thinking_goes_back_unchanged_or_not_at_all() -> None:
    signed = Thinking("so \n", {"anthropic": {"signature": "S"}})
    call = ToolCall("read", {}, "r0c0", "c1")
    own = Message("assistant", (signed, Text("text "), call), CLAUDE.origin)
    other = Message("assistant", (signed, Text("text")), "anthropic/other")
    unsigned = Message("assistant", (Thinking("so"), Text("text")), CLAUDE.origin)
    empty = Message("assistant", (Thinking("", {"anthropic": {"signature": "E"}}), Text("text")), CLAUDE.origin)

    def thoughts(message: Message, *after: Message) -> list[Any]:
        body, _ = bodies(Message.user("hi"), message, *after)
        return [block for block in body["messages"][1]["content"] if block["type"] == "thinking"]

    assert thoughts(own, result("r0c0")) == [{"type": "thinking", "thinking": "so \n", "signature": "S"}]
    assert thoughts(other) == thoughts(unsigned) == []
    assert thoughts(empty) == [{"type": "thinking", "thinking": "", "signature": "E"}]


def test_msg_03_a_blank_text_next_to_a_call_is_not_sent() -> None:
    reply = Message("assistant", (Text("\n\n"), ToolCall("read", {}, "r0c0", "c1")), CLAUDE.origin)

    body, chat = bodies(Message.user("hi"), reply, result("r0c0"))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    assert chat["messages"][1]["content"] is None


def test_msg_04_trailing_white_space_ends_no_request() -> None:
    prefill = Message("assistant", (Text("Answer: \n"),))

    body, chat = bodies(Message.user("hi"), prefill)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Answer:"}]
    assert chat["messages"][1]["content"] == "Answer:"
    assert prefill.text == "Answer: \n"
    body, _ = bodies(Message.user("hi"), prefill, Message.user("go on"))
    assert body["messages"][1]["content"][0]["text"] == "Answer: \n"


def calls_and_results(body: dict[str, Any]) -> list[tuple[str, str]]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return list(zip(calls, [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"], strict=True))


def test_msg_06_ids_of_another_provider_become_valid_and_stay_the_same() -> None:
    odd = ["fn.plan:0", "c1|x2", "x" * 90]
    reply = Message("assistant", tuple(ToolCall("read", {}, f"r0c{i}", id) for i, id in enumerate(odd)))
    answers = Message("tool", tuple(ToolResult(f"r0c{i}", "read", (Text("ok"),)) for i in range(3)))
    first, _ = bodies(Message.user("hi"), reply, answers)
    second, _ = bodies(Message.user("hi"), reply, answers, Message.user("more"))

    pairs = calls_and_results(first)
    assert all(call == answer for call, answer in pairs)
    assert len({call for call, _ in pairs}) == 3
    assert calls_and_results(second) == pairs
    assert [call.id for call in reply.tool_calls] == odd


def test_par_05_two_calls_with_one_id_in_one_reply() -> None:
    reply = Message(
        "assistant", (ToolCall("read", {"p": "a"}, "r0c0", "dup"), ToolCall("read", {"p": "b"}, "r0c1", "dup"))
    )
    answers = Message("tool", (ToolResult("r0c0", "read", (Text("A"),)), ToolResult("r0c1", "read", (Text("B"),))))

    body, _ = bodies(Message.user("hi"), reply, answers)
    pairs = calls_and_results(body)
    assert pairs[0][0] == "dup"
    assert len(set(pairs)) == 2
    assert all(call == answer for call, answer in pairs)


def test_par_06_a_provider_that_restarts_its_ids() -> None:
    turns = [
        [
            Message.user(f"question {turn}"),
            Message("assistant", (ToolCall("read", {"turn": turn}, "r0c0", "call_0"),)),
            result("r0c0", f"answer {turn}"),
            Message.assistant(f"done {turn}"),
        ]
        for turn in range(3)
    ]

    body, _ = bodies(*(message for turn in turns for message in turn))
    blocks = [block for message in body["messages"] for block in message["content"]]
    answers = {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}
    assert [(b["input"]["turn"], answers[b["id"]]) for b in blocks if b["type"] == "tool_use"] == [
        (0, "answer 0"),
        (1, "answer 1"),
        (2, "answer 2"),
    ]


@pytest.mark.parametrize("raw", ["", "  ", "{}", None])
def test_arg_03_all_ways_of_passing_no_arguments(raw: str | None) -> None:
    assert chat_calls(fragment(raw, id="a", name="now", index=0)) == [("now", {})]
    function = {"name": "now", **({} if raw is None else {"arguments": raw})}
    message = {"tool_calls": [{"id": "a", "function": function}]}
    whole = chat_decoder().whole(
        json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    )
    assert [(c.name, c.arguments, c.problem) for c in whole.content if isinstance(c, ToolCall)] == [("now", {}, None)]

    deltas = [] if raw is None else [{"type": "input_json_delta", "partial_json": raw}]
    block = {"type": "tool_use", "id": "a", "name": "now", "input": {}, "deltas": deltas}
    reply = decode(claude_decoder(), sse(*claude_events(block, stop="tool_use"), named=True))[-1]
    assert reply == Reply((ToolCall("now", id="a"),), "tool_use")


@pytest.mark.parametrize(
    ("raw", "stop", "problem"),
    [
        ('{"p": "a', "max_tokens", "incomplete"),
        ('{"p": "a', "tool_use", "malformed"),
        ("[1]", "tool_use", "not_an_object"),
        ('"text"', "tool_use", "not_an_object"),
    ],
)
def test_arg_05_a_broken_call_does_not_poison_the_next_request(raw: str, stop: str, problem: str) -> None:
    block = {
        "type": "tool_use",
        "id": "a",
        "name": "read",
        "input": {},
        "deltas": [{"type": "input_json_delta", "partial_json": raw}],
    }
    reply = decode(claude_decoder(), sse(*claude_events(block, stop=stop), named=True))[-1]
    assert isinstance(reply, Reply)
    (call,) = reply.content
    assert isinstance(call, ToolCall)
    assert (call.arguments, call.raw, call.problem) == ({}, raw, problem)

    body, chat = bodies(Message.user("hi"), Message("assistant", (call.replace(key="r0c0"),)), result("r0c0"))
    assert body["messages"][1]["content"][0]["input"] == {}
    assert chat["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_call_that_was_cut_before_its_arguments_is_incomplete() -> None:
    events = claude_events({"type": "tool_use", "id": "a", "name": "wipe", "input": {}}, stop="max_tokens")
    reply = decode(claude_decoder(), sse(*(e for e in events if e["type"] != "content_block_stop"), named=True))[-1]

    assert isinstance(reply, Reply)
    assert [call.problem for call in reply.content if isinstance(call, ToolCall)] == ["incomplete"]


def test_str_10_big_lines_and_long_sessions() -> None:
    """There is no transport of lines here; the splitter of events is where a big line comes in pieces."""
    from sapwood.llm.sse import SseSplitter

    splitter = SseSplitter()
    big = b"data: " + b"x" * 3_000_000 + b"\n\n"
    found = [event for at in range(0, len(big), 65_536) for event in splitter.feed(big[at : at + 65_536])]
    assert [len(data) for _, data in found] == [3_000_000]
    many = [len(data) for _ in range(500) for _, data in splitter.feed(b"data: " + b"y" * 100_000 + b"\n\n")]
    assert many == [100_000] * 500
    assert splitter.feed(b"data: after\n\n") == [(b"", b"after")]
