"""Check a JSON value against a JSON Schema that somebody wrote by hand.

Covers type (also as a list), enum, const, required, properties, patternProperties, additionalProperties,
items, prefixItems, anyOf, oneOf, allOf, not, local $ref, and the limits of numbers, texts, arrays and objects.
Laws: what it does not know (`format`, `if`, remote references) it lets pass; an odd schema never raises.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from sapwood.core.input_problems import Problem, cut, path_text, unknown_name
from sapwood.core.json_object import is_list, is_object
from sapwood.core.tools import JsonObject

_MAX_DEPTH = 100
_ENOUGH = 50  # problems; nobody reads more
_MAX_STEPS = 300_000  # a schema whose alternatives multiply is not followed to its end

Path = tuple[object, ...]
_NAMES = {"object": "an object", "array": "an array", "integer": "an integer", "null": "null"}


def check_schema(value: Any, schema: Any, *, root: Any = None) -> list[Problem]:
    """Return what is wrong with a value, empty where it fits.

    root: where references of the schema lead, where it is a part of a larger one.

    >>> check_schema({"size": True}, {"properties": {"size": {"type": ["integer", "null"]}}})
    [('size', 'must be an integer or null, not a boolean')]
    """
    problems: list[Problem] = []
    for path, text in _Checker(schema if root is None else root).problems(value, schema, (), 0):
        problems.append((path_text(path), text))
        if len(problems) >= _ENOUGH:
            break
    return problems


def plainly_fits(schema: JsonObject) -> Callable[[JsonObject], bool]:
    """Return a test that is true only where a value surely fits, and fast for flat scalars.

    Where it is false, `check_schema` decides.

    >>> plainly_fits({"properties": {"size": {"type": "integer"}}, "required": ["size"]})({"size": 5})
    True
    """
    properties = _dict(schema.get("properties"))
    plain = {
        name: _EXACT[part["type"]]
        for name, part in properties.items()
        if is_object(part) and part.keys() <= _TELLING and isinstance(part.get("type"), str) and part["type"] in _EXACT
    }
    required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
    if not schema.keys() <= _PLAIN or schema.get("type", "object") != "object":
        return lambda value: False

    def fits(value: JsonObject) -> bool:
        for name in required:
            if name not in value:
                return False
        return all(type(item) is plain.get(name) for name, item in value.items())

    return fits


class _Checker:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0
        self._followed: set[tuple[str, int]] = set()

    def problems(self, value: Any, schema: Any, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        if schema is False:
            yield path, "is not allowed"
        self._steps += 1
        if not is_object(schema) or self._steps > _MAX_STEPS:
            return
        if depth > _MAX_DEPTH:
            yield path, "is nested too deeply"
            return
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._referred(value, reference, path, depth)
        if (wrong := _wrong_type(value, schema.get("type"))) is not None:
            yield path, wrong
            return
        yield from ((path, text) for text in _limits(value, schema))
        yield from self._combined(value, schema, path, depth)
        if is_object(value):
            yield from self._object(value, schema, path, depth)
        elif is_list(value):
            yield from self._array(value, schema, path, depth)

    def _referred(self, value: Any, reference: str, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        step = (reference, id(value))
        if step in self._followed:
            return  # a reference that leads back to itself says nothing
        self._followed.add(step)
        try:
            yield from self.problems(value, self._resolve(reference), path, depth + 1)
        finally:
            self._followed.discard(step)

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        return next(self.problems(value, schema, (), depth + 1), None) is None

    def _combined(self, value: Any, node: JsonObject, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        for part in _list(node.get("allOf")):
            yield from self.problems(value, part, path, depth + 1)
        any_of = _list(node.get("anyOf"))
        if any_of and not any(self._fits(value, part, depth) for part in any_of):
            yield path, "fits none of the alternatives" + self._reasons(value, any_of, path, depth)
        one_of = _list(node.get("oneOf"))
        if one_of and (fitting := sum(self._fits(value, part, depth) for part in one_of)) != 1:
            told = f"fits {fitting} alternatives instead of one" if fitting else "fits none of the alternatives"
            yield path, told + ("" if fitting else self._reasons(value, one_of, path, depth))
        if "not" in node and self._fits(value, node["not"], depth):
            yield path, "has a form that is not allowed"

    def _reasons(self, value: Any, parts: list[Any], path: Path, depth: int) -> str:
        reasons = [next(self.problems(value, part, path, depth + 1), (path, "")) for part in parts[:5]]
        return ": " + " / ".join(
            cut(text if where == path else f"{path_text(where)} {text}", 80) for where, text in reasons
        )

    def _object(self, value: JsonObject, node: JsonObject, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        for name in _list(node.get("required")):
            if isinstance(name, str) and name not in value:
                yield (*path, name), "is required but missing"
        properties = _dict(node.get("properties"))
        patterns = _dict(node.get("patternProperties"))
        others = node.get("additionalProperties", True)
        for name, item in value.items():
            known = name in properties
            if known:
                yield from self.problems(item, properties[name], (*path, name), depth + 1)
            for pattern, part in patterns.items():
                if _matches(pattern, name):
                    known = True
                    yield from self.problems(item, part, (*path, name), depth + 1)
            if known:
                continue
            if others is False:
                yield (*path, name), unknown_name(list(properties))
            else:
                yield from self.problems(item, others, (*path, name), depth + 1)

    def _array(self, value: list[Any], node: JsonObject, path: Path, depth: int) -> Iterator[tuple[Path, str]]:
        items = node.get("items", True)
        # A list of schemas under `items` is the older spelling of `prefixItems`.
        first = _list(items) or _list(node.get("prefixItems"))
        rest = node.get("additionalItems", True) if isinstance(items, list) else items
        for index, item in enumerate(value):
            part = first[index] if index < len(first) else rest
            yield from self.problems(item, part, (*path, index), depth + 1)

    def _resolve(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return True
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not is_object(found) or name not in found:
                return True
            found = found[name]
        return found


def _wrong_type(value: Any, declared: Any) -> str | None:
    names = [declared] if isinstance(declared, str) else _list(declared)
    allowed = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not allowed or any(_TYPES[name](value) for name in allowed):
        return None
    wanted = " or ".join(_NAMES.get(name, f"a {name}") for name in allowed)
    return f"must be {wanted}, not {_kind(value)}"


def _kind(value: Any) -> str:
    return next((_NAMES.get(name, f"a {name}") for name, test in _TYPES.items() if test(value)), "this")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


# Keywords that say nothing about a value, and those of an object that `plainly_fits` looks at.
_TELLING = frozenset({"type", "title", "description", "default", "examples"})
_PLAIN = frozenset({"type", "properties", "required", "title", "description", "additionalProperties", "$schema"})
_EXACT: dict[Any, type] = {"string": str, "integer": int, "boolean": bool, "number": float}


def _limits(value: Any, node: JsonObject) -> Iterator[str]:
    choices = _list(node.get("enum"))
    if choices and not any(_same(value, item) for item in choices):
        yield f"must be one of {cut(', '.join(map(repr, choices)), 250)}"
    if "const" in node and not _same(value, node["const"]):
        yield f"must be {cut(repr(node['const']), 100)}"
    if _is_number(value):
        yield from _number_limits(value, node)
    elif isinstance(value, str):
        yield from _size_limits(len(value), node, "minLength", "maxLength", "characters")
        pattern = node.get("pattern")
        if isinstance(pattern, str) and not _matches(pattern, value):
            yield f"must match the pattern {cut(pattern, 150)}"
    elif is_list(value):
        yield from _size_limits(len(value), node, "minItems", "maxItems", "items")
        if node.get("uniqueItems") is True and _has_repeats(value):
            yield "must not hold the same item twice"
    elif is_object(value):
        yield from _size_limits(len(value), node, "minProperties", "maxProperties", "entries")


def _number_limits(value: Any, node: JsonObject) -> Iterator[str]:
    for key, fits, told in _NUMBER_RULES:
        limit = node.get(key)
        if _is_number(limit) and not fits(value, limit):
            yield f"must be {told} {limit}"


def _is_multiple(value: Any, step: Any) -> bool:
    if step <= 0 or not math.isfinite(value):
        return True
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    quotient = value / step
    return not math.isfinite(quotient) or math.isclose(quotient, round(quotient), abs_tol=1e-9)


_NUMBER_RULES: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("minimum", lambda value, limit: value >= limit, "at least"),
    ("maximum", lambda value, limit: value <= limit, "at most"),
    ("exclusiveMinimum", lambda value, limit: value > limit, "above"),
    ("exclusiveMaximum", lambda value, limit: value < limit, "below"),
    ("multipleOf", _is_multiple, "a multiple of"),
)


def _size_limits(size: int, node: JsonObject, least: str, most: str, unit: str) -> Iterator[str]:
    limit: Any = node.get(least)
    if _is_number(limit) and size < limit:
        yield f"must have at least {limit} {unit}, not {size:,}"
    limit = node.get(most)
    if _is_number(limit) and size > limit:
        yield f"must have at most {limit} {unit}, not {size:,}"


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return True  # a pattern of another dialect cannot be judged here


def _same(first: Any, second: Any) -> bool:
    # In JSON, true is not 1.
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)


def _has_repeats(items: list[Any]) -> bool:
    return len({json.dumps(item, sort_keys=True, default=repr) for item in items}) < len(items)


def _list(value: object) -> list[Any]:
    return value if is_list(value) else []


def _dict(value: object) -> JsonObject:
    return value if is_object(value) else {}
