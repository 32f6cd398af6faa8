"""A check of a tool's input or of an output may raise anything, a cancellation too: the turn goes on."""

import asyncio

import pytest
from pydantic import BaseModel, field_validator

from sapwood import Agent, tool
from sapwood.core.events import AgentEvent, ToolFinished, TurnFinished
from sapwood.testing import call, calls, says, scripted


class Cancels(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise asyncio.CancelledError(value)


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_a_check_that_raises_a_cancellation_is_an_error_of_that_call_alone(runtime: str) -> None:
    @tool
    def keep(item: Cancels) -> str:
        """Keep."""
        return f"kept {item}"

    model = scripted(calls(call("keep", {"item": {"a": 1}})), says("Then not."))
    events = run(Agent(llm=model).with_tools([keep]), "go", runtime)

    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert result == "Invalid input for keep: the check of the input raised CancelledError"
    assert isinstance(events[-1], TurnFinished)


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_an_output_whose_check_raises_a_cancellation_is_asked_for_again(runtime: str) -> None:
    model = scripted(*[calls(call("final_result", {"a": 1}))] * 2)
    agent = Agent(llm=model).with_output_model(Cancels, max_output_retries=1)
    events = run(agent, "go", runtime)

    assert events[-1].diagnostics.stopped_by == "output_missing"  # type: ignore[union-attr]
    assert len(model.requests) == 2


def run(agent: Agent, prompt: str, runtime: str) -> list[AgentEvent]:
    if runtime == "blocking":
        return list(agent.stream(prompt))

    async def turn() -> list[AgentEvent]:
        return [event async for event in agent.astream(prompt)]

    return asyncio.run(turn())
