"""Requests to Gemini: the recorded ones written again, signatures, names, results, addresses.

What may differ from a recording, and why:
- snake_case fields, a role of the system instruction, empty fields and null descriptions: read the same.
- `parameters` in OpenAPI's form: ours are JSON Schema, in the field for that.
- the object of a result: ours wraps its text.
- thinking and blank text without a signature: never sent back by us.
- a thinking budget of -1: the default.
- neighbours of one role are one content in ours; pictures of a result come under a heading.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core.codec import from_json, to_json
from sapwood.core.errors import ConfigError
from sapwood.core.messages import File, Image, Message, Opaque, Part, Recalled, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.names import wire_name
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.gemini import GeminiCodec, GeminiProvider
from sapwood.llm.gemini.encode import BEGINNING, NO_SIGNATURE, encode_body
from sapwood.llm.gemini.names import called_name, gemini_name, is_kept
from sapwood.llm.options import ModelOptions
from sapwood.llm.profiles import profile_of
from sapwood.testing.strict import check_gemini_body
from support.read_requests import camel, gemini_request, wrap

APIS = ("google.generate_content", "google.stream_generate_content")
THREE = ModelProfile("gemini", "gemini-3-flash", call_signatures=True)
OLDER = ModelProfile("gemini", "gemini-2.5-flash", result_images=False)


def body_of(
    *messages: Message, profile: ModelProfile = THREE, options: ModelOptions | None = None, **request: Any
) -> dict[str, Any]:
    transcript = Transcript.of(messages)
    body: dict[str, Any] = json.loads(
        encode_body(ModelRequest(transcript, **request), profile, options or ModelOptions())
    )
    check_gemini_body(body, require_signatures=profile.call_signatures)
    return body


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for content in body["contents"] for part in content["parts"]]


# ---------------------------------------------------------------- recorded requests


def cases() -> list[Any]:
    here = exchanges(SMALL, *APIS)
    names = {item.name for item in here}
    rest = [item for item in exchanges(whole_set(), *APIS) if item.name not in names]
    found = [
        pytest.param(item, id=item.name, marks=[] if item.name in names else [pytest.mark.wire])
        for item in [*here, *rest]
        if item.is_recorded and "error-400-role" not in item.name  # a role that nobody may use
    ]
    skip = pytest.mark.skip("the whole set of recordings is not here")
    return found if rest else [*found, pytest.param(None, id="whole-set", marks=skip)]


@pytest.mark.parametrize("exchange", cases())
def test_a_recorded_request_is_written_again(exchange: Exchange) -> None:
    model = re.sub(r".*/models/(.*):\w+", r"\1", exchange.request["path"])
    profile = profile_of("gemini", model)
    request, options = gemini_request(exchange.request["body"], model)

    written = json.loads(encode_body(request, profile, options))
    check_gemini_body(written)
    expected = plain(camel(exchange.request["body"]))
    assert plain(written) == expected


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what may differ."""
    body = json.loads(json.dumps(body))
    body.get("systemInstruction", {}).pop("role", None)
    body.get("generationConfig", {}).get("thinkingConfig", {}).pop("thinkingBudget", None)
    for group in body.get("tools", []):
        for tool in group.get("functionDeclarations", []):
            tool["parametersJsonSchema"] = tool.pop("parameters", None) or tool["parametersJsonSchema"]
            if not tool.get("description"):
                tool.pop("description", None)
    contents: list[dict[str, Any]] = []
    for content in body["contents"]:
        parts = [plain_part(part) for part in content["parts"]]
        parts = [p for p in parts if p.get("thoughtSignature") or not (p.get("thought") or p.get("text") == "")]
        if contents and contents[-1]["role"] == content["role"]:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": content["role"], "parts": parts})
    for content in contents:
        content["parts"] = [part for part in content["parts"] if "From the result of" not in part.get("text", "")]
    return {name: value for name, value in {**body, "contents": contents}.items() if value}


def plain_part(part: dict[str, Any]) -> dict[str, Any]:
    if "functionResponse" in part:
        answer = part["functionResponse"]
        return {"functionResponse": {**answer, "response": wrap(answer["response"])}}
    return part


