"""Every recorded reply of the protocols that we speak, cut in every way."""

import asyncio
import json
from typing import Any

import pytest
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core.errors import LLMError
from sapwood.core.messages import Message, Text, Thinking, ToolCall
from sapwood.core.model import ModelRequest, Reply, StreamChunk, TextChunk, ThinkingChunk, ToolDeltaChunk
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import Decoder
from sapwood.llm.gemini import GeminiCodec, GeminiProvider
from sapwood.llm.ollama import OllamaCodec, OllamaProvider
from sapwood.llm.openai import ChatCodec, OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider, ResponsesCodec
from sapwood.llm.profiles import profile_of
from sapwood.testing.provider_deltas import require_deltas
from support.replay_server import Faults, ReplayServer, split_bytes

GEMINI = ("google.generate_content", "google.stream_generate_content")
APIS = ("anthropic.messages", "openai.chat", "openai.responses", "ollama.chat", *GEMINI)
HERE = exchanges(SMALL, *APIS)
ALL = [item for item in exchanges(whole_set(), *APIS) if item.name not in {known.name for known in HERE}]
CASES = [pytest.param(item, id=item.name) for item in HERE] + (
    [pytest.param(item, id=item.name, marks=pytest.mark.wire) for item in ALL]
    or [pytest.param(None, id="whole-set", marks=pytest.mark.skip("the whole set of recordings is not here"))]
)
OK = [case for case in CASES if case.values[0] is None or case.values[0].response["status"] == 200]
REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
NO_REPLY = {"openai-responses-background-poll#0"}  # it says that the reply is still to come
Outcome = tuple[list[StreamChunk], tuple[str, str, bool] | None]


def decoder_of(exchange: Exchange) -> Decoder:
    if exchange.api == "anthropic.messages":
        return AnthropicCodec().decoder(profile_of("anthropic", "some"))
    if exchange.api in GEMINI:
        return GeminiCodec().decoder(profile_of("gemini", "some"))
    if exchange.api == "ollama.chat":
        return OllamaCodec().decoder(profile_of("ollama", "some"))
    if exchange.api == "openai.responses":
        return ResponsesCodec().decoder(profile_of("openai", "some"))
    return ChatCodec().decoder(profile_of("openai", "some"))


def provider_of(exchange: Exchange, url: str) -> BaseLLMProvider:
    if exchange.api == "anthropic.messages":
        return AnthropicProvider("some", base_url=url)
    if exchange.api in GEMINI:
        return GeminiProvider("some", base_url=url)
    if exchange.api == "ollama.chat":
        return OllamaProvider("some", base_url=url)
    if exchange.api == "openai.responses":
        return OpenAIResponsesProvider("some", base_url=url)
    return OpenAIChatProvider("some", base_url=url)


def decode(exchange: Exchange, how: str) -> Outcome:
    decoder, splitter, chunks = decoder_of(exchange), exchange.splitter(), list[StreamChunk]()
    try:
        if splitter is None:
            return [decoder.whole(exchange.body)], None
        for piece in split_bytes(exchange.body, how):
            for name, data in splitter.feed(piece):
                chunks += decoder.feed(name, data)
        for name, data in splitter.finish():
            chunks += decoder.feed(name, data)
        chunks.append(decoder.finish())
    except LLMError as error:
        return chunks, (type(error).__name__, error.message, error.is_transient)
    return chunks, None


@pytest.mark.parametrize("exchange", OK)
def test_a_reply_is_the_same_however_its_bytes_are_cut(exchange: Exchange) -> None:
    expected = decode(exchange, "whole")

    for how in ("event", "awkward", "byte", "random") if exchange.is_stream else ():
        assert decode(exchange, how) == expected, how
    chunks, error = expected
    if error is None:
        reply = chunks[-1]
        assert isinstance(reply, Reply)
        if exchange.is_stream:  # what was streamed is what the reply holds
            assert said(chunks) == said_by(reply)
            require_deltas(chunks, reply)
            calls = [part for part in reply.content if isinstance(part, ToolCall)]
            streams = exchange.api not in ("ollama.chat", *GEMINI)
            assert any(isinstance(chunk, ToolDeltaChunk) for chunk in chunks) == (bool(calls) and streams)
    else:
        assert "error" in exchange.name or "malformed" in exchange.name or exchange.name in NO_REPLY


