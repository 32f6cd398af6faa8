"""The two stores as users see them, over any backend: values to JSON and back, and the limits on what is taken.

Law: everything is encoded before a transaction begins and decoded after it has ended, so that none waits for it.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from sapwood.core import fault
from sapwood.core.codec import event_from_json, from_json, to_json
from sapwood.core.errors import HistoryDiverged, StoreError, TooLargeError
from sapwood.core.events import AgentEvent
from sapwood.core.journal import call_of, ends_segment, fold_journal, is_journaled
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.stored import (
    Compacted,
    Conversation,
    ConversationSummary,
    RunStatus,
    RunSummary,
    StoredRun,
    require_id,
)
from sapwood.core.struct import Data
from sapwood.stores import rules
from sapwood.stores.rows import Dated, EventRow, Rows, Titled
from sapwood.stores.rules import NewMessages, NewRun, Session

T = TypeVar("T")
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of JSON that one event or message may take."""
PROMPT_CHARACTERS = 200


class Backend(Protocol):
    """What runs transactions on rows."""

    def write(self, change: Callable[[Rows, Session], T]) -> T:
        """Run a transaction and return its result once it is durable; all or nothing of it happens."""
        ...

    def read(self, look: Callable[[Rows, Session], T]) -> T:
        """Run a transaction that changes nothing."""
        ...

    def hold(self, run_id: str, fence: int) -> None:
        """Renew this hold from time to time, until it is lost."""
        ...

    def drop(self, run_id: str) -> None:
        """Renew the hold of this run no longer."""
        ...

    def release(self, run_id: str, fence: int) -> None:
        """End a hold; where that fails, end it as soon as it can be done."""
        ...


class Runs:
    """A RunStore over a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def begin(
        self,
        run_id: str,
        conversation_id: str | None,
        base_seq: int,
        prompt: Message,
        *,
        past: Sequence[Message] = (),
        first: Sequence[AgentEvent] = (),
    ) -> int:
        """Begin a run, hold it and its conversation, and return the fence for its appends."""
        require_id(run_id, "run")
        if conversation_id is not None:
            require_id(conversation_id, "conversation")
        texts = [_message_row(message, f"the past of run {run_id!r}") for message in past]
        events = [_event_row(event, run_id) for event in first if is_journaled(event)]
        new = NewRun(run_id, conversation_id, base_seq, prompt.text[:PROMPT_CHARACTERS], texts, events)
        fence = self._backend.write(lambda rows, session: rules.begin(rows, session, new))
        self._backend.hold(run_id, fence)
        fault.point("run.begun")
        return fence

    def append(self, run_id: str, events: Sequence[AgentEvent], *, after: int, fence: int) -> int:
        """Add events, all or none, and return the version reached."""
        require_id(run_id, "run")
        kept = [(event, _event_row(event, run_id)) for event in events if is_journaled(event)]
        version = self._backend.write(lambda rows, session: rules.append(rows, session, run_id, kept, after, fence))
        if any(ends_segment(event) for event, _ in kept):
            self._backend.drop(run_id)
        return version

    def claim(self, run_id: str) -> StoredRun:
        """Take a run over, to go on with it in a new segment."""
        require_id(run_id, "run")

        def take(rows: Rows, session: Session) -> tuple[rules.Claimed, list[tuple[int, str]], list[str]]:
            claimed = rules.claim(rows, session, run_id)
            past = claimed.row.past
            return claimed, rows.events(run_id, 0), rows.past(past) if past is not None else []

        (row, version), events, past = self._backend.write(take)
        self._backend.hold(run_id, row.fence)
        try:
            run = _folded(Run(run_id, row.conversation_id, row.base_seq), events)
            before = _messages(past)
        except BaseException:
            self.release(run_id, row.fence)
            raise
        fault.point("run.claimed")
        return StoredRun(run, version, row.fence, row.conversation_id, before)

    def load(self, run_id: str) -> Run:
        """Return the run, folded from its events."""
        require_id(run_id, "run")
        row, events = self._backend.read(lambda rows, _: (rules.known(rows, run_id), rows.events(run_id, 0)))
        return _folded(Run(run_id, row.conversation_id, row.base_seq), events)

    def events(self, run_id: str, *, after: int = 0) -> list[AgentEvent]:
        """Return the events stored after this version, in order."""
        require_id(run_id, "run")
        _, found = self._backend.read(lambda rows, _: (rules.known(rows, run_id), rows.events(run_id, after)))
        return [_event(run_id, seq, text) for seq, text in found]

    def release(self, run_id: str, fence: int) -> None:
        """End a hold without an end of the segment."""
        self._backend.release(run_id, fence)

    def waiting(self, conversation_id: str | None = None) -> Sequence[RunSummary]:
        """Return the runs that are not over, the one that began last first."""
        if conversation_id is not None:
            require_id(conversation_id, "conversation")
        return self._backend.read(
            lambda rows, session: [
                _summary(item, session) for item in rows.runs(conversation_id, unfinished=True, limit=-1)
            ]
        )

    def summary(self, run_id: str) -> RunSummary:
        """Return the short form of a run."""
        require_id(run_id, "run")

        def look(rows: Rows, session: Session) -> RunSummary:
            row = rules.known(rows, run_id)
            return _summary(rows.dated(run_id) or Dated(row, 0, row.started_at), session)

        return self._backend.read(look)

    def delete(self, run_id: str) -> bool:
        """Remove a run; False where there was none."""
        require_id(run_id, "run")
        return self._backend.write(lambda rows, session: rules.delete_run(rows, session, run_id))

    def times(self, run_id: str) -> list[float]:
        """Return when each event was stored, in seconds since 1970."""
        require_id(run_id, "run")
        return self._backend.read(lambda rows, _: (rules.known(rows, run_id), rows.times(run_id))[1])

    def list(
        self,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        conversation_id: str | None = None,
        before: str | None = None,
    ) -> Sequence[RunSummary]:
        """Return runs, the one that began last first; before: those that began before this one."""
        if conversation_id is not None:
            require_id(conversation_id, "conversation")

        def look(rows: Rows, session: Session) -> Sequence[RunSummary]:
            # Whether one runs or was interrupted is not stored, so those that are not over are all looked at.
            unfinished, most = status not in (None, "ended"), -1 if status else limit
            found = rows.runs(conversation_id, unfinished=unfinished, limit=most, before=before)
            summaries = [_summary(item, session) for item in found]
            return [item for item in summaries if status is None or item.status == status][: max(0, limit)]

        return self._backend.read(look)


class Conversations:
    """A ConversationStore over a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def load(self, conversation_id: str) -> Conversation:
        """Return a conversation; of an unknown id, one without messages."""
        require_id(conversation_id, "conversation")

        def look(rows: Rows, _: Session) -> tuple[int, Sequence[tuple[int, str]]]:
            row = rows.conversation(conversation_id)
            return (row.version, rows.messages(conversation_id, row.spans)) if row is not None else (0, ())

        version, found = self._backend.read(look)
        return Conversation(conversation_id, _messages([text for _, text in found]), version)

    def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        *,
        after: int,
        run_id: str,
        fence: int,
        compacted: Compacted | None = None,
    ) -> int:
        """Add the messages of a turn and return the version reached."""
        require_id(conversation_id, "conversation")
        require_id(run_id, "run")
        what = f"conversation {conversation_id!r}"
        texts = [_message_row(message, what) for message in messages]
        compacted = compacted or Compacted()
        past = None if compacted.past is None else [_message_row(message, what) for message in compacted.past]
        new = NewMessages(texts, after, run_id, fence, compacted.upto, past)
        version = self._backend.write(lambda rows, session: rules.add_messages(rows, session, conversation_id, new))
        fault.point("conversation.appended")
        return version

    def delete(self, conversation_id: str) -> bool:
        """Remove a conversation with its runs; False where there was none."""
        require_id(conversation_id, "conversation")
        return self._backend.write(lambda rows, session: rules.delete_conversation(rows, session, conversation_id))

    def list(self, *, limit: int = 100, prefix: str = "", before: str | None = None) -> Sequence[ConversationSummary]:
        """Return the conversations whose id begins so, the one that was begun last first.

        before: only those that were begun before this one.
        """
        found = self._backend.read(lambda rows, _: rows.conversations(max(0, limit), prefix, before))
        return [_conversation_summary(item) for item in found]


