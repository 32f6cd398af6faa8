"""Tool arguments as models write them: text that may be empty, cut off or not an object.

Law: arguments are text until their block ends; what cannot be read is marked with its problem and kept
as it came, never guessed at.
"""

from typing import Any, cast

import msgspec

from sapwood.core.messages import Problem, ToolCall
from sapwood.core.struct import Json

MAX_DEPTH = 200
"""Levels of nesting in arguments; copying, checking and storing deeper ones would exhaust Python's stack."""


def read_call(
    name: str,
    text: str | dict[str, Any] | None,
    *,
    complete: bool = True,
    id: str = "",
    provider_data: dict[str, Any] | None = None,
) -> ToolCall:
    """Return the call that this argument text describes.

    Empty text and white space are no arguments; `null` is not an object. Some servers give the object itself.
    complete: the provider closed the block; where it did not, what is empty or cannot be read is `incomplete`.

    >>> read_call("add", '{"a": 1}').arguments
    {'a': 1}
    >>> read_call("add", '{"a": ', complete=False).problem
    'incomplete'
    """
    if isinstance(text, dict):
        if _is_too_deep(text):
            return ToolCall(name, id=id, problem="malformed", provider_data=provider_data)
        return ToolCall(name, text, id=id, provider_data=provider_data)
    if text is None or not text.strip():
        if complete:
            return ToolCall(name, id=id, provider_data=provider_data)
        return ToolCall(name, id=id, raw=text or "", problem="incomplete", provider_data=provider_data)
    problem: Problem
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        problem = "malformed" if complete else "incomplete"
    except RecursionError:  # absurdly deep nesting is no call either
        problem = "malformed"
    else:
        if _is_too_deep(value):
            problem = "malformed"
        elif isinstance(value, dict):
            # JSON objects have text keys
            return ToolCall(name, cast("dict[str, Any]", value), id=id, provider_data=provider_data)
        else:
            problem = "not_an_object"
    return ToolCall(name, id=id, raw=text, problem=problem, provider_data=provider_data)


def _is_too_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        holders = [item for item in level if isinstance(item, dict | list)]
        if not holders:
            return False
        level = [inner for item in holders for inner in (item.values() if isinstance(item, dict) else item)]
    return True
