"""What a reply costs, to the token, and what is said where nobody knows."""

import json
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile
from sapwood.core.usage import Usage
from sapwood.llm import pricing
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.openai import ChatCodec
from sapwood.llm.pricing import MODEL_PRICING, Price, cost_of, price_of
from sapwood.llm.profiles import register_model

pytestmark = pytest.mark.usefixtures("fresh_facts")
PROFILE = ModelProfile(provider="p", model="m")
TEN_AND_ONE = Price(10.0, 50.0, cache_read=1.0)


@pytest.fixture
def without_genai_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricing, "_genai_prices", lambda: None)


def anthropic_usage(**usage: Any) -> Usage:
    body = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": usage}
    return _usage(AnthropicCodec().decoder(PROFILE).whole(json.dumps(body).encode()).usage)


def openai_usage(**usage: Any) -> Usage:
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}
    return _usage(ChatCodec().decoder(PROFILE).whole(json.dumps(body).encode()).usage)


def _usage(usage: Usage | None) -> Usage:
    assert usage is not None
    return usage


# -- one cost for one use --------------------------------------------------------------------------------------------


def test_use_02_cached_tokens_inside_or_beside_the_input_cost_the_same() -> None:
    beside = anthropic_usage(input_tokens=12, cache_read_input_tokens=8_000, output_tokens=0)
    inside = openai_usage(
        prompt_tokens=8_012, completion_tokens=0, prompt_tokens_details={"cached_tokens": 8_000}, total_tokens=8_012
    )

    for usage in (beside, inside):
        assert (usage.input_tokens, usage.cache_read_tokens, usage.prompt_tokens) == (8_012, 8_000, 12)
        assert TEN_AND_ONE.cost(usage) * 1_000_000 == pytest.approx(12 * 10 + 8_000 * 1)


def test_b22_cached_tokens_of_openai_are_counted_once() -> None:
    usage = openai_usage(
        prompt_tokens=100, completion_tokens=5, prompt_tokens_details={"cached_tokens": 80}, total_tokens=105
    )
    cost = cost_of(usage, "openai", "gpt-4o")

    assert usage.total_tokens == 105
    assert cost == pytest.approx((20 * 2.5 + 80 * 1.25 + 5 * 10) / 1e6)
    assert cost is not None
    assert cost <= 0.0003


def test_b43_cache_reads_have_their_own_price() -> None:
    usage = Usage(prompt_tokens=0, cache_read_tokens=1_000_000)
    assert cost_of(usage, "anthropic", "claude-sonnet-4-6") == pytest.approx(0.3)
    assert cost_of(usage, "openai", "gpt-5") == pytest.approx(0.125)


def test_b43_the_cost_of_an_unknown_model_is_not_known_and_said_once(
    caplog: pytest.LogCaptureFixture, without_genai_prices: None
) -> None:
    with caplog.at_level(logging.WARNING, "sapwood.llm"):
        costs = [cost_of(Usage(5, 5), "openai", "gpt-of-tomorrow") for _ in range(3)]

    assert costs == [None, None, None]
    (record,) = caplog.records
    assert 'MODEL_PRICING["openai/gpt-of-tomorrow"]' in record.getMessage()


def test_the_price_of_a_model_of_ones_own_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sapwood.llm"):
        assert cost_of(Usage(5, 5), "ollama", "qwen3") is None
    assert not caplog.records


def test_what_the_provider_billed_comes_first() -> None:
    assert cost_of(Usage(5, 5, cost_usd=0.125), "openai", "gpt-4o") == 0.125
    assert cost_of(Usage(5, 5, cost_usd=0.0), "openai", "gpt-of-tomorrow") == 0.0


def test_a_price_that_is_known_later_counts_from_then_on(without_genai_prices: None) -> None:
    assert cost_of(Usage(1_000_000), "openai", "gpt-of-tomorrow") is None
    register_model("openai/gpt-of-tomorrow", price=(3.0, 9.0))
    assert cost_of(Usage(1_000_000), "openai", "gpt-of-tomorrow") == 3.0


# -- kinds of tokens -------------------------------------------------------------------------------------------------


def test_what_is_kept_for_an_hour_has_its_own_price() -> None:
    usage = anthropic_usage(
        input_tokens=0,
        output_tokens=0,
        cache_creation_input_tokens=1_000_000,
        cache_creation={"ephemeral_5m_input_tokens": 600_000, "ephemeral_1h_input_tokens": 400_000},
    )
    assert cost_of(usage, "anthropic", "claude-opus-4-8") == pytest.approx(0.6 * 6.25 + 0.4 * 10)


