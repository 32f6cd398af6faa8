"""From a function's signature to a schema and a check, by pydantic.

Laws: schema and check come from one model, so they cannot differ; parameter names are data (they are aliases
of neutral fields), so no name of a parameter can clash with pydantic; what cannot be described raises
ConfigError naming the function and the parameter.

`*args` is one optional array called as it is written; `**kwargs` takes every other key. Names that a function
without `**kwargs` does not take are refused, though the schema does not spend tokens on saying so.
A null for a parameter whose default is not null, and whose type does not allow null, counts as left out.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, Required

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from sapwood.agent.docstrings import parameter_texts
from sapwood.core.agent_tool import as_object, optional_names, validated
from sapwood.core.call_plan import Parameter, bound_keywords, is_context, parameters_of, plan_for
from sapwood.core.errors import ConfigError
from sapwood.core.input_problems import input_error
from sapwood.core.tools import JsonObject, ToolContext
from sapwood.core.type_schema import model_schema, modern

Locals = Mapping[str, Any]
_ABSENT: Any = object()
_ANNOTATED: Any = Annotated  # with metadata that is only known when it runs


class SignatureArguments:
    """Arguments by the signature of a function.

    tool: the name for messages. local_names: what was in scope where the function was defined.
    is_method: the first parameter is `self` or `cls`.

    >>> def add(a: int, b: int = 1): return a + b
    >>> arguments = SignatureArguments(add, tool="add")
    >>> arguments.check({"a": "5"})
    {'a': 5, 'b': 1}
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        tool: str,
        docstring: str | None = None,
        local_names: Locals | None = None,
        is_method: bool = False,
    ) -> None:
        try:
            parameters = parameters_of(fn)[1 if is_method else 0 :]
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"tool {tool!r}: its signature cannot be read ({error}); give an AgentTool a schema by hand"
            ) from error
        hints = resolved_hints(fn, parameters, tool, local_names or {})
        parameters = _unpacked(parameters, hints)
        context = tuple(item.name for item in parameters if is_context(hints[item.name]))
        open_ones = [item for item in parameters if item.name not in context]
        self.plan = plan_for(parameters, context)
        self._model, self._names = _model_of(open_ones, hints, tool, docstring)
        self.input_schema: JsonObject = _described(self._model, open_ones, hints, tool)
        self._optional = optional_names(self._model)
        self._extra = any(item.kind is Parameter.VAR_KEYWORD for item in open_ones)
        # Of `**kwargs`, a model may set neither what `partial` has filled nor what we fill.
        self._closed = bound_keywords(fn) | frozenset(context) if self._extra else frozenset[str]()
        self._never_null = [
            item.name for item in open_ones if hints[item.name] is Any and item.default not in (None, Parameter.empty)
        ]

    def check(self, raw: JsonObject) -> Mapping[str, Any]:
        """Return the converted values by parameter, defaults included; raises ToolInputError."""
        raw = as_object(raw)
        if self._never_null or self._closed:
            raw = self._opened(raw)
        values = validated(self._model, raw, self._optional)
        fields = values.__dict__
        named = {name: fields[field] for field, name in self._names.items() if fields[field] is not _ABSENT}
        if self._extra:
            named.update(values.__pydantic_extra__ or {})
        return named

    def _opened(self, raw: JsonObject) -> JsonObject:
        if taken := self._closed.intersection(raw):
            raise input_error([(name, "may not be set") for name in sorted(taken)])
        return {key: item for key, item in raw.items() if item is not None or key not in self._never_null}


def resolved_hints(
    fn: Callable[..., Any], parameters: tuple[Parameter, ...], tool: str, local_names: Locals
) -> dict[str, Any]:
    """Return the annotation of each parameter as a type, `Any` where there is none.

    Text is looked up where the function was defined: its module, its closure, the names around it.
    Raises ConfigError naming the tool and the parameter where that fails.
    """
    source = source_function(fn)
    module_names: dict[str, Any] = getattr(source, "__globals__", {})
    names = {"ToolContext": ToolContext, **local_names, **_closure(source)}
    if "ToolContext" in module_names:
        names["ToolContext"] = module_names["ToolContext"]
    names.update({item.__name__: item for item in getattr(source, "__type_params__", ())})
    hints: dict[str, Any] = {}
    for item in parameters:
        if item.annotation is Parameter.empty:
            hints[item.name] = Any
            continue
        try:
            hint = _evaluated(item.annotation, module_names, names)
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"tool {tool!r}: the annotation {item.annotation!r} of parameter {item.name!r} of "
                f"{getattr(source, '__qualname__', tool)} cannot be resolved: {error}"
            ) from error
        hints[item.name] = modern(hint)
    return hints


def source_function(fn: Any) -> Any:
    """Return the function whose annotations and names are meant, behind partials, methods and wrappers."""
    while True:
        if hasattr(fn, "func") and hasattr(fn, "keywords"):
            fn = fn.func
        elif inspect.ismethod(fn):
            fn = fn.__func__
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        elif isinstance(fn, type):
            return getattr(fn, "__init__")  # noqa: B009
        elif inspect.isfunction(fn) or inspect.isbuiltin(fn):
            return fn
        else:
            call = type(fn).__call__
            if not inspect.isfunction(call):
                return call
            fn = call


