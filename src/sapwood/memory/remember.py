"""Remember: save facts, one at a time.

Source: guide D, "Memory".
"""

from collections.abc import Iterable
from inspect import isawaitable

from sapwood.core.memory import MemoryRecord
from sapwood.core.ports import MemoryStore


async def remember_facts(store: MemoryStore, facts: Iterable[str], *, kind: str = "fact") -> tuple[MemoryRecord, ...]:
    """Save each fact in its order and return the records.

    Facts are trimmed and empty ones skipped. If the store fails, what was saved before stays saved and the
    error reaches the caller.

    >>> import asyncio
    >>> from sapwood import create_memory_store
    >>> [record.text for record in asyncio.run(remember_facts(create_memory_store(), [" likes tea ", ""]))]
    ['likes tea']
    """
    saved: list[MemoryRecord] = []
    for fact in facts:
        if text := fact.strip():
            record = store.save(text, kind=kind)
            saved.append(await record if isawaitable(record) else record)
    return tuple(saved)
