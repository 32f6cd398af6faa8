"""The reducer of a thread, on the fixtures that `packages/react` runs as well."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sapwood.core.assistant import (
    Thread,
    from_ui_messages,
    is_waiting,
    part_of,
    reduce,
    thread_of,
    with_prompt,
    with_replay,
)
from sapwood.core.assistant_parts import ReplyItem, UserItem
from sapwood.core.parts import AgentTextPart, AgentToolPart

FIXTURES = Path(__file__).parent.parent.parent / "packages" / "react" / "fixtures"


def cases(*names: str) -> list[Any]:
    found = []
    for path in sorted(FIXTURES.glob("*.json")):
        if path.stem in names or (not names and path.stem != "messages"):
            for case in json.loads(path.read_text(encoding="utf-8")):
                found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


def asked() -> Thread:
    return with_prompt(Thread(), UserItem("u1", "Hi"), "pending")


def shown(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("case", cases())
def test_inputs_become_parts(case: dict[str, Any]) -> None:
    thread, told = asked(), []
    seen: dict[str, Any] = {}
    for number, given in enumerate(case["inputs"], 1):
        thread = reduce(thread, given)
        assert thread.open is not None
        if (part := part_of(thread, given)) is not None:
            told.append(shown(part))
        seen[str(number)] = thread
    for number, parts in {**case.get("after", {}), str(len(case["inputs"])): case["parts"]}.items():
        assert shown(seen[number].open.item.parts) == parts
    for number, waits in case.get("waits", {}).items():
        assert is_waiting(seen[number]) is waits
    for number, retry in case.get("retries", {}).items():
        assert seen[number].open.retry == retry
    if "told" in case:
        assert told == case["told"]
    if "item" in case:
        item = shown(thread.items[-1])
        assert {key: item[key] for key in item if key not in ("role", "parts")} == case["item"]


@pytest.mark.parametrize("case", cases("messages"))
def test_a_stored_thread_becomes_items(case: dict[str, Any]) -> None:
    assert shown(from_ui_messages(case["messages"])) == case["items"]


def test_what_an_input_does_not_touch_stays_the_same_object() -> None:
    thread = asked()
    for given in (AgentTextPart("One. "), AgentToolPart("a", {}), AgentTextPart("Two")):
        thread = reduce(thread, given)
    after = reduce(thread, AgentTextPart("."))
    assert thread.open is not None
    assert after.open is not None
    assert after.past is thread.past
    assert [new is old for new, old in zip(after.open.item.parts, thread.open.item.parts, strict=True)] == [
        True,
        True,
        False,
    ]
    for border in ({"type": "finish-step"}, {"type": "text-start", "id": "9"}, AgentTextPart("")):
        assert reduce(thread, border) is thread


def test_an_input_costs_the_same_however_long_the_thread_is() -> None:
    long = thread_of([UserItem(str(number), "Hi") for number in range(2_000)])
    thread = with_prompt(long, UserItem("u", "Hi"), "r")
    assert reduce(thread, AgentTextPart("x")).past is thread.past


def test_a_thread_without_an_open_answer_takes_nothing() -> None:
    thread = thread_of([UserItem("u1", "Hi")])
    assert reduce(thread, AgentTextPart("late")) is thread
    assert part_of(thread, {"type": "text-delta", "id": "0", "delta": "late"}) == AgentTextPart("late")
    assert part_of(thread, {"type": "tool-output-available", "toolCallId": "c", "output": 1}) is None
    assert part_of(thread, {"type": "data-subagent", "id": "c", "data": {"path": ["c"], "agent": "a"}}) is None
    assert not is_waiting(thread)


def test_a_thread_that_was_read_goes_on_in_its_last_answer() -> None:
    lane = {"type": "data-subagent", "id": "c", "data": {"path": ["c"], "agent": "cook", "parts": []}}
    (item,) = from_ui_messages([{"id": "r1", "role": "assistant", "parts": [lane, {"type": "text", "text": "One. "}]}])
    nested = {"type": "data-subagent-chunk", "data": {"path": ["c"], "agent": "cook", "chunk": {"type": "start-step"}}}
    thread = reduce(reduce(thread_of([item]), nested), {"type": "text-delta", "id": "5", "delta": "Two."})
    assert isinstance(item, ReplyItem)
    assert shown(thread.items) == [
        {
            "role": "assistant",
            "id": "r1",
            "parts": [
                {"type": "subagent", "path": ["c"], "agent": "cook", "parts": [], "done": True},
                {"type": "text", "text": "One. Two."},
            ],
        }
    ]


def test_a_replay_fills_the_same_answer_anew_and_another_run_begins_one() -> None:
    start = {"type": "start", "messageId": "r1", "messageMetadata": {"runId": "r1"}}
    delta = {"type": "text-delta", "id": "0", "delta": "Hi"}
    thread = asked()
    for given in (start, delta):
        thread = reduce(thread, given)
    again = with_replay(thread, "r1")
    for given in (start, delta):
        again = reduce(again, given)
    assert again == thread
    assert [item.id for item in with_replay(thread, "r2").items] == ["u1", "r1", "r2"]
    assert [item.id for item in with_replay(asked(), "r1").items] == ["u1", "r1"]
    assert [item.id for item in with_replay(Thread(), "r1").items] == ["r1"]
