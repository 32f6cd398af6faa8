"""What people may give as an output: its schema, what fits and what does not, and what they get."""

import dataclasses
import datetime
import enum
import json
import typing
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sapwood.core.check_schema import check_schema
from sapwood.core.errors import ConfigError, ToolError, ToolInputError
from sapwood.core.output_type import OutputInvalid, OutputType

T = TypeVar("T")


class Lamp(BaseModel):
    """A lamp."""

    kind: Literal["lamp"] = "lamp"
    watts: int


class Kettle(BaseModel):
    kind: Literal["kettle"] = "kettle"
    litres: float


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 2


@dataclasses.dataclass
class Plain:
    x: int


class Movie(typing.TypedDict):
    """A film."""

    title: str
    year: typing.NotRequired[int]


class Song(typing_extensions.TypedDict):
    title: str


class Pair(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    value: int
    next: "Node | None" = None


class Page(BaseModel, Generic[T]):
    items: list[T]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    day: datetime.date
    count: int = 1


LAMP, KETTLE = Lamp(watts=5), Kettle(litres=1.5)
BY_HAND = {"type": "object", "properties": {"n": {"type": "integer"}, "o": {"type": "string"}}, "required": ["n"]}

TABLE: list[tuple[Any, Any, Any, list[Any]]] = [
    # given, arguments, output, arguments that are refused
    (Lamp, {"watts": 5}, LAMP, [{}, {"watts": "many"}, {"kind": "kettle", "watts": 5}, {"watts": None}]),
    (Lamp, {"kind": None, "watts": "5"}, LAMP, []),
    (Lamp | Kettle, {"value": {"kind": "kettle", "litres": 1.5}}, KETTLE, [{"value": {}}, {"value": 1}, {}]),
    (Lamp | Kettle, {"kind": "lamp", "watts": 5}, LAMP, [{"kind": "pot"}]),
    (None | Lamp, {"value": None}, None, [{"value": 1}]),
    (Lamp | None, {"value": {"watts": 5}}, LAMP, []),
    (typing.Union[Lamp, Kettle], {"value": {"watts": 5}}, LAMP, []),  # noqa: UP007
    (
        Annotated[Lamp | Kettle, Field(discriminator="kind")],
        {"value": {"kind": "lamp", "watts": 5}},
        LAMP,
        [{"value": {"watts": 5}}],
    ),
    (list[int], {"value": [1, "2"]}, [1, 2], [{"value": ["a"]}, {"value": 1}, {}, {"value": [1], "note": "x"}]),
    (list[Lamp], {"value": [{"watts": 5}]}, [LAMP], [{"value": [{}]}]),
    (set[int], {"value": [1, 1]}, {1}, [{"value": {}}]),
    (tuple[int, str], {"value": [1, "a"]}, (1, "a"), [{"value": [1]}]),
    (int, {"value": 3}, 3, [{"value": 3.5}, {"value": None}, {"value": {}}]),
    (bool, {"value": False}, False, [{"value": "maybe"}]),
    (str, {"value": ""}, "", [{"value": 1}]),
    (datetime.date, {"value": "2024-02-29"}, datetime.date(2024, 2, 29), [{"value": "2023-02-29"}]),
    (Literal["a", "b"], {"value": "b"}, "b", [{"value": "c"}]),
    (Colour, {"value": "red"}, Colour.RED, [{"value": "green"}]),
    (Annotated[int, Field(ge=1)], {"value": 1}, 1, [{"value": 0}]),
    (Point, {"x": 1}, Point(1, 2), [{"y": 1}]),
    (Movie, {"title": "M"}, {"title": "M"}, [{"year": 1931}]),
    (Song, {"title": "S"}, {"title": "S"}, [{}]),
    (Pair, {"value": [1, "b"]}, Pair(1, "b"), [{"value": ["b", 1]}]),
    (Pair, {"value": {"a": 1, "b": "b"}}, Pair(1, "b"), []),
    (Node, {"value": 1, "next": {"value": 2}}, Node(value=1, next=Node(value=2)), [{"value": 1, "next": 2}]),
    (Page[int], {"items": [1]}, Page[int](items=[1]), [{"items": ["a"]}]),
    (RootModel[list[int]], {"value": [1]}, RootModel[list[int]]([1]), [{"value": "a"}]),
    (RootModel[dict[str, int]], {"a": 1}, RootModel[dict[str, int]]({"a": 1}), [{"a": "b"}]),
    (dict[str, Any], {"a": [1]}, {"a": [1]}, []),
    (Strict, {"day": "2024-01-01"}, Strict(day=datetime.date(2024, 1, 1)), [{"day": 5}, {"day": "2024-01-01", "x": 1}]),
    (Strict, {"day": "2024-01-01", "count": None}, Strict(day=datetime.date(2024, 1, 1)), []),
    (BY_HAND, {"n": 3}, {"n": 3}, [{"n": "x"}, {}, {"n": 3, "o": 1}]),
    (BY_HAND, {"n": 3, "o": None}, {"n": 3}, []),
    ({"type": "array", "items": {"type": "integer"}}, {"value": [1]}, [1], [{"value": ["a"]}, {"value": 1}]),
    ({"enum": ["a", 1]}, {"value": 1}, 1, [{"value": True}]),
    (
        {
            "$defs": {"A": {"type": "integer"}},
            "anyOf": [{"$ref": "#/$defs/A"}, {"type": "array", "items": {"$ref": "#"}}],
        },
        {"value": [[1], 2]},
        [[1], 2],
        [{"value": "a"}, {"value": ["a"]}],
    ),
    ({"properties": {"n": {"type": "integer"}}, "additionalProperties": False}, {"n": 1}, {"n": 1}, [{"m": 1}]),
]


@pytest.mark.parametrize(("given", "arguments", "output", "refused"), TABLE)
def test_an_output_is_the_type_that_was_given(given: Any, arguments: Any, output: Any, refused: list[Any]) -> None:
    made = OutputType(given)
    before = json.dumps(arguments)

    got = made.validate(arguments)
    assert got == output
    assert type(got) is type(output)
    assert made.validate_text(f"Sure:\n```json\n{before}\n```") == output
    assert json.dumps(arguments) == before
    for wrong in refused:
        with pytest.raises(OutputInvalid) as error:
            made.validate(wrong)
        assert 0 < len(str(error.value)) <= 1_500


@pytest.mark.parametrize(("given", "arguments", "output", "refused"), TABLE)
def test_the_root_of_each_schema_is_an_object_with_all_it_needs(
    given: Any, arguments: Any, output: Any, refused: list[Any]
) -> None:
    schema = OutputType(given).schema

    assert schema["type"] == "object"
    assert '"title": "' not in json.dumps(schema)
    references = json.dumps(schema).split('"$ref": "')[1:]
    for text in references:
        found: Any = schema
        for step in text.partition('"')[0].split("/")[1:]:
            found = found[step]


def test_what_a_self_referencing_schema_by_hand_refers_to_is_still_there_once_it_is_wrapped() -> None:
    made = OutputType({"type": "array", "items": {"$ref": "#"}})
    assert made.schema["properties"]["value"] == {"type": "array", "items": {"$ref": "#/properties/value"}}
    assert check_schema({"value": [[], 1]}, made.schema) == [("value[1]", "must be an array, not an integer")]


def function() -> int:
    return 1


async def coroutine() -> int:
    return 1


class Opaque:
    pass


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Any, "Any says nothing of its form"),
        (object, "object says nothing"),
        (T, "says nothing"),
        (None, "None says nothing"),
        (type(None), "None says nothing"),
        (function, "function is a function and no type"),
        (coroutine, "coroutine is a function and no type"),
        (print, "print is a builtin"),
        (typing, "typing is a module"),
        (5, "5 cannot be described"),
        ("Lamp", "'Lamp' is a text; give the class itself"),
        (LAMP, "an instance of Lamp is no type; give Lamp itself"),
        (Point(1), "an instance of Point is no type; give Point itself"),
        ((Lamp, Kettle), r"is a collection; write list\[...\]"),
        ([int], "is a collection"),
        (BaseModel, "BaseModel has no fields"),
        (Opaque, "Opaque cannot be described"),
        (typing.Callable[[], int], "cannot be described"),
        (list["Nowhere"], "cannot be described"),  # type: ignore[name-defined]  # noqa: F821
        ({}, "says nothing of the form"),
        ({"a": 1}, "says nothing of the form"),
        ({"$defs": {"A": {"type": "integer"}}}, "says nothing of the form"),
        ({"type": "strin"}, "has the type 'strin'; there are array, boolean"),
        ({"type": ["string", "nul"]}, "has the type 'nul'"),
        ({"properties": 3}, "properties that are no dictionary"),
        ({"type": {1, 2}}, "must be JSON"),
    ],
)
def test_what_is_no_output_is_refused_by_name(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        OutputType(given)


@pytest.mark.parametrize(
    ("given", "name", "description"),
    [
        (Lamp, "Lamp", "A lamp."),
        (Kettle, "Kettle", ""),
        (Point, "Point", "A place."),
        (Plain, "Plain", ""),
        (Movie, "Movie", "A film."),
        (Pair, "Pair", ""),
        (list[datetime.date], "list[date]", ""),
        (Lamp | None, "Lamp | None", ""),
        (Page[int], "Page[int]", ""),
        (Annotated[int, Field(description="How many.")], "int", "How many."),
        ({"title": "Order", "description": "An order.", "type": "object"}, "Order", "An order."),
        ({"type": "object"}, "output", ""),
    ],
)
def test_an_output_has_a_name_and_says_what_it_is(given: Any, name: str, description: str) -> None:
    made = OutputType(given)
    assert (made.name, made.description, repr(made)) == (name, description, f"OutputType({name})")
    assert made.schema.get("description") is None


class Counts(BaseModel):
    """Its validators say how often they ran."""

    ran: typing.ClassVar[list[str]] = []
    n: int

    @field_validator("n")
    @classmethod
    def doubled(cls, n: int) -> int:
        cls.ran.append("n")
        return n * 2

    @model_validator(mode="after")
    def whole(self) -> "Counts":
        type(self).ran.append("whole")
        return self


def test_each_validator_runs_once_and_the_caller_gets_what_it_made() -> None:
    Counts.ran.clear()
    assert OutputType(Counts).validate({"n": 3}).n == 6
    assert Counts.ran == ["n", "whole"]

    Counts.ran.clear()
    with pytest.raises(OutputInvalid):
        OutputType(Counts).validate({"n": "x"})
    assert Counts.ran == []


class Damaged(BaseModel):
    """What a round trip through JSON would damage."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)
    secret: SecretStr
    hidden: str = Field("default", exclude=True)
    named: int = Field(alias="theName")
    endless: float = 0.0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def computed(self) -> int:
        return self.named + 1


def test_nothing_is_lost_on_the_way_to_the_caller_and_nothing_is_told_that_should_not_be() -> None:
    made = OutputType(Damaged)
    got = made.validate({"secret": "s3cret", "hidden": "kept", "theName": 4, "endless": float("inf")})

    assert got.secret.get_secret_value() == "s3cret"
    assert (got.hidden, got.named, got.endless) == ("kept", 4, float("inf"))
    assert json.loads(made.dump(got)) == {"secret": "**********", "theName": 4, "endless": None, "computed": 5}


class Undumpable(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    n: int

    @field_serializer("n")
    def broken(self, n: int) -> int:
        raise KeyError("no")


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("given", "value", "text"),
    [
        (list[int], [1, 2], "[1,2]"),
        (Lamp | Kettle, KETTLE, '{"kind":"kettle","litres":1.5}'),
        (Lamp | None, None, "null"),
        (Colour, Colour.RED, '"red"'),
        (float, float("nan"), "NaN"),
        (int, "not a number", '"not a number"'),
        (Point, Point(1), '{"x":1,"y":2}'),
        (Undumpable, Undumpable(n=1), '"<Undumpable>"'),
        (int, Hostile(), '"<Unserializable Hostile object>"'),
        (BY_HAND, {"n": 1, "o": "é"}, '{"n":1,"o":"é"}'),
        (BY_HAND, {"n": float("inf"), "o": [float("nan"), 1.5, object()]}, '{"n":null,"o":[null,1.5,null]}'),
    ],
)
def test_an_output_is_shown_as_json_and_never_raises(given: Any, value: Any, text: str) -> None:
    assert OutputType(given).dump(value) in (text, "null" if text == "NaN" else text)


def raising(error: BaseException) -> type[BaseModel]:
    class Judged(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def judge(cls, n: int) -> int:
            raise error

    return Judged


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("n must be prime"), "n: Value error, n must be prime"),
        (AssertionError("n must be prime"), "n: Assertion failed, n must be prime"),
        (PydanticCustomError("prime", "{n} must be prime", {"n": "it"}), "n: it must be prime"),
        (ToolError("ask the registry first"), "ask the registry first"),
        (KeyError("prime"), "a validator failed: KeyError: 'prime'"),
        (ZeroDivisionError("division"), "a validator failed: ZeroDivisionError: division"),
        (RecursionError("too deep"), "a validator failed: RecursionError: too deep"),
    ],
)
def test_whatever_a_validator_raises_is_a_reason_for_the_model(error: Exception, said: str) -> None:
    made = OutputType(raising(error))
    for attempt in (lambda: made.validate({"n": 4}), lambda: made.validate_text('{"n": 4}')):
        with pytest.raises(OutputInvalid) as caught:
            attempt()
        assert str(caught.value) == said
        assert isinstance(caught.value, ToolInputError)


def test_of_an_unforeseen_error_the_model_is_told_only_what_may_be_told(caplog: pytest.LogCaptureFixture) -> None:
    made = OutputType(raising(KeyError("secret")))
    with pytest.raises(OutputInvalid) as caught:
        made.validate({"n": 4}, expose_errors=False)

    assert str(caught.value) == "a validator failed"
    assert "KeyError" in caplog.text


def test_what_ends_a_program_is_not_held_up() -> None:
    with pytest.raises(KeyboardInterrupt):
        OutputType(raising(KeyboardInterrupt())).validate({"n": 4})


@pytest.mark.parametrize(
    ("given", "arguments", "said"),
    [
        (Lamp | Kettle, {"watts": "x"}, "value: is required but missing; watts: is not a parameter; allowed: value"),
        (list[int], {}, "value: is required but missing"),
        (
            list[int],
            {"value": ["x"]},
            "value[0]: Input should be a valid integer, unable to parse string as an integer",
        ),
        (
            {"type": "array", "items": {"type": "integer"}},
            {"value": ["x"]},
            "value[0]: must be an integer, not a string",
        ),
        ({"type": "integer"}, {"value": "x"}, "value: must be an integer, not a string"),
        (BY_HAND, {"n": "x"}, "n: must be an integer, not a string"),
        (Strict, {"day": "2024-01-01", "x": 1}, "x: is not a parameter; allowed: day, count"),
        (Lamp, [], "the arguments must be a JSON object, not list"),
    ],
)
def test_a_refusal_names_the_place_as_the_model_wrote_it(given: Any, arguments: Any, said: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        OutputType(given).validate(arguments)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "value", [float("nan"), "\ud800", {"a": object()}, 10**5_000], ids=["nan", "half a character", "object", "endless"]
)
def test_arguments_that_are_no_json_are_refused_and_not_passed_on(value: Any) -> None:
    with pytest.raises(OutputInvalid):
        OutputType(Lamp).validate({"watts": value})


def test_arguments_that_are_nested_without_end_are_refused() -> None:
    value: Any = 1
    for _ in range(10_000):
        value = [value]
    with pytest.raises(OutputInvalid, match="nested too deeply"):
        OutputType(dict[str, Any]).validate({"a": value})


A = {"watts": 5}
TEXTS: list[tuple[Any, str, Any]] = [
    (Lamp, '{"watts": 5}', LAMP),
    (Lamp, '\ufeff  {"watts": 5}\n', LAMP),
    (Lamp, '```json\n{"watts": 5}\n```', LAMP),
    (Lamp, '```\n{"watts": 5}\n```', LAMP),
    (Lamp, 'Here is {the} lamp:\n\n{"watts": 5}\n\nBright enough?', LAMP),
    (Lamp, 'I looked [1, 2]. ```json\n{"watts": 5}\n``` and that is {all}.', LAMP),
    (Lamp, '{"watts": 5} or, in other words, {"watts":5}', LAMP),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], '{"value": [1, 2]}', [1, 2]),
    (list[int], "They are [1, 2].", [1, 2]),
    (list[int], "See [the list]: [1, 2]", [1, 2]),
    (int, "3", 3),
    (int, "```\n3\n```", 3),
    (Lamp | None, "null", None),
    (Literal["a"], '"a"', "a"),
    (Lamp | Kettle, '{"watts": 5}', LAMP),
]


@pytest.mark.parametrize(("given", "text", "output"), TEXTS)
def test_json_is_found_in_a_text(given: Any, text: str, output: Any) -> None:
    assert OutputType(given).validate_text(text) == output


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        (Lamp, "", "the reply is empty"),
        (Lamp, "  \n", "the reply is empty"),
        (Lamp, "It has 5 watts.", "the reply holds no JSON"),
        (Lamp, "[1, 2]", "the reply must be a JSON object, not an array"),
        (Lamp, "3", "not a number"),
        (Lamp, '"x"', "not a text"),
        (Lamp, "true", "not a boolean"),
        (Lamp, "null", "not null"),
        (Lamp, '{"watts": 5} or {"watts": 6}', "the reply holds 2 different JSON values"),
        (Lamp, '{"note": {"watts": 5}, "more": ', "broken or cut off"),
        (Lamp, 'So: {"watts": 5', "broken or cut off"),
        (Lamp, "So: {", "broken or cut off"),
        (Lamp, "{'watts': 5}", "the reply holds no JSON"),
        (list[int], "[[1, 2], ", "broken or cut off"),
        (Lamp, "{" * 1_000, "the reply holds no JSON"),
        (list[int], "[" * 100_000, "broken or cut off: it is nested too deeply"),
        (dict, '{"a":' * 100_000, "broken or cut off"),
        (Lamp, '{"watts": "x"}', "watts: Input should be a valid integer"),
    ],
)
def test_a_text_without_one_sound_value_says_what_is_wrong(given: Any, text: str, said: str) -> None:
    with pytest.raises(OutputInvalid, match=said):
        OutputType(given).validate_text(text)


ROUND_TRIPS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Lamp, st.builds(Lamp, watts=st.integers())),
    (Lamp | Kettle, st.builds(Lamp, watts=st.integers()) | st.builds(Kettle, litres=st.floats(-1e9, 1e9))),
    (list[int], st.lists(st.integers())),
    (dict[str, list[str]], st.dictionaries(st.text(), st.lists(st.text()))),
    (Colour, st.sampled_from(Colour)),
    (datetime.datetime, st.datetimes()),
    (Point, st.builds(Point, st.integers(), st.integers())),
    (set[bool], st.sets(st.booleans())),
    (
        Node,
        st.recursive(
            st.builds(Node, value=st.integers()), lambda n: st.builds(Node, value=st.integers(), next=n), max_leaves=3
        ),
    ),
    (str | None, st.text() | st.none()),
]


@given(st.data())
def test_what_is_shown_is_read_again_as_the_same(data: st.DataObject) -> None:
    given, values = data.draw(st.sampled_from(ROUND_TRIPS))
    made = OutputType(given)
    value = data.draw(values)
    text = made.dump(value)
    arguments = {"value": json.loads(text)} if made.is_wrapped else json.loads(text)

    assert made.validate(arguments) == value
    assert made.validate_text(json.dumps(arguments)) == value
    assert check_schema(arguments, made.schema) == []


@pytest.mark.parametrize(("given", "is_strict"), [(Lamp | Kettle, True), (dict[str, int], False), (Pair, False)])
def test_an_output_knows_whether_a_provider_can_hold_a_model_to_it(given: Any, is_strict: bool) -> None:
    assert (OutputType(given).strict_schema is not None) is is_strict
