"""Token counts: an estimate, corrected by what each model reports.

Laws: counting never raises, whatever the text; each message is counted once; an exact counter given by the
user is used as it is.
"""

import base64
import binascii
from collections.abc import Callable
from typing import assert_never

import msgspec

from sapwood.core.estimate import estimate_tokens as estimate_tokens
from sapwood.core.json_object import is_object
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import ModelProfile
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Running, Transcript

Counter = Callable[[str], int]

MESSAGE_OVERHEAD = 4
IMAGE_TOKENS = 1_600
"""What one image costs at most on the providers that publish a figure (about 1.15 megapixels)."""
PIXELS_PER_TOKEN = 750
_HEAD_CHARACTERS = 64 * 1024
FILE_CHARACTERS_PER_TOKEN = 12
"""Base64 characters of a document for one token of its text: a rough guess, corrected by reports."""
SOUND_CHARACTERS_PER_TOKEN = 600
"""The same of sound: about 32 tokens a second of compressed sound."""
ENCRYPTED_FRAME, ENCRYPTED_CHARACTERS_PER_TOKEN = 900, 8
"""Characters around encrypted reasoning, and of it for one token of what it hides; by what OpenAI reported."""


class _Line(msgspec.Struct, frozen=True):
    """What reports taught so far: `overhead + ratio * estimate`, and how sure of it one may be (a covariance)."""

    overhead: float
    ratio: float
    of_overhead: float = 150.0**2
    of_ratio: float = 0.15**2
    of_both: float = 0.0


class Calibration:
    """What each model's reports taught about the estimate: a ratio and a fixed overhead by `provider/model`.

    A report is the sum of both, so what it teaches is shared by how sure of each we are: a small request tells of
    the overhead, a long one of the ratio, and two of a conversation tell them apart. The ratio stays within 0.5 to 2
    times what the model's profile says, the overhead within -200 to 2,000 tokens. It belongs to whoever holds it
    (an Agent holds one for all its turns), not to a turn.
    """

    __slots__ = ("_limits", "_lines")

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._limits: dict[str, int] = {}

    def limit(self, origin: str) -> int | None:
        """Return the tokens that the model's provider named as the most it takes, None where it never did."""
        return self._limits.get(origin)

    def learn_limit(self, origin: str, tokens: int) -> None:
        """Take into account what a provider named as the most it takes, when it refused a request."""
        self._limits[origin] = tokens

    def ratio(self, origin: str, expected: float = 1.0) -> float:
        """Return the factor for a model's estimates; expected: what it is before the first report."""
        line = self._lines.get(origin)
        return expected if line is None else line.ratio

    def overhead(self, origin: str) -> float:
        """Return the tokens that the model's provider was seen to add to each request."""
        line = self._lines.get(origin)
        return 0.0 if line is None else line.overhead

    def learn(self, origin: str, *, estimated: int, reported: int, expected: float = 1.0) -> None:
        """Take what was reported for a request of this raw estimate into account."""
        if estimated <= 0 or reported <= 0:
            return
        line = self._lines.get(origin) or _Line(0.0, expected)
        # A Kalman filter with two states. What was learnt ages, so that the last reports weigh most.
        vague, still = _Line(0.0, 1.0), line.of_both
        of_overhead = min(vague.of_overhead, line.of_overhead + _DRIFT_OVERHEAD**2)
        of_ratio = min(vague.of_ratio, line.of_ratio + _DRIFT_RATIO**2)
        with_overhead, with_ratio = of_overhead + estimated * still, still + estimated * of_ratio
        doubt = with_overhead + estimated * with_ratio + (_NOISE_TOKENS + _NOISE_SHARE * estimated) ** 2
        surprise = reported - line.overhead - line.ratio * estimated
        self._lines[origin] = _Line(
            min(2_000.0, max(-200.0, line.overhead + surprise * with_overhead / doubt)),
            min(2.0 * expected, max(0.5 * expected, line.ratio + surprise * with_ratio / doubt)),
            of_overhead - with_overhead * with_overhead / doubt,
            of_ratio - with_ratio * with_ratio / doubt,
            still - with_overhead * with_ratio / doubt,
        )


