"""Requests of Responses: recorded ones read into our messages and written again, and each rule by an example.

What may differ from a recording, and why:
- `store`, `stream`: we always stream and never store; `tool_choice: auto` and `strict: false` are the defaults.
- a text alone may be a string or a list of one part; `type: message`, empty annotations, `logprobs` and fields that
  are null may be left out: the server reads the same.
- ids and statuses of messages, calls and encrypted reasoning: they name what was not stored.
- system entries before the first message are `instructions`.
"""

import json
from typing import Any

import pytest
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core.codec import from_json, to_json
from sapwood.core.errors import ConfigError
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import CachePlan, ModelProfile, ModelRequest, ToolChoice
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.openai.chat_encode import encode_body as encode_chat
from sapwood.llm.openai.responses import OpenAIResponsesProvider, ResponsesCodec
from sapwood.llm.openai.responses_encode import encode_body
from sapwood.llm.options import ModelOptions
from sapwood.llm.sse import SseSplitter
from sapwood.testing.strict import check_responses_body
from support.read_requests import read_blocks, responses_request

API = "openai.responses"
HERE = exchanges(SMALL, API)
NAMES = {item.name for item in HERE}
ALL = [item for item in exchanges(whole_set(), API) if item.name not in NAMES]
GPT = ModelProfile("openai", "gpt-5", encrypted_thinking=True, thinking="effort")
OWN = GPT.origin

LEFT_OUT = {
    "openai-responses-prompt-cache": "explicit prompt_cache_breakpoint on content parts: not written by us",
    "openai-responses-tool-search-deferred#2": "additional_tools among the items: no part of ours",
    "openai-responses-tool-search-deferred#3": "additional_tools among the items: no part of ours",
    "openai-responses-conversation-tools#2": "a result whose call the server holds: our requests hold both",
    "xai-responses-tools-stream#3": "it ends in reasoning that nothing followed: refused by OpenAI, so never sent",
}


def cases() -> list[Any]:
    found = [
        pytest.param(item, id=item.name, marks=[] if item.name in NAMES else [pytest.mark.wire])
        for item in [*HERE, *ALL]
        if item.is_recorded and not {item.name, item.name.partition("#")[0]} & LEFT_OUT.keys()
    ]
    if not ALL:
        found.append(pytest.param(None, id="whole-set", marks=pytest.mark.skip("the whole set is not here")))
    return found


