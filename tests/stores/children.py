"""Other processes for the tests of stores: `python children.py WHAT ARGUMENTS...`, one line of output for each step."""

import contextlib
import os
import resource
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sapwood.core.errors import ConflictError, DiskFullError, StoreError
from sapwood.core.messages import Message
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.faults import crash_at
from sapwood.testing.store_turns import PROMPT, called, ended, started


def say(*words: Any) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # whole, also from several threads


def hold(path: str, lease: str) -> None:
    """Hold r1 on c1 until a line comes, then append to it."""
    store = SqliteStore(path, lease_seconds=float(lease))
    fence = store.runs.begin("r1", "c1", 0, PROMPT)
    version = store.runs.append("r1", started(), after=0, fence=fence)
    say("held")
    sys.stdin.readline()
    try:
        store.runs.append("r1", called(), after=version, fence=fence)
        say("appended")
    except ConflictError as error:
        say("refused", type(error).__name__)
    try:
        store.conversations.append("c1", [PROMPT], after=0, run_id="r1", fence=fence)
        say("appended")
    except ConflictError as error:
        say("refused", type(error).__name__)


def work(path: str, name: str) -> None:
    """Append without end, and say what was acknowledged."""
    store = SqliteStore(path)

    def run(run_id: str) -> None:
        fence = store.runs.begin(run_id, None, 0, PROMPT)
        version = store.runs.append(run_id, started(run_id), after=0, fence=fence)
        while True:
            version = store.runs.append(run_id, called(), after=version, fence=fence)
            say(run_id, version)

    for number in range(4):
        threading.Thread(target=run, args=(f"{name}-{number}",), daemon=True).start()
    time.sleep(60)


def crash(path: str, point: str) -> None:
    """Store one turn and be killed at the second visit of a point."""
    store = SqliteStore(path)
    say("open")
    with crash_at(point, visit=2, how="kill"):
        fence = store.runs.begin("r1", "c1", 0, PROMPT)
        version = store.runs.append("r1", started(), after=0, fence=fence)
        say("acknowledged", version)
        store.runs.append("r1", ended(), after=version, fence=fence)
        say("acknowledged", 2)
        fence = store.runs.begin("r2", "c1", 0, PROMPT)
    say("not crashed")


def open_at_once(path: str, at: str, name: str) -> None:
    """Open a file at a moment, and store something."""
    while time.time() < float(at):
        time.sleep(0.0005)
    with SqliteStore(path) as store:
        store.conversations.append(name, [Message.user(name)], after=0, run_id="r", fence=0)
    say("done")


def fork(path: str) -> None:
    """Fork while a store is open and in use; both sides go on."""
    store = SqliteStore(path)
    memory = SqliteStore(":memory:")
    memory.conversations.append("c1", [PROMPT], after=0, run_id="r", fence=0)
    fence = store.runs.begin("parent", "c-parent", 0, PROMPT)
    store.runs.load("parent")
    stop = threading.Event()

    def busy() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            store.conversations.append(f"busy-{number}", [PROMPT], after=0, run_id="r", fence=0)
            store.conversations.load(f"busy-{number}")

    thread = threading.Thread(target=busy)
    thread.start()
    children = []
    for number in range(4):
        time.sleep(0.02)
        child = os.fork()
        if not child:
            with contextlib.suppress(StoreError):
                memory.conversations.load("c1")
                os._exit(3)
            own = store.runs.begin(f"child-{number}", None, 0, PROMPT)
            store.runs.append(f"child-{number}", started(), after=0, fence=own)
            if store.runs.summary("parent").status != "running":
                os._exit(4)
            store.close()
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    stop.set()
    thread.join()
    store.runs.append("parent", started("parent"), after=0, fence=fence)
    assert memory.conversations.load("c1").version == 1
    say(codes, sorted(item.run_id for item in store.runs.list()))
    store.close()


def file_limit(path: str) -> None:
    """Write until a limit on the size of files is met; then without the limit."""
    store = SqliteStore(path)
    store.conversations.append("c0", [PROMPT], after=0, run_id="r", fence=0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    stored = 1
    try:
        for number in range(1, 1000):
            store.conversations.append(f"c{number}", [Message.user("x" * 5_000)], after=0, run_id="r", fence=0)
            stored += 1
    except StoreError as error:
        say(type(error).__name__, path in str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(store.conversations.list(limit=1000)) == stored
    store.conversations.append("later", [PROMPT], after=0, run_id="r", fence=0)
    store.close()
    say("intact", sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0])


def few_files(path: str) -> None:
    """Use a store from many threads with few file descriptors, then with none left."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    store = SqliteStore(path)
    failures: list[BaseException] = []

    def use(number: int) -> None:
        for turn in range(5):
            name = f"c{number}-{turn}"
            try:
                store.conversations.append(name, [PROMPT], after=0, run_id="r", fence=0)
                assert store.conversations.load(name).version == 1
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = {type(error).__name__ for error in failures}
    say("many threads", len(store.conversations.list(limit=1000)) + len(failures) >= 200, kinds <= {"StoreError"})
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    try:
        SqliteStore(path + "-other")
    except StoreError as error:
        say("none left", "too many files" in str(error))
    for number in taken:
        os.close(number)
    SqliteStore(path + "-other").close()
    assert store.conversations.load("c0-0").version in (0, 1)
    store.close()
    say("recovered")


def few_threads(path: str) -> None:
    """Open a store when no thread can be started, then when one can."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    threading.stack_size(256 * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 1024 * 1024, hard))
    try:
        SqliteStore(path)
    except StoreError as error:
        say("refused", "thread" in str(error))
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    threading.stack_size(0)
    SqliteStore(path).close()
    say("recovered")


def read_only(path: str) -> None:
    """Use a file and its folder without the right to write, as somebody who is not root."""
    SqliteStore(path).close()
    os.chmod(path, 0o444)
    os.chmod(Path(path).parent, 0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        store = SqliteStore(path)
        store.conversations.append("c1", [PROMPT], after=0, run_id="r", fence=0)
    except StoreError as error:
        say("refused", path in str(error), "may not be written" in str(error) or "cannot be opened" in str(error))


def full(path: str) -> None:
    """Fill a file to its limit, through many threads at once."""
    store = SqliteStore(path, max_bytes=332_000)
    stored: list[str] = []
    refused: list[BaseException] = []

    def fill(name: str) -> None:
        try:
            for number in range(100):
                store.conversations.append(
                    f"{name}-{number}", [Message.user("x" * 2_000)], after=0, run_id="r", fence=0
                )
                stored.append(f"{name}-{number}")
        except BaseException as error:
            refused.append(error)

    threads = [threading.Thread(target=fill, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(len(refused), all(isinstance(error, DiskFullError) and path in str(error) for error in refused))
    say(set(stored) == {item.id for item in store.conversations.list(limit=1000)})
    store.close()
    with SqliteStore(path) as roomy:
        roomy.conversations.append("later", [PROMPT], after=0, run_id="r", fence=0)
    say("went on")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
