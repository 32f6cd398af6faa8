"""A thousand clients of a server in a process of their own: each posts a prompt and reads its stream to the end.

The model of `load_server.py` writes into each delta when it was said, so a delta tells how long it was on its way; the
clocks are one, as both run on this machine. Prints one JSON object. Delays are in milliseconds.

Run it as a script: `python tests/support/sse_clients.py --port 8000 --clients 1000 --deltas 300`.
"""

import argparse
import asyncio
import json
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path

TOKEN = re.compile(rb"<(\d+):(\d+)>")
TAIL = 64
"""Bytes that are kept for the next piece: a delta may lie across two of them."""


class Client(asyncio.Protocol):
    """One client. It reads as little as it must: the deltas, and the word that ends a stream."""

    def __init__(self, request: bytes, *, deltas: int, leave_after: int) -> None:
        self.delays: list[float] = []
        self.problem = ""
        self.done = asyncio.get_running_loop().create_future()
        self._request = request
        self._wanted = deltas
        self._leave_after = leave_after
        self._rest = b""
        self._has_status = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time() * 1000
        data = self._rest + data
        if not self._has_status:
            status, _, _ = data.partition(b"\r\n")
            self._has_status = True
            if b" 200 " not in status:
                self._end(f"status {status.decode(errors='replace')}: {data[-200:].decode(errors='replace')}")
                return
        read = 0
        for found in TOKEN.finditer(data):
            read = found.end()
            if int(found[2]) != len(self.delays):
                self._end(f"delta {found[2].decode()} came where {len(self.delays)} was due")
                return
            self.delays.append(now - int(found[1]))
        if self._leave_after and len(self.delays) >= self._leave_after:
            self._end("")
        elif b"[DONE]" in data[read:]:
            self._end("" if len(self.delays) == self._wanted else f"{len(self.delays)} of {self._wanted} deltas came")
        else:
            self._rest = data[max(read, len(data) - TAIL) :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._end(f"the connection was lost after {len(self.delays)} deltas: {exc!r}")

    def _end(self, problem: str) -> None:
        if not self.done.done():
            self.problem = problem
            self.done.set_result(None)
        if self._transport is not None:
            self._transport.abort() if self._leave_after else self._transport.close()


def request_of(options: argparse.Namespace, number: int) -> bytes:
    """Return the bytes of a client's request."""
    message = {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    posted = {"id": f"{options.prefix}{number}", "messages": [message], "trigger": "submit-message"}
    body = json.dumps(posted).encode()
    head = (
        f"POST {options.path} HTTP/1.1\r\nHost: {options.host}:{options.port}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def one(options: argparse.Namespace, number: int) -> Client:
    """Run one client to its end."""
    await asyncio.sleep(options.ramp * number / max(1, options.clients))
    client = Client(request_of(options, number), deltas=options.deltas, leave_after=options.leave_after)
    try:
        await asyncio.get_running_loop().create_connection(lambda: client, options.host, options.port)
        await asyncio.wait_for(client.done, options.timeout)
    except (OSError, TimeoutError) as error:
        client.problem = f"{type(error).__name__} after {len(client.delays)} deltas: {error}"
    return client


def share(ordered: list[float], part: float) -> float:
    """Return the delay that so many of the deltas do not exceed."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2) if ordered else 0.0


async def main(options: argparse.Namespace) -> dict[str, object]:
    """Run all clients, and return what they saw."""
    clients = await asyncio.gather(*(one(options, number) for number in range(options.clients)))
    delays = sorted(delay for client in clients for delay in client.delays)
    errors = Counter(client.problem for client in clients if client.problem)
    return {
        "clients": len(clients),
        "complete": sum(not client.problem for client in clients),
        "deltas": len(delays),
        "p50": share(delays, 0.5),
        "p99": share(delays, 0.99),
        "max": share(delays, 1.0),
        "errors": dict(errors.most_common(5)),
        "server_peak_mb": peak_megabytes(options.pid),
    }


def peak_megabytes(pid: int) -> float | None:
    """Return the most memory that a process held so far; None where nobody tells."""
    status = Path(f"/proc/{pid}/status")
    if not pid or not status.exists():
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
    return round(int(found[1]) / 1024, 1) if found else None


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/api/chat")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--deltas", type=int, default=50, help="how many deltas a stream has")
    parser.add_argument("--ramp", type=float, default=2.0, help="seconds over which the clients come")
    parser.add_argument("--leave-after", type=int, default=0, help="leave without a word after so many deltas")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one client")
    parser.add_argument("--prefix", default="t", help="of the names of the threads")
    parser.add_argument("--pid", type=int, default=0, help="of the server, whose memory is reported")
    return parser.parse_args()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    json.dump(asyncio.run(main(read_options())), sys.stdout)
    print()
