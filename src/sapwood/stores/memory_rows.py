"""What a backend keeps of memories, row by row, and the few things that it must be able to do with it.

Laws: a backend stores and finds; what may happen is said once, in `memory_rules.py`, which calls these inside one
transaction. A space is a user, an agent and a namespace together; everything of a record is kept under the number of
its space, so that what lies in one space is deleted, counted and searched apart from all others. What is superseded
is indexed under the same number below zero: no ordinary search ever meets it.
"""

import hashlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from sapwood.core.memory import MemoryScope, Origin
from sapwood.memory.corpus import Traits

State: TypeAlias = Literal["current", "superseded", "quarantined"]
Place: TypeAlias = tuple[int, int]
"""A conversation's number, and a position in it."""


class SpaceRow(NamedTuple):
    """A user, an agent and a namespace of whom something is kept."""

    number: int
    user: str | None
    agent: str | None
    namespace: tuple[str, ...]

    def scope(self, conversation: str | None = None) -> MemoryScope:
        """Return it as a scope."""
        return MemoryScope(self.user, self.agent, conversation, self.namespace)


class ConversationRow(NamedTuple):
    """A conversation of a space. last: the highest position that was given out. records: how many are kept."""

    number: int
    space: int
    name: str
    last: int = 0
    records: int = 0


class Tally(NamedTuple):
    """What is indexed of a space: how many records, how many terms.

    changes: grows with each vector that is added or removed; removals: with each that is not simply added at the end.
    """

    records: int = 0
    length: int = 0
    changes: int = 0
    removals: int = 0


class MemoryRow(msgspec.Struct, frozen=True, gc=False):
    """A record and what is asked of it without reading it.

    number: 0 until it is stored. digest: of what makes two records the same, empty where that is never asked.
    key: of a save that may be repeated. body: the record as JSON. is_indexed: its terms are in the index.
    """

    id: str
    space: int
    body: str
    number: int = 0
    state: State = "current"
    origin: Origin = "user"
    kind: str | None = None
    digest: bytes = b""
    key: str | None = None
    conversation: int = 0
    position: int = 0
    speaker: int = 0
    at: int = 0
    flags: int = 0
    length: int = 0
    importance: float = 0.5
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    is_indexed: bool = False

    @property
    def place(self) -> int | None:
        """Under which number it is indexed; None where it is not to be found."""
        return {"current": self.space, "superseded": -self.space, "quarantined": None}[self.state]

    @property
    def traits(self) -> Traits:
        """What a score needs of it."""
        return Traits(
            *(self.number, self.conversation, self.position, self.speaker, self.at),
            *(self.kind, self.flags, self.importance),
        )


