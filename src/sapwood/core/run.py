"""Run: the whole state of a turn, and `evolve`, the only function that changes it.

Laws: a Run survives JSON at any point and a turn goes on from the copy; it keeps this turn's messages and
never the past ones; results enter the transcript in call order, so that timing never changes what a model
sees. What decide needs is a field kept here, never found by walking the transcript.
"""

from typing import ClassVar, Literal, TypeAlias, assert_never

from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    CompactionFinished,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    MessageAdded,
    MessageInterrupted,
    ProviderWaiting,
    RoundFinished,
    RoundRestarted,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.messages import Message, Recalled, Text, ToolCall, ToolResult
from sapwood.core.model import StopReason
from sapwood.core.struct import Data
from sapwood.core.usage import RoundUsage, Usage

Phase: TypeAlias = Literal["new", "idle", "calling", "replied", "paused", "ended"]
CallState: TypeAlias = Literal["asked", "started", "running", "done"]


class OpenCall(Data, frozen=True, tag="open_call"):
    """A call of the last reply and how far it has come.

    public_id: what events call it: the provider's id where that is unique in the run, else the key.
    refused: it may not run (the final round). attempt: how often its function was begun.
    """

    type: ClassVar[Literal["open_call"]] = "open_call"
    call: ToolCall
    public_id: str = ""
    state: CallState = "asked"
    refused: bool = False
    attempt: int = 0
    result: ToolResult | None = None


class Run(Data, frozen=True, tag="run"):
    """The state of one turn.

    messages: this turn's, the prompt first. phase: where in a round it is.
    round: rounds finished so far, and so the number of the one that is running or next.
    calls: the calls of the last reply, until all are answered.
    recalled: text for the system prompt of this turn. dropped: past messages, from the first, left out.
    past: past messages that replace the ones of the conversation, None where they stand.
    room: tokens that a request may take since the provider found one too long; 0 before that.
    origin: `provider/model` that answered last. broken_off: what replies used that never became complete.
    """

    type: ClassVar[Literal["run"]] = "run"
    run_id: str = ""
    conversation_id: str | None = None
    base_seq: int = 0
    phase: Phase = "new"
    messages: tuple[Message, ...] = ()
    round: int = 0
    calls: tuple[OpenCall, ...] = ()
    stop_reason: StopReason | None = None
    had_calls: bool = False
    call_ids: tuple[str, ...] = ()
    prepared: bool = False
    recalled: tuple[Recalled, ...] = ()
    loaded: tuple[str, ...] = ()
    compacted: int = -1
    dropped: int = 0
    past: tuple[Message, ...] | None = None
    lines: tuple[LedgerLine, ...] = ()
    ledger: ContextLedger | None = None
    usage: Usage = Usage()
    last_usage: Usage | None = None
    rounds: tuple[RoundUsage, ...] = ()
    texts: tuple[str, ...] = ()
    stopped_by: Cause | None = None
    output: str | None = None
    room: int = 0
    origin: str = ""
    broken_off: Usage = Usage()

    @property
    def prompt(self) -> Message | None:
        """The user's message that began the turn."""
        return self.messages[0] if self.messages and self.messages[0].role == "user" else None

    @property
    def text(self) -> str:
        """The text of all replies so far, joined."""
        return "".join(self.texts)

    def diagnostics(self, cause: Cause, error: str | None = None) -> TurnDiagnostics:
        """Return what the turn would report if it ended now for this cause."""
        # A reply whose round was never closed: the turn ended while its calls ran.
        open_reply = self.last_usage if self.phase == "replied" and self.last_usage is not None else Usage()
        return TurnDiagnostics(self.rounds, cause, error=error, broken_off=self.broken_off + open_reply)


