"""What is known of models, by name, at gateways and clouds, and of names that nobody knows."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from wire_files import SMALL, whole_set

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile
from sapwood.llm.model_table import is_stamp, look_up, table
from sapwood.llm.pricing import Price, price_of
from sapwood.llm.profiles import profile_of, register_model
from sapwood.llm.registry import create_provider
from sapwood.llm.servers import servers
from support.load_module import load_module

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("fresh_facts")
# Names in the recordings that no row should know: misspelt, retired before the table, or models of one's own.
UNKNOWN = {
    "claude-sonet-4-5", "this-model-does-not-exist", "llama-3.3-70b-versatlie", "non-existent", "x/y",
    "minimax/minimax-m2:free", "nvidia/nemotron-3-ultra-550b-a55b:free", "qwen3-coder:30b",
}  # fmt: skip
PROVIDERS = {"google": "gemini", "llamacpp": "llamacpp"}


def known(name: str) -> ModelProfile:
    provider, _, model = name.partition("/")
    return profile_of(provider, model)


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_is_a_profile() -> None:
    count = 0
    for provider, rows in table().models.items():
        for name in rows:
            profile = profile_of(provider, name)
            assert profile.known, (provider, name)
            assert set(table().row(provider, name)) <= {*ModelProfile.__struct_fields__, "price"}
            assert profile.context_window > 0, (provider, name)
            assert 0 <= profile.max_output_tokens <= profile.context_window, (provider, name)
            count += 1
    assert count > 250


def test_every_server_has_a_row_that_is_a_profile() -> None:
    for name in {*(server.name for server in servers().values()), "gemini", "vertex", "ollama"}:
        assert name in table().providers, f"[providers.{name}] is missing in scripts/model_overrides.toml"
        assert profile_of(name, "no-such-model").provider == name


def test_every_other_name_of_a_server_is_known_to_the_table() -> None:
    for name, server in servers().items():
        assert table().vendor(name) == server.name


def test_what_a_name_is_taken_for_is_in_the_table() -> None:
    for name, row in table().providers.items():
        for target in row.families.values():
            assert target in table().models[name], (name, target)
        for vendor in (*row.like.values(), *row.by_vendor):
            assert vendor in table().providers


def test_the_table_is_small_and_says_where_it_is_from() -> None:
    path = ROOT / "src" / "sapwood" / "llm" / "models.json"
    assert path.stat().st_size < 120_000
    assert "MIT" in table().origin
    keys: list[str] = []
    json.loads(path.read_text("utf-8"), object_pairs_hook=lambda pairs: keys.append(_twice(pairs)) or dict(pairs))
    assert not any(keys), "a name stands twice"


def _twice(pairs: list[tuple[str, Any]]) -> str:
    names = [name for name, _ in pairs]
    return next((name for name in names if names.count(name) > 1), "")


def test_the_packaged_table_is_what_the_script_makes(capsys: pytest.CaptureFixture[str]) -> None:
    prices = pytest.importorskip("genai_prices")
    if f"genai-prices {prices.__version__}," not in table().origin:
        pytest.skip("another version of genai-prices")
    script = load_module(ROOT / "scripts" / "refresh_models.py")
    assert script.main(["--check"]) == 0, f"run scripts/refresh_models.py\n{capsys.readouterr().out}"


@pytest.mark.parametrize("folder", [SMALL, pytest.param(whole_set(), marks=pytest.mark.wire)])
def test_every_model_of_the_recordings_is_known_or_meant_to_be_unknown(folder: Path | None) -> None:
    if folder is None:
        pytest.skip("the whole set is not here")
    asked = {name for file in folder.glob("*.json") if file.name != "index.json" for name in _models(file)}
    assert asked
    missing = {
        f"{provider}/{model}"
        for provider, model in asked
        if not profile_of(provider, model).known and model not in UNKNOWN and not table().provider(provider).local
    }
    assert not missing


def _models(file: Path) -> set[tuple[str, str]]:
    document = json.loads(file.read_text("utf-8"))
    found: set[tuple[str, str]] = set()
    for exchange in document["exchanges"]:
        body = exchange["request"].get("body")
        model = body.get("model") if isinstance(body, dict) else None
        path = str(exchange["request"].get("path", ""))
        if model is None and "/models/" in path:
            model = path.rpartition("/models/")[2].partition(":")[0]
        provider = document["provider"]
        if provider == "multi":
            provider = {"g": "openai", "c": "anthropic"}.get(str(model)[:1], "openai")
            provider = "gemini" if str(model).startswith("gemini") else provider
        if model:
            found.add((provider, str(model).removeprefix("models/")))
    return found


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "is_edition"),
    [
        ("", True),
        ("-20250929", True),
        ("@20250929", True),
        ("-2024-08-06", True),
        ("-20250929-v1:0", True),
        ("-v2@20241022", True),
        ("-latest", True),
        ("-preview-05-06", True),
        ("-001", True),
        ("-5", False),
        (".9", False),
        ("-mini", False),
        ("-32k", False),
        ("o", False),
    ],
)
def test_only_a_date_and_the_like_leaves_a_model_the_same(rest: str, is_edition: bool) -> None:
    assert is_stamp(rest) == is_edition


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
        ("anthropic/Claude-Sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic/claude-sonnet-4-5"),
        ("bedrock/anthropic.claude-opus-4-8", "anthropic/claude-opus-4-8"),
        ("vertex/claude-sonnet-4-5@20250929", "anthropic/claude-sonnet-4-5"),
        ("vertex/gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("azure/gpt-5-nano", "openai/gpt-5-nano"),
        ("openrouter/anthropic/claude-haiku-4.5", "anthropic/claude-haiku-4-5"),
        ("openrouter/openai/gpt-4.1-mini:online", "openai/gpt-4.1-mini"),
        ("openrouter/x-ai/grok-4.3", "xai/grok-4.3"),
        ("openrouter/moonshotai/kimi-k3", "moonshot/kimi-k3"),
        ("huggingface/deepseek-ai/DeepSeek-R1:together", "deepseek/deepseek-r1"),
        ("google/gemini-2.5-flash", "gemini/gemini-2.5-flash"),
    ],
)
def test_a_model_is_found_wherever_it_is_served(name: str, like: str) -> None:
    provider, _, model = name.partition("/")
    found = look_up(provider, model)
    assert (found.like, found.is_exact) == (like, True)
    assert known(name).origin == name


def test_a_gateway_says_how_a_model_is_asked_and_the_vendor_what_it_is() -> None:
    direct, behind = known("openai/gpt-5.5"), known("openrouter/openai/gpt-5.5")
    of_model = ("context_window", "max_output_tokens", "images", "files", "refused_parameters")
    assert [getattr(behind, name) for name in of_model] == [getattr(direct, name) for name in of_model]
    assert (behind.max_tokens_field, behind.system_role, behind.tool_loading) == ("max_tokens", "system", "dispatch")
    assert (direct.max_tokens_field, direct.system_role) == ("max_completion_tokens", "developer")
    assert (behind.cache_key, direct.cache_key) == (False, True)


def test_a_gateway_asks_for_thinking_in_its_own_way_where_the_model_thinks() -> None:
    names = ("anthropic/claude-haiku-4.5", "anthropic/claude-3-haiku", "openai/gpt-4o", "some/body")
    assert [known(f"openrouter/{name}").thinking for name in names] == ["any", "none", "none", "any"]
    assert [known(f"openrouter/{name}").cache_marks for name in names] == [True, True, False, False]
    assert not known("openrouter/anthropic/claude-fable-5").forced_tool_choice


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("anthropic/claude-opus-5", {"cache_minimum_tokens": 512, "cache_ttls": ("5m", "1h"), "thinking": "adaptive"}),
        ("anthropic/claude-opus-4-7", {"cache_minimum_tokens": 2048, "cache_marks": True}),
        ("anthropic/claude-haiku-4-5", {"cache_minimum_tokens": 4096, "thinking": "budget"}),
        ("anthropic/claude-sonnet-4-6", {"cache_minimum_tokens": 1024, "refused_parameters": ()}),
        ("anthropic/claude-sonnet-5", {"refused_parameters": ("temperature", "top_p", "top_k")}),
        ("anthropic/claude-mythos-5", {"forced_tool_choice": False, "context_window": 1_000_000}),
        ("openai/o3", {"refused_parameters": ("temperature", "top_p"), "system_role": "developer"}),
        ("openai/o1-mini", {"system_role": "user", "images": False}),
        ("openai/gpt-5", {"refused_parameters": ("temperature", "top_p"), "context_window": 272_000}),
        ("openai/gpt-5.2", {"refused_parameters": (), "thinking": "effort"}),
        ("openai/gpt-5.4", {"tool_loading": "deferred", "cache_key": True}),
        ("openai/gpt-5.6-sol", {"context_window": 922_000, "refused_parameters": ("temperature", "top_p")}),
        ("azure/gpt-5.4", {"tool_loading": "dispatch", "cache_key": True}),
        ("gemini/gemini-2.5-pro", {"thinking": "budget", "context_window": 1_048_576, "cache_minimum_tokens": 2048}),
        ("gemini/gemini-3.5-flash", {"thinking": "level", "files": True, "cache_minimum_tokens": 4096}),
        ("mistral/mistral-small-latest", {"forced_word": "any", "short_call_ids": True, "stream_usage": False}),
        ("deepseek/deepseek-v4-flash", {"returned_thinking": "reasoning_content", "thinking": "switch"}),
        ("deepseek/deepseek-chat", {"context_window": 1_000_000, "max_tokens_field": "max_tokens"}),
        ("deepseek/deepseek-r1", {"returned_thinking": ""}),
        ("zai/glm-4.7", {"returned_thinking": "reasoning_content", "context_window": 200_000}),
        ("moonshot/kimi-k3", {"forced_tool_choice": False, "context_window": 1_048_576}),
        ("groq/openai/gpt-oss-120b", {"max_output_tokens": 65_536, "images": False}),
        ("xai/grok-4.3", {"context_window": 1_000_000, "thinking": "effort"}),
    ],
)
def test_models_differ_by_what_their_providers_say(name: str, facts: dict[str, Any]) -> None:
    profile = known(name)
    assert {fact: getattr(profile, fact) for fact in facts} == facts


# -- names that nobody knows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("anthropic/claude-opus-9-1", "anthropic/claude-opus-5-5"),
        ("anthropic/claude-opus-5-7", "anthropic/claude-opus-5"),
        ("openai/gpt-7", "openai/gpt-6-sol"),
        ("openai/gpt-5.9-mega", "openai/gpt-5"),
        ("openai/ft:gpt-4o-mini-2024-07-18:me::id", "openai/gpt-4o-mini"),
        ("gemini/gemini-9-flash", "gemini/gemini-3.8-flash"),
    ],
)
def test_an_unknown_model_is_taken_for_its_family_without_a_price_and_logged_once(
    name: str, like: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider, _, model = name.partition("/")
    with caplog.at_level(logging.DEBUG, "sapwood.llm"):
        first, second = known(name), known(name)

    other = known(like)
    assert first == second == other.replace(model=model, known=False)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"taken for {like}" in record.getMessage()
    assert f'register_model("{name}"' in record.getMessage()
    assert price_of(provider, model) is None


@pytest.mark.parametrize("name", ["ollama/qwen3", "vllm/facebook/opt-125m", "my-gateway/gpt-4o"])
def test_a_model_on_a_server_of_ones_own_is_no_news(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sapwood.llm"):
        assert not known(name).known
        create_provider("openai/qwen3", base_url="http://127.0.0.1:1/v1")
    assert not caplog.records


def test_a_server_that_is_not_in_the_table_may_say_whose_models_it_has() -> None:
    assert profile_of("acme", "gpt-5.5", facts_of="openai").replace(provider="openai") == known("openai/gpt-5.5")
    assert profile_of("acme", "gpt-5.5").tool_loading == "relist"


# -- what you say ----------------------------------------------------------------------------------------------------


def test_a_registered_model_has_the_facts_that_were_given_and_keeps_the_others() -> None:
    before = known("openai/gpt-4o")
    register_model("openai/gpt-4o", context_window=64_000, refused_parameters=["stop"])
    register_model("OpenAI/gpt-4o", images=False)
    assert known("openai/gpt-4o-2024-08-06") == before.replace(
        model="gpt-4o-2024-08-06", context_window=64_000, refused_parameters=("stop",), images=False
    )


def test_a_registered_model_holds_for_longer_names_that_nobody_names() -> None:
    register_model("openai/gpt-5", context_window=1_000, price=(1.0, 2.0))
    register_model("vllm/mine", images=True, price=Price(0.0, 0.0))
    assert (known("openai/gpt-5.9").context_window, known("openai/gpt-5.9").known) == (1_000, True)
    assert known("openai/gpt-5.4").context_window == 1_050_000
    assert price_of("openai", "gpt-5.9") == Price(1.0, 2.0)
    assert (known("vllm/mine-v2").images, known("vllm/mine-v2").known) == (True, True)
    assert price_of("vllm", "mine-v2") == Price(0.0, 0.0)


def test_another_word_for_the_provider_registers_the_same_model() -> None:
    register_model("google/gemini-x", context_window=7)
    assert known("gemini/gemini-x").context_window == 7


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("openai/x", {"context_windw": 5}, "did you mean 'context_window'"),
        ("openai/x", {"zzz": 5}, "there are: context_window"),
        ("openai/x", {"known": True}, "no fact 'known'"),
        ("openai/x", {"images": "yes"}, "does not fit"),
        ("openai/x", {"context_window": -5}, "context_window=-5 is below 0"),
        ("openai/x", {"tokens_per_estimate": -0.5}, "tokens_per_estimate=-0.5 is below 0"),
        ("openai/x", {"thinking": "sometimes"}, "does not fit"),
        ("gpt-4o", {"images": True}, "'provider/model'"),
        ("openai/", {"images": True}, "'provider/model'"),
        ("openai/x", {"price": Price(1, 2), "tiers": ()}, "no fact 'tiers'"),
    ],
)
def test_a_fact_that_does_not_exist_or_cannot_be_is_refused(name: str, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        register_model(name, **facts)
    assert price_of("openai", "x") is None
