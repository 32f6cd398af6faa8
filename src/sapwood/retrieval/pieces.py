"""Pieces: where a text may be cut, and how pieces fill chunks of a size.

Laws: the pieces of a span cover it, in order and without overlap; no chunk is larger than its size, by the count that
it was asked with; only a piece that nothing divides any more is cut between two characters; nothing depends on chance.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.require import shown

Span: TypeAlias = tuple[int, int]
"""Where a piece begins and ends in its text, in characters."""
Cut: TypeAlias = re.Pattern[str] | Callable[[str, int, int], Iterator[int]]
"""Where a text may be cut: after each match of a pattern, or at the places that a function names."""

PARAGRAPHS = re.compile(r"\n[ \t\r]*\n\s*")
LINES = re.compile(r"\n")
# No sentence ends after an initial or within "e.g.", nor after a title before a name.
SENTENCES = re.compile(
    r"(?<!\b[A-Z])(?<!\.[A-Za-z])(?<!\bMr)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bvs)(?<!\bMrs)(?<!\bProf)"
    r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』）]*\s*|\n[ \t\r]*\n\s*"
)
CLAUSES = re.compile(r"[,;:—]\s+")
WORDS = re.compile(r"\s+")
_JOINED = frozenset("\u200d\ufe0e\ufe0f")


class Filling(msgspec.Struct, frozen=True):
    """How chunks are filled. size, overlap: tokens. count: text -> tokens. keeps_indent: of the first line."""

    size: int
    overlap: int
    count: Callable[[str], int]
    keeps_indent: bool = False

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("overlap", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} is a number of tokens, at least {least}, not {shown(value)}")
        if self.overlap >= self.size:
            raise ConfigError(f"overlap ({self.overlap}) must be less than size ({self.size})")
        if not callable(self.count):  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
            raise ConfigError(f"count is a function from a text to its tokens, not {shown(self.count)}")

    def fits(self, text: str, start: int, end: int) -> bool:
        """Tell whether a span, without the blanks around it, is not too large."""
        start, end = self.trimmed(text, start, end)
        return end - start <= 1 or self.count(text[start:end]) <= self.size

    def trimmed(self, text: str, start: int, end: int) -> Span:
        """Return a span without the blanks around it; empty where there is nothing else."""
        part = text[start:end]
        kept = part.rstrip()
        if not kept:
            return start, start
        first = len(kept) - len(kept.lstrip())
        if self.keeps_indent:
            first = kept.rfind("\n", 0, first) + 1
        return start + first, start + len(kept)


def pieces(text: str, start: int, end: int, cuts: Sequence[Cut], filling: Filling) -> Iterator[Span]:
    """Yield a span as pieces: cut by the first of the cuts, and those that are too large by the next ones."""
    if not cuts:
        yield from _by_characters(text, start, end, filling)
        return
    for first, last in _divided(text, start, end, cuts[0]):
        if filling.fits(text, first, last):
            yield first, last
        else:
            yield from pieces(text, first, last, cuts[1:], filling)


def filled(text: str, found: Sequence[Span], filling: Filling) -> list[Span]:
    """Return spans that hold as many of the pieces as fit, each begun with the end of the one before it."""
    spans: list[Span] = []
    place = 0
    start = found[0][0] if found else 0
    while place < len(found):
        after = _most(place + 1, len(found), partial(_holds, text, start, found, filling))
        end = found[after - 1][1]
        span = filling.trimmed(text, start, end)
        if span[0] < span[1]:
            spans.append(span)
        if after < len(found):
            start = _start_of_next(text, start, end, found[after][1], filling)
        place = after
    return spans


def _holds(text: str, start: int, found: Sequence[Span], filling: Filling, after: int) -> bool:
    return filling.fits(text, start, found[after - 1][1])


def _most(least: int, most: int, holds: Callable[[int], bool]) -> int:
    """Return the largest number for which it holds, with few questions; `least` where it holds for none above it."""
    step, known = 1, least
    while known < most and holds(min(most, known + step)):
        known = min(most, known + step)
        step *= 2
    above = min(most, known + step)
    while above - known > 1:
        middle = (known + above) // 2
        if holds(middle):
            known = middle
        else:
            above = middle
    return known


def _start_of_next(text: str, start: int, end: int, upto: int, filling: Filling) -> int:
    """Return where the next chunk begins: as early as the overlap allows, at a sentence or else at a word."""
    if not filling.overlap:
        return end
    for cut in (SENTENCES, WORDS):
        places = [first for first, _ in _divided(text, start, end, cut)][1:]
        for place in places[-4 * filling.overlap :]:
            low, high = filling.trimmed(text, place, end)
            if low < high and filling.count(text[low:high]) <= filling.overlap and filling.fits(text, place, upto):
                return place
    return end


def _divided(text: str, start: int, end: int, cut: Cut) -> Iterator[Span]:
    places = (
        (found.end() for found in cut.finditer(text, start, end))
        if isinstance(cut, re.Pattern)
        else cut(text, start, end)
    )
    for place in places:
        if start < place < end:
            yield start, place
            start = place
    if start < end:
        yield start, end


def _by_characters(text: str, start: int, end: int, filling: Filling) -> Iterator[Span]:
    while start < end:
        stop = _most(start + 1, end, partial(filling.fits, text, start))
        cut = stop
        while start + 1 < cut < end and (unicodedata.combining(text[cut]) or text[cut] in _JOINED):
            cut -= 1  # what belongs to the character before it stays with it
        if cut == start + 1:
            cut = stop
        yield start, cut
        start = cut
