"""A turn on a disk that is full, a file that is locked, cut short or without descriptors left: a clear error, and nothing lost."""

import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, DiskFullError, StoreError, ToolContext, TurnFinished, tool
from sapwood.core.events import ToolFinished
from sapwood.core.transcript import repair
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted

TURNS = 60


class Worker:
    """Works through turns on one conversation; each pays once. paid: the keys of the payments."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paid: list[str] = []

    def agent(self, store: SqliteStore, *replies: Any) -> Agent:
        paid = self.paid

        @tool
        def pay(what: str, context: ToolContext) -> str:
            """Pay."""
            paid.append(context.idempotency_key)
            return f"paid {context.idempotency_key}"

        return Agent(llm=scripted(*replies)).with_tools([pay]).with_conversation(store, "c1")

    def turn(self, store: SqliteStore) -> None:
        list(self.agent(store, calls(call("pay", {"what": "x" * 2_000})), says("It is paid.")).stream("Pay " * 200))

    def check(self, turns: int) -> None:
        """All that was told is there; whatever was open is gone on with, and pays nothing twice."""
        with SqliteStore(self.path) as store:
            for item in store.runs.waiting():
                rest = [calls(call("pay", {"what": "x"})), says("It is paid.")]
                for replies in (rest, rest[1:], []):
                    try:
                        events = list(self.agent(store, *replies).resume(item.run_id))
                    except AssertionError:
                        continue  # it had more to ask, or less
                    assert isinstance(events[-1], TurnFinished)
                    break
            assert store.runs.waiting() == []
            results = [
                event.result
                for item in store.runs.list(limit=1_000)
                for event in store.runs.events(item.run_id)
                if isinstance(event, ToolFinished)
            ]
            told = [result.removeprefix("paid ") for result in results if result.startswith("paid ")]
            assert len(set(self.paid)) == len(self.paid), "something was paid twice"
            assert set(told) <= set(self.paid)
            assert len(told) >= turns
            messages = store.conversations.load("c1").messages
            assert repair(messages) == messages
            assert sum(message.role == "user" for message in messages) == len(store.runs.list(limit=1_000))
            self.turn(store)  # work goes on
        connection = sqlite3.connect(self.path)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


@pytest.mark.parametrize("kilobytes", [220, 240, 260, 280, 300])
def test_a_full_file_ends_the_turn_with_a_clear_error_and_work_goes_on_once_there_is_room(
    tmp_path: Path, kilobytes: int
) -> None:
    worker = Worker(tmp_path / "a.db")
    turns = 0
    with SqliteStore(worker.path, max_bytes=kilobytes * 1024) as store, pytest.raises(DiskFullError, match="Make room"):
        for _ in range(TURNS):
            worker.turn(store)
            turns += 1
    assert 0 < turns < TURNS
    worker.check(turns)


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from durable.test_disks import Worker
from sapwood import StoreError
from sapwood.stores.sqlite import SqliteStore
worker, turns = Worker(Path(sys.argv[1])), 0
with SqliteStore(worker.path) as store:
    worker.turn(store)
    kind, limit = getattr(resource, sys.argv[3]), int(sys.argv[4])
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit, hard))
    try:
        for _ in range(200):
            worker.turn(store)
            turns += 1
    except StoreError as error:
        print(type(error).__name__, turns)
    else:
        sys.exit("the limit was never met")
    resource.setrlimit(kind, (hard, hard))
    print(turns + 1, *worker.paid)
"""


def limited(path: Path, kind: str, limit: int) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), tests, kind, str(limit)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_limit_on_the_size_of_files_is_met_and_passed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    _, last = limited(path, "RLIMIT_FSIZE", 600_000)
    turns, *paid = last.split()
    worker = Worker(path)
    worker.paid = paid
    worker.check(int(turns))


def test_a_locked_file_ends_the_turn_with_a_clear_error_and_work_goes_on_when_it_is_free(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "a.db")
    with SqliteStore(worker.path, busy_seconds=0.1) as store:
        worker.turn(store)
        other = sqlite3.connect(worker.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"):
            worker.turn(store)
        other.execute("ROLLBACK")
        other.close()
        worker.turn(store)
    worker.check(2)


def test_a_file_that_is_locked_while_a_tool_runs_loses_only_what_the_tool_answered(tmp_path: Path) -> None:
    """It is gone on with at once, in the same process too, though the lock was in the way of giving the run up."""
    path = tmp_path / "a.db"
    paid: list[str] = []
    with SqliteStore(path, busy_seconds=0.1) as store:
        other = sqlite3.connect(path, isolation_level=None)

        @tool
        def pay(context: ToolContext) -> str:
            """Pay, while another program takes the file."""
            paid.append(context.idempotency_key)
            other.execute("BEGIN IMMEDIATE")
            return "paid"

        agent = Agent(llm=scripted(calls("pay"))).with_tools([pay]).with_conversation(store, "c1")
        with pytest.raises(StoreError, match="locked by another program"):
            list(agent.stream("go"))
        other.execute("ROLLBACK")
        other.close()
        (item,) = store.runs.waiting()
        agent = Agent(llm=scripted(says("I do not know"))).with_tools([pay]).with_conversation(store, "c1")
        list(agent.resume(item.run_id))
        (told,) = [event for event in store.runs.events(item.run_id) if isinstance(event, ToolFinished)]
    assert told.result.startswith("Interrupted")
    assert len(paid) == 1


def test_a_file_that_was_cut_is_refused_by_name_and_nothing_is_written_to_it(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "a.db")
    with SqliteStore(worker.path) as store:
        worker.turn(store)
    whole = worker.path.read_bytes()
    worker.path.write_bytes(whole[: len(whole) // 2 // 4096 * 4096])
    before = worker.path.read_bytes()
    with pytest.raises(StoreError, match=r"a\.db"), SqliteStore(worker.path) as store:
        worker.turn(store)
    assert worker.path.read_bytes()[:4096] == before[:4096]
    worker.path.write_bytes(whole)
    worker.check(1)


def test_a_process_without_descriptors_ends_the_turn_with_a_clear_error_and_goes_on_later(tmp_path: Path) -> None:
    """A reader is opened anew for each thread that reads; the writer has the file open already."""
    path = tmp_path / "a.db"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    worker = Worker(path)
    with SqliteStore(path) as store:
        taken: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            with pytest.raises(StoreError, match=r"a\.db"):
                worker.turn(store)
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        worker.turn(store)
    worker.check(1)


@pytest.mark.soak
def test_a_full_disk_ends_the_turn_with_a_clear_error_and_work_goes_on_once_there_is_room(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may mount nothing")
    try:
        worker, turns = Worker(tmp_path / "a.db"), 0
        with SqliteStore(worker.path) as store:
            with pytest.raises(StoreError):
                for _ in range(TURNS * 5):
                    worker.turn(store)
                    turns += 1
            subprocess.run(["mount", "-o", "remount,size=20m", str(tmp_path)], check=True)
        worker.check(turns)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
