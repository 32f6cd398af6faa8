"""The cache of a tool index: bytes that say what they were made of.

Laws: a cache is never trusted: one of other definitions, settings or vectors, one that is cut short or
altered is made anew; nothing in it is executed. What is written appears whole or not at all.
"""

import hashlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sapwood.core.tools import ToolSchema
from sapwood.retrieval.terms import RULES
from sapwood.retrieval.tool_index import GROUPS, TOOLS, PackedTools

_log = logging.getLogger(__name__)
_MAGIC = b"sapwood tool index 1\n"
_DIGEST = 32


def digest_of(schemas: Sequence[ToolSchema], groups: Mapping[str, str], vectors: str) -> bytes:
    """Return what an index depends on, as 32 bytes: the definitions, the settings, the rules and the vectors."""
    made_of = [RULES, sys.byteorder, vectors, TOOLS, GROUPS, groups, schemas]
    return _hash(msgspec.json.encode(made_of))


def to_bytes(packed: PackedTools, digest: bytes) -> bytes:
    """Return the bytes of a cache."""
    body = msgspec.msgpack.encode(packed)
    return b"".join((_MAGIC, digest, _hash(body), body))


def from_bytes(data: bytes, digest: bytes) -> PackedTools | None:
    """Return what a cache holds; None where it is of something else or broken."""
    start = len(_MAGIC) + 2 * _DIGEST
    head, body = data[:start], data[start:]
    if head != b"".join((_MAGIC, digest, _hash(body))):
        return None
    try:
        return msgspec.msgpack.decode(body, type=PackedTools)
    except msgspec.DecodeError:
        return None


def read(cache: bytes | str | Path) -> bytes:
    """Return the bytes of a cache; none where there is no such file or it cannot be read."""
    if isinstance(cache, bytes):
        return cache
    try:
        return Path(cache).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        _log.warning("the index cache %s cannot be read: %s", cache, error)
        return b""


def write(cache: str | Path, data: bytes) -> None:
    """Put the bytes in place of the file, in one step; where that fails, a log line says so and the search goes on."""
    import tempfile  # takes ten milliseconds, which only those who keep an index should pay

    path = Path(cache)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            fresh = Path(folder) / path.name
            fresh.write_bytes(data)
            os.replace(fresh, path)
    except OSError as error:
        _log.warning("the index cache %s cannot be written: %s", cache, error)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
