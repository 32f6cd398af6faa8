"""Addresses: what people leave out of a base URL, and where an endpoint is below it."""

from typing import Any

import pytest

from sapwood import create_provider
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.addresses import endpoint_url, whole_address

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
HOST = "https://gw.example"
AZURE = "https://me.openai.azure.com"


def sent_to(model: str, base_url: str | None = None) -> str:
    provider: Any = create_provider(model, base_url=base_url, api_key="key")
    url: str = provider._call(REQUEST).url
    return url


@pytest.mark.parametrize(
    ("model", "base_url", "url"),
    [
        ("azure/gpt-5", f"{AZURE}/openai/v1?api-version=preview", f"{AZURE}/openai/v1/responses?api-version=preview"),
        ("azure/gpt-5", AZURE, f"{AZURE}/openai/v1/responses"),
        ("azure/gpt-5", f"{AZURE}/openai/", f"{AZURE}/openai/v1/responses"),
        ("azure/gpt-5", f"{HOST}/team/a", f"{HOST}/team/a/responses"),
        ("openai/gpt-5", "https://api.openai.com", "https://api.openai.com/v1/responses"),
        ("openai/gpt-5", "https://API.openai.com/v1/", "https://api.openai.com/v1/responses"),
        ("openai/gpt-5", f"{HOST}/v1/responses", f"{HOST}/v1/responses"),
        ("openai/gpt-5", f"{HOST}/v1/chat/completions/?a=b", f"{HOST}/v1/chat/completions?a=b"),
        ("groq/some", "https://api.groq.com", "https://api.groq.com/openai/v1/chat/completions"),
        ("anthropic/claude-haiku-4-5", f"{HOST}/v1/messages", f"{HOST}/v1/messages"),
        ("anthropic/claude-haiku-4-5", f"{HOST}/v1?a=b", f"{HOST}/v1/messages?a=b"),
        ("bedrock/claude-x", f"{HOST}/?a=b", f"{HOST}/model/claude-x/invoke-with-response-stream?a=b"),
        ("ollama/qwen3", f"{HOST}/api/chat?a=b", f"{HOST}/api/chat?a=b"),
        (
            "gemini/gemini-2.5-flash",
            f"{HOST}/v1?key=x",
            f"{HOST}/v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse&key=x",
        ),
    ],
)
def test_a_query_stays_at_the_end_and_no_path_comes_twice(model: str, base_url: str, url: str) -> None:
    assert sent_to(model, base_url) == url


@pytest.mark.parametrize(
    ("variable", "value", "model", "url"),
    [
        ("AZURE_OPENAI_ENDPOINT", f"{AZURE}/?api-version=v", "azure/x", f"{AZURE}/openai/v1/responses?api-version=v"),
        ("AZURE_OPENAI_ENDPOINT", f"{AZURE}/openai", "azure/x", f"{AZURE}/openai/v1/responses"),
        ("AZURE_OPENAI_ENDPOINT", f"{AZURE}/openai/v1/responses", "azure/x", f"{AZURE}/openai/v1/responses"),
        ("AZURE_OPENAI_ENDPOINT", f"{HOST}/team", "azure/x", f"{HOST}/team/openai/v1/responses"),
        ("OPENAI_BASE_URL", "https://api.openai.com", "openai/gpt-5", "https://api.openai.com/v1/responses"),
        ("OPENAI_BASE_URL", f"{HOST}/v1", "openai/gpt-5", f"{HOST}/v1/chat/completions"),
    ],
)
def test_an_address_of_the_environment_is_made_whole(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, model: str, url: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert sent_to(model) == url


@pytest.mark.parametrize("model", ["vertex/anthropic/claude-haiku-4-5", "vertex/Claude-haiku-4-5"])
def test_claude_on_vertex_is_known_by_any_spelling_of_its_name(model: str) -> None:
    assert sent_to(model, f"{HOST}/v1/projects/p") == (
        f"{HOST}/v1/projects/p/publishers/anthropic/models/claude-haiku-4-5:streamRawPredict"
    )


def test_tokens_are_counted_below_the_same_address() -> None:
    provider: Any = create_provider("anthropic/claude-haiku-4-5", base_url=f"{HOST}/v1/messages?a=b", api_key="key")
    call = provider._call(REQUEST, provider._codec.count_call)
    assert call.url == f"{HOST}/v1/messages/count_tokens?a=b"


def test_what_is_no_address_is_left_to_whoever_sends_to_it() -> None:
    for odd in ("http://[::1", "localhost:8000", ""):
        assert whole_address(odd, own="https://api.openai.com/v1") == odd
    assert endpoint_url("https://host#top", "/x") == "https://host/x"
