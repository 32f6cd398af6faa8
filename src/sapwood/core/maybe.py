"""maybe: go on with a value that may have to be awaited first.

Law: where nothing is async, nothing becomes async: the synchronous API then needs no event loop, so it works inside a
running one, too.
"""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, cast

from sapwood.core.tools import MaybeAwaitable

T = TypeVar("T")
R = TypeVar("R")


def then(value: MaybeAwaitable[T], go_on: Callable[[T], MaybeAwaitable[R]]) -> MaybeAwaitable[R]:
    """Return what `go_on` makes of the value, at once or, where the value is awaited, as something to await.

    >>> then(2, lambda number: number + 1)
    3
    """
    if not isawaitable(value):
        return go_on(value)
    return _awaited(value, go_on)


async def _awaited(value: Awaitable[T], go_on: Callable[[T], MaybeAwaitable[R]]) -> R:
    result: Any = go_on(await value)
    return cast("R", await result if isawaitable(result) else result)
