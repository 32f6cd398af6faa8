"""What SQLite says, in the errors of this library, each with the file and the way out."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sapwood.core.errors import DiskFullError, StoreError

DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises: its own errors, and one of Python's where a damaged file holds text that is none."""
_INTACT = "What was stored before is intact."


@contextmanager
def told(path: str) -> Generator[None]:
    """Turn what SQLite raises inside into a StoreError that names the file."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise translated(error, path) from error


def translated(error: Exception, path: str) -> StoreError:
    """Return the error to raise for one of the driver's."""
    code = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else getattr(error, "sqlite_errorcode", 0)
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFullError(
                f"there is no room left for {path}: the disk is full, or the file is at the size it may have. Make "
                f"room and repeat. {_INTACT}"
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"{path} is locked by another program, and was so for the whole time that this one waits. End what "
                f"writes to it for long, or give the store a longer busy_seconds. {_INTACT}"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(
                f"{path} is no SQLite file, or a damaged one ({error}). Take it from a backup, or recover what is "
                "there with `sqlite3 FILE .recover`; nothing is written to it"
            )
        case sqlite3.SQLITE_READONLY:
            return StoreError(
                f"{path} may not be written to. Give this program the right to write to the file and to its folder, "
                f"where SQLite keeps two files beside it. {_INTACT}"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(
                f"{path} cannot be opened ({error}). Its folder may be missing or not readable, or this process has "
                "too many files open"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                f"{path} could not be read or written ({error}). A quota, a limit on file sizes or a failing disk does "
                f"that. {_INTACT}"
            )
        case _:
            return StoreError(f"{path}: {error}")
