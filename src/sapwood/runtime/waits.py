"""Awaiting within limits: for at most some seconds, or until a token is cancelled.

Law: an outcome that was there when the wait ended is kept.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import RunCancelledError, StepCancelledError, StepTimeoutError

T = TypeVar("T")
_log = logging.getLogger(__name__)

GRACE_SECONDS = 0.5
"""How long a task may take to clean up after its cancellation."""


class CancelledButEnded(asyncio.CancelledError):
    """A wait was cancelled when what it waited for had ended; result: returns or raises its outcome."""

    def __init__(self, result: Callable[[], Any]) -> None:
        super().__init__()
        self.result = result


async def watched(token: CancelToken, start: Callable[[], Awaitable[object]]) -> Any:
    """Await something that the token may end: then RunCancelledError takes the place of the cancellation.

    An outcome that was there already is kept: what a tool has done must not become unknown.
    """
    token.check()
    task = cast("asyncio.Task[Any]", asyncio.current_task())  # a coroutine that runs is in a task
    loop = asyncio.get_running_loop()
    is_waiting, ours = True, False

    def stop() -> None:
        # It was scheduled from another thread, or earlier in this one: what it was to end may be over.
        nonlocal ours
        if is_waiting:
            ours = True
            task.cancel()

    def wake() -> None:
        loop.call_soon_threadsafe(stop)

    silence = token.listen(wake)
    try:
        return await start()
    except asyncio.CancelledError as error:
        if not ours or task.uncancel() > 0:
            raise
        if isinstance(error, CancelledButEnded):
            return error.result()
        raise RunCancelledError(token.reason or "the turn was cancelled") from None
    finally:
        is_waiting = False
        silence()


async def limited(awaitable: Awaitable[T], timeout: float) -> T:
    """Await something for at most these seconds.

    Past them it is cancelled and StepTimeoutError raised, also where it swallows the cancellation. Raises
    StepCancelledError where something inside it was cancelled.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_SECONDS)
            if not task.done():
                _log.warning("abandoned a task that swallowed its cancellation: %r", task.get_name())
            raise StepTimeoutError(f"no outcome after {timeout:g} s")
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
        raise
    if task.cancelled():
        raise StepCancelledError("something inside it was cancelled")
    return task.result()
