"""What a step that streams may return, seen as one kind of thing."""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from typing import TypeVar

from sapwood.core.model import AnyIterable

T = TypeVar("T")


async def opened(items: Awaitable[AnyIterable[T]]) -> AsyncGenerator[T, None]:
    """Yield what a coroutine returns to be iterated: a provider's `stream` may be one, though it needs not."""
    found = await items
    if isinstance(found, AsyncIterable):
        iterator = aiter(found)
        try:
            async for item in iterator:
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
    else:
        for item in found:
            yield item
