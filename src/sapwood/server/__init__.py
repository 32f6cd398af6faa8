"""An agent behind HTTP: runs that outlive their connection, approvals, threads, and a page to look at it.

Needs the extra `server` (Starlette and uvicorn).
"""

from sapwood.server.app import App, create_app
from sapwood.server.principal import Authorize, Forbidden, Principal, Unauthorized, bearer_tokens
from sapwood.server.serving import serve
from sapwood.server.settings import Settings

__all__ = [
    "App",
    "Authorize",
    "Forbidden",
    "Principal",
    "Settings",
    "Unauthorized",
    "bearer_tokens",
    "create_app",
    "serve",
]
