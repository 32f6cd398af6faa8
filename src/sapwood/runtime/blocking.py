"""BlockingRuntime: every leaf in the caller's own thread, and `iterate`, which steps the loop by hand.

Law: no await of the loop ever suspends here, so an async generator can be stepped without an event loop:
no thread, no generated twin code, and it works inside a running loop (a notebook).
"""

import logging
import sys
import threading
import time
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
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sapwood.core.errors import StepCancelledError, StepTimeoutError
from sapwood.core.events import AgentEvent
from sapwood.core.model import AnyIterable
from sapwood.core.run import Run
from sapwood.core.tools import MaybeAwaitable
from sapwood.runtime.clock import SystemClock
from sapwood.runtime.streams import opened

if TYPE_CHECKING:
    from sapwood.core.cancel import CancelToken
    from sapwood.runtime.private_loop import PrivateLoops

T = TypeVar("T")
_log = logging.getLogger(__name__)


class BlockingRuntime(SystemClock):
    """Performs each leaf directly, in this thread.

    loops: where async tools run; one made on first use by default.
    """

    def __init__(
        self, *, loops: "Callable[[], PrivateLoops] | None" = None, cancel: "CancelToken | None" = None
    ) -> None:
        self._loops = loops or _shared_loops
        self._cancel = cancel

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
        """Call it here; an async function on the private loop; a plain one with a time-out in a thread."""
        cancel = None if shielded else self._cancel
        if cancel is not None:
            cancel.check()
        plain: Callable[..., Any] = fn
        try:
            result = _timed(step, plain, args, timeout) if timeout and not iscoroutinefunction(fn) else plain(*args)
            if isawaitable(result):
                result = self._loops().run(result, step, timeout, cancel)
        except BaseException as error:
            # Nothing here can be cancelled from outside, so it was something of the function's own. By name:
            # asyncio is not imported for plain functions.
            if type(error).__name__ == "CancelledError":
                raise StepCancelledError("something inside it was cancelled") from None
            raise
        done: T = result
        return done

    async def stream(self, step: str, fn: Callable[..., AnyIterable[T]], *args: Any) -> AsyncGenerator[T, None]:
        """Iterate in place; what is only async-iterable is stepped on the private loop."""
        items: AnyIterable[T] = fn(*args)
        if isawaitable(items):
            items = opened(cast("Awaitable[AnyIterable[T]]", items))  # a provider may be written so
        if isinstance(items, Iterable):
            iterator = iter(items)
            try:
                if self._cancel is None:
                    for item in iterator:
                        yield item
                else:
                    for item in iterator:
                        self._cancel.check()
                        yield item
            except Exception:
                if self._cancel is not None:
                    self._cancel.check()  # the wish to stop is what the caller waits to hear of
                raise
            finally:
                close = getattr(iterator, "close", None)
                if close is not None:
                    close()
            return
        for item in self._stepped(step, items):
            yield item

    async def merge(self, flows: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """One flow after another, in their order."""
        for flow in flows:
            async with aclosing(flow) as items:
                async for item in items:
                    yield item

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Keep nothing."""

    async def settle(self, event: AgentEvent) -> None:
        """Keep nothing."""

    async def sleep(self, seconds: float) -> None:
        """Sleep, or stop sleeping when the turn is cancelled."""
        if self._cancel is None:
            time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs in this thread
            return
        woken = threading.Event()
        silence = self._cancel.listen(woken.set)
        woken.wait(seconds)
        silence()
        self._cancel.check()

    def background(self, name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
        """Run it now: there is no other thread to do it later."""
        try:
            result = fn()
            if isawaitable(result):
                self._loops().run(result, name)
        except Exception:  # noqa: BLE001 - a door: nobody waits for it
            _log.exception("background step %r failed", name)

    def _stepped(self, step: str, items: AsyncIterable[T]) -> Iterator[T]:
        iterator = aiter(items)
        loops = self._loops()
        try:
            while True:
                try:
                    yield loops.run(_next(iterator), step)
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                loops.run(close(), step)


def iterate(events: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield from an async generator that never suspends.

    Raises RuntimeError where it does suspend: something in the loop awaited the world directly.
    """
    try:
        while True:
            step = events.__anext__()
            try:
                _without_hooks(step)
            except StopIteration as item:
                yield item.value
            except StopAsyncIteration:
                return
            else:
                # The step holds the generator; end it, or closing says "already running".
                with suppress(StopIteration, StopAsyncIteration):
                    step.throw(RuntimeError("a blocking run tried to suspend"))
                raise RuntimeError("a blocking run tried to suspend")
    finally:
        # StopIteration is how an awaitable that never suspends says that it is done.
        with suppress(StopIteration):
            _without_hooks(events.aclose())


def _without_hooks(step: Any) -> None:
    """Send into a step with the hooks of a running event loop off, so that it adopts no generator of ours."""
    hooks = sys.get_asyncgen_hooks()
    if hooks.firstiter is None:
        step.send(None)
        return
    sys.set_asyncgen_hooks(None, None)
    try:
        step.send(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _timed(step: str, fn: Callable[..., T], args: tuple[Any, ...], timeout: float) -> T:
    from sapwood.runtime.threads import Worker

    worker = Worker(step, fn, args)
    worker.start()
    if not worker.wait(timeout):
        worker.abandon(f"no outcome after {timeout:g} s")
        raise StepTimeoutError(f"no outcome after {timeout:g} s")
    return worker.result()


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)


_loops: "PrivateLoops | None" = None


def _shared_loops() -> "PrivateLoops":
    global _loops
    if _loops is None:
        from sapwood.runtime.private_loop import PrivateLoops

        _loops = PrivateLoops()
    return _loops
