"""One remembered thing and how to ask for it (guide D)."""

from typing import Any, ClassVar, Literal

from sapwood.core.struct import Data


class MemoryRecord(Data, frozen=True, tag="memory_record", rename="camel"):
    """One remembered item.

    created_at: milliseconds since 1970, UTC. score: set by a search, higher is more relevant.
    """

    type: ClassVar[Literal["memory_record"]] = "memory_record"
    id: str
    text: str
    created_at: int
    kind: str | None = None
    meta: dict[str, Any] | None = None
    score: float | None = None


class RecallOptions(Data, frozen=True, tag="recall_options"):
    """How to search a memory.

    k: records at most. kind: only records of this kind. min_score: only records above it.
    """

    type: ClassVar[Literal["recall_options"]] = "recall_options"
    k: int = 5
    kind: str | None = None
    min_score: float = 0.0
