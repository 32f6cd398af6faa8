"""How a compressed response is read, piece by piece.

Laws: the bytes may be cut anywhere; what is whole so far is passed on at once. `deflate` is read in both of
its meanings, with zlib's header (RFC 9110) and without one, as some servers send it; gzip may come in several members.
"""

import zlib
from typing import Any

ACCEPTED_ENCODINGS = "gzip, deflate"
_GZIP = b"\x1f\x8b"


class Inflater:
    """What decompresses one body; raises zlib.error where it is damaged.

    >>> inflate = Inflater("deflate")
    >>> inflate(zlib.compress(b"hello"))
    b'hello'
    """

    def __init__(self, coding: str) -> None:
        self._may_be_raw = coding == "deflate"
        self._member: Any = None
        self._held = b""  # too little to tell what begins
        self._is_first = True

    def __call__(self, piece: bytes) -> bytes:
        """Return what this piece of the body holds."""
        found: list[bytes] = []
        data, self._held = self._held + piece, b""
        while data:
            if self._member is None:
                if len(data) < 2:
                    self._held = data
                    break
                if not self._is_first and not data.startswith(_GZIP):
                    break  # what follows the last member means nothing
                self._member = zlib.decompressobj(self._window(data))
            found.append(self._member.decompress(data))
            if not self._member.eof:
                break
            data = self._member.unused_data
            self._member, self._is_first = None, False
        return b"".join(found)

    def _window(self, data: bytes) -> int:
        has_header = data.startswith(_GZIP) or (data[0] & 15 == 8 and (data[0] * 256 + data[1]) % 31 == 0)
        return -zlib.MAX_WBITS if self._may_be_raw and not has_header else zlib.MAX_WBITS | 32
