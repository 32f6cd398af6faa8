"""Types that people write, as JSON Schema: what pydantic makes of them, in the form that models are sent.

Laws: titles are left out, every reference stays inside, and what is an object says so at its root; a
`typing.TypedDict` is taken on every Python. Imports pydantic, so it is imported on first use.
"""

import sys
import types
import typing
from typing import Annotated, Any, NotRequired, Required

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from sapwood.core.json_object import is_list, is_object
from sapwood.core.tools import JsonObject

_ANNOTATED: Any = Annotated  # with metadata that is only known when it runs


def model_schema(model: type[BaseModel]) -> JsonObject:
    """Return the schema of a model as a tool's input: titles left out, every reference inside.

    >>> class Point(BaseModel):
    ...     x: int
    >>> model_schema(Point)
    {'type': 'object', 'properties': {'x': {'type': 'integer'}}, 'required': ['x']}
    """
    schema = written_out(model.model_json_schema(schema_generator=_Quiet))
    schema.pop("description", None)
    return schema


def type_schema(adapter: TypeAdapter[Any]) -> JsonObject:
    """Return the schema of any type as `model_schema` does, the description of its root kept.

    >>> type_schema(TypeAdapter(list[int]))
    {'items': {'type': 'integer'}, 'type': 'array'}
    """
    return written_out(adapter.json_schema(schema_generator=_Quiet))


def written_out(schema: JsonObject) -> JsonObject:
    """Return a schema of pydantic's without titles, with the type of its root at the root.

    >>> written_out({"$ref": "#/$defs/A", "$defs": {"A": {"title": "A", "type": "object"}}})["type"]
    'object'
    """
    schema = _untitled(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str):  # a model that holds itself stands among its own definitions
        beside = {key: item for key, item in schema.items() if key != "$ref"}
        schema = {**schema["$defs"][reference.rpartition("/")[2]], **beside}
    if schema.get("type") == "object":
        schema = {"type": "object", "properties": schema.pop("properties", {}), **schema}
    return schema


class _Quiet(GenerateJsonSchema):
    # A default that is not JSON is left out of the schema without a warning at each start.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}


_HOLDERS = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "required"})


def _untitled(schema: Any) -> Any:
    if is_list(schema):
        return [_untitled(item) for item in schema]
    if not is_object(schema):
        return schema
    return {
        key: {name: _untitled(item) for name, item in value.items()}
        if key in _HOLDERS
        else (value if key in _DATA else _untitled(value))
        for key, value in schema.items()
        if key != "title"
    }


def modern(hint: Any, above: tuple[Any, ...] = ()) -> Any:
    """Return the type with every `typing.TypedDict` in it made one that pydantic takes on Python 3.11.

    One that holds itself is described as an object there, without its fields.
    """
    return hint if sys.version_info >= (3, 12) else _made_modern(hint, above)


def _made_modern(hint: Any, above: tuple[Any, ...]) -> Any:
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        return dict[str, Any] if hint in above else _typed_dict(hint, (*above, hint))
    inner = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if not inner or origin is typing.Literal:
        return hint
    if origin is Annotated:
        return _ANNOTATED[(_made_modern(inner[0], above), *hint.__metadata__)]
    changed = tuple(_made_modern(item, above) for item in inner)
    if all(new is old for new, old in zip(changed, inner, strict=True)):
        return hint
    if origin is types.UnionType:
        return typing.Union[changed]  # noqa: UP007  (`|` needs the members one by one)
    generic: Any = origin
    return hint.copy_with(changed) if hasattr(hint, "copy_with") else generic[changed]


def _typed_dict(kind: Any, above: tuple[Any, ...]) -> Any:
    from typing_extensions import TypedDict

    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        wrapper = typing.get_origin(hint)
        inner = _made_modern(typing.get_args(hint)[0] if wrapper in (Required, NotRequired) else hint, above)
        optional = wrapper is NotRequired or (wrapper is not Required and name in kind.__optional_keys__)
        fields[name] = NotRequired[inner] if optional else inner
    make: Any = TypedDict  # a type checker knows only the spelling with literals
    made = make(kind.__name__, fields)
    made.__doc__ = kind.__doc__
    return made
