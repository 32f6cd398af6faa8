"""Toolsets from functions, objects, pydantic models and other toolsets: `to_toolset` and `to_tool_source`.

Law: what is offered of an object is what its author marked with `@tool`; where nothing is marked, its public methods.
Source: guide D's `toToolset` and `toToolSource`, for Python.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_object
from sapwood.core.require import shown
from sapwood.core.tool_forms import Bindable, ToolLike, to_tool
from sapwood.core.tools import BoundTool, ToolSchema
from sapwood.sources.toolset import ToolFormat, Toolset

if TYPE_CHECKING:
    from pydantic import BaseModel

Functions: TypeAlias = (
    Mapping[str, Callable[..., Any]] | Iterable[ToolLike | Callable[..., Any]] | Callable[..., Any] | ToolLike | object
)
"""One or several of: a tool, a function, an object with methods, a pydantic model, a toolset; or a mapping of names."""
_NO_TOOL = (type, Mapping, list, tuple, str, bytes, bytearray, int, float, complex, type(None), types.ModuleType)

_DEFINING = (("name", str), ("function", dict))


def to_toolset(functions: Functions, *, format: ToolFormat = "anthropic") -> Toolset:
    """Return a toolset: `tools` in a provider's form, `execute(name, args)` and `names`.

    functions: one of these, or a series of them.
    A function or a tool: itself. A mapping: its values, under its keys as their names. A toolset: its tools.
    A pydantic model: a tool named after it, with its fields as arguments; it returns what the instance's `__call__`
    does, and the instance itself where it has none.
    Any other object: its methods that are marked with `@tool`, or all public ones where none is.

    Raises ToolNameCollision where two names become one, ConfigError for what is none of these.

    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> to_toolset({"math.add": add}).names
    ('math.add',)
    """
    return Toolset(_tools(functions), format=format)


def to_tool_source(functions: Functions, *, format: ToolFormat = "anthropic") -> Toolset:
    """Return the same as `to_toolset`: a toolset is also a context source, ready for `sources=`."""
    return to_toolset(functions, format=format)


def _tools(given: Any) -> Iterator[ToolSchema | BoundTool]:
    """Yield the tools of what may be a series; the tools of an object that can be iterated over are its items."""
    if isinstance(given, Toolset):
        yield from given.bound
    elif _is_definition(given):
        yield to_tool(given)
    elif isinstance(given, Mapping):
        named = cast("Mapping[str, Any]", given)
        for name, function in named.items():
            yield _named(function, name)
    elif _is_series(given):
        for item in given:
            yield from _tools(item) if isinstance(item, Toolset) else _of_one(item)
    else:
        yield from _of_one(given)


def _is_definition(given: object) -> bool:
    """Tell a tool in a provider's words, which is a dictionary, from a mapping of functions."""
    return is_object(given) and any(isinstance(given.get(key), kind) for key, kind in _DEFINING)


def _is_series(given: object) -> TypeGuard[Iterable[Any]]:
    """Tell a series from what can be iterated over and is nevertheless one thing: a text, a model, a class."""
    is_one = isinstance(given, str | bytes | type | Bindable) or _is_model(type(given))
    return isinstance(given, Iterable) and not is_one


def _of_one(item: Any) -> Iterator[ToolSchema | BoundTool]:
    if _is_model(item):
        yield _of_model(item, None)
    elif isinstance(item, ToolSchema | BoundTool | Bindable) or is_object(item):
        yield to_tool(item)
    elif _is_function(item):
        yield _named(item, None)
    elif _is_no_tool(item):
        raise ConfigError(
            f"{shown(item)} is no tool; give a function, an AgentTool, an object with methods, a pydantic model, a "
            "toolset, or a dictionary with a name and an input_schema"
        )
    else:
        yield from _of_object(item)


def _is_no_tool(item: object) -> bool:
    return isinstance(item, _NO_TOOL)


def _is_function(item: Any) -> bool:
    """Tell whether a value is called as a function is; an instance whose class has `__call__` is, too."""
    return callable(item) and not isinstance(item, type)


def _is_model(item: Any) -> "TypeGuard[type[BaseModel]]":
    return isinstance(item, type) and _pydantic_is_there(item) and hasattr(item, "model_fields")


def _pydantic_is_there(item: type) -> bool:
    """Tell whether a class is one of pydantic's, without importing that where nobody has."""
    return any(base.__module__ == "pydantic.main" and base.__name__ == "BaseModel" for base in item.__mro__)


def _of_object(given: object) -> Iterator[BoundTool]:
    """Yield the marked methods of an object, or its public ones, in the order in which its classes define them."""
    names: dict[str, None] = {}
    for owner in reversed(type(given).__mro__[:-1]):
        names.update(dict.fromkeys(name for name in vars(owner) if not name.startswith("_")))
    values = {name: inspect.getattr_static(given, name) for name in names}
    marked = [name for name, value in values.items() if isinstance(value, Bindable)]
    methods = (types.FunctionType, classmethod, staticmethod)
    chosen = marked or [name for name, value in values.items() if isinstance(value, methods)]
    if not chosen:
        raise ConfigError(f"{shown(given)} has no public methods, so there is no tool in it")
    for name in chosen:
        yield _named(getattr(given, name), None)


def _named(function: Any, name: str | None) -> BoundTool:
    """Return what a function, a model or a tool runs as; name: None for its own."""
    from sapwood.agent.decorator import tool

    if isinstance(function, BoundTool | Bindable):
        found: BoundTool = function if isinstance(function, BoundTool) else function.bind()
        if name is None:
            return found
        return msgspec.structs.replace(found, schema=found.schema.replace(name=name))
    if _is_model(function):
        return _of_model(function, name)
    if not callable(function):
        raise ConfigError(f"{name!r} names {shown(function)}, which is no function and no tool")
    made: BoundTool = tool(function, name=name).bind()
    return made


def _of_model(model: "type[BaseModel]", name: str | None) -> BoundTool:
    """Return the tool whose arguments are the fields of a model."""
    from sapwood.core.agent_tool import AgentTool

    call = next((vars(base)["__call__"] for base in model.__mro__ if "__call__" in vars(base)), None)
    is_async = inspect.iscoroutinefunction(call)

    def run(given: Any) -> Any:
        return given if call is None else given()

    async def arun(given: Any) -> Any:
        return await given()

    fn: Callable[..., Any] = arun if is_async else run
    fn.__annotations__ = {"given": model}
    told = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", model.__name__).lower()
    return AgentTool(
        name=name or own, description=told or name or own, input_model=model, fn=fn, input_schema=_schema(model)
    ).bind()


def _schema(model: "type[BaseModel]") -> dict[str, Any]:
    from sapwood.core.type_schema import model_schema

    return model_schema(model)
