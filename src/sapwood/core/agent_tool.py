"""AgentTool: a tool as people write it, checked by pydantic; `bind` gives what the loop runs.

Laws: a misspelt keyword is refused; the function gets checked and converted values, never the recorded
arguments; `validate_input` and a call use one and the same check.
Core modules that import pydantic are themselves imported on first use: this one, and those of types and outputs.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from sapwood.core.call_plan import CallPlan, Parameter, is_async_callable, parameters_of, plan_for, plan_of
from sapwood.core.check_schema import check_schema, plainly_fits
from sapwood.core.errors import ConfigError, ToolInputError
from sapwood.core.input_problems import Problem, input_error, path_text, pydantic_problems
from sapwood.core.json_object import is_list, is_object
from sapwood.core.tools import BoundTool, JsonObject, ToolSchema
from sapwood.core.type_schema import model_schema

M = TypeVar("M", bound=BaseModel)
_MAX_DEPTH = 200
_FUNCTION_NAMES = frozenset({"__name__", "__qualname__", "__wrapped__"})


class Arguments(Protocol):
    """How the arguments of one tool are described, checked and handed over."""

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema that the model sees."""
        ...

    @property
    def plan(self) -> CallPlan:
        """How the checked values become a call."""
        ...

    def check(self, raw: JsonObject) -> Mapping[str, Any]:
        """Return the converted values by parameter; raises ToolInputError."""
        ...


class AgentTool(BaseModel):
    """A function that a model may call, with its name, its description and its schema.

    `tool` makes one from a signature; this class takes a schema written by hand, or `input_model`.

    input_schema: a JSON Schema of type object. May be left out where `input_model` is given.
    fn: plain or async; called with keywords. A parameter annotated with ToolContext is filled in.
    input_model: its fields are the arguments; `fn` gets the validated values, or the model itself where its
    one parameter is annotated with it.
    timeout: seconds, None takes the agent's. max_result_tokens: None takes the agent's.
    read_only: has no effect. idempotent: repeating it with the same key does no harm.
    requires_approval: a person is asked first; or a function of the arguments, as JSON, that tells whether one is.
    external: nothing runs here; the turn pauses, and the result comes from outside (`Agent.resume`).
    defer_loading: found by search instead of listed.

    >>> lookup = AgentTool(
    ...     name="lookup",
    ...     description="Look up a value",
    ...     input_schema={"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    ...     fn=lambda key: f"Value for {key}",
    ... )
    >>> lookup("a"), lookup.validate_input({})
    ('Value for a', (False, 'key: is required but missing'))
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = Field(min_length=1)
    description: str
    input_schema: dict[str, Any]
    fn: Callable[..., Any]
    input_model: type[BaseModel] | None = None
    timeout: float | None = Field(default=None, gt=0)
    read_only: bool = False
    idempotent: bool = False
    requires_approval: bool | Callable[..., Any] = False
    external: bool = False
    max_result_tokens: int | None = Field(default=None, gt=0)
    input_examples: tuple[dict[str, Any], ...] = ()
    defer_loading: bool = False

    _source: Callable[[bool], Arguments] | None = PrivateAttr(default=None)
    _binding: Literal["none", "instance", "class"] = PrivateAttr(default="none")
    _is_method: bool = PrivateAttr(default=False)
    _needs: str | None = PrivateAttr(default=None)
    _agent: Any = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _schema_of_model(cls, given: Any) -> Any:
        if is_object(given) and "input_schema" not in given:
            model = given.get("input_model")
            if isinstance(model, type) and issubclass(model, BaseModel):
                return {**given, "input_schema": model_schema(model)}
        return given

    @model_validator(mode="after")
    def _schema_is_json(self) -> "AgentTool":
        try:
            json.dumps((self.__dict__["input_schema"], self.input_examples))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"input_schema and input_examples must be JSON: {error}") from error
        return self

    @model_serializer(mode="wrap")
    def _dumped(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        _ = self.input_schema  # it may not be made yet
        return cast("dict[str, Any]", handler(self))

    @classmethod
    def from_source(
        cls,
        source: Callable[[bool], Arguments],
        *,
        binding: Literal["none", "instance", "class"] = "none",
        **fields: Any,
    ) -> "AgentTool":
        """Return a tool whose schema and check are made on first use.

        source: called with True where the first parameter is a method's `self`. binding: what a tool that is
        defined in a class is bound to. fields: those of this class, `input_schema` left out.
        """
        made = cls(input_schema={}, **fields)
        made._source, made._binding = source, binding
        vars(made).pop("input_schema")  # `__getattr__` fills it in
        return made

    def to_tool_schema(self) -> ToolSchema:
        """Return what a model is told of this tool, in no provider's words.

        Raises ConfigError where a signature cannot be described.
        """
        schema = self.input_schema if "type" in self.input_schema else {"type": "object", **self.input_schema}
        return ToolSchema(self.name, self.description, schema, self.input_examples, self.defer_loading)

    def validate_input(self, tool_input: dict[str, Any]) -> tuple[bool, str]:
        """Tell whether a call with these arguments would run, and if not, why; "" where it would."""
        try:
            self._arguments().check(tool_input)
        except ToolInputError as error:
            return False, str(error)
        return True, ""

    def bind(self) -> BoundTool:
        """Return the tool as the loop runs it.

        Raises ConfigError where a signature cannot be described, an example does not fit the schema, or a
        method was not taken from an instance.
        """
        arguments = self._arguments()
        for example in self.input_examples:
            try:
                arguments.check(example)
            except ToolInputError as error:
                raise ConfigError(f"tool {self.name!r}: the input example {example!r} is refused: {error}") from None
        return BoundTool(
            schema=self.to_tool_schema(),
            run=arguments.plan.runner(self.fn),
            check=arguments.check,
            is_async=is_async_callable(self.fn),
            read_only=self.read_only,
            idempotent=self.idempotent,
            requires_approval=self.requires_approval,
            timeout_seconds=self.timeout,
            max_result_tokens=self.max_result_tokens,
            external=self.external,
            agent=self._agent,
        )

    def of_agent(self, agent: object) -> "AgentTool":
        """Return this tool as one that a subagent answers; `Agent.as_tool` makes these."""
        made = self.model_copy()
        made._agent = agent
        return made

    def _arguments(self) -> Arguments:
        if self._needs is not None:
            raise ConfigError(f"tool {self.name!r} is a method; hand over the one of {self._needs}")
        if self._source is not None:
            return self._source(self._is_method)
        if self.input_model is not None:
            return ModelArguments(self.input_model, self.fn, tool=self.name, input_schema=self.input_schema)
        return SchemaArguments(self.input_schema, self.fn)

    # The decorated name stays callable and keeps its parameters for the reader of the code, but no type can
    # say "as the function that was decorated" of a pydantic model: hence Any.
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without any check."""
        return self.fn(*args, **kwargs)

    def __set_name__(self, owner: type, name: str) -> None:
        """Note that the decorated function is a method, where it was written in the body of this class."""
        written = getattr(self.fn, "__qualname__", "").rpartition(".")[0]
        if self._binding == "none" or written != owner.__qualname__:
            return
        self._is_method = True
        self._needs = f"an instance, like {owner.__name__.lower()}.{name}"
        if self._binding == "class":
            self._needs = f"the class, {owner.__name__}.{name}"

    def __get__(self, instance: object, owner: type | None = None) -> "AgentTool":
        """Bind a method to its instance, as functions do; any other tool is returned as it is."""
        target = instance if self._binding == "instance" else owner or type(instance)
        if not self._is_method or self._needs is None or target is None:
            return self
        bound = self.model_copy(update={"fn": self.fn.__get__(target)})
        bound._needs = None
        return bound

    if not TYPE_CHECKING:  # a declared `__getattr__` would make every misspelt attribute valid

        def __getattr__(self, name: str) -> Any:
            if name == "input_schema" and self.__pydantic_private__ is not None:
                self.__dict__[name] = schema = self._arguments().input_schema
                return schema
            if name in _FUNCTION_NAMES:
                fn = self.__dict__.get("fn")
                return fn if name == "__wrapped__" else getattr(fn, name, self.__dict__.get("name"))
            return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        """Two tools are equal when all that is shown and run is."""
        if not isinstance(other, AgentTool):
            return NotImplemented
        return self is other or all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        return hash((type(self), self.name))