@pytest.mark.parametrize("exchange", cases())
def test_a_recorded_request_is_written_again(exchange: Exchange) -> None:
    body: dict[str, Any] = exchange.request["body"]
    provider = exchange.name.partition("-")[0]
    request, options = responses_request(body, provider)
    profile = ModelProfile(provider, body["model"], encrypted_thinking="include" in body, known=False)

    written = json.loads(encode_body(request, profile, options))
    assert (written["store"], written["stream"]) == (False, True)
    assert written.get("include") == body.get("include")
    assert plain(written) == plain(body)
    if "error" not in exchange.name:
        check_responses_body(written)


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what may differ."""
    body = json.loads(json.dumps(body))
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    system = [item["content"] for item in items if item.get("role") == "system"]
    kept: list[dict[str, Any]] = []
    for item in (item for item in items if item.get("role") != "system"):
        kind = item.setdefault("type", "message")
        if kind in ("message", "function_call") or (item.get("encrypted_content") and kind == "reasoning"):
            item.pop("id", None)
            item.pop("status", None)
        if kind == "message":
            blocks = read_blocks(item["content"], "output_text" if item["role"] == "assistant" else "input_text")
            for block in blocks:
                block.pop("logprobs", None)
            item["content"] = [{k: v for k, v in block.items() if v != []} for block in blocks]
        if kind == "function_call":
            item["arguments"] = json.loads(item["arguments"])
        kept.append({key: value for key, value in item.items() if value is not None})
    rest = {key: value for key, value in body.items() if value is not None and key not in ("store", "stream")}
    if rest.get("tool_choice") == "auto":
        del rest["tool_choice"]
    for tool in rest.get("tools", []):
        if tool.get("strict") is False:
            del tool["strict"]
        if tool.get("description", "-") is None:
            del tool["description"]
    if system:
        rest["instructions"] = "\n\n".join(system)
    return {**rest, "input": kept}


def written(
    *messages: Message, profile: ModelProfile = GPT, options: ModelOptions | None = None, **request: Any
) -> Any:
    body = encode_body(ModelRequest(Transcript.of(messages), **request), profile, options or ModelOptions())
    found = json.loads(body)
    check_responses_body(found)
    return found


HI = Message.user("hi")
SEALED = {
    "id": "rs_1",
    "type": "reasoning",
    "status": "completed",
    "content": [],
    "encrypted_content": 'gAAAAB/+é\u2028\\"=',
    "summary": [{"type": "summary_text", "text": "I think."}],
}
SENT = {key: SEALED[key] for key in ("type", "encrypted_content", "summary")}


def item(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def test_a_request_says_what_it_must() -> None:
    tool = ToolSchema("notes.add", "Add a note.", {"type": "object", "properties": {}}, ({"a": 1},))
    options = ModelOptions(temperature=0.5, top_p=0.9, top_k=3, stop=("x",), seed=1, thinking="high")
    body = written(
        HI,
        options=options,
        profile=GPT.replace(cache_key=True, max_output_tokens=100),
        system=("be brief", " ", "now"),
        tools=(tool,),
        tool_choice="any",
        max_tokens=900,
        notice="last round",
        cache=CachePlan(key="k"),
        output_schema={"type": "object"},
    )

    assert body == {
        "model": "gpt-5",
        "instructions": "be brief\n\nnow",
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning": {"effort": "high"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "output", "schema": {"type": "object"}, "strict": False}},
        "prompt_cache_key": "k",
        "tools": [
            {
                "type": "function",
                "name": "notes_add",
                "description": 'Add a note.\nExample input: {"a":1}',
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "input": [item("hi"), item("last round")],
    }


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (None, None),
        (True, {"summary": "auto"}),
        (False, {"effort": "none"}),
        ("low", {"effort": "low"}),
        (2048, {"effort": "medium"}),
    ],
)
def test_thinking_is_asked_for_by_effort(asked: Any, sent: Any) -> None:
    assert written(HI, options=ModelOptions(thinking=asked)).get("reasoning") == sent


@pytest.mark.parametrize(
    ("facts", "asks"),
    [
        ({}, True),
        ({"thinking": "none"}, False),
        ({"thinking": "none", "known": False}, True),
        ({"encrypted_thinking": False}, False),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_it_is_given(facts: dict[str, Any], asks: bool) -> None:
    assert ("include" in written(HI, profile=GPT.replace(**facts))) is asks


@pytest.mark.parametrize(("choice", "sent"), [("auto", "auto"), ("none", "none"), ("any", "required")])
def test_a_choice_of_tools_is_told_in_the_servers_words(choice: ToolChoice, sent: str) -> None:
    tools = (ToolSchema("add", defer=True),)

    assert written(HI, tools=tools, tool_choice=choice)["tool_choice"] == sent
    careful = written(HI, tools=tools, tool_choice=choice, profile=GPT.replace(forced_tool_choice=False))
    assert careful["tool_choice"] == ("auto" if choice == "any" else sent)
    assert "tool_choice" not in written(HI, tool_choice=choice)


def test_deferred_tools_bring_the_search_for_them() -> None:
    tools = (ToolSchema("add", defer=True), ToolSchema("now"))

    found = written(HI, tools=tools, profile=GPT.replace(tool_loading="deferred"))["tools"]
    assert [tool.get("defer_loading") for tool in found] == [True, None, None]
    assert found[-1] == {"type": "tool_search"}
    assert len(written(HI, tools=tools)["tools"]) == 2


def test_extra_fields_replace_ours_and_none_takes_one_away() -> None:
    options = ModelOptions(extra_body={"store": True, "include": None, "truncation": "auto"})

    body = written(HI, options=options)
    assert (body["store"], body["truncation"], "include" in body) == (True, "auto", False)
    with pytest.raises(ConfigError, match="input"):
        written(HI, options=ModelOptions(extra_body={"input": []}))


def test_what_the_protocol_does_not_know_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    OpenAIResponsesProvider("gpt-5.4", stop="END", seed=0, top_p=0.5)

    assert [record.getMessage() for record in caplog.records] == [
        "openai/gpt-5.4 does not take stop, seed over openai.responses; it is left out"
    ]


def test_reasoning_goes_back_byte_for_byte_to_its_model_and_to_no_other() -> None:
    call = ToolCall("add", {"a": 1}, "r0c0", "call_1")
    content = (Thinking("I think.", {"openai": SEALED}), call)
    history = [HI, Message("assistant", content, OWN), Message("tool", (ToolResult("r0c0", "add", (Text("2"),)),))]
    stored = [from_json(to_json(message), Message) for message in history]

    own, other = written(*stored), written(*stored, profile=GPT.replace(model="gpt-4.1"))
    called = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
    answered = {"type": "function_call_output", "call_id": "call_1", "output": "2"}
    assert own["input"] == [item("hi"), SENT, called, answered]
    assert other["input"] == [item("hi"), called, answered]


def test_reasoning_without_what_followed_it_is_not_sent() -> None:
    thought, search = Thinking("", {"openai": SEALED}), {"type": "web_search_call", "id": "ws_1"}
    alone = written(HI, Message("assistant", (thought,), OWN))
    blank = written(HI, Message("assistant", (thought, Text(" ", {"openai": {"phase": "commentary"}})), OWN))
    rest = (thought, Opaque("web_search_call", {"openai": search}), thought, thought, Text("ok"), thought)
    followed = written(HI, Message("assistant", rest, OWN))

    assert alone["input"] == blank["input"] == [item("hi")]
    assert followed["input"] == [item("hi"), SENT, search, SENT, SENT, item("ok", "assistant")]


def test_reasoning_in_the_open_goes_back_with_its_id_and_a_summary_alone_does_not() -> None:
    raw = {**SEALED, "encrypted_content": None, "content": [{"type": "reasoning_text", "text": "so"}]}
    bare = {**SEALED, "encrypted_content": None}
    messages = [HI, *(Message("assistant", (Thinking("", {"openai": own}), Text("ok")), OWN) for own in (raw, bare))]

    sent = {key: raw[key] for key in ("id", "type", "content", "summary")}
    ok = item("ok", "assistant")
    assert written(*messages)["input"] == [item("hi"), sent, ok, ok]


def test_phase_annotations_and_refusals_go_back_with_their_text() -> None:
    note = {"type": "url_citation", "url": "https://e.org", "title": "E", "start_index": 0, "end_index": 2}
    nested = {"type": "url_citation", "url_citation": {"url": "https://e.org"}}  # as Chat Completions has it
    first = Text("so", {"openai": {"phase": "commentary", "annotations": [note, nested]}})
    second = Text("No.", {"openai": {"refusal": True, "continues": True}})
    own, other = (written(HI, Message("assistant", (first, second), origin))["input"][1:] for origin in (OWN, "x/y"))

    blocks = [{"type": "output_text", "text": "so", "annotations": [note]}, {"type": "refusal", "refusal": "No."}]
    assert own == [{"type": "message", "role": "assistant", "content": blocks, "phase": "commentary"}]
    assert other == [item("so", "assistant"), item("No.", "assistant")]


def test_the_providers_own_items_go_back_whole_or_as_their_text() -> None:
    ran = {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": None, "container_id": "c"}
    message = Message("assistant", (Opaque("code_interpreter_call", {"openai": ran}, "[ran]"),), OWN)

    assert written(HI, message)["input"][1:] == [ran]
    assert written(HI, message.replace(origin="openai/o3"))["input"][1:] == [item("[ran]", "assistant")]


def test_a_call_that_nobody_answered_is_not_sent() -> None:
    shell = {"type": "shell_call", "id": "sh", "call_id": "c1", "action": {"commands": ["ls"]}}
    output = {"type": "shell_call_output", "call_id": "c1", "output": []}
    parts = Opaque("shell_call", {"openai": shell}), Opaque("shell_call_output", {"openai": output})
    search = {"type": "tool_search_call", "call_id": "c2", "execution": "client", "arguments": {}}

    assert written(HI, Message("assistant", parts, OWN))["input"][1:] == [shell, output]
    assert written(HI, Message("assistant", parts[:1], OWN))["input"][1:] == []
    assert written(HI, Message("assistant", (Opaque("x", {"openai": search}),), OWN))["input"][1:] == []


def test_calls_of_another_model_stand_after_its_texts() -> None:
    a, b = (ToolCall("read", {}, f"k{n}", f"call_{n}") for n in "ab")
    results = Message("tool", tuple(ToolResult(call.key, "read", (Text("ok"),)) for call in (a, b)))
    parts = (Text("one"), a, Text("two"), b)
    own, other = (written(HI, Message("assistant", parts, o), results)["input"][1:] for o in (OWN, "anthropic/c"))

    assert [found.get("call_id", "text") for found in own] == ["text", "call_a", "text", "call_b", "call_a", "call_b"]
    assert [found.get("call_id", "text") for found in other] == ["text", "text", "call_a", "call_b", "call_a", "call_b"]


def test_fields_of_a_call_that_are_not_ours_go_back_over_their_own_protocol() -> None:
    call = ToolCall("read", {}, "k", "call_1", provider_data={"openai": {"namespace": "files"}})
    history = [HI, Message("assistant", (call,), OWN), Message("tool", (ToolResult("k", "read", (Text("ok"),)),))]

    assert written(*history)["input"][1]["namespace"] == "files"
    assert "namespace" not in written(*history, profile=GPT.replace(model="o3"))["input"][1]
    chat = json.loads(encode_chat(ModelRequest(Transcript.of(history)), GPT, ModelOptions()))
    assert set(chat["messages"][1]["tool_calls"][0]) == {"id", "type", "function"}


def test_pictures_and_files_are_sent_or_named() -> None:
    parts = (Image("aGk="), Image(url="https://e.org/a.png"), File("aGk=", name="a.pdf"), File(url="https://e.org/b"))
    image, linked = ({"type": "input_image", "image_url": url} for url in ("data:image/png;base64,aGk=", parts[1].url))
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    call = Message("assistant", (ToolCall("look", {}, "k", "call_1"),), OWN)
    result = Message("tool", (ToolResult("k", "look", (Text("seen"), *parts)),))
    blocks = [image, linked, file, {"type": "input_file", "file_url": "https://e.org/b"}]

    assert written(Message.user(*parts))["input"][0]["content"] == blocks
    answer = written(HI, call, result)["input"][2]
    assert answer["output"] == [{"type": "input_text", "text": "seen"}, *blocks]
    apart = written(HI, call, result, profile=GPT.replace(result_images=False))["input"][2:]
    assert apart[0]["output"] == "seen"
    assert apart[1]["content"] == [{"type": "input_text", "text": "From the result of look:"}, *blocks]
    blind = GPT.replace(images=False, files=False)
    said = [block["text"] for block in written(Message.user(*parts), profile=blind)["input"][0]["content"]]
    assert said == [
        "[An image is left out: this model reads no images.]",
        "[An image is left out: this model reads no images.]",
        "[a.pdf is left out: this model reads no files.]",
        "[https://e.org/b is left out: this model reads no files.]",
    ]


def test_what_was_recalled_stands_first_and_a_summary_under_its_heading() -> None:
    content = written(Message("user", (Text("hi"), Summary("before"), Recalled("known"))))["input"][0]["content"]

    assert [block["text"].splitlines()[-1] for block in content] == ["known", "hi", "before"]


def test_a_result_without_text_says_so_and_a_broken_call_has_no_arguments() -> None:
    call = ToolCall("add", key="k", id="call_1", raw='{"a', problem="incomplete")
    found = written(HI, Message("assistant", (call,), OWN), Message("tool", (ToolResult("k", "add", (Text(" "),)),)))

    assert (found["input"][1]["arguments"], found["input"][2]["output"]) == ("{}", "(no output)")


def answered() -> list[Any]:
    return [
        pytest.param(item, id=item.name, marks=[] if item.name in NAMES else [pytest.mark.wire])
        for item in [*HERE, *ALL]
        if item.response["status"] == 200 and "error-quota" not in item.name and "background-poll" not in item.name
    ]


@pytest.mark.parametrize("exchange", answered())
def test_what_a_model_said_is_what_it_gets_back(exchange: Exchange) -> None:
    decoder, splitter = ResponsesCodec().decoder(GPT), SseSplitter()
    if exchange.is_stream:
        for name, data in splitter.feed(exchange.body):
            decoder.feed(name, data)
    reply = decoder.finish() if exchange.is_stream else decoder.whole(exchange.body)
    message = from_json(to_json(Message("assistant", reply.content, OWN)), Message)
    history = Transcript.of([HI, message])
    body = json.loads(encode_body(ModelRequest(history), GPT, ModelOptions()))

    check_responses_body(body)
    sent = [found for found in body["input"][1:] if found["type"] != "function_call_output"]
    came = [found for found in done_items(exchange) if goes_back(found)]
    for found in came:
        if found["type"] == "reasoning":  # an empty content is none
            found.update({"content": found.get("content") or None, "status": None})
    assert plain({"input": sent}) == plain({"input": came})


def goes_back(found: dict[str, Any]) -> bool:
    if found["type"] == "reasoning":
        return bool(found.get("encrypted_content") or found.get("content"))
    return found["type"] not in ("custom_tool_call", "shell_call")  # whose answers nobody gave


def done_items(exchange: Exchange) -> list[dict[str, Any]]:
    if not exchange.is_stream:
        found: list[dict[str, Any]] = json.loads(exchange.body)["output"]
        return found
    events = [json.loads(line[5:]) for line in exchange.body.decode().split("\n") if line.startswith("data: {")]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    return [event["item"] for event in sorted(done, key=lambda event: event["output_index"])]


def test_the_codec_is_pure_and_named() -> None:
    call = ResponsesCodec(key_header="api-key").encode(
        ModelRequest(Transcript.of([HI])), GPT, base_url="https://e.org/openai/v1/", api_key="k"
    )

    assert (call.url, call.headers["api-key"]) == ("https://e.org/openai/v1/responses", "k")
    assert "authorization" not in call.headers
