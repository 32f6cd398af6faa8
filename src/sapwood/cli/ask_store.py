"""Asking a store from the terminal, plain or async, without an event loop."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from sapwood.core.tools import MaybeAwaitable
from sapwood.runtime.blocking import BlockingRuntime, iterate

T = TypeVar("T")


def get(fn: Callable[..., MaybeAwaitable[T]], *args: Any, **options: Any) -> T:
    """Call a method of a store and return what it gives."""
    return done(BlockingRuntime().call("store", lambda: fn(*args, **options), shielded=True))


def done(step: Coroutine[Any, Any, T]) -> T:
    """Perform a step that never suspends on a blocking runtime."""

    async def alone() -> AsyncGenerator[T, None]:
        yield await step

    return next(iterate(alone()))
