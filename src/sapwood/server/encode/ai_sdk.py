"""Events as the AI SDK's UI message stream.

Laws: pure: the same events give the same chunks, however deltas were cut; a message keeps its id, which is the run's,
through every segment; what a client has of an earlier segment is not sent again; an exception's words are never sent.
Source: npm `ai` 6 (`ecosystem`: strictness tried with the real client); tools run here, so they are `providerExecuted`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import msgspec

from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    ContextUpdated,
    MessageAdded,
    MessageInterrupted,
    OutputDelta,
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
    UsageLimitReached,
)
from sapwood.core.ledger import ContextLedger
from sapwood.core.limits import LimitBreach
from sapwood.core.tools import FINAL_RESULT
from sapwood.server.encode import chunks as wire
from sapwood.server.encode.shown import PROVIDER_FAILED, finish_reason, limit_note, shown_error, shown_output, used
from sapwood.server.encode.ui_message import MessageBuilder

Chunks = list[wire.AnyChunk]
HELD = "Waits for an answer."
MAX_BYTES = 1_000_000
_json = msgspec.json.Encoder()
_Output = partial(wire.ToolOutputAvailable, dynamic=True, provider_executed=True)
_Failed = partial(wire.ToolOutputError, dynamic=True, provider_executed=True)


class AiSdkEncoder:
    """The chunks of one reader of a run.

    run_id: the id of the assistant's message. thread_id: for its metadata. max_bytes: of one chunk; a larger output of
    a tool is replaced by a note, and a larger data part is left out.

    >>> encoder = AiSdkEncoder("r1", "t1")
    >>> encoder.encode(TextDelta(text="Hello"), 0.0)[-1]
    '{"type":"text-delta","id":"t1","delta":"Hello"}'
    """

    media_type: ClassVar[str] = "text/event-stream"
    headers: ClassVar[dict[str, str]] = {"x-vercel-ai-ui-message-stream": "v1"}
    ending: ClassVar[str] = "[DONE]"

    def __init__(self, run_id: str, thread_id: str, *, max_bytes: int = MAX_BYTES) -> None:
        self._run_id = run_id
        self._thread_id = thread_id
        self._max_bytes = max_bytes
        self._turn = _Turn()
        self._has_begun = False
        self._lanes: dict[tuple[str, ...], _Lane] = {}
        self._raised: dict[tuple[str, ...], str] = {}
        self._started_at = 0.0

    def encode(self, event: AgentEvent, at: float) -> list[str]:
        """Return the JSON of the chunks of an event. at: when it came, in seconds since 1970; 0 where nobody knows."""
        if type(event) is TextDelta and (id := self._turn.open_text(event.path)):  # most of what there is
            return [f'{{"type":"text-delta","id":"{id}","delta":{_json.encode(event.text).decode()}}}']
        return [json for chunk in self.chunks(event, at) for json in self._sized(chunk)]

    def skip(self, event: AgentEvent, at: float) -> None:
        """Take in an event of an earlier segment, whose chunks the client has."""
        self.chunks(event, at)
        self._has_begun = False

    def fail(self, text: str, code: str = "internal") -> list[str]:
        """Return what tells that the run failed. text: generic, with the id of the request."""
        ended = [*self._begun(), *self._turn.closed(), wire.Error(error_text=text)]
        return [_json.encode(chunk).decode() for chunk in ended]

    def close(self) -> list[str]:
        """Return the end of the stream: the segment is over."""
        return [_json.encode(chunk).decode() for chunk in self.last_chunks()]

    def chunks(self, event: AgentEvent, at: float) -> Chunks:
        """Return the chunks of an event."""
        if isinstance(event, TurnStarted) and not event.path:
            self._started_at = at
        found = self._begun()
        if event.path:
            found += self._nested(event, at)
        else:
            found += self._turn.chunks(event, at)
        return found

    def last_chunks(self) -> Chunks:
        """Return the chunks that end the stream."""
        ended = self._turn.ended
        found: Chunks = [*self._begun(), *self._turn.closed()]
        if ended is None:
            return [*found, wire.Finish(finish_reason="other", message_metadata=self._metadata())]
        if ended.stopped_by == "cancelled":
            return [*found, wire.Abort(reason="stopped")]
        metadata = self._metadata(ended)
        return [*found, wire.Finish(finish_reason=finish_reason(ended.stopped_by), message_metadata=metadata)]

    def _sized(self, chunk: wire.AnyChunk) -> list[str]:
        """Return a chunk as JSON; what is too large is left out, and of a tool's output it is said."""
        json = _json.encode(chunk)
        if len(json) <= self._max_bytes:
            return [json.decode()]
        if isinstance(chunk, wire.ToolOutputAvailable):
            note = f"[{len(json):,} bytes, too large to be sent here]"
            return [_json.encode(_Output(tool_call_id=chunk.tool_call_id, output=note)).decode()]
        if isinstance(chunk, wire.DataSubagent):  # whoever read the lane as it went has it
            short = wire.SubagentNote(path=chunk.data.path, agent=chunk.data.agent)
            return [_json.encode(wire.DataSubagent(id=chunk.id, data=short)).decode()]
        is_note = isinstance(chunk, wire.DataContext | wire.DataOutput | wire.DataSubagentChunk)
        return [] if is_note else [json.decode()]

    def _begun(self) -> Chunks:
        if self._has_begun:
            return []
        self._has_begun = True
        return [wire.Start(message_id=self._run_id, message_metadata=self._metadata())]

    def _metadata(self, ended: TurnDiagnostics | None = None) -> wire.MessageMetadata:
        return wire.MessageMetadata(
            run_id=self._run_id,
            thread_id=self._thread_id,
            started_at=int(self._started_at * 1000),
            stopped_by=ended.stopped_by if ended is not None else "",
            usage=used(ended) if ended is not None else None,
        )

    def _nested(self, event: AgentEvent, at: float) -> Chunks:
        """Return the chunks of a subagent's event: in its lane, and what a person is asked in the message, too."""
        lane = self._lanes.setdefault(event.path, _Lane())
        inner = lane.chunks(event, at)
        found: Chunks = [
            wire.DataSubagentChunk(
                data=wire.SubagentChunk(path=event.path, agent=lane.agent, chunk=chunk), transient=True
            )
            for chunk in inner
        ]
        found += self._raise(event, at)
        if isinstance(event, TurnFinished):
            note = wire.SubagentNote(path=event.path, agent=lane.agent, parts=lane.builder.parts)
            found.append(wire.DataSubagent(id="/".join(event.path), data=note))
        return found

    def _raise(self, event: AgentEvent, at: float) -> Chunks:
        """Return a call of a subagent that waits for a person as a call of the message, by its whole id."""
        match event:
            case ApprovalRequested():
                id = "/".join((*event.path, event.tool_call_id))
                self._raised[(*event.path, event.key)] = id
                begins = wire.ToolInputStart(tool_call_id=id, tool_name=event.name, dynamic=True)
                return [begins, *_asked(event, id)]
            case ToolFinished() if id := self._raised.pop((*event.path, event.key), ""):
                denied = self._lanes[event.path].turn.was_denied(event.key)
                return [_answer(event, id, denied=denied)]
            case _:
                return []


