"""The journal of a run: which events are kept, and how they become the run again.

Laws: the journal is the event log without its deltas, numbered from 1 without a gap; a run is resumed by folding it,
and nothing is replayed. What does not fit together raises HistoryDiverged: a resume never guesses.
"""

from collections.abc import Iterable
from typing import TypeAlias

from sapwood.core.errors import HistoryDiverged
from sapwood.core.events import AgentEvent, ToolFinished, ToolRunning, ToolStarted, TurnFinished, TurnStarted
from sapwood.core.evolve import evolve
from sapwood.core.run import Phase, Run

PAUSES = ("approval", "limit_ask")
"""Causes after which a run waits for a person and is not over."""
_BOUND = ("tool_running", "approval_requested", "approval_resolved")

Numbered: TypeAlias = tuple[int, AgentEvent]


def is_journaled(event: AgentEvent) -> bool:
    """Tell whether an event is kept: everything but deltas, whose message comes whole later.

    >>> from sapwood.core.events import TextDelta
    >>> is_journaled(TextDelta(text="He")), is_journaled(TurnStarted(run_id="r1"))
    (False, True)
    """
    return not event.type.endswith("_delta")


def ends_segment(event: AgentEvent) -> bool:
    """Tell whether it ends a segment of the run itself, not of one of its children."""
    return isinstance(event, TurnFinished) and not event.path


def phase_after(event: TurnFinished) -> Phase:
    """Return the phase of a run whose segment ended so: paused where a person must answer."""
    return "paused" if event.stopped_by in PAUSES else "ended"


def call_of(event: AgentEvent) -> str | None:
    """Return the call whose arguments an event is bound to, with the path that leads to it; None for other events."""
    if event.type not in _BOUND:
        return None
    return "/".join((*event.path, str(getattr(event, "key", ""))))


def bind(expected: str, event: AgentEvent) -> str:
    """Return the digest of the arguments that a call may run with after this event, empty for any.

    expected: the digest before it. An approval holds for the arguments that were shown, and a call that runs again
    does so with those of the first time; raises HistoryDiverged for others. Of one call, give the events in order.
    """
    kind = str(event.type)
    digest = str(getattr(event, "digest", ""))
    if kind != "approval_requested" and expected and digest and digest != expected:
        raise HistoryDiverged(
            f"{kind} of call {call_of(event)} has arguments with the digest {digest}; recorded was {expected}. "
            "The call is not run, as nobody agreed to these arguments"
        )
    if kind == "approval_resolved" and getattr(event, "updated_input", None) is not None:
        return ""  # a person changed them; what runs next sets the digest anew
    return digest or expected


def fold_journal(run: Run, events: Iterable[Numbered]) -> Run:
    """Return the run that these numbered events make of a new one.

    Raises HistoryDiverged where a number is missing, the first is no TurnStarted, a call runs with other
    arguments than were recorded, or something is told of a call that there is not or that is over.

    >>> fold_journal(Run("r1"), [(1, TurnStarted(run_id="r1"))]).phase
    'idle'
    """
    digests: dict[str, str] = {}
    for place, (seq, event) in enumerate(events, 1):
        if seq != place:
            raise _diverged(run, place, f"event {place} is missing; the next one there is {seq}")
        _check(run, seq, event)
        call = call_of(event)
        if call is not None:
            try:
                digests[call] = bind(digests.get(call, ""), event)
            except HistoryDiverged as error:
                raise _diverged(run, seq, str(error)) from None
        run = evolve(run, event)
    return run


def _check(run: Run, seq: int, event: AgentEvent) -> None:
    if event.path:
        return  # of a child, which keeps calls of its own
    if isinstance(event, TurnStarted) != (seq == 1):
        raise _diverged(run, seq, f"event {seq} is {event.type}; turn_started is the first one and comes once")
    if isinstance(event, ToolStarted | ToolRunning | ToolFinished):
        state = next((item.state for item in run.calls if item.call.key == event.key), None)
        if state is None:
            raise _diverged(run, seq, f"{event.type} tells of call {event.key}, which no reply has asked for")
        if state == "done":
            raise _diverged(run, seq, f"{event.type} tells of call {event.key}, which has its result already")


def _diverged(run: Run, seq: int, problem: str) -> HistoryDiverged:
    return HistoryDiverged(
        f"run {run.run_id!r} cannot be read: {problem}. Its events are still there "
        "(`events(run_id)`); go on in a new run",
        run_id=run.run_id,
        seq=seq,
    )
