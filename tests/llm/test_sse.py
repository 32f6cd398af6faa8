"""Bytes to server-sent events, cut anywhere."""

import itertools
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sapwood.llm.sse import SseEvent, SseSplitter


def split(*chunks: bytes) -> list[SseEvent]:
    splitter = SseSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)] + splitter.finish()


CASES = [
    (b"data: a\n\n", [(b"", b"a")]),
    (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
    (b"data:a\ndata: b\ndata\ndata:  c\n\n", [(b"", b"a\nb\n\n c")]),
    (b": comment\n\n: another\ndata: a\n\n:\n\n", [(b"", b"a")]),
    (b"id: 1\nretry: 5\nevent: x\ndata: a\n\n", [(b"x", b"a")]),
    (b"data: a\nevent: x\n\n", [(b"x", b"a")]),
    (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
    (b'error: {"code":400}\n\n', [(b"error", b'{"code":400}')]),
    (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
    (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
    (b"data: a", [(b"", b"a")]),
    (b"data: a\n\ndata: b\n", [(b"", b"a"), (b"", b"b")]),
    ("data: \u2028 \u2029 \x85 \x0b \x0c 雪🦊\n\n".encode(), [(b"", "\u2028 \u2029 \x85 \x0b \x0c 雪🦊".encode())]),
    (b"", []),
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(("stream", "events"), CASES)
def test_events_are_the_same_for_all_line_ends_and_every_cut(stream: bytes, events: list[SseEvent], end: bytes) -> None:
    stream = stream.replace(b"\n", end)

    assert split(stream) == events
    assert split(*(stream[i : i + 1] for i in range(len(stream)))) == events
    for cut in range(len(stream) + 1):
        assert split(stream[:cut], b"", stream[cut:]) == events


@given(
    events=st.lists(
        st.tuples(
            st.sampled_from(["", "ping", "delta"]),
            st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), min_size=1, max_size=3),
        ),
        max_size=5,
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1),
    cuts=st.lists(st.integers(0, 300), max_size=20),
    comment=st.booleans(),
)
def test_any_events_come_back_from_any_cuts(
    events: list[tuple[str, list[str]]], ends: list[bytes], cuts: list[int], comment: bool
) -> None:
    lines: list[str] = [": hello"] if comment else []
    for name, values in events:
        lines += [f"event: {name}"] * bool(name) + [f"data: {value}" for value in values] + [""]
    stream = b"".join(line.encode() + ends[i % len(ends)] for i, line in enumerate(lines))
    # A CR that ends one line followed by an LF that ends an empty one reads as one CRLF.
    assume(not (b"\r" in ends and b"\n" in ends))
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    expected = [(n.encode(), "\n".join(v).encode()) for n, v in events]

    assert split(*(stream[a:b] for a, b in itertools.pairwise(places))) == expected


def test_a_huge_event_in_small_pieces_is_not_scanned_again() -> None:
    piece = b"x" * 1000
    splitter = SseSplitter()
    splitter.feed(b"data: ")

    started = time.process_time()
    for _ in range(20_000):
        splitter.feed(piece)
    ((_, data),) = splitter.feed(b"\n\n")
    assert len(data) == 20_000_000
    assert time.process_time() - started < 1


def test_a_cut_last_event_is_given_as_it_is() -> None:
    splitter = SseSplitter()

    assert splitter.feed(b'data: {"a') == []
    assert splitter.finish() == [(b"", b'{"a')]
    assert splitter.finish() == []
