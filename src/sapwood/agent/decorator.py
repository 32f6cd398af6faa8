"""@tool: an AgentTool from a function.

Laws: the name and the description are read at once; the schema is made on first use (`input_schema`, `bind`,
`with_tools`), so that an annotation may name a class that is defined further down. What still cannot be
resolved then raises ConfigError, before any model is called.
"""

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast, overload

from pydantic import BaseModel

from sapwood.agent.docstrings import description_of
from sapwood.agent.signature import SignatureArguments, field_defaults, source_function
from sapwood.core.agent_tool import AgentTool, Arguments, ModelArguments
from sapwood.core.errors import ConfigError

Binding = Literal["none", "instance", "class"]


@overload
def tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    input_model: type[BaseModel] | None = None,
    requires_approval: bool | Callable[..., Any] = False,
    external: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    max_result_tokens: int | None = None,
    input_examples: Sequence[dict[str, Any]] = (),
    defer_loading: bool = False,
) -> AgentTool: ...
@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    input_model: type[BaseModel] | None = None,
    requires_approval: bool | Callable[..., Any] = False,
    external: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    max_result_tokens: int | None = None,
    input_examples: Sequence[dict[str, Any]] = (),
    defer_loading: bool = False,
) -> Callable[[Callable[..., Any]], AgentTool]: ...
def tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    input_model: type[BaseModel] | None = None,
    requires_approval: bool | Callable[..., Any] = False,
    external: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    max_result_tokens: int | None = None,
    input_examples: Sequence[dict[str, Any]] = (),
    defer_loading: bool = False,
) -> AgentTool | Callable[[Callable[..., Any]], AgentTool]:
    """Make a tool of a function, plain or async, of a method, a partial or any callable object.

    name: its own name where None. description: the first paragraph of its docstring, else the name.
    input_model: fields of the arguments, instead of the signature. timeout: seconds.
    The other keywords are those of AgentTool. Above `@staticmethod` and `@classmethod`, not below.
    Raises ConfigError for what has no name, and on first use for a parameter that cannot be described.

    >>> @tool
    ... def get_weather(city: str, units: str = "celsius") -> str:
    ...     '''Get the current weather for a city.'''
    ...     return f"Weather in {city}: 22 {units}"
    >>> get_weather("Paris")
    'Weather in Paris: 22 celsius'
    >>> get_weather.input_schema["required"]
    ['city']
    """
    fields: dict[str, Any] = {
        "input_model": input_model,
        "requires_approval": requires_approval,
        "external": external,
        "read_only": read_only,
        "idempotent": idempotent,
        "timeout": timeout,
        "max_result_tokens": max_result_tokens,
        "input_examples": tuple(input_examples),
        "defer_loading": defer_loading,
    }
    if fn is not None:
        return _made(fn, name, description, fields, _names_around(fn, inspect.currentframe()))

    def decorate(fn: Callable[..., Any]) -> AgentTool:
        return _made(fn, name, description, fields, _names_around(fn, inspect.currentframe()))

    return decorate


def _made(
    given: Any, name: str | None, description: str | None, fields: dict[str, Any], names: Mapping[str, Any]
) -> AgentTool:
    binding: Binding = "instance" if inspect.isfunction(given) else "none"
    if isinstance(given, classmethod | staticmethod):
        binding = "class" if isinstance(given, classmethod) else "none"
        given = cast("Any", given).__func__
    if not callable(given) or isinstance(given, AgentTool):
        raise ConfigError(f"a tool is made of a function, not of {given!r}")
    fn = _with_field_defaults(given)
    name = _name_of(given) if name is None else name
    docstring = _docstring_of(given)
    model: type[BaseModel] | None = fields["input_model"]

    # Kept by flag, since all instances of a class share one description of its method.
    @functools.cache
    def source(is_method: bool) -> Arguments:
        if model is not None:
            return ModelArguments(model, fn, tool=name, is_method=is_method)
        return SignatureArguments(fn, tool=name, docstring=docstring, local_names=names, is_method=is_method)

    told = description_of(docstring) if description is None else description
    return AgentTool.from_source(source, binding=binding, name=name, description=told or name, fn=fn, **fields)


def _name_of(fn: Any) -> str:
    while hasattr(fn, "func") and hasattr(fn, "keywords"):  # a partial
        fn = fn.func
    name = getattr(fn, "__name__", None)
    if not isinstance(name, str):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(fn).__name__).lower()
    if name == "<lambda>":
        raise ConfigError("a lambda has no name; give it one: tool(fn, name=...)")
    return name


def _docstring_of(fn: Any) -> str | None:
    while hasattr(fn, "func") and hasattr(fn, "keywords"):  # a partial
        fn = fn.func
    if inspect.isroutine(fn) or isinstance(fn, type):
        return inspect.getdoc(fn)
    return inspect.getdoc(type(fn).__call__) or type(fn).__doc__


def _names_around(fn: Any, frame: types.FrameType | None) -> Mapping[str, Any]:
    """Return the local names that the annotations mention: keeping all would keep the caller's values alive.

    frame: that of the decorator; the function is defined in the one that called it.
    """
    around = None if frame is None else frame.f_back
    if around is None or around.f_locals is around.f_globals:
        return {}
    try:
        annotations = source_function(getattr(fn, "__func__", fn)).__annotations__
    except (AttributeError, NameError):
        return {}
    mentioned = set(re.findall(r"[^\W\d]\w*", repr(annotations)))
    return {name: value for name, value in around.f_locals.items() if name in mentioned}


def _with_field_defaults(fn: Any) -> Callable[..., Any]:
    """Return the function; called directly, it gets what a `Field(...)` default stands for."""
    defaults = field_defaults(fn)
    if not defaults:
        return cast("Callable[..., Any]", fn)
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def filled(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind_partial(*args, **kwargs)
        for name, field in defaults.items():
            if name in bound.arguments:
                continue
            if field.is_required():
                raise TypeError(f"{fn.__name__}() misses the argument {name!r}")
            bound.arguments[name] = field.get_default(call_default_factory=True)
        return fn(*bound.args, **bound.kwargs)

    return filled
