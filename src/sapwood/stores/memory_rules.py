"""What may happen to the records of a memory, whatever keeps them.

Laws: each function is one transaction on what a scope covers, and nothing else is seen, changed, counted or removed;
it raises before it writes. Nothing is lost but by `forget` and by the end that a record was given: a correction keeps
what it corrects, and saying the same again keeps what was said first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord, MemoryScope
from sapwood.stores.memory_index import Vectors, index, keep_vectors, unindex
from sapwood.stores.memory_rows import ConversationRow, MemoryRow, MemoryRows, SpaceRow, State, speaker_number
from sapwood.stores.memory_values import MAX_PARENTS, Draft, checked, digest_of, from_body, is_too_large, to_body

MOST_EXPIRED = 50
"""Records past their end that one save removes by the way."""


def covered(rows: MemoryRows, scope: MemoryScope) -> list[SpaceRow]:
    """Return the spaces that a scope reaches, as far as it does not name a conversation."""
    wide = scope.replace(conversation=None)
    return [space for space in rows.spaces(scope.user, scope.agent) if wide.covers(space.scope())]


def seen(rows: MemoryRows, scope: MemoryScope, row: MemoryRow) -> bool:
    """Tell whether a scope reaches a record."""
    space = rows.space(row.space)
    if space is None or not scope.covers(space.scope(scope.conversation)):
        return False
    if scope.conversation is None:
        return True
    conversation = rows.conversation(row.space, scope.conversation)
    return conversation is not None and conversation.number == row.conversation


def found(rows: MemoryRows, scope: MemoryScope, id: str) -> MemoryRow | None:
    """Return the record of an id, where the scope reaches it."""
    return next((row for row in rows.with_id(id) if seen(rows, scope, row)), None)


def records_of(rows: MemoryRows, scope: MemoryScope) -> Iterator[MemoryRow]:
    """Return the records that a scope reaches, in the order of their saving."""
    after = 0
    while page := page_of(rows, scope, after, _PAGE):
        yield from page
        after = page[-1].number


_PAGE = 500


def page_of(rows: MemoryRows, scope: MemoryScope, after: int, limit: int) -> list[MemoryRow]:
    """Return records that a scope reaches after a number, in the order of their saving."""
    spaces, conversations = _reached(rows, scope)
    if not conversations:
        return rows.page(spaces, 0, after, limit)
    pages = [rows.page(spaces, number, after, limit) for number in conversations]
    return sorted((row for page in pages for row in page), key=lambda row: row.number)[:limit]


def _reached(rows: MemoryRows, scope: MemoryScope) -> tuple[list[int], list[int]]:
    """Return the spaces that a scope reaches, and, where it names a conversation, those of that name in them."""
    spaces = [space.number for space in covered(rows, scope)]
    if scope.conversation is None:
        return spaces, []
    named = [rows.conversation(space, scope.conversation) for space in spaces]
    conversations = [row for row in named if row is not None]
    return [row.space for row in conversations], [row.number for row in conversations]


def newest(rows: MemoryRows, scope: MemoryScope, kind: str | None, now: int, limit: int) -> list[MemoryRow]:
    """Return the newest records that a scope reaches and that were not corrected, in the order of their saving."""
    spaces, conversations = _reached(rows, scope)
    return rows.latest(spaces, conversations, kind, now, limit) if spaces and limit > 0 else []


def states(rows: MemoryRows, scope: MemoryScope) -> dict[State, int]:
    """Return how many records of each state a scope reaches."""
    spaces, conversations = _reached(rows, scope)
    return rows.states(spaces, conversations) if spaces else {}


def save(rows: MemoryRows, drafts: Sequence[Draft], vectors: Vectors, now: int) -> list[MemoryRecord]:
    """Save records, or return those that were saved before in their place."""
    for draft in drafts:  # before anything is written
        if draft.record.supersedes is not None:
            _head(rows, draft.record)
    return [_save(rows, draft, vectors, now) for draft in drafts]


def _save(rows: MemoryRows, draft: Draft, vectors: Vectors, now: int) -> MemoryRecord:
    record = draft.record
    space = rows.space_of(record.scope)
    if space is not None:
        known = _saved_before(rows, space, draft)
        if known is not None and not is_over(known, now):
            return from_body(known.body)
        if known is not None:
            _forget(rows, record.scope, [known], cascade=True)
        _end_in(rows, space, record.scope, now, MOST_EXPIRED)
        space = rows.space_of(record.scope)  # which may have ended with its last record
    if record.supersedes is not None:
        return _supersede(rows, draft, vectors)
    if space is not None and (same := _same(rows, space, record)) is not None:
        return _said_again(rows, same, record)
    return _added(rows, draft, vectors)


def _saved_before(rows: MemoryRows, space: SpaceRow, draft: Draft) -> MemoryRow | None:
    """Return the record of a save's key, of just the conversation that the record goes to."""
    if draft.key is None:
        return None
    name = draft.record.conversation
    if name is None:
        return rows.with_key(space.number, 0, draft.key)
    conversation = rows.conversation(space.number, name)
    return rows.with_key(space.number, conversation.number, draft.key) if conversation is not None else None


