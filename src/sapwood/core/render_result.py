"""What a tool returned, as text for the model, as parts, and as a JSON value; and how a long text is capped.

Laws: text stays as it is; everything else becomes strict JSON; the text is never blank, and nothing, an empty
text and an empty list can be told apart; what cannot be shown raises ToolError, and nothing else is raised.
"""

import base64
import math
import re
import unicodedata
from collections import UserString
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec

from sapwood.core.errors import ToolError
from sapwood.core.media import media_problem
from sapwood.core.messages import File, Image, Text

NOTHING = "(nothing was returned)"
EMPTY_TEXT = "(an empty text was returned)"
MAX_VALUE_BYTES = 65_536
_MAX_SHOWN_BYTES = 4_096  # of bytes that are no image; more base64 helps no model
_MAX_DEPTH = 100
_SAFE = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODE = msgspec.json.Encoder().encode
Json: TypeAlias = Any
Content: TypeAlias = Text | Image | File


class RenderedResult(msgspec.Struct, frozen=True):
    """What a tool returned, ready for the model and for a UI.

    text: what the model reads, never blank. parts: images and files beside it.
    value: the JSON form; None also where it would be longer than 64 kB.

    >>> render_result({"ok": True})
    RenderedResult(text='{"ok":true}', parts=(), value={'ok': True})
    """

    text: str
    parts: tuple[Image | File, ...] = ()
    value: Json = None


_NOTHING: Final = RenderedResult(NOTHING)


def render_result(value: object) -> RenderedResult:
    """Return what a tool returned as text, parts and JSON value.

    Models, dataclasses, Structs, enums, dates, sets and the like become JSON; NaN and infinity become null;
    bytes become base64, or an image part where they are a PNG, JPEG, GIF or WebP. `Text`, `Image` and `File`,
    alone, in a list or anywhere inside, become parts.
    Raises ToolError for what cannot be shown: generators, functions, objects of unknown classes.

    >>> render_result(None).text, render_result([]).text, render_result("hi").text
    ('(nothing was returned)', '[]', 'hi')
    """
    if type(value) is str:
        return _of_text(value)
    if value is None:
        return _NOTHING
    if type(value) is int and -_SAFE < value < _SAFE:
        return RenderedResult(str(value), (), value)
    renderer = _Renderer()
    if _is_content(value):
        return _of_content(renderer, [renderer.json(item, 0) for item in value])
    shown = renderer.json(value, 0)
    if isinstance(shown, str):
        return _of_text(shown)
    if renderer.parts and isinstance(value, Image | File | bytes | bytearray | memoryview):
        return _of_content(renderer, [shown])
    try:
        encoded = _ENCODE(shown)
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError(f"what the tool returned cannot be shown as JSON: {error}") from error
    return RenderedResult(encoded.decode(), tuple(renderer.parts), shown if len(encoded) <= MAX_VALUE_BYTES else None)


def json_of(value: object) -> Json:
    """Return any value as JSON, by the rules for results; raises ToolError for what cannot be shown.

    >>> from datetime import date
    >>> json_of({"on": date(2026, 1, 2)})
    {'on': '2026-01-02'}
    """
    return _Renderer().json(value, 0)


