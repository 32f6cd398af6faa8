"""OutputType: what an answer must be, made of whatever a person calls a type.

Laws: what a caller gets is the value that was validated, once, and never a copy made through JSON; the schema's root
is always an object, so that every provider takes it; whatever goes wrong in a validator of the user's is an
OutputInvalid with a reason that a model can act on. Pydantic is imported when the first type is described.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from sapwood.core.check_schema import check_schema
from sapwood.core.errors import ConfigError, ToolInputError
from sapwood.core.input_problems import MAX_LENGTH, Problem, cut, path_text, unknown_name
from sapwood.core.input_problems import input_error as listed
from sapwood.core.json_object import is_list, is_object, is_too_deep
from sapwood.core.output_text import read_value
from sapwood.core.partial_json import GrowingJson
from sapwood.core.strict_schema import strict_schema
from sapwood.core.struct import Json
from sapwood.core.tools import JsonObject

VALUE = "value"
"""The one field of an object around an output that is no object itself."""
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_DEFINITIONS = ("$defs", "definitions")
_SAYING = frozenset(
    {
        *("type", "properties", "patternProperties", "additionalProperties", "required", "items", "prefixItems"),
        *("anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"),
    }
)


class OutputInvalid(ToolInputError):
    """An output does not fit its type, or a validator refused it; the message is written for the model.

    >>> raise OutputInvalid("n: is required but missing")
    Traceback (most recent call last):
    sapwood.core.output_type.OutputInvalid: n: is required but missing
    """


class OutputForm(Protocol):
    """How values of one type are described, checked and shown.

    schema: of the value itself, without an object around it.
    """

    @property
    def schema(self) -> JsonObject:
        """The schema, references inside."""
        ...

    def check(self, value: Any, at: tuple[str, ...], *, expose_errors: bool) -> tuple[Any, Sequence[Problem]]:
        """Return the validated value, and no problems; or the problems, each below the path `at`."""
        ...

    def dump(self, value: Any) -> str:
        """Return a value as JSON text; never raises."""
        ...


class OutputType:
    """What an answer must be.

    given: a pydantic model, a dataclass, a TypedDict, a NamedTuple, an Enum, a list, a union, a Literal, a plain type,
    any of them in `Annotated`, or a dictionary that is a JSON Schema.

    name: for messages. description: what the type says of itself, empty where it says nothing. schema: of type
    object; where the output is none, it stands in the field `value`. is_wrapped: it does.
    Raises ConfigError for what is no type, and for types that say nothing of their form.

    >>> numbers = OutputType(list[int])
    >>> numbers.name, numbers.schema["properties"], numbers.validate({"value": [1, "2"]})
    ('list[int]', {'value': {'items': {'type': 'integer'}, 'type': 'array'}}, [1, 2])
    """

    def __init__(self, given: Any) -> None:
        if is_object(given):
            self.name = _schema_name(given)
            self._form: OutputForm = _SchemaForm(given)
        else:
            from sapwood.core.output_check import TypeForm, name_of

            self.name = name_of(given)
            self._form = TypeForm(given)
        inner = dict(self._form.schema)
        self.description: str = str(inner.pop("description", "") or "")
        self.is_wrapped = inner.get("type") != "object"
        self.schema: JsonObject = _wrapped(inner) if self.is_wrapped else inner

    def __repr__(self) -> str:
        return f"OutputType({self.name})"

    @property
    def strict_schema(self) -> JsonObject | None:
        """The strict form of the schema, None where it has none; without it no provider can hold a model to it."""
        return strict_schema(self.schema)

    def validate(self, arguments: JsonObject, *, expose_errors: bool = True) -> Any:
        """Return the output that these arguments of a call describe; raises OutputInvalid.

        Each validator runs once, unless an optional field was null and is left out in a second try. An output that
        belongs into `value` is taken bare, too, where it is an object.
        expose_errors: what a validator raises beside ValueError, AssertionError and ToolError is told to the model.
        """
        if not is_object(arguments):
            raise OutputInvalid(f"the arguments must be a JSON object, not {type(arguments).__name__}")
        return self._validated(arguments, expose_errors=expose_errors)

    def validate_text(self, text: str, *, expose_errors: bool = True) -> Any:
        """Return the output that a text describes; raises OutputInvalid.

        Taken is a text that is JSON; one code block that is JSON; or prose in which exactly one JSON object stands (or
        one array, for an output that is no object), in a code block or not. Of several, all must be equal. Not taken
        is JSON that is cut off or broken, however much of it could be read.
        """
        try:
            value = read_value(text, arrays=self.is_wrapped)
        except ValueError as error:
            raise OutputInvalid(cut(str(error), MAX_LENGTH)) from None
        if not self.is_wrapped and not is_object(value):
            raise OutputInvalid(f"the reply must be a JSON object, not {_kind(value)}")
        return self._validated(value, expose_errors=expose_errors)

    def dump(self, value: Any) -> str:
        """Return an output as JSON text, for people to read: by alias, secrets masked, excluded fields left out.

        What has no JSON form at all (an object of the user's, an endless number) is null or a word in its place.
        Never raises.
        """
        return self._form.dump(value)

    def partial(self, text: str) -> Json | None:
        """Return what can be shown of a JSON text that is still growing, None where there is nothing yet.

        See `GrowingJson`, which is what to use for every piece of a stream; this reads the text from its beginning.

        >>> OutputType({"type": "object", "properties": {"a": {"type": "string"}}}).partial('{"a": "Hel')
        {'a': 'Hel'}
        """
        growing = self.growing()
        growing.feed(text)
        return growing.finish()

    def growing(self) -> GrowingJson:
        """Return what shows an output while it streams, piece by piece."""
        return GrowingJson(self.schema, inside=VALUE if self.is_wrapped else "")

    def _validated(self, value: Any, *, expose_errors: bool) -> Any:
        if is_too_deep(value):
            raise OutputInvalid("the output is nested too deeply")
        at: tuple[str, ...] = ()
        is_bare = True
        if self.is_wrapped and is_object(value) and value.keys() == {VALUE}:
            at, value, is_bare = (VALUE,), value[VALUE], False
        made, problems = self._form.check(value, at, expose_errors=expose_errors)
        if not problems:
            return made
        if self.is_wrapped and is_bare and is_object(value):  # most likely it was meant to be the object around
            around = [(VALUE, "is required but missing")] if VALUE not in value else []
            others = [(path_text([key]), unknown_name([VALUE])) for key in value if key != VALUE]
            problems = [*around, *others]
        raise OutputInvalid(str(listed(problems)))


class _SchemaForm:
    """Values by a JSON Schema that somebody wrote; they stay plain JSON."""

    def __init__(self, schema: JsonObject) -> None:
        self.schema = _checked(schema)
        properties = schema.get("properties")
        self._optional = set[str](properties if is_object(properties) else ()) - set(schema.get("required", ()))

    def check(self, value: Any, at: tuple[str, ...], *, expose_errors: bool) -> tuple[Any, Sequence[Problem]]:
        problems = check_schema(value, self.schema)
        if problems and is_object(value):
            refused = {where for where, _ in problems}
            given = {key for key in self._optional if key in value and value[key] is None}
            nulls = {key for key in given if path_text([key]) in refused}
            if nulls:  # null for what may be left out is how many models leave it out
                value = {key: item for key, item in value.items() if key not in nulls}
                problems = check_schema(value, self.schema)
        prefix = path_text(at)
        return value, [(_below(prefix, where), what) for where, what in problems]

    def dump(self, value: Any) -> str:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), default=lambda _: None)


def _below(prefix: str, where: str) -> str:
    if not prefix or not where:
        return prefix or where
    return prefix + where if where.startswith("[") else f"{prefix}.{where}"


def _finite(value: Any) -> Any:
    """Return the value with null for the numbers that JSON has no word for."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if is_object(value):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if is_list(value) else value


def _schema_name(schema: JsonObject) -> str:
    title = schema.get("title")
    return cut(title, 80) if isinstance(title, str) and title.strip() else "output"


def _checked(schema: JsonObject) -> JsonObject:
    """Return a copy of a schema that somebody wrote, its type at its root; raises ConfigError where it is none."""
    try:
        copy: JsonObject = json.loads(json.dumps(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the output's schema must be JSON: {error}") from None
    shown = cut(repr(schema), 200)
    kinds: Any = copy.get("type", [])
    unknown = [kind for kind in (kinds if is_list(kinds) else [kinds]) if kind not in _TYPES]
    if unknown:
        raise ConfigError(f"the output's schema has the type {unknown[0]!r}; there are {', '.join(sorted(_TYPES))}")
    if "properties" in copy and not is_object(copy["properties"]):
        raise ConfigError(f"the output's schema {shown} has properties that are no dictionary of schemas")
    if not copy.keys() & _SAYING:
        raise ConfigError(f"the output's schema {shown} says nothing of the form; give it a type and properties")
    if "type" not in copy and "properties" in copy:
        copy["type"] = "object"
    return copy


def _wrapped(inner: JsonObject) -> JsonObject:
    """Return the schema of an object that holds the value; definitions move to the root, where references lead."""
    held = {name: inner[name] for name in _DEFINITIONS if name in inner}
    value = _led({key: item for key, item in inner.items() if key not in _DEFINITIONS})
    return {"type": "object", "properties": {VALUE: value}, "required": [VALUE], **held}


def _led(node: Any) -> Any:
    """Return a schema whose references to its own root lead to where it stands now."""
    if is_list(node):
        return [_led(item) for item in node]
    if not is_object(node):
        return node
    made = {key: _led(item) for key, item in node.items()}
    reference = made.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        is_kept = any(reference.startswith(f"#/{name}/") for name in _DEFINITIONS)
        made["$ref"] = reference if is_kept else f"#/properties/{VALUE}{reference[1:]}"
    return made


def _kind(value: object) -> str:
    names = {"list": "an array", "str": "a text", "bool": "a boolean", "int": "a number", "float": "a number"}
    return names.get(type(value).__name__, "null")
