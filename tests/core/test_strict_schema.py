"""The strict form of a schema: what becomes of each keyword, and what has none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.check_schema import check_schema
from sapwood.core.strict_schema import strict_schema
from sapwood.core.tools import JsonObject

INT: JsonObject = {"type": "integer"}


def of(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> JsonObject:
    return {**of(**properties), "required": [*properties], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (of(n=INT), closed(n=INT)),
        (
            {**of(n={**INT, "default": 1}), "required": [], "title": "T", "description": "d"},
            {**closed(n=INT), "description": "d"},
        ),
        (of(n={**INT, "minimum": 1, "exclusiveMaximum": 9}), closed(n={**INT, "description": "at least 1, below 9"})),
        (
            of(t={"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "description": "A word"}),
            closed(
                t={"type": "string", "description": "A word (1 characters at least, 9 characters at most, matches ^a)"}
            ),
        ),
        (of(t={"type": "string", "format": "date"}), closed(t={"type": "string", "format": "date"})),
        (of(t={"type": "string", "format": "path"}), closed(t={"type": "string", "description": "format path"})),
        (
            of(t={"type": "array", "items": INT, "uniqueItems": True, "minItems": 2}),
            closed(t={"type": "array", "items": INT, "description": "2 items at least, no item twice"}),
        ),
        (of(t={"type": "array", "items": INT, "uniqueItems": False}), closed(t={"type": "array", "items": INT})),
        (of(t={"oneOf": [INT, of(a=INT)], "discriminator": {}}), closed(t={"anyOf": [INT, closed(a=INT)]})),
        (of(t={"allOf": [INT], "title": "T"}), closed(t=INT)),
        (of(t={"enum": ["a"]}), closed(t={"enum": ["a"]})),
        (of(t={"const": 1}), closed(t={"const": 1})),
        (of(t={"type": ["string", "null"]}), closed(t={"type": ["string", "null"]})),
        (
            {
                **of(t={"$ref": "#/$defs/A", "description": "x"}),
                "$defs": {"A": of(t={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]})},
            },
            {
                **closed(t={"$ref": "#/$defs/A"}),
                "$defs": {"A": closed(t={"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]})},
            },
        ),
    ],
)
def test_a_schema_has_this_strict_form(schema: JsonObject, strict: JsonObject) -> None:
    assert strict_schema(schema) == strict


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": INT},
        {**of(n=INT), "additionalProperties": True},
        of(n={}),
        of(n=True),
        of(n={"description": "anything"}),
        of(n={"type": "array"}),
        of(n={"type": "array", "prefixItems": [INT]}),
        of(n={"not": INT}),
        of(n={"allOf": [INT, INT]}),
        of(n={"allOf": INT}),
        of(n={"if": INT}),
        of(n={"anyOf": [INT, {}]}),
        {**of(n={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "object"}}},
    ],
)
def test_a_schema_that_leaves_something_open_has_none(schema: JsonObject) -> None:
    assert strict_schema(schema) is None


def test_a_schema_that_is_nested_without_end_has_none() -> None:
    schema: JsonObject = INT
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert strict_schema(of(n=schema)) is None


_LEAVES = st.sampled_from([INT, {"type": "string", "maxLength": 3}, {"enum": ["a", "b"]}, {"type": "boolean"}])
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(lambda fields: of(**fields))
        | st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts})
    ),
    max_leaves=6,
)
_VALUES = st.recursive(
    st.integers(-2, 2) | st.sampled_from(["a", "bb", "abcd"]) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@given(_SCHEMAS, _VALUES)
def test_what_fits_the_strict_form_fits_the_schema_but_for_its_limits(schema: JsonObject, value: Any) -> None:
    strict = strict_schema(of(v=schema))
    assert strict is not None
    if not check_schema({"v": value}, strict):
        loose = [text for _, text in check_schema({"v": value}, of(v=schema)) if "characters" not in text]
        assert loose == []
