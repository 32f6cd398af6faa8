"""The questions of a paused run as AG-UI interrupts, and what a client answers to them.

Laws: an interrupt is made of the stored run and answers are read against it, never against what a client says of a
call; one resume answers every open interrupt; an id names one question only, so that a resume that is sent
twice never answers a later one.
Source: AG-UI 1.0, "Interrupts".
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from sapwood.core.approval import Answer, ApprovalDecision, ApprovalRequest, ExternalResult, WaitKind
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.errors import ConfigError
from sapwood.core.journal import PAUSES
from sapwood.core.json_object import is_object
from sapwood.core.limits import LimitBreach
from sapwood.core.require import MOST, is_number, shown

Schema: TypeAlias = dict[str, Any]

_REASONS: dict[WaitKind, str] = {"approval": "tool_call", "external": "input_required", "unknown": "confirmation"}
_APPROVED: Schema = {"approved": {"type": "boolean"}, "reason": {"type": "string"}}
_EDITED: Schema = {"editedArgs": {"type": "object", "description": "All arguments to run it with instead."}}
_SCHEMAS: dict[WaitKind, Schema] = {
    "approval": {"type": "object", "properties": {**_APPROVED, **_EDITED}, "required": ["approved"]},
    "external": {
        "type": "object",
        "properties": {"result": {"description": "What the tool returned."}, "isError": {"type": "boolean"}},
        "required": ["result"],
    },
    "unknown": {"type": "object", "properties": _APPROVED, "required": ["approved"]},
}
_LIMIT_SCHEMA: Schema = {
    "type": "object",
    "properties": {"extend": {"type": "number", "minimum": 0, "description": "How much more; 0 lets it stand."}},
    "required": ["extend"],
}
_ABANDONED = "the question was left without an answer"


class Interrupt(msgspec.Struct, frozen=True):
    """A question of a paused run: of a call, or of a limit."""

    request: ApprovalRequest | None = None
    limit: LimitBreach | None = None

    @property
    def id(self) -> str:
        """What a resume calls it; unlike the id of the call, it is that of one question only."""
        if self.limit is not None:
            return f"sapwood:limit:{self.limit.name}:{self.limit.limit:.15g}"
        if self.request is None:
            raise ConfigError("an interrupt is of a request or of a limit; this one has neither")
        return f"sapwood:unknown:{self.request.id}" if self.request.kind == "unknown" else self.request.id

    @property
    def reason(self) -> str:
        """Why the run stopped, in the protocol's words."""
        return _REASONS[self.request.kind] if self.request is not None else "sapwood:limit"

    @property
    def schema(self) -> Schema:
        """The JSON Schema of the answer."""
        return _SCHEMAS[self.request.kind] if self.request is not None else _LIMIT_SCHEMA

    def is_expired(self, now: datetime) -> bool:
        """Tell whether it can be answered no longer."""
        expires_at = self.request.expires_at if self.request is not None else None
        return expires_at is not None and expires_at <= now

    def wire(self) -> dict[str, Any]:
        """Return what the client is sent: also what the function will get, as a hook may have changed that."""
        about: dict[str, Any] = {"id": self.id, "reason": self.reason, "responseSchema": self.schema}
        if self.limit is not None:
            more = {"name": self.limit.name, "used": self.limit.used, "limit": self.limit.limit}
            return {**about, "message": f"{self.limit} is reached. Go on?", "metadata": {"sapwood": more}}
        request = self.request
        if request is None:
            return about
        about["message"] = _question(request)
        about["toolCallId"] = request.id
        about["metadata"] = {"sapwood": {"kind": request.kind, "name": request.name, "input": request.tool_input}}
        if request.expires_at is not None:
            about["expiresAt"] = request.expires_at.isoformat()
        if request.path:
            about["subagentRunId"] = "/".join(request.path)
        return about


class Resume(msgspec.Struct, frozen=True):
    """What a client says to one interrupt. is_cancelled: it was left without an answer."""

    interrupt_id: str
    is_cancelled: bool = False
    payload: Any = None


class AgUiAnswers(msgspec.Struct, frozen=True):
    """What a resume says. decisions: by the id of a request; extend: by the name of a limit, None where none asks."""

    decisions: dict[str, Answer] = {}
    extend: dict[str, float] | None = None


def open_interrupts(waiting: Iterable[ApprovalRequest], limits: Iterable[LimitBreach] = ()) -> tuple[Interrupt, ...]:
    """Return the questions of a run: the calls that wait, and the limits that a person is asked about.

    >>> [item.reason for item in open_interrupts([ApprovalRequest("c1", "send", {})])]
    ['tool_call']
    """
    by_name = {breach.name: Interrupt(limit=breach) for breach in limits}
    return (*(Interrupt(request) for request in waiting), *by_name.values())