# ---------------------------------------------------------------- signatures

SIGNATURE = "Eq0eCqoeARFNMg+PV23RylZ9pV3L/_-=="
SIGNED = {"gemini": {"thoughtSignature": SIGNATURE}}


def round_of(*calls: ToolCall, origin: str = THREE.origin, before: tuple[Part, ...] = ()) -> list[Message]:
    results = tuple(ToolResult(call.key, call.name, (Text("ok"),)) for call in calls)
    return [Message("assistant", (*before, *calls), origin), Message("tool", results)]


def test_signatures_survive_storage_and_go_back_byte_for_byte_in_their_parts() -> None:
    history = [
        Message.user("hi"),
        *round_of(
            ToolCall("a", {}, "k0", "x1", provider_data={"gemini": {"thoughtSignature": SIGNATURE, "id": "x1"}}),
            ToolCall("a", {}, "k1", "call_1"),
            before=(Thinking("secret"), Thinking("hm", SIGNED)),
        ),
        Message("assistant", (Text("one"), Text("two", SIGNED), Text("", SIGNED)), THREE.origin),
        Message.user("more"),
    ]
    stored = [from_json(to_json(message), Message) for message in history]

    assert parts_of(body_of(*stored)) == [
        {"text": "hi"},
        {"text": "hm", "thought": True, "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "x1", "name": "a", "args": {}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"name": "a", "args": {}}},
        {"functionResponse": {"id": "x1", "name": "a", "response": {"result": "ok"}}},
        {"functionResponse": {"name": "a", "response": {"result": "ok"}}},
        {"text": "one"},
        {"text": "two", "thoughtSignature": SIGNATURE},
        {"text": "", "thoughtSignature": SIGNATURE},
        {"text": "more"},
    ]


@pytest.mark.parametrize("origin", ["gemini/gemini-2.5-flash", "vertex/gemini-3-flash", "anthropic/claude", None])
def test_what_another_model_signed_is_not_sent(origin: str | None) -> None:
    parts = (Thinking("hm", SIGNED), Text("", SIGNED), Text("said", SIGNED))
    calls = (ToolCall("a", {}, "k0", "toolu_1", provider_data=SIGNED), ToolCall("b", {}, "k1", provider_data=SIGNED))
    history = [Message.user("hi"), *round_of(*calls, origin=origin or "", before=parts)]

    body = body_of(*history)
    assert SIGNATURE not in json.dumps(body)
    assert [part for part in parts_of(body) if "functionCall" in part] == [
        {"functionCall": {"name": "a", "args": {}}, "thoughtSignature": NO_SIGNATURE},
        {"functionCall": {"name": "b", "args": {}}},
    ]
    assert NO_SIGNATURE not in json.dumps(body_of(*history, profile=OLDER.replace(model="other")))


def test_what_only_gemini_understands_goes_back_whole_to_its_model_and_as_text_to_others() -> None:
    code = {"executableCode": {"code": "1+1", "language": "PYTHON"}, "thoughtSignature": SIGNATURE}
    history = [
        Message.user("hi"),
        Message("assistant", (Opaque("executableCode", {"gemini": code}, "```\n1+1\n```"), Text("2")), THREE.origin),
        Message.user("and?"),
    ]

    assert parts_of(body_of(*history))[1] == code
    assert parts_of(body_of(*history, profile=OLDER))[1] == {"text": "```\n1+1\n```"}


def test_what_was_cited_stays_here() -> None:
    cited = {"gemini": {"groundingMetadata": {"webSearchQueries": ["x"]}}}
    body = body_of(Message.user("hi"), Message("assistant", (Text("so", cited),), THREE.origin), Message.user("ok"))

    assert parts_of(body)[1] == {"text": "so"}


# ---------------------------------------------------------------- names

anything = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=80)
ascii_names = st.from_regex(r"_{0,3}[0-9-]?[a-zA-Z0-9_-]{0,70}", fullmatch=True).filter(bool)


