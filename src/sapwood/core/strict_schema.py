"""A JSON Schema in the form that a provider can hold a model to, letter by letter ("strict").

Laws: what fits the strict form fits the schema's shape: no alternative is added and nothing is left open; limits that
providers do not take (lengths, bounds, patterns) are told in the description instead, and checked by us afterwards; a
schema that cannot be said so has no strict form, and nothing is guessed.
"""

from typing import Any

from sapwood.core.json_object import is_list, is_object
from sapwood.core.tools import JsonObject

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_KEPT = frozenset({"type", "enum", "const", "description"})
_SILENT = frozenset(
    {
        *("title", "default", "examples", "$schema", "$id", "$comment", "discriminator", "deprecated"),
        *("readOnly", "writeOnly"),
    }
)
_TOLD = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "multipleOf": "a multiple of",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
    "pattern": "matches",
    "format": "format",
    "uniqueItems": "no item twice",
}
_STRUCTURE = frozenset(
    {"properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs"}
)


class _NotStrict(Exception):
    """The schema leaves something open."""


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the strict form of a schema, None where it has none.

    Every property is required and no other is allowed. None for objects with free keys, values of any kind, tuples,
    `not`, conditions and alternatives that must hold together.

    >>> strict_schema({"type": "object", "properties": {"n": {"type": "integer", "default": 2}}})["required"]
    ['n']
    >>> strict_schema({"type": "object", "additionalProperties": {"type": "integer"}})
    """
    try:
        return _strict(schema)
    except (_NotStrict, RecursionError):
        return None


def _strict(node: Any) -> JsonObject:
    if not is_object(node) or node.keys() - _KEPT - _SILENT - _STRUCTURE - _TOLD.keys():
        raise _NotStrict
    definitions = node.get("$defs", {})
    held = {"$defs": {name: _strict(part) for name, part in definitions.items()}} if definitions else {}
    if "$ref" in node:
        return {"$ref": node["$ref"], **held}  # nothing may stand beside it
    parts: Any = node.get("allOf")
    if parts is not None:
        if not is_list(parts) or len(parts) != 1:
            raise _NotStrict
        return {**_strict(parts[0]), **held}
    made: JsonObject = {name: node[name] for name in node if name in _KEPT}
    if limits := _limits(node):
        made["description"] = f"{made['description']} ({limits})" if made.get("description") else limits
    if node.get("format") in _FORMATS:
        made["format"] = node["format"]
    made |= _inner(node)
    if not made.keys() & {"type", "enum", "const", "anyOf"}:
        raise _NotStrict
    return made | held


def _inner(node: JsonObject) -> JsonObject:
    """Return what a node holds: alternatives, items, properties."""
    made: JsonObject = {}
    for name in ("anyOf", "oneOf"):
        if is_list(found := node.get(name)):
            made["anyOf"] = [_strict(part) for part in found]
    kinds = node.get("type")
    named: list[Any] = kinds if is_list(kinds) else [kinds]
    if "array" in named:
        made["items"] = _strict(node.get("items"))
    if "object" in named or "properties" in node:
        properties = node.get("properties")
        if not is_object(properties) or not properties or node.get("additionalProperties", False) is not False:
            raise _NotStrict
        made["properties"] = {name: _strict(part) for name, part in properties.items()}
        made["required"] = [*properties]
        made["additionalProperties"] = False
    return made


def _limits(node: JsonObject) -> str:
    """Return the limits that are left out, in words."""
    words: list[str] = []
    for name, told in _TOLD.items():
        if name not in node or (name == "format" and node[name] in _FORMATS):
            continue
        if name == "uniqueItems":
            words += [told] if node[name] else []
        else:
            words.append(f"{node[name]} {told}" if told.startswith(("characters", "items")) else f"{told} {node[name]}")
    return ", ".join(words)
