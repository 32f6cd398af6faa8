import inspect
import json
import socket
import typing
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, Required, TypeVar, Union, Unpack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import Doc

from sapwood.agent.decorator import tool
from sapwood.agent.signature import SignatureArguments, modern, source_function
from sapwood.core.agent_tool import AgentTool
from sapwood.core.errors import ConfigError, ToolInputError
from sapwood.core.tools import ToolContext

T = TypeVar("T")


def call(made: AgentTool, raw: Any) -> Any:
    bound = made.bind()
    assert bound.check is not None
    return bound.run(bound.check(raw), ToolContext(run_id="run"))


def refusal(made: AgentTool, raw: Any) -> str:
    with pytest.raises(ToolInputError) as caught:
        call(made, raw)
    return str(caught.value)


def properties(made: AgentTool) -> Any:
    return made.input_schema["properties"]


def test_a_function_becomes_a_tool_that_stays_callable() -> None:
    @tool
    def get_weather(city: str, units: str = "celsius") -> str:
        """Get the current weather for a city."""
        return f"Weather in {city}: 22 {units}"

    assert isinstance(get_weather, AgentTool)
    assert get_weather("Paris", units="f") == "Weather in Paris: 22 f"
    assert (get_weather.name, get_weather.description) == ("get_weather", "Get the current weather for a city.")
    assert get_weather.input_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "units": {"default": "celsius", "type": "string"}},
        "required": ["city"],
    }
    assert call(get_weather, {"city": "Rome"}) == "Weather in Rome: 22 celsius"


def test_the_decorated_name_looks_like_its_function() -> None:
    def plain(a: int) -> int:
        """Say it."""
        return a

    made = tool(plain)

    assert (made.__name__, made.__wrapped__, made.__doc__) == ("plain", plain, "Say it.")
    assert made.__qualname__ == plain.__qualname__
    assert inspect.signature(made) == inspect.signature(plain)
    assert (tool(len, name="size").__name__, AgentTool.__doc__ is not None) == ("len", True)


def test_settings_are_those_of_the_tool() -> None:
    made = tool(
        name="other",
        description="Else",
        requires_approval=True,
        read_only=True,
        idempotent=True,
        timeout=2,
        max_result_tokens=7,
        input_examples=[{"a": 1}],
        defer_loading=True,
    )(lambda a: a)

    assert made.model_dump(exclude={"fn", "input_schema", "input_model"}) == {
        "name": "other",
        "description": "Else",
        "timeout": 2.0,
        "read_only": True,
        "idempotent": True,
        "requires_approval": True,
        "external": False,
        "max_result_tokens": 7,
        "input_examples": ({"a": 1},),
        "defer_loading": True,
    }


