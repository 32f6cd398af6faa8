"""The sources by themselves."""

import asyncio

import pytest

from sapwood import (
    AgentTool,
    ConfigError,
    ToolCall,
    ToolError,
    ToolSchema,
    Turn,
    lazy_tool_source,
    lazy_toolset,
    merge_toolsets,
    to_toolset,
)
from sapwood.sources.toolset import Toolset


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_toolset_speaks_three_formats() -> None:
    schema = to_toolset([add]).bound[0].schema.input_schema  # type: ignore[union-attr]
    assert to_toolset([add], format="openai").tools == [
        {"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": schema}}
    ]
    assert to_toolset([add], format="gemini").tools == [
        {"name": "add", "description": "Add two numbers.", "parametersJsonSchema": schema}
    ]
    assert to_toolset([add]).tools == [{"name": "add", "description": "Add two numbers.", "input_schema": schema}]
    with pytest.raises(ConfigError, match="format"):
        to_toolset([add], format="xml")  # type: ignore[arg-type]
    assert merge_toolsets().names == ()


def test_a_toolset_is_a_source_and_runs_by_own_or_wire_name() -> None:
    toolset = to_toolset({"math.add": add})
    assert toolset.contribute(Turn()).tools == toolset.bound
    assert asyncio.run(toolset.execute("math.add", {"a": 1, "b": "2"})) == 3
    assert asyncio.run(toolset.execute("math_add", {"a": 1, "b": 2})) == 3
    with pytest.raises(ToolError, match="Unknown tool: other"):
        asyncio.run(toolset.execute("other", {}))
    with pytest.raises(ToolError, match="Unknown tool"):
        asyncio.run(Toolset([ToolSchema("bare")]).execute("bare", {}))


def test_a_mapping_may_hold_tools_and_gives_them_its_names() -> None:
    tool = AgentTool(name="x", description="X.", input_schema={"type": "object"}, fn=lambda: "ran")
    toolset = to_toolset({"named.y": tool})
    assert toolset.names == ("named.y",)
    assert asyncio.run(toolset.execute("named.y", {})) == "ran"
    assert to_toolset([tool, {"name": "z"}]).names == ("x", "z")


def test_a_lazy_source_answers_only_its_own_meta_tools_and_says_what_they_need() -> None:
    source = lazy_tool_source([{"name": "a", "description": "Alpha"}])
    assert source.handle(ToolCall("other"), Turn()) is None
    for name, arguments in (("search_tools", {}), ("search_tools", {"query": 5}), ("call_tool", {})):
        answer = source.handle(ToolCall(name, arguments), Turn())
        assert answer is not None
        assert answer.is_error
        assert name in answer.result
    with pytest.raises(ConfigError, match="k must be"):
        lazy_toolset([{"name": "a"}], k=0)


def test_dispatched_finds_carry_their_schemas() -> None:
    source = lazy_tool_source([{"name": "a", "description": "Alpha", "input_schema": {"type": "object"}}])
    answer = source.handle(ToolCall("search_tools", {"query": "alpha"}), Turn(tool_loading="dispatch"))
    assert answer is not None
    assert answer.result["found"][0]["input_schema"] == {"type": "object", "properties": {}}
    assert "call_tool" in answer.result["note"]
    assert answer.tools == ("a",)
