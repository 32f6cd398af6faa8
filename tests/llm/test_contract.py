"""The conformance kit, run for the five protocols of this library, and the kit itself on codecs that are wrong."""

import unittest
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from contract_samples import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES

from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk
from sapwood.llm.codec import HttpCall
from sapwood.llm.ollama import OllamaCodec
from sapwood.llm.ollama.decode import OllamaDecoder
from sapwood.testing.providers import ProviderContract, ProviderSamples


class TestAnthropic(ProviderContract):
    samples = ANTHROPIC


class TestChatCompletions(ProviderContract):
    samples = CHAT


class TestResponses(ProviderContract):
    samples = RESPONSES


class TestGemini(ProviderContract):
    samples = GEMINI


class TestOllama(ProviderContract):
    samples = OLLAMA


def contract(samples: ProviderSamples) -> ProviderContract:
    class Case(ProviderContract):
        pass

    Case.samples = samples
    return Case()


class Wrong(OllamaCodec):
    """A codec with the mistakes that are most often made, one at a time."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake
        self.count = 0

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        call = super().encode(request, profile, base_url=base_url, api_key=api_key)
        self.count += 1
        extra = {
            "puts the key into the body": f'{{"key":"{api_key}",'.encode(),
            "numbers its requests": b'{"number":%d,' % self.count,
        }.get(self.mistake, b"{")
        body = extra + call.body[1:]
        if self.mistake == "sends no pictures":
            body = body.replace(str(OLLAMA.picture).encode(), b"")
        if self.mistake == "keeps silent on pictures":
            body = body.replace(b"image", b"").replace(b"An ", b"")
        if self.mistake == "says the time first":
            body = body.replace(b'"messages":[', b'"messages":[{"role":"user","content":"request %d"},' % self.count)
        return HttpCall(call.url, call.headers, body)

    def decoder(self, profile: ModelProfile) -> OllamaDecoder:
        return WrongDecoder(profile, self.mistake)


class WrongDecoder(OllamaDecoder):
    def __init__(self, profile: ModelProfile, mistake: str) -> None:
        super().__init__(profile)
        self.mistake = mistake

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        if self.mistake == "trips over unknown events":
            msgspec.json.decode(data)["message"]
        chunks = super().feed(event, data)
        if self.mistake == "streams nothing":
            return ()
        return chunks

    def finish(self) -> Reply:
        if self.mistake == "takes a cut stream for an answer" and self._last is None:
            self._last = {"done": True}
        reply = super().finish()
        match self.mistake:
            case "forgets what must go back":
                parts: list[Any] = [
                    part.replace(provider_data=None) if part.type == "thinking" else part for part in reply.content
                ]
                return reply.replace(content=tuple(parts))
            case "counts twice":
                usage = reply.usage
                return reply.replace(usage=usage and usage + usage)
            case _:
                return reply


@pytest.mark.parametrize(
    ("mistake", "test"),
    [
        ("puts the key into the body", "test_the_request_goes_where_it_should_and_hides_its_key"),
        ("numbers its requests", "test_encoding_is_pure"),
        ("says the time first", "test_a_request_only_grows"),
        ("streams nothing", "test_text"),
        ("takes a cut stream for an answer", "test_a_cut_stream_is_never_a_success"),
        ("takes a cut stream for an answer", "test_a_broken_connection_is_a_transient_error"),
        ("forgets what must go back", "test_thinking_goes_back_as_it_came"),
        ("counts twice", "test_usage_adds_up"),
    ],
)
def test_the_kit_finds_a_codec_that(mistake: str, test: str) -> None:
    samples = msgspec.structs.replace(OLLAMA, codec=Wrong(mistake))
    with pytest.raises(AssertionError):
        getattr(contract(samples), test)()
    getattr(contract(OLLAMA), test)()


@pytest.mark.parametrize(
    ("mistake", "test", "said"),
    [
        ("sends no pictures", "test_images", r"not in the body as base64 .*images=True; .*picture=None"),
        ("sends no pictures", "test_images_in_results", r"a tool's result is not in the body as base64"),
        ("keeps silent on pictures", "test_images_in_results", r"left out without a word; put a text in its place"),
        ("trips over unknown events", "test_garbage_events", r"must be passed over, not end in .*KeyError"),
    ],
)
def test_a_failure_of_the_kit_says_what_to_do(mistake: str, test: str, said: str) -> None:
    samples = msgspec.structs.replace(OLLAMA, codec=Wrong(mistake))
    samples = msgspec.structs.replace(samples, profile=samples.profile.replace(images="no" in mistake.split()))
    with pytest.raises(AssertionError, match=said):
        getattr(contract(samples), test)()
    without = msgspec.structs.replace(samples, picture=None)
    if "images" in test:
        with pytest.raises(unittest.SkipTest, match="no pictures"):
            getattr(contract(without), test)()


def test_a_body_without_a_prompt_says_where_to_name_it() -> None:
    samples = msgspec.structs.replace(OLLAMA, prompt=lambda body: b"")
    with pytest.raises(AssertionError, match=r"no prompt was found in the body; say where it is"):
        contract(samples).test_a_request_only_grows()


def test_what_a_protocol_does_not_have_is_skipped_by_any_runner() -> None:
    with pytest.raises(unittest.SkipTest, match="no such thing"):
        contract(ProviderSamples(codec=OLLAMA.codec, profile=OLLAMA.profile, text=OLLAMA.text)).test_refusal()
