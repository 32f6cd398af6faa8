"""The private event loop on which the synchronous API runs async tools: one for each thread.

Laws: it lives over turns, so that a client made in turn 1 works in turn 2; it is closed by `close()` and at
exit; it is never used while another loop runs in the thread.
"""

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Awaitable
from typing import TypeVar

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import BlockingCallError
from sapwood.runtime.waits import limited, watched

T = TypeVar("T")


class PrivateLoops:
    """One event loop for each thread that needed one."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._all: weakref.WeakSet[_OwnedLoop] = weakref.WeakSet()
        _OWNERS.add(self)

    def run(
        self, awaitable: Awaitable[T], what: str, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> T:
        """Run an awaitable to its end on this thread's loop.

        what: what it is, for the error. timeout: seconds; raises TimeoutError past them. cancel: ends it at once.
        Raises BlockingCallError, which is a TypeError, where a loop is running in this thread already.
        """
        if is_loop_running():
            close = getattr(awaitable, "close", None)
            if close is not None:
                close()
            raise BlockingCallError(
                f"{what} is async and an event loop is already running in this thread (a notebook?); "
                "use astream(), achat() or arun() here, or make it a plain function"
            )
        if cancel is not None:
            found: T = self._loop().run_until_complete(watched(cancel, lambda: _awaited(awaitable, timeout)))
            return found
        return self._loop().run_until_complete(_awaited(awaitable, timeout))

    def close(self) -> None:
        """Close the loops; a later call opens a new one."""
        for owned in list(self._all):
            owned.close()

    def forget(self) -> None:
        """In a forked child: leave the parent's loops alone, and open new ones.

        Closing one would take its descriptors out of the epoll set that both processes share, and the parent's loop
        would never be woken again.
        """
        for owned in list(self._all):
            _left_alone(owned.loop)
        self._all = weakref.WeakSet()
        self._local = threading.local()

    def _loop(self) -> asyncio.AbstractEventLoop:
        owned: _OwnedLoop | None = getattr(self._local, "owned", None)
        if owned is None or owned.loop.is_closed():
            owned = self._local.owned = _OwnedLoop()
            self._all.add(owned)
        return owned.loop


class _OwnedLoop:
    """A loop that is closed with whoever holds it: its thread, or the Agent."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # Not by `__del__`: in a cycle the loop's own sockets may be collected before it can close them.
        self._finalizer = weakref.finalize(self, _collected, self.loop, threading.get_ident(), os.getpid())
        self._finalizer.atexit = False

    def close(self) -> None:
        _closed(self.loop)


def _collected(loop: asyncio.AbstractEventLoop, thread: int, process: int) -> None:
    """Close a loop that nobody has any more; the collector may run in any thread, and no other one runs it again.

    A forked child drops what the other threads of its parent held, before it calls anything that was registered.
    """
    if os.getpid() != process:
        _left_alone(loop)
    elif threading.get_ident() == thread:
        _closed(loop)
    elif not loop.is_running():
        loop.close()


def _left_alone(loop: asyncio.AbstractEventLoop) -> None:
    """See to it that this process never closes a loop of its parent: whoever tries, closes nothing."""
    _FOREIGN.append(loop)
    setattr(loop, "close", _nothing)  # noqa: B010 - its `__del__` closes it, too


def _closed(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_running() or loop.is_closed():
        return
    if not is_loop_running():  # else it is collected inside another loop and cannot run once more
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def is_loop_running() -> bool:
    """Tell whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(awaitable: Awaitable[T], timeout: float | None) -> T:
    if timeout is None:
        return await awaitable
    return await limited(awaitable, timeout)


_FOREIGN: list[asyncio.AbstractEventLoop] = []
"""Loops of the parent, kept in a forked child so that nothing collects them."""
_OWNERS: weakref.WeakSet[PrivateLoops] = weakref.WeakSet()


def _nothing() -> None:
    """Close nothing."""


def _forget_all() -> None:
    for owner in list(_OWNERS):
        owner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _close_all() -> None:
    for owner in list(_OWNERS):
        owner.close()