_DRIFT_OVERHEAD, _DRIFT_RATIO = 10.0, 0.03
_NOISE_TOKENS, _NOISE_SHARE = 2.0, 0.01


class Totals(msgspec.Struct, frozen=True):
    """Raw tokens of messages: of tool results, and of all else.

    summary, files: how many of `messages` are of summaries, and of pictures and documents outside of results.
    """

    messages: int = 0
    tool_results: int = 0
    summary: int = 0
    files: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.messages + other.messages,
            self.tool_results + other.tool_results,
            self.summary + other.summary,
            self.files + other.files,
        )

    @property
    def total(self) -> int:
        """Both."""
        return self.messages + self.tool_results


class Meter:
    """Counts for one model: the user's exact counter, or the estimate corrected by what was learnt.

    >>> Meter().text("hello world")
    2
    """

    def __init__(
        self,
        count: Counter | None = None,
        *,
        calibration: Calibration | None = None,
        origin: str = "",
        profile: ModelProfile | None = None,
    ) -> None:
        self._exact = count
        self._count: Counter = count or estimate_tokens
        self._calibration = calibration or Calibration()
        self._origin = origin
        profile = profile or ModelProfile()
        self._expected = profile.tokens_per_estimate
        self._fixed = profile.request_overhead_tokens
        self._per_tool = 1.0 if count else profile.tokens_per_tool_estimate
        self._per_call = profile.tool_call_tokens // 2
        self._per_result = profile.tool_call_tokens - self._per_call
        self._least_image = profile.image_tokens
        self._native_tokens = profile.native_tokens
        self._key = ("tokens", count, profile.tool_call_tokens, profile.image_tokens)

    @classmethod
    def of(
        cls, profile: ModelProfile, count: Counter | None = None, *, calibration: Calibration | None = None
    ) -> "Meter":
        """Return the meter of a model, which begins with what its profile says.

        >>> Meter.of(ModelProfile(request_overhead_tokens=7)).overhead
        7
        """
        return cls(count, calibration=calibration, origin=profile.origin, profile=profile)

    @property
    def ratio(self) -> float:
        """The factor on raw counts; 1 with an exact counter."""
        return 1.0 if self._exact else self._calibration.ratio(self._origin, self._expected)

    @property
    def overhead(self) -> int:
        """The tokens that the provider adds to each request, as known and as learnt; 0 with an exact counter."""
        return 0 if self._exact else self._fixed + round(self._calibration.overhead(self._origin))

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.scaled(self._count(text)) if text else 0

    def scaled(self, raw: int) -> int:
        """Return raw tokens as this model counts them."""
        return raw if self._exact else round(raw * self.ratio)

    def raw_text(self, text: str) -> int:
        """Return the raw tokens of a text, not yet scaled."""
        return self._count(text) if text else 0

    def raw_message(self, message: Message) -> Totals:
        """Return the raw tokens of one message, not yet scaled.

        An exact counter is given the serialised message, as guide D says; pictures and documents count apart.
        """
        if self._exact is not None:
            inside = (part.content if isinstance(part, ToolResult) else (part,) for part in message.content)
            media = (part for parts in inside for part in parts if isinstance(part, Image | File))
            files = sum(self._part(part) for part in media)
            size = self._exact(_serialised(message)) + files
            if message.role == "tool":
                return Totals(0, size)
            is_summary = any(isinstance(part, Summary) for part in message.content)
            return Totals(size, 0, size - files if is_summary else 0, files)
        results = other = summary = files = 0
        for part in message.content:
            size = self._part(part)
            if isinstance(part, ToolResult):
                results += size
                continue
            other += size
            if isinstance(part, Summary):
                summary += size
            elif isinstance(part, Image | File):
                files += size
        return Totals(other + MESSAGE_OVERHEAD, results, summary, files)

    def transcript(self, transcript: Transcript, length: int | None = None) -> Totals:
        """Return the raw tokens of a transcript, or of its first `length` messages; each is counted once."""
        running = transcript.derived(self._key, lambda: Running(Totals(), self._add))
        return running.upto(transcript, length)

    def schema(self, schema: ToolSchema) -> int:
        """Return the raw tokens of a tool's definition."""
        if (native := self._native_tokens(schema)) is not None:
            return native  # the provider writes it into the prompt
        return round(self._count(_json(schema)) * self._per_tool)

    def learn(self, *, estimated: int, reported: int) -> None:
        """Take a report of the provider into account; estimated is the raw figure for the same request."""
        if self._exact is None:
            self._calibration.learn(
                self._origin, estimated=estimated, reported=reported - self._fixed, expected=self._expected
            )

    def learn_limit(self, tokens: int) -> None:
        """Keep what the provider named as the most it takes; the next turns plan for that."""
        self._calibration.learn_limit(self._origin, tokens)

    def _add(self, before: Totals, message: Message) -> Totals:
        size = self.raw_message(message)
        return before + size

    def _part(self, part: Part) -> int:
        match part:
            case Thinking(text=text, provider_data=raw):
                return (self._count(text) if text else 0) + sum(map(_encrypted, (raw or {}).values()))
            case Text(text=text) | Recalled(text=text) | Summary(text=text):
                return self._count(text) if text else 0
            case ToolCall(name=name, arguments=arguments):
                return self._count(name) + self._count(_json(arguments)) + self._per_call
            case ToolResult(content=content):
                return sum(self._part(item) for item in content) + self._per_result
            case Image(data=data):
                return image_tokens(data or "", self._least_image)
            case File(data=data, media_type=kind):
                is_heard = kind.startswith(("audio/", "video/"))
                return len(data or "") // (SOUND_CHARACTERS_PER_TOKEN if is_heard else FILE_CHARACTERS_PER_TOKEN) + 50
            case Opaque(provider_data=raw):
                readable = {name: _readable(value) for name, value in raw.items()}
                return self._count(_json(readable)) + sum(map(_encrypted, raw.values()))
            case _:
                assert_never(part)


