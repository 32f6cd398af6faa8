"""Files that are damaged, foreign, too new, half made, full or locked: refused or read, and never written garbage to."""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sapwood.core.errors import DiskFullError, HistoryDiverged, StoreError
from sapwood.core.messages import Message
from sapwood.stores.sqlite import SqliteStore, schema
from sapwood.stores.sqlite.connect import Options, connect
from sapwood.stores.sqlite.failures import translated
from sapwood.stores.sqlite.writer import Writer
from sapwood.testing.store_turns import PROMPT, called, ended, one_turn, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a run that ended and a conversation."""
    path = tmp_path / "stores.db"
    with SqliteStore(path) as store:
        fence = store.runs.begin("r1", "c1", 0, PROMPT)
        store.runs.append("r1", [*started(), *called(), *ended()], after=0, fence=fence)
        for number in range(20):
            store.conversations.append(f"c{number}", one_turn(number), after=0, run_id="r", fence=0)
    return path


def changed(path: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def everything(path: Path) -> tuple[Any, ...]:
    with SqliteStore(path) as store:
        runs = [(item.run_id, item.status, tuple(store.runs.events(item.run_id))) for item in store.runs.list()]
        conversations = [store.conversations.load(item.id) for item in store.conversations.list()]
    return runs, conversations


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda old: b"this is a letter to my aunt\n" * 100,
    "the header overwritten": lambda old: b"\0" * 100 + old[100:],
    "cut in the first page": lambda old: old[:1000],
    "cut in the middle": lambda old: old[: len(old) // 2 // 4096 * 4096],
}


@pytest.mark.parametrize("name", BYTES)
def test_a_file_that_is_none_of_sqlites_is_refused_by_name_and_left_as_it_is(path: Path, name: str) -> None:
    broken = BYTES[name](path.read_bytes())
    path.write_bytes(broken)
    with pytest.raises(StoreError, match=r"stores\.db") as raised:
        everything(path)
    assert "no SQLite file, or a damaged one" in str(raised.value)
    assert path.read_bytes()[:1000] == broken[:1000]


def test_flipped_bits_are_read_as_they_were_or_refused(path: Path) -> None:
    whole = path.read_bytes()
    expected = everything(path)
    for seed in range(200):
        chance = random.Random(seed)
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(broken))
        for beside in path.parent.glob("stores.db-*"):
            beside.unlink()
        try:
            found = everything(path)
        except StoreError:
            continue
        # A flipped letter inside a text is still a text; the shape is what it was.
        assert len(found[0]) <= len(expected[0])
        assert len(found[1]) <= len(expected[1])


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    changed(path, "CREATE TABLE letters (text TEXT)")
    with pytest.raises(StoreError, match="of another program"):
        SqliteStore(path)
    changed(path, "PRAGMA application_id = 7")
    with pytest.raises(StoreError, match="of another program"):
        SqliteStore(path)


def test_a_file_of_a_later_version_is_refused_and_not_changed(path: Path) -> None:
    changed(path, f"PRAGMA user_version = {len(schema.STEPS) + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer version of sapwood.*knows up to"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_run_of_a_later_version_is_refused_and_others_are_read(path: Path) -> None:
    with SqliteStore(path) as store:
        store.runs.begin("r2", None, 0, PROMPT)
        changed(path, "UPDATE run SET format = 99 WHERE run_id = 'r1'")
        with pytest.raises(StoreError, match="in form 99 by a newer version"):
            store.runs.load("r1")
        assert store.runs.load("r2").phase == "new"


def test_a_step_that_breaks_off_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = str(tmp_path / "stores.db")
    connection = sqlite3.connect(path, isolation_level=None)
    half = (*schema.STEPS, ("CREATE TABLE later (a)", "THIS IS NO SQL"))
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, path, half)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    schema.migrate(connection, path)
    whole = (*schema.STEPS, ("CREATE TABLE later (a)",))
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, path, half)
    schema.migrate(connection, path, whole)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.STEPS) + 1,)
    with pytest.raises(StoreError, match="newer version"):
        schema.migrate(connection, path)
    connection.close()


@pytest.mark.parametrize("look", range(3))
def test_a_file_that_another_process_makes_between_two_looks_is_no_foreign_one(tmp_path: Path, look: int) -> None:
    path = str(tmp_path / "a.db")
    connection, other = sqlite3.connect(path, isolation_level=None), sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    seen: list[str] = []

    def before(statement: str) -> None:
        if statement.startswith(("PRAGMA", "SELECT")):
            seen.append(statement)
            if len(seen) == look + 1:
                schema.migrate(other, path)

    connection.set_trace_callback(before)
    schema.migrate(connection, path)
    assert len(seen) > look
    connection.set_trace_callback(None)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.STEPS),)
    connection.close(), other.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ('UPDATE event SET json = \'{"type":"from_the_future"}\' WHERE seq = 2', "event 2 of run 'r1' cannot be read"),
        ("UPDATE event SET json = substr(json, 1, 20) WHERE seq = 3", "event 3 of run 'r1' cannot be read"),
        ("DELETE FROM event WHERE seq = 2", "event 2 is missing"),
        ("DELETE FROM event WHERE seq = 1", "event 1 is missing"),
    ],
)
def test_a_journal_that_does_not_fit_together_is_refused_and_the_run_stays_free(
    path: Path, statement: str, problem: str
) -> None:
    changed(path, statement)
    changed(path, "UPDATE run SET state = 'open'")
    with SqliteStore(path) as store:
        with pytest.raises(HistoryDiverged, match=problem) as raised:
            store.runs.load("r1")
        assert raised.value.run_id == "r1"
        for _ in range(2):
            with pytest.raises(HistoryDiverged, match=problem):
                store.runs.claim("r1")
        assert store.runs.summary("r1").status == "interrupted"


def test_a_message_that_cannot_be_read_is_told(path: Path) -> None:
    changed(path, "UPDATE message SET json = '{'")
    with SqliteStore(path) as store, pytest.raises(StoreError, match="a stored message cannot be read"):
        store.conversations.load("c1")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder may be missing"):
        SqliteStore(tmp_path / "nowhere" / "stores.db")


def test_a_file_that_another_program_locks_is_told_and_free_again_later(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    with SqliteStore(path, busy_seconds=0.2) as store:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"stores\.db is locked by another program"):
            store.conversations.append("c1", one_turn(1), after=2, run_id="later", fence=0)
        assert time.monotonic() - began < 5
        assert store.conversations.load("c1").version == 2
        other.execute("ROLLBACK")
        assert store.conversations.append("c1", one_turn(1), after=2, run_id="later", fence=0) == 4
    other.close()


def test_a_full_file_takes_nothing_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "stores.db"
    with SqliteStore(path, max_bytes=282_000) as store:
        stored = 0
        with pytest.raises(DiskFullError, match="Make room"):
            while True:
                store.conversations.append("c1", [Message.user("x" * 3_000)], after=stored, run_id=f"{stored}", fence=0)
                stored += 1
        assert len(store.conversations.load("c1").messages) == stored > 5
    with SqliteStore(path) as store:
        assert store.conversations.append("c1", one_turn(1), after=stored, run_id="later", fence=0) == stored + 2


def test_one_job_that_fails_the_file_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "stores.db")
    writer = Writer(
        path, lambda: connect(Options(path, 1.0, 400_000), writes=True), every_seconds=60, beat=lambda: None
    )
    gate = threading.Event()
    outcomes: dict[str, Any] = {}

    def job(name: str, size: int) -> None:
        def work(connection: sqlite3.Connection) -> str:
            connection.execute("INSERT INTO past (digest, json) VALUES (?, ?)", (name.encode(), "x" * size))
            if name == "refused":
                raise ValueError(name)
            return name

        try:
            outcomes[name] = writer.run(work)
        except (StoreError, ValueError) as error:
            outcomes[name] = type(error)

    first = threading.Thread(target=lambda: writer.run(lambda _: gate.wait(10)))
    first.start()
    time.sleep(0.05)
    jobs = [("a", 10), ("refused", 10), ("huge", 10_000_000), ("b", 10)]
    threads = [threading.Thread(target=job, args=item) for item in jobs]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    gate.set()
    for thread in [first, *threads]:
        thread.join()
    assert outcomes == {"a": "a", "b": "b", "refused": ValueError, "huge": DiskFullError}
    found = writer.run(lambda connection: connection.execute("SELECT digest FROM past ORDER BY digest").fetchall())
    assert found == [(b"a",), (b"b",)]
    writer.close()


def test_a_closed_store_says_so_and_may_be_closed_again(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()
    for use in (lambda: store.runs.list(), lambda: store.conversations.append("c", [], after=0, run_id="r", fence=0)):
        with pytest.raises(StoreError, match="is closed"):
            use()


def test_a_store_that_nobody_keeps_closes_itself(path: Path) -> None:
    store = SqliteStore(path)
    store.runs.begin("r9", None, 0, PROMPT)
    del store
    import gc

    gc.collect()
    with SqliteStore(path) as other:
        assert other.runs.summary("r9").status == "interrupted"


def test_closing_gives_up_what_is_held(path: Path) -> None:
    with SqliteStore(path) as store:
        store.runs.begin("r9", "c9", 2, PROMPT)
    with SqliteStore(path) as store:
        assert store.runs.claim("r9").conversation_id == "c9"


def test_a_path_stays_the_same_when_the_program_changes_its_folder(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        store = SqliteStore("stores.db")
    finally:
        os.chdir(before)
    with store:
        assert store.path == str(tmp_path / "stores.db")
        assert store.runs.list() == []


CODES = {
    sqlite3.SQLITE_FULL: "no room",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
    sqlite3.SQLITE_READONLY: "may not be written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_IOERR | 3 << 8: "quota",
    sqlite3.SQLITE_ERROR: "no such table",
}


@pytest.mark.parametrize("code", CODES)
def test_what_sqlite_says_becomes_a_way_out(code: int) -> None:
    error = sqlite3.OperationalError("no such table: x")
    error.sqlite_errorcode = code
    told = translated(error, "/data/app.db")
    assert isinstance(told, StoreError)
    assert "/data/app.db" in str(told)
    assert CODES[code] in str(told)
