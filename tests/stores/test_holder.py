"""Who holds a run, and whether that holder is alive: by its process, by its lease, and by no jump of a clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.stores.holder import Clock, Owner, born, born_by_ps, is_alive, leased, this_process

HERE = this_process()
HAS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc")


class Hands:
    """Two clocks that are set by hand."""

    def __init__(self) -> None:
        self.wall = self.steady = 1_000.0
        self.clock = Clock(lambda: self.wall, lambda: self.steady)


def gone() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


# The owner, seconds on the wall clock and since boot after the lease of 30 s was given, and whether it is alive.
TABLE: dict[str, tuple[Owner, float, float, bool]] = {
    "here, in time": (HERE, 29, 29, True),
    "here, too late": (HERE, 31, 31, False),
    "here, the clock was put forward by a day": (HERE, 86_400, 10, True),
    "here, the clock was put back by a day": (HERE, -86_400, 31, False),
    "here, the process is gone": (HERE.replace(pid=gone()), 1, 1, False),
    "here, the number belongs to another process": (HERE.replace(born="1"), 1, 1, False),
    "in another container, in time": (HERE.replace(space="pid:[1]", pid=1 << 22, born="1"), 29, 29, True),
    "in another container, too late": (HERE.replace(space="pid:[1]", pid=1 << 22, born="1"), 31, 31, False),
    "before this machine was started": (HERE.replace(boot="before"), 1, 1, False),
    "on another machine, in time": (HERE.replace(boot="other", host="other", pid=1 << 22), 29, 99, True),
    "on another machine, too late": (HERE.replace(boot="other", host="other", pid=1 << 22), 31, 1, False),
    "on a system that names no boot": (HERE.replace(boot="", host="other"), 29, 99, True),
}


@HAS_PROC
@pytest.mark.parametrize("name", TABLE)
def test_a_holder_is_alive_or_not(name: str) -> None:
    owner, wall, steady, alive = TABLE[name]
    hands = Hands()
    lease = leased(owner, 30.0, hands.clock)
    hands.wall += wall
    hands.steady += steady
    assert is_alive(lease, hands.clock) is alive


def test_two_owners_in_one_process_are_two() -> None:
    one, other = this_process(), this_process()
    assert one.token != other.token
    assert one.replace(token="") == other.replace(token="")
    assert one.pid == os.getpid()


@HAS_PROC
def test_a_process_that_ended_and_was_not_waited_for_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    while Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
        pass
    assert born(process.pid) is None
    process.wait()
    assert born(process.pid) is None


@pytest.mark.skipif(not any(Path(folder, "ps").exists() for folder in ("/bin", "/usr/bin")), reason="asks ps")
def test_where_there_is_no_proc_ps_is_asked() -> None:
    assert born_by_ps(os.getpid())
    assert born_by_ps(os.getpid()) == born_by_ps(os.getpid())
    assert born_by_ps(gone()) is None
