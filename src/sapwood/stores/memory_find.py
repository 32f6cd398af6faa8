"""Searching a memory: what is asked, what may be found, and the records of what was found.

Laws: only what the scope covers is read; what is past its end, not yet or no longer true, or in quarantine is not
found; a question is embedded outside of any transaction that keeps others out.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sapwood.core.memory import MemoryRecord, MemoryScope, Origin
from sapwood.core.scope import RetrievalScope
from sapwood.memory.corpus import Traits
from sapwood.memory.search import search
from sapwood.stores.memory_checks import require_share, require_some_text, require_whole
from sapwood.stores.memory_corpus import ScopeCorpus
from sapwood.stores.memory_home import MemoryHome
from sapwood.stores.memory_rows import MemoryRows
from sapwood.stores.memory_values import from_body, meta_of, plain


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

    as_asked = _AsAsked(rows, corpus, asked)

    def is_allowed(traits: Traits) -> bool:
        if traits.number in hidden or traits.kind in asked.without:
            return False
        if asked.kind is not None and traits.kind != asked.kind:
            return False
        if asked.since is not None and traits.at < asked.since:
            return False
        if asked.until is not None and traits.at >= asked.until:
            return False
        return not asked.reads_records or as_asked.is_so(traits.number)

    return is_allowed


class _AsAsked:
    """Which records have the meta and the origin that are asked for: read some at a time, best first."""

    def __init__(self, rows: MemoryRows, corpus: ScopeCorpus, asked: Question) -> None:
        self._rows = rows
        self._corpus = corpus
        self._asked = asked
        self._known: dict[int, bool] = {}
        self._order: Sequence[int] = ()
        self._next = 0

    def is_so(self, number: int) -> bool:
        """Tell whether a record is as is asked for, and read those that will be asked about next."""
        if number not in self._known:
            if self._order is not self._corpus.asked:
                self._order, self._next = self._corpus.asked, 0
            more = self._order[self._next : self._next + _AHEAD]
            self._next += _AHEAD
            self._read([other for other in dict.fromkeys((number, *more)) if other not in self._known])
        return self._known[number]

    def _read(self, numbers: Collection[int]) -> None:
        self._known |= dict.fromkeys(numbers, False)
        origins, meta = self._asked.origins, self._asked.meta
        if origins is not None:
            numbers = [number for number, origin in self._rows.origins(numbers).items() if origin in origins]
        if not meta:
            self._known |= dict.fromkeys(numbers, True)
            return
        for number, row in self._rows.rows(numbers).items() if numbers else ():
            found = meta_of(row.body)
            self._known[number] = all(key in found and found[key] == value for key, value in meta.items())


_AHEAD = 200
"""Records that are read at once."""


def near_duplicates(home: MemoryHome, scope: MemoryScope, text: str, least: float, k: int) -> list[MemoryRecord]:
    """Return records that say nearly the same as a text, with how near as the score."""
    require_some_text("text", text)
    require_share("least", least)
    require_whole("k", k)
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
