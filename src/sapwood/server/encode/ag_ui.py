"""The events of a run as AG-UI 1.0: a second face of the stream that `ai_sdk` encodes.

Laws: what is opened is closed before the run finishes; the start and the arguments of a call are told once, also
where a pause lies between it and its result; a pause is told with the state and the messages before it; no failure
says more than `shown_error` or the caller does.
Source: AG-UI 1.0 (PyPI `ag-ui-protocol`, npm `@ag-ui/client`), which the tests hold this to.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias

import msgspec

from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    MessageInterrupted,
    Path,
    RoundFinished,
    RoundRestarted,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from sapwood.core.journal import PAUSES
from sapwood.core.json_object import is_object
from sapwood.core.messages import Message, Thinking
from sapwood.server.encode.ag_ui_input import AgUiRequest
from sapwood.server.encode.ag_ui_interrupts import Interrupt, interrupts_of
from sapwood.server.encode.ag_ui_lane import Lane
from sapwood.server.encode.ag_ui_messages import ClientMessages, content_of
from sapwood.server.encode.ag_ui_notes import ledger, note, output
from sapwood.server.encode.ag_ui_usage import UsageByModel
from sapwood.server.encode.shown import shown_error

PROTOCOL = "1.0"
STOPPED = "Stopped."
MAX_BYTES = 1_000_000

Wired: TypeAlias = dict[str, Any]
Flow: TypeAlias = Iterator[Wired]


class AgUiEncoder:
    """Encodes one segment of a run for one reader; JSON texts come out, each the data of one SSE event.

    segment: the client's name for this stream, as a resume is a run of its own there; the run's id without one.
    request: what the client posted, so that snapshots keep what it holds; without it a snapshot names this run alone.
    max_bytes: of one event; a larger result of a tool is replaced by a note.

    >>> encoder = AgUiEncoder("r1", "t1")
    >>> encoder.encode(TextDelta(text="hello"), 0.0)[1]
    '{"type":"TEXT_MESSAGE_START","messageId":"r1:0","role":"assistant","timestamp":0}'
    """

    media_type: ClassVar[str] = "text/event-stream"
    headers: ClassVar[dict[str, str]] = {}
    ending: ClassVar[str] = ""

    def __init__(
        self,
        run_id: str,
        thread_id: str,
        *,
        segment: str = "",
        request: AgUiRequest | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self._run_id = run_id
        self._thread_id = thread_id
        self._segment = segment or run_id
        self._state = request.state if request is not None else None
        self._messages = ClientMessages(run_id, request.messages if request is not None else ())
        self._lanes: dict[str, Lane] = {}
        self._usage = UsageByModel()
        self._replies: dict[str, str] = {}  # by call, the reply that holds it
        self._end: TurnFinished | None = None
        self._now: int | None = None
        self._has_begun = False
        self._is_over = False

    def encode(self, event: AgentEvent, at: float) -> list[str]:
        """Return what this event is told as. at: seconds since 1970."""
        self._now = int(at * 1000)
        told = [*self._begun()]
        self._usage.add(event)
        told += self._events(event)
        return [self._json(item) for item in told]

    def skip(self, event: AgentEvent, at: float) -> None:
        """Take note of an event of an earlier segment, which the client has been told."""
        for _ in self._events(event):
            pass

    def fail(self, text: str, code: str = "internal") -> list[str]:
        """Return the end of a stream whose run failed, or could not begin. text: for a person, and generic."""
        if self._is_over:
            return []
        self._is_over = self._has_begun = True
        return [self._json({"type": "RUN_ERROR", "message": text, "code": code, **self._usage.wire()})]

    def close(self) -> list[str]:
        """Return the end of the segment: done, waiting for answers, or stopped where no event said that it ended."""
        if self._is_over:
            return []
        told = [*self._begun(), *self._closed()]
        self._is_over = True
        return [self._json(item) for item in told]

    # -- the stream ------------------------------------------------------------------------------

    def _begun(self) -> Flow:
        if self._has_begun:
            return
        self._has_begun = True
        self._end = None
        for lane in self._lanes.values():
            lane.rest()
        yield {
            "type": "RUN_STARTED",
            "threadId": self._thread_id,
            "runId": self._segment,
            "protocolVersion": PROTOCOL,
            "metadata": {"sapwood": {"runId": self._run_id}},
        }

    def _closed(self) -> Flow:
        end = self._end
        interrupts = interrupts_of(end.diagnostics) if end is not None else ()
        for lane in sorted(self._lanes.values(), key=lambda lane: -len(lane.path)):
            yield from self._lane_closed(lane)
            if lane.is_active:
                yield _suspended(lane) if interrupts else _failed(lane, STOPPED)
        stopped = end is None or end.stopped_by == "cancelled"
        status = "waiting" if interrupts else "stopped" if stopped else "ended"
        held: Any = self._state if self._state is not None else {}
        if is_object(held) and (interrupts or "sapwood" in held):
            own = {"runId": self._run_id, "status": status, "waiting": [item.id for item in interrupts]}
            yield {"type": "STATE_SNAPSHOT", "snapshot": {**held, "sapwood": own}}
        if interrupts:
            yield self._snapshot()
        yield {
            "type": "RUN_FINISHED",
            "threadId": self._thread_id,
            "runId": self._segment,
            "outcome": _outcome(interrupts, stopped=stopped),
            **_result(end if not interrupts and not stopped else None),
            **self._usage.wire(),
            "metadata": {"sapwood": {"runId": self._run_id, "stoppedBy": end.stopped_by if end else "cancelled"}},
        }

    def _events(self, event: AgentEvent) -> Flow:
        lane = self._lane(event.path)
        for told in self._told(event, lane):
            yield _of(lane, told)

    def _told(self, event: AgentEvent, lane: Lane) -> Flow:
        match event:
            case TurnStarted():
                yield from self._turn_started(event, lane)
            case TurnResumed():
                yield from self._announced(lane)
                if lane.in_round:
                    yield from lane.step_started()
            case RoundStarted():
                lane.begin_round(event.round, self._messages.reply_id(lane.path, event.round))
                yield from lane.step_started()
                yield from ledger(event)
            case TextDelta(text=text):
                yield from self._text(lane, text)
            case ThinkingDelta(text=text):
                yield from self._thinking(lane, text)
            case RoundRestarted():
                yield from self._restarted(lane)
            case MessageAdded(message=message) | MessageInterrupted(message=message):
                if message.role == "assistant":
                    yield from self._settled(lane, message)
            case ToolStarted() | ServerToolStarted():
                yield from self._called(event, lane)
            case ToolFinished():
                yield from self._answered(event, lane)
                if event.output is not None:
                    yield output(event.output)
            case ServerToolFinished():
                yield from self._answered(event, lane)
            case RoundFinished():
                yield from ledger(event)
                lane.in_round = False
                yield from lane.step_finished()
            case TurnFinished():
                yield from self._turn_finished(event, lane)
            case _:
                yield from note(event)

    def _lane(self, path: Path) -> Lane:
        id = "/".join(path)
        if id not in self._lanes:
            self._lanes[id] = Lane(path, self._messages.reply_id(path, 0))
        return self._lanes[id]

    # -- turns -----------------------------------------------------------------------------------

    def _turn_started(self, event: TurnStarted, lane: Lane) -> Flow:
        lane.name = event.agent or lane.name
        if event.prompt is not None and not lane.path:
            self._messages.add_prompt(event.prompt)
        yield from self._announced(lane)

    def _announced(self, lane: Lane) -> Flow:
        if not lane.path or lane.is_announced:
            return
        lane.is_announced = True
        above = {"parentSubagentRunId": "/".join(lane.path[:-1])} if len(lane.path) > 1 else {}
        yield {
            "type": "SUBAGENT_STARTED",
            "subagentRunId": lane.id,
            "name": lane.name,
            "parentToolCallId": lane.id,
            **above,
        }

    def _turn_finished(self, event: TurnFinished, lane: Lane) -> Flow:
        yield from self._lane_closed(lane)
        if not lane.path:
            self._end = event
            return
        if not lane.is_active:
            return
        if event.stopped_by in PAUSES:
            yield _suspended(lane, *(item for item in interrupts_of(event.diagnostics) if _is_of(item, lane)))
        elif event.stopped_by in ("error", "cancelled"):
            yield _failed(lane, STOPPED)
        else:
            lane.is_over = True
            done = {"type": "SUBAGENT_FINISHED", "subagentRunId": lane.id, "outcome": {"type": "success"}}
            yield {**done, **_result(event)}

    def _lane_closed(self, lane: Lane) -> Flow:
        for told in (*self._text_closed(lane), *self._thinking_closed(lane), *lane.step_finished()):
            yield _of(lane, told)

    # -- replies ---------------------------------------------------------------------------------

    def _text(self, lane: Lane, text: str) -> Flow:
        if not text:
            return
        yield from self._thinking_closed(lane)
        if not lane.has_text_open:
            lane.has_text_open = True
            if self._messages.has_stale(lane.reply):
                yield self._snapshot()
            self._messages.open_text(lane.reply, lane.id)
            yield {"type": "TEXT_MESSAGE_START", "messageId": lane.reply, "role": "assistant"}
        lane.text.append(text)
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": lane.reply, "delta": text}

    def _text_closed(self, lane: Lane) -> Flow:
        if lane.has_text_open:
            lane.has_text_open = False
            self._messages.write(lane.reply, "".join(lane.text))
            yield {"type": "TEXT_MESSAGE_END", "messageId": lane.reply}

    def _thinking(self, lane: Lane, text: str) -> Flow:
        if not text:
            return
        if not lane.has_thinking_open:
            lane.has_thinking_open = True
            self._messages.open_thinking(lane.thought, lane.id)
            yield {"type": "REASONING_START", "messageId": lane.thought}
            yield {"type": "REASONING_MESSAGE_START", "messageId": lane.thought, "role": "reasoning"}
        lane.thinking.append(text)
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": lane.thought, "delta": text}

    def _thinking_closed(self, lane: Lane) -> Flow:
        if lane.has_thinking_open:
            lane.has_thinking_open = False
            self._messages.write(lane.thought, "".join(lane.thinking))
            yield {"type": "REASONING_MESSAGE_END", "messageId": lane.thought}
            yield {"type": "REASONING_END", "messageId": lane.thought}

    def _settled(self, lane: Lane, message: Message) -> Flow:
        """Tell the rest of a reply that is complete: all of it where nothing was streamed, as from a journal."""
        thought = "".join(part.text for part in message.content if isinstance(part, Thinking))
        rest, is_other = _rest(thought, "".join(lane.thinking))
        if not is_other:
            yield from self._thinking(lane, rest)
        yield from self._thinking_closed(lane)
        rest, is_other = _rest(message.text, "".join(lane.text))
        if not is_other:
            yield from self._text(lane, rest)
        yield from self._text_closed(lane)
        if is_other:
            self._messages.write(lane.reply, message.text)
            yield self._snapshot()

    def _restarted(self, lane: Lane) -> Flow:
        yield from self._text_closed(lane)
        yield from self._thinking_closed(lane)
        if not lane.text and not lane.thinking:
            return
        self._messages.void(lane.reply)
        self._messages.void(lane.thought)
        lane.text, lane.thinking = [], []
        yield self._snapshot()

    def _snapshot(self) -> Wired:
        for lane in self._lanes.values():
            if lane.has_text_open and lane.text:
                self._messages.write(lane.reply, "".join(lane.text))
            if lane.has_thinking_open and lane.thinking:
                self._messages.write(lane.thought, "".join(lane.thinking))
        return {"type": "MESSAGES_SNAPSHOT", "messages": list(self._messages.all())}

    # -- tools -----------------------------------------------------------------------------------

    def _called(self, event: ToolStarted | ServerToolStarted, lane: Lane) -> Flow:
        id = "/".join((*event.path, event.tool_call_id))
        if id in self._replies:
            return
        self._replies[id] = lane.reply
        arguments = msgspec.json.encode(event.tool_input).decode()
        yield from self._thinking_closed(lane)
        self._messages.add_call(lane.reply, lane.id, id, event.name, arguments)
        yield {
            "type": "TOOL_CALL_START",
            "toolCallId": id,
            "toolCallName": event.name,
            "parentMessageId": lane.reply,
        }
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": id}

    def _answered(self, event: ToolFinished | ServerToolFinished, lane: Lane) -> Flow:
        id = "/".join((*event.path, event.tool_call_id))
        error = shown_error(event) if event.is_error else None
        yield from self._left(id, error or STOPPED)
        content = error if error is not None else _content(event)
        result = f"{self._run_id}:{id}:result"
        self._messages.add_result(result, lane.id, id, content, error=error)
        failed = {"metadata": {"sapwood": {"isError": True}}} if error is not None else {}
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": result,
            "toolCallId": id,
            "content": content,
            "role": "tool",
            **failed,
        }

    def _left(self, call: str, text: str) -> Flow:
        """Close the subagent of a call that is answered, and those below it, where they raised: nothing else tells."""
        for lane in sorted(self._lanes.values(), key=lambda lane: -len(lane.path)):
            if lane.is_active and f"{lane.id}/".startswith(f"{call}/"):
                yield from self._lane_closed(lane)
                yield _failed(lane, text)

    def _json(self, told: Wired) -> str:
        stamp = {} if self._now is None else {"timestamp": self._now}
        json = msgspec.json.encode({**told, **stamp})
        if len(json) > self._max_bytes and told["type"] == "TOOL_CALL_RESULT":
            note = f"[{len(json):,} bytes, too large to be sent here]"
            json = msgspec.json.encode({**told, **stamp, "content": note})
        return json.decode()


def _of(lane: Lane, told: Wired) -> Wired:
    if not lane.id or "subagentRunId" in told or told["type"] == "MESSAGES_SNAPSHOT":
        return told
    return {**told, "subagentRunId": lane.id}


def _suspended(lane: Lane, *interrupts: Interrupt) -> Wired:
    lane.is_over = True
    outcome = {"type": "suspended", "interruptIds": [item.id for item in interrupts]}
    return {"type": "SUBAGENT_FINISHED", "subagentRunId": lane.id, "outcome": outcome}


def _failed(lane: Lane, text: str) -> Wired:
    lane.is_over = True
    return {"type": "SUBAGENT_ERROR", "subagentRunId": lane.id, "message": text}


def _is_of(item: Interrupt, lane: Lane) -> bool:
    """Tell whether a subagent asks itself, not one below it."""
    return item.request is not None and item.request.path == lane.path


def _outcome(interrupts: tuple[Interrupt, ...], *, stopped: bool) -> Wired:
    if interrupts:
        return {"type": "interrupt", "interrupts": [item.wire() for item in interrupts]}
    return {"type": "cancelled" if stopped else "success"}


def _result(end: TurnFinished | None) -> Wired:
    if end is None:
        return {}
    return {"result": end.text if end.output is None else msgspec.json.decode(end.output)}


def _rest(whole: str, streamed: str) -> tuple[str, bool]:
    """Return what of a text was not streamed, and whether something else was."""
    return (whole[len(streamed) :], False) if whole.startswith(streamed) else ("", True)


def _content(event: ToolFinished | ServerToolFinished) -> Any:
    """Return what a tool returned: its media as parts, a text as it is, and anything else as JSON."""
    if isinstance(event, ToolFinished):
        if event.content is not None:
            return content_of(event.result, event.content)
        if event.value is None:
            return event.result
    if isinstance(event.value, str):
        return event.value
    return "" if event.value is None else msgspec.json.encode(event.value).decode()
