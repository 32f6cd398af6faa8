"""What Gemini may answer: signatures, streamed arguments, its own tools, refusals, errors, counts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_files import SMALL, exchanges, whole_set

from sapwood import Agent, tool
from sapwood.core.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    LLMError,
    RateLimitError,
    ServerError,
)
from sapwood.core.messages import File, Image, Message, Opaque, Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    ModelProfile,
    ModelRequest,
    Reply,
    ServerCallChunk,
    ServerResultChunk,
    StreamChunk,
    TextChunk,
    UsageChunk,
)
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.failures import error_of
from sapwood.llm.framing import ArraySplitter
from sapwood.llm.gemini import GeminiCodec, GeminiProvider
from sapwood.llm.gemini.calls import put, steps_of
from support.replay_server import ReplayServer

PROFILE = ModelProfile("gemini", "g")
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "totalTokenCount": 15}


def signed(signature: str, **more: Any) -> dict[str, Any]:
    return {"gemini": {"thoughtSignature": signature, **more}}


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [{**candidate, **more}], "usageMetadata": USAGE}


def decode(*responses: Any) -> list[StreamChunk]:
    decoder, chunks = GeminiCodec().decoder(PROFILE), list[StreamChunk]()
    for response in responses:
        chunks += decoder.feed(b"", json.dumps(response).encode())
    return [*chunks, decoder.finish()]


def reply_of(*responses: Any) -> Reply:
    reply = decode(*responses)[-1]
    assert isinstance(reply, Reply)
    return reply


def content_of(*responses: Any) -> tuple[Part, ...]:
    return reply_of(*responses).content


def test_texts_grow_and_what_is_signed_stands_alone() -> None:
    found = decode(
        chunk({"text": "a", "thought": True}),
        chunk({"text": "b", "thought": True}),
        chunk({"text": "c", "thought": True, "thoughtSignature": "s0"}),
        chunk({"text": "x"}),
        chunk({"text": "y"}, {"text": ""}),
        chunk({"text": "z", "thoughtSignature": "s1"}),
        chunk({"text": "!"}),
        chunk({"text": "", "thoughtSignature": "s2"}, finish="STOP"),
    )

    assert found[-1] == Reply(
        (
            Thinking("ab"),
            Thinking("c", signed("s0")),
            Text("xy"),
            Text("z", signed("s1")),
            Text("!"),
            Text("", signed("s2")),
        ),
        usage=Usage(10, 5, thinking_tokens=3),
    )
    assert [item for item in found if isinstance(item, UsageChunk)] == [found[0]]


def test_usage_is_told_once_when_the_input_is_known() -> None:
    late = chunk({"text": "b"})
    early = {"candidates": chunk({"text": "a"})["candidates"], "usageMetadata": {"trafficType": "ON_DEMAND"}}
    found = decode({"usageMetadata": {"promptTokenCount": 10}}, chunk({"text": "a"}), late, chunk(finish="STOP"))
    later = decode(early, early, late, late, chunk(finish="STOP"))

    assert found[:2] == [UsageChunk(Usage(10)), TextChunk("a")]
    assert [item.type for item in later] == ["text_chunk"] * 2 + ["usage_chunk"] + ["text_chunk"] * 2 + ["reply"]
    assert [type(item) for item in found].count(UsageChunk) == 1


def test_calls_get_ids_where_the_model_gave_none_and_the_names_of_our_tools() -> None:
    reply = reply_of(
        chunk({"functionCall": {"name": "default_api:read", "args": {"n": 1}}, "thoughtSignature": "s"}),
        chunk({"functionCall": {"name": "_3d_render"}}, {"functionCall": {"name": "b", "id": "call_1"}}, finish="STOP"),
    )

    assert reply.stop_reason == "tool_use"
    assert reply.content == (
        ToolCall("read", {"n": 1}, id="call_0", provider_data=signed("s")),
        ToolCall("3d_render", id="call_1_"),
        ToolCall("b", id="call_1", provider_data={"gemini": {"id": "call_1"}}),
    )


def piece(path: str, value: Any, *, more: bool = False) -> dict[str, Any]:
    name = {str: "stringValue", float: "numberValue", int: "numberValue", bool: "boolValue"}.get(type(value))
    field = {name: value} if name else {"nullValue": "NULL_VALUE"}
    return {"jsonPath": path, **field, **({"willContinue": True} if more else {})}


def streaming(*pieces: dict[str, Any], more: bool = True, **function: Any) -> dict[str, Any]:
    fields = {**function, **({"partialArgs": [*pieces]} if pieces else {}), **({"willContinue": True} if more else {})}
    return {"functionCall": fields}


def test_streamed_arguments_are_put_together() -> None:
    (call,) = content_of(
        chunk({**streaming(name="write"), "thoughtSignature": "s"}),
        chunk(streaming(piece("$.items[0].name", "ap", more=True))),
        chunk(streaming(piece("$.items[0].name", "ple", more=True))),
        chunk(streaming(piece("$.items[0].name", ""))),
        chunk(streaming(piece("$.items[1]['odd.key']", 2), piece("$.done", True), piece("$.note", None))),
        chunk({"functionCall": {}}, finish="STOP"),
    )

    assert call == ToolCall(
        "write",
        {"items": [{"name": "apple"}, {"odd.key": 2}], "done": True, "note": None},
        id="call_0",
        provider_data=signed("s"),
    )


def test_a_call_that_was_cut_off_is_incomplete_and_one_before_it_is_not() -> None:
    whole, cut = content_of(
        chunk(streaming(name="a"), streaming(piece("$.x", "1"), more=False)),
        chunk(streaming(name="b"), streaming(piece("$.x", "hal", more=True)), finish="MAX_TOKENS"),
    )

    assert isinstance(whole, ToolCall)
    assert isinstance(cut, ToolCall)
    assert (whole.arguments, whole.problem) == ({"x": "1"}, None)
    assert (cut.arguments, cut.problem) == ({}, "incomplete")
    assert "hal" in (cut.raw or "")


@pytest.mark.parametrize("path", ["$", "", "x", "$..x", "$.x[2]", "$.a.b", "$[0]", "$.x[99999999999]", "$.x['"])
def test_a_value_without_a_place_makes_the_call_malformed(path: str) -> None:
    (call,) = content_of(
        chunk(streaming(piece("$.x[0]", 1), piece("$.a", 1), name="f")),
        chunk(streaming(piece(path, 2)), finish="STOP"),
    )

    assert isinstance(call, ToolCall)
    assert call.problem == "malformed"


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    (call,) = content_of(chunk({"functionCall": {"name": "a", "args": "x=1"}}, finish="STOP"))

    assert call == ToolCall("a", id="call_0", raw='["x=1"]', problem="malformed")


steps = st.lists(st.one_of(st.sampled_from(["a", "b c"]), st.integers(0, 3)), max_size=5)


@given(st.lists(st.tuples(steps, st.integers()), max_size=8))
def test_values_are_where_they_were_put_or_refused(values: list[tuple[list[str | int], int]]) -> None:
    arguments: dict[str, Any] = {}
    for path, value in values:
        if path and put(arguments, path, value):
            inner: Any = arguments
            for step in path:
                inner = inner[step]
            assert inner == value
    for path, _ in values:
        written = "$" + "".join(f"[{step}]" if isinstance(step, int) else f"['{step}']" for step in path)
        assert steps_of(written) == path


def test_a_very_deep_place_is_refused() -> None:
    assert steps_of("$" + ".a" * 1_000) == []


def test_what_the_provider_ran_is_told_and_kept_whole_in_its_place() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "s"}
    output = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}}
    search = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t1"}}
    found = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"a": 1}, "id": "t1"}}
    new = {"hologram": {"depth": 3}}
    told = decode(chunk({"text": "a"}, code), chunk(output, {"text": "b"}), chunk(search, found, new, finish="STOP"))

    assert told[1:-1] == [
        TextChunk("a"),
        ServerCallChunk("server_1", "code_execution", {"language": "PYTHON", "code": "1+1"}),
        ServerResultChunk("server_1", "code_execution", "no", True),
        TextChunk("b"),
        ServerCallChunk("t1", "google_search_web", {"queries": ["x"]}),
        ServerResultChunk("t1", "google_search_web", {"a": 1}),
    ]
    reply = told[-1]
    assert isinstance(reply, Reply)
    assert reply.content == (
        Text("a"),
        Opaque("executableCode", {"gemini": code}, "```\n1+1\n```"),
        Opaque("codeExecutionResult", {"gemini": output}, "```\nno\n```"),
        Text("b"),
        Opaque("toolCall", {"gemini": search}),
        Opaque("toolResponse", {"gemini": found}),
        Opaque("hologram", {"gemini": new}),
    )


def test_pictures_and_sounds_of_the_model_are_parts() -> None:
    found = content_of(
        chunk({"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "s"}),
        chunk({"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}, finish="STOP"),
    )

    assert found[:2] == (Image("aGk=", "image/png", provider_data=signed("s")), File("aGk=", "audio/wav"))
    assert isinstance(found[2], Opaque)  # a draft, not the answer


def test_sources_hang_on_the_last_text_that_says_something() -> None:
    sources = {"webSearchQueries": ["x"]}
    found = content_of(
        chunk({"text": "a"}, groundingMetadata={}),
        chunk({"text": "b"}, groundingMetadata=sources),
        chunk({"text": "", "thoughtSignature": "s"}, finish="STOP", citationMetadata={"citations": [1]}),
    )

    notes = {"groundingMetadata": sources, "citationMetadata": {"citations": [1]}}
    assert found == (Text("ab", {"gemini": notes}), Text("", signed("s")))


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("OTHER", "stop"),
        ("MALFORMED_FUNCTION_CALL", "stop"),
        ("SOMETHING_NEW", "stop"),
    ],
)
def test_finish_reasons(finish: str, stop: str) -> None:
    assert reply_of(chunk({"text": "a"}, finish=finish)).stop_reason == stop


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
@pytest.mark.parametrize("part", [None, {"text": ""}, {"text": "hm", "thought": True}])
def test_no_answer_by_chance_is_worth_another_try(finish: str, part: dict[str, Any] | None) -> None:
    with pytest.raises(ServerError, match=f"{finish}.*: went wrong") as caught:
        decode(chunk(*[part] if part else [], finish=finish, finishMessage="went wrong"))
    assert caught.value.is_transient


def test_an_unexpected_call_is_a_call_that_the_loop_may_answer() -> None:
    reply = reply_of(chunk({"functionCall": {"name": "list_files", "args": {}}}, finish="UNEXPECTED_TOOL_CALL"))

    assert reply.stop_reason == "tool_use"


def test_a_missing_signature_is_no_chance() -> None:
    with pytest.raises(LLMError) as caught:
        decode(chunk(finish="MISSING_THOUGHT_SIGNATURE"))
    assert not caught.value.is_transient


def test_a_blocked_prompt_is_an_error_after_its_usage_was_told() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 7}}
    decoder = GeminiCodec().decoder(PROFILE)

    assert decoder.feed(b"", json.dumps(blocked).encode()) == [UsageChunk(Usage(7))]
    with pytest.raises(ContentFilterError, match="PROHIBITED_CONTENT"):
        decoder.finish()
    with pytest.raises(ContentFilterError):
        GeminiCodec().decoder(PROFILE).whole(json.dumps(blocked).encode())


@pytest.mark.parametrize("content", [None, {}, {"role": "model"}, {"parts": None}])
def test_content_may_be_missing(content: Any) -> None:
    candidate = {"finishReason": "MAX_TOKENS"} | ({} if content is None else {"content": content})

    assert reply_of({"candidates": [candidate]}) == Reply((), "max_tokens")


def test_a_stream_without_its_end_is_no_reply() -> None:
    with pytest.raises(ServerError, match="ended early"):
        decode(chunk({"text": "a"}))
    with pytest.raises(ServerError, match="cannot be read"):
        GeminiCodec().decoder(PROFILE).feed(b"", b'{"cand')
    with pytest.raises(ServerError, match="no candidates"):
        GeminiCodec().decoder(PROFILE).whole(b"{}")


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}, ServerError),
        ({"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}, RateLimitError),
        ({"code": 400, "message": "API key not valid. Please pass a valid API key."}, AuthenticationError),
        (
            {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."},
            ContextOverflowError,
        ),
    ],
)
def test_errors_in_a_stream_and_by_status(error: dict[str, Any], kind: type, as_list: bool) -> None:
    body = [{"error": error}] if as_list else {"error": error}

    with pytest.raises(kind):
        decode(chunk({"text": "a"}), body)
    assert type(error_of(json.dumps(body).encode(), status=error["code"])) is kind


def test_of_several_candidates_the_first_counts() -> None:
    second = {"content": {"parts": [{"text": "other"}]}, "index": 1, "finishReason": "STOP"}
    first = chunk({"text": "a"})
    first["candidates"].append(second)

    assert content_of(first, chunk({"text": "b"}, finish="STOP")) == (Text("ab"),)


def test_a_stream_may_come_as_one_array() -> None:
    responses = [chunk({"text": 'a"]}'}), chunk({"text": "b"}, finish="STOP")]
    body = json.dumps(responses, indent=1).encode()
    splitter, decoder = ArraySplitter(), GeminiCodec().decoder(PROFILE)
    for at in range(0, len(body), 7):
        for name, data in splitter.feed(body[at : at + 7]):
            decoder.feed(name, data)

    assert decoder.finish() == GeminiCodec().decoder(PROFILE).whole(body) == reply_of(*responses)


COUNTS = exchanges(whole_set() or SMALL, "google.count_tokens")


@pytest.mark.parametrize("exchange", [pytest.param(item, id=item.name) for item in COUNTS])
def test_recorded_counts(exchange: Any) -> None:
    assert GeminiCodec().count_of(exchange.body) == json.loads(exchange.body)["totalTokens"]


def test_a_recorded_count_was_asked_as_we_ask() -> None:
    asked = [item.request["body"]["generateContentRequest"] for item in COUNTS if "Request" in str(item.request)]
    request = ModelRequest(Transcript.of([Message.user("What is the capital of France?")]))
    call = GeminiCodec().count_call(request, PROFILE.replace(model="gemini-3.5-flash"), base_url="h", api_key="k")

    assert not asked or json.loads(call.body)["generateContentRequest"] == asked[0]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>", ServerError),
        (b"{}", ServerError),
        (b'{"error": {"code": 401, "message": "x"}}', AuthenticationError),
    ],
)
def test_a_count_that_failed(body: bytes, kind: type[LLMError]) -> None:
    with pytest.raises(kind):
        GeminiCodec().count_of(body)


def test_a_provider_without_a_key_says_which_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ModelRequest(Transcript.of([Message.user("hi")]))
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AuthenticationError, match="set GEMINI_API_KEY"):
        next(GeminiProvider("gemini-3-flash").stream(request))


def test_an_agent_goes_through_recorded_rounds(serve: Any) -> None:
    @tool
    def get_user_country() -> str:
        """Where the user lives."""
        return "Mexico"

    server = serve("google-structured-tools-stream")
    provider = GeminiProvider("gemini-3-flash-preview", base_url=server.url)
    text = "".join(Agent(llm=provider).with_tools([get_user_country]).chat("What is the largest city in my country?"))

    assert json.loads(text) == {"city": "Mexico City", "country": "Mexico"}
    asked, answered = server.requests[1]["body"]["contents"][1:]
    assert asked["parts"][0]["functionCall"] == {"id": "96c1su3s", "name": "get_user_country", "args": {}}
    assert asked["parts"][0]["thoughtSignature"].startswith("EpIDCo8DAQw51scL+dHffCC+")
    assert answered["parts"] == [
        {"functionResponse": {"id": "96c1su3s", "name": "get_user_country", "response": {"result": "Mexico"}}}
    ]


def test_the_key_goes_into_the_header_and_the_first_signature_into_the_next_request() -> None:
    answer = chunk({"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "s+/="}, finish="STOP")
    text = f"data: {json.dumps(answer)}\r\n\r\n"
    exchange = {
        "request": {"method": "POST", "path": "/v1beta/models/g:streamGenerateContent"},
        "response": {"status": 200, "headers": {"content-type": "text/event-stream"}, "text": text},
    }
    with ReplayServer({"id": "x", "api": "google.stream_generate_content", "exchanges": [exchange]}) as server:
        provider = GeminiProvider("g", base_url=server.url, api_key="four")
        reply = list(provider.stream(ModelRequest(Transcript.of([Message.user("hi")]))))[-1]

    assert isinstance(reply, Reply)
    assert server.requests[0]["headers"]["x-goog-api-key"] == "<4 characters>"
    history = [Message.user("hi"), Message("assistant", reply.content, provider.profile.origin)]
    again = GeminiCodec().encode(
        ModelRequest(Transcript.of(history)), provider.profile, base_url="http://h", api_key=None
    )
    assert b'"thoughtSignature":"s+/="' in again.body
