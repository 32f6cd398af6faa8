"""HybridIndex: documents found by their words and by their meaning, both at once.

Laws: a score is that of the best step of a request, plus a part of the whole request's; words and meaning are each
scaled to the best document before they are added; without an embedder, words alone decide. It stays true while
documents come and go, and what is embedded is embedded on the first question, in one batch.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.ports import Embedder
from sapwood.retrieval.terms import clauses, identifiers, question_terms, telling
from sapwood.retrieval.text_index import Field, Packed, TextIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)
Meanings: TypeAlias = Sequence[Sequence[str]]
"""The texts that a document's vector is made of, in groups that count the same."""

_LONGEST = 3_000
_SMALL_PRODUCT = 200_000


class SearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How documents of one kind are searched.

    fields: of a document, with what each counts. k1: how soon a repeated term stops counting more.
    vector_weight: what meaning counts against words. least_cosine: a document without a word of the question is
    found where its vector is at least so close. whole_weight: what the whole request counts against its best step.
    """

    fields: Mapping[str, Field]
    k1: float = 1.2
    vector_weight: float = 2.5
    least_cosine: float = 0.15
    whole_weight: float = 0.5


class PackedHybrid(msgspec.Struct, frozen=True):
    """A hybrid index without its keys, as bytes. vectors: rows of 16-bit numbers in the order of the documents."""

    text: Packed
    vectors: bytes = b""
    width: int = 0


class HybridIndex(Generic[K]):
    """Documents by key, each with terms by field and texts for its vector.

    embedder: None searches by words alone.

    >>> index = HybridIndex[str](SearchSettings(fields={"text": Field()}))
    >>> index.add("a", {"text": ["creat", "invoic"]})
    >>> list(index.scores("Please create an invoice"))
    ['a']
    """

    def __init__(self, settings: SearchSettings, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.embedder = embedder
        self._text = TextIndex[K](settings.fields, k1=settings.k1)
        self._meanings: dict[K, Meanings] = {}
        self._vectors: dict[K, tuple[Meanings, Any]] = {}  # each with what it was made of
        self._rows: _Rows[K] | None = None
        self._changes = 0

    def __len__(self) -> int:
        return len(self._text)

    def __contains__(self, key: object) -> bool:
        return key in self._text

    def add(self, key: K, document: Mapping[str, Sequence[str]], meanings: Meanings = ()) -> None:
        """Add a document, or replace the one of that key.

        document: terms by field. meanings: groups of texts; each group counts the same in the vector.
        """
        self._text.add(key, document)
        self._vectors.pop(key, None)
        self._meanings[key] = tuple(tuple(group) for group in meanings)
        self._changed()

    def remove(self, key: K) -> bool:
        """Remove a document; False where there is none of that key."""
        self._meanings.pop(key, None)
        self._vectors.pop(key, None)
        is_removed = self._text.remove(key)
        self._changed()
        return is_removed

    def scores(self, question: str, *, vector: Sequence[float] | None = None) -> dict[K, float]:
        """Return the score, from 0 to 1, of each document that a question finds.

        Of a very long question, its beginning and its end count. vector: of the question, where it is known already.
        """
        if len(question) > _LONGEST:
            question = f"{question[: _LONGEST * 2 // 3]}\n{question[-_LONGEST // 3 :]}"
        steps = clauses(question)
        parts = [question, *steps] if len(steps) > 1 and vector is None else [question]
        asked = [[*question_terms(part), *identifiers(part)] for part in parts]
        if self.embedder is None or not len(self) or (vector is None and not telling(question)):
            return self._by_words([_scaled(self._text.scores(words)) for words in asked])
        return self._by_both(parts, asked, vector)

    def _by_words(self, found: Sequence[Mapping[K, float]]) -> dict[K, float]:
        whole, *steps = found
        share = self.settings.whole_weight
        scores: dict[K, float] = {}
        for step in steps or [whole]:
            for key, score in step.items():
                if score > scores.get(key, 0.0):
                    scores[key] = score
        for key, score in whole.items():
            scores[key] = scores.get(key, 0.0) + share * score
        return {key: score / (1 + share) for key, score in scores.items()}

    def _by_both(
        self, parts: Sequence[str], asked: Sequence[Sequence[str]], vector: Sequence[float] | None
    ) -> dict[K, float]:
        np = _numpy()
        rows = self._current_rows()
        words = np.zeros((len(asked), len(rows.keys)), dtype=np.float32)
        for row, terms in zip(words, asked, strict=True):
            for term in dict.fromkeys(terms):
                places, impacts = rows.impacts(term, self._text)
                row[places] += impacts
            row /= row.max() or 1.0
        vectors = self._embedded(parts) if vector is None else self._checked(vector, rows.matrix.shape[1])
        cosines = _products(_unit(vectors), rows.matrix)
        least, most = cosines.min(axis=1, keepdims=True), cosines.max(axis=1, keepdims=True)
        meaning = (cosines - least) / np.where(most > least, most - least, 1.0)
        weight, share = self.settings.vector_weight, self.settings.whole_weight
        fused = (words + weight * meaning) / (1 + weight)
        total = ((fused[0] if len(asked) == 1 else fused[1:].max(axis=0)) + share * fused[0]) / (1 + share)
        is_found = (words > 0).any(axis=0) | (cosines.max(axis=0) >= self.settings.least_cosine)
        found: list[int] = np.flatnonzero(is_found).tolist()
        scores: list[float] = total[found].tolist()
        return dict(zip([rows.keys[place] for place in found], scores, strict=True))

    def _current_rows(self) -> "_Rows[K]":
        """Return the rows as they are, made anew where anything has changed since; a writer may be here meanwhile."""
        kept, changes = self._rows, self._changes
        if kept is not None and kept.changes == changes:
            return kept
        meanings = {key: self._meanings.get(key, ()) for key in tuple(self._text)}
        known = self._vectors.copy()
        missing = {key: found for key, found in meanings.items() if key not in known or known[key][0] is not found}
        if missing:
            made = {key: (missing[key], vector) for key, vector in self._vectors_of(missing).items()}
            known.update(made)
            self._vectors.update(made)
        rows = self._rows = _Rows(tuple(meanings), _numpy().stack([known[key][1] for key in meanings]), changes)
        return rows

    def _vectors_of(self, meanings: Mapping[K, Meanings]) -> dict[K, Any]:
        groups = (group for found in meanings.values() for group in found)
        texts = list(dict.fromkeys(text for group in groups for text in group))
        rows = self._embedded(texts or [""])
        places = {text: place for place, text in enumerate(texts)}
        made: dict[K, Any] = {}
        for key, found in meanings.items():
            total = _numpy().zeros((1, rows.shape[1]), dtype="float32")
            for group in found:
                if group:
                    total += _unit(rows[[places[text] for text in group]].sum(axis=0, keepdims=True))
            made[key] = _unit(total)[0].astype("<f2").astype("float32")  # as a cache has it: half the bytes, same ranks
        return made

    def _embedded(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        embedder = self.embedder
        assert embedder is not None, "only asked where there is one"
        rows: NDArray[np.float32] = _numpy().asarray(embedder.embed(texts), dtype="float32")
        if rows.ndim != 2 or rows.shape[0] != len(texts):
            raise ConfigError(
                f"embedder {embedder.name!r} gave an array of shape {rows.shape} for {len(texts)} texts; "
                "it must return one vector for each"
            )
        return rows

    def _checked(self, vector: Sequence[float], width: int) -> "NDArray[np.float32]":
        rows: NDArray[np.float32] = _numpy().asarray([vector], dtype="float32")
        if rows.shape != (1, width):
            raise ConfigError(
                f"the question has a vector of {rows.shape[1:]} numbers, the documents have vectors of {width}; "
                "both must come from one embedder"
            )
        return rows

    def _changed(self) -> None:
        self._changes += 1

    def prepare(self) -> None:
        """Embed now what the first question would wait for."""
        if self.embedder is not None and len(self):
            self._current_rows()

    def packed(self) -> PackedHybrid:
        """Return the index as bytes, with its vectors where there is an embedder."""
        text = self._text.packed()
        if self.embedder is None or not len(self):
            return PackedHybrid(text)
        matrix = self._current_rows().matrix
        return PackedHybrid(text, matrix.astype("<f2").tobytes(), matrix.shape[1])

    def load(self, keys: Sequence[K], packed: PackedHybrid) -> None:
        """Take what `packed` returned for documents of these keys, in this order, in place of what is here.

        Raises ValueError where the bytes are not those of an index of so many documents.
        """
        keys = tuple(keys)
        if len(packed.vectors) != 2 * packed.width * len(keys):
            raise ValueError("these are the vectors of other documents")
        self._text.load(keys, packed.text)
        self._meanings, self._vectors = dict.fromkeys(keys, ()), {}
        self._changed()
        if packed.width:
            numbers = _numpy().frombuffer(packed.vectors, dtype="<f2").astype("float32")
            rows = numbers.reshape(len(keys), packed.width)
            self._vectors = {key: ((), row) for key, row in zip(keys, rows, strict=True)}
            self._rows = _Rows(keys, rows, self._changes)


class _Rows(Generic[K]):
    """The documents as rows of a matrix, made whole and never changed, so that a reader may keep them."""

    def __init__(self, keys: tuple[K, ...], matrix: Any, changes: int) -> None:
        self.changes = changes
        self.keys = keys
        self.matrix = matrix
        self._places = {key: place for place, key in enumerate(keys)}
        self._impacts: dict[str, tuple[Any, Any]] = {}

    def impacts(self, term: str, text: TextIndex[K]) -> tuple[Any, Any]:
        """Return the rows that have a term, and what it adds to the score of each."""
        found = self._impacts.get(term)
        if found is None:
            np, places = _numpy(), self._places
            known = [(places[key], impact) for key, impact in text.impacts(term).items() if key in places]
            found = self._impacts[term] = (
                np.array([place for place, _ in known], dtype=np.intp),
                np.array([impact for _, impact in known], dtype=np.float32),
            )
        return found


def best(scores: Mapping[K, float], k: int, *, without: Collection[K] = (), order: Mapping[K, int]) -> list[K]:
    """Return the keys of the k best scores, best first; of equal ones the one that comes first in `order`.

    >>> best({"a": 0.5, "b": 0.9, "c": 0.5}, 2, order={"a": 0, "b": 1, "c": 2})
    ['b', 'a']
    """
    wanted = k + len(without)
    least = sorted(scores.values(), reverse=True)[wanted - 1] if 0 < wanted < len(scores) else -math.inf
    kept = [key for key, score in scores.items() if score >= least and key not in without]
    return sorted(kept, key=lambda key: (-scores[key], order.get(key, 0)))[:k]


def _scaled(scores: dict[K, float]) -> dict[K, float]:
    most = max(scores.values(), default=0.0)
    return {key: score / most for key, score in scores.items()} if most else {}


def _unit(rows: "NDArray[np.float32]") -> "NDArray[np.float32]":
    numpy = _numpy()
    sizes = numpy.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = rows / numpy.where(sizes > 0, sizes, 1.0)
    return scaled


def _products(questions: "NDArray[np.float32]", matrix: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return the product of each question with each row, in blocks so small that none wakes a pool of threads."""
    numpy = _numpy()
    block = max(1, _SMALL_PRODUCT // max(1, questions.size))
    parts = [matrix[start : start + block] @ questions.T for start in range(0, len(matrix), block)]
    product: NDArray[np.float32] = numpy.concatenate(parts).T
    return product


def _numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ProviderNotInstalledError("vectors need numpy: pip install 'sapwood[vectors]'") from error
    return np
