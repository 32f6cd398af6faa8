"""Searching a memory: what is asked, what may be found, and the records of what was found.

Laws: only what the scope covers is read; what is past its end, not yet or no longer true, or in quarantine is not
found; a question is embedded outside of any transaction that keeps others out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord, MemoryScope, Origin
from sapwood.core.require import require_text
from sapwood.core.scope import RetrievalScope
from sapwood.memory.corpus import Traits
from sapwood.memory.search import search
from sapwood.stores.memory_corpus import ScopeCorpus
from sapwood.stores.memory_home import MemoryHome
from sapwood.stores.memory_rows import MemoryRows
from sapwood.stores.memory_values import from_body, plain


class Question(NamedTuple):
    """What a record must be to be found, beside its words; times in milliseconds."""

    kind: str | None = None
    since: int | None = None
    until: int | None = None
    meta: Mapping[str, Any] | None = None
    origins: Collection[Origin] | None = None
    as_of: int | None = None
    with_superseded: bool = False
    within: RetrievalScope | None = None
    without: Collection[str] = ()

    @property
    def reads_records(self) -> bool:
        """Whether records have to be read to tell."""
        return bool(self.meta) or self.origins is not None


class _AskedFor(Exception):
    """The vector of a text is needed, and cannot be made here."""

    def __init__(self, text: str) -> None:
        self.text = text


def find(
    home: MemoryHome, scope: MemoryScope, query: str, k: int, min_score: float, asked: Question
) -> list[MemoryRecord]:
    """Return the best records for a query, with their scores."""
    known: dict[str, list[float]] = {}
    uses_meaning = home.embedding is not None

    def embed(text: str) -> list[float]:
        if text not in known and (home.keeps_out or not _embedded(home, text, known)):
            raise _AskedFor(text)
        return known[text]

    while True:
        look = partial(_found, home, scope, query, k, min_score, asked, embed if uses_meaning else None)
        try:
            return home.read(look)
        except _AskedFor as needed:
            uses_meaning = _embedded(home, needed.text, known)


def _embedded(home: MemoryHome, text: str, known: dict[str, list[float]]) -> bool:
    vector = home.embedding.question(text) if home.embedding is not None else None
    if vector is not None:
        known[text] = vector
    return vector is not None


def _found(
    home: MemoryHome,
    scope: MemoryScope,
    query: str,
    k: int,
    min_score: float,
    asked: Question,
    embed: Callable[[str], Sequence[float]] | None,
    rows: MemoryRows,
) -> list[MemoryRecord]:
    with_old = asked.with_superseded or asked.as_of is not None
    corpus = ScopeCorpus(rows, scope, home.embedding, with_old=with_old, within=asked.within)
    if not corpus.count:
        return []
    now = home.now()
    found = search(
        corpus,
        query,
        now_ms=now,
        k=min(k, corpus.count),
        allowed=_allowed(rows, corpus, asked, now),
        embed=embed if rows.models() else None,
    )
    best = [item for item in found if item.score > min_score]
    kept = rows.rows([item.number for item in best])
    return [
        from_body(kept[item.number].body).replace(score=item.score, reason=item.reason, parts=item.parts)
        for item in best
    ]


def _allowed(rows: MemoryRows, corpus: ScopeCorpus, asked: Question, now: int) -> Callable[[Traits], bool] | None:
    hidden = rows.past_end(corpus.spaces, now)
    if asked.as_of is not None:
        hidden |= rows.out_of_time(corpus.spaces, asked.as_of, with_old=True)
    else:
        hidden |= rows.out_of_time(corpus.spaces, now, with_old=False)
    if not hidden and asked == Question(with_superseded=asked.with_superseded, as_of=asked.as_of, within=asked.within):
        return None

    def is_allowed(traits: Traits) -> bool:
        if traits.number in hidden or traits.kind in asked.without:
            return False
        if asked.kind is not None and traits.kind != asked.kind:
            return False
        if asked.since is not None and traits.at < asked.since:
            return False
        if asked.until is not None and traits.at >= asked.until:
            return False
        return not asked.reads_records or _is_as_asked(rows, asked, traits.number)

    return is_allowed


def _is_as_asked(rows: MemoryRows, asked: Question, number: int) -> bool:
    row = rows.rows([number]).get(number)
    if row is None or (asked.origins is not None and row.origin not in asked.origins):
        return False
    if not asked.meta:
        return True
    meta = from_body(row.body).meta or {}
    return all(key in meta and meta[key] == value for key, value in asked.meta.items())


def near_duplicates(home: MemoryHome, scope: MemoryScope, text: str, least: float, k: int) -> list[MemoryRecord]:
    """Return records that say nearly the same as a text, with how near as the score."""
    require_text("text", text)
    if not 0 <= least <= 1:
        raise ConfigError(f"least is a share from 0 to 1, not {least!r}")
    if k <= 0 or not text.strip():
        return []
    candidates = find(home, scope, text, max(k, _CANDIDATES), 0.0, Question())
    wanted = _pieces(text)
    scored = [(_likeness(wanted, _pieces(record.text)), record) for record in candidates]
    kept = sorted((item for item in scored if item[0] >= least), key=lambda item: -item[0])
    return [record.replace(score=score, reason=None, parts=None) for score, record in kept[:k]]


_CANDIDATES = 20


def _pieces(text: str) -> frozenset[str]:
    padded = f" {plain(text)} "
    return frozenset(padded[start : start + 3] for start in range(max(1, len(padded) - 2)))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
