"""A memory in this process, for demos, tests and small applications.

Laws: records are copies, so changing one changes nothing here; equal scores come newest first.
Source: guide D, `createMemoryStore`.
"""

from collections.abc import Iterable

from sapwood.core.memory import MemoryRecord
from sapwood.core.ports import Embedder
from sapwood.stores.embedding import Embedding
from sapwood.stores.in_process_memory import InProcessMemories
from sapwood.stores.memory import Memory
from sapwood.stores.memory_home import MemoryHome


class InProcessMemoryStore(Memory):
    """A `Memory` over records of its own; lost on restart.

    embedder: None searches by words alone.
    """

    def __init__(self, seed: Iterable[MemoryRecord] = (), embedder: Embedder | None = None) -> None:
        super().__init__(MemoryHome(InProcessMemories(), Embedding(embedder) if embedder is not None else None))
        self.load(seed)


def create_memory_store(seed: Iterable[MemoryRecord] = (), *, embedder: Embedder | None = None) -> InProcessMemoryStore:
    """Return a memory in this process, with the seed's records in it.

    >>> store = create_memory_store()
    >>> _ = store.save("The user prefers metric units", kind="preference")
    >>> [record.text for record in store.search("which units?", k=3)]
    ['The user prefers metric units']
    """
    return InProcessMemoryStore(seed, embedder)
