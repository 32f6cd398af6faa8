"""Chunks of code: by the definitions at its left edge, with its lines whole.

Laws: a line is cut only where it alone is too large; a comment or a decorator stays with what it stands above; nothing
is parsed, so code that is broken, or of a language that nobody foresaw, is cut as well.
"""

import re
from collections.abc import Callable, Iterator

from sapwood.core.estimate import estimate_tokens
from sapwood.retrieval.chunk import SIZE, Chunk
from sapwood.retrieval.pieces import LINES, WORDS, Cut, Filling, filled, pieces

_WORDS_OF_DEFINITIONS = (
    "async|await|export|default|public|private|protected|internal|static|final|abstract|sealed|open|override|virtual|"
    "inline|extern|unsafe|pub(?:\\([a-z]+\\))?|declare|data|case|partial"
)
_DEFINITION = re.compile(
    rf"(?:(?:{_WORDS_OF_DEFINITIONS})\s+)*"
    r"(def|class|function|func|fn|fun|struct|enum|trait|impl|interface|type|module|mod|namespace|package|object|record|"
    r"protocol|extension|const|let|var|val|sub|proc|CREATE)\b[ \t*]*(?:\([^)]*\)[ \t]*)?"
    r"([\w.$]+(?:::[\w.$]+)*(?:[ \t]+for[ \t]+\w+)?)?",
)
_SIGNATURE = re.compile(r"[A-Za-z_][\w<>:*&,\[\] \t]*[ \t*&]+([A-Za-z_]\w*)[ \t]*\([^;]*$")  # as C and Java have it
_STATEMENT = re.compile(r"(?:if|else|for|while|switch|return|do|try|catch|with|import|from|elif|except|finally)\b")
_ABOVE = re.compile(r"[@#]|//|/\*|\*|--|\"\"\"")


def chunk_code(
    text: str, *, size: int = SIZE, overlap: int = 0, count: Callable[[str], int] = estimate_tokens
) -> list[Chunk]:
    """Return code in chunks that begin where a definition at the left edge does; `chunk.section` is its name.

    One that is too large is cut at its blank lines, else at its lines. The options are those of `chunk_recursive`.

    >>> code = "import os\\n\\n\\ndef hum():\\n    pass\\n\\n\\nclass Bee:\\n    legs = 6\\n"
    >>> [(chunk.section, chunk.text) for chunk in chunk_code(code, size=6)]
    [('', 'import os'), ('hum', 'def hum():\\n    pass'), ('Bee', 'class Bee:\\n    legs = 6')]
    """
    filling = Filling(size, overlap, count, keeps_indent=True)
    found = list(_definitions(text))
    cuts: tuple[Cut, ...] = (
        lambda _, first, last: iter([place for place, _name in found if first < place < last]),
        PARAGRAPHS_OF_CODE,
        LINES,
        WORDS,
    )
    spans = filled(text, list(pieces(text, 0, len(text), cuts, filling)), filling)
    return [Chunk(text[start:end], start, end, _section(found, start, end)) for start, end in spans]


def _section(found: list[tuple[int, str]], start: int, end: int) -> str:
    """Return the names of the definitions in a span, or that of the one which it lies in."""
    within = [name for place, name in found if start <= place < end and name]
    before = next((name for place, name in reversed(found) if place <= start), "")
    if before and not any(place == start for place, _ in found):
        within = [before, *within]
    return ", ".join(dict.fromkeys(within[:_NAMED]))


PARAGRAPHS_OF_CODE = re.compile(r"\n(?:[ \t\r]*\n)+")
"""Blank lines, and nothing of the indentation after them."""
_NAMED = 5


def _definitions(text: str) -> Iterator[tuple[int, str]]:
    """Yield where a definition begins, with what stands right above it, and its name."""
    above: int | None = None
    start = 0
    for line in text.splitlines(keepends=True):
        if name := _name(line):
            yield (start if above is None else above), name
            above = None
        elif _ABOVE.match(line):
            above = start if above is None else above
        else:
            above = None
        start += len(line)


def _name(line: str) -> str:
    """Return the name of what a line at the left edge defines; empty for any other line."""
    if not line[:1].strip():
        return ""
    if found := _DEFINITION.match(line):
        return found[2] or found[1]
    if not _STATEMENT.match(line) and (found := _SIGNATURE.match(line)):
        return found[1]
    return ""
