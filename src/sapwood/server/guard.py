"""The guard before the routes: who may ask from where, how much, and under which id.

Laws: a page of another site, or a name that is not this server's, is refused before any work; there is no wildcard;
a body is cut off at its limit while it comes; whatever fails here or below becomes an answer without its words.
Source: SRV-06, SRV-07.
"""

import logging
import re
import uuid
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sapwood.core.errors import ConfigError
from sapwood.server.errors import HttpError, http_error
from sapwood.server.replies import error_reply

_log = logging.getLogger(__name__)
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "testserver"})
_EXPOSED = "x-request-id, x-sapwood-run-id"
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_CSP = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; connect-src 'self'; frame-ancestors 'self'; "
    "base-uri 'none'; form-action 'self'; object-src 'none'"
)


class Guard:
    """Wraps an application.

    origins: of other sites whose pages may ask, such as `https://app.example.com`. hosts: names by which this server
    may be called; None for any. only_local: only clients of this machine may ask. max_body_bytes: of a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        origins: Collection[str],
        hosts: Collection[str] | None,
        only_local: bool,
        max_body_bytes: int,
    ) -> None:
        self._app = app
        self._origins = frozenset(checked_origin(item) for item in origins)
        self._hosts = frozenset(item.lower() for item in hosts) if hosts is not None else None
        self._only_local = only_local
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex[:16]
        # A scope of its own: a host's is not changed. With an app in it, the router raises what it cannot answer.
        scope = {"app": self, **scope, "state": {**scope.get("state", {}), "request_id": request_id}}
        origin, has_begun = headers.get("origin"), False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                self._dress(MutableHeaders(scope=message), request_id, origin)
            await send(message)

        try:
            refusal = self._refusal(scope, headers, origin)
            if refusal is not None:
                raise refusal
            if scope["method"] == "OPTIONS" and origin is not None:
                await _preflight(scope, receive, answer)
                return
            await self._app(scope, _limited(receive, headers, self._max_body_bytes), answer)
        except Exception as error:  # noqa: BLE001 - the door: it is logged, and told without its words
            reply = _reply(error, request_id, Request(scope).url.path)
            if not has_begun:
                await reply(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Headers, origin: str | None) -> HttpError | None:
        host = headers.get("host", "")
        if self._only_local and not _is_local(scope):
            return HttpError(
                403, "local_only", "This server has no authorize=, so it answers only clients of its own machine."
            )
        if self._hosts is not None and _name_of(host) not in self._hosts:
            return HttpError(403, "host", "This server is not known by that name; see hosts=.")
        if origin is not None and not self._is_own(origin, host) and origin not in self._origins:
            return HttpError(403, "origin", "Pages of that site may not ask this server; see origins=.")
        if headers.get("sec-fetch-site") == "cross-site" and origin is None and scope["method"] not in ("GET", "HEAD"):
            return HttpError(403, "origin", "Pages of other sites may not ask this server; see origins=.")
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        parts = urlsplit(origin)
        return bool(host) and parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()

    def _dress(self, headers: MutableHeaders, request_id: str, origin: str | None) -> None:
        headers["x-request-id"] = request_id
        headers.setdefault("x-content-type-options", "nosniff")
        headers.setdefault("referrer-policy", "no-referrer")
        if "text/html" in headers.get("content-type", ""):
            headers.setdefault("content-security-policy", _CSP)
        if self._origins:
            headers.add_vary_header("Origin")
        if origin in self._origins:
            assert origin is not None  # it is one of them
            headers["access-control-allow-origin"] = origin
            headers["access-control-allow-credentials"] = "true"  # of sites that were named, cookies are welcome
            headers["access-control-expose-headers"] = _EXPOSED


async def _preflight(scope: Scope, receive: Receive, answer: Send) -> None:
    headers = {
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": "authorization, content-type, last-event-id, x-request-id",
        "access-control-max-age": "600",
    }
    await Response(None, 204, headers)(scope, receive, answer)


def _reply(error: Exception, request_id: str, path: str) -> Response:
    told = http_error(error)
    if told is None:
        _log.error("%s failed (request %s)", path, request_id, exc_info=error)
        told = HttpError(500, "internal", "Something went wrong here; the log has more under the id of the request.")
    return error_reply(told, request_id)


def _limited(receive: Receive, headers: Headers, most: int) -> Receive:
    """Return the same body, which raises HttpError where it is longer than it may be."""
    told, seen = headers.get("content-length", "0"), 0
    problem = HttpError(413, "too_large", f"A request may have {most:,} bytes.")

    async def limited() -> Message:
        nonlocal seen
        if told.isdecimal() and int(told) > most:
            raise problem
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise problem
        return message

    return limited


def checked_origin(origin: str) -> str:
    """Return an origin as browsers send it; raises ConfigError for a wildcard and for what is none."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
        raise ConfigError(
            f"an origin is a scheme and a host, such as https://app.example.com, not {origin!r}; there is no wildcard, "
            "as requests carry what their users may do"
        )
    return origin


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return False  # a socket in the file system: whoever is behind it cannot be told
    try:
        return ip_address(client[0]).is_loopback
    except ValueError:
        return client[0] in ("testclient", "localhost")


def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