class _Docstring:
    """Gives a tool the docstring of its function and the class its own."""

    def __init__(self, own: str | None) -> None:
        self._own = own

    def __get__(self, instance: AgentTool | None, owner: type) -> str | None:
        return self._own if instance is None else instance.fn.__doc__


# Pydantic reads the docstring while it makes the class, so only then can it be replaced.
AgentTool.__doc__ = cast("str", _Docstring(AgentTool.__doc__))


class SchemaArguments:
    """Arguments by a schema that was written by hand: checked as they are, handed over as a deep copy."""

    def __init__(self, input_schema: JsonObject, fn: Callable[..., Any]) -> None:
        self.input_schema = input_schema
        self.plan = plan_of(fn)
        self._plainly_fits = plainly_fits(input_schema)

    def check(self, raw: JsonObject) -> Mapping[str, Any]:
        """Return a copy of the arguments; raises ToolInputError.

        A null that the schema does not allow, for an optional argument, counts as left out.
        """
        raw = as_object(raw)
        if self._plainly_fits(raw):
            return dict(raw)  # flat, so this is a deep copy
        raw = copied(raw)
        problems = check_schema(raw, self.input_schema)
        required = self.input_schema.get("required")
        optional = [key for key in raw if not is_list(required) or key not in required]
        if problems and (kept := without_nulls(raw, problems, optional)) is not raw:
            raw, problems = kept, check_schema(kept, self.input_schema)
        if problems:
            raise input_error(problems)
        return raw


