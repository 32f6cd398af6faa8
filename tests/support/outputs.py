"""Types of outputs, and agents that owe one: what the tests of structured output share."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from sapwood import Agent, ModelProfile
from sapwood.core.events import AgentEvent, OutputDelta
from sapwood.core.model import ModelRequest
from sapwood.core.tools import FINAL_RESULT
from sapwood.llm.scripted import ScriptedProvider, ScriptedReply
from sapwood.testing import assert_ordered, call, calls, fold, says, scripted

NATIVE = ModelProfile("scripted", "native", 200_000, 8_192, structured_output="native")
UNFORCED = ModelProfile("scripted", "unforced", 200_000, 8_192, forced_tool_choice=False)


class Report(BaseModel):
    """An incident, as it was found."""

    summary: str
    severity: int = Field(ge=1, le=5)


class Lamp(BaseModel):
    kind: Literal["lamp"] = "lamp"
    watts: int


class Kettle(BaseModel):
    kind: Literal["kettle"] = "kettle"
    litres: float


class Node(BaseModel):
    name: str
    below: "list[Node]" = []


@dataclass
class Point:
    x: int
    y: int


class City(TypedDict):
    name: str
    people: int


DISK = {"summary": "Disk full", "severity": 4}
WRONG = {"summary": "Disk full", "severity": 9}
INTEGER_N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def hands(arguments: dict[str, Any] | None = None, *, raw: str | None = None, **more: Any) -> ScriptedReply:
    """A reply that hands over an output."""
    return calls(call(FINAL_RESULT, arguments, raw=raw), **more)


def writes(value: Any, **more: Any) -> ScriptedReply:
    """A reply whose text is JSON, in small pieces."""
    text = value if isinstance(value, str) else json.dumps(value)
    return says(*[text[at : at + 3] for at in range(0, len(text), 3)], "", **more)


def run_of(agent: Agent, runtime: str, prompt: str = "Assess it.") -> Any:
    """What `run` or `arun` returns."""
    return agent.run(prompt) if runtime == "blocking" else asyncio.run(agent.arun(prompt))


def events_of(agent: Agent, runtime: str = "blocking", prompt: str = "Assess it.") -> list[AgentEvent]:
    """The events of a turn, in the promised order."""

    async def main() -> list[AgentEvent]:
        return [event async for event in agent.astream(prompt)]

    events = list(agent.stream(prompt)) if runtime == "blocking" else asyncio.run(main())
    assert_ordered(events)
    assert fold(events).phase in ("ended", "paused")
    return events


def shown(events: Sequence[AgentEvent]) -> list[Any]:
    """What was shown of the output while it streamed."""
    return [event.value for event in events if isinstance(event, OutputDelta)]


def owing(given: Any, *replies: ScriptedReply | Callable[..., ScriptedReply], **more: Any) -> Agent:
    """An agent that owes an output of this type; profile, tools and the options of `with_output_model`."""
    agent = Agent(llm=scripted(*replies, profile=more.pop("profile", None)))
    if tools := more.pop("tools", ()):
        agent = agent.with_tools(tools)
    return agent.with_output_model(given, **more)


def requests_of(agent: Agent) -> list[ModelRequest]:
    """What the scripted model of an agent was asked."""
    model = agent._config.llm  # pyright: ignore[reportPrivateUsage]
    assert isinstance(model, ScriptedProvider)
    return model.requests
