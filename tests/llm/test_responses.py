"""Responses: streams that no recording has, what is asked once more, and endpoints that count tokens."""

import asyncio
import json
import logging
from typing import Any

import pytest
from wire_files import SMALL, exchanges, whole_set

from sapwood import Agent, tool
from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    LLMError,
    LLMTimeoutError,
    RateLimitError,
    ServerError,
)
from sapwood.core.messages import Message, Opaque, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    ModelRequest,
    Reply,
    ServerCallChunk,
    ServerResultChunk,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
)
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider, ResponsesCodec
from sapwood.llm.openai.responses_decode import ResponsesDecoder
from sapwood.testing.strict import check_responses_body
from support.serving import Serve

GPT = ModelProfile("openai", "gpt-5", encrypted_thinking=True, thinking="effort")
Event = dict[str, Any]


def feed(decoder: ResponsesDecoder, *events: Event, named: bool = True) -> list[StreamChunk]:
    chunks: list[StreamChunk] = []
    for event in events:
        name = f"response.{event['type']}" if event["type"] != "error" else "error"
        data = json.dumps({**event, "type": name}).encode()
        chunks += decoder.feed(name.encode() if named else b"", data)
    return chunks


def stream(*events: Event, named: bool = True) -> list[StreamChunk]:
    decoder = ResponsesDecoder(GPT)
    return [*feed(decoder, *events, named=named), decoder.finish()]


def item(place: int, kind: str, **fields: Any) -> Event:
    return {"type": "output_item.done", "output_index": place, "item": {"type": kind, **fields}}


def added(place: int, kind: str, **fields: Any) -> Event:
    return {**item(place, kind, **fields), "type": "output_item.added"}


def delta(kind: str, place: int, text: str, **more: Any) -> Event:
    return {"type": f"{kind}.delta", "output_index": place, "delta": text, **more}


def message(place: int, *texts: str, **more: Any) -> Event:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": [1]} for text in texts]
    return item(place, "message", role="assistant", content=content, **more)


def completed(*output: Any, status: str = "completed", **more: Any) -> Event:
    return {"type": status, "response": {"status": status, "model": "gpt-5-1", "output": list(output), **more}}


SUMMARY = [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}]
REASONING: dict[str, Any] = {"id": "rs", "summary": SUMMARY, "encrypted_content": "gA"}


@pytest.mark.parametrize("named", [True, False])
def test_parts_of_a_summary_are_set_off_in_what_streams_and_in_what_is_stored(named: bool) -> None:
    chunks = stream(
        added(0, "reasoning"),
        delta("reasoning_summary_text", 0, "First", summary_index=0),
        delta("reasoning_summary_text", 0, ".", summary_index=0),
        delta("reasoning_summary_text", 0, "", summary_index=1),
        delta("reasoning_summary_text", 0, "Then.", summary_index=1),
        item(0, "reasoning", **REASONING),
        message(1, "ok"),
        completed(),
        named=named,
    )

    assert chunks == [
        ThinkingChunk("First"),
        ThinkingChunk("."),
        ThinkingChunk("\n\nThen."),
        TextChunk("ok"),
        Reply(
            (Thinking("First.\n\nThen.", {"openai": {"type": "reasoning", **REASONING}}), Text("ok")),
            "stop",
            None,
            "gpt-5-1",
        ),
    ]


def test_what_was_not_streamed_follows_when_the_item_ends() -> None:
    chunks = stream(
        added(0, "reasoning"),
        item(0, "reasoning", **REASONING),
        delta("output_text", 1, "Hel"),
        message(1, "Hello", " you", phase="final_answer"),
        completed(),
    )

    assert chunks[:-1] == [ThinkingChunk("First.\n\nThen."), TextChunk("Hel"), TextChunk("lo you")]
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert reply.content[1:] == (
        Text("Hello", {"openai": {"phase": "final_answer"}}),
        Text(" you", {"openai": {"phase": "final_answer", "continues": True}}),
    )


def test_items_that_never_ended_are_taken_from_the_final_response() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}', "status": "completed"}
    chunks = stream(added(0, "message"), delta("output_text", 0, "Hi"), completed(message(0, "Hi!")["item"], call))

    assert chunks[:-1] == [TextChunk("Hi"), TextChunk("!"), ToolDeltaChunk(0, "add", '{"a": 1}')]
    assert chunks[-1] == Reply((Text("Hi!"), ToolCall("add", {"a": 1}, id="c")), "tool_use", None, "gpt-5-1")


