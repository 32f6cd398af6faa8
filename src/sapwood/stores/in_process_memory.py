"""The rows of memories in this process, as dictionaries and sorted arrays.

Law: what is kept is JSON and plain numbers, so that nothing works here that would not survive a file.
"""

import heapq
import threading
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from sapwood.core.memory import MemoryScope, Origin
from sapwood.memory.corpus import Traits
from sapwood.stores.memory_rows import (
    ConversationRow,
    MemoryRow,
    MemoryRows,
    Model,
    Place,
    SpaceRow,
    State,
    Tally,
    VectorRow,
    speaker_number,
)

T = TypeVar("T")


class InProcessMemories:
    """Memories in this process, one transaction at a time."""

    keeps_out = True
    waits = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows = InProcessRows()

    def write_memory(self, change: Callable[[MemoryRows], T]) -> T:
        """Run a transaction."""
        with self._lock:
            return change(self._rows)

    def read_memory(self, look: Callable[[MemoryRows], T]) -> T:
        """Run a transaction that changes nothing."""
        return self.write_memory(look)


class _Space:
    """A space, with the numbers of its records in order."""

    def __init__(self, row: SpaceRow) -> None:
        self.row = row
        self.numbers: array[int] = array("q")
        self.limited: set[int] = set()
        self.speaks: Counter[str] = Counter()
        self.conversations: dict[str, ConversationRow] = {}


class InProcessIndex:
    """The index: terms and vectors, by place."""

    def __init__(self) -> None:
        self._by_number: dict[int, MemoryRow] = {}
        self._spaces: dict[int, _Space] = {}
        self._unindexed: set[int] = set()
        self._positions: dict[int, dict[int, int]] = {}
        self._tallies: dict[int, Tally] = {}
        self._postings: dict[int, dict[str, array[int]]] = {}
        self._models: dict[Model, int] = {}
        self._last_model = 0
        self._vectors: dict[tuple[int, int], dict[int, VectorRow]] = {}

    def tally(self, place: int) -> Tally:
        """Return what is indexed of a space."""
        return self._tallies.get(place, Tally())

    def put_tally(self, place: int, tally: Tally) -> None:
        """Note what is indexed of a space."""
        self._tallies[place] = tally

    def add_entries(self, place: int, entries: Mapping[str, int]) -> None:
        """Add an entry to the postings of these terms."""
        postings = self._postings.setdefault(place, {})
        for term, packed in entries.items():
            found = postings.get(term)
            if found is None:
                postings[term] = array("Q", (packed,))
            elif found[-1] < packed:
                found.append(packed)
            else:
                insort(found, packed)

    def remove_entries(self, place: int, terms: Iterable[str], number: int) -> None:
        """Remove the entries of a record."""
        postings = self._postings.get(place, {})
        for term in terms:
            found = postings.get(term, array("Q"))
            at = bisect_left(found, number << 32)
            if at < len(found) and found[at] >> 32 == number:
                del found[at]
            if not found:
                postings.pop(term, None)

    def postings(self, places: Collection[int], term: str) -> Sequence["array[int]"]:
        """Return the entries of a term."""
        found = (self._postings.get(place, {}).get(term) for place in places)
        return [entries for entries in found if entries is not None]

    def term_key(self, place: int, term: str) -> bytes:
        """Return what a term is kept as."""
        return term.encode()

    def all_entries(self, place: int) -> Iterator[tuple[bytes, "array[int]"]]:
        """Return every term with its entries."""
        for term, entries in self._postings.get(place, {}).items():
            yield term.encode(), entries

    def clear_index(self, space: int) -> None:
        """Remove all entries of a space."""
        for place in (space, -space):
            self._postings.pop(place, None)
            if place in self._tallies:
                self._tallies[place] = self._tallies[place]._replace(records=0, length=0)
        for number in self._spaces[space].numbers:
            row = self._by_number[number]
            self._by_number[number] = msgspec.structs.replace(row, is_indexed=False)
            if row.place is not None:
                self._unindexed.add(number)

    def unindexed(self, limit: int) -> list[MemoryRow]:
        """Return records that should be indexed and are not."""
        return [self._by_number[number] for number in sorted(self._unindexed)[:limit]]

    def traits(self, numbers: Collection[int]) -> dict[int, Traits]:
        """Return what is known of these records."""
        known = self._by_number
        return {number: known[number].traits for number in numbers if number in known}

    def near(self, places: Collection[int], wanted: Iterable[Place]) -> dict[Place, Traits]:
        """Return the indexed records at these places."""
        found: dict[Place, Traits] = {}
        for conversation, position in wanted:
            number = self._positions.get(conversation, {}).get(position)
            row = self._by_number[number] if number is not None else None
            if row is not None and row.is_indexed and row.place in places:
                found[conversation, position] = row.traits
        return found

    def members(self, places: Collection[int], conversation: int) -> dict[int, int]:
        """Return the indexed records of a conversation."""
        rows = (self._by_number[number] for number in self._positions.get(conversation, {}).values())
        return {row.number: row.length for row in rows if row.is_indexed and row.place in places}

    def models(self) -> dict[Model, int]:
        """Return all that made vectors here."""
        return dict(self._models)

    def add_model(self, model: Model) -> int:
        """Return the number of a model."""
        if model not in self._models:
            self._last_model += 1
            self._models[model] = self._last_model
        return self._models[model]

    def drop_model(self, number: int) -> None:
        """Remove a model with its vectors."""
        self._models = {model: kept for model, kept in self._models.items() if kept != number}
        self._vectors = {key: found for key, found in self._vectors.items() if key[0] != number}

    def put_vector(self, model: int, place: int, row: VectorRow) -> bool:
        """Store a vector."""
        found = self._vectors.setdefault((model, place), {})
        is_last = not found or row.number > next(reversed(found))
        found[row.number] = row
        if not is_last:
            self._vectors[model, place] = dict(sorted(found.items()))
        return is_last

    def vectors_of(self, place: int, number: int) -> list[tuple[int, VectorRow]]:
        """Return the vectors of a record."""
        found = ((model, self._vectors.get((model, place), {}).get(number)) for model in self._models.values())
        return [(model, row) for model, row in found if row is not None]

    def drop_vectors(self, place: int, number: int) -> bool:
        """Remove the vectors of a record."""
        gone = [self._vectors.get((model, place), {}).pop(number, None) for model in self._models.values()]
        return any(row is not None for row in gone)

    def vectors(self, model: int, place: int, after: int) -> list[VectorRow]:
        """Return the vectors of a space after a number."""
        found = self._vectors.get((model, place), {})
        if not after:
            return list(found.values())
        later: list[VectorRow] = []
        for number in reversed(found):
            if number <= after:
                break
            later.append(found[number])
        return later[::-1]

    def count_vectors(self, model: int, places: Collection[int]) -> int:
        """Return how many vectors there are."""
        return sum(len(self._vectors.get((model, place), ())) for place in places)

    def without_vector(self, model: int, spaces: Collection[int], after: int, limit: int) -> list[MemoryRow]:
        """Return indexed records that have no vector of a model."""
        numbers = sorted(number for space in spaces for number in self._spaces[space].numbers if number > after)
        found: list[MemoryRow] = []
        for number in numbers:
            row = self._by_number[number]
            if row.is_indexed and number not in self._vectors.get((model, row.place or 0), ()):
                found.append(row)
                if len(found) == limit:
                    break
        return found