class _Lane:
    """The turn of a subagent."""

    def __init__(self) -> None:
        self.agent = ""
        self.turn = _Turn()
        self.builder = MessageBuilder()

    def chunks(self, event: AgentEvent, at: float) -> Chunks:
        if isinstance(event, TurnStarted):
            self.agent = event.agent
        found = self.turn.chunks(event, at)
        if isinstance(event, TurnFinished):
            found += self.turn.closed()
        self.builder.add(found)
        return found


class _Turn:
    """What one turn has open: a text, a step, calls. ended: what it reported, None while it goes on."""

    def __init__(self) -> None:
        self.ended: TurnDiagnostics | None = None
        self._text: tuple[str, bool] | None = None
        self._count = 0
        self._of_round: list[str] = []
        self._in_step = False
        self._ids: dict[str, str] = {}
        self._inputs: dict[str, ToolStarted] = {}
        self._since: dict[str, float] = {}
        self._denied: set[str] = set()
        self._running: set[str] = set()
        self._max_rounds = 0

    def chunks(self, event: AgentEvent, at: float) -> Chunks:
        """Return the chunks of an event of this turn."""
        match event:
            case TextDelta(text=text):
                return self._delta(text, is_thinking=False)
            case ThinkingDelta(text=text):
                return self._delta(text, is_thinking=True)
            case ToolStarted() | ToolRunning() | ToolFinished() | ApprovalRequested() | ApprovalResolved():
                return [*self._end_text(), *self._call(event, at)]
            case RoundStarted() | RoundRestarted() | RoundFinished() | MessageAdded() | MessageInterrupted():
                return [*self._end_text(), *self._round(event)]
            case TurnFinished(output=output, diagnostics=diagnostics):
                self.ended = diagnostics
                held = self._held() if diagnostics.stopped_by == "approval" else []
                return [*held, *self.closed(), *_output(output)]
            case TurnResumed():
                self.ended = None
                return []
            case ServerToolStarted() | ServerToolFinished():
                return [*self._end_text(), *self._of_provider(event, at)]
            case _:
                return [*_notes(event)]

    def closed(self) -> Chunks:
        """Return the ends of what is open."""
        found: Chunks = self._end_text()
        if self._in_step:
            self._in_step = False
            found.append(wire.FinishStep())
        return found

    def open_text(self, path: tuple[str, ...]) -> str:
        """Return the id of the text that a delta of this turn goes on with; empty where one begins with it."""
        return self._text[0] if not path and self._text is not None and not self._text[1] else ""

    def was_denied(self, key: str) -> bool:
        """Tell whether a person said no to a call."""
        return key in self._denied

    def _delta(self, text: str, *, is_thinking: bool) -> Chunks:
        found: Chunks = []
        if self._text is None or self._text[1] != is_thinking:
            found = self._end_text()
            self._count += 1
            id = f"t{self._count}"
            self._text = (id, is_thinking)
            self._of_round.append(id)
            found.append(wire.ReasoningStart(id=id) if is_thinking else wire.TextStart(id=id))
        id = self._text[0]
        found.append(wire.ReasoningDelta(id=id, delta=text) if is_thinking else wire.TextDelta(id=id, delta=text))
        return found

    def _end_text(self) -> Chunks:
        if self._text is None:
            return []
        (id, is_thinking), self._text = self._text, None
        return [wire.ReasoningEnd(id=id) if is_thinking else wire.TextEnd(id=id)]

    def _round(self, event: AgentEvent) -> Chunks:
        match event:
            case RoundStarted(round=number, max_rounds=most, ledger=ledger):
                self._max_rounds = most
                self._of_round.clear()
                begins: Chunks = [] if self._in_step else [wire.StartStep()]
                self._in_step = True
                return [*begins, *self._ledger(number, ledger)]
            case RoundRestarted():
                void, self._of_round = tuple(self._of_round), []
                return [wire.DataVoid(data=wire.VoidNote(ids=void))] if void else []
            case RoundFinished(round=number, usage=usage):
                return [*self._ledger(number, usage.ledger), *self.closed()]
            case _:
                return []

    def _ledger(self, number: int, ledger: ContextLedger | None) -> Chunks:
        if ledger is None:
            return []
        note = wire.LedgerNote(
            round=number,
            max_rounds=self._max_rounds,
            sections={name: size for name, size in ledger.sections.items() if size},
            window=ledger.window,
            estimated_tokens=ledger.estimated_tokens,
            reported_tokens=ledger.reported_tokens,
            cached_tokens=ledger.cached_tokens,
            cost_usd=ledger.cost_usd,
        )
        return [wire.DataLedger(id=f"round-{number}", data=note)]

    def _call(self, event: AgentEvent, at: float) -> Chunks:
        match event:
            case ToolStarted(key=key, tool_call_id=id, name=name):
                if key in self._ids or name == FINAL_RESULT:
                    return []  # it is begun again after a pause, or is no tool but the output
                self._ids[key], self._inputs[key], self._since[key] = id, event, at
                return [wire.ToolInputStart(tool_call_id=id, tool_name=name, dynamic=True)]
            case ToolRunning(key=key):
                self._running.add(key)
                return self._input(key)
            case ApprovalRequested(key=key, tool_call_id=id):
                self._running.discard(key)
                self._inputs.pop(key, None)
                return _asked(event, id)
            case ApprovalResolved(key=key, approved=approved):
                if not approved:
                    self._denied.add(key)
                return []
            case ToolFinished(key=key) if key in self._ids:
                self._running.discard(key)
                answer = _answer(event, self._ids[key], denied=key in self._denied)
                return [*self._input(key), answer, *self._time(key, at)]
            case _:
                return []

    def _held(self) -> Chunks:
        """Return an output for now of each call whose subagent waits; the real one follows once it is answered.

        A client posts its answers by itself only where no call of the step is without an output or an answer.
        """
        return [_Output(tool_call_id=self._ids[key], output=HELD) for key in sorted(self._running & self._ids.keys())]

    def _input(self, key: str) -> Chunks:
        """Return the arguments of a call, once. Only now is it known whether the client is to run it."""
        started = self._inputs.pop(key, None)
        if started is None:
            return []
        return [_arguments(started.tool_call_id, started.name, started.tool_input, runs_here=True)]

    def _time(self, key: str, at: float) -> Chunks:
        since = self._since.pop(key, 0.0)
        if not since or not at:
            return []
        id = self._ids[key]
        note = wire.ToolTime(tool_call_id=id, started_at=int(since * 1000), ms=max(0, round((at - since) * 1000)))
        return [wire.DataToolTime(id=f"time-{id}", data=note)]

    def _of_provider(self, event: ServerToolStarted | ServerToolFinished, at: float) -> Chunks:
        id = event.tool_call_id
        if isinstance(event, ServerToolStarted):
            self._since[id], self._ids[id] = at, id
            begins = wire.ToolInputStart(tool_call_id=id, tool_name=event.name, dynamic=True)
            return [begins, _arguments(id, event.name, event.tool_input, runs_here=True)]
        if id not in self._ids:
            return []
        if event.is_error:
            return [_Failed(tool_call_id=id, error_text=PROVIDER_FAILED), *self._time(id, at)]
        return [_Output(tool_call_id=id, output=event.value), *self._time(id, at)]


