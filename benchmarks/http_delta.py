"""What one text delta costs over loopback HTTP, beside the official SDK's own stream."""

import asyncio
from collections.abc import Callable

from benchmarks.endpoint import Endpoint
from benchmarks.rows import Row, cpu_around, has, median
from sapwood import Agent
from sapwood.llm.anthropic import AnthropicProvider

DELTAS = 1_000
TURNS = 10
RUNS = 5


def ours(url: str, transport: str, *, is_async: bool) -> Callable[[], None]:
    """Return a function that runs our turns."""
    from sapwood.llm.transport import Httpx2Transport
    from sapwood.llm.transport_aiohttp import AiohttpTransport

    carrier = AiohttpTransport() if transport == "aiohttp" else Httpx2Transport()
    provider = AnthropicProvider(f"text-{DELTAS}", base_url=url, api_key="k", transport=carrier)
    agent = Agent(llm=provider)

    async def main() -> None:
        for _ in range(TURNS):
            async for _event in agent.astream("go"):
                pass

    def blocking() -> None:
        for _ in range(TURNS):
            for _event in agent.stream("go"):
                pass

    return (lambda: asyncio.run(main())) if is_async else blocking


def sdk(url: str, *, is_async: bool) -> Callable[[], None]:
    """Return a function that streams the same replies with the official SDK alone."""
    import anthropic

    request = {"model": f"text-{DELTAS}", "max_tokens": 1024, "messages": [{"role": "user", "content": "go"}]}
    blocking_client = anthropic.Anthropic(base_url=url, api_key="k")

    async def main() -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            for _ in range(TURNS):
                async with client.messages.stream(**request) as stream:  # type: ignore[arg-type]
                    async for _event in stream:
                        pass

    def blocking() -> None:
        for _ in range(TURNS):
            with blocking_client.messages.stream(**request) as stream:  # type: ignore[arg-type]
                for _event in stream:
                    pass

    return (lambda: asyncio.run(main())) if is_async else blocking


def sdk_raw(url: str, *, is_async: bool) -> Callable[[], None]:
    """Return a function that reads the SDK's cheaper stream, without its accumulating helper."""
    import anthropic

    request = {"model": f"text-{DELTAS}", "max_tokens": 1024, "messages": [{"role": "user", "content": "go"}]}
    blocking_client = anthropic.Anthropic(base_url=url, api_key="k")

    async def main() -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            for _ in range(TURNS):
                async for _event in await client.messages.create(stream=True, **request):  # type: ignore[call-overload]
                    pass

    def blocking() -> None:
        for _ in range(TURNS):
            for _event in blocking_client.messages.create(stream=True, **request):  # type: ignore[call-overload]
                pass

    return (lambda: asyncio.run(main())) if is_async else blocking


def per_delta(work: Callable[[], None]) -> float:
    """Return the microseconds of CPU for one delta."""
    return cpu_around(work) / (TURNS * DELTAS) * 1e6


def run() -> list[Row]:
    """Measure ours and the SDK's in turn, for both ways of writing."""
    rows: list[Row] = []
    for write in ("event", "4096"):
        with Endpoint(write=write) as server:
            works = {
                "sync": ours(server.url, "httpx2", is_async=False),
                "async httpx2": ours(server.url, "httpx2", is_async=True),
            }
            if has("aiohttp"):
                works["async aiohttp"] = ours(server.url, "aiohttp", is_async=True)
            if has("anthropic"):
                works["sdk sync"] = sdk(server.url, is_async=False)
                works["sdk async"] = sdk(server.url, is_async=True)
                works["raw sync"] = sdk_raw(server.url, is_async=False)
                works["raw async"] = sdk_raw(server.url, is_async=True)
            found: dict[str, list[float]] = {name: [] for name in works}
            for work in works.values():
                work()
            for _ in range(RUNS):
                for name, work in works.items():
                    found[name].append(per_delta(work))
        rows += rows_of({name: median(values) for name, values in found.items()}, write)
    return rows


def rows_of(costs: dict[str, float], write: str) -> list[Row]:
    """Return our figures beside the peer's."""
    how = "an event a write" if write == "event" else f"{write}-byte writes"
    bars = {"sync": 0.5, "async httpx2": 0.7, "async aiohttp": 0.5}
    rows: list[Row] = []
    for name, share in bars.items():
        if name not in costs:
            continue
        kind = name.split()[0]
        peer, raw, cost = costs.get(f"sdk {kind}"), costs.get(f"raw {kind}"), costs[name]
        row = Row(f"one delta over HTTP, {name}, {how}", f"{cost:.1f} µs", f"≤ {share} of the SDK's")
        if peer is not None and raw is not None:
            shown = f"messages.stream {peer:.1f} µs ({cost / peer:.2f}×)"
            row.peer = f"{shown}, create(stream=True) {raw:.1f} µs ({cost / raw:.2f}×)"
            row.holds = cost <= share * peer
        rows.append(row)
    return rows
