"""The public cases SCH-01 to SCH-14: from signatures to schemas and back to typed values."""

import json
import sys
import time
import types
import warnings
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field

from sapwood.agent.decorator import tool
from sapwood.core.agent_tool import AgentTool
from sapwood.core.codec import to_json
from sapwood.core.errors import ConfigError, ToolInputError, ToolNameCollision
from sapwood.core.messages import ToolCall
from sapwood.core.names import name_map
from sapwood.core.tools import ToolContext


def schema_of(fn: Callable[..., Any]) -> Any:
    return tool(fn).bind().schema.input_schema


def call(fn: Callable[..., Any] | AgentTool, arguments: dict[str, Any]) -> Any:
    bound = (fn if isinstance(fn, AgentTool) else tool(fn)).bind()
    assert bound.check is not None
    return bound.run(bound.check(arguments), ToolContext())


def refusal(fn: Callable[..., Any], arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolInputError) as caught:
        call(fn, arguments)
    return str(caught.value)


SHIPPING = """
from pathlib import Path
from typing import Literal, Optional
from pydantic import BaseModel

Pace = Literal["slow", "quick"]

class Parcel(BaseModel):
    weight: float

def ship(parcel: Parcel, pace: Pace = "slow", note: Optional[str] = None, folder: Path = Path("out")):
    return parcel, pace, note, folder

def lost(parcel: "Parcle"):
    return parcel
"""


def shipping(name: str, head: str = "") -> Any:
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(head + SHIPPING, name, "exec"), module.__dict__)
    finally:
        del sys.modules[name]
    return module


def test_sch_01_postponed_annotations_resolve_in_the_defining_module() -> None:
    plain = shipping("shipping_plain")
    postponed = shipping("shipping_postponed", "from __future__ import annotations\n")

    assert schema_of(postponed.ship) == schema_of(plain.ship)
    assert call(postponed.ship, {"parcel": {"weight": 2}}) == (
        postponed.Parcel(weight=2),
        "slow",
        None,
        Path("out"),
    )
    with pytest.raises(ConfigError, match=r"lost.*parcel.*Parcle|Parcle.*parcel.*lost"):
        tool(plain.lost).bind()


