"""The meter: each message counted once, an exact counter as it is, the estimate corrected by reports."""

import base64
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.context.meter import (
    ENCRYPTED_CHARACTERS_PER_TOKEN,
    ENCRYPTED_FRAME,
    FILE_CHARACTERS_PER_TOKEN,
    IMAGE_TOKENS,
    MESSAGE_OVERHEAD,
    SOUND_CHARACTERS_PER_TOKEN,
    Calibration,
    Meter,
    Totals,
    estimate_tokens,
    image_tokens,
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
from sapwood.core.model import ModelProfile
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
    (File("a" * SOUND_CHARACTERS_PER_TOKEN * 7, "audio/mpeg"), 50 + 7),
    (ToolCall("add", {"a": WORDS}), estimate_tokens("add") + estimate_tokens(f'{{"a":"{WORDS}"}}') + 6),
    (ToolResult("k", "add", (Text(WORDS), Image("aGk="))), SIZE + IMAGE_TOKENS + 6),
    (Opaque("x", {"anthropic": WORDS}), estimate_tokens(f'{{"anthropic":"{WORDS}"}}')),
]


@pytest.mark.parametrize(("part", "tokens"), PARTS)
def test_each_kind_of_part_counts(part: Part, tokens: int) -> None:
    is_result = isinstance(part, ToolResult)
    summary = tokens if isinstance(part, Summary) else 0
    files = tokens if isinstance(part, Image | File) else 0
    rest = Totals(MESSAGE_OVERHEAD + tokens, 0, summary, files)
    expected = Totals(MESSAGE_OVERHEAD, tokens) if is_result else rest
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
    text = len(to_json(Message.user("look", Image(""))))
    assert meter.raw_message(prompt) == Totals(text + IMAGE_TOKENS, 0, 0, IMAGE_TOKENS)
    told = Message("user", (Summary("They met."), Image(data)))
    assert meter.raw_message(told).summary == len(to_json(told.replace(content=(Summary("They met."), Image("")))))
    whole = Message("tool", (inside.replace(whole=inside.content),))
    assert meter.raw_message(whole) == meter.raw_message(result)
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


def taught(*reports: tuple[int, int], expected: float = 1.0) -> Calibration:
    calibration = Calibration()
    for estimated, reported in reports:
        calibration.learn("a/x", estimated=estimated, reported=reported, expected=expected)
    return calibration


def said(calibration: Calibration, estimated: int) -> float:
    """What the calibrated estimate of such a request is."""
    return calibration.overhead("a/x") + calibration.ratio("a/x") * estimated


def test_a_report_teaches_the_estimate_of_its_model_alone() -> None:
    calibration = Calibration()
    first, second = Meter(calibration=calibration, origin="a/x"), Meter(calibration=calibration, origin="a/y")
    assert (first.ratio, first.overhead, first.text(WORDS)) == (1.0, 0, SIZE)
    first.learn(estimated=100_000, reported=140_000)
    assert (first.ratio, second.ratio, second.overhead) == (pytest.approx(1.4, abs=0.01), 1.0, 0)
    assert first.text(WORDS) == round(SIZE * first.ratio)
    assert first.raw_text(WORDS) == SIZE
    assert Meter(calibration=calibration, origin="a/x").ratio == first.ratio


def test_a_small_request_tells_of_the_overhead_and_a_long_one_of_the_ratio() -> None:
    small, long = taught((60, 400)), taught((50_000, 65_000))
    assert (small.overhead("a/x"), small.ratio("a/x")) == (pytest.approx(336, abs=5), pytest.approx(1.0, abs=0.05))
    assert (long.overhead("a/x"), long.ratio("a/x")) == (pytest.approx(0, abs=10), pytest.approx(1.3, abs=0.01))


def test_two_requests_of_a_conversation_tell_overhead_and_ratio_apart() -> None:
    calibration = taught((1_000, 1_500), (4_000, 5_400), (8_000, 10_600))  # 200 + 1.3 * n
    assert said(calibration, 12_000) == pytest.approx(200 + 1.3 * 12_000, rel=0.01)


def test_the_last_report_is_what_the_next_estimate_continues() -> None:
    calibration = taught(
        *[(size, round(size * 0.9)) for size in range(500, 5_000, 500)], (5_500, 6_050), (6_000, 6_600)
    )
    assert said(calibration, 6_000) == pytest.approx(6_600, rel=0.02)


@pytest.mark.parametrize(("estimated", "reported"), [(0, 100), (-3, 100), (100, 0), (100, -5)])
def test_what_cannot_be_compared_teaches_nothing(estimated: int, reported: int) -> None:
    calibration = taught((estimated, reported))
    assert (calibration.ratio("a/x"), calibration.overhead("a/x")) == (1.0, 0.0)


@given(
    reports=st.lists(st.tuples(st.integers(0, 1_000_000), st.integers(-10, 1_000_000)), max_size=20),
    expected=st.sampled_from([1.0, 1.3]),
)
def test_no_series_of_reports_leaves_the_bounds(reports: list[tuple[int, int]], expected: float) -> None:
    calibration = Calibration()
    for report in reports:
        calibration.learn("a/x", estimated=report[0], reported=report[1], expected=expected)
        assert 0.5 * expected <= calibration.ratio("a/x", expected) <= 2.0 * expected
        assert -200 <= calibration.overhead("a/x") <= 2_000