@given(st.one_of(anything, ascii_names))
def test_a_name_that_comes_back_is_the_one_that_was_sent(name: str) -> None:
    sent = gemini_name(name)

    assert re.fullmatch(r"[a-zA-Z_][\w.:-]{0,63}", sent, re.ASCII)
    is_whole = len(wire_name(name)) < 64 or not re.match(r"_*[0-9-]", wire_name(name))
    assert is_kept(name) or not is_whole
    if is_kept(name):
        assert called_name(sent) == called_name(f"default_api:{sent}") == wire_name(name)


@given(st.lists(ascii_names, min_size=2, max_size=2, unique_by=wire_name))
def test_two_names_do_not_become_one(names: list[str]) -> None:
    kept = [gemini_name(name) for name in names if is_kept(name)]

    assert len(set(kept)) == len(kept)


def test_a_long_name_with_a_hash_is_kept_and_one_that_cannot_be_is_refused() -> None:
    assert is_kept("3d." + "x" * 90)
    assert body_of(Message.user("hi"), tools=(ToolSchema("3d.render"),))["tools"][0]["functionDeclarations"] == [
        {"name": "_3d_render", "parametersJsonSchema": {"type": "object", "properties": {}}}
    ]
    with pytest.raises(ConfigError, match="begin its name with a letter"):
        body_of(Message.user("hi"), tools=(ToolSchema("3" * 64),))


# ---------------------------------------------------------------- results and media


def test_results_stand_together_by_name_and_place_before_what_the_user_says() -> None:
    calls = (ToolCall("a", {"n": 1}, "k0"), ToolCall("b", {}, "k1"), ToolCall("a", {}, "k2", problem="malformed"))
    results = (
        ToolResult("k0", "a", (Text("one"),)),
        ToolResult("k1", "b", (Text(" "),)),
        ToolResult("k2", "a", (Text("bad"),), is_error=True),
    )
    body = body_of(
        Message.user("hi"),
        Message("assistant", calls, THREE.origin),
        Message("tool", results[:1]),
        Message("tool", results[1:]),
        Message("user", (Text("go"), Recalled("known"))),
        notice="last round",
    )

    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert body["contents"][-1]["parts"] == [
        {"functionResponse": {"name": "a", "response": {"result": "one"}}},
        {"functionResponse": {"name": "b", "response": {"result": "(no output)"}}},
        {"functionResponse": {"name": "a", "response": {"error": "bad"}}},
        {"text": "known"},
        {"text": "go"},
        {"text": "last round"},
    ]


PICTURE = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}


def test_pictures_in_results_go_where_the_model_looks_for_them() -> None:
    history = [
        Message.user("hi"),
        Message("assistant", (ToolCall("look", {}, "k0"),)),
        Message("tool", (ToolResult("k0", "look", (Text("here"), Image("aGk="))),)),
    ]
    answer = {"name": "look", "response": {"result": "here"}}

    assert parts_of(body_of(*history))[2:] == [{"functionResponse": {**answer, "parts": [PICTURE]}}]
    assert parts_of(body_of(*history, profile=OLDER))[2:] == [
        {"functionResponse": answer},
        {"text": "From the result of look:"},
        PICTURE,
    ]
    blind = parts_of(body_of(*history, profile=THREE.replace(images=False)))[2]["functionResponse"]
    assert "left out" in blind["response"]["result"]
    assert "parts" not in blind


def test_pictures_and_files_of_the_user() -> None:
    user = Message.user(Image("aGk="), Image(url="https://x.org/a.JPG?s=1"), File("aGk=", name="a.pdf"))

    assert parts_of(body_of(user)) == [
        PICTURE,
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x.org/a.JPG?s=1"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
    ]
    blind = body_of(user, profile=THREE.replace(images=False, files=False))
    assert all("left out" in part["text"] for part in parts_of(blind))


def test_contents_that_would_begin_with_the_model_get_a_beginning() -> None:
    body = body_of(Message.assistant("welcome"), Message.user("hi"))

    assert body["contents"][0] == json.loads(BEGINNING)
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]


# ---------------------------------------------------------------- settings and addresses


