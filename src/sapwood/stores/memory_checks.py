"""What people ask of a memory, looked at before anything is read.

Law: a value of another kind than is asked for is refused by name; it never ends in an error of Python's own.
"""

from collections.abc import Iterable
from typing import get_args

from sapwood.core.errors import ConfigError
from sapwood.core.memory import Origin
from sapwood.core.require import is_number, require_series, require_text, shown
from sapwood.core.scope import RetrievalScope


def require_some_text(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a text; a blank one is one.

    >>> require_some_text("query", "")
    """
    if value is None:
        raise ConfigError(f"{name} is a text, not None")
    require_text(name, value)


def require_whole(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a whole number.

    >>> require_whole("k", 5)
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{name} is a whole number, not {shown(value)}")


def require_share(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a number from 0 to 1.

    >>> require_share("least", 0.5)
    """
    if not is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue] - it is a number
        raise ConfigError(f"{name} is a share from 0 to 1, not {shown(value)}")


def require_any_number(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a number; nan is none.

    >>> require_any_number("min_score", -1)
    """
    if not is_number(value) or value != value:
        raise ConfigError(f"{name} is a number, not {shown(value)}")


def require_scope(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a RetrievalScope or None.

    >>> require_scope("within", None)
    """
    if value is not None and not isinstance(value, RetrievalScope):
        raise ConfigError(f"{name} is a RetrievalScope or None, not {shown(value)}")


def origins_of(given: Iterable[Origin] | None) -> frozenset[Origin] | None:
    """Return origins, each once; raises ConfigError for what is none.

    >>> origins_of(["web", "web"])
    frozenset({'web'})
    """
    if given is None:
        return None
    require_series("origins", given, "origins")
    found = list(given)
    for origin in found:
        if origin not in get_args(Origin):
            raise ConfigError(f"origins are of {', '.join(get_args(Origin))}, not {shown(origin)}")
    return frozenset(found)


def ids_of(given: Iterable[str]) -> tuple[str, ...]:
    """Return ids as a tuple; raises ConfigError for a bare text and for what is no series.

    >>> ids_of(["a", "b"])
    ('a', 'b')
    """
    require_series("derived_from", given, "ids")
    return tuple(given)
