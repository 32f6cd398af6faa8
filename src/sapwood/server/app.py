"""create_app: an agent as an ASGI application, alone or mounted in another one.

Laws: without `authorize` only this machine is answered; the application owns no socket and no signal; its runs end
with the event loop that they began on.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from copy import copy
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from sapwood.agent.agent import Agent
from sapwood.agent.memory_window import MemoryWindow
from sapwood.core.errors import ConfigError
from sapwood.server.ag_ui_route import AgUiRoute
from sapwood.server.guard import LOCAL_HOSTS, Guard
from sapwood.server.live_runs import LiveRuns
from sapwood.server.openapi import document
from sapwood.server.principal import Authorize, Principal
from sapwood.server.replies import JsonReply, Streams
from sapwood.server.routes import Handler, Routes
from sapwood.server.settings import Settings
from sapwood.stores.in_process_runs import InProcessStore

Served: TypeAlias = Agent | Callable[[Principal], Agent]
"""What is served: an agent, or what makes the agent of a principal."""
_MOST_USERS = 1_000
"""Users whose agents are kept; one who comes back after so many others gets a new one."""
STATIC = Path(__file__).parent / "static"
_log = logging.getLogger(__name__)


class App:
    """The ASGI application. runs: what goes on in it."""

    def __init__(
        self, guarded: Guard, runs: LiveRuns, streams: Streams, *, drain_seconds: float, has_authorize: bool
    ) -> None:
        self._guarded = guarded
        self.runs = runs
        self._streams = streams
        self.has_authorize = has_authorize
        self.drain_seconds = drain_seconds
        self._ticking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the first one starts what is needed where the host has not."""
        if scope["type"] == "http":
            await self.start()
        await self._guarded(scope, receive, send)

    async def start(self) -> None:
        """Go on with runs that a crash broke off. More than once is harmless; once it was stopped, it stays so."""
        if self._ticking is None and not self.runs.is_draining:
            self._ticking = asyncio.create_task(self._tick())
            await self.runs.recover()

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Let runs finish, break off what does not, and end; for the shutdown of a host that this is mounted in."""
        await self.runs.drain(self.drain_seconds if drain_seconds is None else drain_seconds)
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._streams.tick_seconds)
            self._streams.tick()
            self.runs.forget_old()


def create_app(
    agent: Served,
    *,
    store: Any = None,
    authorize: Authorize | None = None,
    origins: Collection[str] = (),
    hosts: Collection[str] | None = None,
    page: bool = True,
    title: str = "sapwood",
    settings: Settings | None = None,
) -> App:
    """Return an agent as an ASGI application.

    agent: the agent, or a function that makes the one of a principal. store: keeps runs and threads, such as
    `SqliteStore(path)`; None takes the agent's own, or one in this process, which forgets at its end. authorize: tells
    who asks, from the request; threads, runs and memory are then kept apart by principal. Without it only clients of
    this machine are answered. origins: other sites whose pages may ask. hosts: the names by which this server may be
    called; None for any, and without `authorize` those of this machine. page: serve the built-in page at `/`.
    title: what the page is headed with. settings: limits and times.

    Raises ConfigError for what is no agent, a store without runs or conversations, and a memory that cannot be kept
    apart by user.

    >>> from sapwood.testing import says, scripted
    >>> app = create_app(Agent(llm=scripted(says("Hello."))))
    """
    settings = settings or Settings()
    kept = store if store is not None else _store_of(agent)
    for name in ("runs", "conversations"):
        if not hasattr(kept, name):
            raise ConfigError(f"the store of a server has runs and conversations, as SqliteStore(path); not {name}")
    runs = LiveRuns(_agent_of(agent, by_user=authorize is not None), kept, settings)
    routes = Routes(runs, settings, authorize, lambda principal: {"name": title, **_about(runs.agent(principal))})

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        await app.start()
        yield
        await app.stop()

    # A bare router: what a route raises reaches the guard, and nothing in between answers for it.
    routes_of = [*_api(routes, AgUiRoute(runs, routes, settings.max_event_bytes)), *(_page() if page else [])]
    router = Router(routes=routes_of, lifespan=lifespan, redirect_slashes=False)
    guarded = Guard(
        router,
        origins=origins,
        hosts=hosts if hosts is not None or authorize is not None else LOCAL_HOSTS,
        only_local=authorize is None,
        max_body_bytes=settings.max_body_bytes,
    )
    app = App(guarded, runs, routes.streams, drain_seconds=settings.drain_seconds, has_authorize=authorize is not None)
    return app


def _agent_of(agent: Served, *, by_user: bool) -> Callable[[Principal], Agent]:
    if isinstance(agent, Agent):
        if not by_user:
            return lambda principal: copy(agent)
        agent.for_user("nobody")  # what cannot be kept apart is told now, and not at the first request
        # One for all requests of a user: turns that a memory gathers before it learns from them are gathered there.
        of_user = lru_cache(_MOST_USERS)(agent.for_user)
        return lambda principal: of_user(principal.id)
    if not callable(agent):
        raise ConfigError(f"give an Agent, or a function that makes one for a principal, not {type(agent).__name__}")
    return agent


def _store_of(agent: Served) -> Any:
    keeping = agent.keeping if isinstance(agent, Agent) else None
    if keeping is None or keeping.runs is None or keeping.conversations is None:
        return InProcessStore()
    # The window of a memory is one conversation, and keeps no runs that are over.
    if not isinstance(keeping.conversations, MemoryWindow):
        return _Kept(keeping.runs, keeping.conversations)
    return InProcessStore()


class _Kept:
    def __init__(self, runs: Any, conversations: Any) -> None:
        self.runs = runs
        self.conversations = conversations


def _about(agent: Agent) -> dict[str, Any]:
    return {"model": agent.model, "window": agent.window, "agUi": find_spec("ag_ui") is not None}


def _api(routes: Routes, ag_ui: AgUiRoute) -> list[BaseRoute]:
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/api/chat", routes.chat),
        ("GET", "/api/chat/{thread_id}/stream", routes.rejoin),
        ("POST", "/api/chat/{thread_id}/stop", routes.stop_thread),
        ("GET", "/api/threads", routes.threads),
        ("GET", "/api/threads/{thread_id}", routes.thread),
        ("DELETE", "/api/threads/{thread_id}", routes.delete_thread),
        ("GET", "/api/runs/{run_id}", routes.run),
        ("GET", "/api/runs/{run_id}/stream", routes.run_stream),
        ("POST", "/api/runs/{run_id}/stop", routes.stop_run),
        ("POST", "/api/runs/{run_id}/decide", routes.decide),
        ("POST", "/api/runs/{run_id}/resume", routes.resume),
        ("GET", "/api/runs/{run_id}/context", routes.context),
        ("POST", "/api/ag-ui", ag_ui.answer),
        ("GET", "/api/info", routes.info),
        ("GET", "/health", routes.health),
        ("GET", "/openapi.json", _openapi),
    ]
    return [Route(path, handler, methods=[method]) for method, path, handler in table]


def _page() -> list[BaseRoute]:
    if not (STATIC / "index.html").exists():
        return [Route("/", _no_page)]
    return [
        Route("/", _index),
        Mount("/assets", GZipMiddleware(_Assets(directory=STATIC / "assets"))),
    ]


class _Assets(StaticFiles):
    """Files whose names change with their content."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """Return a file that a browser may keep."""
        response = super().file_response(*args, **options)
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


async def _no_page(_: Request) -> Response:
    return PlainTextResponse("The page is not built here; see packages/page.", 404)


async def _openapi(_: Request) -> Response:
    return JsonReply(document())
