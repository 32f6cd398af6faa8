"""Answers: JSON, errors, and the stream of a run to one client.

Laws: a client that takes nothing holds up itself alone; nothing but whole frames is ever sent, so a comment never
stands inside an event; a stream ends with the run's segment or with the client, and leaves nothing behind.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sapwood.core.events import AgentEvent
from sapwood.server.errors import HttpError
from sapwood.server.run_log import Place, RunLog
from sapwood.server.settings import Settings

PING = b": ping\n\n"
_MOST_AT_ONCE = 256_000
"""Characters after which what is read of a log is sent, before more is read."""
_MOST_EVENTS = 1_000
_HEADERS = {
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}


class StreamEncoder(Protocol):
    """Makes the payloads of one reader of events."""

    media_type: ClassVar[str]
    headers: ClassVar[dict[str, str]]
    ending: ClassVar[str]

    def encode(self, event: AgentEvent, at: float) -> list[str]:
        """Return the payloads of an event."""
        ...

    def skip(self, event: AgentEvent, at: float) -> None:
        """Take in an event that the client has."""
        ...

    def fail(self, text: str, code: str = "internal") -> list[str]:
        """Return what tells that the run failed."""
        ...

    def close(self) -> list[str]:
        """Return the end of the stream."""
        ...


class JsonReply(Response):
    """JSON, in the order of its making."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        return msgspec.json.encode(content)


def error_reply(error: HttpError, request_id: str) -> Response:
    """Return an error as JSON, with the id of the request."""
    body = {"error": {"code": error.code, "message": str(error), "requestId": request_id, **error.more}}
    return JsonReply(body, error.status, headers=error.headers)


class FrameReply(Response):
    """A stream that is over: a few payloads."""

    def __init__(self, payloads: list[str], media_type: str) -> None:
        super().__init__("".join(_framed(payloads, "")).encode(), 200, _HEADERS, media_type)


class Streams:
    """The streams that are open. One timer looks after all of them, as one for each would cost more than the events."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: set[EventStream] = set()
        self.tick_seconds = min(5.0, settings.heartbeat_seconds / 4, settings.stall_seconds / 4)

    def add(self, stream: "EventStream") -> None:
        """Look after a stream."""
        self._open.add(stream)

    def drop(self, stream: "EventStream") -> None:
        """Look after it no longer."""
        self._open.discard(stream)

    def tick(self) -> None:
        """Have a comment sent where there was silence for long, and let go of clients that take nothing."""
        now = asyncio.get_running_loop().time()
        for stream in list(self._open):
            stream.look(now, self._settings.heartbeat_seconds - self.tick_seconds, self._settings.stall_seconds)


class EventStream(Response):
    """The stream of a run.

    start: from where on the client wants it; what is before is only taken in by the encoder. left: is called when the
    client is gone or has all.
    """

    def __init__(
        self,
        log: RunLog,
        encoder: StreamEncoder,
        streams: Streams,
        *,
        start: Place,
        left: Callable[[RunLog], None],
        headers: dict[str, str],
    ) -> None:
        super().__init__(None, 200, {**_HEADERS, **encoder.headers, **headers})
        del self.headers["content-length"]
        self.headers["content-type"] = f"{encoder.media_type}; charset=utf-8"
        self._log = log
        self._encoder = encoder
        self._streams = streams
        self._start = start
        self._left = left
        self._waiter: asyncio.Future[bool] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._since = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the segment is over or the client is gone."""
        self._log.readers += 1
        self._since = asyncio.get_running_loop().time()
        self._streams.add(self)
        leaving = asyncio.create_task(_gone(receive))
        sending = self._sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not sending.cancelled() and not isinstance(sending.exception(), OSError | None):
                sending.result()
        finally:
            self._streams.drop(self)
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
            self._log.readers -= 1
            self._left(self._log)

    def look(self, now: float, quiet: float, stall: float) -> None:
        """Wake the stream where it was quiet for so many seconds; end it where a send takes as long as `stall`."""
        waited = now - self._since
        if self._waiter is not None:
            if waited >= quiet and not self._waiter.done():
                self._waiter.set_result(False)
        elif waited >= stall and self._sending is not None:
            self._sending.cancel()

    async def _send(self, send: Send) -> None:
        log, encoder, place = self._log, self._encoder, Place()
        loop = asyncio.get_running_loop()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for number, (event, at, after) in enumerate(log.read(place, log.within(self._start))):
            encoder.skip(event, at)
            place = after
            if number % _MOST_EVENTS == 0:
                await asyncio.sleep(0)
        while True:
            frames: list[str] = []
            size = 0
            for event, at, after in log.read(place):
                found = _framed(encoder.encode(event, at), str(after))
                frames += found
                size += sum(map(len, found))
                place = after
                if size > _MOST_AT_ONCE:
                    break  # so that a backlog is never in memory twice
            if frames:
                body = "".join(frames).encode()
            elif not log.is_live:
                break
            else:
                self._waiter = log.waiter()
                is_news = await self._waiter
                log.leave(self._waiter)
                self._waiter = None
                if is_news:
                    continue
                body = PING
            self._since = loop.time()
            # The server waits here once its buffer for this client is full.
            await send({"type": "http.response.body", "body": body, "more_body": True})
            self._since = loop.time()
        failure = log.failure
        last = encoder.fail(failure.text, failure.code) if failure is not None else encoder.close()
        last += [encoder.ending] if encoder.ending else []
        await send({"type": "http.response.body", "body": "".join(_framed(last, "")).encode(), "more_body": False})


def _framed(payloads: list[str], number: str) -> list[str]:
    """Return payloads as frames; the last one carries the number after which a client can go on.

    A payload is JSON in one line, in which no line break stands bare, so it needs no more than one data line.
    """
    frames = [f"data: {payload}\n\n" for payload in payloads]
    if frames and number:
        frames[-1] = f"id: {number}\n{frames[-1]}"
    return frames


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
