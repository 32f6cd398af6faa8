"""Tools that a provider runs itself: they show as events and parts, break no turn and go back whole."""

import asyncio
import json
from typing import Any

import pytest

from sapwood import Agent, create_provider, run_agent
from sapwood.core.codec import from_json, to_json
from sapwood.core.events import ServerToolFinished, ServerToolStarted
from sapwood.core.messages import Message
from sapwood.core.parts import AgentToolPart
from sapwood.testing import assert_ordered
from support.recordings import recording
from support.replay_server import ReplayServer

MODELS = {
    "anthropic.messages": "anthropic/claude-sonnet-4-5",
    "openai.responses": "openai-responses/gpt-5",
    "google.stream_generate_content": "gemini/gemini-3-flash-preview",
    "openai.chat": "groq/compound-beta",
}
RECORDINGS = [
    ("anthropic-messages-web-search-stream", "web_search"),
    ("anthropic-messages-code-execution-stream", "code_execution"),
    ("anthropic-messages-mcp-stream", ""),
    ("anthropic-messages-tool-search-stream", ""),
    ("openai-responses-web-search-annotations-stream", "web_search"),
    ("openai-responses-file-search-stream", "file_search"),
    ("openai-responses-tool-search-stream", "tool_search"),
    ("openai-responses-mcp-stream", ""),
    ("google-code-execution-stream", ""),
    ("groq-chat-compound-web-search-stream", "search"),
]


@pytest.mark.parametrize(("name", "tool"), RECORDINGS)
def test_a_tool_of_the_provider_shows_and_goes_back_whole(name: str, tool: str) -> None:
    document = recording(name)
    with ReplayServer(document, on_exhausted="repeat") as server:
        provider = create_provider(MODELS[document["api"]], base_url=server.url, api_key="k")
        agent = Agent(llm=provider, max_rounds=1)
        events = list(agent.stream("look it up"))
        assert_ordered(events)
        started = [event for event in events if isinstance(event, ServerToolStarted)]
        done = [event for event in events if isinstance(event, ServerToolFinished)]
        assert done
        assert {event.tool_call_id for event in done} <= {event.tool_call_id for event in started}
        assert any(tool in event.name for event in done)

        # What was stored survives JSON, and the next request holds every block of the provider's own.
        kept = [from_json(to_json(message), Message) for message in agent.last_messages]
        list(agent.stream("go on", messages=kept))
        sent = json.dumps(server.requests[-1]["body"], sort_keys=True)
        for message in kept:
            for part in message.content:
                if part.type == "opaque" and part.kind not in ("message", "container"):
                    (own,) = part.provider_data.values()
                    assert json.dumps(own, sort_keys=True) in sent

        server.reset()

        async def parts() -> list[Any]:
            return [part async for part in run_agent(client=provider, prompt="look it up", max_steps=1)]

        shown = [part for part in asyncio.run(parts()) if isinstance(part, AgentToolPart)]
        assert [part.name for part in shown if part.provider_executed] == [event.name for event in done]
        assert [part.args for part in shown if part.provider_executed] == [
            next(start.tool_input for start in started if start.tool_call_id == event.tool_call_id) for event in done
        ]
