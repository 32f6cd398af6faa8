"""What may happen to a stored run and to a conversation, whatever keeps them.

Laws: each function is one transaction: it raises before it writes, or it writes all. One holder at a time, fenced by a
number that only grows; who was taken over learns of it at the next append, however late that comes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sapwood.core.codec import VERSION, event_from_json
from sapwood.core.errors import ConflictError, ConversationBusyError, StoreError
from sapwood.core.events import AgentEvent, TurnFinished
from sapwood.core.journal import bind, ends_segment, phase_after
from sapwood.stores.holder import Clock, Lease, Owner, leased
from sapwood.stores.rows import OPEN_END, ConversationRow, EventRow, Rows, RunRow, Span


class Session(NamedTuple):
    """Who asks: an owner, with its clock, the seconds that a hold lasts, and how to tell whether one is alive."""

    owner: Owner
    clock: Clock
    seconds: float
    alive: Callable[[Lease], bool]

    def lease(self) -> Lease:
        """Return a hold from now on."""
        return leased(self.owner, self.seconds, self.clock)

    def is_held(self, row: RunRow) -> bool:
        """Tell whether somebody alive holds the run."""
        return row.lease is not None and self.alive(row.lease)


class NewRun(NamedTuple):
    """A run to begin; past: JSON of the messages before its prompt, first: its first events."""

    run_id: str
    conversation_id: str | None
    base_seq: int
    prompt: str
    past: Sequence[str] = ()
    first: Sequence[EventRow] = ()


class NewMessages(NamedTuple):
    """A turn's messages to add, as JSON; past: JSON of what replaces the past ones, upto: how many are left out."""

    messages: Sequence[str]
    after: int
    run_id: str
    fence: int
    upto: int = 0
    past: Sequence[str] | None = None


def begin(rows: Rows, session: Session, new: NewRun) -> int:
    """Begin a run; see `RunStore.begin`."""
    if rows.run(new.run_id) is not None:
        raise ConflictError(f"run {new.run_id!r} was begun before; claim it to go on with it")
    fence = 1
    if new.conversation_id is not None:
        held = _take(rows, session, new.conversation_id, new.run_id)
        # At 0 it may well be a conversation that is kept elsewhere.
        if held.version and held.version != new.base_seq:
            raise ConflictError(
                f"conversation {new.conversation_id!r} is at version {held.version}, and the turn starts from "
                f"{new.base_seq}; load it again"
            )
        fence = held.fence
        rows.put_conversation(held)
    past = rows.put_past(new.past) if new.past else None
    rows.put_run(
        RunRow(
            new.run_id,
            new.conversation_id,
            new.base_seq,
            fence,
            prompt=new.prompt,
            past=past,
            started_at=session.clock.wall(),
            lease=session.lease(),
        )
    )
    if new.first:
        rows.add_events(new.run_id, 0, new.first, session.clock.wall())
    return fence


class Claimed(NamedTuple):
    """A run that was taken over, and its version."""

    row: RunRow
    version: int


def claim(rows: Rows, session: Session, run_id: str) -> Claimed:
    """Take a run over and return it with its version; see `RunStore.claim`."""
    row = _unfinished(rows, run_id)
    if session.is_held(row):
        raise ConflictError(
            f"run {run_id!r} is held by {holder_of(row)}, which is alive; it can be claimed once that ends"
        )
    fence = row.fence + 1
    if row.conversation_id is not None:
        held = _take(rows, session, row.conversation_id, run_id)
        fence = max(fence, held.fence)
        rows.put_conversation(held.replace(fence=fence))
    row = row.replace(fence=fence, lease=session.lease())
    rows.put_run(row)
    return Claimed(row, rows.version(run_id))


