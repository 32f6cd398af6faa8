"""Remember: save facts, one at a time.

Source: guide D, "Memory".
"""

from collections.abc import Iterable
from inspect import isawaitable

from sapwood.core.maybe import then
from sapwood.core.memory import MemoryRecord
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable


async def remember_facts(store: MemoryStore, facts: Iterable[str], *, kind: str = "fact") -> tuple[MemoryRecord, ...]:
    """Save each fact in its order and return the records.

    Facts are trimmed and empty ones skipped. If the store fails, what was saved before stays saved and the
    error reaches the caller.

    >>> import asyncio
    >>> from sapwood import create_memory_store
    >>> [record.text for record in asyncio.run(remember_facts(create_memory_store(), [" likes tea ", ""]))]
    ['likes tea']
    """
    saved = remembered(store, facts, kind=kind)
    return await saved if isawaitable(saved) else saved


def remembered(store: MemoryStore, facts: Iterable[str], *, kind: str) -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
    """Do the same; only a store that is async makes it something to await."""
    texts = [text for fact in facts if (text := fact.strip())]

    saved: list[MemoryRecord] = []

    def save_more(record: MemoryRecord) -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
        saved.append(record)
        return save_rest()

    def save_rest() -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
        for text in texts[len(saved) :]:
            record = store.save(text, kind=kind)
            if isawaitable(record):
                return then(record, save_more)
            saved.append(record)
        return tuple(saved)

    return save_rest()
