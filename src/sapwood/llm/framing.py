"""How a response is cut into events: server-sent events, a line each, one JSON array, or Amazon's binary frames.

Laws: the bytes may be cut anywhere; what waits for its end is not scanned again; no decoding and no I/O.
"""

import base64
import binascii
import re
from typing import Protocol

import msgspec

from sapwood.core.errors import ServerError
from sapwood.llm.shapes import UNREADABLE, decode_json, text_in
from sapwood.llm.sse import SseEvent, SseSplitter

MAX_FRAME_BYTES = 16 * 1024 * 1024 + 1024
_QUOTE, _ESCAPE, _COMMA = b'"'[0], b"\\"[0], b","[0]
_TELLING = re.compile(rb'[\\",\[\]{}]')
_OPEN, _CLOSE = frozenset(b"{["), frozenset(b"}]")


class Splitter(Protocol):
    """Cuts one response into events."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete, each as name and data."""
        ...

    def finish(self) -> list[SseEvent]:
        """Return what is left at the end of the response."""
        ...


def splitter_of(content_type: str, first: bytes) -> Splitter | None:
    """Return what cuts a successful response, None where it is one JSON object and no stream.

    first: its first byte that is no white space.

    >>> type(splitter_of("text/event-stream", b"d")).__name__
    'SseSplitter'
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/vnd.amazon.eventstream":
        return FrameSplitter()
    if kind in ("application/x-ndjson", "application/jsonl", "application/x-jsonlines"):
        return LineSplitter()
    if first == b"[":
        return ArraySplitter()
    return None if first == b"{" else SseSplitter()


class LineSplitter:
    r"""One JSON value a line.

    >>> splitter = LineSplitter()
    >>> splitter.feed(b'{"a":1}\n{"a"'), splitter.feed(b':2}'), splitter.finish()
    ([(b'', b'{"a":1}')], [], [(b'', b'{"a":2}')])
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the lines that are whole."""
        if b"\n" not in chunk:
            self._waiting.append(chunk)
            return []
        lines = b"".join((*self._waiting, chunk)).split(b"\n")
        self._waiting = [lines.pop()]
        return [(b"", line) for line in lines if line.strip()]

    def finish(self) -> list[SseEvent]:
        """Return a last line without its end."""
        rest = b"".join(self._waiting)
        self._waiting.clear()
        return [(b"", rest)] if rest.strip() else []


class ArraySplitter:
    """The items of one JSON array, each as soon as it is whole.

    >>> splitter = ArraySplitter()
    >>> splitter.feed(b'[{"a": "]"}, {"b'), splitter.feed(b'": [2]}]')
    ([(b'', b'{"a": "]"}')], [(b'', b'{"b": [2]}')])
    """

    def __init__(self) -> None:
        self._item = bytearray()
        self._depth = -1  # -1 before the array, 0 in it, above 0 in an item
        self._in_text = False
        self._skip = False  # the next byte was escaped by the last one of the chunk before

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the items that are whole."""
        events: list[SseEvent] = []
        begin = 0  # where the part of the current item in this chunk begins
        skipped = 0 if self._skip else -1
        self._skip = False
        for found in _TELLING.finditer(chunk):
            place, byte = found.start(), chunk[found.start()]
            if place == skipped:
                continue
            if byte == _ESCAPE:
                skipped = place + 1
                self._skip = skipped == len(chunk)
            elif byte == _QUOTE:
                self._in_text = not self._in_text
            elif self._in_text:
                continue
            elif byte in _OPEN:
                self._depth += 1
                begin = begin if self._depth else place + 1
            else:
                self._depth -= byte in _CLOSE
                if self._depth < (1 if byte == _COMMA else 0):
                    self._item += chunk[begin:place]
                    begin = place + 1
                    events += self._taken()
        self._item += chunk[begin:]
        return events

    def _taken(self) -> list[SseEvent]:
        item = bytes(self._item).strip()
        self._item.clear()
        return [(b"", item)] if item else []

    def finish(self) -> list[SseEvent]:
        """Return an item that the response ended in: it may be whole."""
        return self._taken() if self._depth > 0 else []


class FrameSplitter:
    """Amazon's event stream: frames of a length, headers, and a payload that wraps the event in base64.

    Raises ServerError for a frame whose checksum is wrong.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events of the frames that are whole."""
        self._waiting += chunk
        events: list[SseEvent] = []
        while len(self._waiting) >= 12:
            length = int.from_bytes(self._waiting[:4], "big")
            prelude = bytes(self._waiting[:12])
            if not 16 <= length <= MAX_FRAME_BYTES or _sum(prelude[:8]) != prelude[8:]:
                raise ServerError("the stream holds a damaged frame")
            if len(self._waiting) < length:
                break
            frame = bytes(self._waiting[:length])
            del self._waiting[:length]
            if _sum(frame[:-4]) != frame[-4:]:
                raise ServerError("the stream holds a damaged frame")
            events.append(_read_frame(frame))
        return events

    def finish(self) -> list[SseEvent]:
        """Return nothing: a frame without its end is lost."""
        return []


def _sum(data: bytes) -> bytes:
    return binascii.crc32(data).to_bytes(4, "big")


def _read_frame(frame: bytes) -> SseEvent:
    headers_end = 12 + int.from_bytes(frame[4:8], "big")
    headers = _headers(frame[12:headers_end])
    payload = frame[headers_end:-4]
    if headers.get(b":message-type") in (b"exception", b"error"):
        kind = headers.get(b":exception-type") or headers.get(b":error-code") or b"error"
        try:
            message = text_in(decode_json(payload), "message")
        except UNREADABLE:
            message = headers.get(b":error-message", b"").decode("utf-8", "replace")
        error = {"type": _KINDS.get(kind.decode("latin-1"), kind.decode("latin-1")), "message": message}
        return b"error", msgspec.json.encode({"type": "error", "error": error})
    try:
        wrapped = text_in(decode_json(payload), "bytes")
        return b"", base64.b64decode(wrapped, validate=True) if wrapped else payload
    except (*UNREADABLE, binascii.Error):
        return b"", payload


_KINDS = {
    "throttlingException": "rate_limit_error",
    "modelStreamErrorException": "api_error",
    "internalServerException": "api_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "validationException": "invalid_request_error",
}


def _headers(data: bytes) -> dict[bytes, bytes]:
    """Read the text headers; other kinds (whose lengths are fixed, but for bytes) are passed over."""
    found: dict[bytes, bytes] = {}
    place = 0
    while place < len(data):
        name_end = place + 1 + data[place]
        name, kind = data[place + 1 : name_end], data[name_end]
        place = name_end + 1
        if kind in (6, 7):
            length = int.from_bytes(data[place : place + 2], "big")
            found[name] = data[place + 2 : place + 2 + length]
            place += 2 + length
        else:
            place += (0, 0, 1, 2, 4, 8, 0, 0, 8, 16)[kind] if kind < 10 else len(data)
    return found