def _same(rows: MemoryRows, space: SpaceRow, record: MemoryRecord) -> MemoryRow | None:
    digest = digest_of(record)
    alike = rows.with_digest(space.number, digest) if digest else []
    current = [row for row in alike if row.state == "current"]
    doubtful = [row for row in alike if row.state == "quarantined" and record.quarantined]
    return next(iter(current + doubtful), None)


def _said_again(rows: MemoryRows, row: MemoryRow, again: MemoryRecord) -> MemoryRecord:
    """Keep what was said first, with what the second time adds: new keys of meta, a later end, weight, sources."""
    record = from_body(row.body)
    meta = {**(again.meta or {}), **(record.meta or {})} or None
    ends = (record.expires_at, again.expires_at)
    # What was said once without a source stands by itself, and is not forgotten with one.
    every = (
        dict.fromkeys((*record.derived_from, *again.derived_from)) if record.derived_from and again.derived_from else ()
    )
    parents = [parent for parent in every if parent != record.id]
    changed = record.replace(
        meta=meta if meta != record.meta else record.meta,
        expires_at=max(end for end in ends if end is not None) if None not in ends else None,
        importance=max(record.importance, again.importance),
        derived_from=tuple(parents[:MAX_PARENTS]),
    )
    if changed == record or is_too_large(changed):
        return record
    rows.put(_with(row, changed))
    if changed.derived_from != record.derived_from:
        rows.derive(changed.derived_from, row.number)
    return from_body(to_body(changed))


def _added(rows: MemoryRows, draft: Draft, vectors: Vectors, position: int | None = None) -> MemoryRecord:
    record = draft.record
    space = rows.space_of(record.scope) or rows.add_space(record.scope)
    conversation = 0
    if record.conversation is not None:
        row = rows.conversation(space.number, record.conversation)
        row = row or rows.put_conversation(ConversationRow(0, space.number, record.conversation))
        position = position or row.last + 1
        rows.put_conversation(row._replace(last=max(row.last, position), records=row.records + 1))
        record, conversation = record.replace(position=position), row.number
    speaker = speaker_number(record.speaker or "")
    if record.speaker:
        rows.spoke(space.number, record.speaker, 1)
    number = rows.next_number()
    bare = MemoryRow(record.id, space.number, "", number, key=draft.key, conversation=conversation, speaker=speaker)
    rows.add(index(rows, _with(bare, record), vectors))
    rows.derive(record.derived_from, number)
    return record