def append(
    rows: Rows, session: Session, run_id: str, events: Sequence[tuple[AgentEvent, EventRow]], after: int, fence: int
) -> int:
    """Add events to a run; see `RunStore.append`."""
    row = _unfinished(rows, run_id)
    if row.lease is None or row.fence != fence:
        raise ConflictError(
            f"run {run_id!r} is no longer held with the fence {fence}: it is at {row.fence} and held by "
            f"{holder_of(row) or 'nobody'}. Another process went on with it, or the hold was ended; claim it again"
        )
    version = rows.version(run_id)
    if version != after:
        raise ConflictError(f"run {run_id!r} is at version {version}, not at {after}; load it again")
    end = _end_of(run_id, [event for event, _ in events])
    _check_calls(rows, run_id, events)
    rows.add_events(run_id, after, [entry for _, entry in events], session.clock.wall())
    if end is not None:
        state = "paused" if phase_after(end) == "paused" else "ended"
        _let_go(rows, row.replace(state=state, stopped_by=end.stopped_by, error=end.diagnostics.error))
    elif row.state == "paused" and events:
        rows.put_run(row.replace(state="open"))
    return after + len(events)


def release(rows: Rows, run_id: str, fence: int) -> None:
    """End a hold; see `RunStore.release`."""
    row = rows.run(run_id)
    if row is not None and row.lease is not None and row.fence == fence:
        _let_go(rows, row)


