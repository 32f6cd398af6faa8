"""Ollama's own endpoint: requests, replies, errors, and prompts that a server has cut."""

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core.errors import ContextOverflowError, LLMError, ModelNotFoundError, ServerError
from sapwood.core.messages import File, Image, Message, Part, Recalled, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk, ThinkingChunk
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.failures import error_of
from sapwood.llm.ollama import OllamaCodec, OllamaProvider
from sapwood.llm.ollama.decode import OllamaDecoder, Sent, was_cut
from sapwood.llm.ollama.encode import encode_body
from sapwood.llm.options import ModelOptions
from sapwood.llm.registry import create_provider
from sapwood.testing.strict import check_ollama_body
from support.replay_server import ReplayServer

PROFILE = ModelProfile("ollama", "qwen3", context_window=8192)
THOUGHT = {"ollama": {"field": "thinking"}}


def body_of(
    *messages: Message, profile: ModelProfile = PROFILE, options: ModelOptions | None = None, **request: Any
) -> dict[str, Any]:
    asked = ModelRequest(Transcript.of(messages), **request)
    body: dict[str, Any] = json.loads(encode_body(asked, profile, options or ModelOptions()))
    check_ollama_body(body)
    return body


# ---------------------------------------------------------------- requests

RECORDED = exchanges(SMALL, "ollama.chat") or exchanges(whole_set(), "ollama.chat")


@pytest.mark.parametrize("exchange", [pytest.param(item, id=item.name) for item in RECORDED])
def test_a_recorded_request_is_written_again(exchange: Exchange) -> None:
    """`tool_name` is ours: older servers do without. Empty fields and `stream` may differ."""
    body: dict[str, Any] = exchange.request["body"]
    messages: list[Message] = []
    for message in body["messages"]:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        parts: list[Part] = [ToolCall(call["name"], call["arguments"], "k") for call in calls]
        if message["role"] == "tool":
            messages.append(Message("tool", (ToolResult("k", "", (Text(message["content"]),)),)))
        else:
            messages.append(Message(message["role"], (Text(message["content"]), *parts)))
    written = body_of(*messages, profile=ModelProfile("ollama", body["model"]))

    for message in written["messages"]:
        message.pop("tool_name", None)
    assert (written["model"], written["messages"]) == (body["model"], body["messages"])


def test_settings_stand_where_ollama_reads_them() -> None:
    options = ModelOptions(
        temperature=0.0,
        top_p=0.9,
        top_k=40,
        stop=("END",),
        seed=7,
        thinking="high",
        extra_body={"options": {"num_gpu": 1, "seed": None}, "keep_alive": "5m", "shift": None},
    )
    body = body_of(
        Message.user("hi"),
        options=options,
        system=("be brief", " ", "and kind"),
        max_tokens=9_000,
        profile=PROFILE.replace(max_output_tokens=100),
        tools=(ToolSchema("notes.list", "lists"),),
        tool_choice="any",
        output_schema={"type": "object"},
        notice="last round",
    )

    assert body == {
        "model": "qwen3",
        "stream": True,
        "truncate": False,
        "options": {
            "temperature": 0.0,
            "top_p": 0.9,
            "top_k": 40,
            "stop": ["END"],
            "num_predict": 100,
            "num_ctx": 8192,
            "num_gpu": 1,
        },
        "think": "high",
        "format": {"type": "object"},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "notes_list",
                    "description": "lists",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "keep_alive": "5m",
        "messages": [
            {"role": "system", "content": "be brief\n\nand kind"},
            {"role": "user", "content": "hi\n\nlast round"},
        ],
    }


def test_nothing_is_said_of_what_is_not_known() -> None:
    body = body_of(Message.user("hi"), profile=ModelProfile("ollama", "qwen3"))

    assert set(body) == {"model", "stream", "truncate", "shift", "messages"}


@pytest.mark.parametrize(("thinking", "written"), [(True, True), (False, False), (0, False), (9, True), ("low", "low")])
def test_thinking_is_on_or_off_or_a_level(thinking: Any, written: Any) -> None:
    assert body_of(Message.user("hi"), options=ModelOptions(thinking=thinking))["think"] == written


def test_a_model_that_must_not_call_gets_no_tools() -> None:
    assert "tools" not in body_of(Message.user("hi"), tools=(ToolSchema("a"),), tool_choice="none")


