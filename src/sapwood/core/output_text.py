"""JSON in what a model wrote: alone, in a code block, or with prose around it.

Law: a part of a value is never taken for the value; JSON that is cut off or broken is an error, not its readable rest.
"""

import json
import re
from typing import Any

_DECODER = json.JSONDecoder()
_FENCED = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_BEGUN = {"{": re.compile(r'\{\s*(?:["}]|\Z)'), "[": re.compile(r'\[\s*(?:[\["{\]]|\Z)')}
_MAX_TRIES = 200


def read_value(text: str, *, arrays: bool = False) -> Any:
    """Return the one JSON value of a text.

    arrays: one that stands in prose may be an array, too; any value may stand alone or in a code block.
    Raises ValueError, which says what is wrong to whoever wrote the text.

    >>> read_value('Here you are: {"n": 1}. Anything else?')
    {'n': 1}
    """
    stripped = text.strip().removeprefix("\ufeff").strip()
    if not stripped:
        raise ValueError("the reply is empty; it must be JSON")
    block = _FENCED.fullmatch(stripped)
    for candidate in (stripped, block[1] if block else ""):
        try:
            return _DECODER.decode(candidate)
        except (ValueError, RecursionError):
            continue
    found = _values_in(stripped, "{[" if arrays else "{")
    if not found:
        raise ValueError("the reply holds no JSON; answer with JSON and nothing else")
    if any(other != found[0] for other in found[1:]):
        raise ValueError(f"the reply holds {len(found)} different JSON values; answer with one")
    return found[0]


def _values_in(text: str, openers: str) -> list[Any]:
    """Return the outermost values that stand in a text; raises ValueError where one is begun and not well ended."""
    found: list[Any] = []
    opening = re.compile(f"[{re.escape(openers)}]")
    at = 0
    for _ in range(_MAX_TRIES):
        start = opening.search(text, at)
        if start is None:
            break
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError) as error:
            if _BEGUN[start[0]].match(text, start.start()):
                problem = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deeply"
                raise ValueError(f"the JSON in the reply is broken or cut off: {problem}") from None
            at = start.end()
        else:
            found.append(value)
    return found
