"""The tables, and the steps from each version of them to the next.

Laws: a released step never changes, a new one is added at the end; all that a file lacks are one transaction; a file
from a later version is refused, and so is one of another program.
"""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from sapwood.core.errors import StoreError

APPLICATION_ID = 0x53415057
"""Marks a file as ours: `SAPW`."""

_FIRST = (
    """CREATE TABLE run (
        n INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, conversation_id TEXT, base_seq INTEGER NOT NULL,
        fence INTEGER NOT NULL, state TEXT NOT NULL, stopped_by TEXT, error TEXT, prompt TEXT NOT NULL, past INTEGER,
        started_at REAL NOT NULL, lease TEXT, format INTEGER NOT NULL)""",
    "CREATE INDEX run_of_conversation ON run(conversation_id, n) WHERE conversation_id IS NOT NULL",
    "CREATE INDEX run_unfinished ON run(n) WHERE state <> 'ended'",
    "CREATE INDEX run_past ON run(past) WHERE past IS NOT NULL",
    # Beside each other in the order of their coming, so that the events of many runs that come together go to one page.
    """CREATE TABLE event (
        id INTEGER PRIMARY KEY, run INTEGER NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, call TEXT,
        json TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX event_of_run ON event(run, seq)",
    "CREATE INDEX event_of_call ON event(run, call) WHERE call IS NOT NULL",
    # Past messages of runs without a conversation, as a tree: a node is a message and the one before it, so turns
    # that go on from one another share what they have in common.
    """CREATE TABLE past (
        id INTEGER PRIMARY KEY, before INTEGER, digest BLOB NOT NULL UNIQUE, json TEXT NOT NULL)""",
    "CREATE INDEX past_before ON past(before) WHERE before IS NOT NULL",
    """CREATE TABLE conversation (
        n INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, fence INTEGER NOT NULL,
        holder TEXT, spans TEXT NOT NULL, started_at REAL NOT NULL, updated_at REAL NOT NULL)""",
    """CREATE TABLE message (
        conversation INTEGER NOT NULL, seq INTEGER NOT NULL, json TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX message_of_conversation ON message(conversation, seq)",
    """CREATE TABLE turn (
        conversation INTEGER NOT NULL, run_id TEXT NOT NULL, version INTEGER NOT NULL,
        PRIMARY KEY (conversation, run_id)) WITHOUT ROWID""",
)
STEPS: tuple[tuple[str, ...], ...] = (_FIRST,)
"""What makes version n + 1 of version n, statement by statement."""


def migrate(connection: sqlite3.Connection, path: str, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Bring a file to the newest version, in one transaction; raises StoreError for a file that is not for us."""
    with _transaction(connection, "DEFERRED"):  # else another process makes the tables between two of these looks
        version = _version(connection, path, len(steps))
    if version == len(steps):
        return
    with _transaction(connection, "IMMEDIATE"):
        version = _version(connection, path, len(steps))  # again: another process may have been first
        for step in steps[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Generator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, path: str, newest: int) -> int:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if mark != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if mark or version or tables:
            raise StoreError(f"{path} is a SQLite file of another program; give the store a file of its own")
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer version of sapwood: its tables are at version {version}, and this one "
            f"knows up to {newest}. Update sapwood, or open another file; nothing was changed"
        )
    return int(version)
