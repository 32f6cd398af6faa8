"""Types as Python 3.11 writes them: made ones that pydantic takes there, and the same everywhere."""

import typing
from typing import Annotated, Any, Literal, NotRequired, Required

import pytest
from pydantic import Field, TypeAdapter

from sapwood.core import type_schema


class Whole(typing.TypedDict):
    """A size."""

    size: int
    note: NotRequired[Annotated[str, Field(max_length=2)]]


class Loose(typing.TypedDict, total=False):
    depth: Required[int]
    label: str


class Holder(typing.TypedDict):
    inner: "list[Holder]"


HINTS: list[Any] = [
    int,
    Whole,
    Loose,
    list[Whole],
    Whole | None,
    typing.Optional[Whole],  # noqa: UP045
    typing.List[Whole],  # noqa: UP006
    dict[str, Loose],
    Literal["a", "b"],
    Annotated[Whole, Field(description="how large")],
]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_a_typed_dict_is_made_anew_with_the_same_fields(hint: Any) -> None:
    anew = TypeAdapter(type_schema._made_modern(hint, ())).json_schema()
    assert anew == TypeAdapter(type_schema.modern(hint)).json_schema()
    assert ("size" in str(anew)) == ("Whole" in str(hint))
    assert ("depth" in str(anew)) == ("Loose" in str(hint))


def test_one_that_holds_itself_is_described_as_an_object() -> None:
    schema = TypeAdapter(type_schema._made_modern(Holder, ())).json_schema()
    assert schema["properties"]["inner"]["items"]["type"] == "object"


def test_types_without_a_typed_dict_stay_the_same_objects() -> None:
    hint = dict[str, list[int]]
    assert type_schema._made_modern(hint, ()) is hint
