"""TextIndex: an inverted index over documents with weighted fields, scored by BM25F.

Laws: it stays true while documents come and go: after any adding and removing, scores are those of an index
built anew; a term counts once in a question; reading never changes a posting, so readers may overlap one writer.
"""

import math
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from sapwood.core.errors import ConfigError

K = TypeVar("K", bound=Hashable)

_BITS = 8
_MOST = 255


class Field(msgspec.Struct, frozen=True):
    """How a field of a document counts.

    weight: what one of its terms counts, against those of other fields. b: 0 to 1, how far a long field is
    held against its terms.
    """

    weight: float = 1.0
    b: float = 0.75


class Packed(msgspec.Struct, frozen=True):
    """An index without its keys, as bytes: what a cache holds.

    lengths: terms by field and document. postings: by term, the numbers of its documents and, of each, how often
    the term stands in each field, eight bits a field.
    """

    fields: int
    lengths: bytes
    postings: dict[str, tuple[bytes, bytes]]


class TextIndex(Generic[K]):
    """Documents by key, each with terms by field.

    fields: at most seven. k1: how soon a repeated term stops counting more.

    >>> index = TextIndex[str]({"name": Field(2.0), "text": Field()})
    >>> index.add("a", {"name": ["invoic"], "text": ["creat", "invoic"]})
    >>> index.add("b", {"text": ["list", "note"]})
    >>> list(index.scores(["invoic"]))
    ['a']
    """

    def __init__(self, fields: Mapping[str, Field], *, k1: float = 1.2) -> None:
        if not 1 <= len(fields) <= 7:
            raise ConfigError(f"an index has one to seven fields, not {len(fields)}")
        self.fields = dict(fields)
        self.k1 = k1
        self._places = {name: place for place, name in enumerate(self.fields)}
        self._lengths: dict[K, tuple[int, ...]] = {}
        self._terms: dict[K, tuple[str, ...]] | None = {}
        self._totals = [0] * len(self.fields)
        self._filled = [0] * len(self.fields)
        self._packed: dict[str, tuple[bytes, bytes]] = {}
        self._packed_keys: Sequence[K] = ()
        self._postings: dict[str, dict[K, int]] = {}
        self._impacts: dict[str, dict[K, float]] = {}

    def __len__(self) -> int:
        return len(self._lengths)

    def __contains__(self, key: object) -> bool:
        return key in self._lengths

    def __iter__(self) -> Iterator[K]:
        return iter(self._lengths)

    def add(self, key: K, document: Mapping[str, Sequence[str]]) -> None:
        """Add a document, its terms by field; one of the same key is replaced.

        Raises ConfigError for a field that the index does not have.
        """
        self._unpack()
        if key in self._lengths:
            self.remove(key)
        terms = self._terms_of()
        lengths = [0] * len(self.fields)
        counted: dict[str, int] = {}
        for name, words in document.items():
            if name not in self._places:
                raise ConfigError(f"the index has no field {name!r}; it has {', '.join(self.fields)}")
            place = self._places[name]
            shift = _BITS * place
            lengths[place] = len(words)
            self._totals[place] += len(words)
            self._filled[place] += bool(words)
            for word in words:
                packed = counted.get(word, 0)
                if (packed >> shift) & _MOST < _MOST:
                    counted[word] = packed + (1 << shift)
        self._lengths[key] = tuple(lengths)
        terms[key] = tuple(counted)
        for word, packed in counted.items():
            self._postings.setdefault(word, {})[key] = packed
        self._impacts = {}

    def remove(self, key: K) -> bool:
        """Remove a document; False where there is none of that key."""
        self._unpack()
        terms = self._terms_of()
        lengths = self._lengths.pop(key, None)
        if lengths is None:
            return False
        for place, length in enumerate(lengths):
            self._totals[place] -= length
            self._filled[place] -= length > 0
        for word in terms.pop(key):
            postings = self._postings[word]
            del postings[key]
            if not postings:
                del self._postings[word]
        self._impacts = {}
        return True

    def scores(self, question: Iterable[str]) -> dict[K, float]:
        """Return the score of every document that has a term of the question; a term counts once."""
        found: dict[K, float] = {}
        for term in dict.fromkeys(question):
            for key, score in self.impacts(term).items():
                found[key] = found.get(key, 0.0) + score
        return found

    def rarity(self, term: str) -> float:
        """Return how much a term tells: 0 for one that no document has."""
        count = len(self._postings_of(term))
        return math.log(1 + (len(self._lengths) - count + 0.5) / (count + 0.5)) if count else 0.0

    def impacts(self, term: str) -> dict[K, float]:
        """Return what one term adds to the score of each document that has it; not to be changed."""
        kept = self._impacts
        found = kept.get(term)
        if found is None:
            found = kept[term] = self._impacts_of(term)
        return found

    def _impacts_of(self, term: str) -> dict[K, float]:
        postings = self._postings_of(term)
        if not postings:
            return {}
        # A field's mean length is that of the documents that have it: a rare field is not a long one.
        norms = [
            (field.weight, 1 - field.b, field.b * filled / total if total else 0.0)
            for field, total, filled in zip(self.fields.values(), self._totals, self._filled, strict=True)
        ]
        rarity, k1, lengths = self.rarity(term), self.k1, self._lengths
        impacts: dict[K, float] = {}
        for key, packed in postings.copy().items():
            sizes = lengths.get(key)
            if sizes is None:
                continue
            weighted, place = 0.0, 0
            while packed:
                if times := packed & _MOST:
                    weight, base, slope = norms[place]
                    weighted += weight * times / (base + slope * sizes[place])
                packed >>= _BITS
                place += 1
            impacts[key] = rarity * weighted * (k1 + 1) / (k1 + weighted)
        return impacts

    def packed(self) -> Packed:
        """Return the index as bytes, its documents numbered in their order."""
        self._unpack()
        numbers = {key: number for number, key in enumerate(self._lengths)}
        postings = {
            term: (array("I", map(numbers.__getitem__, found)).tobytes(), array("Q", found.values()).tobytes())
            for term, found in self._postings.items()
        }
        flat = (length for lengths in self._lengths.values() for length in lengths)
        return Packed(len(self.fields), array("I", flat).tobytes(), postings)

    def load(self, keys: Sequence[K], packed: Packed) -> None:
        """Take what `packed` returned in place of what is here; a term is unpacked when it is first asked for.

        Raises ValueError where the bytes are not those of an index with these fields and this many documents.
        """
        flat = array("I")
        flat.frombytes(packed.lengths)
        width = len(self.fields)
        if packed.fields != width or len(flat) != width * len(keys):
            raise ValueError("these are the bytes of another index")
        if any(2 * len(numbers) != len(counts) or len(numbers) % 4 for numbers, counts in packed.postings.values()):
            raise ValueError("a posting of the index is cut short")
        rows = [tuple(flat[start : start + width]) for start in range(0, len(flat), width)]
        self._lengths = dict(zip(keys, rows, strict=True))
        self._totals = [sum(row[place] for row in rows) for place in range(width)]
        self._filled = [sum(row[place] > 0 for row in rows) for place in range(width)]
        self._terms, self._postings, self._impacts = None, {}, {}
        self._packed, self._packed_keys = dict(packed.postings), tuple(keys)

    def _postings_of(self, term: str) -> dict[K, int]:
        found = self._postings.get(term)
        if found is None and (packed := self._packed.get(term)):
            numbers, counts = array("I"), array("Q")
            numbers.frombytes(packed[0])
            counts.frombytes(packed[1])
            keys = self._packed_keys
            pairs = zip(numbers, counts, strict=True)
            found = self._postings[term] = {keys[number]: count for number, count in pairs if number < len(keys)}
        return found or {}

    def _unpack(self) -> None:
        """Unpack the rest, before a change: the postings in the packed order, so that all is as if built here."""
        if self._packed:
            self._postings = {term: self._postings_of(term) for term in self._packed}
            self._packed = {}

    def _terms_of(self) -> dict[K, tuple[str, ...]]:
        if self._terms is None:
            found: dict[K, list[str]] = {key: [] for key in self._lengths}
            for term, postings in self._postings.items():
                for key in postings:
                    found[key].append(term)
            self._terms = {key: tuple(words) for key, words in found.items()}
        return self._terms