def _closure(source: Any) -> dict[str, Any]:
    names = getattr(getattr(source, "__code__", None), "co_freevars", ())
    found: dict[str, Any] = {}
    for name, cell in zip(names, getattr(source, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


def _evaluated(annotation: Any, module_names: dict[str, Any], names: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return typing.get_type_hints(holder, module_names, names, include_extras=True)["it"]


def _unpacked(parameters: tuple[Parameter, ...], hints: dict[str, Any]) -> tuple[Parameter, ...]:
    """Return the parameters with `**options: Unpack[Options]` written out; their hints are added."""
    last = parameters[-1] if parameters else None
    if last is None or last.kind is not Parameter.VAR_KEYWORD:
        return parameters
    if typing.get_origin(hints[last.name]) is not typing.Unpack:
        return parameters
    kind = typing.get_args(hints[last.name])[0]
    keywords: list[Parameter] = []
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        bare = typing.get_args(hint)[0] if typing.get_origin(hint) in (Required, NotRequired) else hint
        hints[name] = bare
        # A key that may be absent stays absent: the function itself decides what that means.
        default = Parameter.empty if name in kind.__required_keys__ else _ABSENT
        keywords.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=bare))
    return (*parameters[:-1], *keywords)


def _model_of(
    parameters: list[Parameter], hints: dict[str, Any], tool: str, docstring: str | None
) -> tuple[type[BaseModel], dict[str, str]]:
    """Return a model with one neutral field for each parameter, and parameter names by field."""
    named = [item for item in parameters if item.kind is not Parameter.VAR_KEYWORD]
    names = {f"p{index}": item.name for index, item in enumerate(named)}
    texts = parameter_texts(docstring, [item.name for item in named])
    fields: dict[str, Any] = {
        field: _field(item, hints[item.name], texts.get(item.name)) for field, item in zip(names, named, strict=True)
    }
    extra = next((item for item in parameters if item.kind is Parameter.VAR_KEYWORD), None)
    config = ConfigDict(
        extra="forbid" if extra is None else "allow",
        protected_namespaces=(),
    )
    namespace: dict[str, Any] = {"model_config": config, "__module__": __name__}
    if extra is not None and hints[extra.name] is not Any:
        others = types.GenericAlias(dict, (str, hints[extra.name]))
        namespace["__annotations__"] = {"__pydantic_extra__": others}
    try:
        holder = types.new_class("Arguments", (BaseModel,), exec_body=lambda body: body.update(namespace))
        make: Callable[..., type[BaseModel]] = create_model
        model = make("Arguments", __base__=holder, **fields)
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        raise _not_described(parameters, hints, tool, error) from error
    return model, names


def _field(item: Parameter, hint: Any, text: str | None) -> tuple[Any, Any]:
    metadata: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, metadata = typing.get_args(hint)[0], hint.__metadata__
    said = text
    for extra in metadata:
        if isinstance(extra, str):
            said = extra
        elif isinstance(documented := getattr(extra, "documentation", None), str):
            said = documented
    if item.kind is Parameter.VAR_POSITIONAL:
        item_type = _ANNOTATED[(hint, *metadata)] if metadata else hint
        hint, metadata = types.GenericAlias(list, (item_type,)), ()
    # Ours comes first: what the user wrote in `Annotated` or as the default overrides it.
    hint = _ANNOTATED[(hint, Field(alias=item.name, description=said), *metadata)]
    if item.kind is Parameter.VAR_POSITIONAL:
        return hint, Field(default_factory=list)
    return hint, Field() if item.default is Parameter.empty else item.default


def _described(model: type[BaseModel], parameters: list[Parameter], hints: dict[str, Any], tool: str) -> JsonObject:
    try:
        schema = model_schema(model)
    except (PydanticUserError, NameError, TypeError, ValueError, RecursionError) as error:
        raise _not_described(parameters, hints, tool, error) from error
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    return schema


def _not_described(parameters: list[Parameter], hints: dict[str, Any], tool: str, error: Exception) -> ConfigError:
    for item in parameters:
        try:
            TypeAdapter(hints[item.name]).json_schema()
        except (PydanticUserError, NameError, TypeError, ValueError, RecursionError) as cause:
            return ConfigError(
                f"tool {tool!r}: parameter {item.name!r} of type {hints[item.name]!r} cannot be described "
                f"to a model: {str(cause).splitlines()[0]}"
            )
    return ConfigError(f"tool {tool!r}: its parameters cannot be described: {str(error).splitlines()[0]}")


def field_defaults(fn: Any) -> dict[str, FieldInfo]:
    """Return the parameters of a function whose default is a pydantic `Field`.

    >>> def plan(stops: list[str] = Field(default_factory=list)): return stops
    >>> list(field_defaults(plan))
    ['stops']
    """
    positional = getattr(fn, "__defaults__", None) or ()
    keywords: Mapping[str, Any] = getattr(fn, "__kwdefaults__", None) or {}
    if not any(isinstance(item, FieldInfo) for item in (*positional, *keywords.values())):
        return {}
    return {
        item.name: item.default
        for item in inspect.signature(fn).parameters.values()
        if isinstance(item.default, FieldInfo)
    }
