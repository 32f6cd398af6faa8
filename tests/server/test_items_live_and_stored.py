"""What a front end makes of a stream, and of the thread that is read later: the same items."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from sapwood import Agent, ApprovalDecision, ServerError, SubagentDefinition, create_memory_store, tool
from sapwood.core.approval import Answer
from sapwood.core.assistant import Thread, from_ui_messages, reduce, with_prompt
from sapwood.core.assistant_parts import ReplyItem, UserItem
from sapwood.core.events import AgentEvent, TurnStarted
from sapwood.server.encode.ai_sdk import AiSdkEncoder
from sapwood.server.encode.ui_message import MessageBuilder
from sapwood.sources.memory import memory_source
from sapwood.testing import call, calls, fails, says, scripted


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


@tool
def breaks() -> str:
    """Break."""
    raise RuntimeError("no route")


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


ADDS = calls(call("add", {"a": 1, "b": 2}), text="Let me see.", thinking="hm")
PAYS = calls(call("pay", {"cents": 5}))
TASK = calls(call("task", {"agent_name": "helper", "task": "look"}, id="t1"))
HELPER = SubagentDefinition(name="helper", description="Helps.", tools=(add, pay))
YES = ApprovalDecision(approved=True)
NO = ApprovalDecision(approved=False, reason="no")

RUNS: dict[str, tuple[tuple[Any, ...], tuple[dict[str, Answer], ...]]] = {
    "text": ((says("Hello."),), ()),
    "thinking and a tool": ((ADDS, says("Three.")), ()),
    "two calls, one of which fails": ((calls(call("breaks"), call("add", {"a": 1, "b": 1})), says("Half.")), ()),
    "a yes": ((PAYS, says("Paid.")), ({"r0c0": YES},)),
    "a no": ((PAYS, says("Well.")), ({"r0c0": NO},)),
    "a yes with other arguments": (
        (PAYS, says("Paid.")),
        ({"r0c0": ApprovalDecision(approved=True, updated_input={"cents": 3})},),
    ),
    "a question that waits": ((PAYS,), ()),
    "a subagent": ((TASK, ADDS, says("Inner."), says("Outer.")), ()),
    "a subagent that asks": ((TASK, PAYS, says("Inner."), says("Outer.")), ({"t1/r0c0": YES},)),
    "a reply that begins anew": ((fails(ServerError("busy", is_transient=True), after="Wro"), says("Right.")), ()),
    "a model that fails": ((says("Half", error=ServerError("gone")),), ()),
}


def segments(steps: tuple[Any, ...], answers: tuple[dict[str, Answer], ...]) -> Iterable[list[AgentEvent]]:
    memory = create_memory_store()
    agent = (
        Agent(llm=scripted(*steps))
        .with_tools([add, breaks, pay])
        .with_subagents([HELPER])
        .with_sources([memory_source(memory, remember=lambda turn: [turn.text])])
        .with_approval(defer=True)
    )
    first = started(agent.stream("go"))
    yield first
    assert isinstance(first[0], TurnStarted)
    for answer in answers:
        yield started(agent.resume(first[0].run_id, answer))


def started(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    found: list[AgentEvent] = []
    try:
        found.extend(events)
    except ServerError:
        assert found, "it broke off in the middle"
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_stream_and_the_thread_that_is_read_later_are_the_same_items(name: str) -> None:
    builder, encoder = MessageBuilder(), AiSdkEncoder("r1", "t1")
    live = with_prompt(Thread(), UserItem("u", "go"), "pending")
    for events in segments(*RUNS[name]):
        chunks = [chunk for at, event in enumerate(events) for chunk in encoder.chunks(event, 1_000.0 + at)]
        chunks += encoder.last_chunks()
        builder.add(chunks)
        for chunk in chunks:
            live = reduce(live, msgspec.to_builtins(chunk))
    message = {"id": "r1", "role": "assistant", "parts": builder.parts, "metadata": builder.metadata}
    (stored,) = from_ui_messages([message])
    shown = live.items[-1]
    assert isinstance(stored, ReplyItem)
    assert isinstance(shown, ReplyItem)
    assert [msgspec.to_builtins(part) for part in stored.parts] == [msgspec.to_builtins(part) for part in shown.parts]
    assert stored.parts