@pytest.mark.parametrize(
    ("price", "usage", "dollars"),
    [
        (Price(2.0, 8.0), Usage(cache_read_tokens=1_000_000), 2.0),
        (Price(2.0, 8.0), Usage(cache_creation_tokens=1_000_000), 2.0),
        (Price(2.0, 8.0), Usage(cache_creation_tokens=1_000_000, long_cache_tokens=1_000_000), 2.0),
        (Price(2.0, 8.0, cache_write=2.5), Usage(cache_creation_tokens=1_000_000, long_cache_tokens=500_000), 2.5),
        (Price(2.0, 8.0, cache_read=0.0), Usage(cache_read_tokens=1_000_000), 0.0),
        (Price(2.0, 8.0), Usage(completion_tokens=1_000_000, thinking_tokens=900_000), 8.0),
        (Price(0.0, 0.0), Usage(5, 5), 0.0),
    ],
)
def test_a_price_that_is_not_given_is_the_next_plainer_one(price: Price, usage: Usage, dollars: float) -> None:
    assert price.cost(usage) == pytest.approx(dollars)


_tokens = st.integers(0, 1_000_000)


@given(prompt=_tokens, output=_tokens, write=_tokens, read=_tokens, long=_tokens)
def test_every_token_is_priced_once(prompt: int, output: int, write: int, read: int, long: int) -> None:
    usage = Usage(prompt, output, write, read, long_cache_tokens=min(long, write))
    assert Price(1.0, 1.0).cost(usage) * 1e6 == pytest.approx(usage.total_tokens)


# -- long contexts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("gemini/gemini-2.5-pro", Usage(200_000), 200_000 * 1.25),
        ("gemini/gemini-2.5-pro", Usage(200_001), 200_001 * 2.5),
        ("gemini/gemini-2.5-pro", Usage(100, 1_000, 0, 200_000), 100 * 2.5 + 200_000 * 0.25 + 1_000 * 15),
        ("openai/gpt-5.6-sol", Usage(272_000, 1_000), 272_000 * 4 + 1_000 * 20),
        ("openai/gpt-5.6-sol", Usage(272_001, 1_000), 272_001 * 8 + 1_000 * 30),
        ("openai/gpt-5.2", Usage(272_001), 272_001 * 1.75),
        ("xai/grok-4.3", Usage(200_000), 200_000 * 2.5),
    ],
)
def test_a_long_request_costs_more_all_of_it_cached_input_counted(model: str, usage: Usage, dollars: float) -> None:
    assert cost_of(usage, *model.split("/")) == pytest.approx(dollars / 1e6)


def test_the_highest_tier_that_is_passed_counts() -> None:
    price = Price(1.0, 1.0, tiers=((300, Price(3.0, 3.0)), (200, Price(2.0, 2.0))))
    assert [price.at(size).input for size in (200, 201, 300, 301)] == [1.0, 2.0, 2.0, 3.0]


# -- where a price is found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "price_in"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", 1),
        ("openai", "gpt-4o-2024-08-06", 2.5),
        ("openai", "gpt-4o-2024-05-13", 5),
        ("openai", "gpt-5-pro", 15),
        ("openai", "gpt-5-mega", None),
        ("openai", "gpt-5.9", None),
        ("anthropic", "claude-opus-9", None),
        ("openrouter", "anthropic/claude-haiku-4.5", 1),
        ("openrouter", "google/gemini-2.0-flash-exp:free", None),
        ("huggingface", "deepseek-ai/DeepSeek-R1", None),
        ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", 3),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3),
        ("vertex", "claude-sonnet-4-5@20250929", 3),
        ("azure", "gpt-5-nano", 0.05),
        ("perplexity", "sonar", None),
        ("acme", "gpt-4o", None),
        ("ollama", "gpt-oss:120b", None),
    ],
)
def test_a_price_holds_for_its_model_and_its_editions_only(provider: str, model: str, price_in: float | None) -> None:
    price = price_of(provider, model)
    assert (price and price.input) == price_in


def test_your_price_holds_for_every_name_that_begins_so_and_that_no_longer_key_names() -> None:
    MODEL_PRICING["openai/gpt-5"] = Price(7.0, 7.0)
    assert [_in("openai", name) for name in ("gpt-5", "gpt-5-mega", "gpt-5.9", "gpt-5-mini", "gpt-4o")] == [
        7.0, 7.0, 7.0, 0.25, 2.5,
    ]  # fmt: skip
    MODEL_PRICING["ollama/"] = (0.0, 0.0)
    assert cost_of(Usage(5, 5), "ollama", "qwen3") == 0.0


