"""The meter: each message counted once, an exact counter as it is, the estimate corrected by reports."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.context.meter import (
    FILE_CHARACTERS_PER_TOKEN,
    IMAGE_TOKENS,
    MESSAGE_OVERHEAD,
    Calibration,
    Meter,
    Totals,
    estimate_tokens,
)
from sapwood.core.codec import to_json
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript

WORDS = "the quick brown fox"
SIZE = estimate_tokens(WORDS)
PARTS: list[tuple[Part, int]] = [
    (Text(WORDS), SIZE),
    (Text(""), 0),
    (Thinking(WORDS), SIZE),
    (Recalled(WORDS), SIZE),
    (Summary(WORDS), SIZE),
    (Image("aGk="), IMAGE_TOKENS),
    (Image(url="https://x/y.png"), IMAGE_TOKENS),
    (File("a" * FILE_CHARACTERS_PER_TOKEN * 7), 50 + 7),
    (File(url="https://x/y.pdf"), 50),
    (ToolCall("add", {"a": WORDS}), estimate_tokens("add") + estimate_tokens(f'{{"a":"{WORDS}"}}') + 6),
    (ToolResult("k", "add", (Text(WORDS), Image("aGk="))), SIZE + IMAGE_TOKENS + 6),
    (Opaque("x", {"anthropic": WORDS}), estimate_tokens(f'{{"anthropic":"{WORDS}"}}')),
]


@pytest.mark.parametrize(("part", "tokens"), PARTS)
def test_each_kind_of_part_counts(part: Part, tokens: int) -> None:
    is_result = isinstance(part, ToolResult)
    expected = Totals(MESSAGE_OVERHEAD, tokens) if is_result else Totals(MESSAGE_OVERHEAD + tokens, 0)
    assert Meter().raw_message(Message("user", (part,))) == expected
    assert expected.total == MESSAGE_OVERHEAD + tokens


def test_every_kind_of_part_is_in_the_table() -> None:
    assert {type(part) for part, _ in PARTS} == set(get_args(Part))


def test_an_exact_counter_is_used_as_it_is_and_gets_the_serialised_message() -> None:
    seen: list[str] = []

    def count(text: str) -> int:
        seen.append(text)
        return 10

    meter = Meter(count)
    message, result = Message.user(WORDS), Message("tool", (ToolResult("k", "add", (Text("3"),)),))
    assert (meter.raw_message(message), meter.raw_message(result)) == (Totals(10, 0), Totals(0, 10))
    assert seen == [to_json(message).decode(), to_json(result).decode()]
    meter.learn(estimated=100, reported=200)
    assert (meter.ratio, meter.scaled(7), meter.text("a"), meter.text("")) == (1.0, 7, 10, 0)


def test_pictures_and_documents_are_no_text_for_an_exact_counter_wherever_they_are() -> None:
    data = "A" * 100_000
    inside = ToolResult("k", "draw", (Text("done"), Image(data), File(data)), details={"log": data})
    prompt, result = Message.user("look", Image(data)), Message("tool", (inside,))
    plain = Message("tool", (inside.replace(content=(Text("done"), Image(""), File("")), details=None),))
    document = 50 + len(data) // FILE_CHARACTERS_PER_TOKEN
    meter = Meter(len)
    assert meter.raw_message(prompt) == Totals(len(to_json(Message.user("look", Image("")))) + IMAGE_TOKENS, 0)
    assert meter.raw_message(result) == Totals(0, len(to_json(plain)) + IMAGE_TOKENS + document)


def test_the_definition_of_a_tool_counts_as_it_is_serialised() -> None:
    schema = ToolSchema("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
    assert Meter().schema(schema) == estimate_tokens(to_json(schema).decode())
    assert Meter(len).schema(schema) == len(to_json(schema))


HALF = "a\ud800b\udfff"
ANYWHERE: list[Any] = [
    lambda meter, text: meter.text(text) + meter.raw_text(text),
    *(
        lambda meter, text, make=make: meter.raw_message(Message("user", (make(text),))).total
        for make in (
            Text,
            Thinking,
            Recalled,
            Summary,
            lambda text: ToolCall(text, {text: [text]}),
            lambda text: ToolResult(text, text, (Text(text),), details=text),
            lambda text: Opaque(text, {text: text}),
            lambda text: Text("a", {"anthropic": {"signature": text}}),
        )
    ),
    lambda meter, text: meter.schema(ToolSchema(text or "x", text, {"description": text})),
]


@pytest.mark.parametrize("exact", [None, len])
@pytest.mark.parametrize("count", ANYWHERE)
@given(text=st.text(st.characters(codec=None, categories=None), max_size=20) | st.sampled_from(["<|endoftext|>", HALF]))
def test_no_text_raises_wherever_it_stands(count: Any, exact: Any, text: str) -> None:
    assert count(Meter(exact), text) >= 0


def test_half_a_character_counts_about_as_much_as_a_whole_one() -> None:
    def size(text: str) -> int:
        return Meter(len).raw_message(Message.user(text)).messages

    assert size("a\ud800b") == size("axb")


@given(
    texts=st.lists(st.sampled_from(["", "a", WORDS, "雪"]), max_size=6),
    cuts=st.lists(st.integers(0, 6), max_size=5),
    exact=st.sampled_from([None, len]),
)
def test_the_running_total_is_the_walk_over_all_messages(texts: list[str], cuts: list[int], exact: Any) -> None:
    messages = [
        Message.user(text) if place % 2 else Message("tool", (ToolResult("k", "t", (Text(text),)),))
        for place, text in enumerate(texts)
    ]
    meter, tip = Meter(exact), Transcript()
    branches = [tip]
    for cut in [*cuts, len(messages)]:
        tip = branches[cut % len(branches)].extend(messages[:cut])
        branches.append(tip)
        walked = [meter.raw_message(message) for message in tip]
        assert meter.transcript(tip) == Totals(
            sum(size.messages for size in walked), sum(size.tool_results for size in walked)
        )


def test_a_message_is_counted_once_however_often_it_is_asked() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 1

    start = Transcript.of([Message.user("a"), Message.assistant("b")])
    tip = start.extend([Message.user("c")])
    assert [Meter(count).transcript(item).messages for item in (start, tip, tip, start)] == [2, 3, 3, 2]
    assert len(counted) == 3


def test_meters_that_count_differently_keep_their_own_totals() -> None:
    past = Transcript.of([Message.user(WORDS)])
    exact = Meter(estimate_tokens)  # the same function, but over the serialised message
    assert Meter().transcript(past) == Totals(SIZE + MESSAGE_OVERHEAD, 0)
    assert exact.transcript(past) == exact.raw_message(past[0])
    assert Meter(len).transcript(past) == Meter(len).raw_message(past[0])


def test_a_report_moves_the_ratio_of_its_model_alone() -> None:
    calibration = Calibration()
    first, second = Meter(calibration=calibration, origin="a/x"), Meter(calibration=calibration, origin="a/y")
    assert (first.ratio, first.text(WORDS)) == (1.0, SIZE)
    first.learn(estimated=100, reported=160)
    assert (first.ratio, second.ratio) == (1.6, 1.0)
    first.learn(estimated=100, reported=100)
    assert first.ratio == pytest.approx(1.4)  # a third of the way
    assert first.text(WORDS) == round(SIZE * 1.4)
    assert first.raw_text(WORDS) == SIZE
    assert Meter(calibration=calibration, origin="a/x").ratio == first.ratio


@pytest.mark.parametrize(
    ("estimated", "reported", "ratio"),
    [(100, 1_000, 2.0), (100, 1, 0.5), (49, 100, 1.0), (50, 100, 2.0), (100, 0, 1.0), (100, -5, 1.0)],
)
def test_a_ratio_stays_within_bounds_and_small_requests_teach_nothing(
    estimated: int, reported: int, ratio: float
) -> None:
    calibration = Calibration()
    calibration.learn("a/x", estimated=estimated, reported=reported)
    assert calibration.ratio("a/x") == ratio


@given(reports=st.lists(st.tuples(st.integers(0, 10_000), st.integers(-10, 10_000)), max_size=9))
def test_no_series_of_reports_leaves_the_bounds(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration.learn("a/x", estimated=estimated, reported=reported)
        assert 0.5 <= calibration.ratio("a/x") <= 2.0


def test_steady_reports_are_learnt() -> None:
    calibration = Calibration()
    for _ in range(12):
        calibration.learn("a/x", estimated=1_000, reported=1_300)
    assert calibration.ratio("a/x") == pytest.approx(1.3, abs=0.001)
