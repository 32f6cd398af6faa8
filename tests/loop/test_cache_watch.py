"""The watch over a provider's prompt cache: it warns once, with the place, and never of what may have expired."""

import pytest

from sapwood.core.messages import Message
from sapwood.core.model import CachePlan, ModelRequest
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.loop.cache_watch import CacheWatch, first_difference
from sapwood.loop.spec import TurnSpec
from sapwood.testing import calls, says, scripted
from support.turns import bound, spec, turn

PAST = Transcript.of([Message.user("one"), Message.assistant("two"), Message.user("three")])
LATER = PAST.extend([Message.assistant("four"), Message.user("five")])
BASE = ModelRequest(PAST, ("Be brief.", "It is noon."), (ToolSchema("add"), ToolSchema("sub")))
CACHED, MISSED = Usage(10, 5, 0, 5_000), Usage(5_010, 5, 0, 0)


@pytest.mark.parametrize(
    ("after", "place"),
    [
        (ModelRequest(LATER, BASE.system, BASE.tools), ""),
        (ModelRequest(LATER, BASE.system, (ToolSchema("add", "x"), ToolSchema("sub"))), "tool 0 (add)"),
        (ModelRequest(LATER, BASE.system, (ToolSchema("add"),)), "tool 1: 2 became 1"),
        (ModelRequest(LATER, ("Be brief.", "It is night."), BASE.tools), "system text 1, character 7"),
        (ModelRequest(LATER, ("Be brief.", "It is noon. Late."), BASE.tools), "system text 1, character 11"),
        (ModelRequest(LATER, ("Be brief.",), BASE.tools), "system text 1, character 0"),
        (ModelRequest(LATER, (*BASE.system, "more"), BASE.tools), "system text 2, character 0"),
        (ModelRequest(PAST.extend([]), BASE.system, BASE.tools), ""),
        (ModelRequest(Transcript.of(PAST[:2]), BASE.system, BASE.tools), "message 2"),
        (
            ModelRequest(Transcript.of([PAST[0], Message.assistant("2"), PAST[2]]), BASE.system, BASE.tools),
            "message 1",
        ),
    ],
)
def test_the_first_difference_is_found(after: ModelRequest, place: str) -> None:
    assert first_difference(BASE, after) == place


def watched(after: ModelRequest = BASE, usage: Usage = MISSED, *, seconds: float = 10.0) -> str | None:
    watch = CacheWatch()
    assert watch.note("a/m", BASE, CACHED, now=0.0, run_id="r1") is None
    return watch.note("a/m", after, usage, now=seconds, run_id="r1")


def test_a_cache_that_is_missed_is_told_with_its_place() -> None:
    moved = ModelRequest(LATER, ("Be brief.", "It is night."), BASE.tools)
    assert watched(moved) == (
        "a/m read 0 of 5000 cached prompt tokens; the first difference is at system text 1, character 7"
    )
    assert watched(ModelRequest(LATER, BASE.system, BASE.tools)) == (
        "a/m read 0 of 5000 cached prompt tokens; the requests agree, so the provider dropped it"
    )


def test_nothing_is_said_of_a_cache_that_was_hit_expired_or_of_another_conversation() -> None:
    other = ModelRequest(Transcript.of([Message.user("other")]), BASE.system, BASE.tools)
    assert watched(usage=Usage(10, 5, 0, 4_000)) is None
    assert watched(seconds=301.0) is None
    assert watched(ModelRequest(PAST, cache=CachePlan("1h")), seconds=301.0) is not None
    assert watched(other) is None
    assert watched(ModelRequest(LATER, cache=None)) is None
    small = CacheWatch()
    small.note("a/m", BASE, Usage(10, 5, 0, 1_000), now=0.0, run_id="r1")
    assert small.note("a/m", BASE, MISSED, now=1.0, run_id="r1") is None


def test_a_turn_whose_cache_collapses_logs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    replies = [calls("ping", usage=CACHED), calls("ping", usage=MISSED), calls("ping", usage=CACHED)]
    model = scripted(*replies, says("ok", usage=MISSED))
    given: TurnSpec = spec(model, [bound("ping", lambda: "pong")])
    with caplog.at_level("WARNING", "sapwood.loop"):
        turn(given)
    assert [record.message for record in caplog.records] == [
        "scripted/scripted read 0 of 5000 cached prompt tokens; the requests agree, so the provider dropped it"
    ]