@pytest.mark.parametrize(("ratio", "overhead"), [(1.3, 0), (0.8, 500), (1.0, -50)])
def test_steady_reports_are_learnt(ratio: float, overhead: int) -> None:
    reports = [(size, round(overhead + ratio * size)) for size in range(500, 6_500, 500)]
    assert said(taught(*reports), 7_000) == pytest.approx(overhead + ratio * 7_000, rel=0.01)


def test_a_model_begins_with_what_its_profile_says() -> None:
    profile = ModelProfile(
        "a",
        "x",
        tokens_per_estimate=1.5,
        tokens_per_tool_estimate=0.5,
        request_overhead_tokens=7,
        tool_call_tokens=51,
        image_tokens=258,
    )
    meter, schema = Meter.of(profile), ToolSchema("add", "Add two numbers.")
    assert (meter.ratio, meter.overhead, meter.text(WORDS)) == (1.5, 7, round(SIZE * 1.5))
    assert meter.schema(schema) == round(Meter().schema(schema) * 0.5)
    call, result = ToolCall("add", {}), ToolResult("k", "add", ())
    assert meter.raw_message(Message.assistant(call)).total == Meter().raw_message(Message.assistant(call)).total + 19
    assert meter.raw_message(Message("tool", (result,))).total == MESSAGE_OVERHEAD + 26
    assert meter.raw_message(Message.user(Image(PNG))).total == MESSAGE_OVERHEAD + 258
    meter.learn(estimated=100_000, reported=150_007)
    assert (meter.ratio, meter.overhead) == (1.5, 7)


def test_an_exact_counter_adds_nothing_of_a_profile() -> None:
    profile = ModelProfile(tokens_per_estimate=2.0, tokens_per_tool_estimate=0.5, request_overhead_tokens=7)
    meter = Meter.of(profile, len)
    assert (meter.ratio, meter.overhead, meter.text("four")) == (1.0, 0, 4)
    assert meter.schema(ToolSchema("add")) == Meter(len).schema(ToolSchema("add"))


def test_meters_of_unlike_models_keep_their_own_totals() -> None:
    past = Transcript.of([Message.user("a"), Message.assistant(ToolCall("add", {}, key="k")), *answered("k")])
    dear = Meter.of(ModelProfile(tool_call_tokens=112))
    assert dear.transcript(past).total == Meter().transcript(past).total + 100


def answered(key: str) -> list[Message]:
    return [Message("tool", (ToolResult(key, "add", ()),))]


# ---------------------------------------------------------------- pictures and what is encrypted

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (300).to_bytes(4, "big") + (200).to_bytes(4, "big")).decode()
GIF = base64.b64encode(b"GIF89a" + (300).to_bytes(2, "little") + (200).to_bytes(2, "little")).decode()
_FRAME = b"\xff\xc0\0\x11\x08" + (200).to_bytes(2, "big") + (300).to_bytes(2, "big")
_TABLE = b"\xff\xc4\0\x04ab"
JPEG = base64.b64encode(b"\xff\xd8" + _TABLE + _FRAME).decode()


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        *((data, 300 * 200 // 750) for data in (PNG, GIF, JPEG)),
        (base64.b64encode(b"\xff\xd8" + _TABLE).decode(), IMAGE_TOKENS),  # the frame is further behind
        (base64.b64encode(b"RIFF....WEBP").decode(), IMAGE_TOKENS),
        ("", IMAGE_TOKENS),
        ("a", IMAGE_TOKENS),
        ("雪", IMAGE_TOKENS),
        (base64.b64encode(b"GIF89a" + b"\xff" * 4).decode(), IMAGE_TOKENS),  # as much as any
    ],
)
def test_a_picture_counts_by_its_size_where_that_is_told(data: str, tokens: int) -> None:
    assert image_tokens(data) == tokens
    assert image_tokens(data, 100) == max(100, tokens)


def test_encrypted_reasoning_counts_as_what_it_hides() -> None:
    hidden = "a" * (ENCRYPTED_FRAME + 80 * ENCRYPTED_CHARACTERS_PER_TOKEN)
    own: dict[str, Any] = {"openai": {"encrypted_content": hidden, "id": "rs_1"}}
    assert Meter().raw_message(Message.assistant(Thinking(WORDS, own))).total == MESSAGE_OVERHEAD + SIZE + 80
    shown = estimate_tokens('{"openai":{"id":"rs_1"}}')
    assert Meter().raw_message(Message.assistant(Opaque("compaction", own))).total == MESSAGE_OVERHEAD + shown + 80
    short: dict[str, Any] = {"openai": {"encrypted_content": "a"}, "x": {"encrypted_content": 3}}
    assert Meter().raw_message(Message.assistant(Thinking("", short))).total == MESSAGE_OVERHEAD
