"""Server-sent events, from bytes as they arrive to events: no I/O, no decoding.

Laws: lines end at CR, LF or CRLF and nowhere else (text inside JSON may hold U+2028, U+0085 and others);
the bytes may be cut anywhere; what waits for its end is not scanned again.
"""

from typing import TypeAlias

SseEvent: TypeAlias = tuple[bytes, bytes]
"""The event's name, empty where it has none, and its data."""

_BOM = b"\xef\xbb\xbf"


class SseSplitter:
    r"""A stateful splitter of one response.

    >>> splitter = SseSplitter()
    >>> splitter.feed(b'event: ping\nda'), splitter.feed(b'ta: {}\n\n')
    ([], [(b'ping', b'{}')])
    """

    __slots__ = ("_after_cr", "_first", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[bytes] = []  # an event without its end; joined only once the end is there
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 10:  # the second half of a CRLF that was cut
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if waiting := self._waiting:
            if b"\n\n" not in chunk and not (chunk[:1] == b"\n" and waiting[-1][-1] == 10):
                if chunk:
                    waiting.append(chunk)
                return []
            chunk = b"".join((*waiting, chunk))
            waiting.clear()
        blocks = chunk.split(b"\n\n")
        if rest := blocks.pop():
            waiting.append(rest)
        if self._first and blocks:
            self._first = False
            blocks[0] = blocks[0].removeprefix(_BOM)
        return _read_blocks(blocks)

    def finish(self) -> list[SseEvent]:
        """Return the last event where the response ended without a blank line after it."""
        rest = b"".join(self._waiting)
        self._waiting.clear()
        return _read_blocks([rest.removeprefix(_BOM) if self._first else rest])


def _read_blocks(blocks: list[bytes]) -> list[SseEvent]:
    events: list[SseEvent] = []
    for block in blocks:
        # The two shapes that nearly all events have are cut out without looking at each line.
        name, _, rest = block.partition(b"\n")
        if rest[:6] == b"data: " and name[:7] == b"event: " and b"\n" not in rest:
            events.append((name[7:], rest[6:]))
        elif not rest and name[:6] == b"data: ":
            events.append((b"", name[6:]))
        else:
            _read_lines(block, events)
    return events


def _read_lines(block: bytes, events: list[SseEvent]) -> None:
    """Read one event line by line; a line end too many may stand before it."""
    name, parts = b"", list[bytes]()
    for line in block.split(b"\n"):
        if not line:
            continue
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            parts.append(value)
        elif field == b"event":
            name = value
        elif field == b"error":  # llama.cpp's way to fail in mid-stream
            name = b"error"
            parts.append(value)
    if parts:
        events.append((name, b"\n".join(parts)))
