"""Tools in other people's words."""

from typing import Any

import pytest

from sapwood.core.errors import ConfigError
from sapwood.core.tool_forms import schema_of, to_tool
from sapwood.core.tools import BoundTool, ToolSchema

INPUT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
EMPTY = {"type": "object", "properties": {}}
FULL = ToolSchema("add", "Add.", INPUT)

TABLE: list[tuple[str, dict[str, Any], ToolSchema]] = [
    ("Anthropic", {"name": "add", "description": "Add.", "input_schema": INPUT}, FULL),
    (
        "OpenAI, nested",
        {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": INPUT}},
        FULL,
    ),
    ("OpenAI, flat", {"type": "function", "name": "add", "description": "Add.", "parameters": INPUT}, FULL),
    ("Gemini", {"name": "add", "description": "Add.", "parametersJsonSchema": INPUT}, FULL),
    ("MCP", {"name": "add", "description": "Add.", "inputSchema": INPUT, "annotations": {}}, FULL),
    ("a name alone", {"name": "add"}, ToolSchema("add", "", EMPTY)),
    ("nothing where text is due", {"name": "add", "description": None, "input_schema": None},
     ToolSchema("add", "", EMPTY)),
    ("a schema without a type", {"name": "add", "input_schema": {"required": []}},
     ToolSchema("add", "", {"required": [], **EMPTY})),
    ("examples", {"name": "add", "input_schema": INPUT, "input_examples": [{"a": 1}]},
     ToolSchema("add", "", INPUT, ({"a": 1},))),
]  # fmt: skip


@pytest.mark.parametrize(("given", "schema"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_dictionary_of_any_provider_is_understood_and_not_changed(given: Any, schema: ToolSchema) -> None:
    before = repr(given)
    assert to_tool(given) == schema
    assert repr(given) == before


def test_our_own_forms_come_back_as_they_are() -> None:
    bound = BoundTool(FULL, lambda values, context: None)

    class Bound:
        def bind(self) -> BoundTool:
            return bound

    assert (to_tool(FULL), to_tool(bound), to_tool(Bound())) == (FULL, bound, bound)
    assert schema_of(FULL) is schema_of(bound) is FULL


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs a name"),
        ({"name": ""}, "needs a name"),
        ({"name": 3}, "needs a name"),
        ({"type": "function", "function": {"parameters": INPUT}}, "needs a name"),
        ("add", "'add' is no tool"),
        (None, "None is no tool"),
        (print, "is no tool; give an AgentTool"),
    ],
)
def test_anything_else_is_refused_with_the_way_out(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        to_tool(given)
