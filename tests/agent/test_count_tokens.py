"""How many tokens a request has, before it is sent: our estimate, or the provider's own count."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, Message, create_memory_store, create_provider, memory_source, tool
from sapwood.core.errors import ConfigError
from sapwood.llm.fallback import FallbackProvider
from sapwood.testing import says, scripted
from support.replay_server import ReplayServer

WIRE = Path(__file__).parents[1] / "llm" / "wire"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_an_estimate_is_what_the_ledger_of_the_first_round_says() -> None:
    store = create_memory_store()
    store.save("The user's boat is called Aurora.")
    model = scripted(says("Aurora"))
    agent = Agent(llm=model).with_system_prompt("Be brief.").with_tools([add]).with_sources([memory_source(store)])
    past = [Message.user("hello"), Message.assistant("hi")]
    counted = agent.count_tokens("What is my boat called?", messages=past)
    assert counted == asyncio.run(agent.acount_tokens("What is my boat called?", messages=past))
    assert model.requests == []

    list(agent.chat("What is my boat called?", messages=past))
    assert agent.last_result is not None
    assert agent.last_result.ledger is not None
    assert counted == agent.last_result.ledger.estimated_tokens


@pytest.mark.parametrize(
    ("recording", "model"),
    [
        ("anthropic-messages-count-tokens", "anthropic/claude-sonnet-4-5"),
        ("openai-responses-count-tokens-tools", "openai-responses/gpt-5"),
    ],
)
def test_an_exact_count_is_the_providers_own(recording: str, model: str) -> None:
    with ReplayServer(WIRE / f"{recording}.json", on_exhausted="repeat") as server:
        provider = create_provider(model, base_url=server.url, api_key="k")
        for llm in (provider, FallbackProvider([provider])):
            agent = Agent(llm=llm).with_system_prompt("Be brief.").with_tools([add])
            server.reset()
            counted = agent.count_tokens("Hello", exact=True)
            server.reset()
            assert counted == asyncio.run(agent.acount_tokens("Hello", exact=True)) > 0
        sent: dict[str, Any] = server.requests[-1]["body"]
    assert "Be brief." in str(sent)
    assert sent["tools"][0]["name"] == "add"
    assert not {"stream", "max_tokens", "max_output_tokens"} & set(sent)


def test_who_cannot_count_says_so() -> None:
    with pytest.raises(ConfigError, match="scripted/scripted cannot count tokens"):
        Agent(llm=scripted()).count_tokens("Hello", exact=True)
    with pytest.raises(ConfigError, match="no endpoint that counts"):
        Agent("groq/llama-3.3-70b-versatile", api_key="k").count_tokens("Hello", exact=True)
