"""Agents on both runtimes, with the promised order checked; and paused turns that go on from a JSON copy."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sapwood import Agent
from sapwood.agent.assemble import assemble
from sapwood.context.meter import Calibration
from sapwood.core.approval import ApprovalDecision, ApprovalRequest
from sapwood.core.codec import dump_run, event_from_json, load_run, to_json
from sapwood.core.events import AgentEvent, ApprovalRequested, ApprovalResolved, TurnFinished
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript
from sapwood.loop.gate import answered
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import assert_ordered, fold

Events = list[AgentEvent]


def run(agent: Agent, runtime: str = "blocking", prompt: str = "go", **more: Any) -> Events:
    """A turn of an agent; the order is checked."""

    async def main() -> Events:
        return [event async for event in agent.astream(prompt, **more)]

    events = list(agent.stream(prompt, **more)) if runtime == "blocking" else asyncio.run(main())
    assert_ordered(events)
    return events


def spec_of(agent: Agent) -> TurnSpec:
    """What a turn of this agent needs, as another process would make it."""
    return assemble(agent._config, agent._llm(), Transcript(), calibration=Calibration(), grants=agent.approvals)


class Process:
    """A process that runs one segment of a turn of an agent. run: as folded; events: of the segment."""

    def __init__(
        self,
        agent: Agent,
        stored: bytes | None = None,
        answers: Sequence[AgentEvent] = (),
        *,
        runtime: str = "blocking",
        now: datetime | None = None,
    ) -> None:
        run = load_run(stored) if stored is not None else start_run("run-1")
        self.spec = spec_of(agent)
        self.live = LiveTurn(run, self.spec)
        prompt = None if stored is not None else Message.user("go")
        turn = run_turn(run, self.spec, _runtime(runtime, now), prompt=prompt, answers=answers, live=self.live)
        self.events: Events = list(iterate(turn)) if runtime == "blocking" else asyncio.run(_collected(turn))
        assert_ordered(self.events)
        self.run = fold(self.events, run)
        assert fold([event_from_json(to_json(event)) for event in self.events], run) == self.run
        self.stored = dump_run(self.run)

    @property
    def end(self) -> TurnFinished:
        last = self.events[-1]
        assert isinstance(last, TurnFinished)
        return last

    @property
    def waiting(self) -> tuple[ApprovalRequest, ...]:
        return self.end.diagnostics.waiting

    def tool_results(self) -> list[tuple[str, bool]]:
        """What the model is shown of the calls of its last reply but one."""
        found = [message for message in self.run.messages if message.role == "tool"]
        return [(result.text, result.is_error) for result in found[-1].tool_results]


def requests_of(run: Run, path: tuple[str, ...] = ()) -> list[ApprovalRequested]:
    """The requests that wait, with their paths."""
    return [
        item.request.replace(path=where)
        for where, item in run.open_calls(path)
        if item.request is not None and item.state == "waiting"
    ]


def answer(request: ApprovalRequested, approved: bool = True, **more: Any) -> ApprovalResolved:
    """An answer to a request, as whoever resumes a turn makes it."""
    value = more.pop("value", None)
    is_error = more.pop("is_error", False)
    made = answered(request, ApprovalDecision(approved, **more))
    return made.replace(path=request.path, value=value, is_error=is_error)


def of_type(events: Iterable[AgentEvent], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]


def _runtime(name: str, now: datetime | None) -> Any:
    class Blocking(BlockingRuntime):
        def now(self) -> datetime:
            return now or super().now()

    class Asyncio(AsyncioRuntime):
        def now(self) -> datetime:
            return now or super().now()

    return Blocking() if name == "blocking" else Asyncio()


async def _collected(turn: Any) -> Events:
    return [event async for event in turn]
