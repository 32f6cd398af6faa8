import ipaddress
import json
import time
import unicodedata
from array import array
from collections import OrderedDict, UserDict, UserString, deque
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, SecretStr, model_serializer

from sapwood.core.errors import ToolError
from sapwood.core.messages import File, Image, Text
from sapwood.core.render_result import (
    EMPTY_TEXT,
    MAX_VALUE_BYTES,
    NOTHING,
    RenderedResult,
    cap,
    media_type_of,
    render_result,
)


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Words(str):
    pass


class Count(int):
    pass


class Point(NamedTuple):
    x: int
    y: int = 2


class Pydantic(BaseModel):
    id: UUID
    at: datetime
    colour: Colour
    tags: set[int]
    secret: SecretStr = SecretStr("s")


class Binary(BaseModel):
    content: bytes
    score: float = float("nan")
    secret: SecretStr = SecretStr("s")


@dataclass
class Plain:
    day: date
    inner: "Plain | None" = None
    absent: int = field(init=False)


class Tagged(msgspec.Struct, tag="t", rename="camel"):
    first_name: str
    at: date


class Bare(msgspec.Struct):
    a: int


class Attrs:
    __attrs_attrs__ = (SimpleNamespace(name="a"),)
    a = 1


PNG = b"\x89PNG\r\n\x1a\nrest"
PNG_PART = Image("iVBORw0KGgpyZXN0", "image/png")
PNG_SHOWN = {"type": "image", "media_type": "image/png"}

JSON_TABLE: list[tuple[Any, Any]] = [
    (5, 5),
    (2**60, 2**60),
    (10**30, 10**30),
    (True, True),
    (1.5, 1.5),
    (float("nan"), None),
    ({"a": float("inf"), "b": [float("-inf")]}, {"a": None, "b": [None]}),
    ([], []),
    ({}, {}),
    ((), []),
    ({"a": True, "b": None}, {"a": True, "b": None}),
    ((1, "a", None), [1, "a", None]),
    (Size.BIG, 3),
    ([Count(4)], [4]),
    ({"c": Colour.RED, Colour.RED: 1}, {"c": "red", "red": 1}),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"a", 1}), ["a", 1]),
    ({None, False}, [False, None]),
    (Point(1), {"x": 1, "y": 2}),
    (deque([1]), [1]),
    (range(3), [0, 1, 2]),
    ({"a": 1}.keys(), ["a"]),
    ({"a": 1}.values(), [1]),
    (OrderedDict(a=1), {"a": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (UserDict({"a": 1}), {"a": 1}),
    (
        {1: "a", None: "b", False: "c", (1, 2): "d", date(2024, 1, 2): "e"},
        {"1": "a", "null": "b", "false": "c", "[1,2]": "d", "2024-01-02": "e"},
    ),
    ([Words("w"), b"\xff\x00", bytearray(b"a"), memoryview(b"b")], ["w", "/wA=", "YQ==", "Yg=="]),
    ([b"x" * 5000], ["(5,000 bytes, not shown)"]),
    (
        {"u": {1, 2}, "t": datetime(2024, 5, 6, 7, 8), "d": Decimal("1.50"), "p": Path("x"), "i": UUID(int=5)},
        {"u": [1, 2], "t": "2024-05-06T07:08:00", "d": "1.50", "p": "x", "i": "00000000-0000-0000-0000-000000000005"},
    ),
    ([clock(1, 2), timedelta(days=1), 1j, Fraction(1, 3)], ["01:02:00", "P1D", "1j", "1/3"]),
    ([ipaddress.ip_address("::1")], ["::1"]),
    (
        Pydantic(id=UUID(int=5), at=datetime(2024, 5, 6), colour=Colour.RED, tags={1}),
        {
            "id": "00000000-0000-0000-0000-000000000005",
            "at": "2024-05-06T00:00:00",
            "colour": "red",
            "tags": [1],
            "secret": "**********",
        },
    ),
    (Binary(content=b"\xff\x00"), {"content": "/wA=", "score": None, "secret": "**********"}),
    (
        Plain(date(2024, 1, 2), Plain(date(2024, 1, 3))),
        {"day": "2024-01-02", "inner": {"day": "2024-01-03", "inner": None}},
    ),
    (Tagged("a", date(2024, 1, 2)), {"type": "t", "firstName": "a", "at": "2024-01-02"}),
    ([Bare(1), Attrs()], [{"a": 1}, {"a": 1}]),
    ({"a\ud800": "b\udfffé"}, {"a\ufffd": "b\ufffdé"}),
]


@pytest.mark.parametrize(("value", "shown"), JSON_TABLE, ids=lambda item: str(type(item)))
def test_a_value_becomes_strict_json(value: Any, shown: Any) -> None:
    found = render_result(value)

    assert json.loads(found.text, parse_constant=pytest.fail) == shown
    assert (found.value, found.parts) == (shown, ())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain {text}", "plain {text}"),
        (Words("w"), "w"),
        (UserString("w"), "w"),
        (Colour.RED, "red"),
        (date(2024, 5, 6), "2024-05-06"),
        (Decimal("1.50"), "1.50"),
        (Path("a/b"), "a/b"),
        (b"\xff\x00", "/wA="),
        ("a\ud800\udc00é\udfff", "a\U00010000é\ufffd"),
        (Text("t"), "t"),
    ],
)
def test_a_text_stays_text(value: Any, text: str) -> None:
    assert render_result(value) == RenderedResult(text, (), text)


