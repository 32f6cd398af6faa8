"""The routes: what each one asks of the runs and threads, and what it answers.

Laws: who asks is known before anything is read or done; a run or thread of somebody else is not found; a body is JSON,
and what has none is kept from the forms of other sites by the guard.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sapwood.core.errors import ConfigError, RunPausedError
from sapwood.core.json_object import is_object
from sapwood.core.run import Run
from sapwood.core.stored import RunSummary
from sapwood.server.encode.ai_sdk import AiSdkEncoder
from sapwood.server.errors import HttpError, posted, unprocessable
from sapwood.server.live_runs import LiveRuns, run_id_of
from sapwood.server.posted import Posted, checked_answers, read_chat, read_decisions
from sapwood.server.principal import LOCAL, Authorize, Principal, Unauthorized, conversation_of, thread_of
from sapwood.server.rate import RateLimit
from sapwood.server.replies import EventStream, JsonReply, StreamEncoder, Streams
from sapwood.server.run_log import Place, RunLog
from sapwood.server.seen import context_view
from sapwood.server.settings import Settings
from sapwood.server.threads import MOST, Threads

MakeEncoder = Callable[[str, str], StreamEncoder]
READS_FOR_EACH = 10
"""Requests that only read, for each one that changes something, before a principal is told to wait."""
PROMPT = "-prompt"
"""What the id of a user's message ends with where it is read of a thread: the id of its run comes before it."""