def test_what_is_no_function_is_refused() -> None:
    for wrong, reason in ((5, "not of 5"), (tool(len), "not of"), (lambda a: a, "lambda has no name")):
        with pytest.raises(ConfigError, match=reason):
            tool(wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        tool(readonly=True)  # type: ignore[call-overload]


def test_a_function_of_c_without_a_signature_asks_for_a_schema() -> None:
    with pytest.raises(ConfigError, match="signature cannot be read"):
        tool(dict).bind()


def test_an_async_function_is_told_apart() -> None:
    @tool
    async def fetch(url: str) -> str:
        return url

    assert fetch.bind().is_async
    assert tool(partial(fetch.fn, url="x")).bind().is_async


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Order(BaseModel):
    amount: Decimal
    lines: list["Line"] = []


class Line(BaseModel):
    sku: str


@dataclass
class Spot:
    x: int
    inner: "Spot | None" = None


class Pair(NamedTuple):
    a: int
    b: str = "z"


class Options(typing.TypedDict, total=False):
    depth: Required[int]
    label: str
    inner: list["Options"]


class Whole(typing.TypedDict):
    size: int
    note: NotRequired[Annotated[str, Field(max_length=2)]]


VALUES: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (float, "1.5", 1.5),
    (bool, "yes", True),
    (str, "00012", "00012"),
    (Level, 2, Level.HIGH),
    (Literal["a", "b"], "a", "a"),
    (Order, {"amount": "9.90", "lines": [{"sku": "s"}]}, Order(amount=Decimal("9.90"), lines=[Line(sku="s")])),
    (list[Line], [{"sku": "s"}], [Line(sku="s")]),
    (Spot, {"x": "1", "inner": {"x": 2}}, Spot(1, Spot(2))),
    (Pair, [1], Pair(1)),
    (Options, {"depth": "1"}, {"depth": 1}),
    (Whole, {"size": 1, "note": "ab"}, {"size": 1, "note": "ab"}),
    (list[Whole] | None, [{"size": "1"}], [{"size": 1}]),
    (dict[str, Whole], {"a": {"size": "1"}}, {"a": {"size": 1}}),
    (typing.List[Whole], [{"size": "1"}], [{"size": 1}]),  # noqa: UP006
    (Annotated[Whole, "text"], {"size": 1}, {"size": 1}),
    (date, "2024-05-06", date(2024, 5, 6)),
    (Decimal, "1.50", Decimal("1.50")),
    (UUID, str(UUID(int=5)), UUID(int=5)),
    (Path, "a/b", Path("a/b")),
    (bytes, "ab", b"ab"),
    (set[int], [1, 1], {1}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (deque[int], [1], deque([1])),
    (Union[int, str], "5", "5"),  # noqa: UP007
    (Optional[int], None, None),  # noqa: UP045
    (Any, {"a": [1]}, {"a": [1]}),
]


@pytest.mark.parametrize(("hint", "raw", "value"), VALUES, ids=lambda item: str(item)[:30])
def test_an_argument_arrives_as_what_is_annotated(hint: Any, raw: Any, value: Any) -> None:
    def take(it: Any) -> Any:
        return it

    take.__annotations__["it"] = hint
    made = tool(take)

    found = call(made, {"it": raw})
    assert (found, type(found)) == (value, type(value))
    json.dumps(made.input_schema)
    assert_references_resolve(made.input_schema)


def assert_references_resolve(schema: Any) -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                prefix, name = node["$ref"].rsplit("/", 1)
                assert prefix == "#/$defs"
                assert name in schema["$defs"]
            for item in node.values():
                walk(item)
        elif isinstance(node, list):
            for item in node:
                walk(item)

    walk(schema)


def test_a_typed_dict_keeps_what_is_required() -> None:
    def use(options: Options, whole: Whole) -> Any: ...

    defs = tool(use).input_schema["$defs"]

    assert (defs["Options"]["required"], defs["Whole"]["required"]) == (["depth"], ["size"])
    assert defs["Whole"]["properties"]["note"] == {"maxLength": 2, "type": "string"}
    assert modern(Callable[[int], str]) == Callable[[int], str]


def test_every_kind_of_parameter_is_filled() -> None:
    def every(a: int, /, b: str, *rest: int, c: bool = False, context: ToolContext, **more: float) -> Any:
        return a, b, rest, c, context.run_id, more

    made = tool(every)

    assert made.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string"},
            "rest": {"items": {"type": "integer"}, "type": "array"},
            "c": {"default": False, "type": "boolean"},
        },
        "additionalProperties": {"type": "number"},
        "required": ["a", "b"],
    }
    assert call(made, {"a": "1", "b": "x"}) == (1, "x", (), False, "run", {})
    assert call(made, {"a": 1, "b": "x", "rest": ["2"], "z": "3"}) == (1, "x", (2,), False, "run", {"z": 3.0})
    assert refusal(made, {"a": 1, "b": "x", "z": "y"}).startswith("z: Input should be a valid number")
    assert refusal(made, {"a": 1, "b": "x", "context": 1}) == "context: may not be set"


