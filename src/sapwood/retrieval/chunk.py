"""Chunks: a text in parts that are small enough to be found and shown one by one.

Laws: a chunk is a part of its source, character by character: `source[chunk.start:chunk.end] == chunk.text`; the chunks
of a text are in its order and hold all of it but blanks; none is larger than the size that was asked for, by the
counter that was given; the same text makes the same chunks.
"""

from collections.abc import Callable, Sequence

import msgspec

from sapwood.core.estimate import estimate_tokens
from sapwood.retrieval.pieces import CLAUSES, LINES, PARAGRAPHS, SENTENCES, WORDS, Cut, Filling, filled, pieces

SIZE = 200
"""Tokens of a chunk where nothing else is said: small enough to be about one thing, and grown when it is shown."""


class Chunk(msgspec.Struct, frozen=True):
    """A part of a text.

    start, end: where it lies in its source, in characters. section: the headings above it, or the definition that it
    is of; empty where nothing is known.

    >>> chunk_recursive("Bees like lavender.")
    [Chunk(text='Bees like lavender.', start=0, end=19, section='')]
    """

    text: str
    start: int
    end: int
    section: str = ""


def chunk_recursive(
    text: str, *, size: int = SIZE, overlap: int = 0, count: Callable[[str], int] = estimate_tokens
) -> list[Chunk]:
    """Return a text in chunks that end where a paragraph does, else where a line, a sentence, a clause or a word does.

    size: tokens of a chunk at most. overlap: tokens of the end of a chunk with which the next one begins, as whole
    sentences or words. count: text -> tokens; without one they are estimated.

    Raises ConfigError for a size or an overlap that leads nowhere.

    >>> by_words = lambda text: len(text.split())
    >>> [chunk.text for chunk in chunk_recursive("One two.\\n\\nThree four.", size=2, count=by_words)]
    ['One two.', 'Three four.']
    """
    return _chunked(text, (PARAGRAPHS, LINES, SENTENCES, CLAUSES, WORDS), Filling(size, overlap, count))


def chunk_sentences(
    text: str, *, size: int = SIZE, overlap: int = 0, count: Callable[[str], int] = estimate_tokens
) -> list[Chunk]:
    """Return a text in chunks of whole sentences, as many as fit; fuller than those of `chunk_recursive`.

    The options are those of `chunk_recursive`.

    >>> by_words = lambda text: len(text.split())
    >>> [chunk.text for chunk in chunk_sentences("Bees hum. Dr. Ann listens. All is well.", size=5, count=by_words)]
    ['Bees hum. Dr. Ann listens.', 'All is well.']
    """
    return _chunked(text, (SENTENCES, CLAUSES, WORDS), Filling(size, overlap, count))


def _chunked(text: str, cuts: Sequence[Cut], filling: Filling) -> list[Chunk]:
    spans = filled(text, list(pieces(text, 0, len(text), cuts, filling)), filling)
    return [Chunk(text[start:end], start, end) for start, end in spans]
