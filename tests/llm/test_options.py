"""Options of a provider: checked when it is made, and what they make of a request's cap."""

import json
from typing import Any

import pytest

from sapwood import create_provider
from sapwood.core.errors import ConfigError
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.codec import Timeouts
from sapwood.llm.options import ModelOptions, model_options, reply_cap

ASKED = ModelRequest(Transcript.of([Message.user("hi")]), max_tokens=1_000)


def body(name: str, **options: Any) -> dict[str, Any]:
    provider: Any = create_provider(name, api_key="k", **options)
    sent: dict[str, Any] = json.loads(provider._call(ASKED).body)
    return sent


@pytest.mark.parametrize(
    ("name", "options", "cap"),
    [
        ("anthropic/claude-haiku-4-5", {}, 1_000),
        ("anthropic/claude-haiku-4-5", {"thinking": True}, 1_000 + 4_096),
        ("anthropic/claude-haiku-4-5", {"thinking": 2_000}, 3_000),
        ("anthropic/claude-haiku-4-5", {"thinking": False}, 1_000),
        ("anthropic/claude-sonnet-4-6", {"thinking": "low"}, 9_192),
        ("anthropic/claude-3-5-haiku", {}, 1_000),
        ("openai/gpt-5", {}, 9_192),
        ("openai/gpt-5", {"thinking": False}, 1_000),
        ("openai/gpt-5.4", {}, 1_000),
        ("openai-chat/o3", {}, 9_192),
        ("gemini/gemini-2.5-flash", {}, 9_192),
        ("gemini/gemini-2.5-flash", {"thinking": 0}, 1_000),
        ("gemini/gemini-2.5-flash", {"thinking": 500}, 1_500),
        ("deepseek/deepseek-reasoner", {}, 9_192),
        ("openrouter/openai/gpt-5", {}, 9_192),
        ("groq/llama-3.3-70b-versatile", {}, 1_000),
    ],
)
def test_a_model_that_thinks_gets_room_for_that_on_top_of_its_answer(name: str, options: Any, cap: int) -> None:
    sent = body(name, **options)
    fields = {**sent, **sent.get("generationConfig", {})}
    (found,) = (
        fields[key]
        for key in ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
        if key in fields
    )
    assert found == cap
    budget = sent.get("thinking", {}).get("budget_tokens", 0)
    assert budget < cap


