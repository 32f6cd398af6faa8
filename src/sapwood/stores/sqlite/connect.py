"""Connections to one file: how each is set up, and a few that readers share.

Laws: WAL, so that readers and the writer do not wait for each other; `synchronous=FULL`, so that what was acknowledged
survives a loss of power; a connection is used by one thread at a time.
"""

import random
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Condition

from sapwood.core.errors import StoreError
from sapwood.stores.sqlite.failures import told
from sapwood.stores.sqlite.schema import migrate

MEMORY = ":memory:"
MAX_IDLE_READERS = 4
_WAL_BYTES = 64 * 1024 * 1024


class Options:
    """How to open a file. max_bytes: what it may grow to, None for no limit."""

    def __init__(self, path: str, busy_seconds: float, max_bytes: int | None) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self.max_bytes = max_bytes


def connect(options: Options, *, writes: bool) -> sqlite3.Connection:
    """Return a connection, for one thread at a time. writes: make and migrate the tables, too."""
    path = options.path
    with told(path):
        connection = sqlite3.connect(path, timeout=options.busy_seconds, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            if writes:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
                connection.execute("PRAGMA fullfsync = ON")  # macOS only: without it a disk may keep it in its cache
                if options.max_bytes is not None:
                    (size,) = connection.execute("PRAGMA page_size").fetchone()
                    connection.execute(f"PRAGMA max_page_count = {max(1, options.max_bytes // size)}")
                if path != MEMORY:
                    _use_wal(connection, options)
                migrate(connection, path)
            else:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def _use_wal(connection: sqlite3.Connection, options: Options) -> None:
    """Turn WAL on; of several processes that open a new file one does, and SQLite does not wait here by itself."""
    until = time.monotonic() + options.busy_seconds
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0.005, 0.03))
    if mode != "wal":
        raise StoreError(
            f"{options.path} lies on a file system that cannot be shared as SQLite's write-ahead log needs it (journal "
            f"mode {mode!r}); put it on a local disk"
        )
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")


class Readers:
    """A few connections for reading, made as needed."""

    def __init__(self, open_one: Callable[[], sqlite3.Connection]) -> None:
        self._open = open_one
        self._idle: list[sqlite3.Connection] = []
        self._changed = Condition()
        self._lent = 0
        self._paused = False
        self._closed = False

    @contextmanager
    def one(self) -> Generator[sqlite3.Connection]:
        """Lend a connection, in a transaction, so that all it reads is of one moment."""
        connection = self._taken()
        try:
            connection = connection or self._open()
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection is not None:
                connection.close()
            self._back(None)
            raise
        self._back(connection)

    def close(self) -> None:
        """Close those that nobody uses; the others are closed when they come back."""
        with self._changed:
            self._closed = True
            self._close_idle()

    def pause(self) -> None:
        """Wait for all that are lent, close them, and lend none before `resume`."""
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: not self._lent)
            self._close_idle()

    def resume(self) -> None:
        """Go on."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def _taken(self) -> sqlite3.Connection | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._paused)
            self._lent += 1
            return self._idle.pop() if self._idle else None

    def _back(self, connection: sqlite3.Connection | None) -> None:
        with self._changed:
            self._lent -= 1
            if connection is not None:
                self._idle.append(connection)
                if self._closed or len(self._idle) > MAX_IDLE_READERS:
                    self._close_idle()
            self._changed.notify_all()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