def test_nothing_empty_and_blank_can_be_told_apart() -> None:
    assert [render_result(value) for value in (None, "", " \n", [], {}, Text(""))] == [
        RenderedResult(NOTHING),
        RenderedResult(EMPTY_TEXT, (), ""),
        RenderedResult(EMPTY_TEXT, (), " \n"),
        RenderedResult("[]", (), []),
        RenderedResult("{}", (), {}),
        RenderedResult(EMPTY_TEXT, (), ""),
    ]


def test_pictures_become_parts() -> None:
    assert render_result(PNG) == RenderedResult("[image, image/png]", (PNG_PART,), PNG_SHOWN)
    assert render_result(PNG_PART) == RenderedResult("[image, image/png]", (PNG_PART,), PNG_SHOWN)
    assert render_result({"caption": "c", "chart": PNG}) == RenderedResult(
        '{"caption":"c","chart":{"type":"image","media_type":"image/png"}}',
        (PNG_PART,),
        {"caption": "c", "chart": PNG_SHOWN},
    )


def test_pictures_are_told_by_their_first_bytes() -> None:
    starts = [b"\xff\xd8\xff\xe0", b"GIF87a", b"GIF89a", b"RIFF1234WEBPVP8", b"RIFF1234WAVE", b"%PDF", b""]

    assert [media_type_of(start) for start in starts] == [
        "image/jpeg",
        "image/gif",
        "image/gif",
        "image/webp",
        None,
        None,
        None,
    ]


def test_a_list_of_parts_is_content() -> None:
    file = File(url="https://example.com/a.pdf")

    assert render_result([Text("one"), "two", PNG_PART, file]) == RenderedResult(
        "one\ntwo\n[image, image/png]\n[file, application/pdf]",
        (PNG_PART, file),
        ["one", "two", PNG_SHOWN, {"type": "file", "media_type": "application/pdf", "url": file.url}],
    )
    assert render_result((Text("one"),)) == RenderedResult("one", (), "one")
    assert render_result([Text("one"), 5]).text == '["one",5]'


