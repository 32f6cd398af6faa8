"""What of a turn is kept, and that it becomes the same run again or none."""

from typing import Any

import pytest

from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.errors import HistoryDiverged
from sapwood.core.events import AgentEvent, Event, TextDelta, ThinkingDelta, ToolFinished, TurnFinished
from sapwood.core.journal import bind, call_of, ends_segment, fold_journal, is_journaled, phase_after
from sapwood.core.run import Run
from sapwood.testing import fold
from sapwood.testing.store_turns import called, ended, finished, running, started

WHOLE: list[AgentEvent] = [*started(), *called("Well."), running(), finished(), *ended()]


class Asked(Event, frozen=True, kw_only=True, tag="approval_requested"):
    """A request for approval, as far as the journal reads it."""

    type = "approval_requested"
    key: str = "r0c0"
    digest: str = ""


class Answered(Event, frozen=True, kw_only=True, tag="approval_resolved"):
    """Its answer."""

    type = "approval_resolved"
    key: str = "r0c0"
    digest: str = ""
    updated_input: dict[str, Any] | None = None


def numbered(events: list[Any]) -> list[tuple[int, Any]]:
    return list(enumerate(events, 1))


def test_a_journal_folds_to_the_run_that_its_events_made() -> None:
    assert fold_journal(Run("r1"), numbered(WHOLE)) == fold(WHOLE, Run("r1"))


@pytest.mark.parametrize("event", [TextDelta(text="a"), ThinkingDelta(text="a")])
def test_deltas_are_not_kept(event: AgentEvent) -> None:
    assert not is_journaled(event)


def test_everything_else_is_kept() -> None:
    assert all(is_journaled(event) for event in WHOLE)


@pytest.mark.parametrize(
    ("cause", "phase"), [("stop", "ended"), ("error", "ended"), ("approval", "paused"), ("limit_ask", "paused")]
)
def test_a_segment_ends_in_a_pause_or_for_good(cause: Cause, phase: str) -> None:
    (event,) = ended(cause)
    assert isinstance(event, TurnFinished)
    assert (ends_segment(event), phase_after(event)) == (True, phase)


def test_the_end_of_a_child_is_no_end_of_its_parent() -> None:
    assert not ends_segment(TurnFinished(path=("r0c0",), text="", diagnostics=TurnDiagnostics()))


def test_a_call_is_told_by_the_path_to_it() -> None:
    assert call_of(running()) == "r0c0"
    assert call_of(running().replace(path=("r0c1", "r2c0"))) == "r0c1/r2c0/r0c0"
    assert call_of(finished()) is None


BROKEN: list[tuple[str, list[tuple[int, AgentEvent]], int]] = [
    ("event 2 is missing", [(1, WHOLE[0]), (3, WHOLE[1])], 2),
    ("event 1 is missing", [(2, WHOLE[0])], 1),
    ("turn_started is the first", numbered(WHOLE[1:]), 1),
    ("comes once", numbered([*started(), *started()]), 2),
    ("no reply has asked for", numbered([*started(), running()]), 2),
    ("has its result already", numbered([*WHOLE[:5], finished()]), 6),
    ("has its result already", numbered([*WHOLE[:5], running()]), 6),
    ("digest d2; recorded was d1", numbered([*WHOLE[:3], running("d1"), running("d2", 2)]), 5),
]


@pytest.mark.parametrize(("problem", "events", "seq"), BROKEN)
def test_what_does_not_fit_together_is_refused_and_named(
    problem: str, events: list[tuple[int, AgentEvent]], seq: int
) -> None:
    with pytest.raises(HistoryDiverged, match=problem) as raised:
        fold_journal(Run("r1"), events)
    assert (raised.value.run_id, raised.value.seq) == ("r1", seq)


def test_what_a_child_tells_is_not_checked_against_its_parents_calls() -> None:
    inside = ToolFinished(path=("r0c0",), key="r9c9", tool_call_id="x", name="add", result="5")
    assert fold_journal(Run("r1"), numbered([*WHOLE[:4], inside])).run_id == "r1"


# The digests that the events of one call carry, in order, and what may run after them.
BOUND: list[tuple[list[Any], str]] = [
    ([running("d1")], "d1"),
    ([running(""), running("d1")], "d1"),
    ([running("d1"), running("")], "d1"),
    ([Asked(digest="d1")], "d1"),
    ([Asked(digest="d1"), Answered(digest="d1")], "d1"),
    ([Asked(digest="d1"), Answered(digest="d1"), running("d1")], "d1"),
    ([Asked(digest="d1"), Answered(digest="d1", updated_input={"a": 1})], ""),
    ([Asked(digest="d1"), Answered(digest="d1", updated_input={"a": 1}), running("d2")], "d2"),
    ([Asked(digest="d1"), Asked(digest="d2")], "d2"),
]


@pytest.mark.parametrize(("events", "digest"), BOUND)
def test_a_call_is_bound_to_the_arguments_that_were_shown(events: list[Any], digest: str) -> None:
    expected = ""
    for event in events:
        expected = bind(expected, event)
    assert expected == digest


@pytest.mark.parametrize(
    ("expected", "event"),
    [
        ("d1", running("d2")),
        ("d1", Answered(digest="d2")),
        ("d1", Answered(digest="d2", updated_input={"a": 1})),
    ],
)
def test_other_arguments_are_refused(expected: str, event: Any) -> None:
    with pytest.raises(HistoryDiverged, match="d2"):
        bind(expected, event)
