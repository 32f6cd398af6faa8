"""What providers were seen to do beside the plain path: what was told beside the blocks, gateways, odd chunks."""

import json
from typing import Any

import pytest

from sapwood import Agent, ConfigError, ProviderNotInstalledError, create_provider
from sapwood.core.errors import AuthenticationError, LLMError, RateLimitError, ServerError
from sapwood.core.messages import Message, Opaque, Text, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, Reply, RestartChunk, StreamChunk, TextChunk
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.codec import Codec, Decoder
from sapwood.llm.failures import error_of
from sapwood.llm.openai import ChatCodec
from sapwood.llm.openai.responses import ResponsesCodec
from sapwood.llm.options import ModelOptions
from sapwood.llm.pricing import MODEL_PRICING, cost_of
from sapwood.llm.profiles import profile_of
from support.replay_server import ReplayServer

CLAUDE = profile_of("anthropic", "claude-sonnet-4-5")
BOX = {"id": "container_1", "expires_at": "2026-05-08T20:54:01Z"}


def read(decoder: Decoder, *events: dict[str, Any]) -> list[StreamChunk]:
    """The chunks of these events and the reply."""
    chunks: list[StreamChunk] = []
    for event in events:
        chunks += decoder.feed(str(event.get("type", "")).encode(), json.dumps(event).encode())
    return [*chunks, decoder.finish()]


def start(id: str = "msg_1", model: str = "claude-sonnet-4-5", **more: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": id, "model": model, "usage": {"input_tokens": 9}, **more}}


def text(words: str, index: int = 0) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str = "end_turn", usage: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, **more}
    return [{"type": "message_delta", "delta": delta, "usage": usage or {"output_tokens": 3}}, {"type": "message_stop"}]


def body_of(codec: Codec, request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    call = codec.encode(request, profile, base_url="http://host", api_key=None)
    found: dict[str, Any] = json.loads(call.body)
    return found


def paused(*after: Message) -> ModelRequest:
    reply = read(AnthropicCodec().decoder(CLAUDE), start(), *text("Wait."), *end("pause_turn", container=BOX))[-1]
    assert isinstance(reply, Reply)
    said = Message("assistant", reply.content, CLAUDE.origin)
    return ModelRequest(Transcript.of([Message.user("Run it."), said, *after]))


def test_a_reply_that_waits_in_a_container_goes_on_in_it_by_its_bare_id() -> None:
    body = body_of(AnthropicCodec(), paused(), CLAUDE)
    assert body["container"] == "container_1"
    assert [block["type"] for block in body["messages"][-1]["content"]] == ["text"]


def test_the_results_of_tools_go_into_the_container_and_a_later_turn_names_none() -> None:
    call = ToolCall("add", key="k", id="toolu_1")
    said = Message("assistant", (call, Opaque("container", {"anthropic": BOX})), CLAUDE.origin)
    result = Message("tool", (ToolResult("k", "add", (Text("3"),)),))
    history = [Message.user("Add."), said, result]
    assert body_of(AnthropicCodec(), ModelRequest(Transcript.of(history)), CLAUDE)["container"] == "container_1"
    later = ModelRequest(Transcript.of([*history, Message.user("And now?")]))
    assert "container" not in body_of(AnthropicCodec(), later, CLAUDE)
    assert "container" not in body_of(AnthropicCodec(), paused(Message.user("And now?")), CLAUDE)


@pytest.mark.parametrize(
    ("given", "sent"),
    [({"skills": []}, "container_1"), ("container_2", "container_2"), (None, None)],
)
def test_a_container_of_ones_own_stands_unless_it_is_an_object(given: Any, sent: str | None) -> None:
    codec = AnthropicCodec(ModelOptions(extra_body={"container": given}))
    assert body_of(codec, paused(), CLAUDE).get("container") == sent


def test_why_a_request_was_refused_is_kept_and_never_sent() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "No."}
    reply = read(AnthropicCodec().decoder(CLAUDE), start(), *end("refusal", stop_details=why))[-1]
    assert isinstance(reply, Reply)
    assert (reply.stop_reason, reply.content) == ("refusal", (Opaque("stop_details", {"anthropic": why}),))
    request = ModelRequest(Transcript.of([Message.user("Hi"), Message("assistant", reply.content, CLAUDE.origin)]))
    assert [message["role"] for message in body_of(AnthropicCodec(), request, CLAUDE)["messages"]] == ["user"]