def _arguments(id: str, name: str, value: dict[str, Any], *, runs_here: bool) -> wire.AnyChunk:
    return wire.ToolInputAvailable(
        tool_call_id=id, tool_name=name, input=value, dynamic=True, provider_executed=runs_here
    )


def _asked(event: ApprovalRequested, id: str) -> Chunks:
    """Return what a person is asked: yes or no, or the result of a tool that runs outside."""
    is_external = event.kind == "external"
    found: Chunks = [
        _arguments(id, event.name, event.tool_input, runs_here=not is_external),
        wire.DataApproval(id=id, data=approval_note(event)),
    ]
    return found if is_external else [*found, wire.ToolApprovalRequest(approval_id=id, tool_call_id=id)]


def approval_note(event: ApprovalRequested) -> wire.ApprovalNote:
    """Return what a person is asked, as clients see it."""
    return wire.ApprovalNote(
        id="/".join((*event.path, event.tool_call_id)),
        tool_call_id="/".join((*event.path, event.tool_call_id)),
        name=event.name,
        input=event.tool_input,
        kind=event.kind,
        reason=event.reason or "",
        expires_at=int(event.expires_at.timestamp() * 1000) if event.expires_at is not None else None,
        path=event.path,
    )


def _answer(event: ToolFinished, id: str, *, denied: bool) -> wire.AnyChunk:
    if not event.is_error:
        return _Output(tool_call_id=id, output=shown_output(event))
    if denied:
        return wire.ToolOutputDenied(tool_call_id=id)
    return _Failed(tool_call_id=id, error_text=shown_error(event))


