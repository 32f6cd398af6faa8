"""Fault points: places in the code at which a crash matters, by name.

Law: in production a point costs one comparison. Tests put a hook here (`sapwood.testing.faults`) that ends the
process at the n-th visit, so that "a crash anywhere" is a list read from the source and not a guess.
"""

from collections.abc import Callable
from typing import TypeAlias

Hook: TypeAlias = Callable[[str], None]
_hook: Hook | None = None


def point(name: str) -> None:
    """Mark a place where a crash matters. name: a literal, in the form `what.happened`.

    >>> point("example.reached")
    """
    if _hook is not None:
        _hook(name)


def watch(hook: Hook | None) -> Hook | None:
    """Let a function be told of every point that is reached, None for nobody; return who was told before.

    >>> reached = []
    >>> before = watch(reached.append)
    >>> point("example.reached")
    >>> _ = watch(before)
    >>> reached
    ['example.reached']
    """
    global _hook
    before, _hook = _hook, hook
    return before