def test_a_cap_that_the_provider_was_given_is_sent_as_it_is() -> None:
    open_end = ModelRequest(ASKED.transcript)
    thinks = ModelProfile(thinks=True, max_output_tokens=5_000)
    assert reply_cap(open_end, ModelOptions(max_tokens=700), thinks) == 700
    assert reply_cap(open_end, ModelOptions(), thinks) == 0
    assert reply_cap(ASKED, ModelOptions(), thinks) == 5_000
    assert reply_cap(ASKED, ModelOptions(max_tokens=700), thinks) == 700
    assert reply_cap(ASKED, ModelOptions(max_tokens=1_000), ModelProfile(thinks=True)) == 1_000
    assert reply_cap(ASKED, ModelOptions(max_tokens=2_000), ModelProfile()) == 1_000
    assert reply_cap(open_end, ModelOptions(max_tokens=700, thinking=2_000), ModelProfile(thinking="budget")) == 2_700


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("openai/gpt-4o", {"temprature": 1}, "did you mean 'temperature'"),
        ("openai/gpt-4o", {"zzz": 1}, "there are: base_url"),
        ("openai/gpt-4o", {"thinking": True}, "does not think on demand"),
        ("openai/gpt-5", {"thinking": 4_000}, "takes a level as thinking=, not 4000"),
        ("anthropic/claude-haiku-4-5", {"thinking": "high"}, "takes a number of tokens as thinking="),
        ("anthropic/claude-opus-5-5", {"thinking": False}, "always thinks"),
        ("anthropic/claude-haiku-4-5", {"betas": "context-1m"}, "must be a list of names"),
        ("anthropic/claude-haiku-4-5", {"thinking": 10}, "10 is too little for .*: 1,024 tokens at least"),
        ("anthropic/claude-haiku-4-5", {"thinking": 64_000}, "64000 leaves none for an answer"),
        ("anthropic/claude-haiku-4-5", {"thinking": -1}, "is no number of tokens; give True"),
        ("gemini/gemini-2.5-flash", {"thinking": -1}, "is no number of tokens; give True"),
        ("openai/gpt-5", {"thinking": "hgih"}, r"'hgih' is no level .*did you mean 'high'"),
        ("openai/gpt-5", {"thinking": 0.5}, "thinking must be True, False, a number of tokens or a level, not 0.5"),
        ("openai/gpt-5", {"max_tokens": -3}, "max_tokens must be a whole number above 0, not -3"),
        ("openai/gpt-5", {"max_tokens": "12"}, "max_tokens must be a whole number above 0, not '12'"),
        ("openai/gpt-5", {"max_tokens": True}, "max_tokens must be a whole number above 0, not True"),
        ("openai/gpt-4o", {"temperature": "hot"}, "temperature must be a number from 0 up, not 'hot'"),
        ("openai/gpt-4o", {"top_p": 7}, "top_p must be a number from 0 to 1, not 7"),
        ("openai/gpt-4o", {"timeouts": 5}, r"timeouts must be Timeouts\(.*, not 5"),
        ("openai/gpt-4o", {"timeouts": Timeouts(0.0)}, "of seconds above 0, not Timeouts"),
        ("openai/gpt-4o", {"transport": 5}, "transport must be an object that sends, .*, not 5"),
        ("openai/gpt-4o", {"api_key": b"secret"}, "api_key must be a text, not bytes"),
        ("openai/gpt-4o", {"base_url": 5}, "base_url must be an address, .*, not 5"),
        ("openai/gpt-4o", {"provider": 5}, "provider must be a provider's name, not 5"),
        ("openai/gpt-4o", {"profile": 5}, "profile must be a ModelProfile, not 5"),
        ("openai/gpt-4o", {"extra_body": [1]}, r"extra_body must be a dictionary of fields, not \[1\]"),
        ("openai/gpt-4o", {"extra_headers": {"x": 5}}, "extra_headers must be a dictionary of texts, not {'x': 5}"),
        ("openai/gpt-4o", {"stop": 5}, "stop must be a text or a list of texts, none of them empty, not 5"),
        ("openai/gpt-4o", {"stop": ["END", ""]}, "none of them empty"),
        ("openai/gpt-4o", {"betas": [5]}, "betas must be a list of names, not"),
    ],
)
def test_an_option_that_cannot_work_is_refused_when_the_provider_is_made(name: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_provider(name, **options)


def test_a_sampling_parameter_that_the_model_refuses_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("WARNING", "sapwood.llm"):
        assert "temperature" not in body("anthropic/claude-opus-4-8", temperature=0.5)
    assert "anthropic/claude-opus-4-8 does not take temperature" in caplog.text
    assert body("anthropic/claude-haiku-4-5", temperature=0.5, stop=["END"], top_k=3) | {
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "top_k": 3,
    } == body("anthropic/claude-haiku-4-5", temperature=0.5, stop=("END",), top_k=3)
    assert model_options({"stop": ["a", "b"]}, ModelProfile()).stop == ("a", "b")


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({"temperature": 0.5, "top_k": 3, "top_p": 0.5}, ["temperature", "top_k", "top_p"]),
        ({"temperature": 1, "top_p": 0.97}, []),
    ],
)
def test_what_anthropic_refuses_beside_thinking_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], left_out: list[str]
) -> None:
    with caplog.at_level("WARNING", "sapwood.llm"):
        sent = body("anthropic/claude-haiku-4-5", thinking=2_000, **options)
    assert [name for name in options if name not in sent] == left_out
    assert ("does not take temperature, top_k, top_p while it thinks" in caplog.text) == bool(left_out)
    calm = body("anthropic/claude-haiku-4-5", thinking=False, **options)
    assert calm.items() >= options.items()
