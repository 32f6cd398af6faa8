"""The tables, and the steps from each version of them to the next.

Laws: a released step never changes, a new one is added at the end; all that a file lacks are one transaction; a file
from a later version is refused, and so is one of another program; before an older file is changed, a copy of it is
left beside it.
"""

import os
import sqlite3
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
_MEMORIES = (
    "CREATE TABLE memory_setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # No row of it is ever deleted: see seal.py.
    "CREATE TABLE memory_secret (n INTEGER PRIMARY KEY, secret BLOB NOT NULL)",
    # scope, owner and agent are hashes: of all three, of the user, and of the agent.
    """CREATE TABLE memory_space (
        n INTEGER PRIMARY KEY, scope BLOB NOT NULL UNIQUE, owner BLOB, agent BLOB, secret INTEGER NOT NULL,
        sealed BLOB NOT NULL)""",
    "CREATE INDEX memory_space_of_owner ON memory_space(owner) WHERE owner IS NOT NULL",
    "CREATE INDEX memory_space_of_agent ON memory_space(agent) WHERE agent IS NOT NULL",
    # A place is a space, and below zero what was superseded in it.
    """CREATE TABLE memory_tally (
        place INTEGER PRIMARY KEY, records INTEGER NOT NULL, length INTEGER NOT NULL, changes INTEGER NOT NULL,
        removals INTEGER NOT NULL)""",
    """CREATE TABLE memory_conversation (
        n INTEGER PRIMARY KEY, space INTEGER NOT NULL, name BLOB NOT NULL, last INTEGER NOT NULL,
        records INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX memory_conversation_of_space ON memory_conversation(space, name)",
    """CREATE TABLE memory_speaker (
        space INTEGER NOT NULL, speaker INTEGER NOT NULL, records INTEGER NOT NULL, secret INTEGER NOT NULL,
        sealed BLOB NOT NULL, PRIMARY KEY (space, speaker)) WITHOUT ROWID""",
    # Narrow, as a search reads many of these and few bodies. id and once are hashes: of the id, and of a save's key.
    """CREATE TABLE memory (
        n INTEGER PRIMARY KEY, space INTEGER NOT NULL, state TEXT NOT NULL, origin TEXT NOT NULL, kind TEXT,
        conversation INTEGER NOT NULL, position INTEGER NOT NULL, speaker INTEGER NOT NULL, at INTEGER NOT NULL,
        flags INTEGER NOT NULL, length INTEGER NOT NULL, importance REAL NOT NULL, valid_from INTEGER,
        valid_to INTEGER, expires_at INTEGER, is_indexed INTEGER NOT NULL, id BLOB NOT NULL, once BLOB, same BLOB,
        secret INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX memory_id ON memory(id, space)",
    "CREATE INDEX memory_of_space ON memory(space)",
    "CREATE UNIQUE INDEX memory_position ON memory(conversation, position) WHERE conversation > 0",
    "CREATE UNIQUE INDEX memory_once ON memory(space, once) WHERE once IS NOT NULL",
    "CREATE INDEX memory_same ON memory(space, same) WHERE same IS NOT NULL",
    "CREATE INDEX memory_end ON memory(space, expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memory_valid_from ON memory(space, valid_from) WHERE valid_from IS NOT NULL",
    "CREATE INDEX memory_valid_to ON memory(space, valid_to) WHERE valid_to IS NOT NULL",
    "CREATE INDEX memory_unindexed ON memory(n) WHERE is_indexed = 0 AND state <> 'quarantined'",
    "CREATE TABLE memory_body (n INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
    """CREATE TABLE memory_derived (
        parent BLOB NOT NULL, child INTEGER NOT NULL, PRIMARY KEY (parent, child)) WITHOUT ROWID""",
    "CREATE INDEX memory_derived_child ON memory_derived(child)",
    """CREATE TABLE memory_posting (
        place INTEGER NOT NULL, term BLOB NOT NULL, first INTEGER NOT NULL, entries BLOB NOT NULL,
        PRIMARY KEY (place, term, first)) WITHOUT ROWID""",
    """CREATE TABLE memory_model (
        n INTEGER PRIMARY KEY, name TEXT NOT NULL, width INTEGER NOT NULL, UNIQUE (name, width))""",
    """CREATE TABLE memory_vector (
        model INTEGER NOT NULL, place INTEGER NOT NULL, n INTEGER NOT NULL, secret INTEGER NOT NULL,
        scale REAL NOT NULL, sealed BLOB NOT NULL, PRIMARY KEY (model, place, n)) WITHOUT ROWID""",
)
STEPS: tuple[tuple[str, ...], ...] = (_FIRST, _MEMORIES)
"""What makes version n + 1 of version n, statement by statement."""


def migrate(connection: sqlite3.Connection, path: str, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Bring a file to the newest version, in one transaction; raises StoreError for a file that is not for us."""
    with _transaction(connection, "DEFERRED"):  # else another process makes the tables between two of these looks
        version = _version(connection, path, len(steps))
    if version == len(steps):
        return
    if version:
        _keep_old(connection, path, version)
    with _transaction(connection, "IMMEDIATE"):
        version = _version(connection, path, len(steps))  # again: another process may have been first
        for step in steps[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")


def _keep_old(connection: sqlite3.Connection, path: str, version: int) -> None:
    """Leave a copy of a file of an older version beside it; one that is there already stays as it is."""
    beside = Path(f"{path}.v{version}.bak")
    if path == ":memory:" or beside.exists():
        return
    unfinished = Path(f"{beside}.{uuid.uuid4().hex}")
    try:
        copy = sqlite3.connect(unfinished)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        _put_beside(unfinished, beside)
    finally:
        unfinished.unlink(missing_ok=True)


def _put_beside(unfinished: Path, beside: Path) -> None:
    """Give the copy its name, unless one has it: of several processes that migrate at once, the first copy counts."""
    try:
        os.link(unfinished, beside)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not beside.exists():
            os.replace(unfinished, beside)


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
