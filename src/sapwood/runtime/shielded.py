"""Calls of stores from an event loop: in a few threads that all turns share, and to their end.

Laws: a plain function that waits for a disk never holds up the loop; a cancellation is raised once the outcome is
there, so that whoever writes knows what was written. The threads are made as needed and kept.
"""

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

MAX_THREADS = 32
"""Calls of plain stores that may wait at once, in the process; one commit of a store takes as many together."""

_pools: dict[int, ThreadPoolExecutor] = {}


async def to_the_end(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a function, plain or async, and return or raise its outcome whatever is cancelled meanwhile."""
    if iscoroutinefunction(fn):
        return await _ended(asyncio.ensure_future(fn(*args)))
    call = partial(contextvars.copy_context().run, fn, *args)
    result = await _ended(asyncio.get_running_loop().run_in_executor(_pool(), call))
    if isawaitable(result):
        return await _ended(asyncio.ensure_future(result))
    return result


async def _ended(future: "asyncio.Future[Any]") -> Any:
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not future.cancelled():
            future.exception()  # seen, so that nobody is told that it was lost
        raise cancelled
    return future.result()


def _pool() -> ThreadPoolExecutor:
    # By process: the threads of a parent do not exist in a forked child.
    process = os.getpid()
    if process not in _pools:
        _pools[process] = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="sapwood-store")
    return _pools[process]
