#!/usr/bin/env python3
"""Replay recorded LLM HTTP exchanges on the loopback interface, with faults.

Standard library only.  Use it from the shell (`replay_server.py --help`) or from
a test:

    from replay_server import ReplayServer, Faults

    with ReplayServer("shared/data/wire/anthropic-messages-text-stream.json") as srv:
        client = Anthropic(base_url=srv.url, api_key="x")
        ...
    assert srv.requests[0]["body"]["stream"] is True

An exchange file is the JSON described in data/wire/README.md: one document with an
`exchanges` list, each a recorded request and the response to give back.  A server
may hold one file or many.  With many, each is reached under its own prefix,
`http://127.0.0.1:PORT/x/<id>`, which a client takes as its base URL.

How a request finds its response.  Every request is reduced to an endpoint kind
("messages", "chat/completions", "responses", "streamGenerateContent", ...), so any
base-path a client puts in front (`/v1`, `/api/v1`, none) is fine.  Among the
exchanges not served yet, the first of that kind is given, preferring one whose
streaming-ness is what the request asked for; so a conversation is answered in
recorded order.  When none is left the server answers 404 with an
`x-replay-error` header, or starts again, or repeats the last (`on_exhausted`).

Nothing in a request body is compared: a test that cares reads `srv.requests`.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import gzip
import ipaddress
import json
import random
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["SPLITS", "Faults", "ReplayServer", "endpoint_kind", "load_exchanges", "split_bytes"]

_KINDS: list[tuple[str, re.Pattern[str]]] = [
    ("count_tokens", re.compile(r"/messages/count_tokens$")),
    ("messages", re.compile(r"/messages$")),
    ("chat/completions", re.compile(r"/chat/completions$")),
    ("responses/compact", re.compile(r"/responses/compact$")),
    ("responses/input_tokens", re.compile(r"/responses/input_tokens$")),
    ("responses/cancel", re.compile(r"/responses/[^/]+/cancel$")),
    ("responses/{id}", re.compile(r"/responses/[^/]+$")),
    ("responses", re.compile(r"/responses$")),
    ("conversations/items", re.compile(r"/conversations/[^/]+/items")),
    ("conversations/{id}", re.compile(r"/conversations/[^/]+$")),
    ("conversations", re.compile(r"/conversations$")),
    ("google:verb", re.compile(r"/models/[^/]+:(?P<verb>[A-Za-z]+)$")),
    ("cachedContents/{id}", re.compile(r"/cachedContents/[^/]+$")),
    ("cachedContents", re.compile(r"/cachedContents$")),
    ("interactions", re.compile(r"/interactions$")),
    ("ollama:chat", re.compile(r"/api/chat$")),
    ("ollama:generate", re.compile(r"/api/generate$")),
]

SPLITS = ("whole", "event", "line", "byte", "utf8", "awkward", "random", "<N> (bytes a piece)")


def endpoint_kind(method: str, path: str) -> str:
    """The part of a URL that decides which recorded response may answer it."""
    path = unquote(urlsplit(path).path).rstrip("/")
    for name, pattern in _KINDS:
        found = pattern.search(path)
        if found:
            verb = found.groupdict().get("verb")
            return f"{method} {verb or name}"
    return f"{method} {path}"


@dataclasses.dataclass
class Faults:
    """What to do to the wire.  The defaults replay the recording faithfully."""

    fail_first: int = 0
    """Answer this many requests with an error before any recorded response."""
    fail_status: list[int] = dataclasses.field(default_factory=lambda: [429])
    """Statuses of those errors, one a request, the last one repeated."""
    retry_after: str | None = None
    """`retry-after` header of those errors (seconds, or an HTTP date)."""
    retry_after_ms: str | None = None
    """`retry-after-ms` header of those errors."""
    fail_body: str | None = None
    """Body of those errors; by default one in the provider's own shape."""

    first_byte_delay: float = 0.0
    """Seconds to wait after the headers, before the first body byte."""
    header_delay: float = 0.0
    """Seconds to wait before even the status line."""
    delay: float = 0.0
    """Seconds between pieces of the body."""
    split: str = "event"
    """How the body is cut into pieces: one of SPLITS."""
    seed: int = 0
    """For split='random'."""

    drop_after_bytes: int | None = None
    """Cut the connection once this many body bytes are sent."""
    drop_how: str = "rst"
    """'rst' (connection reset), 'fin' (closed, the chunked body left unfinished)
    or 'clean' (body ended properly, only too early: a silent truncation)."""
    drop_times: int = 1
    """How many responses are cut; -1 for all."""
    hang_after_bytes: int | None = None
    """Stop sending after this many body bytes and keep the connection open."""
    hang_seconds: float = 30.0
    """How long such a stall lasts before the connection is closed."""

    error_after_events: int | None = None
    """Put a provider-shaped error event after this many SSE events, and end there."""
    keepalive_every: int = 0
    """Put an SSE comment line before every n-th event."""
    newline: str = "keep"
    """'keep', or turn the line ends of an SSE body into 'lf', 'crlf' or 'cr'."""
    gzip: bool = False
    """Send the body gzip-encoded if the client accepts that."""
    connection_close: bool = False
    """Send `connection: close` and a body without length or chunks."""