def _with(row: MemoryRow, record: MemoryRecord) -> MemoryRow:
    """Return the row with what it tells of a record; what the index adds stays."""
    state = "superseded" if record.superseded_by else "quarantined" if record.quarantined else "current"
    return msgspec.structs.replace(
        row,
        body=to_body(record),
        state=state,
        origin=record.origin,
        kind=record.kind,
        digest=digest_of(record),
        position=record.position,
        at=record.created_at,
        importance=float(record.importance),
        valid_from=record.valid_from,
        valid_to=record.valid_to,
        expires_at=record.expires_at,
    )


def _supersede(rows: MemoryRows, draft: Draft, vectors: Vectors) -> MemoryRecord:
    """Add a record that corrects another, which leaves recall and stays in the history."""
    record = draft.record
    old = _head(rows, record)
    before = from_body(old.body)
    if digest_of(before) == digest_of(record.replace(valid_from=before.valid_from, valid_to=before.valid_to)):
        return _said_again(rows, old, record)
    since = record.valid_from if record.valid_from is not None else record.created_at
    ends = [end for end in (before.valid_to, max(since, before.valid_from or since)) if end is not None]
    new = draft.record.replace(supersedes=before.id, valid_from=_earlier(since, record.valid_to))
    if not record.quarantined:
        _leave(rows, old, before.replace(superseded_by=new.id, valid_to=min(ends)), vectors)
    return _added(rows, Draft(new, draft.key), vectors)


def _head(rows: MemoryRows, record: MemoryRecord) -> MemoryRow:
    """Return the newest of the chain that a record corrects."""
    space = rows.space_of(record.scope)
    known = rows.with_id(record.supersedes or "") if space is not None else []
    old = next((row for row in known if space is not None and row.space == space.number), None)
    while old is not None and (later := from_body(old.body).superseded_by) is not None:
        old = _beside(rows, old, later)
    if old is None or from_body(old.body).scope != record.scope:
        raise ConfigError(
            f"there is no record {record.supersedes!r} in exactly this scope, so none to correct; save through "
            "memory.scoped(...) of the record, or use memory.correct"
        )
    return old


def _leave(rows: MemoryRows, row: MemoryRow, record: MemoryRecord, vectors: Vectors) -> None:
    """Store a record that is superseded from now on; its vectors go with it into the history."""
    kept = rows.vectors_of(row.place, row.number) if row.place is not None else []
    changed = _with(unindex(rows, row), record)
    rows.put(index(rows, changed, vectors))
    keep_vectors(rows, -row.space, kept)


def correct(
    rows: MemoryRows, scope: MemoryScope, id: str, draft: Draft, vectors: Vectors, now: int
) -> MemoryRecord | None:
    """Add a record that corrects this one, in its scope."""
    old = found(rows, scope, id)
    if old is None or is_over(old, now):
        return None
    before = from_body(old.body)
    record = draft.record
    here = record.replace(
        scope=before.scope,
        conversation=before.conversation,
        supersedes=id,
        kind=record.kind if record.kind is not None else before.kind,
        speaker=record.speaker if record.speaker is not None else before.speaker,
        title=record.title if record.title is not None else before.title,
        meta=record.meta if record.meta is not None else before.meta,
    )
    return _save(rows, Draft(checked(here), draft.key), vectors, now)


def confirm(rows: MemoryRows, scope: MemoryScope, id: str, vectors: Vectors, now: int) -> bool:
    """Let a record out of quarantine; what it corrects leaves recall."""
    row = found(rows, scope, id)
    if row is None or row.state != "quarantined" or is_over(row, now):
        return False
    record = from_body(row.body).replace(quarantined=False)
    old = _beside(rows, row, record.supersedes) if record.supersedes is not None else None
    if old is not None and old.state == "current":
        before = from_body(old.body)
        valid_to = _earlier(before.valid_to, record.valid_from)
        _leave(
            rows,
            old,
            before.replace(superseded_by=record.id, valid_to=valid_to),
            vectors,
        )
    rows.put(index(rows, _with(row, record), vectors))
    return True


def _earlier(one: int | None, other: int | None) -> int | None:
    times = [time for time in (one, other) if time is not None]
    return min(times) if times else None


