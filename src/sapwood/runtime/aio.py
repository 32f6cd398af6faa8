"""AsyncioRuntime: async leaves on the event loop, plain functions in threads, flows merged as they go.

Laws: a flow goes on only after its item was taken (a rendezvous); tasks live in `merge` alone, which cancels
and awaits them in its `finally`; no task group is held open across a yield.
"""

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, suppress
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar, cast

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import StepCancelledError, StepTimeoutError
from sapwood.core.events import AgentEvent
from sapwood.core.model import AnyIterable
from sapwood.core.run import Run
from sapwood.core.tools import MaybeAwaitable
from sapwood.runtime.clock import SystemClock
from sapwood.runtime.shielded import to_the_end
from sapwood.runtime.streams import opened
from sapwood.runtime.threads import Worker
from sapwood.runtime.waits import CancelledButEnded, limited, watched

T = TypeVar("T")
_log = logging.getLogger(__name__)
_END = object()

ENDING_SECONDS = 0.01
"""How long a plain function may take to return once its turn was cancelled."""
MAX_TOOLS = 10
"""Tools of one turn that may run at once; more wait for a slot."""


class AsyncioRuntime(SystemClock):
    """Performs leaves on the running event loop.

    max_tools: execution slots for tools. cancel: stops the leaf that is waiting at once.
    """

    def __init__(self, *, max_tools: int = MAX_TOOLS, cancel: CancelToken | None = None) -> None:
        self._max_tools = max_tools
        self._slots: asyncio.Semaphore | None = None
        self._cancel = cancel
        self._background: set[asyncio.Task[None]] = set()

    async def call(
        self,
        step: str,
        fn: Callable[..., MaybeAwaitable[T]],
        *args: Any,
        timeout: float | None = None,
        effect: bool = False,
        waits: bool = False,
        shielded: bool = False,
    ) -> T:
        """Await an async function; run a plain one in a thread where it could hold up the loop, or has a time-out."""
        result: Any
        if shielded:
            result = await to_the_end(fn, args)
        elif self._cancel is not None:
            result = await watched(self._cancel, lambda: self._call(step, fn, args, timeout, effect, waits))
        else:
            result = await self._call(step, fn, args, timeout, effect, waits)
        done: T = result
        return done

    async def _call(
        self, step: str, fn: Callable[..., Any], args: tuple[Any, ...], timeout: float | None, effect: bool, waits: bool
    ) -> Any:
        if not effect:
            return await _run(step, fn, args, timeout, in_thread=waits or bool(timeout))
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._max_tools)
        async with self._slots:
            return await _run(step, fn, args, timeout, in_thread=True)

    async def stream(self, step: str, fn: Callable[..., AnyIterable[T]], *args: Any) -> AsyncGenerator[T, None]:
        """Iterate what the function returns; a merely iterable one is stepped in threads."""
        items: AnyIterable[T] = fn(*args)
        if isawaitable(items):
            items = opened(cast("Awaitable[AnyIterable[T]]", items))  # a provider may be written so
        source: AsyncIterator[T] = aiter(items) if isinstance(items, AsyncIterable) else _threaded(step, items)
        close = getattr(source, "aclose", None)
        try:
            if self._cancel is None:
                async for item in source:
                    yield item
            else:
                while (late := await watched(self._cancel, lambda: _next_or_end(source))) is not _END:
                    yield late
        finally:
            if close is not None:
                await close()

    async def merge(self, flows: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Run the flows as tasks that feed one queue and wait until their item was taken."""
        if len(flows) == 1:
            async with aclosing(flows[0]) as only:
                async for item in only:
                    yield item
            return
        queue: asyncio.Queue[tuple[Any, asyncio.Future[None] | None]] = asyncio.Queue()
        tasks = [asyncio.create_task(_pump(flow, queue)) for flow in flows]
        left = len(tasks)
        try:
            while left:
                item, taken = await queue.get()
                if taken is None:
                    left -= 1
                    if isinstance(item, BaseException):
                        raise item
                    continue
                yield item
                if not taken.done():
                    taken.set_result(None)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Keep nothing."""

    async def settle(self, event: AgentEvent) -> None:
        """Keep nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait, or stop waiting when the turn is cancelled."""
        if self._cancel is not None:
            await watched(self._cancel, lambda: asyncio.sleep(seconds))
        else:
            await asyncio.sleep(seconds)

    def background(self, name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
        """Start it as a task that is kept until it ends; a plain function in a thread, as every leaf."""
        task = asyncio.get_running_loop().create_task(_logged(name, fn))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _run(
    step: str, fn: Callable[..., Any], args: tuple[Any, ...], timeout: float | None, *, in_thread: bool
) -> Any:
    if in_thread and not iscoroutinefunction(fn):
        result = await _in_thread(step, fn, args, timeout)
    else:
        result = fn(*args)
    if not isawaitable(result):
        return result
    if timeout is not None:
        return await limited(result, timeout)
    try:
        return await result
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StepCancelledError("something inside it was cancelled") from None


async def _in_thread(step: str, fn: Callable[..., Any], args: tuple[Any, ...], timeout: float | None = None) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    worker: Worker[Any] = Worker(step, fn, args)

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    def notify() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(wake)

    worker.start(notify)
    try:
        finished, _ = await asyncio.wait({done}, timeout=timeout)
    except asyncio.CancelledError:
        # A function that is just returning (it may have set the token itself) is given the time to do so.
        with suppress(asyncio.CancelledError):  # a second cancel: whether it ended is asked all the same
            await asyncio.wait({done}, timeout=ENDING_SECONDS)
        if worker.wait(0):
            raise CancelledButEnded(worker.result) from None
        worker.abandon("its turn went on without it")
        raise
    if not finished:
        worker.abandon(f"no outcome after {timeout:g} s")
        raise StepTimeoutError(f"no outcome after {timeout:g} s")
    try:
        return worker.result()
    except asyncio.CancelledError:
        raise StepCancelledError("something inside it was cancelled") from None


async def _threaded(step: str, items: Iterable[T]) -> AsyncIterator[T]:
    iterator = iter(items)
    try:
        while (item := await _in_thread(step, _step, (iterator,))) is not _END:
            yield item
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def _step(iterator: Iterator[object]) -> object:
    return next(iterator, _END)


async def _next_or_end(source: AsyncIterator[object]) -> object:
    return await anext(source, _END)


async def _pump(flow: AsyncGenerator[T, None], queue: asyncio.Queue[tuple[Any, asyncio.Future[None] | None]]) -> None:
    loop = asyncio.get_running_loop()
    try:
        async with aclosing(flow) as items:
            async for item in items:
                taken = loop.create_future()
                queue.put_nowait((item, taken))
                await taken
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - raised again by whoever reads the queue
        queue.put_nowait((error, None))
    else:
        queue.put_nowait((None, None))


async def _logged(name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
    try:
        await _run(name, fn, (), None, in_thread=True)
    except Exception:  # noqa: BLE001 - a door: nobody waits for it
        _log.exception("background step %r failed", name)
