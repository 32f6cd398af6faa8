"""Decoded JSON told apart, and JSON objects from text that nobody vouches for.

Law: reading never raises; what cannot be read is named by its problem, never guessed at.
"""

from typing import Any, TypeGuard

import msgspec

from sapwood.core.messages import Problem
from sapwood.core.struct import Json

MAX_DEPTH = 200
"""Levels of nesting in an object; copying, checking and storing deeper ones would exhaust Python's stack."""


def read_object(text: str) -> dict[str, Any] | Problem:
    """Return the object that this text describes, or why there is none.

    >>> read_object('{"a": 1}'), read_object('{"a"'), read_object("[1]")
    ({'a': 1}, 'malformed', 'not_an_object')
    """
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return "malformed"
    if is_too_deep(value):
        return "malformed"
    return value if is_object(value) else "not_an_object"


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value is a JSON array.

    >>> is_list([1]), is_list((1,))
    (True, False)
    """
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is a JSON object; its keys are taken to be text.

    >>> is_object({"a": 1}), is_object([])
    (True, False)
    """
    return isinstance(value, dict)


def is_too_deep(value: Json) -> bool:
    """Tell whether a JSON value is nested in more levels than we handle.

    >>> is_too_deep([[1]])
    False
    """
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        holders = [item for item in level if isinstance(item, dict | list)]
        if not holders:
            return False
        level = [inner for item in holders for inner in (item.values() if isinstance(item, dict) else item)]
    return True
