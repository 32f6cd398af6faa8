"""Require: values of people, looked at where they are given.

Laws: what is refused here could not be stored and read back, or means nothing; each refusal names the value and the
way out; nothing is converted.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast

import msgspec

from sapwood.core.errors import ConfigError

MOST = 2**53
"""The largest number that a limit takes: up to here every whole number is exact in JSON."""
MOST_SECONDS = 100 * 366 * 86_400
"""The longest time that something may wait: about a hundred years, so that its end is a date."""


def require_text(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a text that can be stored, or None.

    >>> require_text("reason", "too much")
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise ConfigError(f"{name} is a text or None, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} holds half a character, which cannot be stored: {shown(value)}") from None


def require_bool(name: str, value: object) -> None:
    """Raise ConfigError unless the value is True or False.

    >>> require_bool("defer", True)
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is True or False, not {shown(value)}")


def require_arguments(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a dictionary by argument that JSON can carry, or None.

    >>> require_arguments("updated_input", {"cents": 500})
    """
    if value is None:
        return
    if not _is_dict(value):
        raise ConfigError(f"{name} is a dict of arguments, not {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{name} is a dict by the names of arguments; {shown(key)} is no name")
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{name} holds what JSON cannot carry: {error}") from None
    require_finite(name, value)


def require_finite(name: str, value: object) -> None:
    """Raise ConfigError where a value, or one inside of its lists and dictionaries, is nan or infinite.

    Such a number would be stored as null, and be another value when it is read back. A list that holds itself
    is looked at once.

    >>> require_finite("value", {"metres": 2.5})
    """
    seen: set[int] = set()
    open_values: list[object] = [value]
    while open_values:
        item = open_values.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ConfigError(f"{name} holds {item!r}, which is no number in JSON; use None or a text")
        if id(item) in seen:
            continue
        seen.add(id(item))
        if _is_dict(item):
            open_values.extend(item.values())
        elif _is_series(item):
            open_values.extend(item)


def require_number(name: str, value: object, *, most: int, rule: str) -> None:
    """Raise ConfigError unless the value is a number above 0 and not above `most`; rule: what it is, in words.

    >>> require_number("timeout", 2.5, most=60, rule="is seconds")
    """
    if not is_number(value) or not 0 < cast("float", value) <= most:
        raise ConfigError(f"{name} {rule}, a number above 0 and at most {most:,}; not {shown(value)}")


def require_mapping(name: str, value: object, rule: str) -> None:
    """Raise ConfigError unless the value is a dictionary whose keys are texts; rule: what it holds, in words.

    >>> require_mapping("extend", {"tool_calls": 2}, "how much more, by kind")
    """
    if not _is_mapping(value):
        raise ConfigError(f"{name} is a dict: {rule}; not {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise ConfigError(f"{name} is a dict: {rule}; {shown(key)} is no text")


def require_series(name: str, value: object, of: str) -> None:
    """Raise ConfigError unless the value is a list or another series; of: what it holds, in words.

    >>> require_series("with_subagents", [], "SubagentDefinitions")
    """
    if isinstance(value, str | bytes) or _is_mapping(value) or not _is_iterable(value):
        raise ConfigError(f"{name} takes a list of {of}, not {shown(value)}")


def is_number(value: object) -> bool:
    """Tell whether a value is a number; True and False are none.

    >>> is_number(2), is_number(True)
    (True, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Return how a value looks in a message: its repr in ASCII, shortened.

    >>> shown("x" * 100)[-5:]
    'xxxx…'
    """
    try:
        text = ascii(value)
    except ValueError:  # a number with more digits than Python writes out
        return f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_series(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    return isinstance(value, list | tuple)


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable)


def require_callables(name: str, hooks: Any) -> tuple[Any, ...]:
    """Return one function, several or none as a tuple; raises ConfigError for what is no function.

    >>> require_callables("hooks", print) == (print,)
    True
    """
    if hooks is None:
        return ()
    if not callable(hooks):
        require_series(name, hooks, "functions")
    found: tuple[Any, ...] = (hooks,) if callable(hooks) else tuple(hooks)
    for hook in found:
        if not callable(hook):
            raise ConfigError(f"{name} takes functions, not {hook!r}")
    return found
