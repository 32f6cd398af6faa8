"""Chunks: exact parts of a text, in order, all of it, none too large, always the same."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood import Chunk, ConfigError, chunk_code, chunk_markdown, chunk_recursive, chunk_sentences
from sapwood.core.estimate import estimate_tokens

CHUNKERS = [chunk_recursive, chunk_sentences, chunk_markdown, chunk_code]


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("chunker", "text", "size", "expected"),
    [
        (chunk_recursive, "", 5, []),
        (chunk_recursive, " \n\t ", 5, []),
        (chunk_recursive, "  One two.  ", 5, ["One two."]),
        (chunk_recursive, "a b c\n\nd e", 3, ["a b c", "d e"]),
        (chunk_recursive, "a b\nc d\n\ne", 3, ["a b", "c d\n\ne"]),
        (chunk_recursive, "a b c. d e f, g h", 3, ["a b c.", "d e f,", "g h"]),
        (chunk_recursive, "a b c d e", 2, ["a b", "c d", "e"]),
        (chunk_sentences, "A bee hums. It flies! Does it sting?", 5, ["A bee hums. It flies!", "Does it sting?"]),
        (
            chunk_sentences,
            "See Mr. Bell, e.g. at J. Smith's. Go on.",
            7,
            ["See Mr. Bell, e.g. at J. Smith's.", "Go on."],
        ),
        (chunk_sentences, "蜂は飛ぶ。花は咲く。", 1, ["蜂は飛ぶ。花は咲く。"]),
        (chunk_sentences, "One two\n\nthree four", 3, ["One two", "three four"]),
    ],
)
def test_a_text_is_cut_where_it_pauses(
    chunker: Callable[..., list[Chunk]], text: str, size: int, expected: list[str]
) -> None:
    assert [chunk.text for chunk in chunker(text, size=size, count=words)] == expected


def test_east_asian_sentences_end_without_a_blank() -> None:
    assert [chunk.text for chunk in chunk_sentences("蜂は飛ぶ。花は咲く。", size=5, count=len)] == [
        "蜂は飛ぶ。",
        "花は咲く。",
    ]


def test_a_piece_that_nothing_divides_is_cut_and_a_mark_stays_with_its_letter() -> None:
    assert [chunk.text for chunk in chunk_recursive("x" * 10, size=4, count=len)] == ["xxxx", "xxxx", "xx"]
    assert [chunk.text for chunk in chunk_recursive("abe\u0301d", size=3, count=len)] == ["ab", "e\u0301d"]
    assert chunk_recursive("e\u0301\u0301\u0301d", size=2, count=len)[0].text == "e\u0301"


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (0, ["One two. Three four.", "Five six. Seven."]),
        (2, ["One two. Three four.", "Three four. Five six.", "Five six. Seven."]),
        (1, ["One two. Three four.", "four. Five six. Seven."]),
    ],
)
def test_a_chunk_begins_with_the_end_of_the_one_before(overlap: int, expected: list[str]) -> None:
    found = chunk_sentences("One two. Three four. Five six. Seven.", size=4, overlap=overlap, count=words)
    assert [chunk.text for chunk in found] == expected


def test_an_overlap_that_leaves_no_room_for_what_is_new_is_left_out() -> None:
    found = chunk_sentences("a b. c d e f.", size=4, overlap=3, count=words)
    assert [chunk.text for chunk in found] == ["a b.", "c d e f."]


PAGE = """Preface.

# Hive

A hive is
a home.

| bee | legs |
|-----|------|
| Ann | six  |

```python
# no heading
hum()

sting()
```
- queen
- drone

## Empty

### Deep ###

Deep text.

Title
=====

Below.

