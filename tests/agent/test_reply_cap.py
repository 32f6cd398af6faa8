"""The cap on a reply: the agent's own, else what the provider was given, else a default."""

from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, FallbackProvider, create_provider
from support.replay_server import ReplayServer

WIRE = Path(__file__).parents[1] / "llm" / "wire" / "anthropic-messages-text-stream.json"


@pytest.mark.parametrize(
    ("given", "agents", "sent"),
    [(None, 1_024, 1_024), (8_000, 1_024, 8_000), (8_000, 2_000, 2_000), (500, 2_000, 500), (None, 2_000, 2_000)],
)
def test_whose_cap_counts(given: Any, agents: Any, sent: int) -> None:
    with ReplayServer(WIRE, on_exhausted="repeat") as server:
        provider = create_provider("anthropic/claude-sonnet-4-5", base_url=server.url, max_tokens=given)
        for llm in (provider, FallbackProvider([provider])):
            list(Agent(llm=llm, max_tokens=50_000, max_response_tokens=agents).chat("hi"))
            assert server.requests[-1]["body"]["max_tokens"] == sent
