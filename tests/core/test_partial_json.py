"""What can be shown of an output that still streams, and what showing it costs."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sapwood.core.output_type import OutputType
from sapwood.core.partial_json import FREE_WORK, WORK_PER_CHARACTER, GrowingJson
from sapwood.core.tools import JsonObject


class Lamp(BaseModel):
    kind: Literal["lamp"] = "lamp"
    watts: int
    note: str = ""


class Pot(BaseModel):
    kind: Literal["pot"] = "pot"
    litres: float
    note: str = ""


class Report(BaseModel):
    title: str
    severity: int = Field(ge=1, le=5)
    level: Literal["low", "high"] = "low"
    tags: list[str] = []
    lamp: Lamp | None = None
    day: str = Field("", pattern=r"^\d{4}$")


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


FREE: JsonObject = {"type": "object"}
OPEN: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "additionalProperties": {"type": "string"},
}


@pytest.mark.parametrize(
    ("given", "text", "shown"),
    [
        (Report, "", None),
        (Report, "Sure, here: ", None),
        (Report, "{", {}),
        (Report, '{"tit', {}),
        (Report, '{"title"', {}),
        (Report, '{"title": ', {}),
        (Report, '{"title": "', {"title": ""}),
        (Report, '{"title": "Fi', {"title": "Fi"}),
        (Report, '{"title": "Fi\\', {"title": "Fi"}),
        (Report, '{"title": "Fi\\"re\\u00', {"title": 'Fi"re'}),
        (Report, '```json\n{"title": "Fire"', {"title": "Fire"}),
        (Report, '{"title": "Fire", "severity": 1', {"title": "Fire"}),
        (Report, '{"title": "Fire", "severity": 1 ', {"title": "Fire"}),
        (Report, '{"title": "Fire", "severity": 1,', {"title": "Fire", "severity": 1}),
        (Report, '{"title": "Fire", "severity": 12,', {"title": "Fire"}),
        (Report, '{"title": "Fire", "severity": 12}', {"title": "Fire"}),
        (Report, '{"title": 5, "severity": 1}', {"severity": 1}),
        (Report, '{"level": "lo', {}),
        (Report, '{"level": "low"', {"level": "low"}),
        (Report, '{"level": "lower"', {}),
        (Report, '{"day": "19', {}),
        (Report, '{"day": "1984"', {"day": "1984"}),
        (Report, '{"other": "x", "title": "a', {"title": "a"}),
        (Report, '{"other": "x', {}),
        (Report, '{"tags": [', {"tags": []}),
        (Report, '{"tags": ["a", "b', {"tags": ["a", "b"]}),
        (Report, '{"tags": ["a", 5, "b', {"tags": ["a", "b"]}),
        (Report, '{"tags": ["a", 5]', {}),
        (Report, '{"tags": {"a"', {}),
        (Report, '{"lamp": {', {"lamp": {}}),
        (Report, '{"lamp": {"watts": 5', {"lamp": {}}),
        (Report, '{"lamp": {"watts": 5, "note": "br', {"lamp": {"watts": 5, "note": "br"}}),
        (Report, '{"lamp": {"note": "br"}', {}),
        (Report, '{"lamp": null', {}),
        (Report, '{"lamp": null}', {"lamp": None}),
        (Report, '{"title": "a"} and more {"title": "b"}', {"title": "a"}),
        (Report, '{"title": "a", }', None),
        (Report, "[1", None),
        (Lamp | Pot, "{", None),
        (Lamp | Pot, '{"value": {"kind": "po', {}),
        (Lamp | Pot, '{"value": {"kind": "pot", "watts": 5, "note": "x', {"kind": "pot", "note": "x"}),
        (Lamp | Pot, '{"value": {"kind": "pan", "watts": 5, "note": "x', None),
        (Lamp | Pot, '{"value": {"watts": 5}}', {"watts": 5}),
        (Lamp | Pot, '{"watts": 5, "value": 1', None),
        (list[int], '{"value": [1, 2', [1]),
        (list[int], '{"value": [1, "x", 2], ', [1, 2]),
        (list[int], "[1, 2", [1]),
        (list[int], "[1, 2]", [1, 2]),
        (list[Lamp], '{"value": [{"watts": 1}, {"note": "a"}, {"watts": 2', [{"watts": 1}, {}]),
        (list[list[str]], '{"value": [["a"], ["b', [["a"], ["b"]]),
        (tuple[str, int], '{"value": ["a", 1, ', ["a", 1]),
        (str, '{"value": "He', "He"),
        (str, '{"value": "He"}', "He"),
        (str, '{"value": "He", "value2": "x', "He"),
        (str, '{"valu', None),
        (int, '{"value": 12', None),
        (int, '{"value": 12}', 12),
        (bool, '{"value": fal', None),
        (Literal["ab", "abc"], '{"value": "ab', None),
        (Literal["ab", "abc"], '{"value": "ab"', "ab"),
        (None | str, '{"value": "a', "a"),
        (Tree, '{"name": "a", "children": [{"name": "b', {"name": "a", "children": [{"name": "b"}]}),
        (FREE, '{"a": {"b": [1, "x', {"a": {"b": [1, "x"]}}),
        (FREE, '{"a": tru', {}),
        (OPEN, '{"a": 1, "b": "x", "c": 5, "d": "y', {"a": 1, "b": "x", "d": "y"}),
        ({"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}}, '{"a": "x', {"a": "x"}),
        ({"type": "object", "properties": {"a": True, "b": False}}, '{"a": [1, 2], "b": "x', {"a": [1, 2]}),
        ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, '{"a": "x', {}),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}, '{"a": "x', {"a": "x"}),
        (
            {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            '{"value": ["a", 1, "b"',
            ["a", 1, "b"],
        ),
        ({"type": ["string", "null"]}, '{"value": "a', "a"),
        (Report, '{"title": "a", "lamp": {"watts": 1}, "title": "b', {"lamp": {"watts": 1}, "title": "b"}),
    ],
)
def test_a_text_that_ends_here_shows_this(given: Any, text: str, shown: Any) -> None:
    assert OutputType(given).partial(text) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_pieces_show_what_the_text_so_far_shows(size: int) -> None:
    made = OutputType(Report)
    text = 'Here: {"title": "F\\u00fc\\"r\\\\", "severity": 3, "tags": ["a\\\\", "{b]"], "lamp": {"watts": 5}} end'
    growing = made.growing()
    for start in range(0, len(text), size):
        seen = growing.feed(text[start : start + size])
        assert seen in (None, made.partial(text[: start + size]))
    assert growing.finish() == {"title": 'Fü"r\\', "severity": 3, "tags": ["a\\", "{b]"], "lamp": {"watts": 5}}


def test_what_is_no_news_is_not_told_again() -> None:
    growing = OutputType(Report).growing()

    assert growing.feed('{"title": "a"}') == {"title": "a"}
    assert [growing.feed(piece) for piece in ("", " more", '{"title": "b"}')] == [None, None, None]
    assert growing.finish() == {"title": "a"}


def test_broken_json_shows_what_was_sound() -> None:
    growing = OutputType(Report).growing()
    assert growing.feed('{"title": "a", "tags": ["b"') == {"title": "a", "tags": ["b"]}
    assert growing.feed("}, nope") == {"title": "a", "tags": ["b"]}


def test_a_text_that_is_nested_without_end_shows_what_was_sound() -> None:
    growing = OutputType(FREE).growing()
    assert growing.feed('{"a": "x", ') == {"a": "x"}
    assert growing.feed('"b": ' + "[" * 100_000) == {"a": "x"}


ESSAY = '{"title": "' + "ten chars." * 40_000
LIST = '{"tags": [' + '"a tag", ' * 5_000


@pytest.mark.parametrize(("text", "least"), [(ESSAY, 200), (LIST, 30)])
def test_a_long_text_costs_in_proportion_to_its_length(text: str, least: int) -> None:
    growing = OutputType(Report).growing()
    looks, sizes = 0, []
    for start in range(0, len(text), 10):
        looks += growing.feed(text[start : start + 10]) is not None
        if start in (0, len(text) // 20 * 10):
            sizes.append(growing.work)
    assert growing.work <= FREE_WORK + WORK_PER_CHARACTER * len(text)
    assert growing.work - sizes[-1] <= WORK_PER_CHARACTER * len(text) * 0.6, "the second half costs what the first did"
    assert looks >= least, "it is shown often all the same"


def test_the_end_of_a_long_text_is_shown_in_any_case() -> None:
    growing = OutputType(Report).growing()
    for start in range(0, len(LIST), 10):
        growing.feed(LIST[start : start + 10])
    assert growing.finish() == {"tags": ["a tag"] * 5_000}


def test_an_output_of_usual_size_is_shown_at_each_piece() -> None:
    growing = OutputType(Report).growing()
    growing.feed('{"title": "')
    assert all(growing.feed("word") is not None for _ in range(1_000))


def test_no_validator_runs_while_it_grows() -> None:
    from pydantic import field_validator

    class Watched(BaseModel):
        n: int
        t: str

        @field_validator("n", "t")
        @classmethod
        def never(cls, value: Any) -> Any:
            raise AssertionError("it ran")

    assert OutputType(Watched).partial('{"n": 1, "t": "x"}') == {"n": 1, "t": "x"}


def test_a_schema_of_ones_own_can_be_shown_too() -> None:
    assert GrowingJson(FREE).feed('{"a": "b') == {"a": "b"}


REPORTS = st.builds(
    Report,
    title=st.text(max_size=6),
    severity=st.integers(1, 5),
    level=st.sampled_from(["low", "high"]),
    tags=st.lists(st.text(max_size=3), max_size=3),
    lamp=st.none() | st.builds(Lamp, watts=st.integers(), note=st.text(max_size=4)),
    day=st.just("1999"),
)
TREES = st.recursive(
    st.builds(Tree, name=st.text(max_size=3)),
    lambda inner: st.builds(Tree, name=st.text(max_size=3), children=st.lists(inner, max_size=2)),
    max_leaves=4,
)
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Report, REPORTS),
    (Tree, TREES),
    (
        list[Lamp | Pot],
        st.lists(st.builds(Lamp, watts=st.integers()) | st.builds(Pot, litres=st.floats(0, 9)), max_size=3),
    ),
    (
        dict[str, list[float]],
        st.dictionaries(st.text(max_size=3), st.lists(st.floats(-1e6, 1e6), max_size=3), max_size=3),
    ),
    (str, st.text()),
]


@settings(deadline=None)
@given(st.data())
def test_no_beginning_shows_what_the_whole_contradicts(data: st.DataObject) -> None:
    given, values = data.draw(st.sampled_from(KINDS))
    made = OutputType(given)
    final = json.loads(made.dump(data.draw(values)))
    text = json.dumps({"value": final} if made.is_wrapped else final, ensure_ascii=data.draw(st.booleans()))
    seen: Any = None
    for end in range(len(text) + 1):
        shown = made.partial(text[:end])
        assert shown is None or begins(shown, final)
        assert seen is None or begins(seen, shown), "what was shown is not taken back"
        seen = shown
    assert seen == final


def begins(shown: Any, final: Any) -> bool:
    """Whether a value is the beginning of another: texts and lists by their start, objects by their fields."""
    if isinstance(shown, dict) and isinstance(final, dict):
        return all(key in final and begins(item, final[key]) for key, item in shown.items())
    if isinstance(shown, list) and isinstance(final, list):
        pairs = list(zip(shown, final, strict=False))
        return len(shown) <= len(final) and all(begins(one, other) for one, other in pairs)
    if isinstance(shown, str) and isinstance(final, str):
        return final.startswith(shown)
    return bool(shown == final)


@settings(deadline=None)
@given(
    st.text(alphabet='{}[]",:\\ab1 -truenl\n\ud83d', max_size=40),
    st.sampled_from([Report, list[Lamp | Pot], FREE, str]),
)
def test_no_text_whatever_raises(text: str, given: Any) -> None:
    growing = OutputType(given).growing()
    for character in text:
        growing.feed(character)
    growing.finish()
    OutputType(given).partial(text)