def _event_row(event: AgentEvent, run_id: str) -> EventRow:
    return EventRow(_encoded(event, f"run {run_id!r}", event_from_json), call_of(event))


def _message_row(message: Message, where: str) -> str:
    return _encoded(message, where, lambda text: from_json(text, Message))


def _encoded(value: Data, where: str, read: Callable[[bytes], object]) -> str:
    """Return the JSON of a value; raises StoreError for what `read`, which reads it again, does not take.

    A value of a wrong type would be written without a word, and everything stored with it could never be read again.
    """
    kind = getattr(value, "type", type(value).__name__)
    try:
        raw = to_json(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"a {kind} of {where} is no JSON, so it cannot be stored: {error}") from error
    if len(raw) > MAX_BYTES:
        raise TooLargeError(
            f"a {kind} of {where} has {len(raw):,} bytes; {MAX_BYTES:,} can be stored. Keep such content elsewhere "
            "and hand its address on"
        )
    try:
        read(raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"a {kind} of {where} could not be read again, so it is not stored: {error}. Give each of its values the "
            "type that its class names"
        ) from error
    return raw.decode()


def _event(run_id: str, seq: int, text: str) -> AgentEvent:
    try:
        return event_from_json(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryDiverged(
            f"event {seq} of run {run_id!r} cannot be read: {error}. A newer version of sapwood may have stored it, or "
            "the file is damaged",
            run_id=run_id,
            seq=seq,
        ) from error


def _folded(run: Run, events: Sequence[tuple[int, str]]) -> Run:
    return fold_journal(run, ((seq, _event(run.run_id, seq, text)) for seq, text in events))


def _messages(texts: Sequence[str]) -> tuple[Message, ...]:
    try:
        return tuple(from_json(text, Message) for text in texts)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"a stored message cannot be read: {error}. The file is damaged, or newer than this"
        ) from error


def _summary(item: Dated, session: Session) -> RunSummary:
    row = item.row
    held = session.is_held(row)
    idle: RunStatus = "interrupted" if row.state == "open" else row.state
    return RunSummary(
        row.run_id,
        row.conversation_id,
        "running" if held else idle,
        row.stopped_by,
        row.prompt,
        _time(row.started_at),
        _time(item.updated_at),
        item.version,
        rules.holder_of(row) if held else "",
        row.error,
    )


def _conversation_summary(item: Titled) -> ConversationSummary:
    row = item.row
    return ConversationSummary(
        row.conversation_id, row.version, _time(row.started_at), _time(row.updated_at), row.holder, item.prompt
    )


def _time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, TypeError, ValueError) as error:
        raise StoreError(
            f"a stored time cannot be read: {error}. The file is damaged; take it from a backup"
        ) from error
