"""Many clients at once, in a process of their own: nothing is dropped, and a delta is soon there."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.child_process import child_of, line

SUPPORT = Path(__file__).parent.parent / "support"


@contextmanager
def server(deltas: int) -> Iterator[tuple[int, int]]:
    """Run the server in a process of its own; gives its port and process id."""
    with child_of(SUPPORT / "load_server.py", "--deltas", deltas) as process:
        port, pid = line(process).split()
        yield int(port), int(pid)


def clients(port: int, pid: int, **options: Any) -> dict[str, Any]:
    """Run clients to their end, and return what they saw."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [sys.executable, str(SUPPORT / "sse_clients.py"), f"--port={port}", f"--pid={pid}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(found)
    return found


def test_a_hundred_clients_miss_nothing() -> None:
    with server(deltas=20) as (port, pid):
        found = clients(port, pid, clients=100, deltas=20, ramp=1)
    assert (found["complete"], found["deltas"], found["errors"]) == (100, 2_000, {})


@pytest.mark.soak
def test_a_thousand_clients_miss_nothing_and_wait_for_no_delta_longer_than_a_fifth_of_a_second() -> None:
    with server(deltas=300) as (port, pid):
        found = clients(port, pid, clients=1_000, deltas=300, ramp=10)
    assert (found["complete"], found["deltas"], found["errors"]) == (1_000, 300_000, {})
    assert found["p99"] <= 200


@pytest.mark.soak
def test_clients_that_vanish_in_the_middle_leave_nothing_behind() -> None:
    with server(deltas=50) as (port, pid):
        before = len(list(Path(f"/proc/{pid}/fd").iterdir())) if Path("/proc").exists() else 0
        found = clients(port, pid, clients=200, deltas=50, leave_after=5, prefix="gone")
        assert (found["complete"], found["deltas"]) == (200, 1_000)
        threads = wait_until_idle(port)
        assert len(threads) == 200, "the runs went on to their end without their clients"
        if before:
            after = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            assert after <= before + 10, "connections are left open"
        again = clients(port, pid, clients=50, deltas=50, ramp=1, prefix="next")
        assert (again["complete"], again["errors"]) == (50, {})


def wait_until_idle(port: int) -> list[dict[str, Any]]:
    """Wait until no run goes on, and return the threads."""
    until = time.monotonic() + 120
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/threads?limit=200", timeout=60) as response:
            threads: list[dict[str, Any]] = json.loads(response.read())["threads"]
        if threads and all(thread["status"] == "idle" for thread in threads):
            return threads
        assert time.monotonic() < until, "runs go on for ever"
        time.sleep(0.2)
