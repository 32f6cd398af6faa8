"""Providers by name, and what the table knows of models."""

import json
import subprocess
import sys

import pytest
from wire_files import wire_file

from sapwood.core.errors import AuthenticationError, ConfigError, ProviderNotInstalledError
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.gemini import GeminiProvider
from sapwood.llm.ollama import OllamaProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider
from sapwood.llm.pricing import price_of
from sapwood.llm.profiles import profile_of
from sapwood.llm.registry import create_provider, register_provider
from sapwood.llm.scripted import says, scripted
from support.replay_server import ReplayServer

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))


@pytest.mark.parametrize(
    ("name", "kind", "origin"),
    [
        ("anthropic/claude-sonnet-4-5", AnthropicProvider, "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", AnthropicProvider, "anthropic/claude-sonnet-4-5"),
        ("gemini/gemini-3-flash", GeminiProvider, "gemini/gemini-3-flash"),
        ("google/gemini-3-flash", GeminiProvider, "gemini/gemini-3-flash"),
        ("vertex/gemini-3-flash", GeminiProvider, "vertex/gemini-3-flash"),
        ("vertex/claude-sonnet-4-5", AnthropicProvider, "vertex/claude-sonnet-4-5"),
        ("ollama/qwen3:8b", OllamaProvider, "ollama/qwen3:8b"),
        ("OpenAI/gpt-4o", OpenAIResponsesProvider, "openai/gpt-4o"),
        ("openai/org/model:free", OpenAIResponsesProvider, "openai/org/model:free"),
        ("openai-chat/gpt-4o", OpenAIChatProvider, "openai/gpt-4o"),
        ("openai-responses/gpt-4o", OpenAIResponsesProvider, "openai/gpt-4o"),
        ("xai/grok-4.3", OpenAIResponsesProvider, "xai/grok-4.3"),
        ("xai-chat/grok-4.3", OpenAIChatProvider, "xai/grok-4.3"),
        ("azure/gpt-5", OpenAIResponsesProvider, "azure/gpt-5"),
        ("deepseek/deepseek-chat", OpenAIChatProvider, "deepseek/deepseek-chat"),
    ],
)
def test_a_name_makes_its_provider(name: str, kind: type, origin: str) -> None:
    provider = create_provider(name, api_key="k", max_tokens=5)

    assert isinstance(provider, kind)
    assert provider.profile.origin == origin


def test_another_server_under_openai_is_asked_over_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = create_provider("openai/qwen3", base_url="http://127.0.0.1:8000/v1")
    named = create_provider("openai/qwen3", provider="local", base_url="http://127.0.0.1:8000/v1")
    settled = create_provider("openai-responses/qwen3", base_url="http://127.0.0.1:8000/v1")
    own = create_provider("openai/gpt-5", base_url="https://api.openai.com/v1/")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    told = create_provider("openai/qwen3")

    assert [type(provider) for provider in (passed, named, told)] == [OpenAIChatProvider] * 3
    assert [type(provider) for provider in (settled, own)] == [OpenAIResponsesProvider] * 2
    assert not settled.profile.encrypted_thinking
    assert own.profile.encrypted_thinking


def test_an_unknown_provider_lists_the_known_ones_and_the_way_out() -> None:
    with pytest.raises(
        ProviderNotInstalledError, match=r"known: anthropic, azure, .*openrouter, .*base_url="
    ) as caught:
        create_provider("acme/rocket-1")
    assert "openai/rocket-1" in str(caught.value)


@pytest.mark.parametrize("name", ["", "  ", "openai/", "anthropic/ "])
def test_an_empty_model_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="empty"):
        create_provider(name)


def test_a_provider_may_be_added() -> None:
    register_provider("Mine", lambda model, **options: scripted(says(f"{model} {options}")))
    try:
        provider = create_provider("mine/m1", base_url="http://x")
        assert [*provider.stream(ModelRequest(Transcript()))][-1].content[0].text == "m1 {'base_url': 'http://x'}"
    finally:
        from sapwood.llm import registry

        registry._factories.pop("mine")
    with pytest.raises(ConfigError, match="without a slash"):
        register_provider("a/b", lambda model: scripted())


@pytest.mark.parametrize(
    ("provider", "model", "window", "output"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", 200_000, 64_000),
        ("anthropic", "claude-opus-4-8", 1_000_000, 128_000),
        ("anthropic", "claude-opus-4-1-20250805", 200_000, 32_000),
        ("anthropic", "claude-of-the-future", 200_000, 8_192),
        ("openai", "gpt-5.4-mini", 272_000, 128_000),
        ("openai", "gpt-5.4", 1_050_000, 128_000),
        ("openai", "gpt-4.1-mini", 1_047_576, 32_768),
        ("groq", "openai/gpt-oss-120b", 131_072, 65_536),
        ("ollama", "qwen3", 0, 0),
    ],
)
def test_the_longest_beginning_of_a_name_tells_what_is_known(
    provider: str, model: str, window: int, output: int
) -> None:
    profile = profile_of(provider, model)

    assert (profile.context_window, profile.max_output_tokens) == (window, output)
    assert (profile.provider, profile.model) == (provider, model)


