"""What hooks and limits add to a tool call and to a model call, beside the same turn without them.

The bare and the governed turn are run one after another, so that a slow moment of the machine meets both.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

from benchmarks.rows import Row, cpu_around, median
from sapwood import Agent, HookResult, UsageLimits, tool
from sapwood.core.usage import Usage
from sapwood.testing import call, calls, says, scripted

CALLS = 200
RUNS = 15
BAR_US, BAR_RATIO = 80.0, 1.5
LIMITS = UsageLimits(
    total_tokens_limit=10**12,
    tool_calls_limit=10**9,
    requests_limit=10**9,
    tool_limits={"add": 10**9},
    seconds_limit=None,  # it would move plain tools to threads
)


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def watch(name: str, arguments: dict[str, Any]) -> HookResult | None:
    """Look, and let it pass."""
    return None


def check(name: str, arguments: dict[str, Any], text: str) -> HookResult | None:
    """Look, and let it stand."""
    return None


def limited(agent: Agent) -> Agent:
    """Return the agent with limits on the run and on the turn."""
    return agent.with_usage_limits(LIMITS, turn=LIMITS)


def hooked(agent: Agent) -> Agent:
    """Return the agent with one hook before and one after each call."""
    return agent.with_hooks(pre_tool_use=watch, post_tool_use=check)


def per_call(govern: Callable[[Agent], Agent]) -> float:
    """Return the microseconds of CPU for a round: one model call and one tool call, in a turn of 200."""
    script = [calls(call("add", {"a": n, "b": 1}, id=f"c{n}"), usage=Usage(100, 5)) for n in range(CALLS)]
    agent = Agent(llm=scripted(*script, says("done")), max_rounds=CALLS + 2, max_tokens=100_000_000)
    agent = govern(agent.with_tools([add]))

    async def turn() -> None:
        async for _ in agent.astream("go"):
            pass

    gc.collect()
    return cpu_around(lambda: asyncio.run(turn())) / (CALLS + 1) * 1e6


def run() -> list[Row]:
    """Measure each kind of governing beside none."""
    kinds: dict[str, Callable[[Agent], Agent]] = {
        "bare": lambda agent: agent,
        "limits": limited,
        "hooks": hooked,
        "limits and hooks": lambda agent: limited(hooked(agent)),
    }
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for govern in kinds.values():
        per_call(govern)
    for _ in range(RUNS):
        for name, govern in kinds.items():
            found[name].append(per_call(govern))
    costs = {name: median(values) for name, values in found.items()}
    bare = costs.pop("bare")
    rows = [Row("a round with one tool call, bare", f"{bare:.0f} µs")]
    for name, cost in costs.items():
        added, ratio = cost - bare, cost / bare
        rows.append(
            Row(
                f"… with {name}",
                f"+{added:.0f} µs ({ratio:.2f}×)",
                f"≤ +{BAR_US:.0f} µs, ≤ {BAR_RATIO}×",
                holds=added <= BAR_US and ratio <= BAR_RATIO,
            )
        )
    return rows
