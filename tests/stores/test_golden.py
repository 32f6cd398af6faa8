"""Journals of every version are read to the same end."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sapwood.core.codec import VERSION, event_from_json, to_json
from sapwood.core.events import AgentEvent
from sapwood.core.journal import ends_segment, fold_journal, is_journaled
from sapwood.core.run import Run
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing.store_turns import PROMPT
from support.load_module import load_module

FOLDER = Path(__file__).parent / "golden"
JOURNALS = sorted(FOLDER.glob("v*/*.jsonl"))
golden = load_module(Path(__file__).parent / "make_golden.py")


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_stored_turn_is_still_what_it_was(path: Path) -> None:
    head, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    expected = json.loads(head)
    events = [event_from_json(line) for line in lines]

    run = fold_journal(Run(expected["run_id"], expected["conversation_id"]), enumerate(events, 1))

    assert golden.end_of(run) == expected
    assert all(is_journaled(event) for event in events)


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_stored_turn_can_be_stored_again(path: Path) -> None:
    head, *lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    events = [event_from_json(line) for line in lines]
    store = InProcessStore()
    fence, after = store.runs.begin("r1", "c1", 0, PROMPT), 0
    for segment in segments(events):
        if after:
            fence = store.runs.claim("r1").fence
        after = store.runs.append("r1", segment, after=after, fence=fence)
    assert store.runs.load("r1").text == json.loads(head)["text"]
    assert [to_json(event) for event in store.runs.events("r1")] == [to_json(event) for event in events]


def segments(events: list[AgentEvent]) -> Iterator[list[AgentEvent]]:
    """Yield the events from one pause to the next."""
    ends = [place for place, event in enumerate(events, 1) if ends_segment(event)]
    for first, last in pairwise(sorted({0, *ends, len(events)})):
        yield events[first:last]


def test_there_are_journals_of_this_version_with_all_that_turns_do() -> None:
    assert {path.stem for path in JOURNALS if path.parent.name == f"v{VERSION}"} >= {*golden.CASES, *golden.GOVERNED}


@pytest.mark.parametrize("name", [*golden.CASES, *golden.GOVERNED])
def test_the_journals_can_be_made_anew(name: str) -> None:
    """What a turn of today says may differ; how far it comes does not."""
    expected = (FOLDER / f"v{VERSION}" / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[0]
    made, stored = json.loads(golden.journal(name)[0]), json.loads(expected)
    assert (made["phase"], made["open"]) == (stored["phase"], stored["open"])
