"""Paths of the memory tool: what a model wrote -> names below `/memories`, or an error that it can act on.

Laws: nothing is decoded and nothing is resolved: `..` is refused wherever it stands, in any disguise; one file has one
path; no message shows anything but what the model wrote and `/memories/...`.
"""

import unicodedata
from urllib.parse import unquote

from sapwood.core.errors import ToolError
from sapwood.core.input_problems import cut
from sapwood.core.memory_files import SPARE, MemoryFileLimits, Names

ROOT = "/memories"
_MAX_ROUNDS = 4  # of decoding; nothing that is still encoded then could mean anything


def names_of(path: str, limits: MemoryFileLimits) -> Names:
    """Return the names of a path; `//`, `/./` and a final slash mean nothing.

    Raises ToolError for a path that is not in `/memories`, has `..` in it, or has a name that is no good one.

    >>> names_of("/memories//notes/./today.txt", MemoryFileLimits())
    ('notes', 'today.txt')
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"path {_quoted(path)} must be inside the {ROOT} directory, such as {ROOT}/notes.txt.")
    names = tuple(name for name in path[len(ROOT) :].split("/") if name not in ("", "."))
    for name in names:
        if problem := _problem(name, limits):
            raise ToolError(f"path {_quoted(path)} cannot be used: {problem}")
    if len(names) > limits.max_depth:
        raise ToolError(
            f"path {_quoted(path)} cannot be used: it has {len(names):,} names below {ROOT}, "
            f"{limits.max_depth} at most."
        )
    return names


def path_of(names: Names) -> str:
    """Return a path as the model knows it.

    >>> path_of(("notes", "today.txt"))
    '/memories/notes/today.txt'
    """
    return "/".join((ROOT, *names))


def can_be_named(name: str) -> bool:
    """Tell whether a name that was found can stand in a path; others are not shown.

    >>> can_be_named("today.txt"), can_be_named("to\\nday")
    (True, False)
    """
    return not _problem(name, None)


def _problem(name: str, limits: MemoryFileLimits | None) -> str:
    """Return what is wrong with a name, empty where nothing is."""
    plain = name
    for _ in range(_MAX_ROUNDS):
        if plain in (".", "..") or any(mark in plain for mark in "/\\\0"):
            return "'..', backslashes and their encoded forms are not allowed in it."
        plain = unquote(plain, errors="replace")
    # Half characters cannot be written, the others would break the lines of a listing.
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        return "control characters, line separators and half characters are not allowed in it."
    if name.casefold() == SPARE:
        return f"the name {SPARE} is kept for files that are being written."
    if limits is not None and (size := len(name.encode())) > limits.max_name_bytes:
        return f"a name in it is {size:,} bytes long, {limits.max_name_bytes} at most."
    return ""


def _quoted(path: str) -> str:
    return repr(cut(path, 200))
