"""Tools that hang, lie, shout, block, fork and kill: the turn is right all the same, and so is what is stored."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from durable.history import check_calls, check_journal
from sapwood import Agent, TurnFinished, tool
from sapwood.core.events import ToolFinished
from sapwood.core.transcript import INTERRUPTED
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


def turn(path: Path, name: str, made: Any, runtime: str) -> tuple[Any, ...]:
    """Run a turn that calls one tool; return its result, and the events as another process reads them."""
    with SqliteStore(path) as store:
        agent = Agent(llm=scripted(calls(name), says("over"))).with_tools([made]).with_conversation(store, "c1")
        if runtime == "blocking":
            list(agent.stream("go"))
        else:

            async def main() -> None:
                async for _ in agent.astream("go"):
                    pass

            asyncio.run(main())
    return stored(path)


def stored(path: Path) -> tuple[Any, ...]:
    with SqliteStore(path) as store:
        (item,) = store.runs.list()
        events = store.runs.events(item.run_id)
        check_journal(store.runs.load(item.run_id), events)
        check_calls(events)
        (finished,) = [event for event in events if isinstance(event, ToolFinished)]
        assert len(store.conversations.load("c1").messages) >= 3
        return finished, events


@RUNTIMES
def test_a_plain_tool_that_hangs_is_left_at_its_limit(tmp_path: Path, runtime: str) -> None:
    woken = threading.Event()

    @tool(timeout=0.1)
    def hang() -> str:
        """Hang."""
        woken.wait(5)
        return "late"

    began = time.monotonic()
    finished, _ = turn(tmp_path / "a.db", "hang", hang, runtime)
    woken.set()
    assert finished.result == "hang timed out after 0.1 s; what it did by then is not known."
    assert time.monotonic() - began < 3


def test_a_tool_that_ignores_its_cancellation_is_left_at_its_limit(tmp_path: Path) -> None:
    @tool(timeout=0.1)
    async def stubborn() -> str:
        """Ignore cancellation for a while."""
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return "late"

    finished, _ = turn(tmp_path / "a.db", "stubborn", stubborn, "asyncio")
    assert finished.result == "stubborn timed out after 0.1 s; what it did by then is not known."


@pytest.mark.parametrize("size", [10_000_000, pytest.param(100_000_000, marks=pytest.mark.soak)])
@RUNTIMES
def test_millions_of_characters_are_cut_before_they_are_stored(tmp_path: Path, runtime: str, size: int) -> None:
    @tool
    def shout() -> str:
        """Return far too much."""
        return "x" * size

    finished, _ = turn(tmp_path / "a.db", "shout", shout, runtime)
    assert len(finished.result) < 200_000
    assert finished.value is None
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5_000_000


class Stop(BaseException):
    """Nothing that handles errors handles this."""


@RUNTIMES
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_ends_the_turn_and_the_call_is_answered_afterwards(
    tmp_path: Path, runtime: str, error: type[BaseException]
) -> None:
    @tool
    def end() -> str:
        """End the program."""
        raise error

    with pytest.raises(BaseException) as raised:
        turn(tmp_path / "a.db", "end", end, runtime)
    assert raised.type is error or isinstance(raised.value.__cause__ or raised.value.__context__, error)
    with SqliteStore(tmp_path / "a.db") as store:
        (item,) = store.runs.waiting()
        agent = Agent(llm=scripted(says("over"))).with_tools([end]).with_conversation(store, "c1")
        assert isinstance(list(agent.resume(item.run_id))[-1], TurnFinished)
    finished, _ = stored(tmp_path / "a.db")
    assert (finished.result, finished.is_error) == (INTERRUPTED, True)


EXITS = """
import os, sys
from sapwood import Agent, tool
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import calls, scripted

@tool
def leave() -> str:
    "Leave."
    os._exit(3)

with SqliteStore(sys.argv[1]) as store:
    "".join(Agent(llm=scripted(calls("leave"))).with_tools([leave]).with_conversation(store, "c1").chat("go"))
"""


def test_a_tool_that_ends_the_process_is_answered_as_interrupted(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", EXITS, str(tmp_path / "a.db")], env=environment, timeout=60)
    assert done.returncode == 3

    @tool
    def leave() -> str:
        """Leave."""
        raise AssertionError("it is not run again")

    with SqliteStore(tmp_path / "a.db") as store:
        (item,) = store.runs.waiting()
        agent = Agent(llm=scripted(says("I do not know"))).with_tools([leave]).with_conversation(store, "c1")
        list(agent.resume(item.run_id))
    finished, _ = stored(tmp_path / "a.db")
    assert finished.result == INTERRUPTED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # other threads of the tests run
@RUNTIMES
def test_a_tool_that_forks_leaves_the_turn_to_its_parent(tmp_path: Path, runtime: str) -> None:
    @tool
    def fork() -> str:
        """Fork; the child does nothing."""
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return "forked"

    finished, _ = turn(tmp_path / "a.db", "fork", fork, runtime)
    assert finished.result == "forked"


def test_a_tool_that_blocks_holds_up_no_other_turn(tmp_path: Path) -> None:
    @tool
    def block() -> str:
        """Block its thread."""
        time.sleep(0.4)
        return "done"

    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            late.append(time.monotonic() - began - 0.005)

    async def main(store: SqliteStore) -> None:
        ticking = asyncio.create_task(tick())
        model = scripted(calls(call("block")), says("over"))
        async for _ in Agent(llm=model).with_tools([block]).with_conversation(store, "c1").astream("go"):
            pass
        ticking.cancel()

    with SqliteStore(tmp_path / "a.db") as store:
        asyncio.run(main(store))
    assert len(late) > 20
    assert sorted(late)[int(len(late) * 0.9)] < 0.1
    assert stored(tmp_path / "a.db")[0].result == "done"