def update(
    rows: MemoryRows, scope: MemoryScope, id: str, changes: Mapping[str, Any], vectors: Vectors, now: int
) -> MemoryRecord | None:
    """Change a record in place."""
    row = found(rows, scope, id)
    if row is None or is_over(row, now):
        return None
    record = checked(from_body(row.body).replace(**changes))
    space = rows.space(row.space)
    same = _same(rows, space, record) if space is not None and row.state == "current" else None
    if same is not None and same.number != row.number:
        return _merged(rows, row, same, record)
    kept = [] if "text" in changes or "title" in changes else rows.vectors_of(row.place or 0, row.number)
    bare = unindex(rows, row)
    before = from_body(row.body).speaker
    if record.speaker != before:
        if before:
            rows.spoke(row.space, before, -1)
        if record.speaker:
            rows.spoke(row.space, record.speaker, 1)
        bare = msgspec.structs.replace(bare, speaker=speaker_number(record.speaker or ""))
    rows.put(index(rows, _with(bare, record), vectors))
    rows.derive(record.derived_from, row.number)
    keep_vectors(rows, row.place or 0, kept)
    rows.scrub()
    return record


def _merged(rows: MemoryRows, row: MemoryRow, same: MemoryRow, record: MemoryRecord) -> MemoryRecord:
    """Remove a record that now says what another one says, which is returned; what was made of it is made of that."""
    kept = _said_again(rows, same, record)
    for child in rows.rows(rows.derived(row.id)).values():
        if child.space == row.space:
            made = from_body(child.body)
            named = (kept.id if parent == row.id else parent for parent in made.derived_from)
            parents = tuple(parent for parent in dict.fromkeys(named) if parent != made.id)
            rows.put(_with(child, made.replace(derived_from=parents)))
            rows.derive(parents, child.number)
    _forget(rows, record.scope, [row], cascade=False)
    return from_body(rows.rows([same.number])[same.number].body)


def history(rows: MemoryRows, scope: MemoryScope, id: str) -> list[MemoryRecord]:
    """Return the chain of corrections that a record is in, oldest first."""
    row = found(rows, scope, id)
    if row is None:
        return []
    chain = [from_body(row.body)]
    for step in ("supersedes", "superseded_by"):
        chain.reverse()
        while (next_id := getattr(chain[-1], step)) is not None:
            other = _beside(rows, row, next_id)
            if other is None or not seen(rows, scope, other) or any(record.id == next_id for record in chain):
                break
            chain.append(from_body(other.body))
    return chain


def forget(rows: MemoryRows, scope: MemoryScope, ids: Sequence[str], *, cascade: bool) -> int:
    """Remove records with what they corrected, and with all that was made of any of these; return how many are gone."""
    return _forget(rows, scope, [row for id in ids for row in rows.with_id(id)], cascade=cascade)


def _forget(rows: MemoryRows, scope: MemoryScope, first: Iterable[MemoryRow], *, cascade: bool) -> int:
    """Remove records. Another user who names the id of one of them does not lose what names it."""
    gone: dict[int, MemoryRow] = {}
    wanted = [row for row in first if seen(rows, scope, row)]
    while wanted:
        row = wanted.pop()
        if row.number in gone:
            continue
        gone[row.number] = row
        before = from_body(row.body).supersedes
        old = _beside(rows, row, before) if before is not None else None
        if old is not None and old.state == "superseded" and seen(rows, scope, old):
            wanted.append(old)
        if cascade:
            owner = _user(rows, row)
            made = rows.rows(rows.derived(row.id)).values()
            wanted += [child for child in made if _user(rows, child) == owner and seen(rows, scope, child)]
    _removed(rows, list(gone.values()))
    return len(gone)


