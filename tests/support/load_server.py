"""A server whose model says so many deltas, ten a second, each with the time at which it was said.

Prints the port and the process id once it listens. Run it as a script, with `--deltas 300`; see `sse_clients.py`.
"""

import argparse
import asyncio
import resource
import socket
import time
from collections.abc import AsyncIterator

from sapwood import Agent
from sapwood.core.messages import Text
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.core.usage import Usage


class StampedProvider:
    """A model that says what time it is. interval: seconds between two deltas."""

    profile = ModelProfile("stamped", "stamped", context_window=200_000, max_output_tokens=8_192)

    def __init__(self, deltas: int, interval: float) -> None:
        self._deltas = deltas
        self._interval = interval

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        """Yield the deltas at their times, whatever became late on the way."""
        loop = asyncio.get_running_loop()
        start, pieces = loop.time(), list[str]()
        for number in range(self._deltas):
            await asyncio.sleep(max(0.0, start + number * self._interval - loop.time()))
            pieces.append(f"<{int(time.time() * 1000)}:{number}>")
            yield TextChunk(pieces[-1])
        yield Reply((Text("".join(pieces)),), "stop", Usage(10, self._deltas))


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--deltas", type=int, default=50)
    parser.add_argument("--interval", type=float, default=0.1)
    return parser.parse_args()


def main() -> None:
    """Serve until the process is ended."""
    import os

    import uvicorn

    from sapwood.server import Settings, create_app

    options = read_options()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limits = Settings(max_runs_each=10_000, requests_per_minute=1_000_000)
    app = create_app(Agent(llm=StampedProvider(options.deltas, options.interval)), page=False, settings=limits)
    listener = socket.create_server(("127.0.0.1", options.port), backlog=2048)
    print(listener.getsockname()[1], os.getpid(), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
