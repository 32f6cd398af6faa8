"""Other ways to search the same texts, for `benchmarks.recall`: each takes texts and gives a function question -> places.

They read a turn as "speaker: text [caption]" and a question as it was asked.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.rows import has
from sapwood.memory.words import words
from sapwood.retrieval.terms import question_terms, terms
from sapwood.retrieval.text_index import Field, TextIndex

Search = Callable[[str, int], list[int]]


def word_overlap(texts: Sequence[str]) -> Search:
    """Rank by how many distinct words of the question a text has."""
    known = [frozenset(words(text)) for text in texts]

    def search(question: str, k: int) -> list[int]:
        asked = frozenset(words(question))
        shared = [(len(asked & own), -place) for place, own in enumerate(known)]
        return [-place for count, place in sorted(shared, reverse=True)[:k] if count]

    return search


def fts5(texts: Sequence[str]) -> Search:
    """SQLite's full-text search with its Porter stemmer, any word of the question, its own bm25."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter unicode61')")
    connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", list(enumerate(texts, 1)))

    def search(question: str, k: int) -> list[int]:
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(question.replace("'", " "))))
        rows = connection.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY bm25(texts), rowid LIMIT ?", (asked, k)
        )
        return [number - 1 for (number,) in rows]

    return search


def plain_bm25(texts: Sequence[str]) -> Search:
    """Our own index of words alone: stems, no stop words, k1 1.2, b 0.75."""
    index = TextIndex[int]({"text": Field()})
    for place, text in enumerate(texts):
        index.add(place, {"text": terms(text)})

    def search(question: str, k: int) -> list[int]:
        scores = index.scores(question_terms(question))
        return sorted(scores, key=lambda place: (-scores[place], place))[:k]

    return search


def bm25s(texts: Sequence[str]) -> Search:
    """The package bm25s as it comes, with its English stop words."""
    import bm25s as package

    made: Any = package.BM25()
    made.index(package.tokenize(list(texts), stopwords="en", show_progress=False), show_progress=False)

    def search(question: str, k: int) -> list[int]:
        tokens = package.tokenize([question], stopwords="en", show_progress=False)
        places, scores = made.retrieve(tokens, k=min(k, len(texts)), show_progress=False)
        return [int(place) for place, score in zip(places[0], scores[0], strict=True) if score > 0]

    return search


def peers() -> dict[str, Callable[[Sequence[str]], Search]]:
    """Return the methods that are installed here, by name."""
    found = {"word overlap": word_overlap, "FTS5 porter": fts5, "plain bm25": plain_bm25}
    return found | ({"bm25s": bm25s} if has("bm25s") else {})
