"""Streams as `@ag-ui/client` reads them: its own checks of the order pass, and it holds what it should."""

import json
from collections.abc import Iterable
from typing import Any

from sapwood import Agent, ApprovalDecision, SubagentDefinition, tool
from sapwood.core.events import AgentEvent, TurnStarted
from sapwood.server.encode.ag_ui import AgUiEncoder
from sapwood.server.encode.ag_ui_input import AgUiRequest
from sapwood.testing import call, calls, says, scripted
from support.web import node

POSTED = ({"id": "t1-m1", "role": "user", "content": "go"},)


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


HELPER = SubagentDefinition(name="helper", description="Helps.", tools=(pay,))


def lines(events: Iterable[AgentEvent], earlier: Iterable[AgentEvent] = (), segment: str = "s1") -> list[str]:
    encoder = AgUiEncoder("r1", "t1", segment=segment, request=AgUiRequest("t1", segment, messages=POSTED))
    for event in earlier:
        encoder.skip(event, 1.0)
    return [text for event in events for text in encoder.encode(event, 1.0)] + encoder.close()


def read(*runs: list[str]) -> Any:
    return node("ag_ui.mjs", "-", json.dumps({"thread": "t1"}), stdin=json.dumps([{"lines": run} for run in runs]))


def paused(agent: Agent, id: str) -> tuple[list[str], list[str]]:
    """The streams of a run that waits, and goes on."""
    first = list(agent.stream("go"))
    assert isinstance(first[0], TurnStarted)
    second = list(agent.resume(first[0].run_id, {id: ApprovalDecision(approved=True)}))
    return lines(first), lines(second, first, "s2")


def test_the_client_reads_thinking_text_tools_and_failures() -> None:
    @tool
    def breaks() -> str:
        """Break."""
        raise RuntimeError("hidden")

    model = scripted(calls("breaks", text="Let me see.", thinking="hm"), says("Sorry, no."))
    found = read(lines(Agent(llm=model).with_tools([breaks]).stream("go")))
    (run,) = found["runs"]
    assert (run["error"], run["outcome"], run["interrupts"]) == (None, {"type": "success"}, [])
    assert [(item["role"], item.get("content")) for item in found["messages"]] == [
        ("user", "go"),
        ("reasoning", "hm"),
        ("assistant", "Let me see."),
        ("tool", "Internal error"),
        ("assistant", "Sorry, no."),
    ]


def test_the_client_answers_an_interrupt_and_the_result_joins_the_earlier_call() -> None:
    model = scripted(calls(call("pay", {"cents": 5}, id="c1"), text="I pay."), says("Done."))
    first, second = paused(Agent(llm=model).with_tools([pay]).with_approval(defer=True), "c1")
    found = read(first, second)
    before, after = found["runs"]
    assert (before["error"], [item["id"] for item in before["interrupts"]]) == (None, ["c1"])
    assert (after["error"], after["outcome"], after["interrupts"]) == (None, {"type": "success"}, [])
    assert [(item["role"], item.get("content")) for item in found["messages"]] == [
        ("user", "go"),
        ("assistant", "I pay."),
        ("tool", "paid 5"),
        ("assistant", "Done."),
    ]
    (made,) = found["messages"][1]["toolCalls"]
    assert (made["id"], made["function"]) == ("c1", {"name": "pay", "arguments": '{"cents":5}'})
    assert found["messages"][2]["toolCallId"] == "c1"
    assert found["state"]["sapwood"]["status"] == "waiting", "the recorded second request had no state to set right"


def test_the_client_follows_a_pause_inside_a_subagent() -> None:
    task = calls(call("task", {"agent_name": "helper", "task": "look"}, id="t1"))
    model = scripted(task, calls(call("pay", {"cents": 5}, id="c1")), says("Paid."), says("Done."))
    first, second = paused(Agent(llm=model).with_subagents([HELPER]).with_approval(defer=True), "t1/c1")
    found = read(first, second)
    before, after = found["runs"]
    assert (before["error"], after["error"]) == (None, None)
    assert [(item["id"], item["subagentRunId"]) for item in before["interrupts"]] == [("t1/c1", "t1")]
    owners = {item["id"]: item.get("subagentRunId") for item in found["messages"]}
    assert owners["r1/t1:1"] == "t1"
    assert owners["r1:1"] is None
