"""assert_ordered on governed turns: good ones with subagents, approvals, limits and pauses, spoilt in every way we know."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sapwood import Agent, ApprovalDecision, SubagentDefinition, Usage, UsageLimits, tool
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    LimitExtended,
    MessageAdded,
    RoundFinished,
    RoundStarted,
    TextDelta,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UsageLimitReached,
)
from sapwood.testing import assert_ordered, call, calls, says, scripted
from support.governed import Process, answer, requests_of, run

Events = list[AgentEvent]
ASK = call("task", {"agent_name": "helper", "task": "act"}, id="t1")


@tool(requires_approval=True)
def act() -> str:
    """Act."""
    return "acted"


def with_child(defer: bool = False) -> Agent:
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(act,))
    model = scripted(calls(ASK), calls(call("act", id="a1")), says("acted"), says("done"))
    agent = Agent(llm=model).with_subagents([helper])
    return agent.with_approval(defer=True) if defer else agent.with_approval(lambda request: ApprovalDecision(True))


def child() -> Events:
    """A turn whose subagent asks a person and acts."""
    return run(with_child())


def paused() -> Events:
    """The same up to its pause."""
    return Process(with_child(defer=True)).events


def resumed() -> Events:
    """The rest of it, with the answer."""
    first = Process(with_child(defer=True))
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(act,))
    later = Agent(llm=scripted(says("acted"), says("done"))).with_subagents([helper]).with_approval(defer=True)
    return Process(later, first.stored, [answer(requests_of(first.run)[0])]).events


def limited() -> Events:
    """A turn that a limit ends."""
    model = scripted(calls("act", usage=Usage(9_000, 0)), says("so far"))
    agent = Agent(llm=model).with_tools([act]).with_approval(lambda request: ApprovalDecision(True))
    return run(agent.with_usage_limits(UsageLimits(total_tokens_limit=8_000)))


def at(events: Events, kind: type, number: int = 0, deep: bool | None = None) -> int:
    return [
        place
        for place, event in enumerate(events)
        if isinstance(event, kind) and (deep is None or bool(event.path) is deep)
    ][number]


def without(kind: type, number: int = 0, deep: bool | None = None) -> Callable[[Events], Events]:
    return lambda events: [event for place, event in enumerate(events) if place != at(events, kind, number, deep)]


def twice(kind: type, number: int = 0, deep: bool | None = None) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        place = at(events, kind, number, deep)
        return events[: place + 1] + events[place:]

    return spoil


def swapped(first: type, second: type) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        one, two = at(events, first, deep=True), at(events, second, deep=True)
        changed = list(events)
        changed[one], changed[two] = changed[two], changed[one]
        return changed

    return spoil


def changed(kind: type, number: int = 0, deep: bool | None = None, **changes: Any) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        place = at(events, kind, number, deep)
        return [*events[:place], msgspec.structs.replace(events[place], **changes), *events[place + 1 :]]

    return spoil


def put(event: AgentEvent, place: Callable[[Events], int]) -> Callable[[Events], Events]:
    return lambda events: [*events[: place(events)], event, *events[place(events) :]]


def pauses(events: Events) -> Events:
    """Let the subagent wait, though its call is answered."""
    place = at(events, TurnFinished, deep=True)
    end = events[place]
    assert isinstance(end, TurnFinished)
    waits = paused()[-1].diagnostics  # type: ignore[union-attr]
    return [*events[:place], end.replace(diagnostics=waits), *events[place + 1 :]]


SPOILT: list[tuple[str, Callable[[], Events], Callable[[Events], Events], str]] = [
    ("a child's event before its call", child, put(TextDelta(text="a", path=("t1",)), lambda e: 1), "outside its call"),
    ("a child's event after its call", child, put(TextDelta(text="a", path=("t1",)), lambda e: len(e) - 1), "outside its"),
    ("a child's event first", child, put(TextDelta(text="a", path=("t1",)), lambda e: 0), "of a subagent"),
    ("a child's event last", child, put(TextDelta(text="a", path=("t1",)), len), "of a subagent"),
    ("a child of nobody", child, put(TextDelta(text="a", path=("t9",)), lambda e: at(e, ToolFinished)), "outside its call"),
    ("a child that does not begin", child, without(TurnStarted, deep=True), "does not begin with its turn"),
    ("a child that never ends", child, without(TurnFinished, deep=True), "never ended, and its call is no error"),
    ("a child that ends twice", child, twice(TurnFinished, deep=True), "more than once"),
    ("a child that waits, answered", child, pauses, "answered while its subagent waits"),
    ("a round of a child left open", child, without(RoundFinished, 0, deep=True), "starts inside round"),
    ("a call of a child twice", child, twice(ToolStarted, deep=True), "starts twice"),
    ("the call of a child unanswered", child, without(ToolFinished, deep=False), "finishes before its calls"),
    ("run before the answer", child, swapped(ApprovalResolved, ToolRunning), "runs, though it waits for an answer"),
    ("run without an answer", child, without(ApprovalResolved), "runs, though it waits for an answer"),
    ("run in spite of a no", child, changed(ApprovalResolved, approved=False), "runs, though it was denied"),
    ("asked twice", child, twice(ApprovalRequested), "asked about twice"),
    ("asked when it has run", child, swapped(ApprovalRequested, ToolRunning), "when it runs or has run"),
    ("answered when it has run", child, swapped(ApprovalResolved, ToolFinished), "runs after it finished"),
    ("answered after all", child, lambda e: put(e[at(e, ApprovalResolved)], lambda f: at(f, ToolFinished) + 1)(e), "answered when it runs"),
    ("asked before the start", child, swapped(ApprovalRequested, ToolStarted), "asked about before it starts"),
    ("asked of no call", child, changed(ApprovalRequested, key="r5c5"), "asked about before it starts"),
    ("answered of no call", child, changed(ApprovalResolved, key="r5c5"), "answered before it starts"),
    ("run twice", child, twice(ToolRunning, deep=True), "runs twice"),
    ("run when finished", child, swapped(ToolRunning, ToolFinished), "finishes|runs"),
    ("raised in mid-turn", child, put(LimitExtended(kind="cost", amount=1), lambda e: 2), "raised in mid-turn"),
    ("a pause for nothing", paused, changed(TurnFinished, -1, diagnostics=limited()[-1].diagnostics.__class__((), "approval")), "nothing waits"),  # type: ignore[union-attr]
    ("something after a pause", paused, lambda e: [*e, TextDelta(text="a")], "the last event is text_delta"),
    ("resumed in the middle", paused, put(TurnResumed(), lambda e: 3), "turn_resumed is not the first event"),
    ("an answer too late", resumed, lambda e: [e[0], e[2], e[1], *e[3:]], "does not begin|outside|is not the first"),
    ("a child after its answer", resumed, put(TextDelta(text="a", path=("t1",)), lambda e: len(e) - 1), "outside its call"),
    ("a limit told of inside a round", limited, put(UsageLimitReached(kind="cost", used=1, limit=1), lambda e: at(e, ToolStarted)), "inside a round"),
    ("a round after the last", limited, changed(RoundStarted, 0, wrap_up="usage_limit"), "one that was to be the last"),
    ("a reply outside a round", limited, put(limited()[at(limited(), MessageAdded)], lambda e: at(e, UsageLimitReached)), "outside of a round"),
]  # fmt: skip


@pytest.mark.parametrize("make", [child, paused, resumed, limited])
def test_a_governed_turn_is_in_order(make: Callable[[], Events]) -> None:
    assert_ordered(make())


@pytest.mark.parametrize(("make", "spoil", "problem"), [row[1:] for row in SPOILT], ids=[row[0] for row in SPOILT])
def test_a_spoilt_one_is_not(make: Callable[[], Events], spoil: Callable[[Events], Events], problem: str) -> None:
    events = spoil(make())
    with pytest.raises(AssertionError, match=problem):
        assert_ordered(events)


def test_a_no_to_the_own_call_of_a_resumed_turn_keeps_it_from_running() -> None:
    agent = Agent(llm=scripted(calls("act"))).with_tools([act]).with_approval(defer=True)
    first = Process(agent)
    later = Agent(llm=scripted(says("ok"))).with_tools([act]).with_approval(defer=True)
    events = Process(later, first.stored, [answer(requests_of(first.run)[0])]).events
    assert_ordered(events)
    with pytest.raises(AssertionError, match="was denied"):
        assert_ordered(changed(ApprovalResolved, approved=False)(events))


def test_a_child_cut_short_is_in_order_where_its_call_is_an_error_or_the_turn_was_left() -> None:
    events = child()
    cut = without(TurnFinished, deep=True)(events)
    place = at(cut, ToolFinished, deep=False)
    assert_ordered([*cut[:place], msgspec.structs.replace(cut[place], is_error=True), *cut[place + 1 :]])
    for length in range(1, len(events)):
        assert_ordered(events[:length], ended=False)
