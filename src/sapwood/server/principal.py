"""Who asks: the principal of a request, and how what belongs to one is kept apart from what belongs to others.

Laws: a thread's conversation carries its principal in its id, so that nothing of one can be named by another; what is
another's is not found, which is also what is said of what is not there.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import Request

from sapwood.core.errors import ConfigError, SapwoodError
from sapwood.core.stored import require_id

LOCAL = "local"
_THREAD = re.compile(r"[A-Za-z0-9._:~@-]{1,128}")


class Principal(msgspec.Struct, frozen=True):
    """Who a request comes from. id: names the person or program for good. name: for people to read.

    Raises ConfigError for an id that is no text, or empty.

    >>> Principal("ann@example.com").id
    'ann@example.com'
    """

    id: str
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not 0 < len(self.id) <= 256:  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"the id of a principal is a text of 1 to 256 characters, not {self.id!r:.80}")
        require_id(self.id, "principal")


Authorize: TypeAlias = Callable[[Request], Principal | Awaitable[Principal | None] | None]
"""Tells who a request comes from; None, or an Unauthorized, answers 401, and a Forbidden answers 403."""


class Unauthorized(SapwoodError):
    """Nobody is known to send this request; answered with 401. Its message is shown to the client."""


class Forbidden(SapwoodError):
    """Who sends this request may not; answered with 403. Its message is shown to the client."""


def bearer_tokens(tokens: Mapping[str, Principal | str]) -> Authorize:
    """Return an `authorize` that knows principals by the token of `Authorization: Bearer ...`.

    tokens: the principal, or its id, by token. Tokens are compared in constant time.
    Raises ConfigError for a token of fewer than 16 characters, which could be guessed.

    >>> authorize = bearer_tokens({"0123456789abcdef": "ann"})
    """
    known = {
        token.encode(): owner if isinstance(owner, Principal) else Principal(owner) for token, owner in tokens.items()
    }
    if not known or any(len(token) < 16 for token in known):
        raise ConfigError("a bearer token has at least 16 characters, such as secrets.token_urlsafe() gives")

    def authorize(request: Request) -> Principal:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        found: Principal | None = None
        for token, principal in known.items():  # all of them, so that the time tells nothing
            if hmac.compare_digest(token, given.strip().encode()):
                found = principal
        if scheme.lower() != "bearer" or found is None:
            raise Unauthorized("send a token that is known here, as Authorization: Bearer <token>")
        return found

    return authorize


def conversation_of(principal: Principal, thread_id: object) -> str:
    """Return the id of the conversation behind a thread.

    Raises ConfigError for what cannot name a thread.
    """
    if not isinstance(thread_id, str) or not _THREAD.fullmatch(thread_id) or thread_id in (".", ".."):
        raise ConfigError("the id of a thread is a text of 1 to 128 letters, digits and . _ : ~ @ -")
    return prefix_of(principal) + thread_id


def prefix_of(principal: Principal) -> str:
    """Return what the ids of all conversations of a principal begin with."""
    return quote(principal.id, safe="") + "/"


def thread_of(conversation_id: str | None, principal: Principal) -> str | None:
    """Return the thread behind a conversation; None where it is not this principal's."""
    prefix = prefix_of(principal)
    if conversation_id is None or not conversation_id.startswith(prefix):
        return None
    thread = conversation_id.removeprefix(prefix)
    return thread if _THREAD.fullmatch(thread) else None


def owner_of(conversation_id: str | None) -> Principal | None:
    """Return whose a conversation is; None where it was not begun by a server."""
    owner, slash, thread = (conversation_id or "").partition("/")
    return Principal(unquote(owner)) if owner and slash and _THREAD.fullmatch(thread) else None