def forget_all(
    rows: MemoryRows, scope: MemoryScope, *, kind: str | None, origin: str | None, before: int | None
) -> int:
    """Remove all records that a scope reaches and that are as is asked for."""
    if kind is None and origin is None and before is None and scope.conversation is None:
        return _forget_spaces(rows, covered(rows, scope))
    wanted = [
        row
        for row in records_of(rows, scope)
        if (kind is None or row.kind == kind)
        and (origin is None or row.origin == origin)
        and (before is None or row.at < before)
    ]
    return _forget(rows, scope, wanted, cascade=True)


def _user(rows: MemoryRows, row: MemoryRow) -> str | None:
    space = rows.space(row.space)
    return space.user if space is not None else None


def _beside(rows: MemoryRows, row: MemoryRow, id: str) -> MemoryRow | None:
    """Return the record of an id in the space of another one: a chain of corrections lies within one space."""
    return next((other for other in rows.with_id(id) if other.space == row.space), None)


def _forget_spaces(rows: MemoryRows, spaces: Iterable[SpaceRow]) -> int:
    count = 0
    for space in spaces:
        count += rows.drop_space(space.number)
    if count:
        rows.scrub()
    return count


def end(rows: MemoryRows, scope: MemoryScope, now: int, *, limit: int = -1) -> int:
    """Remove what is past its end, with all that was made of it; limit: at most so many of them."""
    return sum(_end_in(rows, space, scope, now, limit) for space in covered(rows, scope))


def _end_in(rows: MemoryRows, space: SpaceRow, scope: MemoryScope, now: int, limit: int) -> int:
    if rows.space(space.number) is None:
        return 0  # it went with what another one's records were made of
    numbers = rows.expired(space.number, now, limit)
    return _forget(rows, scope, rows.rows(numbers).values(), cascade=True) if numbers else 0


def load(rows: MemoryRows, scope: MemoryScope, drafts: Sequence[Draft], vectors: Vectors) -> int:
    """Add records as they were exported; one that is there already stays as it is. Return how many were added."""
    count = 0
    for draft in drafts:
        record = draft.record
        space = rows.space_of(record.scope)
        if space is not None and any(row.space == space.number for row in rows.with_id(record.id)):
            continue
        key = None if space is not None and _saved_before(rows, space, draft) is not None else draft.key
        conversation = rows.conversation(space.number, record.conversation or "") if space is not None else None
        is_taken = (
            conversation is not None
            and conversation.last >= record.position
            and bool(rows.at(conversation.number, record.position))
        )
        _added(rows, Draft(record, key), vectors, None if is_taken else record.position or None)
        count += 1
    return count


def _removed(rows: MemoryRows, gone: Sequence[MemoryRow]) -> None:
    for row in gone:
        record = from_body(row.body)
        _let_go(rows, record, row)
        unindex(rows, row)
        rows.remove(row)
        if record.speaker:
            rows.spoke(row.space, record.speaker, -1)
        conversation = rows.conversation_of(row.conversation) if row.conversation else None
        if conversation is not None and conversation.records <= 1:
            rows.drop_conversation(conversation.number)
        elif conversation is not None:
            rows.put_conversation(conversation._replace(records=conversation.records - 1))
        if not rows.has_records(row.space):
            rows.drop_space(row.space)
    if gone:
        rows.scrub()


def _let_go(rows: MemoryRows, record: MemoryRecord, row: MemoryRow) -> None:
    """Let what stays behind of a chain of corrections name a removed record no more."""
    for id, name in ((record.supersedes, "superseded_by"), (record.superseded_by, "supersedes")):
        if id is None:
            continue
        for other in rows.with_id(id):
            if other.space == row.space and getattr(from_body(other.body), name) == row.id:
                rows.put(_named_no_more(other, name))


def _named_no_more(row: MemoryRow, name: str) -> MemoryRow:
    changed = from_body(row.body).replace(**{name: None})
    return msgspec.structs.replace(row, body=to_body(changed))


def is_over(row: MemoryRow, now: int) -> bool:
    """Tell whether a record is past its end."""
    return row.expires_at is not None and row.expires_at <= now