def test_providers_differ_by_data() -> None:
    claude, gpt, o3 = (
        profile_of(*name.split("/")) for name in ("anthropic/claude-haiku-4-5", "openai/gpt-4o", "openai/o3")
    )

    assert (claude.cache_marks, gpt.cache_marks) == (True, False)
    assert (claude.max_tokens_field, gpt.max_tokens_field) == ("max_tokens", "max_completion_tokens")
    assert (gpt.system_role, o3.system_role) == ("system", "developer")
    assert not profile_of("anthropic", "claude-fable-5").forced_tool_choice
    assert [p.tool_loading for p in (claude, gpt, profile_of("ollama", "qwen3"))] == ["deferred", "dispatch", "relist"]


def test_a_cloud_has_the_facts_of_each_maker_whose_models_it_serves() -> None:
    claude, gemini = (create_provider(f"vertex/{name}").profile for name in ("claude-haiku-4-5", "gemini-2.5-pro"))

    assert (claude.cache_marks, claude.max_output_tokens) == (True, 64_000)
    assert (gemini.context_window, gemini.thinking) == (1_048_576, "budget")


def test_a_model_that_only_another_server_knows_is_asked_the_plain_way() -> None:
    local = OpenAIChatProvider("qwen3", base_url="http://127.0.0.1:8000/v1").profile
    known = OpenAIChatProvider("gpt-4o", base_url="http://127.0.0.1:8000/v1").profile

    assert (local.max_tokens_field, local.system_role, local.tool_loading) == ("max_tokens", "system", "relist")
    assert known.max_tokens_field == "max_completion_tokens"


def test_prices_stand_beside_the_facts() -> None:
    price = price_of("anthropic", "claude-haiku-4-5")

    assert price is not None
    assert (price.input, price.output, price.cache_read, price.cache_write) == (1, 5, 0.1, 1.25)
    assert price_of("ollama", "qwen3") is None


def test_making_a_provider_imports_no_http_client() -> None:
    code = (
        "import sys; from sapwood.llm.registry import create_provider; create_provider('claude-x'); "
        "create_provider('openai/gpt-4o'); create_provider('gemini/gemini-3-flash'); create_provider('ollama/qwen3'); "
        "print([m for m in ('httpx2', 'aiohttp', 'asyncio', 'pydantic', 'ssl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "options", "variable", "is_sent"),
    [
        ("openai/m", {"provider": "my-gateway", "base_url": "https://gateway.example/v1"}, "MY_GATEWAY_API_KEY", True),
        ("openai/gpt-4o", {"base_url": "https://api.openai.com/v1/"}, "OPENAI_API_KEY", True),
        ("openai/gpt-4o", {"base_url": "https://elsewhere.example/v1"}, "OPENAI_API_KEY", False),
        ("deepseek/m", {"base_url": "https://elsewhere.example/v1"}, "DEEPSEEK_API_KEY", False),
        ("vllm/m", {"base_url": "http://10.0.0.7:8000/v1"}, "VLLM_API_KEY", True),
        ("bedrock/anthropic.m", {"base_url": "https://bedrock.example"}, "AWS_BEARER_TOKEN_BEDROCK", True),
        ("vertex/m", {"base_url": "https://vertex.example/v1"}, "VERTEX_ACCESS_TOKEN", True),
        ("azure/m", {"base_url": "https://mine.openai.azure.com/openai/v1"}, "AZURE_OPENAI_API_KEY", True),
    ],
)
def test_where_a_key_of_the_environment_goes(
    monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, str], variable: str, is_sent: bool
) -> None:
    monkeypatch.setenv(variable, "SECRET-KEY")
    call = create_provider(name, **options)._call(REQUEST)  # type: ignore[attr-defined]
    assert any("SECRET-KEY" in value for value in call.headers.values()) == is_sent


def test_a_key_that_is_kept_back_is_named_where_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET-KEY")
    document = json.loads(wire_file("anthropic-messages-error-401").read_text("utf-8"))
    with ReplayServer(document, match="order", on_exhausted="repeat") as server:
        provider = create_provider("openai/gpt-4o", base_url=f"{server.url}/v1")
        with pytest.raises(AuthenticationError, match=r"OPENAI_API_KEY is set, but goes .* pass api_key=") as caught:
            list(provider.stream(REQUEST))  # type: ignore[arg-type]
    assert "SECRET-KEY" not in str(caught.value)
    with pytest.raises(AuthenticationError, match="no key: set OPENAI_API_KEY"):
        monkeypatch.delenv("OPENAI_API_KEY")
        list(create_provider("openai/gpt-4o", base_url="https://api.openai.com/v1/").stream(REQUEST))  # type: ignore[arg-type]
