from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.check_schema import check_schema, plainly_fits

TREE: Any = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "name/~x": {"type": "string"}},
            "additionalProperties": False,
        },
        "a/b~c": {"type": "integer"},
    },
}

TABLE: list[tuple[Any, Any, list[tuple[str, str]]]] = [
    ({"type": "string"}, 5, [("", "must be a string, not an integer")]),
    ({"type": ["string", "null"]}, None, []),
    ({"type": ["string", "null"]}, 1.5, [("", "must be a string or null, not a number")]),
    ({"type": "integer"}, True, [("", "must be an integer, not a boolean")]),
    ({"type": "integer"}, 3.0, []),
    ({"type": "integer"}, 3.5, [("", "must be an integer, not a number")]),
    ({"type": "number"}, 3, []),
    ({"type": "array"}, {}, [("", "must be an array, not an object")]),
    ({"type": "object"}, object(), [("", "must be an object, not this")]),
    ({"enum": ["warm", "cold"]}, "hot", [("", "must be one of 'warm', 'cold'")]),
    ({"enum": [1]}, True, [("", "must be one of 1")]),
    ({"const": 3}, 4, [("", "must be 3")]),
    ({"const": 3}, 3, []),
    ({"required": ["a"], "properties": {"b": {"type": "null"}}}, {"b": None}, [("a", "is required but missing")]),
    (
        {"properties": {"a": {"items": {"type": "string"}}}},
        {"a": ["x", 2]},
        [("a[1]", "must be a string, not an integer")],
    ),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, [("b", "is not a parameter; allowed: a")]),
    ({"additionalProperties": False}, {"b": 1}, [("b", "is not a parameter; there are none")]),
    ({"additionalProperties": {"type": "null"}}, {"b": 1}, [("b", "must be null, not an integer")]),
    (
        {"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
        {"xa": 1},
        [("xa", "must be null, not an integer")],
    ),
    ({"minimum": 1, "maximum": 9}, 12, [("", "must be at most 9")]),
    ({"minimum": 1, "maximum": 9}, 0, [("", "must be at least 1")]),
    ({"exclusiveMinimum": 1}, 1, [("", "must be above 1")]),
    ({"exclusiveMaximum": 1}, 1, [("", "must be below 1")]),
    ({"multipleOf": 3}, 4, [("", "must be a multiple of 3")]),
    ({"multipleOf": 0.1}, 0.3, []),
    ({"multipleOf": 0}, 4, []),
    ({"multipleOf": 1e-300}, 1e300, []),
    ({"minLength": 2}, "a", [("", "must have at least 2 characters, not 1")]),
    ({"maxLength": 2}, "abc", [("", "must have at most 2 characters, not 3")]),
    ({"pattern": "^a+$"}, "b", [("", "must match the pattern ^a+$")]),
    ({"pattern": "("}, "b", []),
    ({"minItems": 1}, [], [("", "must have at least 1 items, not 0")]),
    ({"uniqueItems": True}, [1, 1], [("", "must not hold the same item twice")]),
    ({"uniqueItems": True}, [1, True], []),
    ({"maxProperties": 0}, {"a": 1}, [("", "must have at most 0 entries, not 1")]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [1, 2], [("[1]", "is not allowed")]),
    (
        {"items": [{"type": "integer"}], "additionalItems": {"type": "null"}},
        [1, 2],
        [("[1]", "must be null, not an integer")],
    ),
    (
        {"anyOf": [{"type": "string"}, {"properties": {"a": {"type": "null"}}, "type": "object"}]},
        {"a": 1},
        [("", "fits none of the alternatives: must be a string, not an object / a must be null, not an integer")],
    ),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, []),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, [("", "fits 2 alternatives instead of one")]),
    ({"oneOf": [{"type": "integer"}]}, "a", [("", "fits none of the alternatives: must be an integer, not a string")]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, [("", "must be at most 2")]),
    ({"not": {"type": "string"}}, "a", [("", "has a form that is not allowed")]),
    (TREE, {"left": {"left": {"right": 1}}}, [("left.left.right", "is not a parameter; allowed: left, name/~x")]),
    ({**TREE, "$ref": "#/$defs/a~1b~0c"}, "x", [("", "must be an integer, not a string")]),
    # What is odd or not known lets everything pass.
    ({"$ref": "#"}, 1, []),
    ({"$ref": "https://example.com/x"}, 1, []),
    ({"$ref": "#/nowhere"}, 1, []),
    ({"type": "any", "required": True, "properties": [], "enum": "x", "minimum": "1"}, {"a": 1}, []),
    ("odd", 1, []),
    (True, 1, []),
]


@pytest.mark.parametrize(("schema", "value", "problems"), TABLE)
def test_a_schema_written_by_hand_is_honoured(schema: Any, value: Any, problems: list[tuple[str, str]]) -> None:
    assert check_schema(value, schema) == problems


def test_a_schema_whose_alternatives_multiply_ends_soon() -> None:
    schema: Any = {"$ref": "#/$defs/d0", "$defs": {"d60": {"type": "null"}}}
    for index in range(60):
        part = {"$ref": f"#/$defs/d{index + 1}"}
        schema["$defs"][f"d{index}"] = {"anyOf": [part, dict(part)]}

    check_schema(1, schema)


def test_a_value_nested_too_deeply_is_a_problem() -> None:
    value: Any = {}
    for _ in range(150):
        value = {"left": value}

    assert [text for _, text in check_schema(value, TREE)] == ["is nested too deeply"]


def test_a_long_list_of_problems_is_cut() -> None:
    assert len(check_schema(["x"] * 1000, {"items": {"type": "null"}})) == 50


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    """type enum const required properties patternProperties additionalProperties items prefixItems minItems maxItems
    uniqueItems minimum maximum exclusiveMinimum multipleOf minLength maxLength pattern anyOf oneOf allOf not $ref
    $defs minProperties""".split()  # noqa: SIM905
)
WORDS = st.sampled_from(["string", "integer", "object", "array", "number", "null", "#", "#/$defs/a", "#/a", "(", "a"])
SCHEMAS = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | st.sampled_from("ab"), inner, max_size=5),
    max_leaves=20,
)


@given(JSON, SCHEMAS)
def test_no_schema_raises(value: Any, schema: Any) -> None:
    check_schema(value, schema)


@given(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), st.dictionaries(KEYWORDS, SCHEMAS, max_size=5))
def test_what_plainly_fits_fits(value: Any, schema: Any) -> None:
    if plainly_fits(schema)(value):
        assert check_schema(value, schema) == []


def test_flat_scalars_fit_plainly() -> None:
    fits = plainly_fits(
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["integer"]}}, "required": ["a", 5]}
    )

    assert (fits({"a": 1}), fits({"a": True}), fits({}), fits({"a": 1, "b": 1})) == (True, False, False, False)
