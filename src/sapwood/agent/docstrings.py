"""What a docstring says of a tool and of its parameters: Google, NumPy and Sphinx style.

Laws: the description is the first paragraph, so no parameter is described twice; a colon inside a text
starts no new parameter; entries for names that are no parameters are left out.
griffe (extra `docstrings`) reads parameters where it is installed; a small parser of our own where it is not.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["google", "numpy", "sphinx"]
Entry: TypeAlias = tuple[str, str]

_PARAMETER_HEAD = re.compile(
    r"^[ ]*(?:args?|arguments?|params?|parameters?|(?:keyword|other) (?:args|arguments|parameters)):[ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = re.compile(
    r"^(?:args?|arguments?|params?|parameters?|(?:keyword|other) (?:args|arguments|parameters)|returns?|yields?"
    r"|receives?|raises?|exceptions?|warns?|warnings?|examples?|attributes?|notes?|references?|see also|todo):[ ]*$",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"^[ ]*[-=~]{3,}[ ]*$")
_NUMPY = re.compile(r"^[ ]*(?:other )?parameters[ ]*\n[ ]*-{3,}[ ]*$", re.IGNORECASE | re.MULTILINE)
_SPHINX = re.compile(
    r"^[ ]*:(?:param|parameter|arg|argument|key|keyword)[ ]+(?:[^:\n]*[ ])?(?P<name>\*{0,2}\w+)[ ]*:[ ]*(?P<text>.*)$",
    re.MULTILINE,
)
_FIELD = re.compile(r"^[ ]*:\w+[^:\n]*:")
_GOOGLE_ENTRY = re.compile(r"^(?P<name>\*{0,2}\w+)[ ]*(?:\([^)]*\))?[ ]*:[ ]*(?P<text>.*)$")
_NAME = re.compile(r"^\*{0,2}\w+$")


def description_of(docstring: str | None) -> str:
    """Return the first paragraph on one line, "" where there is none.

    >>> description_of('''Find a room.
    ...
    ...     Args:
    ...         day: The day.
    ... ''')
    'Find a room.'
    """
    lines: list[str] = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        text = line.strip()
        if _UNDERLINE.match(text):
            lines = lines[:-1]  # the line above was the head of a section
            break
        if not text or _HEAD.match(text) or _FIELD.match(text) or text.startswith(">>>"):
            break
        lines.append(text)
    return " ".join(lines)


def parameter_texts(docstring: str | None, names: Collection[str]) -> Mapping[str, str]:
    """Return what a docstring says of these parameters.

    >>> parameter_texts('''Find a room.
    ...
    ...     Args:
    ...         day: The day.
    ... ''', ["day"])
    {'day': 'The day.'}
    """
    text = inspect.cleandoc(docstring or "")
    style = style_of(text)
    if style is None or not names:
        return {}
    entries = _with_griffe(text, style)
    found = joined(_OWN[style](text) if entries is None else entries)
    return {name: said for name, said in found.items() if name in names and said}


def style_of(text: str) -> Style | None:
    """Return the style in which a docstring describes parameters, None where it describes none.

    >>> style_of(":param day: The day.")
    'sphinx'
    """
    if _NUMPY.search(text):
        return "numpy"
    if _SPHINX.search(text):
        return "sphinx"
    return "google" if any(_PARAMETER_HEAD.match(line) for line in text.splitlines()) else None


def joined(entries: Iterable[Entry]) -> dict[str, str]:
    """Return texts by name: an entry whose name is no name continues the one above it.

    >>> joined([("size", "One of:"), ("- big", "very"), ("*rest", "more")])
    {'size': 'One of:\\n- big: very', 'rest': 'more'}
    """
    texts: dict[str, str] = {}
    last: list[str] = []
    for name, text in entries:
        parts = [part.strip() for part in name.split(",")]
        if all(_NAME.match(part) for part in parts):
            last = [part.lstrip("*") for part in parts]
            texts.update(dict.fromkeys(last, _tidy(text)))
            continue
        for earlier in last:
            texts[earlier] = _tidy(f"{texts[earlier]}\n{name}: {text}")
    return texts


def _tidy(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())


def _with_griffe(text: str, style: Style) -> list[Entry] | None:
    try:
        import griffe
    except ImportError:
        return None
    kinds = (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.other_parameters)
    if style == "google":
        text = _PARAMETER_HEAD.sub("Args:", text)  # griffe does not know every spelling
    # `warnings=False`: a docstring without types is no fault, and a log line for each would hide real ones.
    sections = griffe.Docstring(text).parse(style, warnings=False)
    return [
        (item.name, item.description or "") for section in sections if section.kind in kinds for item in section.value
    ]


def _google(text: str) -> Iterator[Entry]:
    for block in _google_blocks(text.splitlines()):
        margin = _indent(block[0])
        entry: Entry | None = None
        for line in block:
            found = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) <= margin else None
            if found is not None:
                if entry is not None:
                    yield entry
                entry = (found["name"], found["text"])
            elif entry is not None:
                entry = (entry[0], f"{entry[1]}\n{line}")
        if entry is not None:
            yield entry


def _google_blocks(lines: list[str]) -> Iterator[list[str]]:
    for index, line in enumerate(lines):
        if not _PARAMETER_HEAD.match(line):
            continue
        block: list[str] = []
        for below in lines[index + 1 :]:
            if below.strip() and _indent(below) <= _indent(line):
                break
            if below.strip():
                block.append(below)
        if block:
            yield block


def _numpy(text: str) -> Iterator[Entry]:
    lines = text.splitlines()
    for index, line in enumerate(lines[:-1]):
        if not _NUMPY.match(f"{line}\n{lines[index + 1]}"):
            continue
        entry: Entry | None = None
        for place, below in enumerate(lines[index + 2 :], index + 2):
            if place + 1 < len(lines) and _UNDERLINE.match(lines[place + 1]):
                break
            if below.strip() and _indent(below) <= _indent(line):
                if entry is not None:
                    yield entry
                entry = (below.partition(":")[0].strip(), "")
            elif entry is not None:
                entry = (entry[0], f"{entry[1]}\n{below}")
        if entry is not None:
            yield entry


def _sphinx(text: str) -> Iterator[Entry]:
    entry: Entry | None = None
    for line in text.splitlines():
        found = _SPHINX.match(line)
        ends = found is not None or _FIELD.match(line) is not None or not line.strip()
        if entry is not None and ends:
            yield entry
            entry = None
        if found is not None:
            entry = (found["name"], found["text"])
        elif entry is not None:
            entry = (entry[0], f"{entry[1]}\n{line}")
    if entry is not None:
        yield entry


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_OWN: dict[Style, Callable[[str], Iterator[Entry]]] = {"google": _google, "numpy": _numpy, "sphinx": _sphinx}