def test_a_server_that_counts_from_one_gives_each_item_once() -> None:
    chunks = stream(message(1, "a"), message(2, "b"), completed(message(0, "a")["item"], message(0, "b")["item"]))

    assert chunks[-1] == Reply((Text("a"), Text("b")), "stop", None, "gpt-5-1")


def test_a_gateway_that_ends_nothing_loses_no_text() -> None:
    chunks = stream(
        delta("output_text", 0, "Hi"),
        added(1, "function_call", name="add", call_id="c", arguments=""),
        {"type": "function_call_arguments.done", "output_index": 1, "arguments": '{"a": 1}'},
        added(2, "web_search_call", id="ws"),
        completed(),
    )

    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert reply.content == (Text("Hi"), ToolCall("add", {"a": 1}, id="c"))


@pytest.mark.parametrize(("arguments", "problem"), [('{"a', "incomplete"), ("", "incomplete"), ('{"a": 1}', None)])
def test_a_call_that_was_cut_off_is_marked(arguments: str, problem: str | None) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": arguments, "status": "incomplete"}
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    reply = stream(added(0, "function_call"), completed(call, status="incomplete", **details))[-1]

    assert isinstance(reply, Reply)
    assert reply.stop_reason == "max_tokens"
    assert reply.content[0].problem == problem  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "content_filter"), ("of the future", "max_tokens")],
)
def test_an_incomplete_reply_says_why(reason: str, stop: str) -> None:
    end = completed(status="incomplete", incomplete_details={"reason": reason})
    reply = stream(message(0, "Hal"), item(1, "web_search_call", status="searching"), end)[-1]

    assert reply == Reply((Text("Hal"),), stop, None, "gpt-5-1")  # type: ignore[arg-type]


def test_a_refusal_is_said_and_named() -> None:
    block = {"type": "refusal", "refusal": "I cannot."}
    chunks = stream(
        added(0, "message"),
        delta("refusal", 0, "I can"),
        delta("refusal", 0, "not."),
        item(0, "message", content=[block]),
        completed(),
    )

    assert chunks[:-1] == [TextChunk("I can"), TextChunk("not.")]
    assert chunks[-1] == Reply((Text("I cannot.", {"openai": {"refusal": True}}),), "refusal", None, "gpt-5-1")


def test_a_stream_without_its_last_event_is_no_reply() -> None:
    with pytest.raises(ServerError, match="ended early"):
        stream(message(0, "Hi"))


FLAT = {"type": "error", "code": "server_error", "message": "Sorry.", "param": None, "sequence_number": 3}


@pytest.mark.parametrize(
    ("event", "kind", "transient"),
    [
        (FLAT, ServerError, True),
        ({"type": "error", "error": {"type": "server_error", "message": "Sorry."}}, ServerError, True),
        ({**FLAT, "code": "rate_limit_exceeded"}, RateLimitError, True),
        ({**FLAT, "code": "insufficient_quota"}, RateLimitError, False),
        ({**FLAT, "code": "context_length_exceeded"}, ContextOverflowError, False),
        ({**FLAT, "code": None, "message": None}, LLMError, False),
        (completed(status="failed", error={"code": "server_error", "message": "Sorry."}), ServerError, True),
        (completed(status="failed", error={"code": "rate_limit_exceeded", "message": "Slow."}), RateLimitError, True),
        (completed(status="failed", error={"code": "insufficient_quota", "message": "Pay."}), RateLimitError, False),
        (completed(status="failed", error={"code": "bio_policy", "message": "No."}), ContentFilterError, False),
        (completed(status="failed", error={"code": "vector_store_timeout", "message": "?"}), LLMTimeoutError, True),
        (completed(status="failed", error=None), ServerError, True),
        (completed(status="cancelled"), ServerError, False),
    ],
)
def test_failures_in_a_stream_become_errors(event: Event, kind: type, transient: bool) -> None:
    with pytest.raises(LLMError) as caught:
        stream(message(0, "Hi"), event)

    assert type(caught.value) is kind
    assert caught.value.is_transient is transient