class InProcessRows(InProcessIndex):
    """All rows of memories."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: dict[str, str] = {}
        self._by_scope: dict[MemoryScope, int] = {}
        self._of_user: dict[str, list[int]] = {}
        self._conversations: dict[int, ConversationRow] = {}
        self._ids: dict[str, list[int]] = {}
        self._keys: dict[tuple[int, int, str], int] = {}
        self._digests: dict[tuple[int, bytes], list[int]] = {}
        self._children: dict[str, list[int]] = {}
        self._parents: dict[int, tuple[str, ...]] = {}
        self._lasts = {"space": 0, "conversation": 0}

    def _next(self, of: str) -> int:
        self._lasts[of] += 1
        return self._lasts[of]

    def setting(self, name: str) -> str | None:
        """Return what is noted about the whole store."""
        return self._settings.get(name)

    def put_setting(self, name: str, value: str) -> None:
        """Note something about the whole store."""
        self._settings[name] = value

    def spaces(self, user: str | None, agent: str | None) -> list[SpaceRow]:
        """Return the spaces of a user and an agent."""
        if user is not None:
            found = [self._spaces[number].row for number in self._of_user.get(user, ())]
        else:
            found = [space.row for space in self._spaces.values()]
        return [row for row in found if agent is None or row.agent == agent]

    def space(self, number: int) -> SpaceRow | None:
        """Return a space."""
        found = self._spaces.get(number)
        return found.row if found is not None else None

    def space_of(self, scope: MemoryScope) -> SpaceRow | None:
        """Return the space of exactly this user, agent and namespace."""
        number = self._by_scope.get(scope.replace(conversation=None))
        return self._spaces[number].row if number is not None else None

    def add_space(self, scope: MemoryScope) -> SpaceRow:
        """Make a space."""
        row = SpaceRow(self._next("space"), scope.user, scope.agent, scope.namespace)
        self._spaces[row.number] = _Space(row)
        self._by_scope[row.scope()] = row.number
        if row.user is not None:
            self._of_user.setdefault(row.user, []).append(row.number)
        return row

    def drop_space(self, number: int) -> int:
        """Remove a space with all that is in it."""
        space = self._spaces[number]
        numbers = list(space.numbers)
        for record in numbers:
            self.remove(self._by_number[record])
        for conversation in list(space.conversations.values()):
            self.drop_conversation(conversation.number)
        for place in (number, -number):
            self._postings.pop(place, None)
            self._tallies.pop(place, None)
            for model in self._models.values():
                self._vectors.pop((model, place), None)
        del self._by_scope[space.row.scope()], self._spaces[number]
        if space.row.user is not None:
            self._of_user[space.row.user].remove(number)
            if not self._of_user[space.row.user]:
                del self._of_user[space.row.user]
        return len(numbers)

    def has_records(self, space: int) -> bool:
        """Tell whether a space has any record."""
        return bool(self._spaces[space].numbers)

    def conversation(self, space: int, name: str) -> ConversationRow | None:
        """Return a conversation of a space."""
        return self._spaces[space].conversations.get(name)

    def conversation_of(self, number: int) -> ConversationRow | None:
        """Return a conversation by its number."""
        return self._conversations.get(number)

    def put_conversation(self, row: ConversationRow) -> ConversationRow:
        """Store a conversation."""
        if not row.number:
            row = row._replace(number=self._next("conversation"))
        self._conversations[row.number] = self._spaces[row.space].conversations[row.name] = row
        return row

    def drop_conversation(self, number: int) -> None:
        """Remove a conversation."""
        row = self._conversations.pop(number)
        self._spaces[row.space].conversations.pop(row.name)
        self._positions.pop(number, None)

    def spoke(self, space: int, name: str, change: int) -> None:
        """Count records of a speaker in a space."""
        speaks = self._spaces[space].speaks
        speaks[name] += change
        if speaks[name] <= 0:
            del speaks[name]

    def speakers(self, spaces: Collection[int]) -> dict[str, int]:
        """Return who speaks in these spaces."""
        return {name: speaker_number(name) for space in spaces for name in self._spaces[space].speaks}

    def next_number(self) -> int:
        """Return the number of the next record."""
        return max(self._by_number, default=0) + 1 if len(self._by_number) < 2 else next(reversed(self._by_number)) + 1

    def add(self, row: MemoryRow) -> None:
        """Store a new record."""
        self._ids.setdefault(row.id, []).append(row.number)
        self._spaces[row.space].numbers.append(row.number)
        if row.conversation:
            self._positions.setdefault(row.conversation, {})[row.position] = row.number
        self.put(row)

    def put(self, row: MemoryRow) -> None:
        """Store a record anew under its number."""
        before = self._by_number.get(row.number)
        if before is not None and before.digest and before.digest != row.digest:
            self._without_digest(before)
        if row.digest and (before is None or before.digest != row.digest):
            self._digests.setdefault((row.space, row.digest), []).append(row.number)
            self._digests[row.space, row.digest].sort()
        if row.key is not None:
            self._keys[row.space, row.conversation, row.key] = row.number
        self._by_number[row.number] = row
        limited = self._spaces[row.space].limited
        if row.expires_at is None and row.valid_from is None and row.valid_to is None:
            limited.discard(row.number)
        else:
            limited.add(row.number)
        if row.is_indexed or row.place is None:
            self._unindexed.discard(row.number)
        else:
            self._unindexed.add(row.number)

    def remove(self, row: MemoryRow) -> None:
        """Remove a record, and what it is derived from."""
        row = self._by_number.pop(row.number)
        space = self._spaces[row.space]
        del space.numbers[bisect_left(space.numbers, row.number)]
        space.limited.discard(row.number)
        self._unindexed.discard(row.number)
        self._positions.get(row.conversation, {}).pop(row.position, None)
        self._ids[row.id].remove(row.number)
        if not self._ids[row.id]:
            del self._ids[row.id]
        if row.key is not None:
            self._keys.pop((row.space, row.conversation, row.key), None)
        if row.digest:
            self._without_digest(row)
        self.derive((), row.number)

    def _without_digest(self, row: MemoryRow) -> None:
        found = self._digests[row.space, row.digest]
        found.remove(row.number)
        if not found:
            del self._digests[row.space, row.digest]

    def with_id(self, id: str) -> list[MemoryRow]:
        """Return the records of an id."""
        return [self._by_number[number] for number in self._ids.get(id, ())]

    def with_key(self, space: int, conversation: int, key: str) -> MemoryRow | None:
        """Return the record that was saved with a key in a conversation."""
        number = self._keys.get((space, conversation, key))
        return self._by_number[number] if number is not None else None

    def with_digest(self, space: int, digest: bytes) -> list[MemoryRow]:
        """Return the records of a digest."""
        return [self._by_number[number] for number in self._digests.get((space, digest), ())]

    def rows(self, numbers: Collection[int]) -> dict[int, MemoryRow]:
        """Return records by number."""
        return {number: self._by_number[number] for number in numbers if number in self._by_number}

    def at(self, conversation: int, position: int) -> int:
        """Return the number of a record at a position."""
        return self._positions.get(conversation, {}).get(position, 0)

    def page(self, spaces: Collection[int], conversation: int, after: int, limit: int) -> list[MemoryRow]:
        """Return records after a number."""
        if conversation:
            numbers = sorted(n for n in self._positions.get(conversation, {}).values() if n > after)[:limit]
        else:
            numbers = list[int]()
            for space in spaces:
                kept = self._spaces[space].numbers
                start = bisect_left(kept, after + 1)
                numbers += kept[start : start + limit]
            numbers.sort()
        return [self._by_number[number] for number in numbers[:limit]]

    def latest(
        self, spaces: Collection[int], conversations: Collection[int], kind: str | None, now: int, limit: int
    ) -> list[MemoryRow]:
        """Return the newest records that are neither superseded nor past their end."""
        each = (self._backwards(space, conversations) for space in spaces)
        kept: list[MemoryRow] = []
        for number in heapq.merge(*each, reverse=True):
            row = self._by_number[number]
            is_over = row.expires_at is not None and row.expires_at <= now
            if row.state != "superseded" and not is_over and kind in (None, row.kind):
                kept.append(row)
                if len(kept) == limit:
                    break
        return kept[::-1]

    def _backwards(self, space: int, conversations: Collection[int]) -> Iterator[int]:
        if not conversations:
            return reversed(self._spaces[space].numbers)
        known = (row.number for row in self._spaces[space].conversations.values() if row.number in conversations)
        return iter(sorted((n for number in known for n in self._positions[number].values()), reverse=True))

    def states(self, spaces: Collection[int], conversations: Collection[int]) -> dict[State, int]:
        """Return how many records there are of each state."""
        every = (number for space in spaces for number in self._backwards(space, conversations))
        return dict(Counter(self._by_number[number].state for number in every))

    def origins(self, numbers: Collection[int]) -> dict[int, Origin]:
        """Return the origins of records."""
        return {number: self._by_number[number].origin for number in numbers if number in self._by_number}

    def expired(self, space: int, now: int, limit: int) -> list[int]:
        """Return the numbers of records that are to be deleted."""
        found = sorted(self.past_end([space], now))
        return found if limit < 0 else found[:limit]

    def past_end(self, spaces: Collection[int], now: int) -> set[int]:
        """Return the numbers of records that are to be deleted by now."""
        rows = (self._by_number[number] for space in spaces for number in self._spaces[space].limited)
        return {row.number for row in rows if row.expires_at is not None and row.expires_at <= now}

    def out_of_time(self, spaces: Collection[int], at: int, *, with_old: bool) -> set[int]:
        """Return the numbers of records that are not true at a time."""
        rows = (self._by_number[number] for space in spaces for number in self._spaces[space].limited)
        return {row.number for row in rows if (with_old or row.state == "current") and not _is_true(row, at)}

    def derive(self, parents: Iterable[str], child: int) -> None:
        """Note what a record was made of."""
        for parent in self._parents.pop(child, ()):
            self._children[parent].remove(child)
            if not self._children[parent]:
                del self._children[parent]
        made_of = tuple(parents)
        for parent in made_of:
            self._children.setdefault(parent, []).append(child)
        if made_of:
            self._parents[child] = made_of

    def derived(self, parent: str) -> list[int]:
        """Return the records that were made of this one."""
        return list(self._children.get(parent, ()))

    def scrub(self) -> None:
        """Do nothing; there is no file."""


def _is_true(row: MemoryRow, at: int) -> bool:
    begins = row.valid_from is None or row.valid_from <= at
    return begins and (row.valid_to is None or at < row.valid_to)