class Routes:
    """The handlers of a server. about: what `/api/info` tells of it, for a principal."""

    def __init__(
        self,
        runs: LiveRuns,
        settings: Settings,
        authorize: Authorize | None,
        about: Callable[[Principal], dict[str, Any]],
    ) -> None:
        self._runs = runs
        self._threads = Threads(runs)
        self._authorize = authorize
        self.streams = Streams(settings)
        self._rate = RateLimit(settings.requests_per_minute)
        self._reads = RateLimit(READS_FOR_EACH * settings.requests_per_minute)
        self._about = about
        self._encoder = partial(AiSdkEncoder, max_bytes=settings.max_event_bytes)

    # -- the AI SDK's ------------------------------------------------------------------------------

    async def chat(self, request: Request) -> Response:
        """Begin a run with the posted prompt, or go on with one that the posted message answers."""
        principal = await self.changing(request)
        chat = posted(read_chat, await body_of(request))
        conversation_id = posted(conversation_of, principal, chat.thread_id)
        try:
            if chat.prompt is None:
                return await self._answered(request, principal, conversation_id, chat)
            log, start = await self._prompted(request, principal, conversation_id, chat)
        except RunPausedError as error:
            raise await self._waiting(conversation_id, error) from error
        return self.stream(log, principal, self._encoder, start)

    async def _prompted(
        self, request: Request, principal: Principal, conversation_id: str, chat: Posted
    ) -> tuple[RunLog, Place]:
        assert chat.prompt is not None  # the caller looked
        run_id = run_id_of(conversation_id, chat.message_id)
        if chat.message_id.endswith(PROMPT):
            run_id = chat.message_id.removesuffix(PROMPT)
        known = await self._runs.summary(run_id)
        if known is not None and known.conversation_id != conversation_id:
            raise not_found()
        if chat.is_again and known is not None:
            if known.status == "interrupted":
                log = await self._runs.resume(principal, known, id_of(request))
                return log, Place()
            run_id = run_id_of(conversation_id, f"{chat.message_id} again {id_of(request)}")
        elif chat.message_id.endswith(PROMPT) and known is None:
            run_id = run_id_of(conversation_id, chat.message_id)
        log = await self._runs.start(principal, conversation_id, chat.prompt, run_id, id_of(request))
        return log, Place()

    async def _answered(
        self, request: Request, principal: Principal, conversation_id: str, chat: Posted
    ) -> EventStream:
        summary = await self._runs.summary(chat.message_id)
        if summary is None or summary.conversation_id != conversation_id:
            raise HttpError(404, "not_found", "There is no run of this thread with the id of the last message.")
        run: Run = await self._runs.ask(self._runs.store.runs.load, summary.run_id)
        answers = posted(checked_answers, run, chat.answers)
        if not answers:
            raise HttpError(409, "conflict", "Nothing in the last message answers what this run waits for.")
        log = await self._runs.resume(principal, summary, id_of(request), answers)
        return self.stream(log, principal, self._encoder, log.segment)

    async def rejoin(self, request: Request) -> Response:
        """Stream the run that stands on a thread from its start; 204 where none does."""
        principal = await self.principal(request)
        active = await self._runs.active(posted(conversation_of, principal, request.path_params["thread_id"]))
        if active is None:
            return Response(None, 204)
        return self.stream(await self._runs.log_of(active), principal, self._encoder, Place())

    async def stop_thread(self, request: Request) -> Response:
        """Stop the run of a thread, which the body names: a stop that comes late never hits a newer run."""
        principal = await self.changing(request)
        body = await body_of(request)
        run_id: object = body.get("runId") if is_object(body) else None
        active = await self._runs.active(posted(conversation_of, principal, request.path_params["thread_id"]))
        if not isinstance(run_id, str):
            raise unprocessable(ConfigError("the body has runId, the run to stop"))
        if active is None or active.run_id != run_id:
            raise HttpError(409, "conflict", "That run does not stand on this thread any more.")
        await self._runs.stop(active)
        return await self._state(run_id, 202)

    # -- threads -----------------------------------------------------------------------------------

    async def threads(self, request: Request) -> Response:
        """List the threads of who asks."""
        principal = await self.principal(request)
        found = await self._threads.listed(principal, _limit(request, 50), _before(request))
        return JsonReply(found)

    async def thread(self, request: Request) -> Response:
        """Return a thread."""
        principal = await self.principal(request)
        before = _before(request)
        if before is not None:
            await self._own(principal, before)
        thread_id = request.path_params["thread_id"]
        return JsonReply(await self._threads.read(principal, thread_id, _limit(request, 50), before))

    async def delete_thread(self, request: Request) -> Response:
        """Remove a thread."""
        principal = await self.changing(request)
        await self._threads.delete(principal, request.path_params["thread_id"])
        return Response(None, 204)

    # -- runs --------------------------------------------------------------------------------------

    async def run(self, request: Request) -> Response:
        """Return how a run stands."""
        summary = await self._named(await self.principal(request), request)
        return await self._state(summary.run_id, 200)

    async def run_stream(self, request: Request) -> Response:
        """Stream a run from its start, or after the event that the client had last."""
        principal = await self.principal(request)
        summary = await self._named(principal, request)
        after = request.query_params.get("after", request.headers.get("last-event-id", ""))
        try:
            start = Place.read(after) if after else Place()
        except ValueError:
            problem = ConfigError(f"after is the id of an event, such as 12 or 12.80, not {after[:40]!r}")
            raise unprocessable(problem) from None
        return self.stream(await self._runs.log_of(summary), principal, self._encoder, start)

    async def stop_run(self, request: Request) -> Response:
        """Stop a run."""
        summary = await self._named(await self.changing(request), request)
        await self._runs.stop(summary)
        return await self._state(summary.run_id, 202)

    async def decide(self, request: Request) -> Response:
        """Answer what a run waits for, and go on with it."""
        principal = await self.changing(request)
        summary = await self._named(principal, request)
        decisions, extend = posted(read_decisions, await body_of(request))
        return await self._gone_on(request, principal, summary, decisions=decisions, extend=extend)

    async def resume(self, request: Request) -> Response:
        """Go on with a run that was broken off."""
        principal = await self.changing(request)
        summary = await self._named(principal, request)
        await body_of(request)
        if summary.status not in ("interrupted", "running"):
            raise HttpError(409, "conflict", f"This run is {summary.status}, and there is nothing to go on with.")
        return await self._gone_on(request, principal, summary)

    async def context(self, request: Request) -> Response:
        """Return what the model saw in each round of a run."""
        summary = await self._named(await self.principal(request), request)
        run: Run = await self._runs.ask(self._runs.store.runs.load, summary.run_id)
        return JsonReply(await self._runs.ask(context_view, run, self._runs.seen))

    async def info(self, request: Request) -> Response:
        """Return what this server is, and who asks."""
        principal = await self.principal(request)
        name = {"name": principal.name} if principal.name else {}
        return JsonReply({**self._about(principal), "principal": {"id": principal.id, **name}})

    async def health(self, request: Request) -> Response:
        """Tell whether requests are taken."""
        draining = self._runs.is_draining
        return JsonReply({"status": "draining" if draining else "ok"}, 503 if draining else 200)

    # -- shared ------------------------------------------------------------------------------------

    async def principal(self, request: Request) -> Principal:
        """Return who asks; raises what `authorize` raises, and HttpError where nobody is known or reads too often."""
        known = await self._known(request)
        if request.method == "GET":
            _require_pace(self._reads.wait_seconds(known.id))
        return known

    async def _known(self, request: Request) -> Principal:
        if self._authorize is None:
            return Principal(LOCAL)
        found = self._authorize(request)
        known = await found if isawaitable(found) else found
        if known is None:
            raise Unauthorized("nobody is known to send this")
        return known

    async def changing(self, request: Request) -> Principal:
        """Return who asks for a change; raises HttpError where that is too often."""
        principal = await self.principal(request)
        _require_pace(self._rate.wait_seconds(principal.id))
        return principal

    def stream(self, log: RunLog, principal: Principal, make: MakeEncoder, start: Place) -> EventStream:
        """Return the stream of a run to who asks."""
        thread_id = thread_of(log.conversation_id, principal) or ""
        return EventStream(
            log,
            make(log.run_id, thread_id),
            self.streams,
            start=start,
            left=self._runs.reader_left,
            headers={"x-sapwood-run-id": log.run_id},
        )

    async def _gone_on(self, request: Request, principal: Principal, summary: RunSummary, **answers: Any) -> Response:
        try:
            log = await self._runs.resume(principal, summary, id_of(request), **answers)
        except RunPausedError as error:
            raise await self._waiting(summary.conversation_id or "", error) from error
        if "application/json" in request.headers.get("accept", ""):
            return await self._state(summary.run_id, 202)
        return self.stream(log, principal, self._encoder, log.segment)

    async def _named(self, principal: Principal, request: Request) -> RunSummary:
        return await self._own(principal, request.path_params["run_id"])

    async def _own(self, principal: Principal, run_id: str) -> RunSummary:
        summary = await self._runs.summary(run_id)
        if summary is None or thread_of(summary.conversation_id, principal) is None:
            raise not_found()
        return summary

    async def _state(self, run_id: str, status: int) -> Response:
        summary = await self._runs.summary(run_id)
        if summary is None:
            raise not_found()
        state = await self._threads.state(summary)
        live = self._runs.live(run_id) is not None
        own = "running" if live else summary.status
        cause = {"stoppedBy": summary.stopped_by} if summary.stopped_by is not None and own == "ended" else {}
        thread_id = (summary.conversation_id or "").partition("/")[2]
        return JsonReply({**state, "threadId": thread_id, "status": own, **cause}, status)

    async def _waiting(self, conversation_id: str, error: RunPausedError) -> HttpError:
        active = await self._runs.active(conversation_id)
        more: dict[str, Any] = {"runId": active.run_id} if active is not None else {}
        return HttpError(409, "waiting", "A run of this thread waits for an answer; give it first.", **more)


