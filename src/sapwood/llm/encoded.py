"""A transcript in a provider's words: each message is encoded once, a request only joins bytes.

Laws: filling is by index, so repeating it does no harm and two threads may do it at once; what a message
becomes depends on it and on those before it, never on those after; marks and last words are added at the
join, so kept bytes never change.
"""

import hashlib
import re
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import TypeAlias

import msgspec

from sapwood.core.messages import File, Image, Message, ToolCall
from sapwood.core.model import CachePlan, ModelProfile, ModelRequest
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript

_VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}\Z")
_BAD_ID = re.compile(r"[^A-Za-z0-9_-]")
_SUMMARY_HEADING = "Summary of the earlier conversation, made by the system and not written by the user:"
_MARK = b'"cache_control":{"type":"ephemeral"}'
_LONG_MARK = b'"cache_control":{"type":"ephemeral","ttl":"1h"}'
LOOK_BACK = 18
"""Blocks after a mark beyond which the one before it may not be found (Anthropic looks back 20)."""


def summary_text(text: str) -> str:
    """Return a summary as the model reads it: under a heading that says whose words it is not."""
    return f"{_SUMMARY_HEADING}\n\n{text}"


def left_out(part: Image | File, *, reads: str = "this model reads") -> str:
    """Return the word that stands for a picture or document which is not sent.

    >>> left_out(File(name="a.pdf"))
    '[a.pdf is left out: this model reads no files.]'
    """
    if isinstance(part, File):
        return f"[{part.name or part.url or 'A file'} is left out: {reads} no files.]"
    return f"[An image is left out: {reads} no images.]"


def data_url(part: Image | File) -> str:
    """Return where a picture or document is: its address, or all of it as a `data:` URL.

    >>> data_url(Image("aGk=", "image/png"))
    'data:image/png;base64,aGk='
    """
    return part.url or "" if part.data is None else f"data:{part.media_type};base64,{part.data}"


def cache_mark(plan: CachePlan | None, profile: ModelProfile) -> bytes:
    """Return the field that marks the end of a cached prefix, empty where the model takes none."""
    if plan is None or not profile.cache_marks:
        return b""
    return _LONG_MARK if plan.ttl == "1h" and "1h" in profile.cache_ttls else _MARK


class Shape(msgspec.Struct, frozen=True):
    """How wire messages of one kind open, join and close. joint: None where each stands alone."""

    open: bytes = b""
    joint: bytes | None = None
    close: bytes = b""


class Fragment(msgspec.Struct, frozen=True):
    """One message without its opening and closing.

    mark_at: where a cache mark may go, -1 for nowhere. blocks: how many content blocks it has.
    """

    shape: Shape
    body: bytes
    mark_at: int = -1
    blocks: int = 1

    def marked(self, mark: bytes) -> bytes:
        """Return the body with a mark in it."""
        at = self.mark_at
        return self.body if at < 0 or not mark else self.body[:at] + mark + self.body[at:]


Encode: TypeAlias = Callable[[Message, Sequence[str], bool], Fragment | None]
"""A message, the wire ids of its calls or results in order (empty for a result without its call), and
whether it ends the request -> its fragment, None where it shows the provider nothing."""


