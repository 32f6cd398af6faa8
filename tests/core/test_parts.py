"""Parts: guide D's view of each event."""

from typing import Any

import pytest

from sapwood.core.codec import from_json, to_json
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from sapwood.core.memory import MemoryRecord
from sapwood.core.parts import (
    AgentContextPart,
    AgentMemoryPart,
    AgentPart,
    AgentTextPart,
    AgentToolPart,
    to_part,
)

RECORD = MemoryRecord("m1", "likes tea", 5)
RECALLED = ContextUpdated(source="memory", op="recalled", records=(RECORD,), text="likes tea")
SAVED = ContextUpdated(source="memory", op="saved", records=(RECORD,))
LOADED = ContextUpdated(source="tools", op="loaded", tools=("late",))


def finished(value: Any, **more: Any) -> ToolFinished:
    return ToolFinished(key="r0c0", tool_call_id="x", name="add", result=str(value), value=value, **more)


TABLE: list[tuple[AgentEvent, AgentPart | None, AgentPart | None]] = [
    (TextDelta(text="hi"), AgentTextPart("hi"), AgentTextPart("hi")),
    (RECALLED, AgentContextPart("memory", "recalled", records=(RECORD,)), AgentMemoryPart("recalled", (RECORD,))),
    (SAVED, AgentContextPart("memory", "saved", records=(RECORD,)), AgentMemoryPart("saved", (RECORD,))),
    (LOADED, AgentContextPart("tools", "loaded", tools=("late",)), None),
    (LOADED.replace(skill="a"), AgentContextPart("tools", "loaded", tools=("late",), skill="a"), None),
    (ContextUpdated(source="memory", op="failed", error="OSError"), None, None),
    (ThinkingDelta(text="hm"), None, None),
    (TurnStarted(), None, None),
    (RoundStarted(round=0, max_rounds=1), None, None),
    (ContextPrepared(), None, None),
    (CompactionStarted(), None, None),
    (ToolStarted(key="r0c0", tool_call_id="x", name="add", tool_input={}), None, None),
    (TurnFinished(text="", diagnostics=TurnDiagnostics()), None, None),
    (ServerToolStarted(tool_call_id="s", name="web_search"), None, None),
    (
        ServerToolFinished(tool_call_id="s", name="web_search", value=["a"], is_error=True),
        AgentToolPart("web_search", {}, ["a"], is_error=True, provider_executed=True),
        AgentToolPart("web_search", {}, ["a"], is_error=True, provider_executed=True),
    ),
]


@pytest.mark.parametrize(("event", "with_context", "without"), TABLE)
def test_to_part(event: AgentEvent, with_context: AgentPart | None, without: AgentPart | None) -> None:
    assert to_part(event, {}, with_context=True) == with_context
    assert to_part(event, {}, with_context=False) == without


CALLS: list[tuple[ToolFinished, AgentToolPart]] = [
    (finished({"sum": 3}), AgentToolPart("add", {"a": 1}, {"sum": 3})),
    (finished("no", is_error=True), AgentToolPart("add", {"a": 1}, "no", is_error=True)),
    (finished(None), AgentToolPart("add", {"a": 1})),
    (finished({"status": "pending_approval", "actionId": "p1"}),
     AgentToolPart("add", {"a": 1}, {"status": "pending_approval", "actionId": "p1"}, approval_id="p1")),
    (finished({"status": "pending_approval", "action_id": "p2", "more": 1}),
     AgentToolPart("add", {"a": 1}, {"status": "pending_approval", "action_id": "p2", "more": 1}, approval_id="p2")),
    (finished({"status": "pending_approval", "actionId": 7}),
     AgentToolPart("add", {"a": 1}, {"status": "pending_approval", "actionId": 7})),
    (finished({"status": "done", "actionId": "p1"}),
     AgentToolPart("add", {"a": 1}, {"status": "done", "actionId": "p1"})),
]  # fmt: skip


@pytest.mark.parametrize(("event", "part"), CALLS)
def test_a_tool_part_has_the_arguments_as_the_model_gave_them(event: ToolFinished, part: AgentToolPart) -> None:
    given = {"r0c0": {"a": 1}, "r0c1": {"a": 2}}
    assert to_part(event, given, with_context=True) == to_part(event, given, with_context=False) == part
    assert to_part(event, {}, with_context=True) == part.replace(args={})


JSON: list[tuple[AgentPart, str]] = [
    (AgentTextPart("hi"), '{"type":"text","text":"hi"}'),
    (
        AgentToolPart("add", {"a": 1}, 3, is_error=True, approval_id="p"),
        '{"type":"tool","name":"add","args":{"a":1},"result":3,"isError":true,"approvalId":"p"}',
    ),
    (
        AgentMemoryPart("saved", (RECORD,)),
        '{"type":"memory","op":"saved","records":[{"type":"memory_record","id":"m1","text":"likes tea","createdAt":5}]}',
    ),
    (
        AgentContextPart("tools", "loaded", tools=("late",)),
        '{"type":"context","source":"tools","op":"loaded","tools":["late"]}',
    ),
]


@pytest.mark.parametrize(("part", "json"), JSON)
def test_the_json_of_a_part_has_guide_ds_names(part: AgentPart, json: str) -> None:
    assert to_json(part).decode() == json
    assert from_json(json, type(part)) == part