def test_a_message_that_a_gateway_starts_again_voids_what_was_shown() -> None:
    decoder = AnthropicCodec().decoder(CLAUDE)
    chunks = read(decoder, start("msg_1"), *text("Hel")[:2], start("msg_2"), *text("Hello"), *end())
    kinds = [chunk for chunk in chunks if isinstance(chunk, TextChunk | RestartChunk)]
    assert [chunk.type for chunk in kinds] == ["text_chunk", "restart_chunk", "text_chunk"]
    assert isinstance(chunks[-1], Reply)
    assert chunks[-1].content == (Text("Hello"),)
    repeated = read(AnthropicCodec().decoder(CLAUDE), start("msg_1"), start("msg_1"), *text("Hello"), *end())
    assert not any(isinstance(chunk, RestartChunk) for chunk in repeated)


def test_a_turn_over_such_a_gateway_keeps_the_second_message_alone() -> None:
    events = [start("msg_1"), *text("Hel")[:2], start("msg_2"), *text("Hello"), *end()]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    response = {"status": 200, "headers": {"content-type": "text/event-stream"}, "text": stream}
    request = {"method": "POST", "path": "/v1/messages", "body": {"stream": True}}
    document = {"id": "g", "api": "anthropic.messages", "exchanges": [{"request": request, "response": response}]}
    with ReplayServer(document) as server:
        agent = Agent("anthropic/claude-sonnet-4-5", base_url=server.url)
        kinds = [event.type for event in agent.stream("Hi")]
        assert kinds.count("round_restarted") == 1
        assert agent.last_messages[-1].text == "Hello"


def test_each_model_that_answered_is_priced_as_itself() -> None:
    rows = [
        {"type": "message", "model": "claude-fable-5", "input_tokens": 1_000_000, "output_tokens": 0},
        {"type": "fallback_message", "model": "claude-opus-4-8", "input_tokens": 1_000_000, "output_tokens": 0},
    ]
    moved = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-4-8"}}
    block = {"type": "content_block_start", "index": 0, "content_block": moved}
    stop = {"type": "content_block_stop", "index": 0}
    events = [start(model="claude-fable-5"), block, stop, *text("Yes.", 1), *end(usage={"iterations": rows})]
    profile = profile_of("anthropic", "claude-fable-5")
    reply = read(AnthropicCodec().decoder(profile), *events)[-1]
    assert isinstance(reply, Reply)
    assert reply.usage is not None
    prices = [MODEL_PRICING[f"anthropic/{name}"].input for name in ("claude-fable-5", "claude-opus-4-8")]
    assert prices[0] != prices[1]
    assert reply.usage.cost_usd == pytest.approx(sum(prices))
    assert (reply.model, reply.content[0]) == ("claude-opus-4-8", Opaque("fallback", {"anthropic": moved}))


def test_where_one_of_the_models_has_no_price_nothing_is_added_up() -> None:
    rows = [{"model": "claude-of-tomorrow", "input_tokens": 5}, {"input_tokens": 5}]
    reply = read(AnthropicCodec().decoder(CLAUDE), start(), *text("Yes."), *end(usage={"iterations": rows}))[-1]
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(prompt_tokens=10)


@pytest.mark.parametrize(("asked", "cap", "sent"), [(True, 6_000, 10_096), (True, 1_024, 5_120), (2_000, 2_000, 4_000)])
def test_a_budget_for_thinking_leaves_the_reply_its_room(asked: bool | int, cap: int, sent: int) -> None:
    request = ModelRequest(Transcript.of([Message.user("Hi")]), max_tokens=cap)
    body = body_of(AnthropicCodec(ModelOptions(thinking=asked)), request, CLAUDE)
    assert body["max_tokens"] == sent
    assert body["thinking"]["budget_tokens"] < sent


@pytest.mark.parametrize(
    ("codec", "profile"),
    [
        (AnthropicCodec, CLAUDE),
        (ChatCodec, profile_of("groq", "openai/gpt-oss-120b")),
        (ResponsesCodec, profile_of("openai", "gpt-5")),
    ],
)
def test_tools_of_the_provider_are_offered_beside_ours(codec: Any, profile: ModelProfile) -> None:
    own = ToolSchema("menu", "The dishes.", {"type": "object", "properties": {}})
    options = ModelOptions(extra_body={"tools": [{"type": "web_search"}]})
    transcript = Transcript.of([Message.user("Hi")])
    both = body_of(codec(options), ModelRequest(transcript, tools=(own,)), profile)["tools"]
    assert [bool("menu" in json.dumps(tool)) for tool in both] == [True, False]
    assert body_of(codec(options), ModelRequest(transcript), profile)["tools"] == [{"type": "web_search"}]
    none = codec(ModelOptions(extra_body={"tools": None}))
    assert "tools" not in body_of(none, ModelRequest(transcript, tools=(own,)), profile)
    empty = codec(ModelOptions(extra_body={"tools": []}))
    assert body_of(empty, ModelRequest(transcript, tools=(own,)), profile)["tools"] == []


