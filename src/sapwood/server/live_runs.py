"""The runs of this process: begun, gone on with, joined, stopped; each apart from the connection that began it.

Laws: a run belongs to a task here and never to a request; what happens in it is in its log before anybody is told; a
run that is begun twice is one run; what a person answers is looked up in the store, never in what a client sent.
"""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar, cast

from sapwood.agent.agent import Agent
from sapwood.agent.answers import Answers, answers_of, asked_in, require_current
from sapwood.agent.durable import Keeping, close
from sapwood.core.approval import Answer
from sapwood.core.cancel import CancelToken
from sapwood.core.codec import to_json
from sapwood.core.errors import (
    ConfigError,
    ConflictError,
    ConversationBusyError,
    RunCancelledError,
    RunPausedError,
    StoreError,
)
from sapwood.core.events import AgentEvent, RoundFinished, TurnFinished, TurnResumed
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.stored import RunSummary
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.shielded import to_the_end
from sapwood.server.errors import HttpError, SetUpError, failure_of, unprocessable
from sapwood.server.followed import INTERRUPTED, RESTARTING, FollowedRuns
from sapwood.server.journal_events import Timed, as_streamed
from sapwood.server.principal import Principal, owner_of
from sapwood.server.run_log import Failure, Place, RunLog
from sapwood.server.seen import SeenRequests
from sapwood.server.settings import Settings

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NAMES = uuid.UUID("7d0c1b5e-2a2f-5e6b-9a57-1d1f6a1f9c02")
"""The namespace of run ids that are made of a conversation and the id of a message."""
STOPPED = "Stopped by the user."
GONE = "Stopped, as the client went away."
_LATER = {"retry-after": "5"}
_RECOVERED_AT_ONCE = 16
MAX_RESUMES = 3
"""How often a run is gone on with by itself without getting anywhere, as it may be what takes the process down."""


def run_id_of(conversation_id: str, message_id: str) -> str:
    """Return the id of the run that a message begins: the same each time that it is sent.

    >>> run_id_of("ann/t1", "m1") == run_id_of("ann/t1", "m1") != run_id_of("ann/t2", "m1")
    True
    """
    return uuid.uuid5(_NAMES, f"{conversation_id}\n{message_id}").hex


