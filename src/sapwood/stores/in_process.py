"""A memory store in this process, for demos, tests and small applications.

Laws: records are copies, so changing one changes nothing here; equal scores come newest first.
Source: guide D, `createMemoryStore`.
"""

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from sapwood.core.memory import MemoryRecord
from sapwood.core.words import words


class InProcessMemoryStore:
    """Keeps records in memory and scores them by word overlap; lost on restart.

    A score is the share of the query's words that the record holds, from 0 to 1.
    """

    def __init__(self, seed: Iterable[MemoryRecord] = ()) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, tuple[MemoryRecord, frozenset[str]]] = {}
        for record in seed:
            self._put(record)

    def save(self, text: str, *, kind: str | None = None, meta: Mapping[str, Any] | None = None) -> MemoryRecord:
        """Keep a text under a new random id."""
        record = MemoryRecord(
            uuid.uuid4().hex, text, time.time_ns() // 1_000_000, kind, dict(deepcopy(meta)) if meta else None
        )
        self._put(record)
        return _copy(record)

    def search(self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0) -> list[MemoryRecord]:
        """Return at most k records that score above min_score, best first; none for a blank query."""
        asked = set(words(query))
        if not asked or k <= 0:
            return []
        with self._lock:
            entries = list(self._records.values())
        scored = [
            (len(asked & found) / len(asked), position, record)
            for position, (record, found) in enumerate(entries)
            if kind is None or record.kind == kind
        ]
        best = sorted((item for item in scored if item[0] > max(min_score, 0.0)), key=_rank)
        return [_copy(record).replace(score=score) for score, _, record in best[:k]]

    def forget(self, id: str) -> bool:
        """Remove a record; False where there was none of that id."""
        with self._lock:
            return self._records.pop(id, None) is not None

    def all(self) -> list[MemoryRecord]:
        """Return every record, oldest first."""
        with self._lock:
            return [_copy(record) for record, _ in self._records.values()]

    def _put(self, record: MemoryRecord) -> None:
        kept = _copy(record)
        with self._lock:
            self._records[kept.id] = (kept, frozenset(words(kept.text)))


def create_memory_store(seed: Iterable[MemoryRecord] = ()) -> InProcessMemoryStore:
    """Return a memory in this process, with the seed's records in it.

    >>> store = create_memory_store()
    >>> _ = store.save("The user prefers metric units", kind="preference")
    >>> [record.text for record in store.search("which units?", k=3)]
    ['The user prefers metric units']
    """
    return InProcessMemoryStore(seed)


def _rank(item: tuple[float, int, MemoryRecord]) -> tuple[float, int]:
    return -item[0], -item[1]


def _copy(record: MemoryRecord) -> MemoryRecord:
    return record.replace(meta=deepcopy(record.meta)) if record.meta is not None else record
