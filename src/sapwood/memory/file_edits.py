"""Edits of a memory file's text that leave every other byte as it was.

Laws: only "\\n" and "\\r\\n" end a line; what is added gets the line ends of its place; a byte order mark stays first;
a file without a final line end keeps none. Source: guide A, section 10.
"""

from bisect import bisect_left

import msgspec

from sapwood.core.errors import ToolError

BYTE_ORDER_MARK = "\ufeff"
MAX_PLACES = 20
"""Places of a text that are named where it is found more than once."""


class Edited(msgspec.Struct, frozen=True):
    """A text after an edit. first, last: the lines that were changed, from 0."""

    text: str
    first: int
    last: int


def decoded(content: bytes, path: str) -> str:
    """Return a file's text; raises ToolError where it is no UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"The file {path} is not UTF-8 text, so it can be neither shown nor edited.") from None


def encoded(text: str, name: str) -> bytes:
    """Return the bytes of a text that a model gave; raises ToolError where half a character stands in it."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"{name} holds half a character (a lone surrogate) at position {error.start}.") from None


def shown_lines(text: str) -> list[str]:
    """Return the lines as they are shown: split at line ends only, without them and without a byte order mark.

    After a final line end comes an empty line, as in the vendor's tool.

    >>> shown_lines("a\\r\\nb\\x0cc\\n")
    ['a', 'b\\x0cc', '']
    """
    return text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n").split("\n")


def insert_lines(text: str, at: int, added: str) -> Edited:
    """Insert lines after line `at`, 0 for the beginning; raises ToolError outside 0 to the number of lines.

    One line end at the end of what is added is no line of its own.

    >>> insert_lines("a\\nb", 2, "c").text
    'a\\nb\\nc'
    """
    mark = BYTE_ORDER_MARK if text.startswith(BYTE_ORDER_MARK) else ""
    lines = text[len(mark) :].split("\n")
    is_ended = lines[-1] == ""
    if is_ended:
        lines.pop()
    if not 0 <= at <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {at}. It should be within the range [0, {len(lines)}], where 0 is "
            "before the first line."
        )
    end = _end_at(lines, at, is_ended)
    new = _with_ends(added, end)
    new = new.removesuffix("\r\n") if new.endswith("\r\n") else new.removesuffix("\n")
    whole = [f"{line}\n" for line in lines]
    if lines and not is_ended:
        whole[-1] = lines[-1]
    piece = new + end
    if at == len(lines) and lines and not is_ended:
        piece = end + new
    before, after = "".join(whole[:at]), "".join(whole[at:])
    return Edited(f"{mark}{before}{piece}{after}", at, at + new.count("\n"))


def replace_text(text: str, old: str, new: str, path: str) -> Edited:
    """Replace the one place where a text stands; "\\n" in it also means the file's "\\r\\n".

    Raises ToolError where it stands nowhere, or more than once, with the lines.
    """
    if not old:
        raise ToolError("No replacement was performed: old_str is empty. Give the text to replace, or use insert.")
    plain = text.replace("\r\n", "\n")
    wanted = old.replace("\r\n", "\n")
    places = _places(plain, wanted)
    if not places:
        raise ToolError(f"No replacement was performed, old_str `{_brief(old)}` did not appear verbatim in {path}.")
    if len(places) > 1:
        lines = list(dict.fromkeys(str(plain.count("\n", 0, place) + 1) for place in places[:MAX_PLACES]))
        more = " and more" if len(places) > MAX_PLACES else ""
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{_brief(old)}` in lines: "
            f"{', '.join(lines)}{more}. Please ensure it is unique"
        )
    ends = _dos_ends(text)
    start, stop = (place + bisect_left(ends, place) for place in (places[0], places[0] + len(wanted)))
    segment = text[start:stop]
    whole = segment if "\n" in segment else text
    is_dos = "\r\n" in whole and whole.count("\n") == whole.count("\r\n")
    put = _with_ends(new, "\r\n" if is_dos else "\n")
    first = plain.count("\n", 0, places[0])
    return Edited(text[:start] + put + text[stop:], first, first + put.count("\n"))


def _places(text: str, wanted: str) -> list[int]:
    """Return where a text stands, overlapping places too, and one more than are named at most."""
    places: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(places) <= MAX_PLACES:
        places.append(at)
        at = text.find(wanted, at + 1)
    return places


def _dos_ends(text: str) -> list[int]:
    """Return the places of the line ends that are "\\r\\n", counted in the text where each is one character."""
    ends: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        ends.append(at - len(ends))
        at = text.find("\r\n", at + 2)
    return ends


def _end_at(lines: list[str], at: int, is_ended: bool) -> str:
    """Return the line end in use at a place: that of the line before it, or else of the one after it."""
    has_end = lines if is_ended else lines[:-1]
    near = [*reversed(has_end[:at]), *has_end[at : at + 1]]
    return "\r\n" if near and near[0].endswith("\r") else "\n"


def _with_ends(text: str, end: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", end) if end == "\r\n" else text


def _brief(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