class LiveRuns:
    """The runs of one server.

    agent_of: makes the agent for a principal. store: has `runs` and `conversations`.
    """

    def __init__(self, agent_of: Callable[[Principal], Agent], store: Any, settings: Settings) -> None:
        self._agent_of = agent_of
        self.store = store
        self._settings = settings
        self._keeping = Keeping(store.runs, store.conversations)
        self._logs: dict[str, RunLog] = {}
        self._tokens: dict[str, CancelToken] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._first: dict[str, asyncio.Future[None]] = {}
        self._owners: dict[str, str] = {}
        self._followed = FollowedRuns(self.summary, self.stored_events, settings.follow_seconds)
        self.seen = SeenRequests(settings.kept_requests)
        self.is_draining = False

    # -- what clients ask for ----------------------------------------------------------------------

    async def start(
        self, principal: Principal, conversation_id: str, message: Message, run_id: str, request_id: str
    ) -> RunLog:
        """Begin a run, or join the one that this message began; return its log once its first event is stored.

        Raises what the agent raises before that, such as ConversationBusyError.
        """
        if run_id in self._tasks:
            return await self._joined(run_id)
        if run_id in self._logs and (summary := await self.summary(run_id)) is not None:
            return await self._again(principal, summary, request_id)
        log = RunLog(run_id, conversation_id)

        def begin(agent: Agent, cancel: CancelToken) -> AsyncGenerator[AgentEvent, None]:
            return agent.astream(message, cancel=cancel, run_id=run_id)

        try:
            return await self._run(log, principal, begin, request_id)
        except (ConflictError, ConversationBusyError, RunPausedError):
            # What is in the way may be this very run: it was begun before, here or in another process.
            if (summary := await self.summary(run_id)) is None:
                raise
        except ConfigError as error:
            raise SetUpError("the agent cannot answer") from error
        return await self._again(principal, summary, request_id)

    async def resume(
        self,
        principal: Principal,
        summary: RunSummary,
        request_id: str,
        decisions: Mapping[str, Answer] | None = None,
        extend: Mapping[str, float] | None = None,
        name: str = "",
    ) -> RunLog:
        """Go on with a run and return its log; name: what the client calls this segment.

        Raises HttpError and ConflictError where it cannot be gone on with, RunPausedError where nothing was answered.
        """
        run_id = summary.run_id
        self._require_idle(run_id)
        answers = await self._checked(summary, Answers(decisions or {}, extend, principal.id))
        await self._followed.leave(run_id)
        log = await self.log_of(summary)
        self._require_idle(run_id)

        def go_on(agent: Agent, cancel: CancelToken) -> AsyncGenerator[AgentEvent, None]:
            return agent.aresume(run_id, answers.decisions, extend=answers.extend, by=answers.by, cancel=cancel)

        if name:
            log.segments[name] = log.end
        try:
            return await self._run(log, principal, go_on, request_id)
        except ConfigError as error:
            raise SetUpError("the agent cannot go on") from error

    def _require_idle(self, run_id: str) -> None:
        if run_id in self._tasks:
            raise HttpError(409, "busy", "This run goes on already; join it.", runId=run_id)

    async def _checked(self, summary: RunSummary, answers: Answers) -> Answers:
        """Return the answers, which fit what the run waits for; raises HttpError and ConflictError for others."""
        run: Run = await self.ask(self.store.runs.load, summary.run_id)
        if run.phase == "ended":
            raise HttpError(409, "conflict", "This run is over.")
        try:
            answers_of(run, answers, datetime.now(UTC))
        except ConfigError as error:
            asked = asked_in(event for event, _ in await self.stored_events(summary.run_id))
            require_current(run, answers, asked)
            raise unprocessable(error) from None
        return answers

    async def stop(self, summary: RunSummary) -> None:
        """Stop a run; what it did stays in its thread. Raises HttpError for one that runs in another process."""
        run_id = summary.run_id
        if (token := self._tokens.get(run_id)) is not None:
            token.cancel(STOPPED)
            await asyncio.wait({self._tasks[run_id]}, timeout=self._settings.stop_seconds)
            return
        if summary.status == "running":
            raise HttpError(409, "elsewhere", "This run goes on in another process of the server; stop it there.")
        if summary.status != "ended":
            await self._close(run_id, STOPPED)
            self._logs.pop(run_id, None)

    async def log_of(self, summary: RunSummary) -> RunLog:
        """Return the log of a run: the one of this process, or one that is read from the store."""
        run_id = summary.run_id
        if (log := self._known(summary) or self._followed.log(run_id)) is not None:
            return log
        before = self._logs.get(run_id)
        events = await self.stored_events(run_id)
        if (log := self._known(summary) or self._followed.log(run_id)) is not None:
            return log  # it was begun meanwhile
        log = RunLog(run_id, summary.conversation_id or "")
        log.load(as_streamed(events))
        if summary.status == "interrupted":
            log.failure = before.failure if before is not None and before.failure is not None else INTERRUPTED
        elif summary.status == "running":
            self._followed.follow(log, len(events))
        return log

    def _known(self, summary: RunSummary) -> RunLog | None:
        """Return the log of this process, unless another one has gone on with the run since."""
        log = self._logs.get(summary.run_id)
        if log is None or (not log.is_live and log.stored != summary.version):
            return None
        return log

    def live(self, run_id: str) -> RunLog | None:
        """Return the log of a run that goes on here."""
        return self._logs.get(run_id) if run_id in self._tasks else None

    def segment_named(self, run_id: str, name: str) -> tuple[RunLog, Place] | None:
        """Return the log of a run and where the segment began that a client named so; None where nobody knows."""
        log = self._logs.get(run_id)
        return (log, log.segments[name]) if log is not None and name in log.segments else None

    async def newest(self, conversation_id: str) -> RunSummary | None:
        """Return the run of a conversation that began last."""
        found = await self.ask(self.store.runs.list, limit=1, conversation_id=conversation_id)
        return found[0] if found else None

    async def active(self, conversation_id: str) -> RunSummary | None:
        """Return the run that stands on a conversation: it goes on, waits for a person, or was broken off."""
        found = await self.ask(self.store.runs.waiting, conversation_id)
        return found[0] if found else None

    async def summary(self, run_id: str) -> RunSummary | None:
        """Return the short form of a run; None where there is none of that id."""
        try:
            found: RunSummary = await self.ask(self.store.runs.summary, run_id)
        except (StoreError, ConfigError):
            return None
        return found

    async def stored_events(self, run_id: str, after: int = 0) -> list[Timed]:
        """Return the events of a run in the store after this number, with their times where the store has them."""
        events = await self.ask(self.store.runs.events, run_id, after=after)
        times = getattr(self.store.runs, "times", None)
        at: list[float] = list(await self.ask(times, run_id))[after:] if times is not None else []
        return list(zip(events, at if len(at) == len(events) else [0.0] * len(events), strict=True))

    async def ask(self, fn: Callable[..., T | Awaitable[T]], *args: Any, **options: Any) -> T:
        """Ask the store; a plain one never holds up the event loop."""
        return cast("T", await to_the_end(lambda: fn(*args, **options), ()))

    def agent(self, principal: Principal) -> Agent:
        """Return the agent of a principal."""
        return self._agent_of(principal)

    # -- the server's life -------------------------------------------------------------------------

    async def recover(self) -> None:
        """Go on with the runs that a crash broke off, as far as the settings say so."""
        if self._settings.on_restart != "resume":
            return
        since = time.time() - self._settings.resume_within_seconds
        at_once = asyncio.Semaphore(_RECOVERED_AT_ONCE)

        async def one(owner: Principal, item: RunSummary) -> None:
            async with at_once:
                try:
                    if _tries(await self.stored_events(item.run_id)) < MAX_RESUMES:
                        await self.resume(owner, item, "restart")
                except Exception as error:  # noqa: BLE001 - the door: one run that cannot go on keeps no other from it
                    _log.warning("run %s could not be gone on with", item.run_id, exc_info=error)

        found = [(owner_of(item.conversation_id), item) for item in await self.ask(self.store.runs.waiting)]
        await asyncio.gather(
            *(
                one(owner, item)
                for owner, item in found
                if owner is not None and item.status == "interrupted" and item.updated_at.timestamp() >= since
            )
        )

    async def drain(self, seconds: float) -> None:
        """Take no more runs; give those that go on this long, then break them off so that they can be resumed."""
        self.is_draining = True
        await self._followed.leave_all()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=seconds)
        for token in list(self._tokens.values()):
            token.cancel(RESTARTING.text)
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()), timeout=self._settings.stop_seconds)
        for task in list(self._tasks.values()):
            task.cancel()

    def forget_old(self) -> None:
        """Drop the logs that nobody has asked for since a while; the store has what was in them."""
        limit = asyncio.get_running_loop().time() - self._settings.keep_seconds
        for run_id, log in list(self._logs.items()):
            if not log.is_live and not log.readers and log.over_at < limit:
                del self._logs[run_id]

    def reader_left(self, log: RunLog) -> None:
        """Note that a reader is gone; the run goes on, or is stopped where nobody reads it and the settings say so."""
        if self._settings.on_disconnect == "cancel" and not log.readers and log.is_live:
            token = self._tokens.get(log.run_id)
            if token is not None:
                token.cancel(GONE)

    # -- inside ------------------------------------------------------------------------------------

    async def _joined(self, run_id: str) -> RunLog:
        await asyncio.shield(self._first[run_id])
        return self._logs[run_id]

    async def _again(self, principal: Principal, summary: RunSummary, request_id: str) -> RunLog:
        """Return the log of a run whose message was sent before: gone on with where it was broken off."""
        if summary.status == "interrupted":
            return await self.resume(principal, summary, request_id)
        return await self.log_of(summary)

    async def _run(
        self,
        log: RunLog,
        principal: Principal,
        begin: Callable[[Agent, CancelToken], AsyncGenerator[AgentEvent, None]],
        request_id: str,
    ) -> RunLog:
        if self.is_draining:
            raise HttpError(503, RESTARTING.code, "The server is being restarted; try again.", headers=_LATER)
        if len(self._tasks) >= self._settings.max_runs:
            raise HttpError(503, "full", "Too many runs go on just now; try again.", headers=_LATER)
        own = sum(1 for other in self._owners.values() if other == principal.id)
        if own >= self._settings.max_runs_each:
            raise HttpError(429, "too_many_runs", f"{own} of your runs go on; wait for one, or stop one.")
        try:
            agent = self._agent(log, principal)
        except ConfigError as error:
            raise SetUpError("the agent of this principal cannot be made") from error
        run_id, token = log.run_id, CancelToken()
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first.add_done_callback(_seen)  # whoever waited for it may be gone
        self._logs[run_id], self._tokens[run_id], self._first[run_id] = log, token, first
        self._owners[run_id] = principal.id
        log.begin()
        self._tasks[run_id] = asyncio.create_task(self._pump(log, begin(agent, token), token, first, request_id))
        await asyncio.shield(first)
        return log

    async def _pump(
        self,
        log: RunLog,
        turn: AsyncGenerator[AgentEvent, None],
        token: CancelToken,
        first: "asyncio.Future[None]",
        request_id: str,
    ) -> None:
        """Run to the end, from event to event."""
        failure: Failure | None = None
        try:
            async with aclosing(turn) as events:
                async for event in events:
                    log.append(event, time.time())
                    if not first.done():
                        first.set_result(None)
        except asyncio.CancelledError:
            failure = RESTARTING
        except RunCancelledError:
            failure = await self._cancelled(log, token)
        except Exception as error:  # noqa: BLE001 - the door: it is logged, and told without its words
            if first.done():
                _log.error("run %s failed (request %s)", log.run_id, request_id, exc_info=error)
                failure = failure_of(error, request_id)
            else:
                first.set_exception(error)
        finally:
            self._end(log, failure, is_begun=first.done() and not first.cancelled() and first.exception() is None)
            if not first.done():
                first.set_exception(HttpError(503, RESTARTING.code, RESTARTING.text))

    def _end(self, log: RunLog, failure: Failure | None, *, is_begun: bool) -> None:
        run_id = log.run_id
        del self._tokens[run_id], self._tasks[run_id], self._first[run_id], self._owners[run_id]
        log.finish(failure, asyncio.get_running_loop().time())
        if not is_begun:
            self._logs.pop(run_id, None)

    async def _cancelled(self, log: RunLog, token: CancelToken) -> Failure | None:
        """Close a run that was told to stop, and take in what that adds; one that the server broke off stays open."""
        if token.reason == RESTARTING.text:
            return RESTARTING
        try:
            await self._close(log.run_id, token.reason)
            stored = await self.stored_events(log.run_id)
        except Exception as error:  # noqa: BLE001 - the door: its readers are told, and its words are logged
            _log.error("run %s was stopped, and could not be closed", log.run_id, exc_info=error)
            return Failure("store_error", "The run was stopped, and could not be stored.")
        known = Counter(to_json(event) for event in log.events())
        for event, at in stored:
            json = to_json(event)
            if known[json]:
                known[json] -= 1
            else:
                log.append(event, at)
        return None

    async def _close(self, run_id: str, why: str) -> None:
        try:
            await close(self._keeping, self.store.runs, run_id, AsyncioRuntime(), why=why)
        except StoreError:
            summary = await self.summary(run_id)
            if summary is None or summary.status != "ended":
                raise

    def _agent(self, log: RunLog, principal: Principal) -> Agent:
        agent = copy(self._agent_of(principal)).with_conversation(self.store, log.conversation_id)
        if not agent.can_ask:
            agent.with_approval(defer=True)
        return agent.with_inspector(partial(self.seen.add, log.run_id))


def _tries(events: Sequence[Timed]) -> int:
    """Return how often a run was gone on with since it last got anywhere."""
    progress = (RoundFinished, TurnFinished)
    since = takewhile(lambda item: not isinstance(item[0], progress) or item[0].path, reversed(events))
    return sum(isinstance(event, TurnResumed) for event, _ in since)


def _seen(first: "asyncio.Future[None]") -> None:
    if not first.cancelled():
        first.exception()
