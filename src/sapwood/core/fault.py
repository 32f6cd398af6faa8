"""Fault points: named places where a crash matters, so that tests can make one happen there.

Law: free in production: without a hook, a point does nothing.
"""

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    """Pass a fault point.

    >>> point("tool.before")
    """
    if hook is not None:
        hook(name)
