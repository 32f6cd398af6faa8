"""Toolsets from functions: `to_toolset` and `to_tool_source`.

Source: guide D's `toToolset` and `toToolSource`, for Python functions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from sapwood.core.tool_forms import Bindable, ToolLike, to_tool
from sapwood.core.tools import BoundTool, ToolSchema
from sapwood.sources.toolset import ToolFormat, Toolset

Functions: TypeAlias = Mapping[str, Callable[..., Any]] | Iterable[ToolLike | Callable[..., Any]]
"""Tools or plain functions; a mapping gives the functions' names as the model's side knows them."""


def to_toolset(functions: Functions, *, format: ToolFormat = "anthropic") -> Toolset:
    """Return a toolset of functions: `tools` in a provider's form, `execute(name, args)` and `names`.

    Raises ToolNameCollision where two names become one.

    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> to_toolset({"math.add": add}).names
    ('math.add',)
    """
    if isinstance(functions, Mapping):
        named = cast("Mapping[str, Callable[..., Any]]", functions)  # the other branch holds no mapping
        return Toolset([_named(function, name) for name, function in named.items()], format=format)
    return Toolset([_bound(item) for item in functions], format=format)


def to_tool_source(functions: Functions, *, format: ToolFormat = "anthropic") -> Toolset:
    """Return the same as `to_toolset`: a toolset is also a context source, ready for `sources=`."""
    return to_toolset(functions, format=format)


def _bound(item: ToolLike | Callable[..., Any]) -> ToolSchema | BoundTool:
    if callable(item) and not isinstance(item, Bindable):
        return _named(item, None)
    return to_tool(item)


def _named(function: Callable[..., Any], name: str | None) -> BoundTool:
    if isinstance(function, Bindable):
        found = function.bind()
        return found if name is None else msgspec.structs.replace(found, schema=found.schema.replace(name=name))
    from sapwood.agent.decorator import tool

    return tool(function, name=name).bind()
