"""What people give to a memory, checked, and what it is stored as.

Laws: what could not be stored and read back is refused before anything is written; times become milliseconds, UTC,
and one without a zone is taken as UTC; what is kept is JSON, so that nobody shares a list with the store.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast, get_args

import msgspec

from sapwood.core.codec import to_json
from sapwood.core.errors import ConfigError, StoreError, TooLargeError
from sapwood.core.json_object import MAX_DEPTH, is_too_deep
from sapwood.core.memory import UNTRUSTED, MemoryRecord, MemoryScope, Origin
from sapwood.core.require import MOST, is_number, require_arguments, require_bool, require_text, shown
from sapwood.stores.memory_checks import ids_of

Time: TypeAlias = int | datetime
"""Milliseconds since 1970, or a datetime; one without a zone is taken as UTC."""
MAX_BYTES = 1024 * 1024
"""Bytes of JSON that one record may take."""
MAX_NAME = 1_000
"""Characters of an id, a kind, a key or a name."""
MAX_PARENTS = 1_000
TURN = "turn"
"""The kind of what was said in a conversation, of which nothing is left out as said before."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORGETTABLE = " .,;:!…。！、，；：·"


class NewMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record to save; the fields are those of `Memory.save`.

    >>> NewMemory(text="likes tea", kind="fact").text
    'likes tea'
    """

    text: str
    kind: str | None = None
    meta: Mapping[str, Any] | None = None
    origin: Origin = "user"
    conversation: str | None = None
    turn: str | None = None
    speaker: str | None = None
    title: str | None = None
    at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = None
    derived_from: tuple[str, ...] = ()
    supersedes: str | None = None
    importance: float = 0.5
    quarantined: bool = False
    key: str | None = None


class Draft(msgspec.Struct, frozen=True):
    """A record as it is to be stored, but for its position, and the key of its save."""

    record: MemoryRecord
    key: str | None = None


def new_memory(given: object) -> NewMemory:
    """Return a record to save, from one or from a dictionary of its fields."""
    if isinstance(given, NewMemory):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"save_many takes dictionaries or NewMemory values, not {shown(given)}")
    fields = cast("Mapping[str, Any]", given)
    if unknown := [name for name in fields if name not in NewMemory.__struct_fields__]:
        known = ", ".join(NewMemory.__struct_fields__)
        raise ConfigError(f"a record has no field {shown(unknown[0])}; there are {known}")
    if "text" not in fields:
        raise ConfigError(f"a record to save has a text; {shown(dict(fields))} has none")
    return NewMemory(**fields)


def drafted(new: NewMemory, scope: MemoryScope, *, id: str, now: int) -> Draft:
    """Return what is to be stored; raises ConfigError for what cannot be."""
    if new.conversation is not None or scope.conversation is not None:
        scope = scope.narrowed(conversation=new.conversation)
    record = MemoryRecord(
        id,
        new.text,
        in_ms("at", new.at) if new.at is not None else now,
        new.kind,
        dict(new.meta) if isinstance(new.meta, Mapping) else new.meta,
        scope=scope,
        origin=new.origin,
        conversation=scope.conversation,
        turn=new.turn,
        speaker=new.speaker,
        title=new.title,
        valid_from=in_ms("valid_from", new.valid_from),
        valid_to=in_ms("valid_to", new.valid_to),
        expires_at=in_ms("expires_at", new.expires_at),
        supersedes=new.supersedes,
        derived_from=tuple(dict.fromkeys(ids_of(new.derived_from))),
        importance=new.importance,
        quarantined=new.quarantined,
    )
    _require_name("key", new.key)
    return Draft(checked(record), new.key)


def checked(record: MemoryRecord) -> MemoryRecord:
    """Return the record as it is read from a store; raises ConfigError where a value of it is none."""
    _require_id(record.id)
    if not isinstance(record.text, str) or not record.text.strip():  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
        raise ConfigError(f"the text of a record is a text that is not blank, not {shown(record.text)}")
    for name in ("text", "title"):
        require_text(name, getattr(record, name))
    for name in ("kind", "turn", "speaker", "supersedes", "superseded_by"):
        _require_name(name, getattr(record, name))
    require_arguments("meta", record.meta)
    if is_too_deep(record.meta):
        raise ConfigError(f"meta is nested in more than {MAX_DEPTH} levels")
    if record.origin not in get_args(Origin):
        raise ConfigError(f"origin is one of {', '.join(get_args(Origin))}, not {shown(record.origin)}")
    require_bool("quarantined", record.quarantined)
    if not is_number(record.importance) or not 0 <= record.importance <= 1:
        raise ConfigError(f"importance is a number from 0 to 1, not {shown(record.importance)}")
    if len(record.derived_from) > MAX_PARENTS:
        raise ConfigError(f"derived_from names {len(record.derived_from):,} records; {MAX_PARENTS:,} may be")
    for parent in record.derived_from:
        _require_id(parent)
    for name in ("created_at", "valid_from", "valid_to", "expires_at"):
        in_ms(name, getattr(record, name))
    start, end = record.valid_from, record.valid_to
    if start is not None and end is not None and end < start:
        raise ConfigError(f"a record cannot be valid from {start} to {end}: that ends before it begins")
    if is_too_large(record):
        raise TooLargeError(
            f"the record has more than the {MAX_BYTES:,} bytes that can be kept. Save its parts, each as a record of "
            "its own"
        )
    return from_body(to_body(record))


def to_body(record: MemoryRecord) -> str:
    """Return the JSON of a record."""
    return to_json(record.replace(score=None, reason=None, parts=None)).decode()


def is_too_large(record: MemoryRecord) -> bool:
    """Tell whether a record has more bytes than one may have."""
    return len(to_body(record).encode()) > MAX_BYTES


class _Text(msgspec.Struct):
    text: str


class _Meta(msgspec.Struct):
    meta: dict[str, Any] | None = None


_DECODER = msgspec.json.Decoder(MemoryRecord)
_META_DECODER = msgspec.json.Decoder(_Meta)
_TEXT_DECODER = msgspec.json.Decoder(_Text)


def from_body(body: str) -> MemoryRecord:
    """Return the record of a JSON."""
    try:
        return _DECODER.decode(body)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a memory of the file cannot be read: {error}. Take the file from a backup") from error


def text_of(body: str) -> str:
    """Return the text of the JSON of a record, without reading the rest."""
    try:
        return _TEXT_DECODER.decode(body).text
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a memory of the file cannot be read: {error}. Take the file from a backup") from error


def meta_of(body: str) -> Mapping[str, Any]:
    """Return the meta of the JSON of a record, without reading the rest."""
    try:
        return _META_DECODER.decode(body).meta or {}
    except (ValueError, RecursionError) as error:
        raise StoreError(f"a memory of the file cannot be read: {error}. Take the file from a backup") from error


def in_ms(name: str, value: object) -> Any:
    """Return a time in milliseconds since 1970; None for None.

    >>> in_ms("at", datetime(2030, 1, 1)), in_ms("at", datetime.fromisoformat("2030-01-01T02:00+02:00"))
    (1893456000000, 1893456000000)
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST:
        return value
    raise ConfigError(f"{name} is milliseconds since 1970 or a datetime, not {shown(value)}")


