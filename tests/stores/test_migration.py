"""A file of an older version is brought to today's, and a copy of it is left beside it."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.stores.sqlite import SqliteStore, schema
from sapwood.testing.store_turns import at_once

GOLDEN = Path(__file__).parent / "golden" / "files"


@pytest.fixture(params=sorted(GOLDEN.glob("*.db")), ids=lambda path: path.stem)
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of an older version."""
    return Path(shutil.copy(request.param, tmp_path / "app.db"))


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def show(path: Path) -> tuple[list[str], list[str]]:
    with SqliteStore(path) as store:
        messages = [message.text for message in store.conversations.load("c2").messages]
        return messages, [item.status for item in store.runs.list()]


def test_what_is_in_an_older_file_is_there_after_it_was_brought_up_to_date(path: Path) -> None:
    older = version_of(path)
    assert older < len(schema.STEPS)
    assert show(path) == (["Do I like tea?", "You do."], ["ended"])
    assert version_of(path) == len(schema.STEPS)
    with SqliteStore(path) as store:
        record = store.memory.save("likes tea")
        assert store.memory.search("tea")[0].id == record.id
        assert store.memory.check() == []


def test_a_copy_of_the_older_file_is_left_beside_it(path: Path) -> None:
    older = version_of(path)
    show(path)
    beside = path.with_name(f"app.db.v{older}.bak")
    assert version_of(beside) == older
    connection = sqlite3.connect(beside)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM conversation").fetchone() == (2,)
    connection.close()
    assert [item.name for item in path.parent.glob("*.bak*")] == [beside.name]


def test_a_copy_that_is_there_already_is_never_written_over(path: Path) -> None:
    beside = path.with_name(f"app.db.v{version_of(path)}.bak")
    beside.write_bytes(b"mine")
    assert show(path)[1] == ["ended"]
    assert beside.read_bytes() == b"mine"


def test_what_another_process_wrote_to_the_log_is_in_the_copy(path: Path) -> None:
    older = version_of(path)
    script = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA journal_mode = WAL')\n"
        "c.execute(\"UPDATE message SET json = replace(json, 'You do.', 'You did.')\")\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert Path(f"{path}-wal").stat().st_size > 0
    assert show(path)[0] == ["Do I like tea?", "You did."]
    connection = sqlite3.connect(path.with_name(f"app.db.v{older}.bak"))
    assert connection.execute("SELECT count(*) FROM message WHERE json LIKE '%You did.%'").fetchone() == (1,)
    connection.close()


def test_several_that_open_an_older_file_at_once_make_one_copy(path: Path) -> None:
    def work(_: int) -> tuple[list[str], list[str]]:
        return show(path)

    assert at_once(work, 6) == [(["Do I like tea?", "You do."], ["ended"])] * 6
    assert len(list(path.parent.glob("*.bak*"))) == 1


def test_a_new_file_leaves_no_copy(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()
    assert not list(tmp_path.glob("*.bak*"))
