"""A memory store with the three methods that any must have, and no more."""

from typing import Any

from sapwood import MemoryRecord, create_memory_store


class PlainStore:
    """Texts alone; kept: the store behind it, to look at."""

    def __init__(self) -> None:
        self.kept = create_memory_store()

    def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MemoryRecord:
        return self.kept.save(text, kind=kind, meta=meta)

    def search(self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0) -> list[MemoryRecord]:
        return self.kept.search(query, k=k, kind=kind, min_score=min_score)

    def forget(self, id: str) -> bool:
        return self.kept.forget(id)
