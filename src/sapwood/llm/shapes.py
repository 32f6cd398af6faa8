"""What stands under a key of decoded JSON, and one encoder for all codecs."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_list, is_object

_encode = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What `decode_json` raises for bytes that are not JSON."""


def encode_json(value: Any) -> bytes:
    """Return the JSON of a value; halves of characters, which no JSON can hold, become question marks.

    >>> encode_json({"a": chr(0xD83D)})
    b'{"a":"?"}'
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_with_whole_characters(value))


def with_extra(fields: Mapping[str, bytes], extra_body: Mapping[str, Any]) -> dict[str, bytes]:
    """Return encoded fields with a user's own, which replace ours; None takes one of ours away.

    A list of `tools` is added to ours: it names those that the provider runs itself.
    Raises ConfigError for the fields that hold the transcript.

    >>> with_extra({"stream": b"true", "n": b"1"}, {"top_k": 5, "n": None})
    {'stream': b'true', 'top_k': b'5'}
    """
    for name in ("messages", "input", "contents"):
        if name in extra_body:
            raise ConfigError(f"extra_body cannot replace {name!r}; it comes from the transcript")
    own = {name: encode_json(value) for name, value in extra_body.items()}
    if is_list(extra_body.get("tools")) and len(own["tools"]) > 2 and "tools" in fields:
        own["tools"] = b"%b,%b" % (fields["tools"][:-1], own["tools"][1:])
    merged = {**fields, **own}
    return {name: value for name, value in merged.items() if extra_body.get(name, ...) is not None}


def join_fields(fields: Mapping[str, bytes]) -> bytes:
    """Return encoded fields as the inside of a JSON object.

    >>> join_fields({"top_k": b"5", "stream": b"true"})
    b'"top_k":5,"stream":true'
    """
    return b",".join(b'"%b":%b' % (name.encode(), value) for name, value in fields.items())


def own_data(provider_data: Mapping[str, Any] | None, provider: str) -> dict[str, Any]:
    """Return what a part carries of this provider's own, empty where it carries nothing."""
    found: Any = (provider_data or {}).get(provider)
    return found if is_object(found) else {}


def _with_whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_object(value):
        return {_with_whole_characters(key): _with_whole_characters(item) for key, item in value.items()}
    if is_tuple(value):
        return _with_whole_characters(list(value))
    return [_with_whole_characters(item) for item in value] if is_list(value) else value


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """Tell whether a value is a tuple."""
    return isinstance(value, tuple)


def object_in(value: Any, key: str) -> dict[str, Any]:
    """Return the object under this key, an empty one where there is none.

    >>> object_in({"usage": None}, "usage")
    {}
    """
    found: Any = value.get(key) if is_object(value) else None
    return found if is_object(found) else {}


def list_in(value: Any, key: str) -> list[Any]:
    """Return the list under this key, an empty one where there is none."""
    found: Any = value.get(key) if is_object(value) else None
    return found if is_list(found) else []


def text_in(value: Any, key: str) -> str:
    """Return the text under this key, empty where there is none."""
    found: Any = value.get(key) if is_object(value) else None
    return found if isinstance(found, str) else ""


def count_in(value: Any, key: str) -> int:
    """Return the number under this key as a count, 0 where there is none."""
    found: Any = value.get(key) if is_object(value) else None
    return int(found) if isinstance(found, int | float) and found > 0 else 0


def merged(ours: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Return our settings with a user's own, which replace ours; None takes one of ours away.

    >>> merged({"seed": 1, "topK": 5}, {"seed": None, "topP": 0.5})
    {'topK': 5, 'topP': 0.5}
    """
    found: dict[str, Any] = own if is_object(own) else {}
    return {name: value for name, value in {**ours, **found}.items() if value is not None}
