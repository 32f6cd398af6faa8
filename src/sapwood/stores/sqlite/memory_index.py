"""The index of memories in SQLite: terms in chunks of packed entries, and vectors beside each other by space.

Laws: no word is written as it is, see `seal.py`; values are bound, never written into a statement; a chunk is small
enough to lie within its row, so that adding a record writes a few pages of its own space and reading a term reads few.
"""

import sqlite3
import sys
from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from sapwood.core.errors import StoreError
from sapwood.memory.corpus import Traits
from sapwood.stores.memory_rows import MemoryRow, Model, Place, Tally, VectorRow
from sapwood.stores.sqlite.seal import Secrets, hashed, sealed

MOST_ENTRIES = 100
"""Entries of one chunk: 800 bytes, what a page of 4 kB takes without an overflow page."""
COLUMNS = (
    "n, space, state, origin, kind, conversation, position, speaker, at, flags, length, importance, valid_from, "
    "valid_to, expires_at, is_indexed, id, once, same, secret"
)
_READ = ", ".join(f"m.{name}" for name in COLUMNS.split(", ")[:16])
ROW = (
    f"SELECT {_READ}, s.secret, b.sealed FROM memory m JOIN memory_body b ON b.n = m.n "
    "JOIN memory_secret s ON s.n = m.secret"
)
_TRAITS = "m.n, m.conversation, m.position, m.speaker, m.at, m.kind, m.flags, m.importance"
PLACE = "CASE m.state WHEN 'current' THEN m.space WHEN 'superseded' THEN -m.space END"