def test_a_long_value_is_left_out_but_its_text_is_not() -> None:
    long = "é" * (MAX_VALUE_BYTES // 2)

    assert render_result(long).value == long
    assert render_result(long + "é") == RenderedResult(long + "é")
    assert render_result([long]) == RenderedResult(json.dumps([long], ensure_ascii=False))
    assert render_result([Text(long), PNG_PART]).value is None


def test_a_value_that_holds_itself_is_shown_once() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    twice = [1]

    assert render_result(loop).value == [1, "(itself again)"]
    assert render_result([twice, twice]).value == [[1], [1]]


def test_a_model_that_holds_itself_does_not_crash() -> None:
    model = Open()
    model.it = model

    assert "it" in render_result(model).text


class Open(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    it: Any = None


class Faulty(BaseModel):
    @model_serializer
    def serialized(self) -> Any:
        raise ValueError("no")


async def later() -> None: ...


def deep() -> Any:
    value: Any = []
    for _ in range(5000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "make",
    [
        lambda: (item for item in "ab"),
        lambda: iter([1]),
        lambda: map(str, [1]),
        lambda: {"nested": (item for item in "ab")},
        lambda: later,
        lambda: object(),
        lambda: Plain,
        lambda: ValueError("x"),
        lambda: Open(it=object()),
        lambda: [object()],
        Faulty,
        deep,
        lambda: 10**5000,
    ],
)
def test_what_cannot_be_shown_raises_a_tool_error(make: Any) -> None:
    with pytest.raises(ToolError, match="returned"):
        render_result(make())


def test_arrays_of_numbers_are_lists() -> None:
    numpy_like = type("ndarray", (), {"__module__": "numpy", "tolist": lambda self: [1, 2]})()

    assert render_result(numpy_like).value == [1, 2]
    with pytest.raises(ToolError):
        render_result(array("i", [1]).buffer_info)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(alphabet=st.characters(categories=["Cs", "So"]))
    | st.binary(max_size=8)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.decimals()
    | st.uuids()
    | st.fractions()
    | st.complex_numbers()
    | st.sampled_from(
        [Colour.RED, Size.BIG, Point(1), PNG, PNG_PART, Text("t"), object(), print, SecretStr("s"), Bare(1)]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none() | st.dates(), inner, max_size=3)
        | inner.map(lambda value: Open(it=value))
        | st.sets(st.integers() | st.text(max_size=3) | st.none(), max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_is_shown_or_refused(value: Any) -> None:
    try:
        found = render_result(value)
    except ToolError:
        return
    assert found.text.strip()
    found.text.encode()
    json.loads(msgspec.json.encode(found.value))


def by_four(text: str) -> int:
    return -(-len(text) // 4)


def test_a_short_text_is_not_capped() -> None:
    assert cap("short", 2, by_four) == "short"


def test_a_long_text_keeps_both_ends_and_says_what_is_missing() -> None:
    text = "a" * 400 + "b" * 400

    assert cap(text, 20, by_four) == (
        "a" * 40 + "\n[... 180 of 200 tokens left out; the whole text has 800 characters ...]\n" + "b" * 40
    )
    assert cap(text, 1, by_four).startswith("aaaa\n[... 199 of 200")
    assert cap(text, 0, by_four) == "[... 200 of 200 tokens left out; the whole text has 800 characters ...]"


def test_a_long_text_is_cut_by_what_its_ends_cost() -> None:
    def uneven(text: str) -> int:
        return by_four(text) + text.count("中") * 3

    capped = cap("a" * 5_000 + "中" * 5_000, 1_000, uneven)
    head, _, tail = capped.partition("\n[...")

    assert 450 <= uneven(head) <= 500
    assert 400 <= uneven(tail.partition("...]\n")[2]) <= 500


@pytest.mark.parametrize(
    "character", ["👩‍👩‍👧", "🇩🇪", "👍🏽", "é", "1️⃣", "🏴\U000e0067\U000e0062\U000e007f", "\ud83d\ude00", "\r\n"]
)
def test_no_character_is_cut_in_two(character: str) -> None:
    for tokens in range(2, 12):
        head, _, rest = cap(f"{character * 60}", tokens, len).partition("[...")
        tail = rest.partition("...]\n")[2]
        if character != "\r\n":
            assert head.rstrip("\n") == character * head.count(character)
            assert tail == character * tail.count(character)


def test_a_run_of_marks_without_end_is_cut_all_the_same() -> None:
    assert unicodedata.category("\u0301") == "Mn"
    assert len(cap("\u0301" * 10_000, 200, len)) < 400


def test_two_million_characters_are_capped_fast() -> None:
    text = "hello 👩‍👩‍👧 world 🇩🇪 é " * 90_000
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return by_four(piece)

    started = time.perf_counter()
    capped = cap(text, 10_000, count)

    assert time.perf_counter() - started < 1
    assert counted < len(text) * 1.2
    assert 9_500 <= by_four(capped) <= 10_050


@given(st.text(alphabet="ab 👩\u200d🇩🇪é\u0301\n", max_size=300), st.integers(0, 30))
def test_a_capped_text_is_within_the_cap(text: str, tokens: int) -> None:
    capped = cap(text, tokens, by_four)

    assert by_four(capped) <= max(by_four(text), tokens + 40) or capped == text
    assert capped == text or "tokens left out" in capped
