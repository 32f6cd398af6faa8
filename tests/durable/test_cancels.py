"""A turn is cancelled at each of its awaits in turn: nothing leaks, and whoever resumes it ends it as it should be."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from durable.history import check_approvals, check_calls, check_journal
from sapwood import Agent, ApprovalDecision, ApprovalRequest, SubagentDefinition, ToolContext, tool
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.core.transcript import repair
from sapwood.llm.scripted import ScriptedReply, call, calls, says
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore


class Stepped:
    """A coroutine whose steps are counted, also those of the tasks that it starts; at one of them, a task is cancelled."""

    def __init__(self, inner: Coroutine[Any, Any, Any], step: Callable[[], None]) -> None:
        self._inner = inner
        self._step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        sent, error = None, None
        while True:
            try:
                waited = self._inner.throw(error) if error is not None else self._inner.send(sent)
            except StopIteration as end:
                return end.value
            self._step()
            sent, error = None, None
            try:
                sent = yield waited
            except BaseException as thrown:
                error = thrown


def cancelled_at(k: int, turn: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Run a turn and cancel it at its k-th await; tell whether it came so far. No task may be left."""
    count = 0
    reached = False

    async def main() -> None:
        loop = asyncio.get_running_loop()
        target: list[asyncio.Task[Any]] = []

        def step() -> None:
            nonlocal count, reached
            count += 1
            if count == k:
                reached = True
                # In the next round of the loop: as somebody else does it, and not the task itself.
                loop.call_soon(target[0].cancel)

        async def stepped(coroutine: Any) -> Any:
            return await Stepped(coroutine, step)

        def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
            return asyncio.Task(stepped(coroutine), loop=loop, **more)

        loop.set_task_factory(factory)  # type: ignore[arg-type]
        task = loop.create_task(turn())
        target.append(task)
        try:
            await asyncio.wait({task})
        finally:
            loop.set_task_factory(None)
        if not task.cancelled():
            task.result()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task is left"

    asyncio.run(main())
    return reached


class Model:
    """Its reply depends on the request alone."""

    profile = ModelProfile("scripted", "scripted")

    def stream(self, request: ModelRequest) -> "Pieces":
        messages = tuple(request.transcript)
        assert repair(messages) == messages
        return Pieces(_reply(request))


class Pieces:
    def __init__(self, reply: ScriptedReply) -> None:
        self._chunks = reply.chunks()

    def __iter__(self) -> Any:
        return self._chunks

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> StreamChunk:
        await asyncio.sleep(0)
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration


def _reply(request: ModelRequest) -> ScriptedReply:
    own = [place for place, message in enumerate(request.transcript) if message.role == "user"][-1]
    is_child = request.transcript[own].text == "child"
    done = any(m.role == "assistant" and not m.partial for m in request.transcript[own + 1 :])
    if done:
        return says("it is over now")
    if is_child:
        return calls(call("write", {"what": "below"}), text="Let me.")
    task = call("task", {"agent_name": "helper", "task": "child"})
    return calls(call("read", {"what": "a"}), call("read", {"what": "b"}), call("guarded", {"what": "c"}), task, task)


class World:
    """What the tools have done, by key."""

    def __init__(self) -> None:
        self.effects: list[str] = []

    def agent(self, store: Any) -> Agent:
        effects = self.effects

        @tool(read_only=True)
        async def read(what: str) -> str:
            """Read."""
            await asyncio.sleep(0)
            return what

        @tool
        async def write(what: str, context: ToolContext) -> str:
            """Write."""
            await asyncio.sleep(0)
            effects.append(context.idempotency_key)
            await asyncio.sleep(0)
            return f"wrote {context.idempotency_key}"

        @tool(requires_approval=True)
        def guarded(what: str, context: ToolContext) -> str:
            """Write in a thread, if a person agrees."""
            effects.append(context.idempotency_key)
            return f"wrote {context.idempotency_key}"

        async def approve(request: ApprovalRequest) -> ApprovalDecision:
            await asyncio.sleep(0)
            return ApprovalDecision(approved=True)

        helper = SubagentDefinition(name="helper", description="Helps.", tools=(write,))
        agent = Agent(llm=Model()).with_tools([read, guarded]).with_subagents([helper]).with_approval(approve)
        return agent.with_conversation(store, "c1")


async def _all(events: Any) -> None:
    async for _ in events:
        pass


def at_the_await(k: int, store: Any) -> bool:
    """Cancel a turn at its k-th await, go on with it, and check what is left; False where it has no so many."""
    world = World()
    reached = cancelled_at(k, lambda: _all(world.agent(store).astream("go")))
    left = store.runs.waiting()
    assert [item.status for item in left] in ([], ["interrupted"]), f"await {k}"
    for item in left:
        asyncio.run(_all(world.agent(store).aresume(item.run_id)))
    for item in store.runs.list():
        events = store.runs.events(item.run_id)
        check_journal(store.runs.load(item.run_id), events)
        check_calls(events)
        check_approvals(events)
    assert len(world.effects) == len(set(world.effects)), f"await {k}: something was done twice"
    messages = store.conversations.load("c1").messages
    assert repair(messages) == messages
    assert not messages or messages[-1].text == "it is over now", f"await {k}"
    return reached


def threads() -> set[str]:
    """The threads of tools; those of stores are kept for the next call."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("sapwood-tool")}


def no_thread_is_left() -> bool:
    until = time.monotonic() + 5
    while threads() and time.monotonic() < until:
        time.sleep(0.01)
    return not threads()


def test_a_turn_that_is_cancelled_at_any_third_of_its_awaits_leaks_nothing_and_is_resumed() -> None:
    k = 1
    while at_the_await(k, InProcessStore()):
        k += 3
    assert k > 60, "this turn has many awaits"
    assert no_thread_is_left()


@pytest.mark.soak
def test_a_turn_that_is_cancelled_at_any_await_leaks_nothing_and_is_resumed(tmp_path: Path) -> None:
    k, on = 1, True
    while on:
        path = tmp_path / f"{k}.db"
        with SqliteStore(path) as store:
            on = at_the_await(k, store)
        k += 1
    assert k > 60
    assert no_thread_is_left()