def test_a_body_that_is_no_reply_is_an_error() -> None:
    decoder = ResponsesDecoder(GPT)
    for body, kind in [(b"<html>", ServerError), (b"[]", ServerError), (b'{"status":"queued","output":[]}', LLMError)]:
        with pytest.raises(kind):
            decoder.whole(body)
    with pytest.raises(AuthenticationError):
        decoder.whole(b'{"code":"invalid-argument","error":"Incorrect API key provided."}')
    with pytest.raises(ServerError, match="cannot be read"):
        decoder.feed(b"response.output_text.delta", b'{"delta": "')


def test_odd_events_are_passed_over() -> None:
    decoder = ResponsesDecoder(GPT)
    for data in (b"", b"[DONE]", b"[]", b'{"type":"response.of_the_future","item":3}', b'{"type":"keepalive"}'):
        assert decoder.feed(b"", data) == ()
    assert decoder.feed(b"response.output_item.added", b'{"output_index":"x","item":null}') == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        (
            {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            Usage(prompt_tokens=3, cache_read_tokens=4, cache_creation_tokens=2),
        ),
        (
            {"output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 5}, "cost_in_usd_ticks": 5_143_500},
            Usage(completion_tokens=7, thinking_tokens=5, cost_usd=0.00051435),
        ),
        ({"input_tokens": 1, "output_tokens": 2, "total_tokens": 5, "cost": 0.5}, Usage(1, 4, cost_usd=0.5)),
    ],
)
def test_usage_is_told_in_our_terms(usage: Any, expected: Usage | None) -> None:
    reply = stream(completed(usage=usage))[-1]

    assert isinstance(reply, Reply)
    assert reply.usage == expected


def test_the_providers_tools_can_be_watched() -> None:
    patch = {"type": "update_file", "path": "a", "diff": "+b"}
    chunks = stream(
        added(0, "web_search_call", id="ws", status="in_progress"),
        item(0, "web_search_call", id="ws-2", status="completed", action={"query": "q"}),
        added(1, "mcp_call", id="m", name="ask", arguments="", server_label="wiki"),
        {"type": "mcp_call_arguments.done", "output_index": 1, "arguments": '{"q": 1}'},
        item(1, "mcp_call", id="m", name="ask", arguments='{"q": 1}', error={"message": "no"}, output=None),
        item(2, "apply_patch_call", id="p", call_id="c", operation=patch, status="completed"),
        added(3, "tool_search_call", id="t", call_id=None, arguments={"paths": ["a"]}, execution="server"),
        item(3, "tool_search_call", id="t", call_id=None, arguments={"paths": ["a"]}, execution="server"),
        item(4, "tool_search_output", id="o", call_id=None, tools=[1]),
        item(5, "image_generation_call", id="i", status="completed", result="A" * 70_000, revised_prompt="a cat"),
        item(6, "compaction", id="z", encrypted_content="gA"),
        item(7, "thing_of_the_future", id="f"),
        completed(),
    )

    assert chunks[:-1] == [
        ServerCallChunk("ws", "web_search"),
        ServerResultChunk("ws", "web_search", {"action": {"query": "q"}}),
        ServerCallChunk("m", "ask", {"q": 1}),
        ServerResultChunk("m", "ask", {"error": {"message": "no"}}, True),
        ServerCallChunk("c", "apply_patch", patch),
        ServerCallChunk("t", "tool_search", {"paths": ["a"]}),
        ServerResultChunk("t", "tool_search", {"tools": [1]}),
        ServerCallChunk("i", "image_generation"),
        ServerResultChunk(
            "i", "image_generation", {"result": "[70002 bytes are left out here]", "revised_prompt": "a cat"}
        ),
    ]
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    assert reply.stop_reason == "stop"
    parts = [part for part in reply.content if isinstance(part, Opaque)]
    assert [part.kind for part in parts] == [part.provider_data["openai"]["type"] for part in parts]
    assert len(parts) == len(reply.content) == 8
    assert len(parts[5].provider_data["openai"]["result"]) == 70_000
    assert parts[5].text == "[An image was made: a cat]"


SEALED = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}
REFUSED = {"code": "invalid_encrypted_content", "type": "invalid_request_error"}
UNREAD = "The encrypted content gAAA...= could not be verified."
UNSUPPORTED = {"message": "Encrypted content is not supported with this model.", "type": "invalid_request_error"}


