"""ListCorpus: an index of records in lists, for what is at hand and need not be kept.

Laws: numbers are given in the order of adding, from 1; nothing is ever taken out.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sapwood.memory.corpus import Traits, entry
from sapwood.memory.text import indexed


class ListCorpus:
    """Records of one scope. A Corpus.

    embedder: gives vectors of length 1; None keeps none.

    >>> corpus = ListCorpus()
    >>> corpus.add("The user prefers metric units")
    1
    >>> [list(chunk) == [entry(1, 1, 0, 4)] for chunk in corpus.postings("unit")]
    [True]
    """

    def __init__(self, embedder: Any = None) -> None:
        self.embedder = embedder
        self.total_length = 0
        self._texts: dict[int, str] = {}
        self._vector_texts: list[str] = []
        self._traits: dict[int, Traits] = {}
        self._places: dict[tuple[int, int], Traits] = {}
        self._postings: dict[str, array[int]] = {}
        self._conversations: dict[str, int] = {}
        self._speakers: dict[str, int] = {}
        self._matrix: Any = None

    @property
    def count(self) -> int:
        """How many records are indexed."""
        return len(self._texts)

    def add(
        self,
        text: str,
        *,
        title: str | None = None,
        speaker: str | None = None,
        conversation: str | None = None,
        position: int = 0,
        at: int = 0,
        kind: str | None = None,
        importance: float = 0.5,
    ) -> int:
        """Add a record and return its number. The rest is as of a MemoryRecord."""
        number = len(self._texts) + 1
        made = indexed(text, title, speaker)
        for term, (in_text, in_title) in made.entries.items():
            self._postings.setdefault(term, array("q")).append(entry(number, in_text, in_title, made.length))
        of_conversation = _number(self._conversations, conversation)
        of_speaker = _number(self._speakers, speaker)
        traits = Traits(number, of_conversation, position, of_speaker, at, kind, made.flags, importance)
        self._texts[number], self._traits[number] = text, traits
        self._vector_texts.append(made.vector_text)
        self.total_length += made.length
        if conversation is not None:
            self._places[of_conversation, position] = traits
        self._matrix = None
        return number

    def postings(self, term: str) -> Sequence[Sequence[int]]:
        """Return the entries of a term, in one chunk."""
        found = self._postings.get(term)
        return (found,) if found else ()

    def traits(self, numbers: Collection[int]) -> Mapping[int, Traits]:
        """Return what is known of these records."""
        return {number: self._traits[number] for number in numbers if number in self._traits}

    def near(self, places: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], Traits]:
        """Return the records at these places."""
        return {place: self._places[place] for place in places if place in self._places}

    def speakers(self) -> Mapping[str, int]:
        """Return the numbers of those who speak."""
        return self._speakers

    def meanings(self, vector: Sequence[float]) -> Any:
        """Compare with a vector; None without an embedder."""
        if self.embedder is None:
            return None
        import numpy as np

        if self._matrix is None:
            self._matrix = np.asarray(self.embedder.embed(self._vector_texts), dtype="float32")
        return _Compared(np.arange(1, len(self._texts) + 1), self._matrix @ np.asarray(vector, dtype="float32"))

    def texts(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Return the texts of these records."""
        return {number: self._texts[number] for number in numbers if number in self._texts}


class _Compared:
    def __init__(self, numbers: Any, cosines: Any) -> None:
        self.numbers = numbers
        self.cosines = cosines


def _number(numbers: dict[str, int], name: str | None) -> int:
    return 0 if name is None else numbers.setdefault(name, len(numbers) + 1)
