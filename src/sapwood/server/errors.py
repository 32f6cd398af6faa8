"""Errors as clients see them: a status, a code for programs, a text for people, and the id of the request.

Law: what is not meant for a client is logged under the id of the request and never sent.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    ConflictError,
    ContentFilterError,
    ContextOverflowError,
    ConversationBusyError,
    LLMError,
    LLMTimeoutError,
    ModelNotFoundError,
    ProviderNotInstalledError,
    RateLimitError,
    RunPausedError,
    StoreError,
    TooLargeError,
    UsageLimitError,
)
from sapwood.server.principal import Forbidden, Unauthorized
from sapwood.server.run_log import Failure

T = TypeVar("T")


class HttpError(Exception):
    """An answer other than what was asked for.

    status: of HTTP. code: for programs. more: further fields of the error, such as `runId`. headers: of the answer.
    """

    def __init__(
        self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more
        self.headers = headers or {}


class SetUpError(Exception):
    """What is wrong with the agent or its making; told to nobody but the log."""


_OF_RUN: tuple[tuple[type[Exception], str, str], ...] = (
    (RateLimitError, "model_busy", "The model's provider takes no more requests just now."),
    (LLMTimeoutError, "model_timeout", "The model did not answer in time."),
    (AuthenticationError, "model_unavailable", "The model cannot be used: its provider refused this server."),
    (ModelNotFoundError, "model_unavailable", "The model cannot be used: its provider does not know it."),
    (ContentFilterError, "content_filter", "The model's provider refused the content."),
    (ContextOverflowError, "too_long", "The request is too long for the model."),
    (LLMError, "model_error", "The model did not answer."),
    (UsageLimitError, "usage_limit", "A usage limit was reached."),
    (TooLargeError, "too_large", "Something in this run is larger than the store takes."),
    (StoreError, "store_error", "The run could not be stored."),
)


def failure_of(error: BaseException, request_id: str) -> Failure:
    """Return what is told of an error that ended a run."""
    for kind, code, text in _OF_RUN:
        if isinstance(error, kind):
            return Failure(code, f"{text} (request {request_id})")
    return Failure("internal", f"Something went wrong here. (request {request_id})")


def http_error(error: Exception) -> HttpError | None:
    """Return the answer to a request that could not be taken; None for an error of ours, which is not told."""
    match error:
        case HttpError():
            return error
        case Unauthorized():
            return HttpError(401, "unauthorized", str(error), headers={"www-authenticate": "Bearer"})
        case Forbidden():
            return HttpError(403, "forbidden", str(error))
        case ProviderNotInstalledError():
            return HttpError(501, "not_installed", "This server lacks what answers that; see its log.")
        case HTTPException(status_code=status):
            code, what = _OF_STATUS.get(status, ("http", "This cannot be answered."))
            return HttpError(status, code, what, headers=dict(error.headers or {}))
        case ConversationBusyError(run_id=run_id):
            more: dict[str, Any] = {"runId": run_id} if run_id else {}
            return HttpError(409, "busy", "A run is going on in this thread; join it, stop it, or wait for it.", **more)
        case RunPausedError():
            return HttpError(409, "waiting", "A run of this thread waits for an answer; give it first.")
        case ConflictError():
            return HttpError(409, "conflict", "Somebody else was first: it is answered, goes on, or has ended.")
        case _:
            return None


_OF_STATUS = {
    401: ("unauthorized", "Nobody is known to send this."),
    403: ("forbidden", "Who sends this may not."),
    404: ("not_found", "There is nothing here by that name."),
    405: ("method", "There is nothing here that answers this."),
}


def posted(read: Callable[..., T], *given: object) -> T:
    """Return what is read of something that a client sent; raises HttpError for what cannot be meant."""
    try:
        return read(*given)
    except ConfigError as error:
        raise unprocessable(error) from None


def unprocessable(error: ConfigError) -> HttpError:
    """Return the answer to content that cannot be what is meant."""
    return HttpError(422, "invalid", str(error)[:500])
