"""Answers without a provider: bytes from memory through a transport, or over a real socket of this machine.

Laws: nothing leaves this machine; what is played may be cut at any byte and end in any of the ways in which
connections end. A thread serves the socket, for what is tested waits for it.
"""

import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Literal, TypeAlias, assert_never, get_args

from sapwood.core.errors import ConfigError
from sapwood.llm.codec import HttpCall
from sapwood.llm.transport import AsyncResponse, Response, TransportFailure

Ending: TypeAlias = Literal["whole", "clean", "fin", "rst", "hang"]
"""How an answer ends: as it should, or after a part of it: properly all the same, closed, reset, or not at all."""


class MemoryTransport:
    """A transport that answers each request with the same bytes. calls: what was sent.

    pieces: of the body, in which it arrives. breaks: the connection breaks after them.

    >>> transport = MemoryTransport([b"{}"], content_type="application/json")
    >>> list(transport.send(HttpCall("http://host", {}, b"")).body), len(transport.calls)
    ([b'{}'], 1)
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        *,
        status: int = 200,
        content_type: str = "text/event-stream",
        breaks: bool = False,
    ) -> None:
        self.pieces = pieces
        self.status = status
        self.content_type = content_type
        self.breaks = breaks
        self.calls: list[HttpCall] = []

    def send(self, call: HttpCall) -> Response:
        """Answer a request."""
        self.calls.append(call)
        return _Played(self)

    async def asend(self, call: HttpCall) -> AsyncResponse:
        """Answer a request."""
        self.calls.append(call)
        return _AsyncPlayed(self)


class _Played:
    def __init__(self, source: MemoryTransport) -> None:
        self.status = source.status
        self.headers = {"content-type": source.content_type}
        self.body = _pieces(source)

    def close(self) -> None:
        """Nothing is open."""


class _AsyncPlayed:
    def __init__(self, source: MemoryTransport) -> None:
        self.status = source.status
        self.headers = {"content-type": source.content_type}
        self.body = self._read(source)

    async def _read(self, source: MemoryTransport) -> AsyncIterator[bytes]:
        for piece in _pieces(source):
            yield piece

    async def aclose(self) -> None:
        """Nothing is open."""


def _pieces(source: MemoryTransport) -> Iterator[bytes]:
    yield from source.pieces
    if source.breaks:
        raise TransportFailure("the connection broke")


class LoopbackServer:
    """A server of this machine that gives every request the same answer, or the beginning of it.

    cut: bytes of the body after which it ends; None for all. ending: how.

    >>> with LoopbackServer(b"{}") as server:
    ...     server.url[:17]
    'http://127.0.0.1:'
    """

    def __init__(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "text/event-stream",
        cut: int | None = None,
        ending: Ending = "whole",
    ) -> None:
        if ending not in get_args(Ending):
            raise ConfigError(f"an answer ends in one of {', '.join(get_args(Ending))}, not {ending!r}")
        self._body = body if cut is None else body[:cut]
        self._ending: Ending = ending
        head = f"HTTP/1.1 {status} .\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        self._head = head.encode("latin-1")
        self._stopping = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "LoopbackServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        with socket.create_connection(self._socket.getsockname()):  # wakes the thread
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            connection, _ = self._socket.accept()
            with connection:
                if self._stopping.is_set():
                    return
                connection.settimeout(5)
                try:
                    self._answer(connection)
                except OSError:
                    continue  # who asked has left

    def _answer(self, connection: socket.socket) -> None:
        _read_request(connection)
        connection.sendall(self._head)
        if self._body:
            connection.sendall(b"%x\r\n%b\r\n" % (len(self._body), self._body))
        match self._ending:
            case "whole" | "clean":
                connection.sendall(b"0\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
            case "fin":
                connection.shutdown(socket.SHUT_WR)
            case "rst":
                time.sleep(0.02)  # what was sent is read before the reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "hang":
                while not self._stopping.is_set() and connection.recv(65536):
                    pass  # until who asked gives up
            case _:
                assert_never(self._ending)


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0].partition(b":")[2]) - len(rest) if lengths else 0
    while missing > 0 and (more := connection.recv(65536)):
        missing -= len(more)