def test_calls_results_and_thinking_in_the_middle_of_a_round() -> None:
    calls = (ToolCall("notes.list", {"n": 1}, "k0"), ToolCall("b", {"x": 1}, "k1", problem="malformed"))
    results = (
        ToolResult("k0", "notes.list", (Text("one"), Image("aGk="), Image(url="http://x"))),
        ToolResult("k1", "b", (Text(" "),), is_error=True),
    )
    history = [
        Message("user", (Text("hi"), Recalled("known"))),
        Message("assistant", (Thinking("hm", THOUGHT), Text("so"), *calls), PROFILE.origin),
        Message("tool", results),
        Message("assistant", (Thinking("done thinking", THOUGHT), Text("done")), PROFILE.origin),
        Message.user("more"),
    ]

    said = body_of(*history)["messages"]
    assert said == [
        {"role": "user", "content": "known\n\nhi"},
        {
            "role": "assistant",
            "content": "so",
            "thinking": "hm",
            "tool_calls": [
                {"function": {"name": "notes_list", "arguments": {"n": 1}}},
                {"function": {"name": "b", "arguments": {}}},
            ],
        },
        {
            "role": "tool",
            "tool_name": "notes_list",
            "content": "one\n[An image is left out: this server takes no addresses.]",
        },
        {"role": "tool", "tool_name": "b", "content": "(no output)"},
        {"role": "user", "content": "From the result of notes_list:", "images": ["aGk="]},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "more"},
    ]
    assert "thinking" not in json.dumps(body_of(*history, profile=PROFILE.replace(model="other")))


def test_pictures_go_as_bytes_and_files_do_not() -> None:
    user = Message.user("look", Image("aGk="), File("aGk=", name="a.pdf"))

    assert body_of(user)["messages"] == [
        {"role": "user", "content": "look\n\n[a.pdf is left out: this server takes no files.]", "images": ["aGk="]}
    ]
    blind = body_of(user, profile=PROFILE.replace(images=False))["messages"]
    assert "images" not in blind[0]
    assert "reads no images" in blind[0]["content"]


@pytest.mark.parametrize("base_url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1/api"])
def test_an_address_of_either_endpoint_will_do(base_url: str) -> None:
    request = ModelRequest(Transcript.of([Message.user("hi")]))
    call = OllamaCodec().encode(request, PROFILE, base_url=base_url, api_key="k")

    assert call.url == "http://h:1/api/chat"
    assert call.headers["authorization"] == "Bearer k"
    assert isinstance(create_provider("ollama/qwen3"), OllamaProvider)


# ---------------------------------------------------------------- replies

DONE = {"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def line(**message: Any) -> dict[str, Any]:
    return {"model": "qwen3", "message": {"role": "assistant", "content": "", **message}, "done": False}


def decode(*lines: Any) -> list[StreamChunk]:
    decoder, chunks = OllamaCodec().decoder(PROFILE), list[StreamChunk]()
    for item in lines:
        chunks += decoder.feed(b"", json.dumps(item).encode())
    return [*chunks, decoder.finish()]


def test_a_reply_of_thinking_text_and_calls() -> None:
    call = {"function": {"name": "read", "arguments": {"n": 1}}}
    found = decode(
        line(thinking="h"),
        line(thinking="m"),
        line(content="a"),
        line(content="b"),
        line(tool_calls=[call, {"id": "c9", "function": {"name": "list", "arguments": "{"}}]),
        {**DONE, "prompt_eval_count": 10, "eval_count": 5},
    )

    assert found == [
        ThinkingChunk("h"),
        ThinkingChunk("m"),
        TextChunk("a"),
        TextChunk("b"),
        Reply(
            (
                Thinking("hm", THOUGHT),
                Text("ab"),
                ToolCall("read", {"n": 1}, id="call_0"),
                ToolCall("list", id="c9", raw="{", problem="malformed"),
            ),
            "tool_use",
            Usage(10, 5),
            "qwen3",
        ),
    ]


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "stop"), ("length", "max_tokens"), ("load", "stop"), ("unload", "stop"), ("", "stop")]
)
def test_reasons(reason: str, stop: str) -> None:
    reply = decode(line(content="a"), {**DONE, "done_reason": reason})[-1]

    assert isinstance(reply, Reply)
    assert (reply.stop_reason, reply.usage) == (stop, None)


def test_a_prompt_from_the_cache_is_not_counted_twice() -> None:
    usage = {"prompt_eval_count": 40, "prompt_eval_cached_count": 32, "eval_count": 5}
    reply = decode({**DONE, **usage})[-1]

    assert isinstance(reply, Reply)
    assert reply.usage == Usage(8, 5, cache_read_tokens=32)
    assert reply.usage.total_tokens == 45


def test_a_stream_without_its_end_is_no_reply() -> None:
    with pytest.raises(ServerError, match="ended early"):
        decode(line(content="a"))
    with pytest.raises(ServerError, match="cannot be read"):
        OllamaCodec().decoder(PROFILE).feed(b"", b'{"mess')
    with pytest.raises(ServerError, match="no message"):
        OllamaCodec().decoder(PROFILE).whole(b"{}")


def test_lines_may_come_without_saying_so() -> None:
    lines = [line(content="a"), line(content="b"), DONE]
    body = b"\n".join(json.dumps(item).encode() for item in lines)

    assert OllamaCodec().decoder(PROFILE).whole(body) == decode(*lines)[-1]


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, 'model "qwen9" not found, try pulling it first', ModelNotFoundError),
        (400, "prompt too long; exceeded max context length by 10 tokens", ContextOverflowError),
        (
            400,
            "the prompt is longer than the context length currently available to the model; shorten the prompt",
            ContextOverflowError,
        ),
        (400, "the input length exceeds the context length", ContextOverflowError),
        (400, '"llama2" does not support tools', LLMError),
        (500, "llama runner process has terminated", ServerError),
    ],
)
def test_errors_by_status(status: int, message: str, kind: type) -> None:
    assert type(error_of(json.dumps({"error": message}).encode(), status=status)) is kind


