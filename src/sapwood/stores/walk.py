"""walk: the files of a folder, and their bytes, without ever leaving it.

Laws: no link is followed, so that nothing outside is read and no loop is entered; what is hidden is left alone; a file
is read as the plain file that it was found to be, and up to a size; the order is that of the names.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from sapwood.retrieval.unreadable import UnreadableError

IGNORED = ("node_modules", "__pycache__", "*.pyc", "*.egg-info")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def files_of(root: Path, ignore: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each file below a folder, with slashes, and why its folder cannot be read where it cannot.

    ignore: patterns of names, or of paths from the folder; a folder that matches is left out with all in it.
    """
    open_folders = [""]
    while open_folders:
        folder = open_folders.pop()
        try:
            with os.scandir(root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            yield folder or ".", f"its folder cannot be read ({error.strerror})"
            continue
        below: list[str] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(".") or is_ignored(path, ignore):
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield path, ""
        open_folders += reversed(below)


def is_ignored(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern fits the path or its last name.

    >>> is_ignored("a/b/c.md", ["*.md"]), is_ignored("a/b/c.md", ["a/*"]), is_ignored("a/b", ["c"])
    (True, True, False)
    """
    name = path.rpartition("/")[2]
    return any(fnmatchcase(name, pattern) or fnmatchcase(path, pattern) for pattern in patterns)


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a plain file; raises UnreadableError for any other, and for one that is too large."""
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        raise UnreadableError(f"it cannot be opened ({error.strerror})") from error
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise UnreadableError("it is no plain file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)  # it may have grown since it was looked at
    except OSError as error:
        raise UnreadableError(f"it cannot be read ({error.strerror})") from error
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise UnreadableError(f"it has {max(about.st_size, len(data)):,} bytes; max_bytes is {max_bytes:,}")
    return data