def test_annotated_items_of_star_args_and_open_keywords() -> None:
    def gather(*names: Annotated[str, Field(min_length=2)], **rest: Any) -> Any:
        return names, rest

    made = tool(gather)

    assert properties(made)["names"] == {"items": {"minLength": 2, "type": "string"}, "type": "array"}
    assert call(made, {"names": ["ab"], "x": None}) == (("ab",), {"x": None})
    assert refusal(made, {"names": ["a"]}) == "names[0]: String should have at least 2 characters"


def test_keywords_described_by_a_typed_dict_are_parameters() -> None:
    def search(query: str, **options: Unpack[Options]) -> Any:
        return query, options

    made = tool(search)

    assert made.input_schema["required"] == ["query", "depth"]
    assert list(properties(made)) == ["query", "depth", "label", "inner"]
    assert call(made, {"query": "a", "depth": "1"}) == ("a", {"depth": 1})
    assert refusal(made, {"query": "a", "depth": 1, "labl": "x"}).startswith("labl: is not a parameter")


def test_what_a_partial_has_filled_cannot_be_set() -> None:
    def rain(city: str, key: str, **more: Any) -> Any:
        return city, key, more

    made = tool(partial(partial(rain), key="k"))

    assert list(properties(made)) == ["city"]
    assert call(made, {"city": "a", "x": 1}) == ("a", "k", {"x": 1})
    assert refusal(made, {"city": "a", "key": "stolen"}) == "key: may not be set"


def test_names_that_begin_with_an_underscore_or_belong_to_pydantic() -> None:
    def odd(_x: int, model_config: str, model_dump: str, p0: int, __y: int = 1, json: int = 2) -> Any:
        return _x, model_config, model_dump, p0, __y, json

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(tool(odd), {"_x": 1, "model_config": "a", "model_dump": "b", "p0": "3"}) == (1, "a", "b", 3, 1, 2)


def test_a_nested_key_that_looks_like_a_field_of_ours_stays() -> None:
    class Inner(typing.TypedDict):
        p0: int

    def nest(first: Inner) -> Any:
        return first

    assert call(tool(nest), {"first": {"p0": 1}}) == {"p0": 1}


def test_a_property_called_title_stays() -> None:
    class Book(BaseModel):
        title: str = Field(title="The Title")

    def buy(title: str, book: Book) -> None: ...

    schema = tool(buy).input_schema
    assert schema["properties"] == {"title": {"type": "string"}, "book": {"$ref": "#/$defs/Book"}}
    assert schema["$defs"]["Book"] == {
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "type": "object",
    }


def test_unannotated_parameters_take_anything() -> None:
    def loose(a, b=3):  # type: ignore[no-untyped-def]
        return a, b

    made = tool(loose)

    assert made.input_schema == {"type": "object", "properties": {"a": {}, "b": {"default": 3}}, "required": ["a"]}
    assert call(made, {"a": {"x": 1}, "b": None}) == ({"x": 1}, 3)


def test_field_as_default_gives_its_value_in_a_call_and_directly() -> None:
    @tool
    def plan(
        day: str,
        stops: list[str] = Field(default_factory=list),
        size: int = Field(5, ge=1, alias="SIZE"),
        must: int = Field(),
    ) -> Any:
        stops.append(day)
        return stops, size, must

    assert plan("a", must=1) == (["a"], 5, 1)
    assert plan("b", must=1, stops=["x"]) == (["x", "b"], 5, 1)
    with pytest.raises(TypeError):
        plan("a")
    assert plan.input_schema["required"] == ["day", "must"]
    assert call(plan, {"day": "a", "must": 1}) == (["a"], 5, 1)
    assert call(plan, {"day": "b", "must": 1, "SIZE": "2"}) == (["b"], 2, 1)


def test_a_default_inside_annotated_and_a_default_that_changes() -> None:
    def keep(size: Annotated[int, Field(default=5)], seen: list[int] = []) -> Any:
        seen.append(size)
        return size, seen

    made = tool(keep)

    assert [call(made, {}), call(made, {})] == [(5, [5]), (5, [5])]