def renew(rows: Rows, session: Session, held: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Renew the holds of these runs and fences; return those that are still held."""
    kept: list[tuple[str, int]] = []
    for run_id, fence in held:
        row = rows.run(run_id)
        if row is not None and row.lease is not None and row.fence == fence:
            rows.put_run(row.replace(lease=session.lease()))
            kept.append((run_id, fence))
    return kept


def delete_run(rows: Rows, session: Session, run_id: str) -> bool:
    """Remove a run; see `RunStore.delete`."""
    row = rows.run(run_id)
    if row is None:
        return False
    if session.is_held(row):
        raise ConflictError(f"run {run_id!r} is held by {holder_of(row)}, which is alive; stop it, then delete it")
    _let_go(rows, row)
    rows.drop_run(row)
    return True


def known(rows: Rows, run_id: str) -> RunRow:
    """Return a run; raises StoreError for an unknown id."""
    row = rows.run(run_id)
    if row is None:
        raise StoreError(f"there is no run {run_id!r} in this store")
    if row.format > VERSION:
        raise StoreError(
            f"run {run_id!r} was stored in form {row.format} by a newer version of sapwood; this one reads up to "
            f"{VERSION}"
        )
    return row


def holder_of(row: RunRow) -> str:
    """Return who holds a run, for people; empty where nobody does."""
    if row.lease is None:
        return ""
    return f"{row.lease.owner.host.partition('/')[0]}:{row.lease.owner.pid}"


def add_messages(rows: Rows, session: Session, conversation_id: str, new: NewMessages) -> int:
    """Add a turn's messages to a conversation; see `ConversationStore.append`."""
    now = session.clock.wall()
    row = rows.conversation(conversation_id) or ConversationRow(conversation_id, started_at=now)
    _check_fence(rows, session, row, new)
    reached = rows.turn(conversation_id, new.run_id)
    if reached is not None:
        return reached
    if row.version != new.after:
        raise ConflictError(
            f"conversation {conversation_id!r} is at version {row.version}, not at {new.after}; load it again"
        )
    spans, version = row.spans, row.version
    rows.put_conversation(row)
    if new.past is not None or new.upto:
        spans, version = _compacted(rows, row, new)
    rows.add_messages(conversation_id, version + 1, new.messages)
    version += len(new.messages)
    rows.put_turn(conversation_id, new.run_id, version)
    fence = max(row.fence, new.fence)
    rows.put_conversation(row.replace(spans=spans, version=version, fence=fence, updated_at=now))
    return version


def delete_conversation(rows: Rows, session: Session, conversation_id: str) -> bool:
    """Remove a conversation and its runs; see `ConversationStore.delete`."""
    row = rows.conversation(conversation_id)
    runs = rows.runs(conversation_id, unfinished=False, limit=-1)
    for item in runs:
        if session.is_held(item.row):
            raise ConversationBusyError(
                f"run {item.row.run_id!r} runs on conversation {conversation_id!r}, held by {holder_of(item.row)}; "
                "stop it, then delete the conversation",
                run_id=item.row.run_id,
            )
    for item in runs:
        rows.drop_run(item.row)
    if row is not None:
        rows.drop_conversation(conversation_id)
    return row is not None


def _take(rows: Rows, session: Session, conversation_id: str, run_id: str) -> ConversationRow:
    """Return the conversation, held by this run; whoever is dead and held it does so no longer."""
    now = session.clock.wall()
    row = rows.conversation(conversation_id) or ConversationRow(conversation_id, started_at=now, updated_at=now)
    before = rows.run(row.holder) if row.holder is not None and row.holder != run_id else None
    if before is not None and session.is_held(before):
        raise ConversationBusyError(
            f"conversation {conversation_id!r} is held by run {before.run_id!r} ({holder_of(before)}); its turn has to "
            "end first",
            run_id=before.run_id,
        )
    if before is not None:
        rows.put_run(before.replace(lease=None))
    return row.replace(fence=row.fence + 1, holder=run_id)


def _let_go(rows: Rows, row: RunRow) -> None:
    rows.put_run(row.replace(lease=None))
    held = rows.conversation(row.conversation_id) if row.conversation_id is not None else None
    if held is not None and held.holder == row.run_id:
        rows.put_conversation(held.replace(holder=None))


def _unfinished(rows: Rows, run_id: str) -> RunRow:
    row = known(rows, run_id)
    if row.state == "ended":
        raise StoreError(f"run {run_id!r} has ended ({row.stopped_by}); nothing can be added to it, begin a new one")
    return row


def _end_of(run_id: str, events: Sequence[AgentEvent]) -> TurnFinished | None:
    ends = [place for place, event in enumerate(events) if ends_segment(event)]
    if not ends:
        return None
    if ends[0] != len(events) - 1:
        raise StoreError(
            f"turn_finished ends a segment of run {run_id!r}, and {events[ends[0] + 1].type} comes after it"
        )
    end = events[-1]
    return end if isinstance(end, TurnFinished) else None


def _check_calls(rows: Rows, run_id: str, events: Sequence[tuple[AgentEvent, EventRow]]) -> None:
    expected: dict[str, str] = {}
    for event, entry in events:
        call = entry.call
        if call is None:
            continue
        if call not in expected:
            expected[call] = ""
            for earlier in rows.events_of_call(run_id, call):
                expected[call] = bind(expected[call], event_from_json(earlier))
        expected[call] = bind(expected[call], event)


def _check_fence(rows: Rows, session: Session, row: ConversationRow, new: NewMessages) -> None:
    holder = rows.run(row.holder) if row.holder is not None else None
    if new.fence == 0:
        if holder is not None and session.is_held(holder):
            raise ConflictError(
                f"conversation {row.conversation_id!r} is held by run {holder.run_id!r}; only that run may add to it"
            )
        return
    # A higher one comes from runs that are kept in another store, which counts for itself.
    if new.fence < row.fence or (row.holder is not None and row.holder != new.run_id):
        raise ConflictError(
            f"run {new.run_id!r} holds conversation {row.conversation_id!r} no longer: its fence is {new.fence}, and "
            f"the conversation is at {row.fence}. Another turn went on with it; load it again"
        )


def _compacted(rows: Rows, row: ConversationRow, new: NewMessages) -> tuple[tuple[Span, ...], int]:
    """Return what the conversation shows from now on. Messages that stay are pointed at; only new ones are written."""
    shown = rows.messages(row.conversation_id, row.spans)
    marker = row.version + 1  # so that two compactions at one version are noticed
    if new.past is None:
        numbers = [number for number, _ in shown[new.upto :]]
        return _spans(numbers, marker), marker
    numbers = list[int]()
    places: dict[str, list[int]] = {}
    for number, text in reversed(shown):
        places.setdefault(text, []).append(number)
    fresh: list[str] = []
    for text in new.past:
        if found := places.get(text):
            numbers.append(found.pop())
        else:
            fresh.append(text)
            numbers.append(marker + len(fresh))
    rows.add_messages(row.conversation_id, marker + 1, fresh)
    return _spans(numbers, marker + len(fresh)), marker + len(fresh)


def _spans(numbers: Sequence[int], last: int) -> tuple[Span, ...]:
    spans: list[Span] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return (*spans, (last + 1, OPEN_END))
