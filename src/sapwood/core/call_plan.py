"""How a tool's function is called: which parameters take the context, which go by position.

Laws: a parameter annotated with ToolContext is ours; every other one gets what the check returned.
Nothing here knows schemas.
"""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

import msgspec

from sapwood.core.tools import ToolContext

Parameter = inspect.Parameter


class CallPlan(msgspec.Struct, frozen=True):
    """How named values become one call of a function.

    context: parameters that take the ToolContext. positional: those that must be passed by position, with
    their defaults, in order. star: the name of `*args`, where it can be filled.

    >>> def add(a, b, /): return a + b
    >>> plan_of(add).runner(add)({"b": 2, "a": 1}, ToolContext())
    3
    """

    context: tuple[str, ...] = ()
    positional: tuple[tuple[str, Any], ...] = ()
    star: str | None = None

    def runner(self, fn: Callable[..., Any]) -> Callable[[Mapping[str, Any], ToolContext], Any]:
        """Return the function that calls `fn` with named values and a context."""
        if not self.context and not self.positional and self.star is None:
            return lambda values, context: fn(**values)
        return lambda values, context: self._call(fn, values, context)

    def _call(self, fn: Callable[..., Any], values: Mapping[str, Any], context: ToolContext) -> Any:
        named = {**values, **dict.fromkeys(self.context, context)}
        leading: list[Any] = []
        for name, default in self.positional:
            if name not in named and default is Parameter.empty:
                break  # Python itself says what is missing
            leading.append(named.pop(name, default))
        rest = named.pop(self.star, ()) if self.star is not None else ()
        return fn(*leading, *rest, **named)


def parameters_of(fn: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters that a caller may still fill: those bound by `partial` are left out.

    Raises ValueError or TypeError for a function of C that does not tell.
    """
    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):  # pragma: no cover
        import annotationlib

        options["annotation_format"] = annotationlib.Format.FORWARDREF
    bound = bound_keywords(fn)
    return tuple(item for item in inspect.signature(fn, **options).parameters.values() if item.name not in bound)


def bound_keywords(fn: object) -> frozenset[str]:
    """Return the names that `functools.partial` has already filled, which no model may set."""
    names: frozenset[str] = frozenset()
    while (inner := getattr(fn, "func", None)) is not None and isinstance(getattr(fn, "keywords", None), dict):
        names |= frozenset(getattr(fn, "keywords"))  # noqa: B009
        fn = inner
    return names


def plan_of(fn: Callable[..., Any]) -> CallPlan:
    """Return the plan for a function; one that does not tell its parameters gets keywords only."""
    try:
        parameters = parameters_of(fn)
    except (TypeError, ValueError):
        return CallPlan()
    return plan_for(parameters, tuple(item.name for item in parameters if is_context(item.annotation)))


def plan_for(parameters: tuple[Parameter, ...], context: tuple[str, ...]) -> CallPlan:
    """Return the plan for these parameters, of which some take the context."""
    star = next((item.name for item in parameters if item.kind is Parameter.VAR_POSITIONAL), None)
    by_position = (
        (Parameter.POSITIONAL_ONLY,) if star is None else (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    )
    positional = tuple((item.name, item.default) for item in parameters if item.kind in by_position)
    return CallPlan(context, positional, star)


def is_context(annotation: object) -> bool:
    """Tell whether an annotation asks for the ToolContext; one that is still text is judged by its name.

    >>> is_context(ToolContext | None), is_context("sapwood.ToolContext"), is_context(str)
    (True, True, False)
    """
    if isinstance(annotation, str):
        words = annotation.replace("Optional[", "").rstrip("]").split("|")
        return any(word.strip().rpartition(".")[2] == "ToolContext" for word in words)
    origin = typing.get_origin(annotation)
    if origin is Annotated or origin is Union or origin is types.UnionType:
        return any(is_context(item) for item in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, ToolContext)


def is_async_callable(fn: object) -> bool:
    """Tell whether calling `fn` gives something to await: also behind a partial, a wrapper, `__call__`."""
    while (inner := getattr(fn, "func", None)) is not None and hasattr(fn, "keywords"):
        fn = inner
    if inspect.iscoroutinefunction(fn):
        return True
    # The attribute of the class, since that is what a call uses.
    return callable(fn) and not isinstance(fn, type) and inspect.iscoroutinefunction(type(fn).__call__)