def test_a_default_that_is_not_json_is_left_out_of_the_schema() -> None:
    missing = object()

    def ask(a: Any = missing, b: int = missing) -> Any:  # type: ignore[assignment]
        return a is missing, b is missing

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tool(ask)
        assert made.input_schema == {"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}}
    assert call(made, {}) == (True, True)
    assert call(made, {"a": None, "b": None}) == (True, True)


def test_descriptions_come_from_annotated_before_the_docstring() -> None:
    def rate(
        stars: Annotated[int, "one to nine"],
        note: Annotated[str, Doc("free")],
        more: Annotated[str, Field(description="own")],
        rest: str,
    ) -> None:
        """Rate it.

        Args:
            stars: no
            note: no
            more: no
            rest: yes
        """

    assert {name: part["description"] for name, part in properties(tool(rate)).items()} == {
        "stars": "one to nine",
        "note": "free",
        "more": "own",
        "rest": "yes",
    }


class Desk:
    """A desk."""

    def __init__(self, label: str = "d") -> None:
        self.label = label

    @tool
    def find(self, q: str) -> str:
        """Find it."""
        return self.label + q

    @tool(name="made")
    @classmethod
    def make(cls, q: int) -> str:
        return cls.__name__ + str(q)

    @tool
    @staticmethod
    def plain(q: int) -> int:
        return q

    @staticmethod
    @tool
    def below(q: int) -> int:
        return q

    given = AgentTool(name="given", description="", input_schema={}, fn=lambda self: self)

    @tool(input_model=Line)
    def by_model(self, sku: str) -> str:
        return self.label + sku

    def __call__(self, q: int) -> int:
        """Be called."""
        return q


def test_a_decorated_method_is_bound_to_its_instance() -> None:
    first, second = Desk("1"), Desk("2")

    assert first.find("x") == "1x"
    assert list(properties(first.find)) == ["q"]
    assert [call(first.find, {"q": "x"}), call(second.find, {"q": "y"})] == ["1x", "2y"]
    assert call(first.by_model, {"sku": "x"}) == "1x"
    assert first.find == first.find
    with pytest.raises(ConfigError, match="an instance, like desk"):
        Desk.find.bind()


def test_class_and_static_methods_are_tools() -> None:
    assert [call(made, {"q": "5"}) for made in (Desk.make, Desk().make, Desk.plain, Desk().plain, Desk.below)] == [
        "Desk5",
        "Desk5",
        5,
        5,
        5,
    ]
    assert Desk.make(5) == "Desk5"
    assert Desk().given("x") == "x"
    with pytest.raises(ConfigError, match=r"the class, Desk\.make"):
        Desk.__dict__["make"].bind()


def test_a_tool_given_to_a_class_stays_a_plain_tool() -> None:
    @tool
    def find(q: str) -> str:
        return q

    class Config:
        finder = find

    assert Config().finder is find


def test_bound_methods_objects_and_classes_are_tools() -> None:
    def plain(self: Desk, q: int) -> int:
        return q

    bound = tool(plain.__get__(Desk()))
    named = tool(Desk())
    built = tool(Spot)

    assert (bound.name, call(bound, {"q": "1"})) == ("plain", 1)
    assert (named.name, named.description, call(named, {"q": "1"})) == ("desk", "Be called.", 1)
    assert (built.name, call(built, {"x": "1"})) == ("Spot", Spot(1))


def test_an_object_without_a_documented_call_uses_its_class() -> None:
    class RainGauge:
        """Measure rain."""

        def __call__(self, place: str) -> str:
            return place

    made = tool(RainGauge())

    assert (made.name, made.description) == ("rain_gauge", "Measure rain.")


def test_a_wrapped_function_shows_the_inner_signature() -> None:
    def inner(a: "int") -> int:
        return a

    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert call(tool(outer), {"a": "1"}) == 1


def test_a_description_is_the_name_where_there_is_none() -> None:
    def bare() -> None: ...

    assert tool(bare).description == "bare"


def test_annotations_as_text_see_what_is_around_the_function() -> None:
    class Local(BaseModel):
        a: int

    def nested(it: "Local", later: "Later", rest: "list[Local] | None" = None) -> Any:
        return it, later

    made = tool(nested)

    assert call(made, {"it": {"a": 1}, "later": {"b": 2}}) == (Local(a=1), Later(b=2))


def test_annotations_as_text_see_the_closure() -> None:
    def outer() -> Any:
        class Local(BaseModel):
            a: int

        def nested(it: "Local") -> Any:
            return Local, it

        return nested

    assert call(tool(outer()), {"it": {"a": 1}})[1].a == 1

    def unfilled() -> Any:
        def nested(it: int) -> Any:
            return never

        if unfilled is None:  # type: ignore[comparison-overlap]
            never = 1
        return nested

    assert properties(tool(unfilled())) == {"it": {"type": "integer"}}


class Later(BaseModel):
    b: int


def test_a_context_that_is_imported_for_the_type_checker_only_is_known() -> None:
    def use(a: int, context: "ToolContext | None" = None) -> Any:
        return a, context is not None

    lonely = type(use)(use.__code__, {"Any": Any}, "use", (None,))
    lonely.__annotations__ = {"a": "int", "context": "ToolContext | None"}

    for fn in (use, lonely):
        assert call(tool(fn), {"a": 1}) == (1, True)


def test_what_cannot_be_resolved_or_described_names_the_parameter() -> None:
    def lost(a: int, where: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def odd(a: int, plug: socket.socket) -> None: ...
    def deep(a: int, plugs: Callable[[], int] = print) -> None: ...  # type: ignore[assignment]

    class Half(BaseModel):
        other: "Never"  # type: ignore[name-defined]  # noqa: F821

    def half(a: int, it: Half) -> None: ...

    for fn, words in (
        (lost, ("lost", "where", "Nowhere")),
        (odd, ("odd", "plug")),
        (deep, ("deep", "plugs")),
        (half, ("half", "it")),
    ):
        made = tool(fn)
        with pytest.raises(ConfigError) as caught:
            made.bind()
        assert all(word in str(caught.value) for word in words)
        with pytest.raises(ConfigError):
            _ = made.input_schema


def test_generic_parameters_are_described() -> None:
    class Box(BaseModel, Generic[T]):
        it: T

    def unpack(box: Box[int], other: T) -> Any:
        return box.it, other

    assert call(tool(unpack), {"box": {"it": "1"}, "other": "x"}) == (1, "x")


def test_source_functions_are_found() -> None:
    assert source_function(partial(print)) is print
    assert source_function(Desk) is Desk.__init__
    assert source_function(type(print).__call__.__get__(print)) is not None


def test_the_schema_is_made_once_and_on_first_use() -> None:
    made: list[str] = []

    class Watched(BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
            made.append("schema")
            return handler(schema)

    def watch(it: Watched) -> None: ...

    watched = tool(watch)
    assert made == []
    watched.bind()
    watched.bind()
    assert (made, "input_schema" in repr(watched)) == (["schema"], True)


def test_a_shadowed_name_does_not_disturb_the_check() -> None:
    arguments = SignatureArguments(lambda schema, names: (schema, names), tool="x")

    assert arguments.check({"schema": 1, "names": 2}) == {"schema": 1, "names": 2}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abxyz"), inner, max_size=3),
    max_leaves=10,
)


def _everything(
    a: int | str = 1, x: Order | None = None, y: Level = Level.LOW, z: tuple[int, Spot] = (1, Spot(1)), *b: Whole
) -> None: ...


EVERYTHING = tool(_everything)


@given(JSON)
def test_a_check_raises_nothing_but_an_input_error(raw: Any) -> None:
    fits, message = EVERYTHING.validate_input(raw)

    assert (message == "") is fits
    assert len(message) <= 1_500
