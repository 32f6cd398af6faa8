"""Chunks of Markdown: by its headings, with its blocks whole.

Laws: a chunk lies within one section and says which; a fenced block, a table and a row of it are cut only where they
alone are too large; a heading with nothing below it stays with the one that follows.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from sapwood.core.estimate import estimate_tokens
from sapwood.retrieval.chunk import SIZE, Chunk
from sapwood.retrieval.pieces import CLAUSES, LINES, SENTENCES, WORDS, Cut, Filling, Span, filled, pieces

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*\Z")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ROW = re.compile(r"[ \t]*\|")
_LIST_OR_QUOTE = re.compile(r"[ \t]*(?:[-*+>]|\d+[.)])(?:[ \t]|\Z)")


class _Line(msgspec.Struct, frozen=True):
    start: int
    end: int
    kind: str  # of a heading its level; else "", "text", "fence", "row", "list"
    title: str = ""
    opens: bool = False  # a block begins here


def chunk_markdown(
    text: str, *, size: int = SIZE, overlap: int = 0, count: Callable[[str], int] = estimate_tokens
) -> list[Chunk]:
    """Return Markdown in chunks, each of one section: `chunk.section` is the path of its headings.

    The options are those of `chunk_recursive`; an overlap stays within a section.

    >>> page = "# Bees\\n\\nThey hum.\\n\\n## Food\\n\\nLavender."
    >>> [(chunk.section, chunk.text) for chunk in chunk_markdown(page)]
    [('Bees', '# Bees\\n\\nThey hum.'), ('Bees > Food', '## Food\\n\\nLavender.')]
    """
    filling = Filling(size, overlap, count)
    lines = list(_lines(text))
    blocks = [line.start for line in lines if line.opens]
    cuts: tuple[Cut, ...] = (lambda _, first, last: _between(blocks, first, last), LINES, SENTENCES, CLAUSES, WORDS)
    chunks: list[Chunk] = []
    for path, (start, end) in _sections(lines, len(text)):
        spans = filled(text, list(pieces(text, start, end, cuts, filling)), filling)
        chunks += [Chunk(text[first:last], first, last, path) for first, last in spans]
    return chunks


def _between(places: list[int], first: int, last: int) -> Iterator[int]:
    from bisect import bisect_left, bisect_right

    return iter(places[bisect_right(places, first) : bisect_left(places, last)])


def _sections(lines: list[_Line], length: int) -> Iterator[tuple[str, Span]]:
    """Yield each section with the path of its headings; one without a text of its own begins the next one."""
    path: list[tuple[int, str]] = []
    start, is_empty = 0, True
    for line in lines:
        if not line.kind.isdigit():
            is_empty = is_empty and not line.kind
            continue
        if not is_empty:
            yield _named(path), (start, line.start)
            start, is_empty = line.start, True
        level = int(line.kind)
        path = [*(item for item in path if item[0] < level), (level, line.title)]
    if start < length:
        yield _named(path), (start, length)


def _named(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path if title)


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines, each with what it is; a heading that is underlined is one line."""
    fence = ""
    before = ""
    held: _Line | None = None
    for number, (start, end) in enumerate(_line_spans(text)):
        line = text[start:end].rstrip("\r\n")
        if fence:
            is_closed = line.strip().startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_closed and fence != _FRONT else "" if fence == _FRONT and line.strip() == _FRONT else fence
            yield _Line(start, end, "fence")
            before = "fence"
            continue
        if held is not None and (found := _UNDERLINE.match(line)):
            yield _Line(held.start, end, "1" if found[1][0] == "=" else "2", text[held.start : held.end].strip(), True)
            held, before = None, "heading"
            continue
        if held is not None:
            yield held
            held = None
        if number == 0 and line.strip() == _FRONT and f"\n{_FRONT}" in text[end - 1 :]:
            fence, before = _FRONT, "fence"
            yield _Line(start, end, "fence", opens=True)
        elif found := _FENCE.match(line):
            fence, before = found[1], "fence"
            yield _Line(start, end, "fence", opens=True)
        elif found := _HEADING.match(line):
            before = "heading"
            yield _Line(start, end, str(len(found[1])), (found[2] or "").strip(), True)
        else:
            kind = _kind(line)
            opens = bool(kind) and (before in ("", "fence", "heading") or (kind == "row") != (before == "row"))
            made = _Line(start, end, kind, opens=opens)
            if kind == "text" and before in ("", "heading", "fence"):
                held = made
            else:
                yield made
            before = kind
    if held is not None:
        yield held


_FRONT = "---"


def _kind(line: str) -> str:
    if not line.strip():
        return ""
    if _ROW.match(line):
        return "row"
    return "list" if _LIST_OR_QUOTE.match(line) else "text"


def _line_spans(text: str) -> Iterator[Span]:
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, end
        start = end
