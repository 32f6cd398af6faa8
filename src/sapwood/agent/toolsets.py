"""Toolsets from functions: `to_toolset` and `to_tool_source`.

Source: guide D's `toToolset` and `toToolSource`, for Python functions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from sapwood.core.tool_forms import Bindable, ToolLike, to_tool
from sapwood.core.tools import BoundTool
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
        return Toolset([_bound(function, name) for name, function in functions.items()], format=format)
    return Toolset([_bound(item, None) for item in functions], format=format)


def to_tool_source(functions: Functions, *, format: ToolFormat = "anthropic") -> Toolset:
    """Return the same as `to_toolset`: a toolset is also a context source, ready for `sources=`."""
    return to_toolset(functions, format=format)


def _bound(item: ToolLike | Callable[..., Any], name: str | None) -> ToolLike:
    if isinstance(item, Bindable | Mapping) or not callable(item):
        found = to_tool(item)
        if name is None:
            return found
        if isinstance(found, BoundTool):
            return BoundTool(found.schema.replace(name=name), *_rest(found))
        return found.replace(name=name)
    from sapwood.agent.decorator import tool

    return tool(item, name=name).bind()


def _rest(found: BoundTool) -> tuple[Any, ...]:
    return (
        found.run,
        found.check,
        found.is_async,
        found.read_only,
        found.idempotent,
        found.requires_approval,
        found.timeout_seconds,
        found.max_result_tokens,
    )
