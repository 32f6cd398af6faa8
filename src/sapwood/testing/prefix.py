"""How much of a request the provider can take from its cache: the bytes that did not move, on the wire.

Law: bytes count in the order in which providers cache them: tools, system text, messages. Cache marks are left
out, for they say what is cached and are no part of it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from sapwood.core.json_object import is_list, is_object
from sapwood.testing.provider_wire import common

_ORDER = ("tools", "system", "instructions", "systemInstruction", "messages", "input", "contents")
_MARKS = ("cache_control", "prompt_cache_breakpoint")


def prompt_bytes(body: bytes) -> bytes:
    """Return the prompt of a request body as the provider reads it, left open at its end, so that it can grow.

    >>> prompt_bytes(b'{"messages": [{"role": "user", "content": "hi"}], "tools": [], "max_tokens": 5}')
    b'"tools":[]"messages":[{"role":"user","content":"hi"}'
    """
    fields: dict[str, Any] = msgspec.json.decode(body)
    pieces = [
        b'"%b":%b' % (name.encode(), msgspec.json.encode(_without_marks(fields[name])))
        for name in _ORDER
        if name in fields
    ]
    return b"".join(pieces).removesuffix(b"]")


def prefix_shares(bodies: Sequence[bytes]) -> list[float]:
    """Return, for each request but the first, the share of the one before it that is its unchanged beginning.

    >>> first = b'{"messages": [{"role": "user", "content": "hi"}]}'
    >>> prefix_shares([first, first[:-2] + b', {"role": "assistant", "content": "ho"}]}'])
    [1.0]
    """
    prompts = [prompt_bytes(body) for body in bodies]
    return [common(before, after) / max(1, len(before)) for before, after in pairwise(prompts)]


def _without_marks(value: Any) -> Any:
    if is_object(value):
        return {key: _without_marks(item) for key, item in value.items() if key not in _MARKS}
    return [_without_marks(item) for item in value] if is_list(value) else value