def _encrypted(own: object) -> int:
    """Return about how many tokens a provider's encrypted reasoning or summary takes once it can read it."""
    hidden = own.get("encrypted_content") if is_object(own) else None
    return max(0, len(hidden) - ENCRYPTED_FRAME) // ENCRYPTED_CHARACTERS_PER_TOKEN if isinstance(hidden, str) else 0


def _readable(own: object) -> object:
    return {name: value for name, value in own.items() if name != "encrypted_content"} if is_object(own) else own


def image_tokens(data: str, least: int = 0) -> int:
    """Return about how many tokens a picture takes, by its size in pixels where its first bytes tell that.

    data: base64. least: what any picture takes.

    >>> image_tokens("iVBORw0KGgoAAAANSUhEUgAAASwAAADI")  # a PNG of 300 by 200 pixels
    80
    """
    size = _pixels(data)
    return IMAGE_TOKENS if size is None else min(IMAGE_TOKENS, max(least, size // PIXELS_PER_TOKEN))


def _pixels(data: str) -> int | None:
    """Return width times height of a PNG, GIF or JPEG; None of another, or where it is not found at the beginning."""
    try:
        head = base64.b64decode(data[:_HEAD_CHARACTERS])
    except (binascii.Error, ValueError):
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little") * int.from_bytes(head[8:10], "little")
    at = 2 if head.startswith(b"\xff\xd8") else len(head)
    while at + 9 <= len(head) and head[at] == 0xFF:
        if 0xC0 <= head[at + 1] <= 0xCF and head[at + 1] not in (0xC4, 0xC8, 0xCC):  # a frame begins
            return int.from_bytes(head[at + 5 : at + 7], "big") * int.from_bytes(head[at + 7 : at + 9], "big")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def _serialised(message: Message) -> str:
    return _json(message.replace(content=tuple(_shown(part) for part in message.content)))


def _shown(part: Part) -> Part:
    """Return a part without what is no text of the request: bytes of pictures, details for user interfaces."""
    match part:
        case Image() | File():
            return part.replace(data="") if part.data else part
        case ToolResult(content=content):
            inside = tuple(
                item.replace(data="") if isinstance(item, Image | File) and item.data else item for item in content
            )
            return part.replace(content=inside, details=None, whole=None)
        case _:
            return part


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which providers get replaced
        import json

        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode()
