"""The source that offers `final_result`, and what a model is told of its output."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from sapwood.context.offered import offer
from sapwood.context.source import Turn
from sapwood.core.errors import ToolError, ToolNameCollision
from sapwood.core.output_type import OutputType
from sapwood.core.tools import FINAL_RESULT, BoundTool, ToolContext, ToolSchema
from sapwood.sources.output import (
    OutputSource,
    nudge_to_call,
    nudge_to_correct,
    prompted_instruction,
    tool_description,
)
from sapwood.sources.toolset import ToolsetSource


class Report(BaseModel):
    """An incident."""

    severity: int = Field(ge=1)


def offered(source: OutputSource) -> list[BoundTool]:
    return [tool for tool in source.contribute(Turn()).tools if isinstance(tool, BoundTool)]


def test_the_tool_carries_the_schema_and_says_what_it_is_for() -> None:
    (tool,) = offered(OutputSource(OutputType(Report)))

    assert tool.schema == ToolSchema(FINAL_RESULT, tool_description(OutputType(Report)), OutputType(Report).schema)
    assert tool.schema.description.endswith("The result: An incident.")
    assert tool.check is None, "a second check would run the validators twice"
    with pytest.raises(ToolError, match="the loop takes"):
        tool.run({}, ToolContext())


def test_what_is_contributed_is_the_same_each_time() -> None:
    source = OutputSource(OutputType(list[int]))
    assert source.contribute(Turn()) == source.contribute(Turn(text="again"))


def test_an_output_that_is_asked_for_as_text_needs_no_tool() -> None:
    native, prompted = (
        OutputSource(OutputType(Report), mode=mode).contribute(Turn()) for mode in ("native", "prompted")
    )
    assert (native.tools, native.system) == ((), "")
    assert (prompted.tools, prompted.system) == ((), prompted_instruction(OutputType(Report)))


def test_a_model_that_cannot_be_made_to_call_it_is_told_to() -> None:
    told = OutputSource(OutputType(Report), is_forced=False).contribute(Turn())
    assert FINAL_RESULT in told.system
    assert len(told.tools) == 1


@pytest.mark.parametrize("name", ["final_result", "final.result"])
@pytest.mark.parametrize("first", [True, False])
def test_a_tool_of_the_users_with_its_name_is_refused(name: str, first: bool) -> None:
    sources: list[Any] = [OutputSource(OutputType(Report)), ToolsetSource([ToolSchema(name)])]
    sources = sources if first else sources[::-1]
    with pytest.raises(ToolNameCollision, match="final_result"):
        offer([(source, source.contribute(Turn())) for source in sources])


def test_the_words_name_what_is_wanted() -> None:
    assert f"`{FINAL_RESULT}`" in nudge_to_call()
    assert "severity: must be at least 1" in nudge_to_correct("severity: must be at least 1")
    assert len(nudge_to_correct("x" * 10_000)) < 2_000


@pytest.mark.parametrize(("given", "told"), [(Report, "The result: An incident."), (list[str], "fits the JSON Schema")])
def test_a_prompt_for_json_holds_the_schema(given: Any, told: str) -> None:
    text = prompted_instruction(OutputType(given))

    assert told in text
    assert (
        json.loads(text.partition("<output_schema>\n")[2].partition("\n</output_schema>")[0])
        == OutputType(given).schema
    )
