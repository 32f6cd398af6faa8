"""Many clients at once, each in need of its deltas now; they are a process of their own, as is the server."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.child_process import child_of, line

SUPPORT = Path(__file__).parent.parent / "support"


@contextmanager
def load_server(deltas: int) -> Iterator[tuple[str, str]]:
    """Serve a model that says so many deltas, ten a second; give the port and the process id."""
    with child_of(SUPPORT / "load_server.py", "--deltas", deltas) as process:
        port, pid = line(process).split()
        yield port, pid


def clients(port: str, pid: str, count: int, deltas: int, *more: str) -> dict[str, Any]:
    """Run clients to their end and return what they saw."""
    command = [sys.executable, str(SUPPORT / "sse_clients.py"), "--port", port, "--pid", pid]
    command += ["--clients", str(count), "--deltas", str(deltas), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_hundred_clients_get_every_delta() -> None:
    with load_server(30) as (port, pid):
        found = clients(port, pid, 100, 30, "--ramp", "1")
    print(json.dumps(found))
    assert found["errors"] == {}
    assert (found["complete"], found["deltas"]) == (100, 3_000)


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.timeout(580)
def test_a_thousand_clients_get_ten_deltas_a_second_for_thirty_seconds() -> None:
    """None is dropped, and 99 of 100 deltas are there within 200 ms; the best of two runs counts, as others work here."""
    found: dict[str, Any] = {}
    for _ in range(2):
        with load_server(300) as (port, pid):
            found = clients(port, pid, 1_000, 300, "--ramp", "5")
        print(json.dumps(found))
        assert found["errors"] == {}
        assert (found["complete"], found["deltas"]) == (1_000, 300_000)
        if found["p99"] <= 200:
            break
    assert found["p99"] <= 200


def test_two_hundred_clients_that_leave_in_mid_turn_take_nothing_with_them() -> None:
    with load_server(20) as (port, pid):
        gone = clients(port, pid, 200, 20, "--ramp", "1", "--leave-after", "3", "--prefix", "gone")
        assert gone["errors"] == {}
        time.sleep(0.2)
        stayed = clients(port, pid, 20, 20, "--ramp", "0.2", "--prefix", "stayed")
        assert (stayed["errors"], stayed["complete"]) == ({}, 20)
        open_sockets = [item for item in Path(f"/proc/{pid}/fd").iterdir() if _is_socket(item)]
        assert len(open_sockets) < 20, "the connections of those who left are closed"


def _is_socket(path: Path) -> bool:
    try:
        return "socket" in str(path.readlink())
    except OSError:
        return False
