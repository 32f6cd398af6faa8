"""maybe: go on with a value that may have to be awaited first.

Law: where nothing is async, nothing becomes async: the synchronous API then needs no event loop, so it works inside a
running one, too.
"""

from collections.abc import Awaitable, Callable, Generator
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


def stepped(steps: Generator[MaybeAwaitable[Any], Any, T]) -> MaybeAwaitable[T]:
    """Return what a generator comes to that yields what may have to be awaited, and is sent what came of it.

    >>> def added():
    ...     first = yield 1
    ...     second = yield 2
    ...     return first + second
    >>> stepped(added())
    3
    """
    value: Any = None
    try:
        while True:
            asked = steps.send(value)
            if isawaitable(asked):
                return _stepped(steps, asked)
            value = asked
    except StopIteration as done:
        return cast("T", done.value)  # what a generator returns has no other way out


async def _stepped(steps: Generator[MaybeAwaitable[Any], Any, T], asked: Awaitable[Any]) -> T:
    given: MaybeAwaitable[Any] = asked
    try:
        while True:
            try:
                value = await given if isawaitable(given) else given
            except BaseException as error:  # noqa: BLE001 - it belongs to the generator, which may go on
                given = steps.throw(error)
            else:
                given = steps.send(value)
    except StopIteration as done:
        return cast("T", done.value)
