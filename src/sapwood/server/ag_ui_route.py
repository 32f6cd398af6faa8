"""The route of AG-UI clients: the same runs, threads and rules as for everybody else, in that protocol's words.

Laws: what cannot be done is told in the stream, as the protocol wants it; a paused thread takes nothing but answers to
all it waits for; the same resume sent twice is the same run.
Source: AG-UI 1.0, "Interrupts".
"""

from datetime import UTC, datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from sapwood.core.errors import ConfigError, ConflictError, SapwoodError
from sapwood.core.limits import LimitBreach
from sapwood.core.run import Run
from sapwood.core.stored import RunSummary
from sapwood.server.encode.ag_ui import AgUiEncoder
from sapwood.server.encode.ag_ui_input import AgUiRequest, read_input
from sapwood.server.encode.ag_ui_interrupts import open_interrupts, read_answers
from sapwood.server.errors import HttpError, http_error, posted, unprocessable
from sapwood.server.live_runs import LiveRuns, run_id_of
from sapwood.server.principal import Principal, conversation_of
from sapwood.server.replies import FrameReply
from sapwood.server.routes import Routes, body_of, id_of
from sapwood.server.run_log import Place, RunLog


class AgUiRoute:
    """The handler of `POST /api/ag-ui`."""

    def __init__(self, runs: LiveRuns, routes: Routes, max_event_bytes: int) -> None:
        self._runs = runs
        self._max_bytes = max_event_bytes
        self._routes = routes

    async def answer(self, request: Request) -> Response:
        """Begin a run with the newest message, or go on with the one that waits."""
        principal = await self._routes.changing(request)
        given = posted(read_input, await body_of(request))
        conversation_id = posted(conversation_of, principal, given.thread_id)
        try:
            log, start = await self._log(request, principal, conversation_id, given)
        except (HttpError, SapwoodError) as error:
            told = unprocessable(error) if isinstance(error, ConfigError) else http_error(error)
            if told is None or told.status in (401, 403, 429, 503):
                raise
            encoder = AgUiEncoder(given.run_id, given.thread_id, segment=given.run_id, request=given)
            return FrameReply(encoder.fail(f"{told} (request {id_of(request)})", told.code), encoder.media_type)
        make = partial(AgUiEncoder, segment=given.run_id, request=given, max_bytes=self._max_bytes)
        return self._routes.stream(log, principal, make, start)

    async def _log(
        self, request: Request, principal: Principal, conversation_id: str, given: AgUiRequest
    ) -> tuple[RunLog, Place]:
        active = await self._runs.active(conversation_id)
        if given.resume is None:
            assert given.message is not None  # there is either
            run_id = run_id_of(conversation_id, given.message_id)
            log = await self._runs.start(principal, conversation_id, given.message, run_id, id_of(request))
            return log, Place()
        if active is None or active.status != "paused" or self._runs.live(active.run_id) is not None:
            return await self._sent_before(conversation_id, active, given)
        run: Run = await self._runs.ask(self._runs.store.runs.load, active.run_id)
        asked = open_interrupts(run.waiting(), _asking(run))
        try:
            answers = read_answers(given.resume, asked, datetime.now(UTC))
        except ConfigError:
            if (known := self._runs.segment_named(active.run_id, given.run_id)) is not None:
                return known
            raise
        try:
            log = await self._runs.resume(
                principal, active, id_of(request), answers.decisions, answers.extend, name=given.run_id
            )
        except (HttpError, ConflictError):  # the same may have been sent at the same time
            if (known := self._runs.segment_named(active.run_id, given.run_id)) is not None:
                return known
            raise
        return log, log.segment

    async def _sent_before(
        self, conversation_id: str, active: RunSummary | None, given: AgUiRequest
    ) -> tuple[RunLog, Place]:
        """Return the run that this resume went on with, where it was sent before; raises HttpError otherwise."""
        newest = active or await self._runs.newest(conversation_id)
        known = self._runs.segment_named(newest.run_id, given.run_id) if newest is not None else None
        if known is None:
            raise HttpError(409, "conflict", "Nothing on this thread waits for an answer.")
        return known


def _asking(run: Run) -> list[LimitBreach]:
    own = list(run.limits) if run.asks else []
    return own + [breach for child in run.children.values() for breach in _asking(child.run)]
