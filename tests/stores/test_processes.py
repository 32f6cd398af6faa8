"""One file and several processes: crashes, zombies, forks and limits of the system."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.errors import ConflictError, ConversationBusyError
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.store_turns import PROMPT, ended, running
from support.child_process import SOURCE, child_of, line

CHILDREN = Path(__file__).parent / "children.py"


child = partial(child_of, CHILDREN)


def output(*arguments: Any) -> list[str]:
    """Return the lines of a child that must end well."""
    with child(*arguments) as process:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0, out
        return out.splitlines()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def is_intact(path: Path) -> bool:
    connection = sqlite3.connect(path)
    (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return bool(answer == "ok")


def test_what_another_process_holds_is_busy_and_free_as_soon_as_it_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 30) as process, SqliteStore(path) as store:
        assert line(process) == "held"
        with pytest.raises(ConversationBusyError, match=f":{process.pid}") as raised:
            store.runs.begin("r2", "c1", 0, PROMPT)
        assert raised.value.run_id == "r1"
        with pytest.raises(ConflictError, match="alive"):
            store.runs.claim("r1")
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet waited for
        taken = store.runs.claim("r1")
        assert (taken.version, taken.run.phase) == (1, "idle")


def test_a_process_that_ends_frees_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 30) as process, SqliteStore(path) as store:
        assert line(process) == "held"
        tell(process)
        process.wait(30)
        assert store.runs.claim("r1").version == 3


def test_a_zombie_that_wakes_up_after_its_lease_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 3.0) as process, SqliteStore(path, lease_seconds=3.0) as store:
        assert line(process) == "held"
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(ConflictError):
            store.runs.claim("r1")
        time.sleep(3.3)
        taken = store.runs.claim("r1")
        process.send_signal(signal.SIGCONT)
        tell(process)
        assert [line(process), line(process)] == ["refused ConflictError", "refused ConflictError"]
        assert store.runs.append("r1", ended(), after=taken.version, fence=taken.fence) == 2


def test_a_zombie_that_nobody_took_over_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 0.5) as process:
        assert line(process) == "held"
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        process.send_signal(signal.SIGCONT)
        tell(process)
        assert [line(process), line(process)] == ["appended", "appended"]


def test_a_lease_is_renewed_for_as_long_as_its_store_lives(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 3.0) as process, SqliteStore(path) as store:
        assert line(process) == "held"
        time.sleep(4.5)
        assert store.runs.summary("r1").status == "running"
        tell(process)
        assert line(process) == "appended"


def test_sixteen_processes_that_open_a_new_file_at_once_make_one(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    at = time.time() + 3.0
    arguments = [sys.executable, "-W", "error", str(CHILDREN), "open_at_once", str(path), str(at)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    processes = [
        subprocess.Popen(
            [*arguments, f"c{number}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        for number in range(16)
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["done\n"] * 16
    with SqliteStore(path) as store:
        assert {item.id for item in store.conversations.list()} == {f"c{number}" for number in range(16)}
    assert is_intact(path)


def test_parent_and_children_go_on_after_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    (said,) = output("fork", path)
    assert said == f"{[0] * 4} {[*(f'child-{number}' for number in range(4)), 'parent']}"
    assert is_intact(path)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "stores.db"
    SqliteStore(path).close()
    acknowledged: dict[str, int] = {}
    with child("work", path, "a") as first, child("work", path, "b") as second:
        assert first.stdout is not None
        first.stdout.readline()
        time.sleep(random.Random(seed).uniform(0.05, 0.6))
        first.kill()
        second.kill()
        for process in (first, second):
            out, _ = process.communicate()
            for said in out.splitlines():
                run_id, version = said.split()
                acknowledged[run_id] = int(version)
    with SqliteStore(path) as store:
        for run_id, version in acknowledged.items():
            events = store.runs.events(run_id)
            assert len(events) >= version
            assert len(events) - version in (0, 2), "one append at most was not acknowledged, and it is whole"
            assert store.runs.summary(run_id).status == "interrupted"
    assert is_intact(path)
    assert acknowledged


@pytest.mark.parametrize(
    ("point", "version"),
    [("store.before_commit", None), ("store.committed", 0), ("run.begun", 2)],
)
def test_a_crash_beside_a_commit_leaves_all_of_it_or_nothing(tmp_path: Path, point: str, version: int | None) -> None:
    path = tmp_path / "stores.db"
    with child("crash", path, point) as process:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert "not crashed" not in out
    with SqliteStore(path) as store:
        runs = {item.run_id: (item.status, item.version) for item in store.runs.list()}
    match point:
        case "store.before_commit":  # of the append after begin
            assert runs == {"r1": ("interrupted", 0)}
        case "store.committed":
            assert runs == {"r1": ("interrupted", 1)}
        case _:
            assert runs == {"r1": ("ended", 2), "r2": ("interrupted", 0)}


def test_a_limit_on_the_size_of_files_loses_nothing(tmp_path: Path) -> None:
    kind, *rest = output("file_limit", tmp_path / "stores.db")
    assert kind in ("StoreError True", "DiskFullError True")
    assert rest == ["intact ok"]


def test_few_file_descriptors_are_enough_and_none_left_is_told(tmp_path: Path) -> None:
    assert output("few_files", tmp_path / "stores.db") == ["many threads True True", "none left True", "recovered"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the size of the process from /proc")
def test_no_thread_left_is_told_and_recovered_from(tmp_path: Path) -> None:
    assert output("few_threads", tmp_path / "stores.db") == ["refused True", "recovered"]


def test_a_file_that_may_not_be_written_to_is_told() -> None:
    # In a folder that others may enter, as root may write anywhere and the child becomes somebody else.
    folder = Path(tempfile.mkdtemp(prefix="sapwood-read-only-"))
    folder.chmod(0o755)
    try:
        assert output("read_only", folder / "stores.db") == ["refused True True"]
    finally:
        folder.chmod(0o755)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def test_a_file_at_its_limit_keeps_what_it_has_and_takes_more_once_there_is_room(tmp_path: Path) -> None:
    assert output("full", tmp_path / "stores.db") == ["8 True", "True", "went on"]


def test_a_run_that_was_interrupted_may_go_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with child("hold", path, 30) as process:
        assert line(process) == "held"
    with SqliteStore(path) as store:
        taken = store.runs.claim("r1")
        version = store.runs.append("r1", ended("approval"), after=taken.version, fence=taken.fence)
        with pytest.raises(ConflictError, match="nobody"):
            store.runs.append("r1", [running()], after=version, fence=taken.fence)