def interrupts_of(diagnostics: TurnDiagnostics) -> tuple[Interrupt, ...]:
    """Return the questions at which a turn ended; none where it is over."""
    if diagnostics.stopped_by not in PAUSES:
        return ()
    return open_interrupts(diagnostics.waiting, _asking(diagnostics))


def read_answers(resume: Sequence[Resume] | None, waiting: Sequence[Interrupt], now: datetime) -> AgUiAnswers:
    """Return what a resume answers to the open questions of a run.

    resume: None where the client sent none. Raises ConfigError where it leaves a question out, answers what was not
    asked or is expired, or what it says does not fit the question.

    >>> asked = open_interrupts([ApprovalRequest("c1", "send", {})])
    >>> said = [Resume("c1", payload={"approved": True})]
    >>> read_answers(said, asked, datetime(2026, 1, 1)).decisions["c1"].approved
    True
    """
    by_id = {item.id: item for item in waiting}
    said = {entry.interrupt_id: entry for entry in resume or ()}
    if unknown := [id for id in said if id not in by_id]:
        known = ", ".join(by_id) or "none"
        raise ConfigError(f"resume names interrupt {unknown[0]!r}, which is not open; those that are: {known}")
    if missing := [id for id in by_id if id not in said]:
        raise ConfigError(
            f"the thread waits for an answer to {', '.join(missing)}; send one `resume` with an entry for each"
        )
    decisions: dict[str, Answer] = {}
    extend: dict[str, float] = {}
    for id, item in by_id.items():
        if item.is_expired(now) and not said[id].is_cancelled:
            raise ConfigError(f"interrupt {id!r} has expired and can only be cancelled")
        if item.limit is not None:
            extend[item.limit.name] = _amount(said[id])
        elif item.request is not None:
            decisions[item.request.id] = _decision(said[id], item.request.kind)
    return AgUiAnswers(decisions, extend if any(item.limit is not None for item in waiting) else None)


def _asking(diagnostics: TurnDiagnostics) -> Iterator[LimitBreach]:
    if diagnostics.stopped_by == "limit_ask":
        yield from diagnostics.limits
    for child in diagnostics.children:
        yield from _asking(child.diagnostics)


def _question(request: ApprovalRequest) -> str:
    match request.kind:
        case "approval":
            asked = f"Run {request.name}?"
        case "external":
            asked = f"{request.name} runs outside. What did it return?"
        case "unknown":
            asked = f"{request.name} was cut off and may have had its effect. Run it again?"
    return f"{asked} ({request.reason})" if request.reason else asked


def _amount(entry: Resume) -> float:
    if entry.is_cancelled:
        return 0
    amount: Any = _fields(entry, ("extend",)).get("extend")
    if not is_number(amount) or not 0 <= amount <= MOST:
        raise ConfigError(f"the payload for {entry.interrupt_id!r} is {{extend: a number from 0}}, not {shown(amount)}")
    return float(amount)


def _decision(entry: Resume, kind: WaitKind) -> Answer:
    if entry.is_cancelled:
        return ApprovalDecision(approved=False, reason=_ABANDONED)
    if kind == "external":
        fields = _fields(entry, ("result", "isError"))
        if "result" not in fields or not isinstance(fields.get("isError", False), bool):
            raise ConfigError(f"the payload for {entry.interrupt_id!r} is {{result: any, isError?: true or false}}")
        return ExternalResult(fields["result"], is_error=fields.get("isError", False))
    if kind == "unknown" and isinstance(entry.payload, bool):
        return ApprovalDecision(approved=entry.payload)  # a confirmation is a yes or no where nothing else is said
    fields = _fields(entry, ("approved", "reason", *(("editedArgs",) if kind == "approval" else ())))
    approved, edited = fields.get("approved"), fields.get("editedArgs")
    if not isinstance(approved, bool):
        raise ConfigError(f"the payload for {entry.interrupt_id!r} says approved: true or false, not {shown(approved)}")
    if edited is not None and not approved:
        raise ConfigError(f"the payload for {entry.interrupt_id!r} denies the call and edits it; send one of the two")
    return ApprovalDecision(approved, fields.get("reason"), edited)


def _fields(entry: Resume, known: Sequence[str]) -> dict[str, Any]:
    """Return the payload as an object; a field that is not known, such as a misspelt editedArgs, is refused."""
    payload = entry.payload
    if not is_object(payload):
        raise ConfigError(f"the payload for {entry.interrupt_id!r} is an object, not {shown(payload)}")
    if unknown := [name for name in payload if name not in known]:
        raise ConfigError(
            f"the payload for {entry.interrupt_id!r} has {unknown[0]!r}, which it cannot; it has: {', '.join(known)}"
        )
    return payload