def speaker_number(name: str) -> int:
    """Return the number of a speaker: the same for the same name, in every space and every store; 0 for nobody."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big") + 1 if name else 0


class VectorRow(NamedTuple):
    """A vector of whole numbers from -127 to 127, each to be multiplied by the scale."""

    number: int
    scale: float
    numbers: bytes


class Model(NamedTuple):
    """What made vectors: an embedder by its name, and how many numbers it gives."""

    name: str
    width: int


class RecordRows(Protocol):
    """The records. Whatever is given here is stored as it is."""

    def setting(self, name: str) -> str | None:
        """Return what is noted about the whole store under a name."""
        ...

    def put_setting(self, name: str, value: str) -> None:
        """Note something about the whole store."""
        ...

    def spaces(self, user: str | None, agent: str | None) -> list[SpaceRow]:
        """Return the spaces of a user and an agent, each None for all."""
        ...

    def space(self, number: int) -> SpaceRow | None:
        """Return a space."""
        ...

    def space_of(self, scope: MemoryScope) -> SpaceRow | None:
        """Return the space of exactly this user, agent and namespace."""
        ...

    def add_space(self, scope: MemoryScope) -> SpaceRow:
        """Make a space."""
        ...

    def drop_space(self, number: int) -> int:
        """Remove a space with every record, entry, vector, conversation and speaker of it; return its records."""
        ...

    def has_records(self, space: int) -> bool:
        """Tell whether a space has any record."""
        ...

    def conversation(self, space: int, name: str) -> ConversationRow | None:
        """Return a conversation of a space."""
        ...

    def conversation_of(self, number: int) -> ConversationRow | None:
        """Return a conversation by its number; a backend need not know its name."""
        ...

    def put_conversation(self, row: ConversationRow) -> ConversationRow:
        """Store a conversation; one of number 0 is given a number."""
        ...

    def drop_conversation(self, number: int) -> None:
        """Remove a conversation."""
        ...

    def spoke(self, space: int, name: str, change: int) -> None:
        """Count records of a speaker in a space; who has none left is removed."""
        ...

    def speakers(self, spaces: Collection[int]) -> dict[str, int]:
        """Return who speaks in these spaces, with numbers."""
        ...

    def next_number(self) -> int:
        """Return the number of the next record: above all that there are."""
        ...

    def add(self, row: MemoryRow) -> None:
        """Store a new record."""
        ...

    def put(self, row: MemoryRow) -> None:
        """Store a record anew under its number."""
        ...

    def remove(self, row: MemoryRow) -> None:
        """Remove a record, and what it is derived from."""
        ...

    def with_id(self, id: str) -> list[MemoryRow]:
        """Return the records of an id, of which each space may have one."""
        ...

    def with_key(self, space: int, conversation: int, key: str) -> MemoryRow | None:
        """Return the record that was saved with a key in a conversation; conversation: 0 for what is in none."""
        ...

    def with_digest(self, space: int, digest: bytes) -> list[MemoryRow]:
        """Return the records of a digest, oldest first."""
        ...

    def rows(self, numbers: Collection[int]) -> dict[int, MemoryRow]:
        """Return records by number; those that there are."""
        ...

    def at(self, conversation: int, position: int) -> int:
        """Return the number of a record at a position of a conversation; 0 where there is none."""
        ...

    def page(self, spaces: Collection[int], conversation: int, after: int, limit: int) -> list[MemoryRow]:
        """Return records after a number, in order; conversation: 0 for all."""
        ...

    def latest(
        self, spaces: Collection[int], conversations: Collection[int], kind: str | None, now: int, limit: int
    ) -> list[MemoryRow]:
        """Return the newest records that are neither superseded nor past their end, in order, at most so many.

        conversations: only of these; empty for all. kind: None for every one.
        """
        ...

    def states(self, spaces: Collection[int], conversations: Collection[int]) -> dict[State, int]:
        """Return how many records there are of each state; conversations: only of these, empty for all."""
        ...

    def origins(self, numbers: Collection[int]) -> dict[int, Origin]:
        """Return the origins of records, by number."""
        ...

    def expired(self, space: int, now: int, limit: int) -> list[int]:
        """Return the numbers of records that are to be deleted by now."""
        ...

    def past_end(self, spaces: Collection[int], now: int) -> set[int]:
        """Return the numbers of records that are to be deleted by now."""
        ...

    def out_of_time(self, spaces: Collection[int], at: int, *, with_old: bool) -> set[int]:
        """Return the numbers of records that are not true at a time; with_old: also of superseded ones."""
        ...

    def derive(self, parents: Iterable[str], child: int) -> None:
        """Note what a record was made of, in place of what was noted before."""
        ...

    def derived(self, parent: str) -> list[int]:
        """Return the numbers of the records that were made of this one."""
        ...

    def scrub(self) -> None:
        """Leave nothing of what was deleted in any file, once this transaction is durable."""
        ...


class IndexRows(Protocol):
    """The index of the records: terms, and vectors."""

    def tally(self, place: int) -> Tally:
        """Return what is indexed of a space."""
        ...

    def put_tally(self, place: int, tally: Tally) -> None:
        """Note what is indexed of a space."""
        ...

    def add_entries(self, place: int, entries: Mapping[str, int]) -> None:
        """Add an entry to the postings of these terms, in order of number."""
        ...

    def remove_entries(self, place: int, terms: Iterable[str], number: int) -> None:
        """Remove the entries of a record from the postings of these terms."""
        ...

    def postings(self, places: Collection[int], term: str) -> Sequence["array[int]"]:
        """Return the entries of a term, ascending within each place."""
        ...

    def term_key(self, place: int, term: str) -> bytes:
        """Return what a term is kept as."""
        ...

    def all_entries(self, place: int) -> Iterator[tuple[bytes, "array[int]"]]:
        """Return what every term is kept as, with entries, of which there may be several for one term."""
        ...

    def clear_index(self, space: int) -> None:
        """Remove all entries of a space, count none, and mark its records as not indexed; vectors stay."""
        ...

    def unindexed(self, limit: int) -> list[MemoryRow]:
        """Return records of the whole store that should be indexed and are not."""
        ...

    def traits(self, numbers: Collection[int]) -> dict[int, Traits]:
        """Return what is known of these records."""
        ...

    def near(self, places: Collection[int], wanted: Iterable[Place]) -> dict[Place, Traits]:
        """Return the indexed records at these places of conversations."""
        ...

    def members(self, places: Collection[int], conversation: int) -> dict[int, int]:
        """Return the indexed records of a conversation, with how many terms each has."""
        ...

    def models(self) -> dict[Model, int]:
        """Return the numbers of all that made vectors here."""
        ...

    def add_model(self, model: Model) -> int:
        """Return the number of a model, which is added where need be."""
        ...

    def drop_model(self, number: int) -> None:
        """Remove a model with its vectors."""
        ...

    def put_vector(self, model: int, place: int, row: VectorRow) -> bool:
        """Store a vector; True where its number is above all others of its model and space."""
        ...

    def vectors_of(self, place: int, number: int) -> list[tuple[int, VectorRow]]:
        """Return the vectors of a record, each with its model."""
        ...

    def drop_vectors(self, place: int, number: int) -> bool:
        """Remove the vectors of a record; False where there was none."""
        ...

    def vectors(self, model: int, place: int, after: int) -> list[VectorRow]:
        """Return the vectors of a space after a record number, in order."""
        ...

    def count_vectors(self, model: int, places: Collection[int]) -> int:
        """Return how many vectors there are."""
        ...

    def without_vector(self, model: int, spaces: Collection[int], after: int, limit: int) -> list[MemoryRow]:
        """Return indexed records after a number that this model has made no vector for."""
        ...


class MemoryRows(RecordRows, IndexRows, Protocol):
    """One transaction on a backend."""