def digest_of(record: MemoryRecord) -> bytes:
    """Return what two records have in common that say the same: sixteen bytes, none for what may be said again.

    Case, blanks and what ends a sentence do not matter, but for short words in capitals, which are other words than
    those in small letters (US, IT); a question is no statement, and what a stranger may have written is not what the
    user said.

    >>> one, two = MemoryRecord("1", "Prefers  metric units.", 0), MemoryRecord("2", "prefers metric units", 5)
    >>> digest_of(one) == digest_of(two)
    True
    """
    if record.kind == TURN:
        return b""
    same = (
        *(_said(record.text), record.kind, record.conversation, record.speaker, _said(record.title or "")),
        *(record.valid_from, record.valid_to, record.origin in UNTRUSTED),
    )
    return hashlib.sha256(msgspec.json.encode(same)).digest()[:16]


_SHORT = re.compile(r"(?<!\w)[^\W\d_]{2,3}(?!\w)")


def _said(text: str) -> str:
    """Return a text without what does not matter to whether two say the same; nothing that tells them apart is lost."""
    composed = unicodedata.normalize("NFC", text)
    # Where all is in capitals, they do not tell an abbreviation from a word.
    told = composed.upper() != composed or len(composed.split()) == 1
    capitals = [word for word in _SHORT.findall(composed) if told and word.isupper()]
    folded = " ".join(unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold()).split())
    return "\n".join((folded.rstrip(_FORGETTABLE) or folded, *capitals))


def plain(text: str) -> str:
    """Return a text as it is compared with one that is nearly the same."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.rstrip(_FORGETTABLE) or folded


def _require_id(id: object) -> None:
    if not isinstance(id, str) or not id:
        raise ConfigError(f"the id of a record is a text that is not empty, not {shown(id)}")
    _require_name("the id of a record", id)


def _require_name(name: str, value: object) -> None:
    require_text(name, value)
    if isinstance(value, str) and len(value) > MAX_NAME:
        raise ConfigError(f"{name} has {len(value):,} characters; {MAX_NAME:,} are the most")
