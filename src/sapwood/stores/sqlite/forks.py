"""Stores and `fork`: no connection is open while a process is forked.

SQLite counts the locks of a file in memory. A forked child would inherit the count and not the locks, and could then
write over its parent. So every store closes its connections before a fork, and opens them anew on both sides.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What has connections."""

    def before_fork(self) -> None:
        """Close all connections and open none until one of the other two is called."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Go on in a new process: with new locks and threads, and without any hold."""
        ...


_stores: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_forking: list[Forkable] = []


def watch(store: Forkable) -> None:
    """Tell the store of forks for as long as it lives."""
    _stores.add(store)


def before() -> None:
    """Close the connections of every store; called by the interpreter, as the two below are."""
    _forking[:] = list(_stores)
    for store in _forking:
        store.before_fork()


def in_parent() -> None:
    """Let every store go on."""
    for store in _forking:
        store.after_fork_in_parent()
    _forking.clear()


def in_child() -> None:
    """Let every store go on as one of another process."""
    for store in _forking:
        store.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