@pytest.mark.parametrize(
    ("thinking", "mode", "written"),
    [
        (True, "budget", {"includeThoughts": True, "thinkingBudget": -1}),
        (False, "budget", {"thinkingBudget": 0}),
        (2048, "budget", {"includeThoughts": True, "thinkingBudget": 2048}),
        (True, "level", {"includeThoughts": True}),
        (False, "level", {"thinkingLevel": "low"}),
        ("high", "level", {"includeThoughts": True, "thinkingLevel": "high"}),
    ],
)
def test_thinking_is_asked_for_in_the_words_of_the_model(thinking: Any, mode: Any, written: dict[str, Any]) -> None:
    body = body_of(Message.user("hi"), profile=THREE.replace(thinking=mode), options=ModelOptions(thinking=thinking))

    assert body["generationConfig"] == {"thinkingConfig": written}


def test_settings_are_named_as_gemini_names_them_and_a_users_own_are_added() -> None:
    options = ModelOptions(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop=("END",),
        seed=7,
        extra_body={
            "generationConfig": {"seed": None, "responseModalities": ["TEXT"]},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        },
    )
    body = body_of(
        Message.user("hi"),
        options=options,
        profile=THREE.replace(max_output_tokens=100),
        max_tokens=500,
        system=("be brief", " "),
        tools=(ToolSchema("a", "does", input_examples=({"x": 1},)),),
        tool_choice="any",
        output_schema={"type": "object"},
    )

    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "responseModalities": ["TEXT"],
    }
    assert body["safetySettings"]
    assert body["systemInstruction"] == {"parts": [{"text": "be brief"}]}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert body["tools"][0]["functionDeclarations"][0]["description"] == 'does\nExample input: {"x":1}'


def test_what_is_in_a_cache_of_googles_is_not_sent_again() -> None:
    options = ModelOptions(extra_body={"cachedContent": "cachedContents/1"})
    body = body_of(Message.user("hi"), options=options, system=("s",), tools=(ToolSchema("a"),), tool_choice="auto")

    assert set(body) == {"cachedContent", "contents"}


REQUEST = ModelRequest(Transcript.of([Message.user("hi")]), ("s",), (ToolSchema("a"),), "auto", 9)
REGION = "https://us-central1-aiplatform.googleapis.com/v1/projects/P/locations/us-central1"


@pytest.mark.parametrize(
    ("base_url", "model", "platform", "url"),
    [
        ("https://g.com", "m", "", "https://g.com/v1beta/models/m:"),
        ("https://g.com/v1beta/", "m", "", "https://g.com/v1beta/models/m:"),
        ("https://g.com/v1", "models/m", "", "https://g.com/v1/models/m:"),
        ("https://g.com", "tunedModels/m", "", "https://g.com/v1beta/tunedModels/m:"),
        (REGION, "m", "vertex", f"{REGION}/publishers/google/models/m:"),
    ],
)
def test_addresses_and_keys(base_url: str, model: str, platform: str, url: str) -> None:
    codec, profile = GeminiCodec(platform=platform), THREE.replace(model=model)
    call = codec.encode(REQUEST, profile, base_url=base_url, api_key="k")
    count = codec.count_call(REQUEST, profile, base_url=base_url, api_key="k")

    assert call.url == url + "streamGenerateContent?alt=sse"
    assert count.url == url + "countTokens"
    key = {"authorization": "Bearer k"} if platform else {"x-goog-api-key": "k"}
    assert key.items() <= call.headers.items()
    assert key.items() <= count.headers.items()


def test_counting_sends_what_is_counted() -> None:
    counted = json.loads(GeminiCodec().count_call(REQUEST, THREE, base_url="http://h", api_key=None).body)
    on_vertex = json.loads(GeminiCodec(platform="vertex").count_call(REQUEST, THREE, base_url="h", api_key=None).body)

    assert counted == {"generateContentRequest": {"model": "models/gemini-3-flash", **on_vertex}}
    assert set(on_vertex) == {"systemInstruction", "tools", "contents"}


def test_a_provider_of_either_cloud_has_the_facts_of_its_model() -> None:
    at_google = GeminiProvider("gemini-3-flash-preview")
    on_vertex = GeminiProvider("gemini-3-flash-preview", provider="vertex", base_url=REGION)

    assert at_google.profile.replace(provider="vertex") == on_vertex.profile
    assert at_google.profile.call_signatures
    assert not profile_of("gemini", "gemini-2.5-pro").result_images
