"""What a model is told when its arguments do not fit a tool.

Laws: at most 1,500 characters; it names the field, the problem and what is allowed; it never repeats the
arguments, which may be long or secret.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sapwood.core.errors import ToolInputError

MAX_LENGTH = 1_500
_MAX_PROBLEMS = 12
_MAX_ONE = 300

Problem = tuple[str, str]
"""Where it is (`items[2].price`, empty for the whole) and what is wrong there."""


def input_error(problems: Sequence[Problem]) -> ToolInputError:
    """Return the error that lists these problems.

    >>> str(input_error([("size", "must be at least 1")]))
    'size: must be at least 1'
    """
    lines = [f"{cut(where, 100)}: {cut(what)}" if where else cut(what) for where, what in problems]
    shown = "; ".join(lines[:_MAX_PROBLEMS])
    if len(lines) > _MAX_PROBLEMS:
        shown = f"{cut(shown, MAX_LENGTH - 40)}; and {len(lines) - _MAX_PROBLEMS:,} more problems"
    return ToolInputError(cut(shown, MAX_LENGTH))


def path_text(path: Iterable[object]) -> str:
    """Return a path as people write it.

    >>> path_text(["items", 2, "price"])
    'items[2].price'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{cut(str(step), 60)}" if text else cut(str(step), 60)
    return text


def pydantic_problems(errors: Iterable[Any], known: Sequence[str]) -> list[Problem]:
    """Return the problems of a pydantic ValidationError's `errors()`.

    known: the names that the tool takes, told where another was given.
    """
    problems: list[Problem] = []
    for error in errors:
        where = path_text(error["loc"])
        match error["type"]:
            case "missing":
                problems.append((where, "is required but missing"))
            case "extra_forbidden" | "unexpected_keyword_argument" if len(error["loc"]) == 1:
                problems.append((where, unknown_name(known)))
            case _:
                problems.append((where, error["msg"]))
    return problems


def unknown_name(known: Sequence[str]) -> str:
    """Return what is said of a name that the tool does not take."""
    return f"is not a parameter; allowed: {', '.join(known)}" if known else "is not a parameter; there are none"


def cut(text: str, length: int = _MAX_ONE) -> str:
    """Return the text, or its beginning and an ellipsis where it is longer.

    >>> cut("abcdef", 4)
    'abc…'
    """
    # A lone surrogate would make the message unsendable.
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= length else text[: length - 1] + "…"
