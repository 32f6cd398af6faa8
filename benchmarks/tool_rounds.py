"""Ten tool rounds over loopback HTTP, beside a bare loop on the official SDK and beside pydantic-ai."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.endpoint import Endpoint
from benchmarks.rows import Row, has, median
from sapwood import Agent, tool
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.transport import Httpx2Transport, Transport
from sapwood.llm.transport_aiohttp import AiohttpTransport

MODEL = "tools-10"
TURNS = 10
RUNS = 7
TOOL = {
    "name": "add",
    "description": "Add.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
Turn = Callable[[], Coroutine[Any, Any, None]]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def ours(url: str, transport: Transport) -> Turn:
    """Return a turn of ours."""
    provider = AnthropicProvider(MODEL, base_url=url, api_key="k", transport=transport)
    agent = Agent(llm=provider, max_rounds=20).with_tools([add])

    async def turn() -> None:
        async for _ in agent.astream("go"):
            pass

    return turn


def sdk(url: str) -> Turn:
    """Return a hand-written loop on the official SDK."""
    import anthropic

    clients: list[Any] = []

    async def turn() -> None:
        if not clients:
            clients.append(anthropic.AsyncAnthropic(base_url=url, api_key="k"))
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            request: dict[str, Any] = {"model": MODEL, "max_tokens": 1024, "messages": messages, "tools": [TOOL]}
            async with clients[0].messages.stream(**request) as stream:
                async for _ in stream.text_stream:
                    pass
                reply = await stream.get_final_message()
            if reply.stop_reason != "tool_use":
                return
            shown = {"type", "id", "name", "input", "text"}
            messages.append(
                {
                    "role": "assistant",
                    "content": [b.model_dump(exclude_none=True, include=shown) for b in reply.content],
                }
            )
            results = [
                {"type": "tool_result", "tool_use_id": b.id, "content": str(b.input["a"] + b.input["b"])}
                for b in reply.content
                if b.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results})

    return turn


def pydantic_ai(url: str) -> Turn:
    """Return a turn of pydantic-ai."""
    import anthropic
    from pydantic_ai import Agent as Peer
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider as PeerProvider
    from pydantic_ai.usage import UsageLimits

    agents: list[Any] = []

    async def turn() -> None:
        if not agents:
            client = anthropic.AsyncAnthropic(base_url=url, api_key="k")
            agent = Peer(AnthropicModel(MODEL, provider=PeerProvider(anthropic_client=client)))
            agent.tool_plain(add.fn)
            agents.append(agent)
        async with agents[0].run_stream_events("go", usage_limits=UsageLimits(request_limit=100)) as events:
            async for _ in events:
                pass

    return turn


async def measured(turns: dict[str, Turn]) -> dict[str, float]:
    """Return the milliseconds of CPU for a turn of each, taken in turn."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        await turn()
    for _ in range(RUNS):
        for name, turn in turns.items():
            began = time.process_time()
            for _turn in range(TURNS):
                await turn()
            found[name].append((time.process_time() - began) / TURNS * 1e3)
    return {name: median(values) for name, values in found.items()}


def run() -> list[Row]:
    """Measure all in one event loop."""
    with Endpoint() as server:
        turns: dict[str, Turn] = {"httpx2": ours(server.url, Httpx2Transport())}
        if has("aiohttp"):
            turns["aiohttp"] = ours(server.url, AiohttpTransport())
        if has("anthropic"):
            turns["sdk"] = sdk(server.url)
        if has("pydantic_ai") and has("anthropic"):
            turns["pydantic-ai"] = pydantic_ai(server.url)
        costs = asyncio.run(measured(turns))
    rows: list[Row] = []
    for transport in ("httpx2", "aiohttp"):
        for peer, share, name in (("sdk", 1 / 2, "a bare SDK loop"), ("pydantic-ai", 1 / 3, "pydantic-ai")):
            if transport not in costs:
                continue
            cost = costs[transport]
            row = Row(f"10 tool rounds over HTTP, {transport}", f"{cost:.1f} ms", f"≤ {share:.2f} of {name}")
            if peer in costs:
                row.peer = f"{name} {costs[peer]:.1f} ms ({cost / costs[peer]:.2f}×)"
                row.holds = cost / costs[peer] <= share
            else:
                row.remark = f"{peer} is not installed"
            rows.append(row)
    return rows