def history(*more: Message) -> Transcript:
    return Transcript.of(
        [Message.user("hi"), Message("assistant", (Thinking("", {"openai": SEALED}), Text("ok")), GPT.origin), *more]
    )


def collect(provider: BaseLLMProvider, request: ModelRequest, how: str) -> list[StreamChunk]:
    async def read() -> list[StreamChunk]:
        return [chunk async for chunk in provider.stream(request)]

    return list(provider.stream(request)) if how == "sync" else asyncio.run(read())


def provider_at(url: str) -> OpenAIResponsesProvider:
    return OpenAIResponsesProvider("gpt-5", base_url=url, profile=GPT)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("words", [UNREAD, "no words for it"])
def test_reasoning_that_cannot_be_read_is_left_out_and_asked_again_once(
    serve: Serve, how: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"error": {"message": words, **REFUSED}})
    server = serve("openai-responses-text-stream", fail_first=1, fail_status=[400], fail_body=body)
    request = ModelRequest(history(Message.user("and?")))

    with caplog.at_level(logging.WARNING, "sapwood.llm"):
        chunks = collect(provider_at(server.url), request, how)
    longer = ModelRequest(request.transcript.extend([Message("assistant", (Text("pong"),), GPT.origin)]))
    collect(provider_at(server.url), longer, how)

    assert chunks[-1].type == "reply"
    sent = [[found["type"] for found in asked["body"]["input"]] for asked in server.requests]
    assert sent == [
        ["message", "reasoning", "message", "message"],
        ["message"] * 3,
        ["message"] * 4,  # later requests know
    ]
    assert "include" in server.requests[1]["body"]
    assert [record.getMessage() for record in caplog.records] == [
        "openai/gpt-5 refused a part of the request; it is asked again without that"
    ]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_what_is_refused_again_is_raised(serve: Serve, how: str) -> None:
    body = json.dumps({"error": {"message": UNREAD, **REFUSED}})
    server = serve("openai-responses-text-stream", fail_first=5, fail_status=[400], fail_body=body)
    provider, transcript = provider_at(server.url), history(Message.user("and?"))

    for count in (2, 3):
        with pytest.raises(LLMError, match="could not be verified") as caught:
            collect(provider, ModelRequest(transcript), how)
        assert (caught.value.status, len(server.requests)) == (400, count)
        assert caught.value.__context__ is None


def test_a_model_that_has_no_encrypted_reasoning_is_asked_without(serve: Serve) -> None:
    body = json.dumps({"error": UNSUPPORTED})
    server = serve("openai-responses-text-stream", fail_first=1, fail_status=[400], fail_body=body)
    request = ModelRequest(Transcript.of([Message.user("hi")]))
    list(provider_at(server.url).stream(request))

    assert ["include" in asked["body"] for asked in server.requests] == [True, False]


def test_a_refusal_in_the_stream_is_answered_once_too(serve: Serve) -> None:
    text = f"event: error\ndata: {json.dumps({'type': 'error', 'error': {'message': UNREAD, **REFUSED}})}\n\n"
    good = exchanges(SMALL, "openai.responses")
    fine = next(found for found in good if found.name == "openai-responses-text-stream#0")
    answer = {**fine.response, "text": text}
    document = {
        "id": "refused",
        "api": "openai.responses",
        "exchanges": [{**fine._asdict(), "response": answer}, fine._asdict()],
    }
    server = serve(document)

    chunks = list(provider_at(server.url).stream(ModelRequest(history(Message.user("and?")))))
    assert chunks[-1].type == "reply"
    assert len(server.requests) == 2