def test_a_key_without_a_provider_holds_for_all_of_them() -> None:
    MODEL_PRICING["gpt-4o"] = (9.0, 9.0)
    assert [_in(provider, "gpt-4o") for provider in ("openai", "azure", "acme")] == [9.0, 9.0, 9.0]
    MODEL_PRICING["openai/gpt-4o"] = (8.0, 8.0)
    assert _in("openai", "gpt-4o-2024-08-06") == 8.0


def test_another_word_for_the_provider_is_the_same_key() -> None:
    MODEL_PRICING["google/gemini-2.5-PRO"] = (1.0, 1.0)
    assert _in("gemini", "gemini-2.5-pro") == 1.0
    assert MODEL_PRICING["gemini/gemini-2.5-pro"] == Price(1.0, 1.0)


def _in(provider: str, model: str) -> float | None:
    price = price_of(provider, model)
    return price and price.input


def test_the_table_behaves_like_a_dictionary() -> None:
    size = len(MODEL_PRICING)
    assert size > 200
    assert MODEL_PRICING["openai/gpt-4o"].output == 10
    MODEL_PRICING["a/b"] = (1.0, 2.0)
    assert len(MODEL_PRICING) == size + 1 == len(list(MODEL_PRICING))
    assert "a/b" in MODEL_PRICING
    assert MODEL_PRICING.pop("a/b") == Price(1.0, 2.0)
    del MODEL_PRICING["openai/gpt-4o"]
    assert price_of("openai", "gpt-4o") is None
    assert MODEL_PRICING.get("openai/gpt-4o") is None
    assert repr(MODEL_PRICING) == f"<{size - 1} prices>"
    for gone in ("openai/gpt-4o", "a/b"):
        with pytest.raises(KeyError):
            del MODEL_PRICING[gone]


@pytest.mark.parametrize(
    "change",
    [
        lambda: Price(-1.0, 2.0),
        lambda: Price(1.0, float("nan")),
        lambda: Price(1.0, 2.0, cache_read=float("inf")),
        lambda: MODEL_PRICING.__setitem__("openai/x", "cheap"),  # type: ignore[arg-type]
        lambda: MODEL_PRICING.__setitem__("openai/x", 5.0),  # type: ignore[arg-type]
        lambda: MODEL_PRICING.__setitem__("/x", (1.0, 2.0)),
        lambda: MODEL_PRICING.__setitem__("", (1.0, 2.0)),
    ],
)
def test_what_cannot_be_a_price_is_refused(change: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        change()


# -- genai-prices ----------------------------------------------------------------------------------------------------


def test_genai_prices_knows_what_the_table_does_not() -> None:
    pytest.importorskip("genai_prices")
    usage = Usage(1_000_000, 0, 0, 1_000_000)
    assert price_of("openrouter", "minimax/minimax-m2") is None
    cost = cost_of(usage, "openrouter", "minimax/minimax-m2")
    assert cost is not None
    assert cost > 0


@pytest.mark.parametrize(("provider", "model"), [("openai", "gpt-of-tomorrow"), ("gemini", "gemma-4-31b-it")])
def test_genai_prices_without_a_price_is_no_price(provider: str, model: str) -> None:
    pytest.importorskip("genai_prices")
    assert cost_of(Usage(5, 5), provider, model) is None


def test_genai_prices_agrees_on_what_both_know() -> None:
    pytest.importorskip("genai_prices")
    usage = Usage(1_000, 500, 300, 7_000, long_cache_tokens=100)
    for provider, model in [
        ("anthropic", "claude-sonnet-4-6"),
        ("openai", "gpt-5.2"),
        ("openai", "gpt-5.6-sol"),
        ("gemini", "gemini-2.5-pro"),
        ("xai", "grok-4.3"),
        ("bedrock", "us.anthropic.claude-opus-4-8"),
    ]:
        theirs = pricing._cost_elsewhere(usage, provider, model)
        assert cost_of(usage, provider, model) == pytest.approx(theirs), model


def test_genai_prices_is_asked_last_and_not_for_models_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def calc_price(usage: Any, model: str, *, provider_id: str) -> Any:
        asked.append((provider_id, model))
        return SimpleNamespace(total_price=0.5)

    fake = SimpleNamespace(Usage=lambda **fields: fields, calc_price=calc_price)
    monkeypatch.setattr(pricing, "_genai_prices", lambda: fake)

    assert cost_of(Usage(1_000_000), "openai", "gpt-4o") == 2.5
    assert cost_of(Usage(5), "vllm", "mine") is None
    assert cost_of(Usage(5), "acme", "mine") is None
    assert cost_of(Usage(5), "x-ai", "grok-99") == 0.5
    assert asked == [("x-ai", "grok-99")]


def test_without_genai_prices_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert pricing._genai_prices.__wrapped__() is None
