"""How the conformance kit changes bytes on the wire: in ways that mean nothing, and so must change nothing.

Law: pure functions of bytes; what is no JSON object stays as it is.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

_EVENT_JSON = re.compile(rb"^(data: ?)?\{(?=\s*\")", re.MULTILINE)
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def pieces(body: bytes, how: str) -> list[bytes]:
    r"""Return the body in pieces: each of its `bytes`, `seven` at a time, or cut inside `characters`.

    >>> pieces("a\u00e4b".encode(), "characters")
    [b'a\xc3', b'\xa4b']
    """
    cuts: Iterable[int]
    match how:
        case "bytes":
            cuts = range(1, len(body))
        case "seven":
            cuts = range(7, len(body), 7)
        case _:
            cuts = [place for place, byte in enumerate(body) if byte & 0xC0 == 0x80]
    bounds = [0, *cuts, len(body)]
    return [body[begin:end] for begin, end in pairwise(bounds) if end > begin]


def clean_cuts(body: bytes) -> list[int]:
    r"""Return where a body is cut that is played over a socket: nowhere yet, after an event, inside the last one.

    >>> clean_cuts(b'data: {}\n\ndata: {}\n\n')
    [0, 10, 18]
    """
    ends = [found.end() for found in _EVENT_END.finditer(body)] or [body.find(b"\n") + 1]
    return sorted({0, ends[0] % len(body), max(0, len(body.rstrip()))})


def with_unknown_fields(body: bytes) -> bytes:
    r"""Return the body with a field that nobody knows in each of its events.

    >>> with_unknown_fields(b'data: {"a": 1}\n\n')
    b'data: {"x_unknown":[{"type":"text","text":"no"}],"a": 1}\n\n'
    """
    return _EVENT_JSON.sub(rb'\g<0>"x_unknown":[{"type":"text","text":"no"}],', body)


def with_comments(body: bytes) -> bytes:
    r"""Return server-sent events with a comment before each.

    >>> with_comments(b'data: {}\n\n')
    b': wait\n\ndata: {}\n\n: wait\n\n'
    """
    return b": wait\n\n" + _EVENT_END.sub(rb"\g<0>: wait\n\n", body)


def with_event(body: bytes, data: bytes) -> bytes:
    r"""Return the body with one more event after its first one; as it is where its events do not end in a line.

    >>> with_event(b'data: {}\n\ndata: {}\n\n', b"nope")
    b'data: {}\n\ndata: nope\n\ndata: {}\n\n'
    """
    found = _EVENT_END.search(body)
    if found is not None:
        return body[: found.end()] + b"data: " + data + found.group() + body[found.end() :]
    first, end, rest = body.partition(b"\n")
    return first + end + data + end + rest if end else body


def with_line_ends(body: bytes, end: bytes) -> bytes:
    r"""Return server-sent events whose lines end so.

    >>> with_line_ends(b'data: {}\n\n', b'\r')
    b'data: {}\r\r'
    """
    return body.replace(b"\r\n", b"\n").replace(b"\n", end)


def common(first: bytes, second: bytes) -> int:
    """Return how many bytes two texts have in common from their beginning.

    >>> common(b"abc", b"abd")
    2
    """
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
