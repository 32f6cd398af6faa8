"""What the library asks of the world: runtimes and stores, as protocols.

Law: the loop and the sources reach the world only through these.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from sapwood.core.events import AgentEvent
from sapwood.core.memory import MemoryRecord
from sapwood.core.model import AnyIterable
from sapwood.core.run import Run
from sapwood.core.tools import MaybeAwaitable

T = TypeVar("T")


class Runtime(Protocol):
    """Who performs what the loop asks for: this thread, asyncio, an engine, a recording."""

    async def call(
        self,
        step: str,
        fn: Callable[..., MaybeAwaitable[T]],
        *args: Any,
        timeout: float | None = None,
        effect: bool = False,
        waits: bool = False,
    ) -> T:
        """Call a function, plain or async, and return what it returns.

        step: a name for logs and engines. timeout: seconds; raises TimeoutError past them.
        effect: it is a tool, whose outcome must not be lost and which takes an execution slot.
        waits: it may take long without doing anything, as a person who is asked: it must hold up nothing else.
        """
        ...

    def stream(self, step: str, fn: Callable[..., AnyIterable[T]], *args: Any) -> AsyncGenerator[T, None]:
        """Yield what the function's result yields; closing this closes that."""
        ...

    def merge(self, flows: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Yield from several flows as they go; each waits until its item was taken."""
        ...

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Note that an event was folded into the run."""
        ...

    async def settle(self, event: AgentEvent) -> None:
        """Note an outcome at once, before it is handed on and folded: whoever takes it may never ask for more."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def background(self, name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
        """Run something that nobody waits for; its failure is logged."""
        ...

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def random(self) -> float:
        """A number from 0 to 1, for jitter."""
        ...

    def new_id(self) -> str:
        """An id that was never used before."""
        ...


@runtime_checkable
class MemoryStore(Protocol):
    """A long-term memory (guide D's one stable interface); `all()` may be added and is not required."""

    def save(
        self, text: str, *, kind: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> MaybeAwaitable[MemoryRecord]:
        """Keep a text and return its record."""
        ...

    def search(
        self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0
    ) -> MaybeAwaitable[list[MemoryRecord]]:
        """Return at most k records above min_score, best first, with their scores."""
        ...

    def forget(self, id: str) -> MaybeAwaitable[bool]:
        """Remove a record; False where there was none of that id."""
        ...