class ModelArguments:
    """Arguments by a pydantic model: the function gets its values, or the model itself."""

    def __init__(
        self,
        model: type[BaseModel],
        fn: Callable[..., Any],
        *,
        tool: str,
        input_schema: JsonObject | None = None,
        is_method: bool = False,
    ) -> None:
        try:
            parameters = parameters_of(fn)[1 if is_method else 0 :]
        except (TypeError, ValueError):
            parameters = ()
        self.input_schema = model_schema(model) if input_schema is None else input_schema
        self.plan = plan_of(fn)
        self._model = model
        open_ones = [item for item in parameters if item.name not in self.plan.context]
        self.plan = plan_for(parameters, self.plan.context)
        self._whole = _whole_parameter(open_ones, model)
        if parameters and self._whole is None:
            _match_fields(model, open_ones, tool)

    def check(self, raw: JsonObject) -> Mapping[str, Any]:
        """Return the values of the model by field; raises ToolInputError."""
        value = validated(self._model, as_object(raw), optional_names(self._model))
        if self._whole is not None:
            return {self._whole: value}
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}


def _whole_parameter(parameters: list[Parameter], model: type[BaseModel]) -> str | None:
    if len(parameters) != 1:
        return None
    annotation = parameters[0].annotation
    named = isinstance(annotation, str) and annotation.rpartition(".")[2] == model.__name__
    return parameters[0].name if annotation is model or named else None


def _match_fields(model: type[BaseModel], parameters: list[Parameter], tool: str) -> None:
    names = {item.name for item in parameters if item.kind is not Parameter.VAR_POSITIONAL}
    takes_any = any(item.kind is Parameter.VAR_KEYWORD for item in parameters)
    fields = model.model_fields
    unknown = [] if takes_any else sorted(fields.keys() - names)
    if unknown:
        raise ConfigError(f"tool {tool!r}: {model.__name__} has {unknown}, which its function does not take")
    variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    missing = [
        item.name
        for item in parameters
        if item.default is Parameter.empty and item.kind not in variable and item.name not in fields
    ]
    if missing:
        raise ConfigError(f"tool {tool!r}: its function needs {missing}, which {model.__name__} has not")


def as_object(raw: object) -> JsonObject:
    """Return the arguments; raises ToolInputError where they are no JSON object.

    >>> as_object({"a": 1})
    {'a': 1}
    """
    if is_object(raw):
        return raw
    raise ToolInputError(f"the arguments must be a JSON object, not {type(raw).__name__}")


def copied(value: Any, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value; raises ToolInputError beyond 200 levels.

    >>> copied({"a": [1]})
    {'a': [1]}
    """
    if depth > _MAX_DEPTH:
        raise ToolInputError(f"the arguments are nested more than {_MAX_DEPTH} levels deep")
    if is_object(value):
        return {key: copied(item, depth + 1) for key, item in value.items()}
    if is_list(value):
        return [copied(item, depth + 1) for item in value]
    return value


def without_nulls(raw: JsonObject, problems: list[Problem], optional: list[str]) -> JsonObject:
    """Return the arguments without the optional ones that are null and were refused for it.

    >>> without_nulls({"page": None}, [("page", "must be an integer")], ["page"])
    {}
    """
    refused = {where for where, _ in problems}
    nulls = {key for key in optional if key in raw and raw[key] is None and path_text([key]) in refused}
    return {key: item for key, item in raw.items() if key not in nulls} if nulls else raw


def validated(model: type[M], raw: JsonObject, optional: list[str]) -> M:
    """Return the model of these arguments; raises ToolInputError.

    A null that is refused, for a field with a default, counts as left out. What a strict model takes from
    JSON but not from Python (a date as text) is taken.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        failed = error
    known = _known_names(model)
    problems = pydantic_problems(_errors(failed), known)
    # A union reports `page.int`, so the beginning of the path decides.
    raw = without_nulls(raw, [(str(item["loc"][0]), "") for item in _errors(failed) if item["loc"]], optional)
    try:
        return model.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        as_json = _errors(error)
    except (TypeError, ValueError, RecursionError):
        as_json = []  # not JSON, so what was found first stands
    if as_json and as_json[0]["type"] != "json_invalid":
        problems = pydantic_problems(as_json, known)
    raise input_error(problems) from None


def _errors(error: ValidationError) -> list[Any]:
    return list(error.errors(include_url=False, include_context=False, include_input=False))


def optional_names(model: type[BaseModel]) -> list[str]:
    """Return the wire names of the fields that have a default."""
    return [_wire_name(name, field) for name, field in model.model_fields.items() if not field.is_required()]


def _known_names(model: type[BaseModel]) -> list[str]:
    return [_wire_name(name, field) for name, field in model.model_fields.items()]


def _wire_name(name: str, field: FieldInfo) -> str:
    if isinstance(field.validation_alias, str):
        return field.validation_alias
    return field.alias or name
