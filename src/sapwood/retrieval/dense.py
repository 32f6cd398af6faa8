"""DenseChunks: chunks of documents found by their meaning alone.

Laws: it stays true while documents come and go; a chunk lends part of its score to those beside it in its document, so
that an answer is found although what it answers stands in the paragraph before; no two hits say the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sapwood.core.ports import Embedder
from sapwood.retrieval.alike import alike
from sapwood.retrieval.grow import Place
from sapwood.retrieval.hybrid import HybridIndex, SearchSettings
from sapwood.retrieval.terms import split_words
from sapwood.retrieval.text_index import Field

NEIGHBOUR_SHARE = 0.2
"""What a chunk lends to the ones beside it; twice as far away, the share of that share."""
_SPREAD = 300
_SAME = 0.9
_SETTINGS = SearchSettings(fields={"text": Field()}, vector_weight=1.0)
_SCALE = (1 + _SETTINGS.vector_weight) / _SETTINGS.vector_weight


class DenseChunks:
    """The texts of chunks, by document and number.

    >>> class Letters:
    ...     name = "letters/1"
    ...     def embed(self, texts):
    ...         return [[text.count("b"), text.count("c")] for text in texts]
    >>> kept = DenseChunks(Letters())
    >>> kept.put("d", ["b", "c"])
    >>> kept.search("cc", 1, lambda document: True)
    [(('d', 1), 1.0)]
    """

    def __init__(self, embedder: Embedder) -> None:
        self._texts: dict[str, tuple[str, ...]] = {}
        self._index = HybridIndex[Place](_SETTINGS, embedder)

    def put(self, document_id: str, texts: Sequence[str]) -> None:
        """Keep the chunks of a document, in place of those that are here."""
        self.remove(document_id)
        for number, text in enumerate(texts):
            self._index.add((document_id, number), {}, [[text]])
        self._texts[document_id] = tuple(texts)

    def remove(self, document_id: str) -> None:
        """Forget a document."""
        for number in range(len(self._texts.pop(document_id, ()))):
            self._index.remove((document_id, number))

    def search(
        self,
        question: str,
        top_k: int,
        allowed: Callable[[str], bool],
        *,
        vector: Sequence[float] | None = None,
    ) -> list[tuple[Place, float]]:
        """Return the best chunks of the documents that are allowed, with scores up to 1, best first."""
        found = self._index.scores(question, vector=vector)
        kept = {document for document in self._texts.copy() if allowed(document)}
        lent = self._spread({place: score * _SCALE for place, score in found.items() if place[0] in kept})
        return self._distinct(sorted(lent.items(), key=lambda item: (-item[1], item[0])), top_k)

    def _spread(self, found: Mapping[Place, float]) -> dict[Place, float]:
        best = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_SPREAD]
        lent = dict(found)
        for (document, number), score in best:
            for away in (-2, -1, 1, 2):
                place = (document, number + away)
                if 0 <= place[1] < len(self._texts.get(document, ())):
                    lent[place] = lent.get(place, 0.0) + score * NEIGHBOUR_SHARE ** abs(away)
        most = max(lent.values(), default=0.0)
        if not most:  # scores are scaled to the others, and of one alone, or of equals, none is better
            return dict.fromkeys(found, 1.0)
        return {place: score * best[0][1] / most for place, score in lent.items()}

    def _distinct(self, ranked: Iterable[tuple[Place, float]], top_k: int) -> list[tuple[Place, float]]:
        kept: list[tuple[Place, float]] = []
        said: list[dict[str, None]] = []
        for (document, number), score in ranked:
            texts = self._texts.get(document, ())
            if number >= len(texts):  # removed meanwhile
                continue
            words = dict.fromkeys(split_words(texts[number]))
            if not any(alike(words, other, _SAME) for other in said):
                kept.append(((document, number), score))
                said.append(words)
                if len(kept) == top_k:
                    break
        return kept
