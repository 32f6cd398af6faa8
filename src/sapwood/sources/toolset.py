"""Plain tools: a toolset with its executor, and the source that offers it."""

from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

from sapwood.context.source import ContextSource, Contribution, Turn
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.names import name_map, wire_name
from sapwood.core.tool_forms import ToolLike, schema_of, to_tool
from sapwood.core.tools import BoundTool, MaybeAwaitable, ToolContext, ToolSchema

ToolFormat: TypeAlias = Literal["anthropic", "openai", "gemini"]
Execute: TypeAlias = Callable[[str, dict[str, Any]], MaybeAwaitable[Any]]


class ToolsetSource(ContextSource):
    """Offers tools from the first call on.

    yields_tools: the tools are not sent where another source offers some (guide D, for `run_agent`'s own).
    """

    name = "toolset"

    def __init__(self, tools: Iterable[ToolLike], *, yields_tools: bool = False) -> None:
        self._tools = tuple(to_tool(item) for item in tools)
        self.yields_tools = yields_tools

    def contribute(self, turn: Turn) -> Contribution:
        """Return the tools."""
        return Contribution(tools=self._tools)


class Toolset(ContextSource):
    """Tools in a provider's form together with the function that runs them.

    tools: one dictionary for each. names: their own names. execute: runs one by its own or its wire name.

    Raises ToolNameCollision where two names become one.
    """

    name = "toolset"

    def __init__(self, tools: Iterable[ToolLike], *, format: ToolFormat = "anthropic") -> None:
        if format not in _FORMATS:
            raise ConfigError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}")
        self._bound = tuple(to_tool(item) for item in tools)
        self.format: ToolFormat = format
        self.names = tuple(schema_of(item).name for item in self._bound)
        self._originals = name_map(self.names)
        self.tools: list[dict[str, Any]] = [_FORMATS[format](schema_of(item)) for item in self._bound]

    def contribute(self, turn: Turn) -> Contribution:
        """Offer the tools from the first call on."""
        return Contribution(tools=self._bound)

    async def execute(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run a tool and return what it returns.

        Raises ToolError for an unknown name and ToolInputError for arguments that do not fit.
        """
        original = self._originals.get(wire_name(name), name)
        for item in self._bound:
            if isinstance(item, BoundTool) and item.name == original:
                checked = item.check(dict(arguments)) if item.check else dict(arguments)
                result = item.run(checked, ToolContext(name=original))
                return await result if isawaitable(result) else result
        raise ToolError(f"Unknown tool: {name}. Known tools: {', '.join(self.names)}")

    @property
    def bound(self) -> tuple[ToolSchema | BoundTool, ...]:
        """The tools in our own form."""
        return self._bound


def merge_toolsets(*toolsets: Toolset) -> Toolset:
    """Return one toolset of several, in their order.

    Raises ToolNameCollision where two tools become one.
    """
    form = toolsets[0].format if toolsets else "anthropic"
    return Toolset([item for toolset in toolsets for item in toolset.bound], format=form)


def _anthropic(schema: ToolSchema) -> dict[str, Any]:
    return {"name": schema.name, "description": schema.description, "input_schema": schema.input_schema}


def _openai(schema: ToolSchema) -> dict[str, Any]:
    function = {"name": schema.name, "description": schema.description, "parameters": schema.input_schema}
    return {"type": "function", "function": function}


def _gemini(schema: ToolSchema) -> dict[str, Any]:
    return {
        "name": schema.name,
        "description": schema.description,
        "parametersJsonSchema": schema.input_schema,
    }


_FORMATS: dict[str, Callable[[ToolSchema], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "gemini": _gemini,
}
