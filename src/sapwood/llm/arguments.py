"""Tool arguments as models write them: text that may be empty, cut off or not an object.

Law: arguments are text until their block ends; what cannot be read is marked with its problem and kept
as it came, never guessed at.
"""

from typing import Any

import msgspec

from sapwood.core.json_object import is_too_deep, read_object
from sapwood.core.messages import Problem, ToolCall


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
        if not _is_json(text):
            return ToolCall(name, id=id, problem="malformed", provider_data=provider_data)
        return ToolCall(name, text, id=id, provider_data=provider_data)
    if text is None or not text.strip():
        if complete:
            return ToolCall(name, id=id, provider_data=provider_data)
        return ToolCall(name, id=id, raw=text or "", problem="incomplete", provider_data=provider_data)
    found = read_object(text)
    if isinstance(found, dict):
        return ToolCall(name, found, id=id, provider_data=provider_data)
    problem: Problem = found if complete or found != "malformed" else "incomplete"
    return ToolCall(name, id=id, raw=text, problem=problem, provider_data=provider_data)


def _is_json(value: dict[str, Any]) -> bool:
    """Tell whether an object made by somebody else's decoder can be stored and sent again."""
    if is_too_deep(value):
        return False
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):  # half a character, or an object that is no JSON
        return False
    return True