def test_an_error_in_the_middle_is_the_servers_unless_the_prompt_was_too_long() -> None:
    with pytest.raises(ServerError, match="unexpected EOF") as caught:
        decode(line(content="a"), {"error": "an error was encountered: unexpected EOF"})
    assert caught.value.is_transient
    with pytest.raises(ContextOverflowError):
        decode({"error": "prompt too long; exceeded max context length"})


# ---------------------------------------------------------------- prompts that were cut


@pytest.mark.parametrize(
    ("text_bytes", "window", "evaluated", "expected"),
    [
        (30_000, 0, 2_050, True),  # half of 4,096, with what is kept from the front
        (30_000, 0, 4_096, True),  # all of it
        (30_000, 0, 4_090, True),
        (200_000, 32_768, 16_387, True),
        (80_000, 0, 3_600, True),  # whole messages were dropped
        (30_000, 0, 7_500, False),  # four bytes to a token
        (30_000, 0, 5_000, False),  # six
        (60_000, 0, 9_000, False),  # Chinese, or code with much white space
        (200_000, 0, 300, False),  # an older version that leaves out what it had in memory
        (200_000, 0, 0, False),  # or all of it
        (2_000, 0, 500, False),
        (0, 0, 4_096, False),  # pictures: the size tells nothing
        (70_000, 65_536, 16_000, False),  # not near half of what it was told
        (12_000, 2_048, 2_048, False),  # it may just have fitted
    ],
)
def test_a_cut_is_told_from_figures(text_bytes: int, window: int, evaluated: int, expected: bool) -> None:
    assert was_cut(Sent(text_bytes, window), evaluated) is expected


@given(st.integers(100, 300_000), st.floats(1.2, 5.4), st.sampled_from([0, 4_096, 131_072]))
def test_a_prompt_that_was_read_whole_is_never_taken_for_cut(tokens: int, bytes_a_token: float, window: int) -> None:
    assert not was_cut(Sent(int(tokens * bytes_a_token) + 400, window), tokens)


@given(st.integers(4_200, 200_000), st.floats(4.0, 5.4))
def test_a_prompt_of_which_half_a_small_window_was_read_is_found(tokens: int, bytes_a_token: float) -> None:
    assert was_cut(Sent(int(tokens * bytes_a_token)), 2_050)


def answer(evaluated: int) -> dict[str, Any]:
    lines = [line(content="hm"), {**DONE, "prompt_eval_count": evaluated, "eval_count": 1}]
    text = "".join(json.dumps(item) + "\n" for item in lines)
    response = {"status": 200, "headers": {"content-type": "application/x-ndjson"}, "text": text}
    exchange = {"request": {"method": "POST", "path": "/api/chat"}, "response": response}
    return {"id": "x", "api": "ollama.chat", "exchanges": [exchange]}


def test_a_cut_is_logged_once_for_each_provider(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "sapwood.llm")
    long = ModelRequest(Transcript.of([Message.user("a secret of many words. " * 2_000)]))
    short = ModelRequest(Transcript.of([Message.user("hi")]))

    async def ask(provider: OllamaProvider) -> None:
        async for _ in provider.stream(long):
            pass

    with ReplayServer(answer(2_050), on_exhausted="repeat") as server:
        provider = OllamaProvider("qwen3", base_url=server.url)
        list(provider.stream(short))
        assert caplog.records == []
        list(provider.stream(long))
        asyncio.run(ask(provider))
        assert len(caplog.records) == 1
        asyncio.run(ask(OllamaProvider("qwen3", base_url=server.url)))
        assert len(caplog.records) == 2
    text = caplog.records[0].getMessage()
    assert "ollama/qwen3 has read only 2050 tokens" in text
    assert "secret" not in text


def test_a_decoder_alone_tells_no_one() -> None:
    decoder = OllamaDecoder(PROFILE, sent=Sent(100_000))
    decoder.feed(b"", json.dumps({**DONE, "prompt_eval_count": 2_050}).encode())

    assert decoder.finish().usage == Usage(2_050)


def test_pictures_in_a_body_are_no_measure_of_it() -> None:
    request = ModelRequest(Transcript.of([Message.user("look", Image("aGk="))]))
    codec = OllamaCodec(ModelOptions(extra_body={"options": {"num_ctx": 512}}))
    call = codec.encode(request, PROFILE, base_url="http://h", api_key=None)

    assert codec.sent(call, PROFILE) == Sent(0, 512)
    drawn = body_of(Message.user("draw"), Message("assistant", (Image("aGk="),)), Message.user("more"))
    assert drawn["messages"][1] == {"role": "assistant", "content": "", "images": ["aGk="]}
