"""The two protocols that join results to calls by name: any history becomes a request that they take."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_history_properties import conversation, files, results, texts, user, words

from sapwood.core.messages import Message, Opaque, Text, Thinking, ToolCall
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.gemini.encode import encode_body as encode_gemini
from sapwood.llm.ollama.encode import encode_body as encode_ollama
from sapwood.llm.options import ModelOptions
from sapwood.testing.strict import check_gemini_body, check_ollama_body
from support.examples import examples

THREE = ModelProfile("gemini", "three", call_signatures=True)
OLDER = ModelProfile("gemini", "older", result_images=False, images=False)
LOCAL = ModelProfile("ollama", "some")
Encode = Callable[[ModelRequest], bytes]

signed = st.sampled_from([None, {"gemini": {"thoughtSignature": "c2ln/+="}}, {"anthropic": {"signature": "s"}}])
named = st.sampled_from([None, {"gemini": {"id": "x1"}}, {"gemini": {"id": "x1", "thoughtSignature": "c2ln/+="}}])
calls = st.builds(
    ToolCall,
    st.sampled_from(["read", "notes.list", "3d", "_3d", "默"]),
    st.sampled_from([{}, {"a": 1}]),
    st.sampled_from(["", "r0c0", "r0c1", "r1c0"]),
    st.sampled_from(["", "call_0"]),
    problem=st.sampled_from([None, "malformed"]),
    provider_data=named,
)
opaque = st.just(Opaque("executableCode", {"gemini": {"executableCode": {"code": "1"}}}, "1"))
assistant = st.lists(
    st.one_of(st.builds(Text, words, signed), st.builds(Thinking, words, signed), calls, opaque, files, texts),
    max_size=4,
)
origins = st.sampled_from([None, THREE.origin, OLDER.origin, LOCAL.origin, "anthropic/some"])
messages = st.one_of(
    user.map(lambda parts: Message("user", tuple(parts))),
    st.builds(lambda parts, origin: Message("assistant", tuple(parts), origin), assistant, origins),
    results.map(lambda parts: Message("tool", tuple(parts))),
)


def gemini(profile: ModelProfile) -> Encode:
    return lambda request: encode_gemini(request, profile, ModelOptions())


def ollama(request: ModelRequest) -> bytes:
    return encode_ollama(request, LOCAL, ModelOptions())


ENCODERS = [gemini(THREE), gemini(OLDER), ollama]


@examples(300)
@given(st.lists(messages, max_size=8), st.sampled_from([None, "last round"]))
def test_any_history_is_taken_by_a_strict_provider(history: list[Message], notice: str | None) -> None:
    request = ModelRequest(Transcript.of(history), ("be brief", " "), notice=notice)

    for profile in (THREE, OLDER):
        body: dict[str, Any] = json.loads(gemini(profile)(request))
        check_gemini_body(body, require_signatures=profile.call_signatures)
        own = [message for message in history if message.origin == profile.origin]
        if not own:
            assert "c2ln" not in json.dumps(body)  # what another model signed
    check_ollama_body(json.loads(ollama(request)))


@examples(200)
@given(st.lists(messages, max_size=8), st.data())
def test_what_is_kept_is_what_encoding_anew_gives(history: list[Message], data: st.DataObject) -> None:
    branch = Transcript()
    seen: list[tuple[Transcript, list[bytes]]] = []
    for message in Transcript.of(history):
        branch = branch.extend([message])
        if data.draw(st.booleans()):
            seen.append((branch, [encode(ModelRequest(branch)) for encode in ENCODERS]))

    for transcript, first in seen:  # the shorter ones again, after more was kept
        fresh = Transcript().extend(list(transcript))
        assert [encode(ModelRequest(fresh)) for encode in ENCODERS] == first
        assert [encode(ModelRequest(transcript)) for encode in ENCODERS] == first


@pytest.mark.parametrize("encode", ENCODERS, ids=["three", "older", "ollama"])
def test_a_longer_request_starts_with_the_shorter_one(encode: Encode) -> None:
    before: list[Any] = []
    branch = Transcript()
    for message in conversation(6):
        branch = branch.extend([message])
        if message.tool_calls:
            continue  # no request is made before its calls are answered
        body = json.loads(encode(ModelRequest(branch)))
        found = body.get("contents") or body["messages"]
        assert found[: len(before)] == before
        before = found


@pytest.mark.parametrize("encode", ENCODERS, ids=["three", "older", "ollama"])
def test_a_branch_keeps_what_it_shares(encode: Encode) -> None:
    shared = Transcript().extend(conversation(2))
    encode(ModelRequest(shared))
    one, other = (shared.extend([Message.user(word)]) for word in ("one", "other"))

    for branch in (one, other):
        assert encode(ModelRequest(branch)) == encode(ModelRequest(Transcript().extend(list(branch))))