def _output(text: str | None) -> Chunks:
    if text is None:
        return []
    return [wire.DataOutput(id="output", data=wire.OutputNote(value=msgspec.json.decode(text), final=True))]


def _notes(event: AgentEvent) -> Iterator[wire.AnyChunk]:
    """Yield the data parts of an event that changes nothing else."""
    match event:
        case ContextUpdated(source=source, op=op, records=records, tools=tools, skill=skill):
            note = wire.ContextNote(source=source, op=op, records=records, tools=tools, skill=skill)
            yield wire.DataContext(data=note)
        case CompactionFinished(tokens_before=before, tokens_after=after):
            yield wire.DataCompaction(data=wire.CompactionNote(tokens_before=before, tokens_after=after))
        case UsageLimitReached():
            breach = LimitBreach(event.kind, event.used, event.limit, event.scope, event.tool)
            yield wire.DataLimit(id=f"limit-{breach.name}", data=limit_note(breach))
        case OutputDelta(value=value):
            yield wire.DataOutput(id="output", data=wire.OutputNote(value=value), transient=True)
        case ProviderWaiting(round=number, seconds=seconds, attempt=attempt):
            waits = wire.WaitingNote(round=number, seconds=seconds, attempt=attempt)
            yield wire.DataWaiting(data=waits, transient=True)
        case _:
            return
