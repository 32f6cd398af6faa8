"""serve: an application on a socket, with uvicorn, until it is told to stop.

Law: without `authorize` it listens on this machine alone; a signal lets runs finish first, and what does not finish is
broken off so that it can be resumed.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import uvicorn

from sapwood.core.errors import ConfigError
from sapwood.server.app import App, Served, create_app

Started = Callable[[str], None]


def serve(
    agent: "Served | App",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    started: Started | None = None,
    log_level: str = "warning",
    **options: Any,
) -> None:
    """Serve an agent, or an application of `create_app`, until SIGINT or SIGTERM.

    port: 0 takes one that is free. started: is told the address once requests are taken. options: those of
    `create_app`. Raises ConfigError for a host that others can reach where there is no `authorize`.
    """
    app = agent if isinstance(agent, App) else create_app(agent, **options)
    if not app.has_authorize and not _is_loopback(host):
        raise ConfigError(
            f"{host!r} can be reached from other machines, and nothing says who may ask; give authorize=, such as "
            'bearer_tokens({...}), or host="127.0.0.1"'
        )
    config = uvicorn.Config(
        app, host=host, port=port, log_level=log_level, access_log=False, timeout_graceful_shutdown=10, lifespan="on"
    )
    _Server(config, app, started).run()


class _Server(uvicorn.Server):
    """uvicorn, which lets the runs finish before it waits for their streams to end."""

    def __init__(self, config: uvicorn.Config, app: App, started: Started | None) -> None:
        super().__init__(config)
        self._app = app
        self._told = started

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Begin to listen, and tell the address."""
        await super().startup(sockets)
        if self._told is not None and self.started:
            name, port = self.servers[0].sockets[0].getsockname()[:2]
            self._told(f"http://{f'[{name}]' if ':' in name else name}:{port}")

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Take no more connections, let the runs finish, and end."""
        for server in self.servers:
            server.close()
        if not self.force_exit:
            await self._app.runs.drain(self._app.drain_seconds)
        await super().shutdown(sockets)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
