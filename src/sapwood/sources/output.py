"""OutputSource: the tool `final_result`, by which a model hands over its output, and every word said about it.

Laws: the tool is a carrier, the loop validates and records what it brings; a tool of the user's with its name is
refused when the sources are gathered; what a model is told of its output stands here and nowhere else.
"""

import json
from collections.abc import Mapping
from typing import Any

from sapwood.context.source import ContextSource, Contribution, Turn
from sapwood.core.errors import ToolError
from sapwood.core.input_problems import cut
from sapwood.core.model import OutputMode
from sapwood.core.output_type import OutputType
from sapwood.core.tools import FINAL_RESULT, BoundTool, ToolContext, ToolSchema

_MAX_ERROR = 1_500


class OutputSource(ContextSource):
    """Offers `final_result`, whose arguments are the output. A user's tool of this name is a ToolNameCollision.

    mode: `tool` offers the tool; `prompted` asks for the output in words; `native` needs neither.
    is_forced: the model can be made to call it; where it cannot, a sentence of the system prompt asks for that.

    >>> source = OutputSource(OutputType(list[int]))
    >>> [tool.schema.name for tool in source.contribute(Turn()).tools]
    ['final_result']
    """

    name = "output"

    def __init__(self, output_type: OutputType, *, mode: OutputMode = "tool", is_forced: bool = True) -> None:
        self.output_type = output_type
        self._tools = (_carrier(output_type),) if mode == "tool" else ()
        self._system = prompted_instruction(output_type) if mode == "prompted" else ""
        if mode == "tool" and not is_forced:
            self._system = f"When you have the result, hand it over by calling the tool `{FINAL_RESULT}`."

    def contribute(self, turn: Turn) -> Contribution:
        """Return the tool, or the words, that ask for the output."""
        return Contribution(tools=self._tools, system=self._system)


def _carrier(output_type: OutputType) -> BoundTool:
    def run(arguments: Mapping[str, Any], context: ToolContext) -> str:
        raise ToolError("the loop takes the result")

    schema = ToolSchema(FINAL_RESULT, tool_description(output_type), output_type.schema)
    # Without a check: the loop validates, and a second time would run each validator of the user's twice.
    return BoundTool(schema=schema, run=run, idempotent=True)


def tool_description(output_type: OutputType) -> str:
    """Return what the tool says of itself, with what the type says of itself.

    >>> tool_description(OutputType(int)).splitlines()[0]
    'Hand over the final result of the task. Call it once, when the result is complete; this ends the work.'
    """
    told = "Hand over the final result of the task. Call it once, when the result is complete; this ends the work."
    return f"{told}\n\nThe result: {output_type.description}" if output_type.description else told


def nudge_to_call() -> str:
    """Return the user message that follows an answer in plain text where a call was owed.

    It comes after the answer, in the same transcript, so the task is still there.

    >>> FINAL_RESULT in nudge_to_call()
    True
    """
    return (
        f"Your answer was not recorded: the result must be handed over by calling the tool `{FINAL_RESULT}`. "
        "Call it now, with the result of the task above as its arguments."
    )


def nudge_to_correct(error: str) -> str:
    """Return the user message that follows a text that is no valid output. error: what is wrong with it.

    >>> "n: is required" in nudge_to_correct("n: is required but missing")
    True
    """
    return (
        f"Your answer is not a valid result: {cut(error.strip(), _MAX_ERROR)}\n\n"
        "Answer the task above again. Reply with the corrected JSON and nothing else."
    )


def prompted_instruction(output_type: OutputType) -> str:
    """Return the text that asks for the output in words, for models that take neither tools nor schemas.

    It belongs into the system prompt, so that it stays what it is from round to round.

    >>> '"value"' in prompted_instruction(OutputType(int))
    True
    """
    told = f" The result: {output_type.description}" if output_type.description else ""
    return (
        "When you have the result, answer with one JSON value that fits the JSON Schema below, and nothing else: no "
        f"explanation and no code block.{told}\n\n"
        f"<output_schema>\n{json.dumps(output_type.schema, ensure_ascii=False)}\n</output_schema>"
    )
