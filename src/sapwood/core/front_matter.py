"""Front matter: the fields at the head of a Markdown file, read from the part of YAML that people write there.

Laws: nothing in it is run or looked up; what this cannot read as structure is text, never an error; whatever a
program wrote it, the marks of a line's end, a byte order mark and blanks behind a marker make no difference.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
Lines: TypeAlias = Sequence[tuple[int, str]]
"""Lines with their numbers in the file."""

_KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s\-#\[\]{},"'|>&*!%@`][^:]*|-[^\s:][^:]*):(?:\s+(?P<rest>.*))?\Z""")
_BLOCK = re.compile(r"(?P<style>[|>])(?P<chomp>[+-]?)\d?(?P<late>[+-]?)\s*(?:#.*)?\Z")
_COMMENT = re.compile(r"(?:^|\s)#.*\Z")
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+)\Z")
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_ESCAPES = dict(zip("ntrbfav0e", "\n\t\r\b\f\a\v\0\x1b", strict=True)) | {letter: letter for letter in '/"\\ '}
_MAX_DEPTH = 6


class FrontMatter(msgspec.Struct, frozen=True):
    """The fields of a file, what could not be understood of them, with line numbers, and the text below."""

    fields: dict[str, Value]
    problems: tuple[str, ...] = ()
    body: str = ""


def read_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a file and its body; None where it begins with none, or where that has no end.

    Understood are plain, quoted and block texts, numbers, true, false and null, lists, and dictionaries in them. A
    colon inside of an unquoted text is part of it.

    >>> read_front_matter("---\\nname: a\\ndescription: Use for: b\\n---\\nBody").fields
    {'name': 'a', 'description': 'Use for: b'}
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[start].rstrip() != "---":
        return None
    end = next((i for i in range(start + 1, len(lines)) if lines[i].rstrip() in ("---", "...")), None)
    if end is None:
        return None
    numbered = [(number + 1, lines[number].rstrip().expandtabs(2)) for number in range(start + 1, end)]
    problems: list[str] = []
    fields = _dictionary(numbered, problems, 0)
    return FrontMatter(fields, tuple(problems), "\n".join(lines[end + 1 :]).strip())


def _dictionary(lines: Lines, problems: list[str], depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    index = 0
    while index < len(lines):
        number, line = lines[index]
        index += 1
        if _is_empty(line):
            continue
        match = None if line[0] == " " else _KEY.match(line)
        if match is None:
            problems.append(f"line {number}: {line.strip()[:60]!r} is no `key: value`")
            continue
        key, rest = _unquoted(match["key"].strip()), (match["rest"] or "").strip()
        end = index
        while end < len(lines) and _belongs(lines[end][1], rest):
            end += 1
        if key in found:
            problems.append(f"line {number}: {key!r} is given twice; the last one counts")
        found[key] = _value(rest, lines[index:end], problems, depth)
        index = end
    return found


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _belongs(line: str, rest: str) -> bool:
    """Tell whether a line is part of the value above it. rest: what stands beside the key."""
    is_list = not rest or rest.startswith("#")
    return not line or line[0] == " " or (is_list and (line == "-" or line.startswith("- "))) or line.startswith("#")


def _value(rest: str, below: Lines, problems: list[str], depth: int) -> Value:
    if block := _BLOCK.match(rest):
        return _block(block, [line for _, line in below])
    inside = [(number, line) for number, line in below if not _is_empty(line)]
    beside = _COMMENT.sub("", rest).strip() if rest[:1] not in "\"'" else rest
    if not beside and inside:
        return _nested(inside, problems, depth)
    text = " ".join([beside, *(line.strip() for _, line in inside)])
    return _flow(text)


def _nested(lines: Lines, problems: list[str], depth: int) -> Value:
    margin = min(len(line) - len(line.lstrip()) for _, line in lines)
    inside = [(number, line[margin:]) for number, line in lines]
    first = inside[0][1]
    if depth >= _MAX_DEPTH:
        return " ".join(line.strip() for _, line in lines)
    if first == "-" or first.startswith("- "):
        return _series(inside, problems, depth + 1)
    if _KEY.match(first):
        return _dictionary(inside, problems, depth + 1)
    return _flow(" ".join(line.strip() for _, line in lines))


def _series(lines: Lines, problems: list[str], depth: int) -> list[Value]:
    items: list[list[tuple[int, str]]] = []
    for number, line in lines:
        if line == "-" or line.startswith("- "):
            items.append([(number, "  " + line[2:])])
        else:
            items[-1].append((number, line))
    found: list[Value] = []
    for item in items:
        head, below = item[0][1].strip(), item[1:]
        is_text = not head or head[0] in "\"'[{" or _KEY.match(head) is None or _COMMENT.match(head)
        found.append(_value(head, below, problems, depth) if is_text else _nested(item, problems, depth))
    return found


def _block(header: re.Match[str], lines: Sequence[str]) -> str:
    """Return the text of a block: `|` keeps its lines, `>` joins them."""
    filled = [line for line in lines if line]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    texts = [line[margin:] for line in lines]
    if header["style"] == "|":
        text = "\n".join(texts)
    else:
        paragraphs = "\n".join(texts).strip("\n").split("\n\n")
        text = "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    return text.strip("\n")


def _flow(text: str) -> Value:
    """Return the value of a text on one line: a quoted or plain one, a list in brackets, a dictionary in braces."""
    opening = text[:1]
    bare = _COMMENT.sub("", text).strip()
    if opening == "[" and bare.endswith("]"):
        return [_flow(item) for item in _split(bare[1:-1])]
    if opening == "{" and bare.endswith("}"):
        pairs = [item.partition(":") for item in _split(bare[1:-1])]
        return {_unquoted(key.strip()): _flow(value.strip()) for key, _, value in pairs}
    if opening in ("'", '"') and (quoted := _quoted(text)) is not None:
        return quoted
    return _scalar(bare)


def _split(text: str) -> list[str]:
    """Return what stands between the commas that are in no quotes and no brackets."""
    items, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and not items[-1].strip():
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            items.append("")
            continue
        items[-1] += letter
    return [item.strip() for item in items if item.strip()]


def _quoted(text: str) -> str | None:
    """Return what stands in the quotes that a text begins with; None where they do not end, or not it."""
    quote = text[0]
    pattern = r'"((?:[^"\\]|\\.)*)"' if quote == '"' else r"'((?:[^']|'')*)'"
    found = re.match(pattern, text, re.DOTALL)
    if found is None or _COMMENT.sub("", text[found.end() :]).strip():
        return None
    inside = found[1]
    if quote == "'":
        return inside.replace("''", "'")
    text = re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", _escape, inside, flags=re.DOTALL)
    # Two escapes may stand for one character, and a half alone for none that could be sent.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    kind = match[1]
    if len(kind) > 1:
        return chr(int(kind[1:], 16))
    return _ESCAPES.get(kind, "\\" + kind)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1 else text


def _scalar(text: str) -> Value:
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if _INTEGER.match(text) and len(text) < 20:
        return int(text)
    return float(text) if _NUMBER.match(text) else text
