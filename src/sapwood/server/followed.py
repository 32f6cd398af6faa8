"""The runs of other processes, followed in the store for readers here.

Law: what is followed is apart from what goes on here; whoever goes on with such a run here reads it anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from sapwood.core.stored import RunSummary
from sapwood.server.journal_events import Timed, as_streamed
from sapwood.server.run_log import Failure, RunLog

_log = logging.getLogger(__name__)
INTERRUPTED = Failure("interrupted", "The run was broken off. Go on with it, or say something new.")
LOST = Failure("store_error", "The run goes on in another process, and could not be followed. Join it again.")
RESTARTING = Failure("restarting", "The server is being restarted; the run goes on where it was. Join it again.")


class FollowedRuns:
    """Logs that grow as the store does.

    summary, events: ask the store, for how a run stands and for its events after a number. seconds: between two looks.
    """

    def __init__(
        self,
        summary: Callable[[str], Awaitable[RunSummary | None]],
        events: Callable[[str, int], Awaitable[list[Timed]]],
        seconds: float,
    ) -> None:
        self._summary = summary
        self._events = events
        self._seconds = seconds
        self._logs: dict[str, RunLog] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def log(self, run_id: str) -> RunLog | None:
        """Return the log of a run that is followed."""
        return self._logs.get(run_id)

    def follow(self, log: RunLog, known: int) -> None:
        """Read on in the store until the run goes on there no longer. known: events that are in the log already."""
        log.begin()
        self._logs[log.run_id] = log
        self._tasks[log.run_id] = asyncio.create_task(self._follow(log, known))

    async def leave(self, run_id: str) -> None:
        """Follow a run no longer; whoever reads it has all there is so far."""
        task = self._tasks.get(run_id)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def leave_all(self) -> None:
        """Follow nothing any more."""
        for run_id, log in list(self._logs.items()):
            await self.leave(run_id)
            log.failure = RESTARTING

    async def _follow(self, log: RunLog, known: int) -> None:
        status = "running"
        failure: Failure | None = LOST
        try:
            while status == "running":
                await asyncio.sleep(self._seconds)
                summary = await self._summary(log.run_id)
                if summary is None:
                    return  # it was deleted, or the store cannot be asked
                events = await self._events(log.run_id, known)
                log.load(as_streamed(events))
                known += len(events)
                status = summary.status
            failure = INTERRUPTED if status == "interrupted" else None
        except Exception as error:  # noqa: BLE001 - the door: readers are told, and the store's words are logged
            _log.error("run %s could not be followed", log.run_id, exc_info=error)
        finally:
            log.finish(failure, asyncio.get_running_loop().time())
            if self._logs.get(log.run_id) is log:
                del self._logs[log.run_id], self._tasks[log.run_id]