Sub
---
More.
"""


def test_markdown_is_cut_by_its_headings() -> None:
    found = chunk_markdown(PAGE, size=100)
    assert [(chunk.section, chunk.text.splitlines()[0]) for chunk in found] == [
        ("", "Preface."),
        ("Hive", "# Hive"),
        ("Hive > Empty > Deep", "## Empty"),
        ("Title", "Title"),
        ("Title > Sub", "Sub"),
    ]


def test_blocks_of_markdown_stay_whole_where_they_fit() -> None:
    assert [chunk.text for chunk in chunk_markdown(PAGE, size=12, count=words)][1:4] == [
        "# Hive\n\nA hive is\na home.",
        "| bee | legs |\n|-----|------|\n| Ann | six  |",
        "```python\n# no heading\nhum()\n\nsting()\n```\n- queen\n- drone",
    ]


def test_a_table_that_is_too_large_is_cut_between_its_rows() -> None:
    table = "| bee | legs |\n|-----|------|\n| Ann | six |"
    assert [chunk.text for chunk in chunk_markdown(table, size=6, count=words)] == [
        "| bee | legs |\n|-----|------|",
        "| Ann | six |",
    ]


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("---\ntitle: x\n---\n\n# A\n\ntext", ["", "A"]),
        ("---\n\n# A\n\ntext", ["", "A"]),
        ("~~~\n# no\n```\n~~~\n# A\ntext", ["", "A"]),
        ("```\n# never closed\n", [""]),
        ("# A #\ntext\n#no heading\n####### seven", ["A"]),
        ("> quoted\n---\n\n* item\n===\n", [""]),
        ("#\n\ntext", [""]),
        ("# Only a heading", ["Only a heading"]),
        ("Under\n  ===  \ntext", ["Under"]),
    ],
)
def test_what_is_a_heading_and_what_is_not(text: str, sections: list[str]) -> None:
    assert [chunk.section for chunk in chunk_markdown(text, size=500)] == sections


CODE = '''"""Module."""
import os

LIMIT = 3


@cached
def hum(loud):
    first = 1

    return first


# about bees
class Bee(Insect):
    legs = 6

    def sting(self):
        pass
'''


def test_code_is_cut_by_its_definitions_with_what_stands_above_them() -> None:
    found = chunk_code(CODE, size=11, count=words)
    assert [(chunk.section, chunk.text.splitlines()[0]) for chunk in found] == [
        ("", '"""Module."""'),
        ("hum", "@cached"),
        ("Bee", "# about bees"),
    ]
    small = chunk_code(CODE, size=8, count=words)
    assert [(chunk.section, chunk.text.splitlines()[0]) for chunk in small][-2:] == [
        ("Bee", "# about bees"),
        ("Bee", "    def sting(self):"),
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("async def go(a):", "go"),
        ("export default class Hive {", "Hive"),
        ("func (h *Hive) Open() error {", "Open"),
        ("pub(crate) fn open() {", "open"),
        ("impl Show for Bee {", "Show for Bee"),
        ("int main(int argc, char **argv) {", "main"),
        ("const hum = () => {", "hum"),
        ("public static final class A {}", "A"),
        ("std::vector<int> made(int n)", "made"),
        ("if (bee(1)) {", ""),
        ("hum(1)", ""),
        ("    def inner():", ""),
        ("type", "type"),
    ],
)
def test_the_name_of_a_definition(line: str, name: str) -> None:
    assert chunk_code(line)[0].section == name


@pytest.mark.parametrize("chunker", CHUNKERS)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"size": 0}, "size is a number of tokens, at least 1, not 0"),
        ({"size": True}, "size is a number"),
        ({"overlap": -1}, "overlap is a number of tokens, at least 0"),
        ({"size": 5, "overlap": 5}, r"overlap \(5\) must be less than size \(5\)"),
        ({"count": 3}, "count is a function"),
    ],
)
def test_a_size_that_leads_nowhere_is_refused(
    chunker: Callable[..., object], options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        chunker("text", **options)


LINES = st.sampled_from(
    ["# One", "## Two ##", "text. More text, and more", "```", "| a | b |", "", "  ", "- item", "def hum(a):", "    x = 1",
     "@made", "Title", "=====", "---", "Dr. Ann. 蜂は飛ぶ。", "e\u0301\u0301", "\u200d", "x" * 40, "\r", "\x0c", "\u2028"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(LINES, max_size=25).map("\n".join))


@pytest.mark.parametrize("chunker", CHUNKERS)
@given(
    text=TEXTS,
    size=st.integers(1, 30),
    overlap=st.integers(0, 10),
    count=st.sampled_from([words, len, estimate_tokens]),
)
@settings(max_examples=150, deadline=None)
def test_every_chunk_keeps_the_laws(
    chunker: Callable[..., list[Chunk]], text: str, size: int, overlap: int, count: Callable[[str], int]
) -> None:
    overlap = min(overlap, size - 1)
    found = chunker(text, size=size, overlap=overlap, count=count)
    assert found == chunker(text, size=size, overlap=overlap, count=count)
    seen = bytearray(len(text))
    for chunk in found:
        assert text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert count(chunk.text) <= size or len(chunk.text) == 1
        seen[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    assert all(seen[place] or char.isspace() for place, char in enumerate(text))
    for one, next_one in pairwise(found):
        assert one.start < next_one.start
        assert one.end < next_one.end
        if not overlap:
            assert one.end <= next_one.start
        elif next_one.start < one.end:
            assert count(text[next_one.start : one.end]) <= overlap