def test_another_bad_request_is_not_repeated(serve: Serve) -> None:
    body = json.dumps({"error": {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error"}})
    server = serve("openai-responses-text-stream", fail_first=1, fail_status=[400], fail_body=body)

    with pytest.raises(LLMError, match="Unknown parameter"):
        list(provider_at(server.url).stream(ModelRequest(history(Message.user("and?")))))
    assert len(server.requests) == 1


def test_a_branch_keeps_what_was_refused_to_itself() -> None:
    first = history()
    second = first.extend([Message.user("a")])
    codec, error = ResponsesCodec(), LLMError(UNREAD, status=400)

    assert codec.second_try(error, ModelRequest(second), GPT) is not None
    assert codec.second_try(error, ModelRequest(second), GPT) is None
    other = Transcript.of(list(first))
    assert codec.second_try(error, ModelRequest(other), GPT) is not None


COUNTED = exchanges(SMALL, "openai.responses.input_tokens", "anthropic.count_tokens")
MORE = [
    found
    for found in exchanges(whole_set(), "openai.responses.input_tokens", "anthropic.count_tokens")
    if found.name not in {known.name for known in COUNTED}
]


@pytest.mark.parametrize("found", [pytest.param(found, id=found.name) for found in COUNTED + MORE])
def test_tokens_are_counted_by_the_provider(serve: Serve, found: Any) -> None:
    server = serve({"id": found.name, "api": found.api, "exchanges": [found._asdict()]})
    kind = AnthropicProvider if found.api == "anthropic.count_tokens" else OpenAIResponsesProvider
    provider = kind("some", base_url=server.url, max_tokens=5, temperature=1)
    tools = (ToolSchema("get_weather", "Get the weather for a location"),)
    request = ModelRequest(Transcript.of([Message.user("hi")]), ("be brief",), tools=tools, tool_choice="any")
    expected = json.loads(found.body)

    if "input_tokens" in expected:
        assert (
            provider.count_tokens(request) == asyncio.run(provider.acount_tokens(request)) == expected["input_tokens"]
        )
    else:
        with pytest.raises(LLMError) as caught:
            provider.count_tokens(request)
        assert caught.value.provider == provider.profile.provider
    asked = server.requests[0]
    assert asked["path"].endswith(found.request["path"].removeprefix("/v1"))
    allowed = {"model", "messages", "system", "input", "instructions", "tools", "tool_choice"}
    assert set(asked["body"]) <= allowed


@pytest.mark.parametrize("how", ["sync", "async"])
def test_counting_fails_as_asking_does(serve: Serve, how: str) -> None:
    request = ModelRequest(Transcript.of([Message.user("hi")]))

    def count(provider: BaseLLMProvider) -> int:
        return provider.count_tokens(request) if how == "sync" else asyncio.run(provider.acount_tokens(request))

    limited = serve("openai-responses-count-tokens-tools", fail_first=1, retry_after="3")
    with pytest.raises(RateLimitError) as caught:
        count(provider_at(limited.url))
    assert (caught.value.provider, caught.value.status, caught.value.retry_after_seconds) == ("openai", 429, 3)
    with pytest.raises(ServerError, match="no connection"):
        count(provider_at("http://127.0.0.1:9"))
    broken = serve("openai-responses-count-tokens-tools", drop_after_bytes=5, drop_times=-1)
    with pytest.raises(ServerError):
        count(provider_at(broken.url))
    with pytest.raises(ConfigError, match="'openai' has no endpoint"):
        count(OpenAIChatProvider("gpt-4o", base_url="http://127.0.0.1:9"))
    with pytest.raises(ConfigError, match="no endpoint"):
        AnthropicCodec(platform="vertex").count_call(request, GPT, base_url="http://x", api_key=None)


def test_an_answer_without_a_count_is_an_error() -> None:
    for body, kind in [(b"<html>", ServerError), (b"{}", ServerError), (b'{"error":{"message":"no"}}', LLMError)]:
        with pytest.raises(kind):
            ResponsesCodec().count_of(body)


def test_a_turn_with_a_tool_returns_reasoning_phase_and_result(serve: Serve) -> None:
    server = serve("openai-responses-phase-stream")

    @tool
    def get_capital(country: str) -> str:
        """Return the capital of a country."""
        return "Potato City"

    agent = Agent(llm=provider_at(server.url)).with_tools([get_capital])
    said = "".join(agent.chat("What is the capital of PotatoLand?"))

    assert said.endswith("The capital of PotatoLand is **Potato City**.")
    first, second = (asked["body"] for asked in server.requests)
    check_responses_body(second)
    assert second["input"][: len(first["input"])] == first["input"]
    recorded = json.loads((SMALL / "openai-responses-phase-stream.json").read_text("utf-8"))["exchanges"][1]["request"]
    thought, spoken, called, answered = second["input"][len(first["input"]) :]
    assert thought["encrypted_content"] == recorded["body"]["input"][1]["encrypted_content"]
    assert spoken["phase"] == "commentary"
    assert json.loads(called["arguments"]) == {"country": "PotatoLand"}
    assert answered == recorded["body"]["input"][4]