class EncodedHistory:
    """The encoded messages of one branch of a transcript, for one codec and model.

    short_ids: ids of calls are nine letters and digits, which is all that Mistral takes. label: what stands for a
    call's wire id, also at its result, where the protocol joins the two in another way, such as by name.
    """

    def __init__(
        self, encode: Encode, *, short_ids: bool = False, label: Callable[[ToolCall], str] | None = None
    ) -> None:
        self._encode = encode
        self._short_ids = short_ids
        self._label = label
        self._fragments: dict[int, Fragment | None] = {}
        self._filled = 0
        self._used: dict[str, tuple[int, int]] = {}  # wire id -> the call that has it
        self._ids: dict[int, tuple[str, ...]] = {}  # by message, as `_encode` takes them
        self._prefix: tuple[int, bytes, Shape | None] = (0, b"", None)

    def forked(self, length: int) -> "EncodedHistory":
        """Return a copy for another branch of the transcript, with its first `length` messages."""
        other = EncodedHistory(self._encode, short_ids=self._short_ids, label=self._label)
        filled = min(self._filled, length)
        other._fragments = {index: self._fragments[index] for index in range(filled)}
        other._ids = {index: ids for index, ids in list(self._ids.items()) if index < filled}
        other._used = {wire: place for wire, place in list(self._used.items()) if place[0] < filled}
        other._filled = filled
        prefix = self._prefix
        if prefix[0] <= filled:
            other._prefix = prefix
        return other

    def pieces(
        self, transcript: Transcript, *, mark: bytes = b"", notice: Fragment | None = None, earlier: bool = True
    ) -> list[bytes]:
        """Return the wire messages of the transcript, separated by commas, as bytes to be joined.

        mark: put into the last block of the last message that can take it. notice: a last word.
        earlier: where that is far from the end of the request before this one, that end is marked too.
        """
        self._fill(transcript)
        last = len(transcript) - 1
        while last >= 0 and self._fragments[last] is None:
            last -= 1
        begin = max(last - 2, 0)  # where the request before this one ended
        opened, shape = self._opened(begin)
        pieces = [opened]
        tail = self._tail(transcript, begin, last, ends=notice is None)
        # A provider looks for its cache a limited number of blocks back from a mark; a round of many calls
        # is longer than that, so the end of the request before it gets a mark too, and so does the reply between.
        is_far = earlier and sum(fragment.blocks for fragment in tail[1:]) > LOOK_BACK
        for position, fragment in enumerate(tail):
            is_marked = is_far or position == len(tail) - 1
            _append(pieces, shape, fragment.shape, fragment.marked(mark) if is_marked else fragment.body)
            shape = fragment.shape
        if notice is not None:
            _append(pieces, shape, notice.shape, notice.body)
            shape = notice.shape
        if shape is not None:
            pieces.append(shape.close)
        return pieces

    def _tail(self, transcript: Transcript, begin: int, last: int, *, ends: bool) -> list[Fragment]:
        found = [self._fragments[index] for index in range(begin, last + 1)]
        if found and ends and transcript[last].role == "assistant":
            found[-1] = self._encode(transcript[last], self._ids.get(last, ()), True)
        return [fragment for fragment in found if fragment is not None]

    def _opened(self, end: int) -> tuple[bytes, Shape | None]:
        """Return the joined messages before `end`, the last of them left open."""
        start, joined, shape = self._prefix
        is_shorter = end < start
        if is_shorter:
            start, joined, shape = 0, b"", None
        pieces = [joined]
        for index in range(start, end):
            if (fragment := self._fragments[index]) is not None:
                _append(pieces, shape, fragment.shape, fragment.body)
                shape = fragment.shape
        joined = b"".join(pieces) if len(pieces) > 1 else joined
        if not is_shorter:
            self._prefix = (end, joined, shape)
        return joined, shape

    def _fill(self, transcript: Transcript) -> None:
        for index in range(self._filled, len(transcript)):
            message = transcript[index]
            ids: tuple[str, ...] = ()
            if message.role == "assistant":
                ids = tuple(self._wire_id(call, (index, position)) for position, call in enumerate(message.tool_calls))
            elif message.role == "tool":
                ids = self._answered_ids(transcript, index)
            if ids:
                self._ids[index] = ids
            self._fragments[index] = self._encode(message, ids, False)
            self._filled = index + 1

    def _wire_id(self, call: ToolCall, place: tuple[int, int]) -> str:
        """Return the provider's id where it is valid and new here, else one made of it."""
        if self._label is not None:
            return self._label(call)
        if (_SHORT_ID if self._short_ids else _VALID_ID).match(call.id) and self._is_free(call.id, place):
            wire = call.id
        elif self._short_ids:
            number = 0
            while not self._is_free(wire := _short(f"{call.id}\0{call.key}\0{number}"), place):
                number += 1
        else:
            source = f"{call.id}\0{call.key}".encode("utf-8", "surrogatepass")
            base = f"{_BAD_ID.sub('_', call.id)[:32] or 'call'}_{hashlib.sha256(source).hexdigest()[:8]}"
            wire, number = base, 0
            while not self._is_free(wire, place):
                wire = f"{base}_{place[0]}_{place[1]}" + (f"_{number}" if number else "")
                number += 1
        self._used.setdefault(wire, place)
        return wire

    def _is_free(self, wire: str, place: tuple[int, int]) -> bool:
        return self._used.get(wire, place) >= place

    def _answered_ids(self, transcript: Transcript, index: int) -> tuple[str, ...]:
        """Return the wire ids that the results of this message answer, by the calls directly before it."""
        at = index - 1
        while at >= 0 and transcript[at].role == "tool":
            at -= 1
        calls = transcript[at].tool_calls if at >= 0 else ()
        by_key = {call.key or call.id: wire for call, wire in zip(calls, self._ids.get(at, ()), strict=True)}
        return tuple(by_key.get(result.key, "") for result in transcript[index].tool_results)


class EncodedTools:
    """The encoded definitions of a conversation's tools: made anew only where the tools are other objects."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[tuple[ToolSchema, ...], list[bytes]] = ((), [])

    def forked(self, length: int) -> "EncodedTools":
        """Return a copy for another branch of the transcript."""
        other = EncodedTools()
        other._kept = self._kept
        return other

    def of(self, tools: tuple[ToolSchema, ...], encode: Callable[[ToolSchema], bytes]) -> list[bytes]:
        """Return each tool encoded."""
        known, made = self._kept
        if known is not tools and not (len(known) == len(tools) and all(map(is_, known, tools))):
            made = [encode(tool) for tool in tools]
            self._kept = (tools, made)
        return made


def encoded_tools(request: ModelRequest, key: Hashable, encode: Callable[[ToolSchema], bytes]) -> list[bytes]:
    """Return each tool of a request encoded, as kept beside its transcript. key: the codec, and what it goes by."""
    return request.transcript.derived(("tools", key), EncodedTools).of(request.tools, encode)


def _short(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _append(pieces: list[bytes], before: Shape | None, shape: Shape, body: bytes) -> None:
    if before is None:
        pieces += (shape.open, body)
    elif before is shape and shape.joint is not None:
        pieces += (shape.joint, body)
    else:
        pieces += (before.close, b",", shape.open, body)