def _require_pace(seconds: float) -> None:
    if seconds:
        headers = {"retry-after": str(max(1, round(seconds)))}
        raise HttpError(429, "rate_limit", "You ask too often; wait a little.", headers=headers)


def not_found() -> HttpError:
    """Return what is said of what is not there, and of what is somebody else's."""
    return HttpError(404, "not_found", "There is no such run.")


def id_of(request: Request) -> str:
    """Return the id of a request."""
    found: str = request.scope["state"]["request_id"]
    return found


async def body_of(request: Request) -> Any:
    """Return the JSON of a body; raises HttpError for another type, and for what is no JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, "content_type", "Send JSON, with content-type: application/json.")
    try:
        return msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HttpError(400, "json", f"The body is no JSON: {str(error)[:200]}") from None
    except ClientDisconnect:
        raise HttpError(400, "disconnected", "The body broke off.") from None


def _limit(request: Request, usual: int) -> int:
    text = request.query_params.get("limit", str(usual))
    if not text.isascii() or not text.isdecimal() or len(text) > 6 or not 1 <= int(text) <= MOST:
        raise unprocessable(ConfigError(f"limit is a number from 1 to {MOST}, not {text[:20]!r}"))
    return int(text)


def _before(request: Request) -> str | None:
    return request.query_params.get("before") or None


Handler = Callable[[Request], Awaitable[Response]]