# ------------------------------------------------------------------ loading


def load_exchanges(source: str | Path | dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Exchange documents by id, from a document, a file, or a directory of files."""
    if isinstance(source, dict):
        return {source["id"]: source}
    path = Path(source)
    if path.is_dir():
        found: dict[str, dict[str, Any]] = {}
        for file in sorted(path.glob("*.json")):
            if file.name != "index.json":
                found.update(load_exchanges(file))
        return found
    with path.open(encoding="utf-8") as handle:
        document = json.load(handle)
    if "exchanges" not in document:
        raise ValueError(f"{path} holds no exchanges")
    return {document.get("id", path.stem): document}


def _body_bytes(response: dict[str, Any]) -> bytes:
    if "base64" in response:
        return base64.b64decode(response["base64"])
    text: str = response.get("text", "")
    return text.encode("utf-8")


def _is_sse(response: dict[str, Any]) -> bool:
    return "event-stream" in response.get("headers", {}).get("content-type", "")


def _is_streamed(exchange: dict[str, Any]) -> bool:
    body = exchange["request"].get("body")
    if isinstance(body, dict) and isinstance(body.get("stream"), bool):
        return bool(body["stream"])
    return _is_sse(exchange["response"])


# ---------------------------------------------------------- cutting a body

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def split_bytes(data: bytes, how: str, seed: int = 0) -> Iterator[bytes]:
    """Cut a body into the pieces that are written to the socket one by one."""
    if how == "whole":
        cuts: Iterable[int] = []
    elif how == "event":
        cuts = [found.end() for found in _EVENT_END.finditer(data)]
    elif how == "line":
        cuts = [i + 1 for i, byte in enumerate(data) if byte == 0x0A]
    elif how == "byte":
        cuts = range(1, len(data))
    elif how == "utf8":
        # a cut inside each character of several bytes
        cuts = [i for i, byte in enumerate(data) if byte & 0xC0 == 0x80]
    elif how == "awkward":
        cuts = _awkward_cuts(data)
    elif how == "random":
        rng = random.Random(seed)
        cuts, at = [], 0
        while at < len(data):
            at += rng.choice((1, 2, 3, 5, 8, 40, 200, 1500))
            cuts.append(at)
    elif how.isdigit() and int(how) > 0:
        cuts = range(int(how), len(data), int(how))
    else:
        raise ValueError(f"unknown split {how!r}; one of {', '.join(SPLITS)}")
    before = 0
    for cut in cuts:
        if before < cut < len(data):
            yield data[before:cut]
            before = cut
    if before < len(data):
        yield data[before:]


def _awkward_cuts(data: bytes) -> list[int]:
    """Cuts where careless parsers break: inside characters, field names, line ends,
    escapes and the terminator, with whole runs of events in one piece in between."""
    cuts: set[int] = set()
    for i, byte in enumerate(data):
        if byte & 0xC0 == 0x80:
            cuts.add(i)
    for number, found in enumerate(_EVENT_END.finditer(data)):
        if number % 5 == 4:
            continue  # let two events share a piece now and then
        cuts.add(found.start() + 1)  # between the two line ends
        if found.end() - found.start() == 4:
            cuts.add(found.start() + 3)  # and inside the second CRLF
        cuts.add(found.end() + 3)  # inside "data" or "event"
    for found in re.finditer(rb"\\u[0-9a-fA-F]{4}|\\[nrt\"\\]", data):
        cuts.add(found.start() + 1)
    for found in re.finditer(rb"\[DONE\]", data):
        cuts.add(found.start() + 3)
    return sorted(cuts)


# ------------------------------------------------- provider-shaped errors


def _error_kind(status: int) -> tuple[str, str, str]:
    """(Anthropic type, OpenAI type, Google status) for an HTTP status."""
    return {
        400: ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
        401: ("authentication_error", "invalid_request_error", "UNAUTHENTICATED"),
        403: ("permission_error", "invalid_request_error", "PERMISSION_DENIED"),
        404: ("not_found_error", "invalid_request_error", "NOT_FOUND"),
        413: ("request_too_large", "invalid_request_error", "INVALID_ARGUMENT"),
        429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"),
        503: ("api_error", "server_error", "UNAVAILABLE"),
        504: ("timeout_error", "server_error", "DEADLINE_EXCEEDED"),
        529: ("overloaded_error", "server_error", "UNAVAILABLE"),
    }.get(status, ("api_error", "server_error", "INTERNAL"))


def _error_object(api: str, status: int) -> dict[str, Any]:
    anthropic, openai, google = _error_kind(status)
    message = f"replayed failure {status}"
    if api.startswith("anthropic"):
        return {
            "type": "error",
            "error": {"type": anthropic, "message": message},
            "request_id": "req_replay",
        }
    if api.startswith("google"):
        return {"error": {"code": status, "message": message, "status": google}}
    if api.startswith("ollama"):
        return {"error": message}
    return {"error": {"message": message, "type": openai, "param": None, "code": openai}}


def _error_event(api: str, sequence: int) -> bytes:
    if api.startswith("anthropic"):
        data: dict[str, Any] = {
            "type": "error",
            "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"},
        }
        return b"event: error\ndata: " + json.dumps(data).encode() + b"\n\n"
    if api.startswith("openai.responses"):
        data = {
            "type": "error",
            "sequence_number": sequence,
            "code": "server_error",
            "message": "The server had an error processing your request.",
            "param": None,
        }
        return b"event: error\ndata: " + json.dumps(data).encode() + b"\n\n"
    status = 503 if api.startswith("google") else 500
    end = b"\r\n\r\n" if api.startswith("google") else b"\n\n"
    return b"data: " + json.dumps(_error_object(api, status)).encode() + end


# --------------------------------------------------------------- the server


class _Scenario:
    """One document and how far it has been played."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.id: str = document.get("id", "exchange")
        self.exchanges: list[dict[str, Any]] = document["exchanges"]
        self.kinds = [endpoint_kind(e["request"].get("method", "POST"), e["request"]["path"]) for e in self.exchanges]
        self.reset()

    def reset(self) -> None:
        self.played = [False] * len(self.exchanges)
        self.last: int | None = None
        self.failed = 0
        self.dropped = 0

    def pick(self, kind: str, path: str, streamed: bool | None, match: str, then: str) -> int | None:
        def fits(index: int) -> bool:
            if match == "order":
                return True
            if match == "path":
                recorded: str = self.exchanges[index]["request"]["path"]
                return path.endswith(recorded) or recorded.endswith(path)
            return self.kinds[index] == kind

        left = [i for i, done in enumerate(self.played) if not done and fits(i)]
        if not left and then != "error":
            again = [i for i in range(len(self.exchanges)) if fits(i)]
            if again and then == "loop":
                for i in again:
                    self.played[i] = False
                left = again
            elif again:
                left = [self.last] if self.last in again else again[-1:]
        if not left:
            return None
        if match != "order" and streamed is not None:
            alike = [i for i in left if _is_streamed(self.exchanges[i]) == streamed]
            left = alike or left
        self.played[left[0]] = True
        self.last = left[0]
        return left[0]


class _Dropped(Exception):
    pass


class ReplayServer:
    """A threaded HTTP server on 127.0.0.1 that answers from recordings.

    `sources` are exchange documents, files or directories.  `faults` may be changed
    while the server runs.  `requests` lists what came in, in order of arrival; with
    `log` set, each is also appended to that file as a line of JSON.
    """

    def __init__(
        self,
        *sources: str | Path | dict[str, Any],
        host: str = "127.0.0.1",
        port: int = 0,
        faults: Faults | None = None,
        log: str | Path | None = None,
        match: str = "kind",
        on_exhausted: str = "error",
        quiet: bool = True,
    ) -> None:
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"{host} is not a loopback address")
        if match not in ("kind", "path", "order"):
            raise ValueError(f"match is kind, path or order, not {match!r}")
        if on_exhausted not in ("error", "repeat", "loop"):
            raise ValueError(f"on_exhausted is error, repeat or loop, not {on_exhausted!r}")
        self.scenarios: dict[str, _Scenario] = {}
        for source in sources:
            for name, document in load_exchanges(source).items():
                self.scenarios[name] = _Scenario(document)
        if not self.scenarios:
            raise ValueError("no exchanges to replay")
        self.faults = faults or Faults()
        self.requests: list[dict[str, Any]] = []
        self.match = match
        self.on_exhausted = on_exhausted
        self.quiet = quiet
        self._log_path = Path(log) if log else None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        owner = self

        class Handler(_Handler):
            replay = owner

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server_class = type("_Server", (_Server,), {"address_family": family})
        self._httpd = server_class((host, port), Handler)
        self.host, self.port = host, self._httpd.server_address[1]
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Base URL for a server that holds one document."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def url_for(self, scenario: str) -> str:
        """Base URL of one document of several."""
        if scenario not in self.scenarios:
            raise KeyError(scenario)
        return f"{self.url}/x/{scenario}"

    def reset(self, scenario: str | None = None) -> None:
        """Play from the start again, of one document or of all."""
        with self._lock:
            for name, item in self.scenarios.items():
                if scenario in (None, name):
                    item.reset()

    def start(self) -> ReplayServer:
        self._thread = threading.Thread(target=self._httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._httpd.shutdown()
        self._httpd.server_close()
        if self._thread:
            self._thread.join(timeout=5)

    def serve_forever(self) -> None:
        self._httpd.serve_forever(poll_interval=0.1)

    def __enter__(self) -> ReplayServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- used by the handler

    def _find(self, path: str) -> tuple[_Scenario | None, str]:
        found = re.match(r"^/x/([^/]+)(/.*)?$", path)
        if found:
            return self.scenarios.get(unquote(found.group(1))), found.group(2) or "/"
        if len(self.scenarios) == 1:
            return next(iter(self.scenarios.values())), path
        return None, path

    def _note(self, record: dict[str, Any]) -> None:
        with self._lock:
            record["n"] = len(self.requests)
            self.requests.append(record)

    def _write_log(self, record: dict[str, Any]) -> None:
        if self._log_path:
            line = json.dumps(record, ensure_ascii=False)
            with self._lock, self._log_path.open("a", encoding="utf-8") as handle:
                handle.write(line + "\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


_SECRET = re.compile(r"^(authorization|x-api-key|api-key|x-goog-api-key|cookie)$")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "replay"
    sys_version = ""
    replay: ReplayServer
    timeout = 120

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:
        if not self.replay.quiet:
            super().log_message(format, *args)

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_PATCH = do_PUT = do_GET

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            parts = []
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                parts.append(self.rfile.read(size))
                self.rfile.readline()
                if size == 0:
                    break
            data = b"".join(parts)
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        return data

    def _answer(self) -> None:
        raw = self._read_body()
        split = urlsplit(self.path)
        if split.path.startswith("/_ctl/"):
            self._control(split.path, raw)
            return
        scenario, path = self.replay._find(split.path)
        headers = {k.lower(): v for k, v in self.headers.items()}
        record: dict[str, Any] = {
            "time": time.time(),
            "scenario": scenario.id if scenario else None,
            "method": self.command,
            "path": path,
            "query": split.query,
            "headers": {k: (f"<{len(v)} characters>" if _SECRET.match(k) else v) for k, v in headers.items()},
        }
        body: Any = None
        try:
            body = json.loads(raw) if raw else None
            record["body"] = body
        except ValueError:
            record["base64"] = base64.b64encode(raw).decode()
        self.replay._note(record)
        faults = dataclasses.replace(self.replay.faults)
        try:
            self._serve(scenario, path, body, faults, record)
        except _Dropped:
            record["dropped"] = True
            self.close_connection = True
        except (BrokenPipeError, ConnectionResetError):
            record["client_left"] = True
            self.close_connection = True
        finally:
            self.replay._write_log(record)

    def _serve(
        self,
        scenario: _Scenario | None,
        path: str,
        body: Any,
        faults: Faults,
        record: dict[str, Any],
    ) -> None:
        if scenario is None:
            self._plain(404, {"error": {"message": "no such recording"}}, record, "no such recording")
            return
        api = scenario.document.get("api") or scenario.exchanges[0].get("api", "")
        with self.replay._lock:
            fail = scenario.failed < faults.fail_first
            if fail:
                number = scenario.failed
                scenario.failed += 1
        if faults.header_delay:
            time.sleep(faults.header_delay)
        if fail:
            status = faults.fail_status[min(number, len(faults.fail_status) - 1)]
            extra = {}
            if faults.retry_after is not None:
                extra["retry-after"] = faults.retry_after
            if faults.retry_after_ms is not None:
                extra["retry-after-ms"] = faults.retry_after_ms
            record["fault"] = f"fail {status}"
            text = faults.fail_body
            payload = text if text is not None else json.dumps(_error_object(api, status))
            self._whole(status, {"content-type": "application/json", **extra}, payload.encode(), record)
            return
        streamed: bool | None = None
        if isinstance(body, dict):
            asked = body.get("stream")
            # Ollama's own API streams unless told not to
            streamed = asked if isinstance(asked, bool) else None
            if asked is None and path.endswith(("/chat/completions", "/messages", "/responses")):
                streamed = False
        kind = endpoint_kind(self.command, path)
        with self.replay._lock:
            index = scenario.pick(kind, path, streamed, self.replay.match, self.replay.on_exhausted)
        if index is None:
            self._plain(404, _error_object(api, 404), record, f"nothing left for {kind}")
            return
        exchange = scenario.exchanges[index]
        record["exchange"] = index
        self._recorded(scenario, exchange, exchange.get("api", api), faults, record)

    def _plain(self, status: int, payload: Any, record: dict[str, Any], why: str) -> None:
        record["error"] = why
        self._whole(
            status,
            {"content-type": "application/json", "x-replay-error": why, "x-should-retry": "false"},
            json.dumps(payload).encode(),
            record,
        )

    def _whole(self, status: int, headers: dict[str, str], data: bytes, record: dict[str, Any]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        record["status"], record["sent"] = status, len(data)

    def _recorded(
        self,
        scenario: _Scenario,
        exchange: dict[str, Any],
        api: str,
        faults: Faults,
        record: dict[str, Any],
    ) -> None:
        response = exchange["response"]
        data = _body_bytes(response)
        headers = {
            k: v
            for k, v in response.get("headers", {}).items()
            if k not in ("content-length", "transfer-encoding", "content-encoding", "connection")
        }
        sse = _is_sse(response)
        if sse:
            data = self._rewrite(data, api, faults)
        if faults.gzip and "gzip" in self.headers.get("accept-encoding", ""):
            data = gzip.compress(data, mtime=0)
            headers["content-encoding"] = "gzip"
        drop = False
        if faults.drop_after_bytes is not None:
            with self.replay._lock:
                drop = faults.drop_times < 0 or scenario.dropped < faults.drop_times
                scenario.dropped += drop
        chunked = not faults.connection_close and (sse or drop or "ndjson" in str(headers))
        self.send_response(response["status"])
        for name, value in headers.items():
            self.send_header(name, value)
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        elif faults.connection_close:
            self.send_header("connection", "close")
            self.close_connection = True
        else:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        record["status"], record["sent"] = response["status"], 0
        if faults.first_byte_delay:
            time.sleep(faults.first_byte_delay)
        stop_at = faults.drop_after_bytes if drop else None
        for piece in split_bytes(data, faults.split, faults.seed):
            if stop_at is not None and record["sent"] + len(piece) >= stop_at:
                piece = piece[: max(0, stop_at - record["sent"])]
                self._send(piece, chunked, record)
                self._cut(faults.drop_how, chunked)
                return
            hang_at = faults.hang_after_bytes
            if hang_at is not None and record["sent"] + len(piece) >= hang_at:
                self._send(piece[: max(0, hang_at - record["sent"])], chunked, record)
                self._hang(faults.hang_seconds, record)
            self._send(piece, chunked, record)
            if faults.delay:
                time.sleep(faults.delay)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _rewrite(self, data: bytes, api: str, faults: Faults) -> bytes:
        if faults.error_after_events is not None:
            ends = [found.end() for found in _EVENT_END.finditer(data)]
            count = min(faults.error_after_events, len(ends))
            data = data[: ends[count - 1] if count else 0] + _error_event(api, count)
        if faults.keepalive_every > 0:
            pieces = list(split_bytes(data, "event"))
            for i in range(0, len(pieces), faults.keepalive_every):
                pieces[i] = b": keep-alive\n\n" + pieces[i]
            data = b"".join(pieces)
        if faults.newline != "keep":
            end = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}[faults.newline]
            data = data.replace(b"\r\n", b"\n").replace(b"\n", end)
        return data

    def _send(self, piece: bytes, chunked: bool, record: dict[str, Any]) -> None:
        if not piece:
            return
        if chunked:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            self.wfile.write(piece)
        self.wfile.flush()
        record["sent"] += len(piece)

    def _cut(self, how: str, chunked: bool) -> None:
        if how == "clean":
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
            return
        if how == "rst":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(0.02)  # let what was sent be read before the reset
            # forget the file objects' references, so that close() takes effect at once
            self.wfile.flush()
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_WR)
        raise _Dropped

    def _hang(self, seconds: float, record: dict[str, Any]) -> None:
        record["fault"] = "hang"
        end = time.monotonic() + seconds
        self.connection.settimeout(0.05)
        while time.monotonic() < end and not self.replay._stopping.is_set():
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    record["client_left"] = True
                    break
                time.sleep(0.05)
            except TimeoutError:
                continue
            except OSError:
                record["client_left"] = True
                break
        raise _Dropped

    def _control(self, path: str, raw: bytes) -> None:
        """`/_ctl/reset`, `/_ctl/faults` (a JSON object of Faults fields), `/_ctl/requests`."""
        sink: dict[str, Any] = {}
        answer: Any = {"ok": True}
        if path == "/_ctl/reset":
            self.replay.reset((json.loads(raw) or {}).get("scenario") if raw else None)
        elif path == "/_ctl/faults":
            self.replay.faults = Faults(**json.loads(raw or b"{}"))
            self.replay.reset()
        elif path == "/_ctl/requests":
            answer = self.replay.requests
        elif path == "/_ctl/list":
            answer = sorted(self.replay.scenarios)
        else:
            self._whole(404, {}, b"", sink)
            return
        self._whole(200, {"content-type": "application/json"}, json.dumps(answer).encode(), sink)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Replay recorded LLM HTTP exchanges on 127.0.0.1, with faults on request.",
        epilog=(
            "With one file the base URL is http://127.0.0.1:PORT; with several, "
            "http://127.0.0.1:PORT/x/<id> each. POST /_ctl/reset plays from the start again, "
            "POST /_ctl/faults sets faults anew, GET /_ctl/requests shows what came in, "
            "GET /_ctl/list the ids."
        ),
    )
    parser.add_argument("source", nargs="+", help="exchange files, or directories of them")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0, help="0 (default): any free one, printed")
    parser.add_argument("--log", help="append each request received to this JSONL file")
    parser.add_argument(
        "--match",
        choices=("kind", "path", "order"),
        default="kind",
        help="what must agree with a recording: the endpoint, the path, nothing",
    )
    parser.add_argument("--on-exhausted", choices=("error", "repeat", "loop"), default="error")
    parser.add_argument("--verbose", action="store_true", help="one line a request on stderr")
    wire = parser.add_argument_group("the body on the wire")
    wire.add_argument("--split", default="event", help=f"pieces: {', '.join(SPLITS)} (default: event)")
    wire.add_argument("--seed", type=int, default=0, help="for --split random")
    wire.add_argument("--delay-ms", type=float, default=0, help="between pieces")
    wire.add_argument("--first-byte-delay-ms", type=float, default=0, help="after the headers")
    wire.add_argument("--header-delay-ms", type=float, default=0, help="before the headers")
    wire.add_argument("--newline", choices=("keep", "lf", "crlf", "cr"), default="keep")
    wire.add_argument(
        "--keepalive-every", type=int, default=0, metavar="N", help="an SSE comment before every Nth event"
    )
    wire.add_argument("--gzip", action="store_true", help="gzip bodies for clients that accept it")
    wire.add_argument("--connection-close", action="store_true", help="no length, no chunks")
    bad = parser.add_argument_group("failures")
    bad.add_argument("--fail-first", type=int, default=0, metavar="N", help="errors before all else")
    bad.add_argument("--fail-status", default="429", help="their statuses, e.g. 429,500,503")
    bad.add_argument("--retry-after", help="their retry-after header")
    bad.add_argument("--retry-after-ms", help="their retry-after-ms header")
    bad.add_argument("--fail-body", help="their body; default: in the provider's shape")
    bad.add_argument("--drop-after-bytes", type=int, metavar="N", help="cut the connection there")
    bad.add_argument("--drop-how", choices=("rst", "fin", "clean"), default="rst")
    bad.add_argument("--drop-times", type=int, default=1, help="how many responses; -1: all")
    bad.add_argument("--hang-after-bytes", type=int, metavar="N", help="stall there (0: at once)")
    bad.add_argument("--hang-seconds", type=float, default=30)
    bad.add_argument(
        "--error-after-events", type=int, metavar="N", help="end an SSE body with an error event after N events"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    faults = Faults(
        fail_first=args.fail_first,
        fail_status=[int(s) for s in args.fail_status.split(",")],
        retry_after=args.retry_after,
        retry_after_ms=args.retry_after_ms,
        fail_body=args.fail_body,
        first_byte_delay=args.first_byte_delay_ms / 1000,
        header_delay=args.header_delay_ms / 1000,
        delay=args.delay_ms / 1000,
        split=args.split,
        seed=args.seed,
        drop_after_bytes=args.drop_after_bytes,
        drop_how=args.drop_how,
        drop_times=args.drop_times,
        hang_after_bytes=args.hang_after_bytes,
        hang_seconds=args.hang_seconds,
        error_after_events=args.error_after_events,
        keepalive_every=args.keepalive_every,
        newline=args.newline,
        gzip=args.gzip,
        connection_close=args.connection_close,
    )
    list(split_bytes(b"", faults.split))  # refuse an unknown split now
    server = ReplayServer(
        *args.source,
        host=args.host,
        port=args.port,
        faults=faults,
        log=args.log,
        match=args.match,
        on_exhausted=args.on_exhausted,
        quiet=not args.verbose,
    )
    print(server.url, flush=True)
    print(f"{len(server.scenarios)} recordings", file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
