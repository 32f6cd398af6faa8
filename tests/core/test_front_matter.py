"""Front matter: what is read from the part of YAML that people write."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.front_matter import read_front_matter


def fields(text: str) -> dict[str, Any]:
    found = read_front_matter(f"---\n{text}\n---\n")
    assert found is not None
    return found.fields


VALUES: list[tuple[str, Any]] = [
    ("k: text", "text"),
    ("k: Use for reports: weekly and monthly", "Use for reports: weekly and monthly"),
    ("k: https://example.com/a#b", "https://example.com/a#b"),
    ("k: text # a comment", "text"),
    ("k: # a comment alone", None),
    ("k:", None),
    ("k: ~", None),
    ("k: null", None),
    ("k: true", True),
    ("k: False", False),
    ("k: 42", 42),
    ("k: -7", -7),
    ("k: 1.5", 1.5),
    ("k: 1e3", 1000.0),
    ("k: 1.2.3", "1.2.3"),
    ("k: 99999999999999999999999", "99999999999999999999999"),
    ("k: 2026-01-31", "2026-01-31"),
    ('k: "1.0"', "1.0"),
    ('k: "a: b # c"', "a: b # c"),
    ('k: "a \\"quoted\\" word, \\u00e9\\x41\\n"', 'a "quoted" word, éA\n'),
    ('k: "an unknown \\q"', "an unknown \\q"),
    ("k: 'it''s'", "it's"),
    ("k: 'quoted' # comment", "quoted"),
    ("k: 'quoted' and more", "'quoted' and more"),
    ('k: "no end', '"no end'),
    ("k: '", "'"),
    ('"k": v', "v"),
    ("k : v", "v"),
    ("k: one\n  two: three", "one two: three"),
    ('k: "one\n  two"', "one two"),
    ("k:\n  one\n  two", "one two"),
    ("k: |\n  one\n    two\n\n  # three", "one\n  two\n\n# three"),
    ("k: >-\n  one\n  two\n\n  three", "one two\nthree"),
    ("k: |2+ # a comment\n  one", "one"),
    ("k: |\nother: x", ""),
    ("k: [a, 'b, c', 3, [x, y], {n: 1}]", ["a", "b, c", 3, ["x", "y"], {"n": 1}]),
    ("k: [a,\n  b]", ["a", "b"]),
    ("k: []", []),
    ("k: {a: 1, 'b': two}", {"a": 1, "b": "two"}),
    ("k: [not closed", "[not closed"),
    ("k: {not closed", "{not closed"),
    ("k:\n  - a\n  - b: 1\n    c: 2\n  -\n  - 'q: r'", ["a", {"b": 1, "c": 2}, None, "q: r"]),
    ("k:\n- a\n-\n  b\n- c", ["a", "b", "c"]),
    ("k:\n  - long\n    text", ["long text"]),
    ("k:\n  a: 1\n  # a comment\n\n  b:\n    c: d", {"a": 1, "b": {"c": "d"}}),
    ("# a comment\n\nk: v", "v"),
    ("k: v\n# a comment\n", "v"),
    ("k:\tv", "v"),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_a_value_is_read(text: str, value: Any) -> None:
    found = fields(text)
    assert found["k"] == value
    assert type(found["k"]) is type(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("just text", "line 2: 'just text' is no `key: value`"),
        ("k: v\n- item", "line 3: '- item' is no `key: value`"),
        ("k: v\nk: w", "line 3: 'k' is given twice; the last one counts"),
        (" k: v", "line 2: 'k: v' is no `key: value`"),
    ],
)
def test_what_is_not_understood_is_told_of_with_its_line(text: str, problem: str) -> None:
    found = read_front_matter(f"---\n{text}\nlast: 1\n---")
    assert found is not None
    assert found.problems == (problem,)
    assert found.fields["last"] == 1


@pytest.mark.parametrize("text", ["", "text", "# Title\n---\nk: v\n---", "---\nk: v\nno end", "----\nk: v\n---"])
def test_a_file_without_front_matter_has_none(text: str) -> None:
    assert read_front_matter(text) is None


def test_marks_of_an_editor_make_no_difference() -> None:
    plain = "---\nname: a\nlist:\n  - b\n---\n\nBody\n---\nmore"
    for text in (
        "\ufeff" + plain,
        plain.replace("\n", "\r\n"),
        plain.replace("\n", "\r"),
        plain.replace("---\nname", "---  \nname").replace("---\n\nBody", "--- \nBody") + "\n\n",
        "\n\n" + plain,
        plain.replace("---\n\nBody", "...\n\nBody"),
    ):
        assert read_front_matter(text) == read_front_matter(plain)
    found = read_front_matter(plain)
    assert found is not None
    assert (found.fields, found.body) == ({"name": "a", "list": ["b"]}, "Body\n---\nmore")


def test_nesting_without_end_becomes_text() -> None:
    deep = "\n".join(f"{' ' * depth}k{depth}:" for depth in range(2_000))
    found: Any = fields(deep)
    levels = 0
    while isinstance(found, dict):
        (found,) = found.values()
        levels += 1
    assert levels == 7
    assert found.startswith("k7: k8:")


@pytest.mark.parametrize("piece", ["a" + " " * 20_000 + "b", "k:" + " x" * 20_000, "[" * 20_000, '"' + "\\" * 20_001])
def test_a_hostile_line_costs_little(piece: str) -> None:
    found = read_front_matter(f"---\nk: {piece}\n{piece}\n---")
    assert found is not None


VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcxyz_", min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text("abcdefgh-", min_size=1, max_size=8).filter(lambda key: key[0] != "-"), VALUE, max_size=4)
)
def test_what_json_says_on_one_line_is_read_as_the_same(value: dict[str, Any]) -> None:
    """Each value in JSON's form is YAML, too; where this cannot read it, it stays a text and nothing fails."""
    import json

    lines = [f"{key}: {json.dumps(item)}" for key, item in value.items()]
    found = fields("\n".join(lines))
    assert found.keys() == value.keys()
    for key, item in value.items():
        if not isinstance(item, list | dict):
            assert found[key] == item


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_front_matter(text)
    read_front_matter(f"---\n{text}\n---\n{text}")
