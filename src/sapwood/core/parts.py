"""Agent parts: guide D's view of a turn, and the projection of events to parts.

Law: a part is a plain value for a user interface; its JSON uses guide D's names (`isError`, `approvalId`).
"""

from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.events import AgentEvent, ContextUpdated, ServerToolFinished, TextDelta, ToolFinished
from sapwood.core.memory import MemoryRecord
from sapwood.core.struct import Data


class AgentTextPart(Data, frozen=True, tag="text"):
    """A piece of the answer, as it arrived."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class AgentToolPart(Data, frozen=True, tag="tool", rename="camel"):
    """A tool call with its result.

    args: the arguments, as the model gave them. result: what the tool returned, as a JSON value.
    approval_id: set where the tool answered that it waits for an approval. provider_executed: the model's provider
    ran it, not this program (a web search, say).
    """

    type: ClassVar[Literal["tool"]] = "tool"
    name: str
    args: dict[str, Any]
    result: Any = None
    is_error: bool = False
    approval_id: str | None = None
    provider_executed: bool = False


class AgentMemoryPart(Data, frozen=True, tag="memory"):
    """A read or write of the memory option, without a context manager."""

    type: ClassVar[Literal["memory"]] = "memory"
    op: Literal["recalled", "saved"]
    records: tuple[MemoryRecord, ...]


class AgentContextPart(Data, frozen=True, tag="context"):
    """An event of a context manager: records recalled or saved, or names of tools that became callable.

    skill: the name of the skill that made them so, None where it was a search.
    """

    type: ClassVar[Literal["context"]] = "context"
    source: str
    op: Literal["recalled", "loaded", "saved"]
    records: tuple[MemoryRecord, ...] | None = None
    tools: tuple[str, ...] | None = None
    skill: str | None = None


AgentPart: TypeAlias = AgentTextPart | AgentToolPart | AgentMemoryPart | AgentContextPart


def to_part(event: AgentEvent, arguments: dict[str, dict[str, Any]], *, with_context: bool) -> AgentPart | None:
    """Return the part that shows this event, None where it has none.

    arguments: by call key, kept by the caller from the ToolStarted events; by the provider's id for its own tools.
    with_context: a context manager was given; without one, memory shows as memory parts and loading as none.
    """
    match event:
        case TextDelta(text=text):
            return AgentTextPart(text)
        case ToolFinished(key=key, name=name, value=value, is_error=is_error):
            return AgentToolPart(name, arguments.get(key, {}), value, is_error, _approval_id(value))
        case ServerToolFinished(tool_call_id=id, name=name, value=value, is_error=is_error):
            return AgentToolPart(name, arguments.get(id, {}), value, is_error, provider_executed=True)
        case ContextUpdated(source=source, op="loaded", tools=tools, skill=skill):
            return AgentContextPart(source, "loaded", tools=tools, skill=skill or None) if with_context else None
        case ContextUpdated(source=source, op="recalled" | "saved" as op, records=records):
            if with_context:
                return AgentContextPart(source, op, records=records)
            return AgentMemoryPart(op, records)
        case _:
            return None


def _approval_id(value: Any) -> str | None:
    match value:
        case {"status": "pending_approval", "actionId": str(action)}:
            return action
        case {"status": "pending_approval", "action_id": str(action)}:
            return action
        case _:
            return None
