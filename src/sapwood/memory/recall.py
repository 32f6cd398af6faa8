"""Recall: search a memory and lay the hits out as text for a prompt.

Source: guide D, "Memory".
"""

from collections.abc import Iterable
from inspect import isawaitable

import msgspec

from sapwood.core.maybe import then
from sapwood.core.memory import MemoryRecord, RecallOptions
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable

HEADING = "Relevant memory (use if helpful):"


class Recall(msgspec.Struct, frozen=True):
    """The records of a search and the block of text that shows them."""

    records: tuple[MemoryRecord, ...] = ()
    block: str = ""


async def recall_memory(store: MemoryStore, query: str, options: RecallOptions | None = None) -> Recall:
    """Search the store and return the hits with a block of text for a prompt.

    A blank query searches nothing.

    >>> import asyncio
    >>> from sapwood import create_memory_store
    >>> asyncio.run(recall_memory(create_memory_store(), "units?"))
    Recall(records=(), block='')
    """
    found = recalled(store, query, options or RecallOptions())
    return await found if isawaitable(found) else found


def recalled(store: MemoryStore, query: str, options: RecallOptions) -> MaybeAwaitable[Recall]:
    """Do the same; only a store that is async makes it something to await."""
    if not query.strip():
        return Recall()
    return then(store.search(query, k=options.k, kind=options.kind, min_score=options.min_score), _shown)


def _shown(found: Iterable[MemoryRecord]) -> Recall:
    records = tuple(found)
    return Recall(records, format_memory_block(records))


def format_memory_block(records: Iterable[MemoryRecord]) -> str:
    """Return the records as a block of text, one line for each; empty for none.

    A line break inside a record becomes a blank, so that one record stays one line.

    >>> format_memory_block([MemoryRecord("1", "likes tea", 0)])
    'Relevant memory (use if helpful):\\n- likes tea'
    """
    lines = [f"- {' '.join(record.text.split())}" for record in records]
    return "\n".join([HEADING, *lines]) if lines else ""
