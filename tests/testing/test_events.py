"""The assertions reject what they should: good sequences, spoilt in every way we know."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.events import (
    AgentEvent,
    CompactionFinished,
    RoundFinished,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.testing import assert_ordered, assert_prefix_kept, call, calls, fold, prefix_shares, says, scripted
from support.turns import bound, spec, turn

Events = list[AgentEvent]


def good() -> Events:
    """A turn of two rounds, the first with two calls."""
    model = scripted(calls(call("ping", id="x"), call("ping", id="y"), text="let me", thinking="hm"), says("done"))
    return turn(spec(model, [bound("ping", lambda: "pong", read_only=True)]))


def at(events: Events, kind: type, number: int = 0) -> int:
    return [place for place, event in enumerate(events) if isinstance(event, kind)][number]


def without(kind: type, number: int = 0) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        place = at(events, kind, number)
        return events[:place] + events[place + 1 :]

    return spoil


def twice(kind: type, number: int = 0) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        place = at(events, kind, number)
        return events[: place + 1] + events[place:]

    return spoil


def moved(kind: type, to: Callable[[Events], int], number: int = 0) -> Callable[[Events], Events]:
    """Take an event out and put it where `to` says, counted in what is left."""

    def spoil(events: Events) -> Events:
        place = at(events, kind, number)
        left = events[:place] + events[place + 1 :]
        return [*left[: to(left)], events[place], *left[to(left) :]]

    return spoil


def changed(kind: type, number: int = 0, **changes: Any) -> Callable[[Events], Events]:
    def spoil(events: Events) -> Events:
        place = at(events, kind, number)
        return [*events[:place], msgspec.structs.replace(events[place], **changes), *events[place + 1 :]]

    return spoil


def swapped(events: Events) -> Events:
    """Give each of the two calls the key of the other."""
    keys = {"r0c0": "r0c1", "r0c1": "r0c0"}
    return [
        msgspec.structs.replace(event, key=keys[event.key])
        if isinstance(event, ToolStarted | ToolRunning | ToolFinished)
        else event
        for event in events
    ]


def inserted(event: AgentEvent, to: Callable[[Events], int]) -> Callable[[Events], Events]:
    return lambda events: [*events[: to(events)], event, *events[to(events) :]]


def before(kind: type, number: int = 0) -> Callable[[Events], int]:
    return lambda events: at(events, kind, number)


def after(kind: type, number: int = 0) -> Callable[[Events], int]:
    return lambda events: at(events, kind, number) + 1


SPOILT: list[tuple[str, Callable[[Events], Events], str]] = [
    ("nothing at all", lambda events: [], "there are no events"),
    ("only of a subagent", lambda events: [TextDelta(text="a", path=("c",))], "there are no events"),
    ("no start", without(TurnStarted), "the first event is context_prepared"),
    ("a late start", moved(TurnStarted, lambda left: 1), "the first event is context_prepared"),
    ("two starts", twice(TurnStarted), "turn_started is not the first event"),
    ("resumed inside", inserted(TurnResumed(), before(RoundStarted)), "turn_resumed is not the first event"),
    ("no end", without(TurnFinished), "the last event is round_finished"),
    ("something after the end", lambda events: [*events, CompactionFinished()], "the last event is"),
    ("two ends", twice(TurnFinished), "TurnFinished comes more than once"),
    ("a round inside a round", twice(RoundStarted), "round 0 starts inside round 0"),
    ("a round left open", without(RoundFinished, 1), "round 1 is still open"),
    ("a round not closed before the next", without(RoundFinished), "round 1 starts inside round 0"),
    ("a round that was never opened", without(RoundStarted, 1), "outside of a round"),
    ("a round closed twice", twice(RoundFinished), "round 0 finishes, but None is open"),
    ("a round left out", changed(RoundStarted, 1, round=2), "round 2 follows round 0"),
    ("a round counted again", changed(RoundStarted, 1, round=0), "round 0 follows round 0"),
    ("a round closed under another number", changed(RoundFinished, round=5), "round 5 finishes, but 0 is open"),
    ("text before the round", moved(TextDelta, before(RoundStarted)), "text_delta lies outside of a round"),
    ("text after the round", moved(TextDelta, after(RoundFinished)), "text_delta lies outside of a round"),
    ("thinking before the round", moved(ThinkingDelta, before(RoundStarted)), "thinking_delta lies outside"),
    ("a compaction inside a round", inserted(CompactionFinished(), after(RoundStarted)), "lies inside a round"),
    ("a call without its start", without(ToolStarted, 1), "call r0c1 runs before it starts"),
    ("a call started twice", twice(ToolStarted), "call r0c0 starts twice"),
    ("calls out of order", swapped, "call r0c0 starts out of order"),
    ("a call in the next round", moved(ToolStarted, after(RoundStarted, 1), 1), "call r0c1 runs before it starts"),
    ("a call outside of rounds", moved(ToolStarted, before(RoundStarted)), "tool_started lies outside"),
    ("a run outside of rounds", moved(ToolRunning, after(RoundFinished)), "tool_running lies outside"),
    ("a call without its end", without(ToolFinished, 1), r"finishes before its calls \['r0c1'\]"),
    ("a call ended after its round", moved(ToolFinished, after(RoundFinished)), "finishes before its calls"),
    ("a call ended twice", twice(ToolFinished), "call r0c0 finishes twice"),
    ("a call ended before it starts", moved(ToolFinished, before(ToolStarted)), "call r0c0 finishes before it starts"),
    ("a call that changes its id", changed(ToolFinished, tool_call_id="z"), "call r0c0 changes its id"),
    ("a call ended under another key", changed(ToolFinished, key="r0c7"), "call r0c7 finishes before it starts"),
]  # fmt: skip


def test_the_sequence_that_is_spoilt_below_is_good() -> None:
    events = good()
    assert_ordered(events)
    kinds = {type(event) for event in events}
    assert {ToolStarted, ToolRunning, ToolFinished, TextDelta, ThinkingDelta, RoundFinished} <= kinds


@pytest.mark.parametrize(("spoil", "says_"), [row[1:] for row in SPOILT], ids=[row[0] for row in SPOILT])
def test_a_bad_sequence_is_rejected_and_says_why(spoil: Callable[[Events], Events], says_: str) -> None:
    with pytest.raises(AssertionError, match=says_):
        assert_ordered(spoil(good()))


@given(place=st.integers(0, 40), to=st.integers(0, 40))
def test_moving_any_event_but_a_finish_among_calls_or_an_unordered_one_is_noticed(place: int, to: int) -> None:
    events = good()
    place, to = place % len(events), to % len(events)
    event = events[place]
    left = events[:place] + events[place + 1 :]
    shifted = [*left[:to], event, *left[to:]]
    try:
        assert_ordered(shifted)
    except AssertionError:
        return
    # What passes has the same starts, ends and rounds, in the same order around one another.
    skeleton = (TurnStarted, TurnFinished, RoundStarted, RoundFinished, ToolStarted)
    assert [item for item in shifted if isinstance(item, skeleton)] == [
        item for item in events if isinstance(item, skeleton)
    ]


@given(cut=st.integers(1, 40))
def test_a_turn_that_was_left_early_is_ordered_up_to_there(cut: int) -> None:
    events = good()
    assert_ordered(events[:cut], ended=False)
    if cut < len(events):
        with pytest.raises(AssertionError):
            assert_ordered(events[:cut])


def test_events_of_subagents_are_not_held_against_the_turn() -> None:
    events = good()
    inner = [event.replace(path=("x",)) for event in good()]
    place = at(events, ToolRunning)
    assert_ordered([*events[: place + 1], *inner, *events[place + 1 :]])


@pytest.mark.parametrize("cut", range(1, 18))
def test_a_resumed_segment_may_begin_in_the_middle_of_a_round(cut: int) -> None:
    events = good()
    crashed = fold(events[:cut], Run())
    if crashed.phase not in ("replied", "idle"):
        return
    assert_ordered([TurnResumed(run_id="run-1"), *events[cut:]])


def test_a_resumed_segment_is_held_to_the_rest() -> None:
    events = good()
    tail = [TurnResumed(), *events[at(events, ToolFinished) :]]
    assert_ordered(tail)
    for spoil, says_ in (
        (twice(ToolFinished), "finishes twice"),
        (without(TurnFinished), "the last event is"),
        (changed(RoundStarted, round=4), "round 4 follows round 0"),
        (inserted(TextDelta(text="a"), after(RoundFinished)), "outside of a round"),
        (inserted(TurnResumed(), lambda items: 2), "not the first event"),
    ):
        with pytest.raises(AssertionError, match=says_):
            assert_ordered(spoil(list(tail)))


def test_fold_begins_with_a_new_run_or_the_given_one() -> None:
    events = good()
    assert fold(events) == fold(events[5:], fold(events[:5]))
    assert fold([], Run("r")) == Run("r")


# -- the prefix ----------------------------------------------------------------------------------

A, B, C = ToolSchema("a"), ToolSchema("b"), ToolSchema("c")
ONE, TWO = Message.user("one"), Message.assistant("two")
START = Transcript.of([ONE, TWO])
FIRST = ModelRequest(START, ("be brief", "memory"), (A, B))
GROWN = ModelRequest(START.extend([Message.user("three")]), ("be brief", "memory"), (A, B), "none", 9, "last round")


def grown(**changes: Any) -> ModelRequest:
    return msgspec.structs.replace(GROWN, **changes)


def test_requests_that_only_grow_pass() -> None:
    assert_prefix_kept([])
    assert_prefix_kept([FIRST])
    assert_prefix_kept([FIRST, FIRST, GROWN, GROWN])
    assert_prefix_kept([FIRST, grown(tools=(A, B, C))], relist=True)


@pytest.mark.parametrize(
    ("request_", "relist", "says_"),
    [
        (grown(tools=(A, B, C)), False, "the tools of request 1 moved"),
        (grown(tools=(C, A, B)), True, "the tools of request 1 moved"),
        (grown(tools=(B, A)), True, "the tools of request 1 moved"),
        (grown(tools=(A,)), True, "the tools of request 1 moved"),
        (grown(tools=(A, ToolSchema("b", "changed"))), False, "the tools of request 1 moved"),
        (grown(system=("be brief",)), False, "the system text of request 1 moved"),
        (grown(system=("be brief", "memory", "more")), False, "the system text of request 1 moved"),
        (grown(system=("memory", "be brief")), True, "the system text of request 1 moved"),
        (grown(transcript=Transcript.of([ONE])), False, "earlier messages of request 1 changed"),
        (grown(transcript=Transcript.of([TWO, ONE])), False, "earlier messages of request 1 changed"),
        (grown(transcript=Transcript.of([ONE, Message.assistant("2"), ONE])), False, "earlier messages of request 1"),
    ],
)
def test_a_prefix_that_moved_is_rejected(request_: ModelRequest, relist: bool, says_: str) -> None:
    with pytest.raises(AssertionError, match=says_):
        assert_prefix_kept([FIRST, request_], relist=relist)
    with pytest.raises(AssertionError, match=says_.replace("1", "2")):
        assert_prefix_kept([FIRST, FIRST, request_], relist=relist)


def test_bodies_on_the_wire_must_begin_with_the_one_before() -> None:
    def body(*texts: str, system: str = "Be brief.") -> bytes:
        messages = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
        messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}  # type: ignore[index]
        return msgspec.json.encode({"model": "m", "messages": messages, "system": system})

    long = "word " * 100
    assert_prefix_kept([body(long), body(long, "b"), body(long, "b", "c")])
    assert prefix_shares([body(long), body(long, "b")]) == [1.0]
    with pytest.raises(AssertionError, match="of request 0 begin request 1"):
        assert_prefix_kept([body(long), body(long, "b", system="Be kind.")])