def test_sch_02_one_unusual_parameter_does_not_change_required_for_the_others() -> None:
    def look_up(term: str, labels: list[str] | None = None, count: int = 5) -> None: ...

    assert schema_of(look_up) == {
        "type": "object",
        "properties": {
            "term": {"type": "string"},
            "labels": {"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}], "default": None},
            "count": {"default": 5, "type": "integer"},
        },
        "required": ["term"],
    }


class Level(Enum):
    LOW = 1
    HIGH = 2


def test_sch_03_unions_literals_and_enums_keep_their_alternatives() -> None:
    ran: list[Any] = []

    def paint(size: int | str, tone: Literal["warm", "cold"], level: Level) -> Any:
        ran.append(level)
        return size, tone, level

    def paint2(size: Union[int, str], tone: Literal["warm", "cold"], level: Level) -> None: ...  # noqa: UP007

    schema = schema_of(paint)
    assert schema == schema_of(paint2)
    assert schema["properties"]["size"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert schema["properties"]["tone"]["enum"] == ["warm", "cold"]
    assert schema["$defs"]["Level"]["enum"] == [1, 2]
    assert call(paint, {"size": "5", "tone": "warm", "level": 2}) == ("5", "warm", Level.HIGH)
    assert refusal(paint, {"size": 1, "tone": "hot", "level": 1}) == "tone: Input should be 'warm' or 'cold'"
    assert ran == [Level.HIGH]


def test_sch_04_a_function_without_parameters() -> None:
    def ping() -> str:
        return "pong"

    assert schema_of(ping) == {"type": "object", "properties": {}}
    assert call(ping, {}) == "pong"


def test_sch_05_nullable_without_a_default_is_required_and_both_spellings_agree() -> None:
    def book(day: str, seat: int | None) -> Any:
        return day, seat

    def book2(day: str, seat: Optional[int]) -> None: ...  # noqa: UP045

    def book3(day: str, seat: int | None = None) -> None: ...

    assert schema_of(book) == schema_of(book2)
    assert schema_of(book) == {
        "type": "object",
        "properties": {"day": {"type": "string"}, "seat": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": ["day", "seat"],
    }
    assert schema_of(book3)["required"] == ["day"]
    assert refusal(book, {"day": "mo"}) == "seat: is required but missing"
    assert call(book, {"day": "mo", "seat": None}) == ("mo", None)


NAMES = ["config", "self", "cls", "name", "ctx", "context", "input", "schema", "func"]


@pytest.mark.parametrize("name", NAMES)
def test_sch_06_parameter_names_that_look_like_framework_names(name: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def take({name}: str): return {name}", names)

    assert schema_of(names["take"])["properties"] == {name: {"type": "string"}}
    assert call(names["take"], {name: "sent"}) == "sent"


class Folder(BaseModel):
    title: str
    children: list["Folder"] = []


def test_sch_07_recursive_model_as_a_parameter() -> None:
    def tidy(root: Folder) -> Folder:
        return root

    started = time.perf_counter()
    schema = schema_of(tidy)
    assert time.perf_counter() - started < 1

    folder = {"$ref": "#/$defs/Folder"}
    assert schema["properties"] == {"root": folder}
    assert schema["$defs"]["Folder"]["properties"]["children"]["items"] == folder
    nested = {"title": "a", "children": [{"title": "b", "children": [{"title": "c"}]}]}
    assert call(tidy, {"root": nested}) == Folder(title="a", children=[Folder(title="b", children=[Folder(title="c")])])


def google(text: str, length: str) -> None:
    """Shorten a text.

    Args:
        text: The text.
        length: Pick one:
            - brief: a line
            - long: a page
        nobody: Not a parameter.
    """


def numpy(text: str, length: str) -> None:
    """Shorten a text.

    Parameters
    ----------
    text
        The text.
    length : str
        Pick one:
        - brief: a line
        - long: a page
    nobody
        Not a parameter.
    """


def sphinx(text: str, length: str) -> None:
    """Shorten a text.

    :param text: The text.
    :param str length: Pick one:
        - brief: a line
        - long: a page
    :param nobody: Not a parameter.
    """


@pytest.mark.parametrize("fn", [google, numpy, sphinx])
def test_sch_08_docstring_styles_give_the_same_parameter_descriptions(fn: Callable[..., None]) -> None:
    assert tool(fn).description == "Shorten a text."
    assert {name: part["description"] for name, part in schema_of(fn)["properties"].items()} == {
        "text": "The text.",
        "length": "Pick one:\n- brief: a line\n- long: a page",
    }


def test_sch_09_tool_description_does_not_repeat_the_argument_section() -> None:
    def find(query: str) -> None:
        """Find a page.

        Looks at titles first.

        Args:
            query: Words to look for.

        Returns:
            The page.

        Raises:
            LookupError: no page.

        Examples:
            >>> find("x")
        """

    told = json.dumps([tool(find).description, schema_of(find)])

    assert tool(find).description == "Find a page."
    assert told.count("Words to look for.") == 1
    assert "Args" not in told


class Colour(str, Enum):  # noqa: UP042  (as the case says)
    RED = "red"


def test_sch_10_defaults_that_are_not_json() -> None:
    def plan(
        stops: list[str] = Field(default_factory=list), when: date = date(2024, 1, 2), tone: Colour = Colour.RED
    ) -> Any:
        stops.append("x")
        return stops, when, tone

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tool(plan)
        schema = made.bind().schema.input_schema
        json.dumps(schema)

    assert "required" not in schema
    assert schema["properties"]["when"]["default"] == "2024-01-02"
    assert schema["properties"]["tone"]["default"] == "red"
    assert [call(made, {}), call(made, {})] == [(["x"], date(2024, 1, 2), Colour.RED)] * 2


def get_rain(city: str, key: str) -> str:
    return f"rain {city} {key}"


def get_wind(city: str, key: str) -> str:
    return f"wind {city} {key}"


class Desk:
    def find(self, q: str) -> str:
        return q

    def __call__(self, q: str) -> str:
        """Ask the desk."""
        return q


def test_sch_11_partials_bound_methods_and_callable_instances_as_tools() -> None:
    desk = Desk()
    tools = [tool(partial(get_rain, key="k")), tool(partial(get_wind, key="k")), tool(desk.find), tool(desk)]

    assert [made.name for made in tools] == ["get_rain", "get_wind", "find", "desk"]
    assert [list(made.input_schema["properties"]) for made in tools] == [["city"], ["city"], ["q"], ["q"]]
    assert [call(made, {"city": "a"}) for made in tools[:2]] == ["rain a k", "wind a k"]
    assert tools[3].description == "Ask the desk."
    with pytest.raises(ToolNameCollision):
        name_map([made.name for made in (*tools, tool(desk.find))])


class Order(BaseModel):
    amount: Decimal
    due: date


def test_sch_12_typed_parameters_arrive_as_typed_objects() -> None:
    def pay(order: Order) -> Order:
        return order

    arguments = {"order": {"amount": "9.90", "due": "2024-05-06"}}
    recorded = ToolCall("pay", arguments)

    assert call(pay, arguments) == Order(amount=Decimal("9.90"), due=date(2024, 5, 6))
    assert json.loads(to_json(recorded))["arguments"] == {"order": {"amount": "9.90", "due": "2024-05-06"}}


def test_sch_13_datetime_set_and_tuple_parameters_can_be_called() -> None:
    def remind(due: datetime) -> Any:
        return due

    def label(tags: set[str]) -> Any:
        return tags

    def move(to: tuple[int, int]) -> Any:
        return to

    assert call(remind, {"due": "2024-05-06T07:08:00"}) == datetime(2024, 5, 6, 7, 8)
    assert call(label, {"tags": ["a", "b", "a"]}) == {"a", "b"}
    assert call(move, {"to": [3, 4]}) == (3, 4)
    assert refusal(move, {"to": [3, 4, 5]}).startswith("to: Tuple should have at most 2 items")


def test_sch_14_annotated_metadata_reaches_the_schema() -> None:
    ran: list[int] = []

    def rate(
        stars: Annotated[int, Field(description="one to nine", ge=1, le=9)], note: Annotated[str, "free text"] = ""
    ) -> None:
        ran.append(stars)

    assert schema_of(rate) == {
        "type": "object",
        "properties": {
            "stars": {"description": "one to nine", "maximum": 9, "minimum": 1, "type": "integer"},
            "note": {"default": "", "description": "free text", "type": "string"},
        },
        "required": ["stars"],
    }
    assert refusal(rate, {"stars": 12}) == "stars: Input should be less than or equal to 9"
    assert ran == []
