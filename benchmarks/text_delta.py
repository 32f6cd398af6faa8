"""What one text delta costs from the codec's output to the user's `for`."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from benchmarks.rows import Row, cpu_around, median
from sapwood import Agent, Message
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk

DELTAS = 20_000
RUNS = 7
BAR_US = 3.0


class Deltas:
    """A model that yields the same ready-made chunks again and again."""

    profile = ModelProfile(provider="bench", model="deltas")

    def __init__(self, count: int) -> None:
        self._chunks: list[StreamChunk] = [TextChunk("word ")] * count
        self._chunks.append(Reply((Message.user("x").content[0],)))

    def stream(self, request: ModelRequest) -> "Deltas":
        return self

    def __iter__(self) -> Iterator[StreamChunk]:
        return iter(self._chunks)

    async def __aiter__(self) -> AsyncIterator[StreamChunk]:
        for chunk in self._chunks:
            yield chunk


def turn(count: int, *, is_async: bool) -> float:
    """Return the CPU seconds of a turn with this many deltas."""
    agent = Agent(llm=Deltas(count))  # type: ignore[arg-type]

    async def main() -> None:
        async for _ in agent.astream("go"):
            pass

    def blocking() -> None:
        for _ in agent.stream("go"):
            pass

    return cpu_around(lambda: asyncio.run(main())) if is_async else cpu_around(blocking)


def run() -> list[Row]:
    """Measure the difference between a long and an empty reply."""
    rows: list[Row] = []
    for name, is_async in (("sync", False), ("async", True)):
        turn(10, is_async=is_async)
        costs = [(turn(DELTAS, is_async=is_async) - turn(1, is_async=is_async)) / DELTAS * 1e6 for _ in range(RUNS)]
        cost = median(costs)
        rows.append(
            Row(f"one text delta, codec to `for`, {name}", f"{cost:.2f} µs", f"≤ {BAR_US:.0f} µs", holds=cost <= BAR_US)
        )
    return rows
