"""A folder whose files may be listed and read, and nothing outside of it.

Laws: each step of a name is opened from the folder that holds it, and none of them may be a symbolic link, so nothing
can be swapped between the look and the reading; hidden files are not there; no message names a place on this machine.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sapwood.core.errors import ToolError

MAX_FILES = 200
MAX_DEPTH = 6


def files_of(folder: Path) -> tuple[str, ...]:
    """Return the names of the files below a folder, relative to it and sorted; links and hidden ones left out.

    At most 200 of them, six folders deep.
    """
    found = _below(os.fspath(folder), "", 0)
    return tuple(name for name, _ in zip(found, range(MAX_FILES), strict=False))


def _below(folder: str, prefix: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return  # it went away, or it may not be read
    for entry in inside:
        if entry.name.startswith(".") or not entry.name.isprintable() or entry.name == "__pycache__":
            continue
        if entry.is_file(follow_symlinks=False):
            yield prefix + entry.name
        elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
            yield from _below(entry.path, f"{prefix}{entry.name}/", depth + 1)


def read_inside(folder: Path, name: str, *, most: int) -> bytes:
    """Return the content of a file below a folder, at most so many bytes of it.

    Raises ToolError, in words for a model, for a name that leads outside, and for what is no file.
    """
    handle = open_inside(folder, name)
    try:
        found = bytearray()
        while len(found) < most and (piece := os.read(handle, most - len(found))):
            found += piece
        return bytes(found)
    finally:
        os.close(handle)


def open_inside(folder: Path, name: str) -> int:
    """Return a handle of a plain file below a folder, open for reading; raises ToolError."""
    steps = steps_of(name)
    step_flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # The folder itself was named by whoever set this up, so it may be reached through links.
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in steps[:-1]:
                further = os.open(step, step_flags | os.O_DIRECTORY, dir_fd=inside)
                os.close(inside)
                inside = further
            # A pipe in the place of a file must not hold anybody up.
            handle = os.open(steps[-1], step_flags | os.O_NONBLOCK, dir_fd=inside)
        finally:
            os.close(inside)
    except OSError:
        raise ToolError(f"There is no file {name!r} in this skill.") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ToolError(f"{name!r} is no file that can be read.")
    return handle


def steps_of(name: str) -> list[str]:
    """Return the steps of a name relative to a folder; raises ToolError for one that leads outside of it.

    >>> steps_of("./references/api.md")
    ['references', 'api.md']
    """
    steps = [step for step in name.split("/") if step not in ("", ".")]
    is_inside = not name.startswith("/") and all(not step.startswith(".") for step in steps)
    if not steps or not is_inside or not name.isprintable() or "\\" in name:
        raise ToolError(
            f"{name!r} is no file of this skill; name one relative to its folder, such as references/api.md"
        )
    return steps
