"""What lies within one scope, as a search reads it.

Law: nothing is read but the spaces that the scope covers, and of a conversation only its own records.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence

from sapwood.core.memory import MemoryScope
from sapwood.core.scope import RetrievalScope
from sapwood.memory.corpus import Meanings, Traits, number_of
from sapwood.stores.embedding import Embedding, Near, numpy
from sapwood.stores.memory_rows import MemoryRows
from sapwood.stores.memory_rules import covered
from sapwood.stores.memory_values import text_of


class ScopeCorpus:
    """The index of what a scope covers, within one transaction. A Corpus.

    with_old: what was superseded, as well. within: only in these namespaces.
    """

    def __init__(
        self,
        rows: MemoryRows,
        scope: MemoryScope,
        embedding: Embedding | None = None,
        *,
        with_old: bool = False,
        within: RetrievalScope | None = None,
    ) -> None:
        self._rows = rows
        self._embedding = embedding
        self.spaces = [
            space.number
            for space in covered(rows, scope)
            if within is None or within.matches("/".join(space.scope().namespace))
        ]
        self.asked: Sequence[int] = ()
        """The records that were asked about last, best first."""
        self._members: dict[int, int] | None = None
        if scope.conversation is not None:
            self._members = {}
            found = [rows.conversation(space, scope.conversation) for space in self.spaces]
            conversations = [row for row in found if row is not None]
            self.spaces = [row.space for row in conversations]
            for row in conversations:
                self._members |= rows.members([row.space, -row.space] if with_old else [row.space], row.number)
        self.places = [*self.spaces, *(-space for space in self.spaces)] if with_old else self.spaces
        tallies = [rows.tally(place) for place in self.places] if self._members is None else []
        members = self._members or {}
        self._count = len(members) + sum(tally.records for tally in tallies)
        self._length = sum(members.values()) + sum(tally.length for tally in tallies)

    @property
    def count(self) -> int:
        """How many records are indexed."""
        return self._count

    @property
    def total_length(self) -> int:
        """The terms of all of them together."""
        return self._length

    def postings(self, term: str) -> Sequence[Sequence[int]]:
        """Return the entries of a term, ascending over all spaces: what was saved last is what stands last."""
        found = self._rows.postings(self.places, term)
        if len(found) > 1:
            found = [array("Q", sorted(packed for chunk in found for packed in chunk))]
        if (members := self._members) is None:
            return found
        kept = [array("Q", [packed for packed in chunk if number_of(packed) in members]) for chunk in found]
        return [chunk for chunk in kept if chunk]

    def traits(self, numbers: Collection[int]) -> Mapping[int, Traits]:
        """Return what is known of these records."""
        self.asked = list(numbers)
        return self._rows.traits(numbers)

    def near(self, places: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], Traits]:
        """Return the records at these places."""
        found = self._rows.near(self.places, places)
        if (members := self._members) is None:
            kept = found
        else:
            kept = {place: traits for place, traits in found.items() if traits.number in members}
        self.asked = [traits.number for traits in kept.values()]
        return kept

    def speakers(self) -> Mapping[str, int]:
        """Return who speaks in these records."""
        found = self._rows.speakers(self.spaces)
        if self._members is None:
            return found
        said = {traits.speaker for traits in self._rows.traits(self._members).values()}
        return {name: number for name, number in found.items() if number in said}

    def meanings(self, vector: Sequence[float]) -> Meanings | None:
        """Compare with a vector of unit length."""
        found = self._embedding.near(self._rows, self.places, vector) if self._embedding is not None else None
        if found is None or self._members is None:
            return found
        is_kept = numpy().isin(found.numbers, sorted(self._members))
        return Near(found.numbers[is_kept], found.cosines[is_kept])

    def texts(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Return the texts of these records."""
        return {number: text_of(row.body) for number, row in self._rows.rows(numbers).items()}
