"""One thread that writes: what many threads want to store at one moment becomes one commit.

Laws: a job is acknowledged after the commit that holds it; a job that is refused harms none beside it; where the
file fails a whole batch, each job is tried alone, so that one too many does not lose the others. A job may so run
more than once, and only its last run counts.
"""

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from sapwood.core import fault
from sapwood.core.errors import StoreError
from sapwood.stores.sqlite.failures import DATABASE_ERRORS, translated

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], Any]
_SCRUB_WAIT_MS = 250
MAX_BATCH = 512
"""Jobs in one commit."""


class _Job:
    """Something to do in a transaction, and what came of it."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.value: Any = None
        self.error: BaseException | None = None

    def acknowledge(self) -> None:
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


class Writer:
    """Runs jobs on one connection, in a daemon thread that is started when it is needed.

    open_one: opens the connection, in that thread. beat: asked every so many seconds for something to do.
    """

    def __init__(
        self,
        path: str,
        open_one: Callable[[], sqlite3.Connection],
        *,
        every_seconds: float,
        beat: Callable[[], Work | None],
    ) -> None:
        self._path = path
        self._open = open_one
        self._every = every_seconds
        self._beat = beat
        self._beat_at = time.monotonic() + every_seconds
        self._jobs: deque[_Job] = deque()
        self._some = threading.Condition()
        self._in_use = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._paused = False
        self._connection: sqlite3.Connection | None = None
        self._owes_scrub = False

    def owe_scrub(self) -> None:
        """Empty the log once this transaction is durable, as it may hold what was deleted; called within a job."""
        self._owes_scrub = True

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a transaction, and return its result once that is durable."""
        job = _Job(work)
        with self._some:
            if self._closed:
                raise StoreError(f"the store of {self._path} is closed; open a new one")
            self._start()
            self._jobs.append(job)
            self._some.notify()
        result: T = job.future.result()
        return result

    def close(self) -> None:
        """Finish what was asked for, then end the thread and close the connection."""
        with self._some:
            self._closed = True
            thread = self._thread
            self._some.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def pause(self) -> None:
        """Wait for the commit that is under way, close the connection, and begin no other before `resume`."""
        with self._some:
            self._paused = True  # or the thread would take the lock again before this one wakes up
        self._in_use.acquire()
        self._disconnect()

    def resume(self) -> None:
        """Go on; the connection is opened anew."""
        self._in_use.release()
        with self._some:
            self._paused = False
            self._some.notify()

    def _start(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._work, name="sapwood-sqlite", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StoreError(
                f"no thread can be started to write to {self._path}: {error}. End other threads, and repeat"
            ) from error
        self._thread = thread

    def _work(self) -> None:
        while self._round():
            pass
        with self._in_use:
            self._disconnect()

    def _round(self) -> bool:
        """Wait for jobs and do them; False when all is over. While it waits it keeps no job, and so no store, alive."""
        batch = self._next()
        if batch is None:
            return False
        with self._in_use:
            self._perform(batch)
        for job in batch:
            job.acknowledge()
        return True

    def _next(self) -> list[_Job] | None:
        """Return the jobs that wait, or the beat when it is time for one; None when all is over."""
        with self._some:
            while True:
                if self._paused:
                    self._some.wait()
                    continue
                if self._jobs:
                    batch = [self._jobs.popleft() for _ in range(min(MAX_BATCH, len(self._jobs)))]
                    return [*batch, *self._due()]
                if self._closed:
                    return None
                if batch := self._due():
                    return batch
                self._some.wait(max(0.0, self._beat_at - time.monotonic()))

    def _due(self) -> list[_Job]:
        now = time.monotonic()
        if now < self._beat_at:
            return []
        self._beat_at = now + self._every
        work = self._beat()
        return [_Job(work)] if work is not None else []

    def _perform(self, batch: list[_Job]) -> None:
        for job in batch:
            job.value, job.error = None, None
        try:
            connection = self._connection = self._connection or self._open()
            connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
            self._fail(batch, error)
            return
        try:
            for job in batch:
                _attempt(connection, job)
            fault.point("store.before_commit")
            connection.execute("COMMIT")
            fault.point("store.committed")
            if self._owes_scrub:
                self._owes_scrub = not _emptied(connection)
        except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
            if connection.in_transaction:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself
                    connection.execute("ROLLBACK")
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for job in batch:
                self._perform([job])

    def _fail(self, batch: list[_Job], error: BaseException) -> None:
        for job in batch:
            job.error = translated(error, self._path) if isinstance(error, DATABASE_ERRORS) else error
            if job.error is not error:
                job.error.__cause__ = error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if self._path != ":memory:" and code not in (0, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
            self._disconnect()  # whatever it is, a new connection does not inherit it

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _emptied(connection: sqlite3.Connection) -> bool:
    """Bring the log into the file and cut it to nothing; False where a reader needs it, so it is to be done later."""
    (waited,) = connection.execute("PRAGMA busy_timeout").fetchone()
    try:
        connection.execute(f"PRAGMA busy_timeout = {_SCRUB_WAIT_MS}")
        (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error:  # it is durable in any case; the next transaction tries again
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {waited}")
    return not is_busy


def _attempt(connection: sqlite3.Connection, job: _Job) -> None:
    """Run a job so that its refusal takes back what it alone has done; what SQLite raises concerns all."""
    connection.execute("SAVEPOINT job")
    try:
        job.value = job.work(connection)
    except DATABASE_ERRORS:
        raise
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
        job.error = error
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
