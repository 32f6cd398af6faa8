"""What a store of a file does beside its calls: signs of life, forks, connections."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from sapwood.core.errors import ConflictError, StoreError
from sapwood.stores.sqlite import SqliteStore, forks
from sapwood.stores.sqlite.connect import MAX_IDLE_READERS, Options, Readers, connect
from sapwood.testing.store_turns import PROMPT, at_once, ended, one_turn, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stores.db"


def test_a_store_gives_signs_of_life_for_what_it_holds(path: Path) -> None:
    with SqliteStore(path, lease_seconds=2.5) as store, SqliteStore(path) as other:
        store.runs.begin("r1", "c1", 0, PROMPT)
        time.sleep(3)
        assert other.runs.summary("r1").status == "running"
        with pytest.raises(ConflictError, match="alive"):
            other.runs.claim("r1")


def test_what_ended_was_released_or_was_taken_over_gets_no_more_signs_of_life(path: Path) -> None:
    with SqliteStore(path, lease_seconds=0.3) as store, SqliteStore(path) as other:
        fences = {name: store.runs.begin(name, None, 0, PROMPT) for name in ("ended", "released", "taken", "deleted")}
        store.runs.append("ended", [*started(), *ended()], after=0, fence=fences["ended"])
        store.runs.release("released", fences["released"])
        other.runs.release("taken", fences["taken"])
        taken = other.runs.claim("taken")
        other.runs.release("deleted", fences["deleted"])
        assert other.runs.delete("deleted")
        time.sleep(0.5)
        assert other.runs.append("taken", started(), after=0, fence=taken.fence) == 1
        statuses = {item.run_id: item.status for item in store.runs.list()}
        assert statuses == {"ended": "ended", "released": "interrupted", "taken": "running"}


def test_a_store_goes_on_after_its_process_has_forked(path: Path) -> None:
    with SqliteStore(path) as store, SqliteStore(":memory:") as memory:
        memory.conversations.append("c1", one_turn(1), after=0, run_id="r", fence=0)
        store.conversations.append("c1", one_turn(1), after=0, run_id="r", fence=0)
        store.conversations.load("c1")
        forks.before()
        late: list[int] = []
        reading = threading.Thread(target=lambda: late.append(store.conversations.load("c1").version))
        reading.start()
        time.sleep(0.05)
        assert late == []
        forks.in_parent()
        reading.join()
        assert late == [2]
        assert store.conversations.append("c1", one_turn(2), after=2, run_id="r2", fence=0) == 4
        assert memory.conversations.load("c1").version == 2


def test_a_child_holds_nothing_and_has_connections_of_its_own(path: Path) -> None:
    store, memory, closed = SqliteStore(path), SqliteStore(":memory:"), SqliteStore(path)
    closed.close()
    fence = store.runs.begin("r1", None, 0, PROMPT)
    forks.before()
    forks.in_child()  # as the child sees it; the parent's thread, which it would not have, idles here
    assert store.runs.append("r1", started(), after=0, fence=fence) == 1
    store.close()
    with SqliteStore(path) as other:
        assert other.runs.summary("r1").status == "running", "what the parent holds is not the child's to give up"
    with pytest.raises(StoreError, match="in memory"):
        memory.conversations.load("c1")
    with pytest.raises(StoreError, match="is closed"):
        closed.runs.list()
    memory.close()


def test_a_reader_that_fails_is_not_lent_again(path: Path) -> None:
    SqliteStore(path).close()
    readers = Readers(lambda: connect(Options(str(path), 1.0, None), writes=False))
    lent: list[sqlite3.Connection] = []
    with pytest.raises(ZeroDivisionError), readers.one() as connection:
        lent.append(connection)
        raise ZeroDivisionError
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        lent[0].execute("SELECT 1")
    with pytest.raises(sqlite3.OperationalError, match="readonly"), readers.one() as connection:
        connection.execute("DELETE FROM run")
    readers.close()


def test_many_readers_at_once_leave_few_connections(path: Path) -> None:
    opened: list[sqlite3.Connection] = []
    SqliteStore(path).close()

    def one() -> sqlite3.Connection:
        opened.append(connect(Options(str(path), 1.0, None), writes=False))
        return opened[-1]

    readers = Readers(one)
    gate = threading.Barrier(12)

    def read(_: int) -> None:
        with readers.one():
            gate.wait(10)

    at_once(read, 12)
    with readers.one() as last:
        readers.close()
        assert last.execute("SELECT count(*) FROM run").fetchone() == (0,)
    assert len(opened) == 12
    assert sum(_is_open(connection) for connection in opened) == 0


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_no_more_than_a_few_readers_are_kept(path: Path) -> None:
    with SqliteStore(path) as store:
        at_once(lambda _: store.runs.list(), 30)
        assert MAX_IDLE_READERS < 10
        assert len(store.runs.list()) == 0


def test_a_place_that_cannot_have_a_log_beside_it_is_refused() -> None:
    # An empty path is a temporary database of SQLite's own, which takes no write-ahead log.
    with pytest.raises(StoreError, match="local disk"):
        connect(Options("", 1.0, None), writes=True)


def test_a_file_that_cannot_be_turned_over_to_the_log_in_time_is_told(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked by another program"):
        SqliteStore(path, busy_seconds=0.1)
    other.execute("ROLLBACK")
    other.close()
    SqliteStore(path).close()
