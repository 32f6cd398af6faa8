"""Both runtimes with waits that are noted and take no time."""

import asyncio
from typing import Any

from sapwood.core.events import AgentEvent
from sapwood.core.messages import Message
from sapwood.loop.spec import LiveTurn
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import assert_ordered


class Clockless:
    """Runs turns. waited: the waits, in seconds. events: those of the last turn, also of one that raised."""

    def __init__(self, runtime: str) -> None:
        self.waited: list[float] = []
        self._runtime = runtime

    def run(self, given: Any, prompt: str = "go") -> list[AgentEvent]:
        waited = self.waited
        events: list[AgentEvent] = []

        class Blocking(BlockingRuntime):
            async def sleep(self, seconds: float) -> None:
                waited.append(seconds)

        class Asyncio(AsyncioRuntime):
            async def sleep(self, seconds: float) -> None:
                waited.append(seconds)

        run = start_run("run-1")
        self.live = live = LiveTurn(run, given)
        if self._runtime == "blocking":
            flow = run_turn(run, given, Blocking(), prompt=Message.user(prompt), live=live)
            for event in iterate(flow):
                events.append(event)
                self.events = events
        else:

            async def main() -> None:
                self.events = events
                async for event in run_turn(run, given, Asyncio(), prompt=Message.user(prompt), live=live):
                    events.append(event)

            asyncio.run(main())
        assert_ordered(events)
        return events
