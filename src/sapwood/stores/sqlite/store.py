"""SqliteStore: runs, conversations and memories in one file, from any thread and any process of this machine."""

import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sapwood.core.errors import StoreError
from sapwood.core.ports import Embedder
from sapwood.stores import rules
from sapwood.stores.embedding import CACHE_BYTES, Embedding
from sapwood.stores.faces import Conversations, Runs
from sapwood.stores.holder import LEASE_SECONDS, Clock, is_alive, this_process
from sapwood.stores.memory import Memory
from sapwood.stores.memory_home import MemoryHome
from sapwood.stores.memory_rows import MemoryRows
from sapwood.stores.rows import Rows
from sapwood.stores.rules import Session
from sapwood.stores.sqlite import forks
from sapwood.stores.sqlite.connect import MEMORY, Options, Readers, connect
from sapwood.stores.sqlite.failures import told
from sapwood.stores.sqlite.memory import SqliteMemoryRows
from sapwood.stores.sqlite.rows import SqliteRows
from sapwood.stores.sqlite.writer import Work, Writer

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SqliteStore:
    """A file with runs, conversations and memories; `":memory:"` for one that is gone when it is closed.

    path: the file, made where it is not there; its folder must exist. Several processes may use one file.
    busy_seconds: how long to wait while another process writes. max_bytes: what the file may grow to.
    lease_seconds: how long a process that hangs keeps what it holds; one that has ended keeps nothing.
    embedder: lets memories be found by meaning, too. vector_cache_bytes: what vectors may take in memory.
    Raises StoreError for a file that cannot be used.

    >>> from sapwood import Message
    >>> with SqliteStore(":memory:") as store:
    ...     _ = store.conversations.append("c1", [Message.user("Hi")], after=0, run_id="r1", fence=0)
    ...     [message.text for message in store.conversations.load("c1").messages]
    ['Hi']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_seconds: float = 10.0,
        max_bytes: int | None = None,
        lease_seconds: float = LEASE_SECONDS,
        clock: Clock | None = None,
        embedder: Embedder | None = None,
        vector_cache_bytes: int = CACHE_BYTES,
    ) -> None:
        name = os.fspath(path)
        # As a whole: the program may change its folder later.
        self.path = name if name == MEMORY else str(Path(name).absolute())
        self._options = Options(self.path, busy_seconds, max_bytes)
        self._lease_seconds = lease_seconds
        self._clock = clock or Clock()
        self._lost = False
        self._open()
        self.runs = Runs(self)
        self.conversations = Conversations(self)
        self.keeps_out = self.path == MEMORY
        self.waits = not self.keeps_out
        embedding = Embedding(embedder, cache_bytes=vector_cache_bytes) if embedder is not None else None
        self.memory = Memory(MemoryHome(self, embedding, self._clock.wall))
        try:
            self._writer.run(lambda _: None)
        except BaseException:
            self._finish()
            raise
        forks.watch(self)

    def _open(self) -> None:
        owner = this_process()
        self._session = Session(owner, self._clock, self._lease_seconds, partial(is_alive, clock=self._clock))
        self._holds = _Holds(self._session)
        self._writer = Writer(
            self.path,
            partial(connect, self._options, writes=True),
            every_seconds=self._lease_seconds / 3,
            beat=self._holds.beat,
        )
        self._readers = Readers(partial(connect, self._options, writes=False))
        self._finish = weakref.finalize(self, _close, os.getpid(), self._writer, self._readers, self._holds)

    def close(self) -> None:
        """Give up what is held here, finish what is being written, and close the file. More than once is harmless."""
        self._finish()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, change: Callable[[Rows, Session], T]) -> T:
        """Run a transaction and return its result once it is durable."""
        self._check()
        self._give_up()
        return self._writer.run(lambda connection: change(SqliteRows(connection), self._session))

    def read(self, look: Callable[[Rows, Session], T]) -> T:
        """Run a transaction that changes nothing."""
        if self.path == MEMORY:
            return self.write(look)
        if not self._finish.alive:
            raise StoreError(f"the store of {self.path} is closed; open a new one")
        with told(self.path), self._readers.one() as connection:
            return look(SqliteRows(connection), self._session)

    def write_memory(self, change: Callable[[MemoryRows], T]) -> T:
        """Run a transaction on memories and return its result once it is durable."""
        self._check()
        writer = self._writer
        return writer.run(lambda connection: change(SqliteMemoryRows(connection, writer.owe_scrub)))

    def read_memory(self, look: Callable[[MemoryRows], T]) -> T:
        """Run a transaction on memories that changes nothing."""
        if self.path == MEMORY:
            return self.write_memory(look)
        if not self._finish.alive:
            raise StoreError(f"the store of {self.path} is closed; open a new one")
        with told(self.path), self._readers.one() as connection:
            return look(SqliteMemoryRows(connection, _nothing))

    def hold(self, run_id: str, fence: int) -> None:
        """Renew this hold from time to time, until it is lost."""
        self._holds.add(run_id, fence)

    def drop(self, run_id: str) -> None:
        """Renew the hold of this run no longer."""
        self._holds.remove(run_id)

    def release(self, run_id: str, fence: int) -> None:
        """End a hold; where the file cannot be written to, with the next thing that is written."""
        self._holds.owe(run_id, fence)
        self._check()
        self._give_up()

    def before_fork(self) -> None:
        """Close all connections of a file."""
        if self.path != MEMORY:
            self._readers.pause()
            self._writer.pause()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self.path != MEMORY:
            self._writer.resume()
            self._readers.resume()

    def after_fork_in_child(self) -> None:
        """Go on as another process, which holds nothing of what its parent does."""
        self._lost = self.path == MEMORY
        was_open = self._finish.detach() is not None
        self._open()
        if not was_open:
            self._finish()

    def _give_up(self) -> None:
        if owed := self._holds.owed():
            self._writer.run(partial(_release, owed))
            self._holds.paid(owed)

    def _check(self) -> None:
        if self._lost:
            raise StoreError(
                "a store in memory belongs to the process that made it; use a file to share it with a fork"
            )


class _Holds:
    """What this store holds, and how that is renewed; and what it is to give up, once the file can be written to."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[str, int] = {}
        self._owed: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, run_id: str, fence: int) -> None:
        with self._lock:
            self._held[run_id] = fence

    def remove(self, run_id: str) -> None:
        with self._lock:
            self._held.pop(run_id, None)

    def owe(self, run_id: str, fence: int) -> None:
        with self._lock:
            self._held.pop(run_id, None)
            self._owed[run_id] = fence

    def owed(self) -> list[tuple[str, int]]:
        with self._lock:
            return list(self._owed.items())

    def paid(self, owed: list[tuple[str, int]]) -> None:
        with self._lock:
            for run_id, fence in owed:
                if self._owed.get(run_id) == fence:
                    del self._owed[run_id]

    def beat(self) -> Work | None:
        with self._lock:
            held, owed = list(self._held.items()), list(self._owed.items())
        return partial(self._renew, held, owed) if held or owed else None

    def release(self) -> Work | None:
        with self._lock:
            held, self._held, self._owed = [*self._held.items(), *self._owed.items()], {}, {}
        return partial(_release, held) if held else None

    def _renew(self, held: list[tuple[str, int]], owed: list[tuple[str, int]], connection: sqlite3.Connection) -> None:
        _release(owed, connection)
        kept = rules.renew(SqliteRows(connection), self._session, held)
        with self._lock:
            for run_id, fence in set(held) - set(kept):
                if self._held.get(run_id) == fence:
                    del self._held[run_id]


def _nothing() -> None:
    """Where nothing is deleted, nothing is left."""


def _release(held: list[tuple[str, int]], connection: sqlite3.Connection) -> None:
    for run_id, fence in held:
        rules.release(SqliteRows(connection), run_id, fence)


def _close(process: int, writer: Writer, readers: Readers, holds: _Holds) -> None:
    if process != os.getpid():
        return
    readers.close()
    release: Any = holds.release()
    try:
        if release is not None:
            writer.run(release)
    except StoreError as error:
        _log.warning("what was held could not be given up, and is free once this process ends: %s", error)
    finally:
        writer.close()