def chat(*chunks: dict[str, Any]) -> Reply:
    decoder = ChatCodec().decoder(profile_of("openai", "gpt-4o"))
    for chunk in chunks:
        decoder.feed(b"", json.dumps(chunk).encode())
    return decoder.finish()


def choice(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize(
    "before",
    [
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"choices": None},
        {"choices": [{"index": 0, "delta": {"content": ""}, "content_filter_results": {}}], "obfuscation": "xY"},
        {**choice(tool_calls=None), "p": "abcd", "obfuscation": "q"},
    ],
)
def test_chunks_without_news_do_no_harm(before: dict[str, Any]) -> None:
    reply = chat(before, {**choice(content="Hi"), "obfuscation": "aB3"}, choice("stop"))
    assert reply.content == (Text("Hi"),)


def test_groq_tells_its_usage_in_a_field_of_its_own_and_xai_its_cost_in_ticks() -> None:
    used = {"prompt_tokens": 3, "completion_tokens": 1}
    assert chat(choice(content="Hi"), {**choice("stop"), "x_groq": {"usage": used}}).usage == Usage(3, 1)
    billed = chat(choice("stop", content="Hi"), {"choices": [], "usage": {**used, "cost_in_usd_ticks": 1_721_250}})
    assert billed.usage is not None
    assert cost_of(billed.usage, "xai", "grok-3-mini") == pytest.approx(0.000172125)


def test_what_perplexity_bills_counts_its_search_too() -> None:
    parts = {"input_tokens_cost": 0.00001, "request_cost": 0.005, "total_cost": 0.00501}
    reply = chat(choice("stop", content="Hi"), {"choices": [], "usage": {"prompt_tokens": 8, "cost": parts}})
    assert reply.usage == Usage(prompt_tokens=8, cost_usd=0.00501)


ERRORS: list[tuple[int, dict[str, Any], type[LLMError], str]] = [
    (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xx."},
     AuthenticationError, "Incorrect API key"),
    (401, {"detail": "Unauthorized"}, AuthenticationError, "Unauthorized"),
    (429, {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "try again shortly"}}},
     RateLimitError, "Provider returned error: try again shortly"),
    (400, {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}, ServerError, "Failed"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "words"), ERRORS)
def test_servers_refuse_in_words_of_their_own(
    status: int, body: dict[str, Any], kind: type[LLMError], words: str
) -> None:
    error = error_of(json.dumps(body).encode(), status=status)
    assert type(error) is kind
    assert words in error.message


def test_a_wait_that_comes_with_an_answer_is_not_waited_for() -> None:
    body = b'{"error": {"message": "broken", "type": "server_error"}}'
    error = error_of(body, status=200, headers={"retry-after": "50"})
    assert isinstance(error, ServerError)
    assert error.retry_after_seconds is None


@pytest.mark.parametrize(
    ("model", "options", "left_out"),
    [
        ("openai-chat/gpt-4o", {"top_k": 5, "seed": 1}, "top_k"),
        ("anthropic/claude-sonnet-4-5", {"seed": 1, "betas": ["b"]}, "seed"),
        ("gemini/gemini-2.5-pro", {"top_k": 5, "seed": 1, "betas": ["b"]}, "betas"),
        ("openai/gpt-4o", {"stop": "END", "temperature": 0.5}, "stop"),
    ],
)
def test_what_a_protocol_has_no_place_for_is_told(
    model: str, options: dict[str, Any], left_out: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_provider(model, **options)
    (record,) = caplog.records
    assert f"does not take {left_out} over" in record.getMessage()


@pytest.mark.parametrize("name", ["ollama-chat/qwen3", "gemini-chat/gemini-2.5-pro", "anthropic-responses/x"])
def test_a_server_is_not_asked_in_a_protocol_that_its_address_does_not_speak(name: str) -> None:
    with pytest.raises(ProviderNotInstalledError):
        create_provider(name)
    assert create_provider(name, base_url="http://127.0.0.1:11434/v1").profile.model == name.partition("/")[2]


def test_the_transcript_cannot_be_replaced() -> None:
    with pytest.raises(ConfigError):
        body_of(ChatCodec(ModelOptions(extra_body={"messages": []})), paused(), CLAUDE)
