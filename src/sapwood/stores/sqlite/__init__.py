"""Everything in one SQLite file: runs and conversations."""

from sapwood.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
