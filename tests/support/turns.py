"""Builders: run a turn in one line, on either runtime, with the promised order checked each time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any

import msgspec

from sapwood.context.manager import ContextManager
from sapwood.context.meter import Meter
from sapwood.context.source import ContextSource
from sapwood.core.cancel import CancelToken
from sapwood.core.decide import Policy
from sapwood.core.events import AgentEvent, ToolFinished
from sapwood.core.messages import Message
from sapwood.core.model import LLMProvider
from sapwood.core.run import Run
from sapwood.core.tools import BoundTool, ToolContext, ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import assert_ordered


def bound(name: str, run: Callable[..., Any], **more: Any) -> BoundTool:
    """A tool without a schema: its function gets the arguments as keywords."""

    def call(arguments: Any, context: ToolContext) -> Any:
        return run(**arguments)

    async def acall(arguments: Any, context: ToolContext) -> Any:
        return await run(**arguments)

    is_async = asyncio.iscoroutinefunction(run)
    return BoundTool(ToolSchema(name, f"Runs {name}."), acall if is_async else call, **more)


def long_history() -> list[Message]:
    """Sixty exchanges of about fifty tokens each."""
    past: list[Message] = []
    for number in range(60):
        past += [
            Message.user(f"question {number} " + "word " * 20),
            Message.assistant(f"answer {number} " + "word " * 20),
        ]
    return past


def spec(
    model: LLMProvider,
    tools: Sequence[BoundTool | ToolSchema] = (),
    *,
    sources: Sequence[ContextSource] = (),
    history: Iterable[Message] = (),
    policy: Policy | None = None,
    window: int = 0,
    trim_history: bool = True,
    **more: Any,
) -> TurnSpec:
    context = ContextManager(sources=[*sources, ToolsetSource(tools)], trim_history=trim_history)
    policy = policy or Policy(window=window)
    values: dict[str, Any] = {"context": context, "meter": Meter(), "policy": policy, "window": window, **more}
    return TurnSpec(provider=model, history=Transcript.of(history), **values)


def turn(
    given: TurnSpec,
    prompt: str | None = "go",
    *,
    runtime: str = "blocking",
    run: Run | None = None,
    cancel: CancelToken | None = None,
    live: LiveTurn | None = None,
) -> list[AgentEvent]:
    """Run a turn to its end and return its events, in the promised order."""
    run = run or start_run("run-1")
    message = Message.user(prompt) if prompt is not None else None
    live = live or LiveTurn(run, given)
    if runtime == "blocking":
        events = list(iterate(run_turn(run, given, BlockingRuntime(cancel=cancel), prompt=message, live=live)))
    else:
        events = asyncio.run(collect(run_turn(run, given, AsyncioRuntime(cancel=cancel), prompt=message, live=live)))
    if events:
        assert_ordered(events)
    return events


async def collect(events: AsyncGenerator[AgentEvent, None]) -> list[AgentEvent]:
    return [event async for event in events]


def folded(events: Sequence[AgentEvent], run: Run | None = None) -> Run:
    from sapwood.testing import fold

    return fold(events, run)


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    return [event.type for event in events]


def finishes(events: Sequence[AgentEvent]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


def with_policy(given: TurnSpec, **changes: Any) -> TurnSpec:
    return msgspec.structs.replace(given, policy=given.policy.replace(**changes))
