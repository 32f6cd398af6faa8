"""What people answer to a paused run, as events.

Laws: an answer is looked up in the stored run, never in what a client sends; it fits exactly one call that waits, and
is used once; after its expiry a call is denied, whatever the answer.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from sapwood.core.approval import Answer, ApprovalDecision, ExternalResult
from sapwood.core.errors import ConfigError, ConflictError
from sapwood.core.events import AgentEvent, ApprovalRequested, ApprovalResolved, LimitExtended
from sapwood.core.limits import LimitBreach
from sapwood.core.render_result import json_of
from sapwood.core.require import MOST, is_number, require_mapping, require_text, shown
from sapwood.core.run import Run
from sapwood.loop.answers import settled
from sapwood.loop.gate import Gate, remember


class Answers(msgspec.Struct, frozen=True):
    """What a person answers.

    decisions: by `ApprovalRequest.id`, whole: a part of one may be the id of another call.
    extend: by how much limits are raised, by kind; empty to let them stand, None where nothing is said of limits.
    by: who answers, for the record.

    Raises ConfigError for what is no such dictionary, number or text: it would be stored, and never be read back.
    """

    decisions: Mapping[str, Answer] = {}
    extend: Mapping[str, float] | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        require_mapping("decisions", self.decisions, "an answer by the id of each request")
        require_text("by", self.by)
        if self.extend is None:
            return
        require_mapping("extend", self.extend, "how much more is allowed, by kind")
        for name, amount in self.extend.items():
            if not is_number(amount) or not 0 <= amount <= MOST:
                raise ConfigError(
                    f"extend[{name!r}] is how much more is allowed: a number from 0 to {MOST:,}, not {shown(amount)}"
                )

    @property
    def is_empty(self) -> bool:
        """Nothing is answered."""
        return not self.decisions and not self.extend


def require_current(run: Run, answers: Answers, asked: Collection[str]) -> None:
    """Raise ConflictError for an answer to something that this run asked, and waits for no longer.

    asked: the ids of all requests that it ever made, and the kinds of all limits that were ever raised.
    """
    waiting = ids_waiting(run)
    late = [id for id in (*answers.decisions, *(answers.extend or ())) if id not in waiting and id in asked]
    if not late:
        return
    if run.phase == "ended":
        raise ConflictError(f"the answer to {late[0]!r} came too late: run {run.run_id!r} has ended ({run.stopped_by})")
    raise ConflictError(
        f"run {run.run_id!r} has an answer to {late[0]!r} already, and this one counts for nothing; resume it without "
        "one, if nobody goes on with it"
    )


def ids_waiting(run: Run) -> frozenset[str]:
    """Return the ids of the requests, and the kinds of the limits, at which a run waits."""
    return frozenset(("/".join(place) for place, _ in _waiting(run))) | {breach.name for _, breach in _asked(run)}


def asked_in(journal: Iterable[AgentEvent]) -> frozenset[str]:
    """Return what `require_current` wants to know, from the events of a run."""
    requests = {
        "/".join((*event.path, event.tool_call_id)) for event in journal if isinstance(event, ApprovalRequested)
    }
    return frozenset(requests | {event.kind for event in journal if isinstance(event, LimitExtended)})


def keep_remembered(event: AgentEvent, run: Run, answers: Answers, gate: Gate, id: str) -> None:
    """Remember the answer that this event records, where it says so; under a grant of this id.

    run: as it was when it was answered.
    """
    if not isinstance(event, ApprovalResolved):
        return
    for place, request in _waiting(run):
        answer = answers.decisions.get("/".join(place))
        if isinstance(answer, ApprovalDecision) and event == _resolved(place, request, answer, answers.by):
            remember(gate, request, answer, id)


def answers_of(run: Run, answers: Answers, now: datetime) -> tuple[AgentEvent, ...]:
    """Return the events of these answers, in the order of the calls.

    A request whose time is over is denied, whatever the answer, and without one.
    Raises ConfigError for an answer that fits no call that waits, or not its kind.
    """
    waiting = dict(_waiting(run))
    chosen: dict[tuple[str, ...], Answer] = {}
    for id, answer in answers.decisions.items():
        place = _place(id, waiting, run)
        chosen[place] = _fitting(answer, waiting[place], id)
    events = [_resolved(place, waiting[place], answer, answers.by) for place, answer in chosen.items()]
    return (*settled(run, events, now), *_extended(run, answers))


def _waiting(run: Run) -> Iterator[tuple[tuple[str, ...], ApprovalRequested]]:
    for path, item in run.open_calls():
        if item.state == "waiting" and item.request is not None:
            yield (*path, item.public_id), item.request


def _place(id: str, waiting: Mapping[tuple[str, ...], ApprovalRequested], run: Run) -> tuple[str, ...]:
    # By nothing but the whole id: an answer to a call of an earlier round must never reach a call that waits now.
    for place in waiting:
        if "/".join(place) == id:
            return place
    known = ", ".join("/".join(place) for place in waiting) or "none"
    raise ConfigError(f"no call {id!r} of run {run.run_id!r} waits for an answer; those that wait: {known}")


def _fitting(answer: object, request: ApprovalRequested, id: str) -> Answer:
    if isinstance(answer, ExternalResult) and request.kind == "external":
        return answer
    if isinstance(answer, ApprovalDecision) and (request.kind != "external" or not answer.approved):
        return answer
    wanted = "an ExternalResult" if request.kind == "external" else "an ApprovalDecision"
    raise ConfigError(f"call {id!r} ({request.name}) is answered with {wanted}, not {type(answer).__name__}")


def _resolved(place: tuple[str, ...], request: ApprovalRequested, answer: Answer, by: str | None) -> ApprovalResolved:
    more: dict[str, Any]
    if isinstance(answer, ExternalResult):
        more = {"approved": True, "value": json_of(answer.value), "is_error": answer.is_error}
    else:
        more = {"approved": answer.approved, "reason": answer.reason, "updated_input": answer.updated_input}
    return ApprovalResolved(
        path=place[:-1],
        key=request.key,
        tool_call_id=request.tool_call_id,
        name=request.name,
        digest=request.digest,
        by=answer.by or by,
        **more,
    )


def _extended(run: Run, answers: Answers) -> Iterator[LimitExtended]:
    if answers.extend is None:
        return
    by_name = {breach.name: (path, breach) for path, breach in _asked(run)}
    for name in answers.extend:
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise ConfigError(f"run {run.run_id!r} does not wait at a limit {name!r}; it waits at: {known}")
    for name, (path, breach) in by_name.items():
        amount = answers.extend.get(name, 0)
        yield LimitExtended(
            path=() if breach.scope == "run" else path, kind=name, amount=amount, scope=breach.scope, by=answers.by
        )


def _asked(run: Run, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], LimitBreach]]:
    """Yield the limits that a person is asked about, here and in the subagents."""
    if run.asks:
        for breach in run.limits:
            yield path, breach
    for id, child in run.children.items():
        yield from _asked(child.run, (*path, id))
