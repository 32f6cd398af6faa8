"""Token counts: an estimate by character class, corrected by what each model reports.

Laws: counting never raises, whatever the text; each message is counted once; an exact counter given by the
user is used as it is. The weights were fitted to o200k_base: see docs/context.md for the errors.
"""

import re
from collections.abc import Callable

import msgspec

from sapwood.core.codec import to_json
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Running, Transcript

Counter = Callable[[str], int]

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
_SPACES = b" \t\r\n\x0b\x0c"
_ASCII = re.compile(r"[\x00-\x7f]+")
# Han, kana, hangul and full-width forms: about one token for each character.
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_EMOJI = re.compile("[\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff]")
_INDENT = re.compile(rb"\n[ \t]{2,}")

MESSAGE_OVERHEAD = 4
IMAGE_TOKENS = 1_600
"""What one image costs at most on the providers that publish a figure (about 1.15 megapixels)."""
FILE_CHARACTERS_PER_TOKEN = 12
"""Base64 characters of a document for one token of its text: a rough guess, corrected by reports."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes; 0 for an empty one, at least 1 for any other.

    >>> estimate_tokens("The quick brown fox jumps over the lazy dog.")
    9
    """
    if not text:
        return 0
    raw = text.encode("utf-8", "surrogatepass") if not text.isascii() else text.encode("ascii")
    letters = len(raw) - len(raw.translate(None, _LETTERS))
    digits = len(raw) - len(raw.translate(None, _DIGITS))
    spaces = len(raw) - len(raw.translate(None, _SPACES))
    tokens = letters / 4.75 + digits / 2.2
    ascii_total = len(raw)
    if not text.isascii():
        rest = _ASCII.sub("", text)
        ascii_total = len(text) - len(rest)
        wide = len(_WIDE.findall(rest))
        emoji = len(_EMOJI.findall(rest))
        tokens += wide * 0.78 + emoji * 1.4 + (len(rest) - wide - emoji) / 2.9
    marks = ascii_total - letters - digits - spaces
    tokens += marks / _mark_weight(text, marks, ascii_total, raw)
    return max(1, round(tokens))


def _mark_weight(text: str, marks: int, total: int, raw: bytes) -> float:
    """Punctuation for one token: JSON breaks at nearly every mark, code often joins several in one."""
    if text[0] in "{[" and marks * 5 > total:
        return 1.45
    if marks * 12 > total and _INDENT.search(raw):
        return 2.6
    return 1.9


class Calibration:
    """What each model's reports taught about the estimate: a ratio by `provider/model`.

    A ratio starts at 1, moves by a third towards each report and stays within 0.5 to 2. It belongs to whoever
    holds it (an Agent holds one for all its turns), not to a turn.
    """

    __slots__ = ("_ratios",)

    def __init__(self) -> None:
        self._ratios: dict[str, float] = {}

    def ratio(self, origin: str) -> float:
        """Return the factor for a model's estimates."""
        return self._ratios.get(origin, 1.0)

    def learn(self, origin: str, *, estimated: int, reported: int) -> None:
        """Move a model's factor towards what was reported for a request of this raw estimate."""
        if estimated < 50 or reported <= 0:
            return  # too small to tell the ratio from the fixed overhead
        before = self._ratios.get(origin, 1.0)
        seen = min(2.0, max(0.5, reported / estimated))
        self._ratios[origin] = before + (seen - before) / (3 if origin in self._ratios else 1)


class Totals(msgspec.Struct, frozen=True):
    """Raw tokens of messages: of tool results, and of all else."""

    messages: int = 0
    tool_results: int = 0

    @property
    def total(self) -> int:
        """Both."""
        return self.messages + self.tool_results


class Meter:
    """Counts for one model: the user's exact counter, or the estimate times what was learnt.

    >>> Meter().text("hello world")
    2
    """

    def __init__(
        self, count: Counter | None = None, *, calibration: Calibration | None = None, origin: str = ""
    ) -> None:
        self._exact = count
        self._count: Counter = count or estimate_tokens
        self._calibration = calibration or Calibration()
        self._origin = origin

    @property
    def ratio(self) -> float:
        """The factor on raw counts; 1 with an exact counter."""
        return 1.0 if self._exact else self._calibration.ratio(self._origin)

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
            size = self._exact(_serialised(message)) + sum(
                self._part(part) for part in message.content if isinstance(part, Image | File)
            )
            return Totals(0, size) if message.role == "tool" else Totals(size, 0)
        results = other = 0
        for part in message.content:
            size = self._part(part)
            if isinstance(part, ToolResult):
                results += size
            else:
                other += size
        return Totals(other + MESSAGE_OVERHEAD, results)

    def transcript(self, transcript: Transcript) -> Totals:
        """Return the raw tokens of a whole transcript; each message is counted once for each counter."""
        running = transcript.derived(("tokens", self._count), lambda: Running(Totals(), self._add))
        return running.upto(transcript)

    def schema(self, schema: ToolSchema) -> int:
        """Return the raw tokens of a tool's definition."""
        return self._count(to_json(schema).decode()) if schema.name else 0

    def learn(self, *, estimated: int, reported: int) -> None:
        """Take a report of the provider into account; estimated is the raw figure for the same request."""
        if self._exact is None:
            self._calibration.learn(self._origin, estimated=estimated, reported=reported)

    def _add(self, before: Totals, message: Message) -> Totals:
        size = self.raw_message(message)
        return Totals(before.messages + size.messages, before.tool_results + size.tool_results)

    def _part(self, part: object) -> int:
        match part:
            case Text(text=text) | Thinking(text=text) | Recalled(text=text) | Summary(text=text):
                return self._count(text) if text else 0
            case ToolCall(name=name, arguments=arguments):
                return self._count(name) + self._count(msgspec.json.encode(arguments).decode()) + 6
            case ToolResult(content=content):
                return sum(self._part(item) for item in content) + 6
            case Image():
                return IMAGE_TOKENS
            case File(data=data):
                return len(data or "") // FILE_CHARACTERS_PER_TOKEN + 50
            case Opaque(provider_data=raw):
                return self._count(msgspec.json.encode(raw).decode())
            case _:
                return 0


def _serialised(message: Message) -> str:
    content = tuple(
        part.replace(data="") if isinstance(part, Image | File) and part.data else part for part in message.content
    )
    return to_json(message.replace(content=content)).decode()