def said(chunks: list[StreamChunk]) -> tuple[str, str]:
    texts = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return texts, "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk))


def said_by(reply: Reply) -> tuple[str, str]:
    texts = "".join(part.text for part in reply.content if isinstance(part, Text))
    return texts, "".join(part.text for part in reply.content if isinstance(part, Thinking))


@pytest.mark.parametrize("exchange", OK)
def test_no_token_is_lost_or_counted_twice(exchange: Exchange) -> None:
    chunks, error = decode(exchange, "whole")
    if error is not None:
        return
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    expected = raw_total(exchange)

    assert (reply.usage is None) == (expected is None)
    usage = reply.usage or Usage()
    parts = (usage.prompt_tokens, usage.cache_read_tokens, usage.cache_creation_tokens, usage.completion_tokens)
    assert sum(parts) == usage.total_tokens == (expected or 0)
    assert min(parts) >= 0


def raw_total(exchange: Exchange) -> int | None:
    """All tokens of a reply, by the raw figures of the provider."""
    if exchange.api == "ollama.chat":
        last = raw_values(exchange)[-1]
        return int(last["prompt_eval_count"] + last["eval_count"])
    if exchange.api in GEMINI:
        return int(raw_values(exchange)[-1]["usageMetadata"]["totalTokenCount"])
    found: dict[str, Any] = {}
    for value in raw_values(exchange):
        groq = value.get("x_groq") or {}
        response = value.get("response") or {}
        for holder in (value, value.get("message") or {}, response, groq if "usage" not in value else {}):
            found.update({k: v for k, v in (holder.get("usage") or {}).items() if v is not None})
    if not found:
        return None
    if exchange.api != "anthropic.messages":
        return int(found["total_tokens"])
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(row.get(name) or 0 for row in found.get("iterations") or [found] for name in names)


def raw_values(exchange: Exchange) -> list[dict[str, Any]]:
    text = exchange.body.decode()
    if not exchange.is_stream or text.lstrip().startswith("["):
        found = json.loads(text)
        return found if isinstance(found, list) else [found]
    lines = [line.removeprefix("data:") for line in text.split("\n") if line.startswith(("data:", "{"))]
    return [json.loads(line) for line in lines if "[DONE]" not in line]


@pytest.mark.parametrize("exchange", CASES)
def test_over_http_sync_and_async_give_the_same(exchange: Exchange) -> None:
    # We always stream; the server finds a recording by the verb in its address.
    path = str(exchange.request.get("path", "")).replace(":generateContent", ":streamGenerateContent")
    played = exchange._replace(request={**exchange.request, "path": path})
    document = {"id": exchange.name, "api": exchange.api, "exchanges": [played._asdict()]}
    expected = None
    if exchange.response["status"] == 200 and exchange.is_stream:
        expected = decode(exchange, "whole")
    with ReplayServer(document, on_exhausted="repeat") as server:
        provider = provider_of(exchange, server.url)
        for how in ("event", "awkward"):
            server.faults = Faults(split=how)
            outcomes = [ask(provider), asyncio.run(aask(provider))]
            assert outcomes[0] == outcomes[1]
            if expected is not None:
                assert without_id(outcomes[0]) == without_id(expected)


def ask(provider: BaseLLMProvider) -> Outcome:
    chunks: list[StreamChunk] = []
    try:
        chunks.extend(provider.stream(REQUEST))
    except LLMError as error:
        check_context(error, provider)
        return chunks, (type(error).__name__, error.message, error.is_transient)
    return chunks, None


async def aask(provider: BaseLLMProvider) -> Outcome:
    chunks: list[StreamChunk] = []
    try:
        async for chunk in provider.stream(REQUEST):
            chunks += [chunk]
    except LLMError as error:
        check_context(error, provider)
        return chunks, (type(error).__name__, error.message, error.is_transient)
    return chunks, None


def check_context(error: LLMError, provider: BaseLLMProvider) -> None:
    assert (error.provider, error.model) == (provider.profile.provider, "some")
    assert error.status


def without_id(outcome: Outcome) -> Outcome:
    chunks, error = outcome
    return [c.replace(request_id=None) if isinstance(c, Reply) else c for c in chunks], error
