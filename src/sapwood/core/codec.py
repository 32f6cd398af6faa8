"""Core values to JSON and back, with a version.

Law: names on the wire are stable once released; an older version is upgraded here and nowhere else.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from sapwood.core.events import AgentEvent
from sapwood.core.run import Run
from sapwood.core.struct import Data

VERSION = 1
D = TypeVar("D", bound=Data)
_ENCODER = msgspec.json.Encoder()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, made once: making it takes longer than most values take to be read."""
    return msgspec.json.Decoder(kind)


class _Envelope(msgspec.Struct, omit_defaults=False):
    v: int
    value: msgspec.Raw


def to_json(value: Data) -> bytes:
    """Return the JSON of a core value; its class is told by `type`.

    >>> from sapwood.core.messages import Text
    >>> to_json(Text("hi"))
    b'{"type":"text","text":"hi"}'
    """
    return _ENCODER.encode(value)


def from_json(source: bytes | str, kind: type[D]) -> D:
    """Return the value of this class that the JSON describes; raises ValueError where it does not."""
    try:
        value: D = _decoder(kind).decode(source)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error
    return value


def event_from_json(source: bytes | str) -> AgentEvent:
    """Return the event that the JSON describes; raises ValueError where it does not."""
    try:
        event: AgentEvent = _decoder(AgentEvent).decode(source)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"not an event: {error}") from error
    return event


def dump_run(run: Run) -> bytes:
    """Return the stored form of a run, with its version.

    >>> load_run(dump_run(Run("r1"))).run_id
    'r1'
    """
    return _ENCODER.encode(_Envelope(VERSION, msgspec.Raw(_ENCODER.encode(run))))


def load_run(source: bytes | str) -> Run:
    """Return a run from its stored form; raises ValueError for a version from the future."""
    try:
        envelope = msgspec.json.decode(source, type=_Envelope)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"not a stored run: {error}") from error
    if envelope.v > VERSION:
        raise ValueError(f"the run was stored by a newer version ({envelope.v}); this one reads up to {VERSION}")
    return from_json(bytes(envelope.value), Run)


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a core type or a union of core types."""
    return msgspec.json.schema(kind)
