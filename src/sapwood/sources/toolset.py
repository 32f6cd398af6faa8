"""Plain tools: a toolset with its executor, and the source that offers it.

Law: a toolset never changes; what renames, narrows or guards one returns another, whose tools run as before.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

import msgspec

from sapwood.context.source import ContextSource, Contribution, Turn
from sapwood.core.call_plan import is_async_callable
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.names import name_map, wire_name
from sapwood.core.tool_forms import ToolLike, schema_of, to_tool
from sapwood.core.tools import ApprovalRule, BoundTool, MaybeAwaitable, ToolContext, ToolSchema

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

    tools: one dictionary for each, under its own name. names: their own names. execute: runs one by its own or its
    wire name. It can be iterated over, so `with_tools` takes it as well as `with_sources`.

    Raises ToolNameCollision where two names become one.
    """

    name = "toolset"

    def __init__(self, tools: Iterable[ToolLike], *, format: ToolFormat = "anthropic") -> None:
        _require_format(format)
        self._bound = tuple(to_tool(item) for item in tools)
        self.format: ToolFormat = format
        self.names = tuple(schema_of(item).name for item in self._bound)
        self._originals = name_map(self.names)
        self.tools: list[dict[str, Any]] = [_FORMATS[format](schema_of(item)) for item in self._bound]

    def contribute(self, turn: Turn) -> Contribution:
        """Offer the tools from the first call on."""
        return Contribution(tools=self._bound)

    def to_tools(self, format: ToolFormat | None = None) -> list[dict[str, Any]]:
        """Return the definitions as a provider's own client takes them: in its form, under wire names.

        `execute` takes the names that come back. format: None for that of this toolset.
        """
        form = self.format if format is None else format
        _require_format(form)
        schemas = (schema_of(item) for item in self._bound)
        return [_FORMATS[form](schema.replace(name=wire_name(schema.name))) for schema in schemas]

    def prefixed(self, prefix: str) -> "Toolset":
        """Return this toolset with a text before each name, such as `notes.`."""
        return self._renamed(lambda name: f"{prefix}{name}")

    def renamed(self, names: Mapping[str, str]) -> "Toolset":
        """Return this toolset with other names. names: old name -> new name, for those that change.

        Raises ConfigError for a name that is not here, ToolNameCollision where two become one.
        """
        self._require_known("renamed", names)
        return self._renamed(lambda name: names.get(name, name))

    def filtered(self, keep: Callable[[ToolSchema], bool]) -> "Toolset":
        """Return this toolset with the tools alone for which `keep` is true; it is asked once for each."""
        return Toolset([item for item in self._bound if keep(schema_of(item))], format=self.format)

    def with_approval(self, rule: bool | ApprovalRule = True, *, names: Collection[str] | None = None) -> "Toolset":
        """Return this toolset with tools that a person is asked about first.

        rule: True for every call, or a function of the arguments that tells for which; where a tool asks already,
        either of both rules is enough. names: None for all tools. Approval is asked for in a turn; `execute` just
        runs the tool.

        Raises ConfigError for a name that is not here, and for a definition without a function, which an executor of
        your own runs and nothing here could hold back.
        """
        chosen = self.names if names is None else tuple(names)
        self._require_known("with_approval", chosen)
        guarded: list[ToolSchema | BoundTool] = []
        for item in self._bound:
            if schema_of(item).name not in chosen:
                guarded.append(item)
                continue
            if not isinstance(item, BoundTool):
                raise ConfigError(f"with_approval: {item.name!r} has no function here, so a call of it cannot be held")
            guarded.append(msgspec.structs.replace(item, requires_approval=_either(item.requires_approval, rule)))
        return Toolset(guarded, format=self.format)

    def __iter__(self) -> Iterator[ToolSchema | BoundTool]:
        return iter(self._bound)

    def __len__(self) -> int:
        return len(self._bound)

    def _renamed(self, rename: Callable[[str], str]) -> "Toolset":
        return Toolset([_named(item, rename(schema_of(item).name)) for item in self._bound], format=self.format)

    def _require_known(self, method: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.names:
                raise ConfigError(f"{method}: there is no tool {name!r} here; there are: {', '.join(self.names)}")

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


def _named(item: ToolSchema | BoundTool, name: str) -> ToolSchema | BoundTool:
    schema = schema_of(item).replace(name=name)
    return msgspec.structs.replace(item, schema=schema) if isinstance(item, BoundTool) else schema


def _either(first: bool | ApprovalRule, second: bool | ApprovalRule) -> bool | ApprovalRule:
    """Return the rule that asks where either does."""
    if isinstance(first, bool):
        return first or second
    if isinstance(second, bool):
        return second or first

    async def asks(arguments: dict[str, Any]) -> bool:
        answers = [rule(arguments) for rule in (first, second)]
        return any([bool(await answer if isawaitable(answer) else answer) for answer in answers])

    def asks_plainly(arguments: dict[str, Any]) -> bool:
        return bool(first(arguments)) or bool(second(arguments))

    return asks if is_async_callable(first) or is_async_callable(second) else asks_plainly


def _require_format(format: str) -> None:
    if format not in _FORMATS:
        raise ConfigError(f"format must be one of {', '.join(_FORMATS)}, not {format!r}")


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
