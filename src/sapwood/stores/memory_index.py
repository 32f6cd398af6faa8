"""The index of records, kept true: what a record adds to it, what it takes away, and whether both agree.

Laws: the terms of a record are those of `memory/text.py`; whatever is indexed can be taken out again, as both are
made of the record itself; an index that was made by other rules is thrown away and made anew, a few records at a
time, so that it may break off anywhere and go on.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from sapwood.core.memory import MemoryRecord
from sapwood.memory.corpus import entry
from sapwood.memory.text import Indexed, indexed
from sapwood.stores.memory_rows import MemoryRow, MemoryRows, Model, Tally, VectorRow
from sapwood.stores.memory_values import from_body

Vector: TypeAlias = tuple[float, bytes]
"""A scale, and numbers from -127 to 127."""
RULES_SETTING = "text_rules"
BATCH = 200
"""Records of one transaction when an index is made anew."""


class Vectors(msgspec.Struct, frozen=True):
    """Vectors that were made before a transaction, by the text that they are of."""

    model: Model | None = None
    by_text: Mapping[str, Vector] = {}


NO_VECTORS = Vectors()


def terms_of(record: MemoryRecord) -> Indexed:
    """Return what is indexed of a record."""
    return indexed(record.text, record.title, record.speaker)


def index(rows: MemoryRows, row: MemoryRow, vectors: Vectors = NO_VECTORS, found: Indexed | None = None) -> MemoryRow:
    """Add a record to the index, and return its row as it is to be stored."""
    place = row.place
    if place is None:
        return row
    found = found or terms_of(from_body(row.body))
    rows.add_entries(
        place,
        {term: entry(row.number, text, title, found.length) for term, (text, title) in found.entries.items()},
    )
    tally = rows.tally(place)
    changes, removals = tally.changes, tally.removals
    vector = vectors.by_text.get(found.vector_text)
    if vectors.model is not None and vector is not None:
        is_last = rows.put_vector(rows.add_model(vectors.model), place, VectorRow(row.number, *vector))
        changes, removals = changes + 1, removals + (not is_last)
    rows.put_tally(place, Tally(tally.records + 1, tally.length + found.length, changes, removals))
    return msgspec.structs.replace(row, flags=found.flags, length=found.length, is_indexed=True)


def unindex(rows: MemoryRows, row: MemoryRow) -> MemoryRow:
    """Take a record out of the index, and return its row as it is to be stored."""
    place = row.place
    if place is None or not row.is_indexed:
        return row
    rows.remove_entries(place, terms_of(from_body(row.body)).entries, row.number)
    tally = rows.tally(place)
    is_gone = int(rows.drop_vectors(place, row.number))
    rows.put_tally(
        place, Tally(tally.records - 1, tally.length - row.length, tally.changes + is_gone, tally.removals + is_gone)
    )
    return msgspec.structs.replace(row, is_indexed=False)


def keep_vectors(rows: MemoryRows, place: int, kept: Sequence[tuple[int, VectorRow]]) -> None:
    """Store vectors that a record had, under its place of now."""
    for model, vector in kept:
        rows.put_vector(model, place, vector)
    if kept:
        tally = rows.tally(place)
        rows.put_tally(place, tally._replace(changes=tally.changes + 1, removals=tally.removals + 1))


def begin_anew(rows: MemoryRows, spaces: Collection[int]) -> None:
    """Empty the index of these spaces; `index_more` fills it again."""
    for space in spaces:
        rows.clear_index(space)


def index_more(rows: MemoryRows) -> int:
    """Index some of the records that are not, and return how many."""
    found = rows.unindexed(BATCH)
    for row in found:
        rows.put(index(rows, row))
    return len(found)


def problems(rows: MemoryRows, spaces: Collection[int]) -> list[str]:
    """Return where the index and the records of these spaces do not agree, in words."""
    return [problem for space in spaces for problem in _problems_of(rows, space)]


def _problems_of(rows: MemoryRows, space: int) -> Iterator[str]:
    kept = list(all_rows(rows, [space]))
    by_place: dict[int, list[MemoryRow]] = {space: [], -space: []}
    for row in kept:
        if row.place is not None and not row.is_indexed:
            yield f"record {row.id!r} is not in the index"
        if row.place is not None and row.is_indexed:
            by_place[row.place].append(row)
        if from_body(row.body).id != row.id:
            yield f"record {row.id!r} is stored as {from_body(row.body).id!r}"
    for place, indexed_rows in by_place.items():
        yield from _index_problems(rows, place, indexed_rows)
    said: dict[int, int] = {}
    for row in kept:
        if row.speaker:
            said[row.speaker] = said.get(row.speaker, 0) + 1
    if set(rows.speakers([space]).values()) != set(said):
        yield f"the speakers of space {space} are not those of its records"


def _index_problems(rows: MemoryRows, place: int, kept: Sequence[MemoryRow]) -> Iterator[str]:
    expected: dict[bytes, set[int]] = {}
    for row in kept:
        found = terms_of(from_body(row.body))
        for term, (text, title) in found.entries.items():
            expected.setdefault(rows.term_key(place, term), set()).add(entry(row.number, text, title, found.length))
    there: dict[bytes, list[int]] = {}
    for key, entries in rows.all_entries(place):
        there.setdefault(key, []).extend(entries)
    for key in expected.keys() | there.keys():
        found_entries = there.get(key, [])
        if found_entries != sorted(expected.get(key, ())):
            yield f"term {key!r} of space {place} has {len(found_entries)} entries, not those of its records"
    tally = rows.tally(place)
    if (tally.records, tally.length) != (len(kept), sum(row.length for row in kept)):
        yield f"space {place} counts {tally.records} records of {tally.length} terms, and has {len(kept)}"
    numbers = {row.number for row in kept}
    for model in rows.models().values():
        if strays := {row.number for row in rows.vectors(model, place, 0)} - numbers:
            yield f"space {place} has {len(strays)} vectors of no record"


def all_rows(rows: MemoryRows, spaces: Collection[int], conversation: int = 0) -> Iterator[MemoryRow]:
    """Return the records of these spaces, in the order of their saving, read a page at a time."""
    after = 0
    while page := rows.page(spaces, conversation, after, _PAGE):
        yield from page
        after = page[-1].number


_PAGE = 500


def without_vectors(rows: MemoryRows, model: Model | None, spaces: Collection[int], after: int) -> list[MemoryRow]:
    """Return some of the indexed records after a number that a model has made no vector for."""
    number = rows.models().get(model, 0) if model is not None else 0
    return rows.without_vector(number, spaces, after, BATCH)


def add_vectors(rows: MemoryRows, numbers: Collection[int], vectors: Vectors) -> int:
    """Add vectors to records that are as they were when the vectors were made; return how many."""
    if vectors.model is None:
        return 0
    model = rows.add_model(vectors.model)
    count = 0
    for row in rows.rows(numbers).values():
        vector = vectors.by_text.get(terms_of(from_body(row.body)).vector_text)
        if row.place is None or not row.is_indexed or vector is None:
            continue
        is_last = rows.put_vector(model, row.place, VectorRow(row.number, *vector))
        tally = rows.tally(row.place)
        rows.put_tally(row.place, tally._replace(changes=tally.changes + 1, removals=tally.removals + (not is_last)))
        count += 1
    return count
