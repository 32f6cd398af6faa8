"""Crashes at named places: for tests that ask what a crash anywhere would leave behind.

Law: the names are read from the source, so that a new point is tested as soon as it is there.
"""

import ast
import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import sapwood
from sapwood.core import fault

How: TypeAlias = Literal["raise", "exit", "kill"]
EXIT_CODE = 70
"""What a process ends with that was told to exit at a point."""


class Crash(BaseException):
    """What is raised at a point: nothing that handles errors may handle it."""


def names(folder: Path | None = None) -> list[str]:
    """Return the names of all fault points in the source under a folder, by default the library's, sorted.

    >>> "tool.announced" in names()
    True
    """
    found: set[str] = set()
    for path in sorted((folder or Path(sapwood.__file__).parent).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        # Parsing a whole library takes a second, and few of its files have a point.
        for node in ast.walk(ast.parse(source)) if "fault.point" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "fault.point":
                found.add(_literal(node, path))
    return sorted(found)


@contextmanager
def crash_at(name: str, *, visit: int = 1, how: How = "raise") -> Generator[None]:
    """Crash at the n-th visit of a point while this is open.

    how: raise Crash; end the process at once with EXIT_CODE and without cleaning up; or kill it, as
    the system would. Raises ValueError for a point that there is not.

    >>> with crash_at("tool.announced"):
    ...     fault.point("tool.announced")
    Traceback (most recent call last):
    sapwood.testing.faults.Crash: tool.announced
    """
    if name not in (known := _known()):
        raise ValueError(f"there is no fault point {name!r}; there are {', '.join(known)}")
    left = visit

    def reached(point: str) -> None:
        nonlocal left
        if point != name:
            return
        left -= 1
        if left == 0:
            _crash(name, how)

    before = fault.watch(reached)
    try:
        yield
    finally:
        fault.watch(before)


@contextmanager
def visits() -> Generator[Counter[str]]:
    """Count how often each point is reached while this is open.

    >>> with visits() as counted:
    ...     fault.point("tool.announced")
    >>> counted["tool.announced"]
    1
    """
    counted: Counter[str] = Counter()

    def reached(point: str) -> None:
        counted[point] += 1

    before = fault.watch(reached)
    try:
        yield counted
    finally:
        fault.watch(before)


@cache
def _known() -> list[str]:
    return names()


def _crash(name: str, how: How) -> None:
    if how == "exit":
        os._exit(EXIT_CODE)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise Crash(name)


def _literal(node: ast.Call, path: Path) -> str:
    argument = node.args[0]
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
        raise ValueError(f"{path}:{node.lineno}: the name of a fault point is a literal")
    return argument.value
