"""A real server in this process: uvicorn on a free port, and a client; and a model that waits to be let on."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import httpx2
import uvicorn

from sapwood.core.model import ModelRequest, StreamChunk, TextChunk
from sapwood.llm.scripted import ScriptedProvider
from sapwood.server import App

Chunk = dict[str, Any]


@asynccontextmanager
async def live(app: App, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve an application while the block runs, and give a client for it."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined, method-assign]
    serving = asyncio.create_task(server._serve())
    while not server.started:
        assert not serving.done(), "the server did not start"
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
            yield client
    finally:
        await app.runs.drain(0)
        server.should_exit = True
        server.force_exit = True
        await serving


def said(text: str, id: str = "m1", thread: str = "t1", **more: Any) -> dict[str, Any]:
    """Return the body that says something in a thread."""
    message = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": thread, "messages": [message], "trigger": "submit-message", **more}


async def told(client: httpx2.AsyncClient, path: str, body: object = None, **options: Any) -> list[Chunk]:
    """Return all chunks of a stream; a GET without a body."""
    method = "GET" if body is None else "POST"
    async with client.stream(method, path, json=body, **options) as response:
        assert response.status_code == 200, (response.status_code, await response.aread())
        return [chunk async for chunk in chunks(response)]


async def chunks(response: httpx2.Response) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of a stream as they come, until its end or its `[DONE]`."""
    async with aclosing(response.aiter_lines()) as lines:
        async for line in lines:
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                yield json.loads(line[6:])


def text_of(found: list[Chunk]) -> str:
    """Return the text of a stream."""
    return "".join(chunk["delta"] for chunk in found if chunk["type"] == "text-delta")


def kinds(found: list[Chunk]) -> list[str]:
    """Return the types of chunks, without the ledgers and times."""
    return [chunk["type"] for chunk in found if chunk["type"] not in ("data-ledger", "data-tool-time")]


class Gated:
    """A scripted model that gives each piece of text only once it is let on; `open` lets on all."""

    def __init__(self, inner: ScriptedProvider) -> None:
        self.inner = inner
        self.profile = inner.profile
        self._free: asyncio.Queue[None] = asyncio.Queue()
        self._open = False
        self.is_waiting = asyncio.Event()

    def let(self, pieces: int) -> None:
        """Let on so many pieces."""
        for _ in range(pieces):
            self._free.put_nowait(None)

    def open(self) -> None:
        """Let on all that comes."""
        self._open = True
        self.let(1)

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Answer a request."""
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        for chunk in self.inner.stream(request):  # type: ignore[union-attr]
            if isinstance(chunk, TextChunk) and not self._open:
                self.is_waiting.set()
                await self._free.get()
            yield chunk


@contextmanager
def live_in_thread(app: App) -> Iterator[str]:
    """Serve an application from a thread of its own while the block runs, and give its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        assert not thread.is_alive()
