"""WrappedRuntime: everything as an inner runtime does it, for runtimes that change one thing."""

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sapwood.core.events import AgentEvent
from sapwood.core.model import AnyIterable
from sapwood.core.ports import Runtime
from sapwood.core.run import Run
from sapwood.core.tools import MaybeAwaitable

T = TypeVar("T")


class WrappedRuntime:
    """Does everything as the inner runtime does; a subclass says what is different."""

    def __init__(self, inner: Runtime) -> None:
        self._inner = inner

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
        """Call it through the inner runtime."""
        return await self._inner.call(step, fn, *args, timeout=timeout, effect=effect, waits=waits, shielded=shielded)

    def stream(self, step: str, fn: Callable[..., AnyIterable[T]], *args: Any) -> AsyncGenerator[T, None]:
        """Stream through the inner runtime."""
        return self._inner.stream(step, fn, *args)

    def merge(self, flows: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Merge as the inner runtime does."""
        return self._inner.merge(flows)

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Note an event as the inner runtime does."""
        await self._inner.checkpoint(run, event)

    async def settle(self, event: AgentEvent) -> None:
        """Note an outcome as the inner runtime does."""
        await self._inner.settle(event)

    async def sleep(self, seconds: float) -> None:
        """Wait as the inner runtime does."""
        await self._inner.sleep(seconds)

    def background(self, name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
        """Run it as the inner runtime does."""
        self._inner.background(name, fn)

    def now(self) -> datetime:
        """The time of the inner runtime."""
        return self._inner.now()

    def monotonic(self) -> float:
        """The clock of the inner runtime."""
        return self._inner.monotonic()

    def random(self) -> float:
        """The chance of the inner runtime."""
        return self._inner.random()

    def new_id(self) -> str:
        """An id of the inner runtime."""
        return self._inner.new_id()
