"""Subagents as context: the `task` tool, and a listing of who may be asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.context.source import ContextSource, Contribution, Turn
from sapwood.core.check_schema import check_schema
from sapwood.core.errors import ToolError
from sapwood.core.input_problems import input_error
from sapwood.core.tools import BoundTool, JsonObject, ToolContext, ToolSchema

TASK = "task"
"""The tool by which a model hands a task to a subagent."""


class SubagentSource(ContextSource):
    """Offers one tool, `task(agent_name, task)`, and names the subagents in the system prompt.

    agents: description by name. The loop runs the subagent's turn inside the call.
    """

    name = "subagents"

    def __init__(self, agents: Mapping[str, str]) -> None:
        self._listing = "\n".join(f"- {name}: {_one_line(text)}" for name, text in agents.items())
        self._tool = _task_tool(tuple(agents))

    def contribute(self, turn: Turn) -> Contribution:
        """Offer the tool and the listing."""
        text = f"You may hand a task to one of these agents with the tool `{TASK}`:\n{self._listing}"
        return Contribution(tools=(self._tool,), system=text)


def _task_tool(names: Sequence[str]) -> BoundTool:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "agent_name": {"type": "string", "enum": list(names), "description": "Who is asked."},
            "task": {
                "type": "string",
                "description": "The whole task: the agent sees nothing of this conversation.",
            },
        },
        "required": ["agent_name", "task"],
    }

    def check(raw: JsonObject) -> Mapping[str, Any]:
        if problems := check_schema(raw, schema):
            raise input_error(problems)
        return raw

    def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        raise ToolError("a subagent runs inside a turn only")

    description = "Hand a task to another agent and get its answer."
    return BoundTool(ToolSchema(TASK, description, schema), run, check, read_only=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