def evolve(run: Run, event: AgentEvent) -> Run:
    """Return the run after the event. Deltas and announcements change nothing."""
    match event:
        case TurnStarted(run_id=run_id, prompt=prompt):
            messages = (*run.messages, prompt) if prompt is not None else run.messages
            return run.replace(run_id=run_id, phase="idle", messages=messages)
        case TurnResumed():
            return run.replace(phase="idle") if run.phase in ("calling", "paused") else run
        case ContextUpdated():
            return _context_updated(run, event)
        case ContextPrepared(lines=lines):
            return run.replace(prepared=True, lines=(*run.lines, *lines))
        case CompactionFinished(upto=upto, past=past):
            return run.replace(compacted=run.round, dropped=upto, past=run.past if past is None else past)
        case RoundStarted(ledger=ledger):
            return run.replace(phase="calling", ledger=ledger)
        case MessageInterrupted():
            return _interrupted(run, event)
        case MessageAdded():
            return _message_added(run, event)
        case ToolStarted(key=key):
            return _call_changed(run, key, "started", 0)
        case ToolRunning(key=key, attempt=attempt):
            return _call_changed(run, key, "running", attempt)
        case ToolFinished():
            return _tool_finished(run, event)
        case RoundFinished(usage=usage):
            return run.replace(phase="idle", round=run.round + 1, rounds=(*run.rounds, usage), lines=())
        case TurnFinished(output=output, diagnostics=diagnostics):
            cause = diagnostics.stopped_by
            phase: Phase = "paused" if cause in ("approval", "limit_ask") else "ended"
            return run.replace(phase=phase, stopped_by=cause, output=output)
        case RoundRestarted():
            return _restarted(run, event)
        case (
            TextDelta()
            | ThinkingDelta()
            | CompactionStarted()
            | ProviderWaiting()
            | ServerToolStarted()
            | ServerToolFinished()
        ):
            return run
        case _:
            assert_never(event)


def _context_updated(run: Run, event: ContextUpdated) -> Run:
    if event.op == "loaded":
        return run.replace(loaded=(*run.loaded, *(name for name in event.tools if name not in run.loaded)))
    if event.op != "recalled" or not event.text:
        return run
    block = Recalled(event.text, event.source)
    if event.placement == "system" or run.prompt is None:
        return run.replace(recalled=(*run.recalled, block))
    # Beside the prompt, and kept there, so that the prefix does not move in later turns.
    place = sum(isinstance(part, Recalled) for part in run.prompt.content)
    content = (*run.prompt.content[:place], block, *run.prompt.content[place:])
    return run.replace(messages=(run.prompt.replace(content=content), *run.messages[1:]))


def _interrupted(run: Run, event: MessageInterrupted) -> Run:
    text = event.message.text
    run = _broken_off(run.replace(phase="idle"), event.usage)
    if not text.strip():
        return run
    kept = event.message.replace(content=(Text(text),), partial=True)
    return run.replace(messages=(*run.messages, kept), texts=(*run.texts, text))


def _broken_off(run: Run, usage: Usage | None) -> Run:
    if usage is None:
        return run
    return run.replace(usage=run.usage + usage, broken_off=run.broken_off + usage)


def _restarted(run: Run, event: RoundRestarted) -> Run:
    run = _broken_off(run, event.usage)
    if not event.room:
        return run
    # The round has not begun; the history is shortened first, whatever was done for it before.
    return run.replace(phase="idle", room=event.room, compacted=run.round - 1)


def _message_added(run: Run, event: MessageAdded) -> Run:
    message = event.message
    if message.role != "assistant":
        return run.replace(messages=(*run.messages, message))
    usage = event.usage or Usage()
    ids = list(run.call_ids)
    opened: list[OpenCall] = []
    for call in message.tool_calls:
        public_id = call.id if call.id and call.id not in ids else call.key
        opened.append(OpenCall(call, public_id, refused=event.refuse_calls))
        ids.append(call.id)
    calls = tuple(opened)
    return run.replace(
        phase="replied",
        # A reply without content is no message: providers refuse it in the next request.
        messages=(*run.messages, message) if message.content else run.messages,
        calls=calls,
        call_ids=tuple(ids),
        had_calls=bool(calls),
        stop_reason=event.stop_reason,
        usage=run.usage + usage,
        last_usage=usage,
        origin=message.origin or "",
        texts=(*run.texts, message.text),
    )


def _call_changed(run: Run, key: str, state: CallState, attempt: int) -> Run:
    calls = tuple(
        item.replace(state=state, attempt=attempt or item.attempt) if item.call.key == key else item
        for item in run.calls
    )
    return run.replace(calls=calls)


def _tool_finished(run: Run, event: ToolFinished) -> Run:
    content = (Text(event.result), *(event.content or ()))
    calls = tuple(
        item.replace(
            state="done",
            result=ToolResult(
                event.key,
                item.call.name,
                content,
                is_error=event.is_error,
                loaded=event.loaded,
                details=event.details,
            ),
        )
        if item.call.key == event.key
        else item
        for item in run.calls
    )
    if any(item.state != "done" for item in calls):
        return run.replace(calls=calls)
    results = tuple(item.result for item in calls if item.result is not None)
    return run.replace(calls=calls, messages=(*run.messages, Message("tool", results)))