class MemoryIndex:
    """The index, over one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._secrets = Secrets(connection)
        self._space_secrets: dict[int, bytes] = {}

    def secret_of(self, space: int) -> bytes:
        """Return the secret of a space, which the hashes of its terms and names are keyed with."""
        known = self._space_secrets.get(space)
        if known is None:
            found = self._one(
                "SELECT s.secret FROM memory_space p JOIN memory_secret s ON s.n = p.secret WHERE p.n = ?", space
            )
            if found is None:
                raise StoreError(f"space {space} of the file is missing. The file is damaged; take it from a backup")
            known = self._space_secrets[space] = found[0]
        return known

    def term_key(self, place: int, term: str) -> bytes:
        """Return what a term is kept as."""
        return hashed(term, self.secret_of(abs(place)), b"term")

    def tally(self, place: int) -> Tally:
        """Return what is indexed of a space."""
        found = self._one("SELECT records, length, changes, removals FROM memory_tally WHERE place = ?", place)
        return Tally(*found) if found is not None else Tally()

    def put_tally(self, place: int, tally: Tally) -> None:
        """Note what is indexed of a space."""
        self._connection.execute("INSERT OR REPLACE INTO memory_tally VALUES (?, ?, ?, ?, ?)", (place, *tally))

    def add_entries(self, place: int, entries: Mapping[str, int]) -> None:
        """Add an entry to the postings of these terms."""
        for key, packed in sorted((self.term_key(place, term), packed) for term, packed in entries.items()):
            self._add_entry(place, key, packed)

    def _add_entry(self, place: int, term: bytes, packed: int) -> None:
        number = packed >> 32
        found = self._one(
            "SELECT first, entries FROM memory_posting WHERE place = ? AND term = ? AND first <= ? "
            "ORDER BY first DESC LIMIT 1",
            *(place, term, number),
        )
        if found is None:
            self._new_chunk(place, term, number, array("Q", (packed,)))
            return
        first, entries = found[0], unpacked(found[1])
        if entries[-1] >= packed:
            insort(entries, packed)
        elif len(entries) >= MOST_ENTRIES:
            self._new_chunk(place, term, number, array("Q", (packed,)))
            return
        else:
            entries.append(packed)
        if len(entries) > MOST_ENTRIES:
            half = len(entries) // 2
            self._new_chunk(place, term, entries[half] >> 32, entries[half:])
            entries = entries[:half]
        self._put_chunk(place, term, first, entries)

    def _new_chunk(self, place: int, term: bytes, first: int, entries: "array[int]") -> None:
        self._connection.execute(
            "INSERT INTO memory_posting VALUES (?, ?, ?, ?)", (place, term, first, packed_bytes(entries))
        )

    def _put_chunk(self, place: int, term: bytes, first: int, entries: "array[int]") -> None:
        self._connection.execute(
            "UPDATE memory_posting SET entries = ? WHERE place = ? AND term = ? AND first = ?",
            (packed_bytes(entries), place, term, first),
        )

    def remove_entries(self, place: int, terms: Iterable[str], number: int) -> None:
        """Remove the entries of a record."""
        for term in sorted(self.term_key(place, term) for term in terms):
            found = self._one(
                "SELECT first, entries FROM memory_posting WHERE place = ? AND term = ? AND first <= ? "
                "ORDER BY first DESC LIMIT 1",
                *(place, term, number),
            )
            if found is None:
                continue
            first, entries = found[0], unpacked(found[1])
            at = bisect_left(entries, number << 32)
            if at == len(entries) or entries[at] >> 32 != number:
                continue
            del entries[at]
            if entries:
                self._put_chunk(place, term, first, entries)
            else:
                self._connection.execute(
                    "DELETE FROM memory_posting WHERE place = ? AND term = ? AND first = ?", (place, term, first)
                )

    def postings(self, places: Collection[int], term: str) -> Sequence["array[int]"]:
        """Return the entries of a term."""
        found: list[array[int]] = []
        for place in places:
            chunks = self._connection.execute(
                "SELECT entries FROM memory_posting WHERE place = ? AND term = ? ORDER BY first",
                (place, self.term_key(place, term)),
            ).fetchall()
            if chunks:
                found.append(unpacked(b"".join(entries for (entries,) in chunks)))
        return found

    def all_entries(self, place: int) -> Iterator[tuple[bytes, "array[int]"]]:
        """Return every term with entries."""
        found = self._connection.execute(
            "SELECT term, entries FROM memory_posting WHERE place = ? ORDER BY term, first", (place,)
        )
        for term, entries in found:
            yield term, unpacked(entries)

    def clear_index(self, space: int) -> None:
        """Remove all entries of a space."""
        for place in (space, -space):
            self._connection.execute("DELETE FROM memory_posting WHERE place = ?", (place,))
            self._connection.execute("UPDATE memory_tally SET records = 0, length = 0 WHERE place = ?", (place,))
        self._connection.execute("UPDATE memory SET is_indexed = 0 WHERE space = ?", (space,))

    def unindexed(self, limit: int) -> list[MemoryRow]:
        """Return records that should be indexed and are not."""
        return self.found(f"{ROW} WHERE m.is_indexed = 0 AND m.state <> 'quarantined' ORDER BY m.n LIMIT ?", (limit,))

    def traits(self, numbers: Collection[int]) -> dict[int, Traits]:
        """Return what is known of these records."""
        found = self._connection.execute(
            f"SELECT {_TRAITS} FROM json_each(?) j CROSS JOIN memory m ON m.n = j.value", (_listed(numbers),)
        )
        return {values[0]: Traits(*values) for values in found}

    def near(self, places: Collection[int], wanted: Iterable[Place]) -> dict[Place, Traits]:
        """Return the indexed records at these places."""
        pairs = msgspec.json.encode([list(place) for place in wanted]).decode()
        found = self._connection.execute(
            f"SELECT {PLACE}, {_TRAITS} FROM json_each(?) j CROSS JOIN memory m ON "
            "m.conversation = json_extract(j.value, '$[0]') AND m.position = json_extract(j.value, '$[1]') "
            "WHERE m.conversation > 0 AND m.is_indexed = 1",
            (pairs,),
        )
        kept = frozenset(places)
        every = (Traits(*values) for place, *values in found if place in kept)
        return {(traits.conversation, traits.position): traits for traits in every}

    def members(self, places: Collection[int], conversation: int) -> dict[int, int]:
        """Return the indexed records of a conversation."""
        found = self._connection.execute(
            f"SELECT m.n, m.length, {PLACE} FROM memory m WHERE m.conversation = ? AND m.conversation > 0 "
            "AND m.is_indexed = 1",
            (conversation,),
        )
        return {number: length for number, length, place in found if place in places}

    def models(self) -> dict[Model, int]:
        """Return all that made vectors here."""
        found = self._connection.execute("SELECT n, name, width FROM memory_model ORDER BY n")
        return {Model(name, width): number for number, name, width in found}

    def add_model(self, model: Model) -> int:
        """Return the number of a model."""
        self._connection.execute("INSERT OR IGNORE INTO memory_model (name, width) VALUES (?, ?)", model)
        return self.models()[model]

    def drop_model(self, number: int) -> None:
        """Remove a model with its vectors."""
        self._secrets.forget_those("SELECT secret FROM memory_vector WHERE model = ?", number)
        self._connection.execute("DELETE FROM memory_vector WHERE model = ?", (number,))
        self._connection.execute("DELETE FROM memory_model WHERE n = ?", (number,))

    def put_vector(self, model: int, place: int, row: VectorRow) -> bool:
        """Store a vector."""
        last = self._one("SELECT max(n) FROM memory_vector WHERE model = ? AND place = ?", model, place)
        is_last = last is None or last[0] is None or last[0] < row.number
        if not is_last:
            self._drop(model, place, row.number)
        number, secret = self._secrets.new()
        self._connection.execute(
            "INSERT INTO memory_vector VALUES (?, ?, ?, ?, ?, ?)",
            (model, place, row.number, number, row.scale, sealed(row.numbers, secret)),
        )
        return is_last

    def vectors_of(self, place: int, number: int) -> list[tuple[int, VectorRow]]:
        """Return the vectors of a record."""
        found = self._connection.execute(
            "SELECT v.model, v.n, v.scale, v.sealed, s.secret FROM memory_model o CROSS JOIN memory_vector v "
            "ON v.model = o.n JOIN memory_secret s ON s.n = v.secret WHERE v.place = ? AND v.n = ?",
            (place, number),
        )
        return [(model, VectorRow(n, scale, sealed(raw, secret))) for model, n, scale, raw, secret in found]

    def drop_vectors(self, place: int, number: int) -> bool:
        """Remove the vectors of a record."""
        dropped = [self._drop(model, place, number) for model in self.models().values()]
        return any(dropped)

    def _drop(self, model: int, place: int, number: int) -> bool:
        found = self._one(
            "SELECT secret FROM memory_vector WHERE model = ? AND place = ? AND n = ?", model, place, number
        )
        if found is None:
            return False
        self._secrets.forget(found[0])
        self._connection.execute(
            "DELETE FROM memory_vector WHERE model = ? AND place = ? AND n = ?", (model, place, number)
        )
        return True

    def vectors(self, model: int, place: int, after: int) -> list[VectorRow]:
        """Return the vectors of a space after a number."""
        found = self._connection.execute(
            "SELECT v.n, v.scale, v.sealed, s.secret FROM memory_vector v JOIN memory_secret s ON s.n = v.secret "
            "WHERE v.model = ? AND v.place = ? AND v.n > ? ORDER BY v.n",
            (model, place, after),
        )
        return [VectorRow(n, scale, sealed(raw, secret)) for n, scale, raw, secret in found]

    def count_vectors(self, model: int, places: Collection[int]) -> int:
        """Return how many vectors there are."""
        found = self._one(
            "SELECT count(*) FROM json_each(?) j CROSS JOIN memory_vector v ON v.place = j.value WHERE v.model = ?",
            *(_listed(places), model),
        )
        return int(found[0]) if found is not None else 0

    def without_vector(self, model: int, spaces: Collection[int], after: int, limit: int) -> list[MemoryRow]:
        """Return indexed records that have no vector of a model."""
        return self.found(
            f"{ROW} WHERE m.n > ? AND m.is_indexed = 1 AND m.space IN (SELECT value FROM json_each(?)) AND NOT EXISTS "
            f"(SELECT 1 FROM memory_vector v WHERE v.model = ? AND v.place = {PLACE} AND v.n = m.n) "
            "ORDER BY m.n LIMIT ?",
            (after, _listed(spaces), model, limit),
        )

    def found(self, query: str, values: Sequence[Any]) -> list[MemoryRow]:
        """Return the records of a query for the columns of `ROW`."""
        return [row_of(item) for item in self._connection.execute(query, values)]

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return found


def row_of(values: Sequence[Any]) -> MemoryRow:
    """Return a record of what was read; raises StoreError where the file is damaged."""
    number, space, state, origin, kind, conversation, position, speaker = values[:8]
    at, flags, length, importance, valid_from, valid_to, expires_at, is_indexed, secret, raw = values[8:]
    try:
        id, key, digest, body = msgspec.msgpack.decode(sealed(raw, secret), type=_Envelope)
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"memory {number} of the file cannot be read: {error}. The file is damaged; take it from a backup"
        ) from error
    if state not in ("current", "superseded", "quarantined"):
        raise StoreError(f"memory {number} of the file is {state!r}. The file is damaged; take it from a backup")
    return MemoryRow(
        *(id, space, body, number, state, origin, kind, digest, key, conversation, position, speaker, at, flags),
        *(length, importance, valid_from, valid_to, expires_at, bool(is_indexed)),
    )


_Envelope: TypeAlias = tuple[str, str | None, bytes, str]


def envelope(row: MemoryRow) -> bytes:
    """Return what of a record is sealed: its id, the key of its save, its digest and its JSON."""
    return msgspec.msgpack.encode((row.id, row.key, row.digest, row.body))


def unpacked(raw: bytes) -> "array[int]":
    """Return the entries of a chunk; raises StoreError where the file is damaged."""
    entries = array("Q")
    try:
        entries.frombytes(raw)
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"a posting of the file cannot be read: {error}. Make the index anew with memory.reindex()"
        ) from error
    if sys.byteorder == "big":
        entries.byteswap()
    return entries


def packed_bytes(entries: "array[int]") -> bytes:
    """Return entries as they are stored: little-endian, eight bytes each."""
    if sys.byteorder == "big":
        entries = entries[:]
        entries.byteswap()
    return entries.tobytes()


def _listed(numbers: Collection[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
