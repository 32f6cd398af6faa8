"""Core values to JSON and back, with a version.

Laws: names on the wire are stable once released; an older version is upgraded here and nowhere else; what a newer one
wrote is not lost: a field that is not known is left out, a part of a message that is not known stays as it is, inside
an `Opaque`, and anything else that is not known is an error that names its place.
"""

from functools import cache
from typing import Any, TypeVar, get_args

import msgspec

from sapwood.core.events import AgentEvent
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import Opaque, Part
from sapwood.core.run import Run
from sapwood.core.struct import Data

VERSION = 1
UNKNOWN = "sapwood"
"""Where an `Opaque` keeps a part of a kind that this version does not know."""
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
    """Return the value of this class that the JSON describes; raises ValueError where it does not.

    >>> from sapwood.core.messages import Message
    >>> later = '{"type": "message", "role": "user", "content": [{"type": "smell", "text": "Of smoke."}]}'
    >>> from_json(later, Message).content[0].text
    'Of smoke.'
    """
    try:
        found: D = _decoded(source, kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error
    return found


def event_from_json(source: bytes | str) -> AgentEvent:
    """Return the event that the JSON describes; raises ValueError where it does not."""
    try:
        event: AgentEvent = _decoded(source, AgentEvent)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"not an event: {error}") from error
    return event


def _decoded(source: bytes | str, kind: Any) -> Any:
    try:
        return _decoder(kind).decode(source)
    except msgspec.ValidationError:
        plain: Any = msgspec.json.decode(source)
        if not _keep_unknown(plain):
            raise
        return msgspec.convert(plain, kind)


def _keep_unknown(node: Any) -> bool:
    """Put the parts of messages that are not known where they can stay; tell whether there were any."""
    if is_list(node):
        return sum(map(_keep_unknown, node)) > 0
    if not is_object(node):
        return False
    found = False
    content = node.get("content")
    if node.get("type") == "message" and is_list(content):
        for place, part in enumerate(content):
            if is_object(part) and isinstance(part.get("type"), str) and part["type"] not in _PARTS:
                content[place] = _placeholder(part)
                found = True
    return sum(map(_keep_unknown, node.values())) > 0 or found


def _placeholder(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("text")
    shown = {"text": text} if isinstance(text, str) else {}
    return {"type": Opaque.type, "kind": part["type"], "provider_data": {UNKNOWN: part}, **shown}


_PARTS = frozenset(kind.type for kind in get_args(Part))


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
