"""A thousand concurrent streaming turns in one process, the sender in a process of its own.

`python -m benchmarks.many_turns receive URL TRANSPORT TURNS` is the receiving process; it prints one line of JSON.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.rows import ROOT, Row, has

TURNS = 1_000
RATE = 10.0
SECONDS = 20.0
OPENING_SECONDS = 20.0
BAR_P99_MS, BAR_RSS_MB, BAR_EVENT_US = 100.0, 250.0, 100.0
STEPS = (15.0, 20.0, 25.0, 30.0)
STEP_SECONDS = 5.0


class Window:
    """What is measured: from when every turn has had its first delta until the first turn ends."""

    def __init__(self, turns: int) -> None:
        self.waiting = turns
        self.delays: list[float] = []
        self.began = 0.0
        self.cpu = 0.0
        self.seconds = 0.0
        self.is_open = False

    def first(self) -> None:
        """Note that a turn had its first delta."""
        self.waiting -= 1
        if not self.waiting:
            self.is_open, self.began, self.cpu = True, time.monotonic(), time.process_time()

    def ended(self) -> None:
        """Note that a turn ended."""
        if self.is_open:
            self.is_open = False
            self.cpu = time.process_time() - self.cpu
            self.seconds = time.monotonic() - self.began


async def receive(url: str, transport: str, turns: int) -> dict[str, Any]:
    """Run the turns and return what was seen. Delays are in seconds, from the sender's clock to the user's `for`."""
    from sapwood import Agent, TextDelta
    from sapwood.llm.anthropic import AnthropicProvider
    from sapwood.llm.transport import Httpx2Transport
    from sapwood.llm.transport_aiohttp import AiohttpTransport

    carrier = AiohttpTransport() if transport == "aiohttp" else Httpx2Transport()
    agent = Agent(llm=AnthropicProvider("tick", base_url=url, api_key="k", transport=carrier))
    window = Window(turns)
    complete = 0

    async def turn() -> None:
        nonlocal complete
        is_first = True
        async for event in agent.astream("go"):
            if type(event) is not TextDelta:
                continue
            if is_first:
                is_first = False
                window.first()
            if window.is_open:
                window.delays.append(time.monotonic() - float(event.text))
        window.ended()
        complete += 1

    tasks: list[asyncio.Task[None]] = []
    for _ in range(turns):  # a few hundred a second, as users would come
        tasks.append(asyncio.create_task(turn()))
        await asyncio.sleep(0.003)
    await asyncio.gather(*tasks, return_exceptions=True)
    delays = sorted(window.delays) or [float("inf")]
    return {
        "complete": complete,
        "events": len(window.delays),
        "seconds": window.seconds,
        "p50": delays[len(delays) // 2],
        "p99": delays[int(len(delays) * 0.99)],
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cpu_us": window.cpu / max(1, len(window.delays)) * 1e6,
    }


def measure(transport: str, rate: float, seconds: float) -> dict[str, Any]:
    """Return what one receiving process saw at this rate."""
    sender = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ticking", str(rate), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert sender.stdout is not None
        url = sender.stdout.readline().strip()
        command = [sys.executable, "-m", "benchmarks.many_turns", "receive", url, transport, str(TURNS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=300)
    finally:
        sender.terminate()
        sender.wait()
        if sender.stdout is not None:
            sender.stdout.close()
    seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return seen


def run() -> list[Row]:
    """Measure with each transport that is installed, then raise the rate until the delay passes its bar."""
    rows: list[Row] = []
    for transport in ("httpx2", *(("aiohttp",) if has("aiohttp") else ())):
        seen = measure(transport, RATE, SECONDS + OPENING_SECONDS)
        what = f"{TURNS:,} turns, {RATE:.0f} deltas/s each, {transport}"
        rows += [
            Row(f"{what}: complete", f"{seen['complete']:,}", f"{TURNS:,}", holds=seen["complete"] == TURNS),
            Row(
                f"{what}: p99 delay",
                f"{seen['p99'] * 1e3:.0f} ms (p50 {seen['p50'] * 1e3:.0f}, over {seen['seconds']:.0f} s)",
                f"≤ {BAR_P99_MS:.0f} ms",
                holds=seen["p99"] * 1e3 <= BAR_P99_MS,
            ),
            Row(
                f"{what}: peak RSS",
                f"{seen['rss_mb']:.0f} MB",
                f"≤ {BAR_RSS_MB:.0f} MB",
                holds=seen["rss_mb"] <= BAR_RSS_MB,
            ),
            Row(
                f"{what}: CPU an event",
                f"{seen['cpu_us']:.0f} µs",
                f"≤ {BAR_EVENT_US:.0f} µs",
                holds=seen["cpu_us"] <= BAR_EVENT_US,
            ),
        ]
        passed = next(
            (
                rate
                for rate in STEPS
                if measure(transport, rate, STEP_SECONDS + OPENING_SECONDS)["p99"] * 1e3 > BAR_P99_MS
            ),
            None,
        )
        shown = f"{passed:.0f} deltas/s" if passed else f"above {STEPS[-1]:.0f} deltas/s"
        rows.append(Row(f"{TURNS:,} turns, {transport}: rate at which p99 passes {BAR_P99_MS:.0f} ms", shown))
    return rows


if __name__ == "__main__" and sys.argv[1:2] == ["receive"]:
    print(json.dumps(asyncio.run(receive(sys.argv[2], sys.argv[3], int(sys.argv[4])))))