def clean(text: str) -> str:
    """Return the text without lone surrogates, which no JSON and no request can carry.

    >>> clean("a" + chr(0xD800)) == "a" + chr(0xFFFD)
    True
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _of_text(text: str) -> RenderedResult:
    text = clean(text)
    # Four bytes is the most that a character takes, so short texts need no count.
    fits = len(text) * 4 <= MAX_VALUE_BYTES or len(text.encode()) <= MAX_VALUE_BYTES
    return RenderedResult(_never_blank(text), (), text if fits else None)


def _of_content(renderer: "_Renderer", values: list[Json]) -> RenderedResult:
    lines = [item if isinstance(item, str) else f"[{item['type']}, {item['media_type']}]" for item in values]
    value: Json = values[0] if len(values) == 1 else values
    fits = len(_ENCODE(value)) <= MAX_VALUE_BYTES
    return RenderedResult(_never_blank("\n".join(lines)), tuple(renderer.parts), value if fits else None)


def small_value(value: Json) -> Json:
    """Return a JSON value, None where it is too large for an event (64 kB).

    >>> small_value({"a": 1})
    {'a': 1}
    """
    return value if len(_ENCODE(value)) <= MAX_VALUE_BYTES else None


def _never_blank(text: str) -> str:
    return text if text and not text.isspace() else EMPTY_TEXT


def _is_content(value: object) -> TypeGuard[Iterable[Content | str]]:
    """Tell whether this is a list of parts and texts with a part among them."""
    items = value if _is_series(value) and type(value) in (list, tuple) else ()
    return any(isinstance(item, Content) for item in items) and all(isinstance(item, Content | str) for item in items)


def media_type_of(content: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, None for anything else.

    >>> media_type_of(b"GIF89a...")
    'image/gif'
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else None


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, dict | Mapping)


def _is_series(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, list | tuple | MappingView | Sequence)


def _is_set(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Set)


class _Renderer:
    """Turns values into JSON values and collects the images and files met on the way."""

    def __init__(self) -> None:
        self.parts: list[Image | File] = []
        self._above: set[int] = set()

    def json(self, value: object, depth: int) -> Json:
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if (told := self._single(value, depth)) is not _NOT_SINGLE:
            return told
        if id(value) in self._above:
            return "(itself again)"
        if depth >= _MAX_DEPTH:
            raise ToolError(f"what the tool returned is nested more than {_MAX_DEPTH} levels deep")
        self._above.add(id(value))
        try:
            return self._nested(value, depth + 1)
        finally:
            self._above.discard(id(value))

    def _single(self, value: object, depth: int) -> Json:
        match value:
            case Enum():
                return self.json(value.value, depth + 1)
            case str():
                return clean(str.__str__(value))  # of a subclass, too
            case UserString():
                return clean(value.data)
            case complex():
                return str(value)
            case int():
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else None
            case date() | time():
                return value.isoformat()
            case PurePath():
                return clean(str(value))
            case bytes() | bytearray():
                return self._bytes(bytes(value))
            case memoryview():
                return self._bytes(value.tobytes())
            case Text():
                return clean(value.text)
            case Image() | File():
                return self._part(value)
            case _:
                return _NOT_SINGLE

    def _nested(self, value: object, depth: int) -> Json:
        if _is_mapping(value):
            return self._pairs(value.items(), depth)
        if _is_series(value):
            names: Any = getattr(value, "_fields", None)  # of a NamedTuple
            return self._items(value, depth) if names is None else self._named(value, names, depth)
        if _is_set(value):
            return _in_order(self._items(value, depth))
        if isinstance(value, msgspec.Struct):
            return self._struct(value, depth)
        return self._other(value, depth)

    def _items(self, items: Iterable[Any], depth: int) -> list[Json]:
        return [self.json(item, depth) for item in items]

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Json]:
        return {self._key(key, depth): self.json(item, depth) for key, item in pairs}

    def _named(self, value: Iterable[Any], names: Iterable[str], depth: int) -> dict[str, Json]:
        return self._pairs(zip(names, value, strict=False), depth)

    def _key(self, key: object, depth: int) -> str:
        if type(key) is str:
            return clean(key)
        told = self.json(key, depth)
        return told if isinstance(told, str) else _ENCODE(told).decode()

    def _struct(self, value: msgspec.Struct, depth: int) -> dict[str, Json]:
        config = value.__struct_config__
        tag = {} if config.tag is None or config.tag_field is None else {config.tag_field: config.tag}
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return tag | self._pairs(((shown, getattr(value, name)) for shown, name in names), depth)

    def _other(self, value: object, depth: int) -> Json:
        kind: Any = type(value)
        if hasattr(kind, "get_secret_value"):
            return "**********"
        if hasattr(kind, "model_dump"):
            return self.json(_dumped(value), depth)
        if is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
            names = [item.name for item in (fields(kind) if is_dataclass(kind) else kind.__attrs_attrs__)]
            return self._pairs(((name, getattr(value, name)) for name in names if hasattr(value, name)), depth)
        if kind.__module__.partition(".")[0] == "numpy" and hasattr(kind, "tolist"):
            array: Any = value
            return self.json(array.tolist(), depth)
        if kind.__module__ in _PLAIN_MODULES:
            return str(value)
        try:
            return msgspec.to_builtins(value)  # Decimal, UUID, timedelta
        except (TypeError, ValueError, RecursionError):
            raise ToolError(
                f"the tool returned a value of type {kind.__qualname__}, which cannot be shown; "
                "return text, numbers, lists, dicts or models"
            ) from None

    def _bytes(self, content: bytes) -> Json:
        media_type = media_type_of(content)
        if media_type is not None:
            return self._part(Image(base64.b64encode(content).decode(), media_type))
        if len(content) > _MAX_SHOWN_BYTES:
            return f"({len(content):,} bytes, not shown)"
        return base64.b64encode(content).decode()

    def _part(self, part: Image | File) -> Json:
        if problem := media_problem(part):  # one request with it would be refused, and so all that follow
            return clean(f"[The {part.type} is left out: {problem}.]")
        self.parts.append(part)
        shown = {"type": part.type, "media_type": part.media_type}
        return shown if part.url is None else {**shown, "url": part.url}


_NOT_SINGLE: Final = object()
_PLAIN_MODULES = frozenset({"fractions", "ipaddress", "zoneinfo"})


def _dumped(model: Any) -> Any:
    # A field that pydantic cannot make JSON of (bytes that are no text, say) may still be ours.
    with suppress(TypeError, ValueError, RecursionError):
        return model.model_dump(mode="json", warnings=False)
    try:
        return model.model_dump()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool returned a {type(model).__name__} that cannot be shown: {error}") from error


def _in_order(items: list[Json]) -> list[Json]:
    # A set has another order in each process; the provider's cache and a replay need one.
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=_ENCODE)


def cap(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the text, or its first and last half of the cap with a line between that says what is missing.

    The line comes on top of the cap. No character is cut in two, an emoji of several code points neither.
    count: text -> tokens; called once for the whole text and a few times for its ends.

    >>> print(cap("one two three four five six", 2, lambda text: len(text.split())))
    one
    [... 4 of 6 tokens left out; the whole text has 27 characters ...]
    six
    """
    total = count(text)
    if total <= max_tokens:
        return text
    room = max(max_tokens, 0)
    density = len(text) / total
    head = _end(text, room - room // 2, density, count, from_start=True)
    tail = _end(text[len(head) :], room // 2, density, count, from_start=False)
    left_out = max(total - room, 1)
    line = f"[... {left_out:,} of {total:,} tokens left out; the whole text has {len(text):,} characters ...]"
    return "\n".join(part for part in (head.rstrip(), line, tail.lstrip()) if part)


def _end(text: str, room: int, density: float, count: Callable[[str], int], *, from_start: bool) -> str:
    """Return about as much of one end of the text as takes `room` tokens, never more.

    density: characters for each token, as a first guess.
    """
    best = ""
    size = max(1, int(room * density)) if room > 0 else 0
    for _ in range(_MAX_TRIES):
        if size <= 0:
            break
        piece = _piece(text, min(size, len(text)), from_start=from_start)
        used = count(piece)
        if used > room:
            size = min(size * room // used, size - 1)
            continue
        if len(piece) > len(best):
            best = piece
        if used * 20 >= room * 19 or size >= len(text):
            break
        size = min(size * room // max(used, 1), size * 2)
    return best


_MAX_TRIES = 12
_MAX_CLUSTER = 64  # code points; a longer run of marks is no character that anybody wrote

_MAX_FLAGS = 10_000  # letters of flags in a row; beyond, one may be cut


def _piece(text: str, size: int, *, from_start: bool) -> str:
    at, step = (size, -1) if from_start else (len(text) - size, 1)
    moves = 0
    while 0 < at < len(text) and moves < _MAX_CLUSTER and _belong_together(text, at):
        at, moves = at + step, moves + 1
    return text[:at] if from_start else text[at:]


def _belong_together(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if "\u200d" in (before, after) or unicodedata.category(after).startswith("M"):
        return True  # a joiner; a combining mark, a variation selector or a keycap
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True  # a skin tone, or a letter of a region's flag
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True  # two halves of one character
    if not (_is_flag_letter(before) and _is_flag_letter(after)):
        return False
    start = at
    while start > max(0, at - _MAX_FLAGS) and _is_flag_letter(text[start - 1]):
        start -= 1
    return (at - start) % 2 == 1  # two letters make one flag


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
