"""SavingRuntime: the events of a turn are stored as they come, and the run is there again after a crash anywhere."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import ConflictError, RunCancelledError, StoreError
from sapwood.core.events import AgentEvent, RoundStarted, ToolFinished, TurnResumed
from sapwood.core.evolve import evolve
from sapwood.core.journal import is_journaled
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.runtime.saving import MAY_WAIT, SavingRuntime
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, fold, says, scripted
from sapwood.testing.faults import Crash, crash_at, visits
from sapwood.testing.store_turns import PROMPT, called, ended, finished, running, started
from support.turns import bound, spec

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
INNER: dict[str, Callable[..., Any]] = {"blocking": BlockingRuntime, "asyncio": AsyncioRuntime}
ANSWER = "Five, and paid."
POINTS = ["run.begun", "step.recorded", "tool.announced", "turn.committed"]


def agent(paid: list[int], *, asked: bool = False) -> Any:
    """A turn that adds and pays. asked: the model has asked for its calls already."""
    tools = [bound("add", lambda a, b: a + b, read_only=True), bound("pay", lambda amount: paid.append(amount) or "ok")]
    two = calls(call("add", {"a": 2, "b": 3}), call("pay", {"amount": 5}))
    return spec(scripted(says(ANSWER)) if asked else scripted(two, says(ANSWER)), tools)


def perform(runtime: str, saving: SavingRuntime, given: Any, run: Run, prompt: Message | None) -> list[AgentEvent]:
    flow = run_turn(run, given, saving, prompt=prompt)
    return list(iterate(flow)) if runtime == "blocking" else asyncio.run(collect(flow))


async def collect(flow: AsyncGenerator[AgentEvent, None]) -> list[AgentEvent]:
    return [event async for event in flow]


def done(runtime: str, step: Any) -> Any:
    """Await something; on a blocking runtime it must not suspend."""
    if runtime == "asyncio":
        return asyncio.run(step)
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it suspended")


@RUNTIMES
def test_the_journal_holds_the_turn_without_its_deltas(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1", conversation_id="c1")

    events = perform(runtime, saving, agent([]), start_run("r1"), PROMPT)

    kept = [event for event in events if is_journaled(event)]
    assert list(store.runs.events("r1")) == kept
    assert store.runs.load("r1") == fold(events, Run("r1", "c1"))
    assert (saving.version, store.runs.summary("r1").status) == (len(kept), "ended")


@RUNTIMES
def test_what_must_not_be_lost_is_stored_before_the_turn_goes_on(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")
    seen: dict[str, bool] = {}

    async def watch() -> None:
        async for event in run_turn(start_run("r1"), agent([]), saving, prompt=PROMPT):
            if is_journaled(event):
                seen[event.type] = event in store.runs.events("r1")

    done(runtime, watch())
    assert {kind for kind, is_stored in seen.items() if not is_stored} <= MAY_WAIT
    assert seen["tool_running"]
    assert not seen["round_started"]


@RUNTIMES
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_a_crash_anywhere_loses_nothing_and_repeats_no_effect(
    runtime: str, point: str, backend: str, tmp_path: Path
) -> None:
    with visits() as counted:
        saving = SavingRuntime(INNER[runtime](), InProcessStore().runs, run_id="r1")
        perform(runtime, saving, agent([]), start_run("r1"), PROMPT)
    assert counted[point] > 0
    for visit in range(1, counted[point] + 1):
        paid: list[int] = []
        store: Any = InProcessStore() if backend == "memory" else SqliteStore(tmp_path / f"{visit}.db")
        saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")
        with crash_at(point, visit=visit), pytest.raises(Crash):
            perform(runtime, saving, agent(paid), start_run("r1"), PROMPT)
        store.close()
        store = store.reopened() if backend == "memory" else SqliteStore(tmp_path / f"{visit}.db")
        acknowledged = list(store.runs.events("r1"))
        if store.runs.summary("r1").status != "ended":
            go_on(runtime, store, paid)
        run = store.runs.load("r1")
        assert list(store.runs.events("r1"))[: len(acknowledged)] == acknowledged
        assert (run.phase, run.text) == ("ended", ANSWER)
        results = [result for message in run.messages for result in message.tool_results]
        assert [result.name for result in results] == ["add", "pay"]
        # Once, or not at all where it was in flight, which the model was told.
        assert paid == ([] if "unknown" in results[1].text else [5])
        store.close()


def go_on(runtime: str, store: Any, paid: list[int]) -> None:
    taken = store.runs.claim("r1")
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1", fence=taken.fence, version=taken.version)
    prompt = PROMPT if taken.run.phase == "new" else None
    perform(runtime, saving, agent(paid, asked=taken.run.had_calls), taken.run, prompt)


@RUNTIMES
def test_an_outcome_that_was_settled_is_stored_once(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")

    async def turn() -> None:
        run = Run("r1")
        for event in (*started(), *called(), running()):
            run = evolve(run, event)
            await saving.checkpoint(run, event)
        await saving.settle(finished())
        assert store.runs.events("r1")[-1] == finished()
        await saving.checkpoint(evolve(run, finished()), finished())
        await saving.checkpoint(run, ended()[0])

    done(runtime, turn())
    assert [event.type for event in store.runs.events("r1")][-2:] == ["tool_finished", "turn_finished"]


@RUNTIMES
def test_an_outcome_is_there_though_nobody_takes_its_event(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")

    async def turn() -> None:
        for event in (*started(), *called(), running()):
            await saving.checkpoint(Run("r1"), event)
        await saving.settle(finished())
        await saving.release()

    done(runtime, turn())
    run = store.runs.claim("r1").run
    assert run.calls[0].state == "done"


@RUNTIMES
def test_the_same_call_of_a_child_is_another_call(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")
    child = finished().replace(path=("r0c0",))

    async def turn() -> None:
        for event in (*started(), *called()):
            await saving.checkpoint(Run("r1"), event)
        await saving.settle(child)
        await saving.checkpoint(Run("r1"), finished())
        await saving.checkpoint(Run("r1"), child)

    done(runtime, turn())
    assert list(store.runs.events("r1"))[-2:] == [child, finished()]


def test_only_a_finished_call_is_settled() -> None:
    saving = SavingRuntime(BlockingRuntime(), InProcessStore().runs, run_id="r1")
    with pytest.raises(TypeError, match="tool_running"):
        done("blocking", saving.settle(running()))


def test_what_many_flows_store_at_once_comes_in_their_order() -> None:
    store = InProcessStore()
    saving = SavingRuntime(AsyncioRuntime(), store.runs, run_id="r1")
    outcomes = [
        ToolFinished(path=("r0c0",), key=f"r0c{number}", tool_call_id="", name="a", result=str(number))
        for number in range(40)
    ]

    async def turn() -> None:
        await saving.checkpoint(Run("r1"), started()[0])
        await asyncio.gather(*(saving.settle(outcome) for outcome in outcomes))
        await asyncio.gather(*(saving.checkpoint(Run("r1"), outcome) for outcome in outcomes))

    asyncio.run(turn())
    assert list(store.runs.events("r1"))[1:] == outcomes


class SlowRuns:
    """A run store that begins runs once it is let go, in a thread or on the loop."""

    def __init__(self, inner: Any, *, is_async: bool = False) -> None:
        self.inner = inner
        self.is_async = is_async
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def begin(self, *args: Any, **options: Any) -> Any:
        return self._later(*args, **options) if self.is_async else self._now(*args, **options)

    def append(self, *args: Any, **options: Any) -> Any:
        return self.inner.append(*args, **options)

    def _now(self, *args: Any, **options: Any) -> Any:
        self.entered.set()
        assert self.let_go.wait(10)
        return self.inner.begin(*args, **options)

    async def _later(self, *args: Any, **options: Any) -> Any:
        self.entered.set()
        while not self.let_go.is_set():
            await asyncio.sleep(0.001)
        return self.inner.begin(*args, **options)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancelled_turn_knows_what_was_stored(is_async: bool) -> None:
    store = InProcessStore()
    slow = SlowRuns(store.runs, is_async=is_async)
    saving = SavingRuntime(AsyncioRuntime(), slow, run_id="r1")  # type: ignore[arg-type]

    async def main() -> None:
        task = asyncio.create_task(saving.checkpoint(Run("r1"), started()[0]))
        while not slow.entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()  # the loop goes on meanwhile, and what is being written is awaited
        slow.let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert saving.version == 1
        await saving.checkpoint(Run("r1"), ended()[0])

    asyncio.run(main())
    assert store.runs.summary("r1").status == "ended"


@RUNTIMES
def test_a_token_that_is_set_keeps_nothing_from_being_stored(runtime: str) -> None:
    token = CancelToken()
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](cancel=token), store.runs, run_id="r1")
    token.cancel()

    done(runtime, saving.checkpoint(Run("r1"), started()[0]))

    assert len(store.runs.events("r1")) == 1
    with pytest.raises(RunCancelledError):
        done(runtime, saving.call("step", lambda: 1))


@RUNTIMES
def test_a_turn_that_was_taken_over_ends(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")
    done(runtime, saving.checkpoint(Run("r1"), started()[0]))
    other = store.reopened()
    other.runs.claim("r1")

    with pytest.raises(ConflictError, match="Another process"):
        done(runtime, saving.checkpoint(Run("r1"), called()[0]))
    done(runtime, saving.release())

    assert other.runs.summary("r1").status == "running"


@RUNTIMES
def test_a_released_run_is_free_and_one_that_ended_stays_so(runtime: str) -> None:
    store = InProcessStore()
    saving = SavingRuntime(INNER[runtime](), store.runs, run_id="r1")
    done(runtime, saving.release())
    assert store.runs.list() == []
    done(runtime, saving.checkpoint(Run("r1"), started()[0]))
    done(runtime, saving.checkpoint(Run("r1"), RoundStarted(round=0, max_rounds=1)))
    done(runtime, saving.release())
    done(runtime, saving.release())

    assert store.runs.summary("r1").status == "interrupted"
    assert len(store.runs.events("r1")) == 1  # what may wait is not written for its own sake
    taken = store.runs.claim("r1")
    resumed = SavingRuntime(INNER[runtime](), store.runs, run_id="r1", fence=taken.fence, version=taken.version)
    assert (resumed.fence, resumed.version) == (taken.fence, 1)
    done(runtime, resumed.checkpoint(taken.run, TurnResumed(run_id="r1")))
    done(runtime, resumed.checkpoint(taken.run, ended()[0]))
    done(runtime, resumed.release())
    assert [event.type for event in store.runs.events("r1")] == ["turn_started", "turn_resumed", "turn_finished"]


def test_a_store_that_cannot_release_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(":memory:")
    saving = SavingRuntime(BlockingRuntime(), store.runs, run_id="r1")
    done("blocking", saving.checkpoint(Run("r1"), started()[0]))
    store.close()

    done("blocking", saving.release())

    assert "is closed" in caplog.text
    with pytest.raises(StoreError, match="is closed"):
        done("blocking", saving.checkpoint(Run("r1"), called()[0]))


@RUNTIMES
def test_an_async_store_is_awaited(runtime: str) -> None:
    store = InProcessStore()

    class AsyncRuns:
        async def begin(self, *args: Any, **options: Any) -> int:
            return store.runs.begin(*args, **options)

        async def append(self, *args: Any, **options: Any) -> int:
            await asyncio.sleep(0)
            return store.runs.append(*args, **options)

    saving = SavingRuntime(INNER[runtime](), AsyncRuns(), run_id="r1")  # type: ignore[arg-type]
    perform(runtime, saving, agent([]), start_run("r1"), PROMPT)
    assert store.runs.summary("r1").status == "ended"


@RUNTIMES
def test_everything_else_is_the_inner_runtimes(runtime: str) -> None:
    inner = INNER[runtime]()
    saving = SavingRuntime(inner, InProcessStore().runs, run_id="r1")
    ran: list[str] = []

    async def use() -> None:
        assert await saving.call("step", lambda: 7) == 7
        await saving.sleep(0)
        assert [item async for item in saving.stream("step", lambda: [1, 2])] == [1, 2]
        saving.background("step", lambda: ran.append("background"))
        await saving.sleep(0.01)

    done(runtime, use())
    assert ran == ["background"]
    assert abs((saving.now() - inner.now()).total_seconds()) < 5
    assert abs(saving.monotonic() - inner.monotonic()) < 5
    assert 0 <= saving.random() <= 1
    assert saving.new_id() != saving.new_id()


def test_what_comes_while_something_is_being_written_is_written_next() -> None:
    store = InProcessStore()
    slow = SlowRuns(store.runs)
    saving = SavingRuntime(AsyncioRuntime(), slow, run_id="r1")  # type: ignore[arg-type]
    late = RoundStarted(round=0, max_rounds=1)

    async def main() -> None:
        task = asyncio.create_task(saving.checkpoint(Run("r1"), started()[0]))
        while not slow.entered.is_set():
            await asyncio.sleep(0.001)
        await saving.checkpoint(Run("r1"), late)
        slow.let_go.set()
        await task
        await saving.checkpoint(Run("r1"), called()[0])

    asyncio.run(main())
    assert list(store.runs.events("r1")) == [started()[0], late, called()[0]]
