"""Tools in other people's words: provider dictionaries and objects -> ToolSchema or BoundTool.

Law: what cannot be understood is refused with the value and the way out, never guessed.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from sapwood.core.errors import ConfigError
from sapwood.core.names import wire_name
from sapwood.core.tools import BoundTool, ToolSchema


@runtime_checkable
class Bindable(Protocol):
    """Anything that can become a tool that runs, such as an AgentTool."""

    def bind(self) -> BoundTool:
        """Return the tool that runs."""
        ...


ToolLike: TypeAlias = ToolSchema | BoundTool | Bindable | Mapping[str, Any]
"""A tool in any form: ours, an AgentTool, or a dictionary of Anthropic's, OpenAI's or Gemini's."""


def to_tool(value: ToolLike | object) -> ToolSchema | BoundTool:
    """Return a tool in our form.

    Understood are `{"name", "description", "input_schema"}` (Anthropic), `{"type": "function", ...}` nested
    or flat (OpenAI), `{"name", "parameters"}` (Gemini) and MCP's `inputSchema`.

    Raises ConfigError for anything else.

    >>> to_tool({"name": "add", "input_schema": {"type": "object"}}).name
    'add'
    """
    if isinstance(value, ToolSchema | BoundTool):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(cast("Mapping[str, Any]", value))
    if isinstance(value, Bindable):
        return value.bind()
    raise ConfigError(
        f"{value!r} is no tool; give an AgentTool (decorate a function with @tool) or a dictionary with a "
        "name and an input_schema"
    )


def schema_of(tool: ToolSchema | BoundTool) -> ToolSchema:
    """Return the schema of a tool in our form."""
    return tool.schema if isinstance(tool, BoundTool) else tool


def told(schema: ToolSchema) -> str:
    """Return a definition as one line of JSON, for a model that gets it as text.

    >>> told(ToolSchema("notes.list", "List notes"))
    '{"name": "notes_list", "description": "List notes", "input_schema": {"type": "object", "properties": {}}}'
    """
    fields = {"name": wire_name(schema.name), "description": schema.description, "input_schema": schema.input_schema}
    return json.dumps(fields, ensure_ascii=False)


def _from_mapping(value: Mapping[str, Any]) -> ToolSchema:
    inner: Any = value.get("function") if isinstance(value.get("function"), Mapping) else value
    fields = cast("Mapping[str, Any]", inner)  # a JSON object has text keys
    name: Any = fields.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"a tool needs a name; got {dict(value)!r:.300}")
    for key in ("input_schema", "parameters", "inputSchema", "parametersJsonSchema"):
        if isinstance(fields.get(key), Mapping):
            schema = dict(cast("Mapping[str, Any]", fields[key]))
            break
    else:
        schema = {}
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    examples = tuple(fields.get("input_examples") or ())
    return ToolSchema(name, str(fields.get("description") or ""), schema, examples)
