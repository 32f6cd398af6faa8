"""The words of a question in the records that have them: which records to look at, and what each word adds.

Laws: rare words are read first, whole; of common ones at most a number of entries, the newest, so that the cost of a
question does not grow with the store; what is looked at is then scored by every word, exactly.
"""

import heapq
import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from sapwood.memory.corpus import Corpus, counts_of, number_of
from sapwood.memory.question import Word
from sapwood.memory.weights import KindWeights

_SMOOTH = 5.0
_FULL_SCAN = 12


class Posting(msgspec.Struct, frozen=True):
    """A term of the question, as the records have it. word: its place in the question."""

    word: int
    weight: float
    chunks: Sequence[Sequence[int]]
    count: int
    rarity: float


class Postings:
    """The words of a question, looked up in a corpus."""

    def __init__(self, corpus: Corpus, words: Sequence[Word]) -> None:
        self.words = words
        self.count = corpus.count
        self.mean_length = max(1.0, corpus.total_length / max(1, corpus.count))
        self.found: list[Posting] = []
        self.shares: list[float] = []
        for place, word in enumerate(words):
            most = 0
            for term, weight in word.terms:
                chunks = corpus.postings(term)
                count = sum(map(len, chunks))
                if count:
                    rarity = math.log(1 + max(0.5, self.count - count + 0.5) / (count + 0.5))
                    self.found.append(Posting(place, weight, chunks, count, rarity))
                    most = max(most, count)
            # Smoothed, so that among a handful of records a word that most of them have still tells.
            rare = math.log(1 + (self.count + _SMOOTH) / (most + _SMOOTH))
            self.shares.append(word.share * rare)
        self.found.sort(key=lambda posting: (posting.count, posting.word))

    def first(
        self, weights: KindWeights, most: int, *, apart: Collection[int] = ()
    ) -> Iterator[list[tuple[float, int]]]:
        """Give scores and numbers of all records that a bounded reading finds: without some words, and with them.

        most: entries to read. apart: places of the words that do not count at first; without any, there is one list.
        """
        scores: dict[int, float] = {}
        rest = self._read(scores, [found for found in self.found if found.word not in apart], weights, most)
        yield [(score, number) for number, score in scores.items()]
        if apart:
            self._read(scores, [found for found in self.found if found.word in apart], weights, max(rest, most // 4))
            yield [(score, number) for number, score in scores.items()]

    def _read(self, scores: dict[int, float], found: Iterable[Posting], weights: KindWeights, left: int) -> int:
        for posting in found:
            for chunk in reversed(posting.chunks):
                if left <= 0:
                    return 0
                part = chunk[-left:] if left < len(chunk) else chunk
                left -= len(part)
                self._add(scores, part, posting, weights)
        return left

    def _add(self, scores: dict[int, float], part: Iterable[int], posting: Posting, weights: KindWeights) -> None:
        # Most entries of a term have the same counts and lengths: what is not the number is worked out once.
        known: dict[int, float] = {}
        for packed in part:
            counts = packed & 0xFFFFFFFF
            impact = known.get(counts)
            if impact is None:
                impact = known[counts] = self._impact(packed, posting, weights)
            number = packed >> 32
            scores[number] = scores[number] + impact if number in scores else impact

    def impacts(self, numbers: Mapping[int, KindWeights]) -> dict[int, dict[int, float]]:
        """Return what each word adds to each of these records, by record and place of the word."""
        made: dict[int, dict[int, float]] = {}
        for posting in self.found:
            for packed in _entries(posting, numbers):
                number = number_of(packed)
                weights = numbers[number]
                impact = self._impact(packed, posting, weights)
                by_word = made.setdefault(number, {})
                if impact > by_word.get(posting.word, 0.0):
                    by_word[posting.word] = impact
        return made

    def _impact(self, packed: int, posting: Posting, weights: KindWeights) -> float:
        in_text, in_title, length = counts_of(packed)
        times = in_text + weights.title * in_title
        norm = weights.k1 * (1 - weights.b + weights.b * length / self.mean_length)
        return posting.weight * posting.rarity * (weights.k1 + 1) * times / (times + norm)

    def covered(self, places: Iterable[int]) -> float:
        """Return which share of what is asked these words make up, each counted by how rare it is."""
        whole = sum(self.shares)
        return min(1.0, sum(self.shares[place] for place in places) / whole) if whole else 0.0


def _entries(posting: Posting, numbers: Mapping[int, KindWeights]) -> Iterable[int]:
    """Return the entries of these records: by looking at each entry, or for each record where entries are many."""
    if posting.count <= _FULL_SCAN * len(numbers):
        return [packed for chunk in posting.chunks for packed in chunk if packed >> 32 in numbers]
    lasts = [chunk[-1] for chunk in posting.chunks]
    found: list[int] = []
    for number in numbers:
        at = bisect_left(lasts, number << 32)
        if at == len(lasts):
            continue
        chunk = posting.chunks[at]
        place = bisect_left(chunk, number << 32)
        if number_of(chunk[place]) == number:
            found.append(chunk[place])
    return found


def best(pairs: Sequence[tuple[float, int]], most: int) -> list[int]:
    """Return the numbers of the best, best first; of equal ones the newest first.

    >>> best([(0.5, 1), (0.9, 2), (0.5, 3)], 2)
    [2, 3]
    """
    if len(pairs) > 2 * most:
        least = heapq.nlargest(most, [score for score, _ in pairs])[-1]
        pairs = [pair for pair in pairs if pair[0] >= least]
    return [number for _, number in sorted(pairs, reverse=True)[:most]]
