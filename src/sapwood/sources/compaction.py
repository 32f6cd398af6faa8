"""compaction_source: a history that is too long becomes shorter, the cheapest way first.

Laws: only whole exchanges go; the prompt, what is pinned, what loaded tools and the last exchanges stay; what is
cleared can be read again; a summary stands under a heading of its own and never as the user's words; a summariser that
fails, or says more than it replaces, changes nothing; it is done rarely and much, as each time costs the cached prefix.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from sapwood.context.ladder import (
    clear_results,
    drop_superseded,
    is_kept,
    is_summary,
    result_id,
    tokens_of,
    trim_results,
)
from sapwood.context.source import ContextSource, Contribution, Exchange, History, Loaded, Shortened, Turn
from sapwood.context.summarise import Summariser, Written
from sapwood.core.errors import CompactionError, ConfigError
from sapwood.core.maybe import then
from sapwood.core.messages import Message, Summary, Text, ToolCall, ToolResult
from sapwood.core.tools import MaybeAwaitable, ToolSchema
from sapwood.core.transcript import loaded_names

READ_RESULT = "read_result"
NOTHING = "Nothing was said that a later turn would need."
LEAST_SUMMARY_TOKENS = 64
SUMMARY_SHARE = 4
"""A summary may take this part of what a request comes down to."""
OWN_KEPT = 2
"""Exchanges at the end of the current turn that no summary takes in."""
Pin: TypeAlias = Callable[[Message], bool]


class CompactionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When a history is shortened, how far, and what stays.

    at: the size of a request from which on it is due: a share of the window (up to 1), or tokens. to: the share of
    that to which it comes down; a small share is done rarely. keep_results: the newest exchanges with tool results
    that are never cleared. keep_messages: the past messages at the end that no summary takes in. trim_tokens: a
    longer result is cut in its middle, where clearing older ones was not enough.
    summarise: "checklist" picks the statements that matter, without a model; a function of the messages, plain or
    async, returns a text; None never summarises. pin: messages that stay, beside those that are `pinned`.
    pin_first: the first message of the conversation stays. read_tokens: how much of a cleared result is shown again
    by one call of `read_result`; 0 offers no such tool.
    clear_at: the size from which on old results alone are cleared, and those of the newest `keep_results` never;
    None does it with all else. keep_tools: tools whose results are never cleared.

    Raises ConfigError for a value that cannot work.
    """

    at: float = 0.8
    to: float = 0.6
    keep_results: int = 3
    keep_messages: int = 4
    trim_tokens: int = 2_000
    summarise: Summariser | Literal["checklist"] | None = "checklist"
    pin: Pin | None = None
    pin_first: bool = True
    read_tokens: int = 2_000
    clear_at: float | None = None
    keep_tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, at in (("at", self.at), ("clear_at", 1 if self.clear_at is None else self.clear_at)):
            if isinstance(at, bool) or not at > 0:
                raise ConfigError(f"{name} is a share of the window (up to 1) or a number of tokens, not {at!r}")
        if not 0 < self.to < 1:
            raise ConfigError(f"to is a share between 0 and 1, not {self.to!r}")
        for name, least in (("keep_results", 0), ("keep_messages", 0), ("trim_tokens", 100), ("read_tokens", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigError(f"{name} is a whole number of at least {least}, not {value!r}")
        if self.summarise is not None and self.summarise != "checklist" and not callable(self.summarise):
            raise ConfigError(f'summarise is "checklist", a function or None, not {self.summarise!r}')


class CompactionSource(ContextSource):
    """A source that adds no context, and takes some out where the window fills."""

    name = "compaction"

    def __init__(self, options: CompactionOptions) -> None:
        self._options = options
        self.compact_at = options.at if options.clear_at is None else options.clear_at

    def contribute(self, turn: Turn) -> Contribution:
        """Offer the tool that shows cleared results, beside the tools that may bring such results."""
        if not self._options.read_tokens:
            return Contribution()
        return Contribution(tools=[READ_SCHEMA], meta_tools=[READ_RESULT], beside_tools=True)

    def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
        """Show a result again that was cleared or cut."""
        if call.name != READ_RESULT:
            return None
        id, offset = call.arguments.get("id"), call.arguments.get("offset", 0)
        if not isinstance(id, str) or type(offset) is not int or offset < 0:
            return Loaded(result=f'{READ_RESULT} needs {{"id": "...", "offset": 0}}', is_error=True)
        results = (result for message in turn.messages for result in message.tool_results)
        found = next((result for result in results if result.whole is not None and result_id(result) == id), None)
        if found is None:
            return Loaded(result=f"No result {id!r} was cleared, or it is gone from this conversation.", is_error=True)
        return Loaded(result=self._page(found, offset, turn.count))

    def compact(self, history: History, room: int) -> MaybeAwaitable[Sequence[Exchange] | Shortened | None]:
        """Climb the ladder until the request has come down far enough.

        Raises CompactionError for a summary that cannot be used, and what the summariser raises.
        """
        options = self._options
        limit, size = _limit(options.at, room), history.tokens + history.beside
        if limit <= 0 or (size <= limit and history.excess <= 0):
            least = _limit(options.clear_at, room) if options.clear_at is not None else 0
            cleared = self._clear(history) if 0 < least < size else history
            return cleared if cleared.tokens < history.tokens else None
        goal = max(0, int(limit * options.to) - history.beside)
        if history.excess > 0:  # past messages come down below their share as far as below the window
            past = tokens_of(history[: history.current], history.size)
            goal = min(goal, history.tokens - past + int((past - history.excess) * options.to))
        shorter = history
        for rung in (self._clear, self._trim, self._supersede, self._clear_more):
            shorter = rung(shorter)
            if shorter.tokens <= goal:
                return shorter
        taken = self._taken(shorter, goal) if options.summarise is not None else []
        messages = [message for place in taken for message in shorter[place]]
        size = sum(shorter.size(message) for message in messages)
        room = max(LEAST_SUMMARY_TOKENS, goal // SUMMARY_SHARE)
        if size <= room:  # too little is left to take in
            return shorter if shorter.tokens < history.tokens else None
        written = _written(options.summarise, messages, room, shorter)
        return then(written, lambda answer: _replaced(shorter, taken, messages, _usable(answer)))

    def _clear(self, history: History) -> History:
        return self._cleared(history, self._options.keep_results)

    def _clear_more(self, history: History) -> History:
        keep = min(1, self._options.keep_results)  # a cleared result can be read again, a summarised one cannot
        return self._cleared(history, keep)

    def _cleared(self, history: History, keep: int) -> History:
        word = self._word("Cleared to save room")
        return clear_results(history, word, keep=keep, kept_tools=self._options.keep_tools)

    def _trim(self, history: History) -> History:
        return trim_results(history, limit=self._options.trim_tokens, note=self._word("Cut to save room"))

    def _supersede(self, history: History) -> History:
        return drop_superseded(history, self._word("Left out, as the same call was made again later"))

    def _word(self, reason: str) -> Callable[[ToolResult, int], str]:
        can_read = self._options.read_tokens > 0

        def word(result: ToolResult, tokens: int) -> str:
            again = f' {READ_RESULT} with id "{result_id(result)}" shows it again.' if can_read else ""
            return f"[{reason}: {result.name}, {tokens:,} tokens.{again}]"

        return word

    def _taken(self, history: History, goal: int) -> list[int]:
        """Return the places of what goes into the summary: past exchanges, and of this turn's the oldest if need be."""
        end, kept = history.current, 0
        while end and kept < self._options.keep_messages:
            end -= 1
            kept += len(history[end])
        past = [place for place in range(end) if not self.stays(history[place], place)]
        taken = [place for place in range(history.current) if is_summary(history[place])]  # there is only ever one
        left = history.tokens + max(LEAST_SUMMARY_TOKENS, goal // SUMMARY_SHARE)
        left -= tokens_of((history[place] for place in taken), history.size)
        past = [place for place in past if place not in taken]
        for place in (*past, *range(history.current + 1, max(history.current, len(history) - OWN_KEPT))):
            if left <= goal or (place > history.current and self.stays(history[place], place)):
                break
            taken.append(place)
            left -= tokens_of([history[place]], history.size)
        # A question goes together with its answer.
        end_of_past = max((place + 1 for place in taken if place < history.current), default=0)
        taken += [place for place in past if place >= end_of_past and _is_answer(history, end_of_past, place)]
        return [] if all(is_summary(history[place]) for place in taken) else sorted(taken)

    def stays(self, exchange: Exchange, place: int) -> bool:
        """Tell whether an exchange is pinned: by its flag, by `pin`, as the first one; or carries what must stay."""
        pin = self._options.pin
        is_first = self._options.pin_first and place == 0 and not is_summary(exchange)
        return is_first or is_kept(exchange) or (pin is not None and any(map(pin, exchange)))

    def _page(self, result: ToolResult, offset: int, count: Callable[[str], int]) -> Any:
        whole = result.whole or ()
        text = "".join(part.text for part in whole if isinstance(part, Text))
        piece = text[offset : offset + 4 * self._options.read_tokens]
        while count(piece) > self._options.read_tokens:
            piece = piece[: len(piece) * 3 // 4]
        end = offset + len(piece)
        more = f"\n[{len(text) - end:,} more characters; go on with offset {end}]" if end < len(text) else ""
        media = [part for part in whole if not isinstance(part, Text)] if offset == 0 else []
        return [f"{piece}{more}", *media] if media else f"{piece}{more}"


def _limit(at: float, room: int) -> int:
    return int(at * room) if at <= 1 else min(int(at), room or int(at))


def _is_answer(history: History, start: int, place: int) -> bool:
    """Tell whether no question stands between the start and this place, the place included."""
    return start > 0 and all(history[other][0].role != "user" for other in range(start, place + 1))


def compaction_source(
    options: CompactionOptions | None = None,
    *,
    at: float = 0.8,
    to: float = 0.6,
    keep_results: int = 3,
    keep_messages: int = 4,
    trim_tokens: int = 2_000,
    summarise: Summariser | Literal["checklist"] | None = "checklist",
    pin: Pin | None = None,
    pin_first: bool = True,
    read_tokens: int = 2_000,
    clear_at: float | None = None,
    keep_tools: Sequence[str] = (),
) -> CompactionSource:
    """Return a source that shortens a history in time; its options are those of `CompactionOptions`.

    >>> compaction_source(at=0.7, keep_results=5).compact_at
    0.7
    """
    return CompactionSource(
        options
        or CompactionOptions(
            at=at,
            to=to,
            keep_results=keep_results,
            keep_messages=keep_messages,
            trim_tokens=trim_tokens,
            summarise=summarise,
            pin=pin,
            pin_first=pin_first,
            read_tokens=read_tokens,
            clear_at=clear_at,
            keep_tools=tuple(keep_tools),
        )
    )


READ_SCHEMA = ToolSchema(
    READ_RESULT,
    "Show a tool result again that was cleared or cut to save room. The word in its place gives its id.",
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "offset": {"type": "integer", "description": "the character to begin at; 0 for the beginning"},
        },
        "required": ["id"],
    },
)


def _written(how: Any, messages: Sequence[Message], room: int, history: History) -> MaybeAwaitable[object]:
    if how == "checklist":
        from sapwood.context.checklist import checklist  # its patterns take a while to compile

        return checklist(messages, room, history.text_tokens) or NOTHING
    answer: MaybeAwaitable[object] = how(messages, room) if getattr(how, "takes_room", False) else how(messages)
    return answer


def _replaced(history: History, taken: Sequence[int], messages: Sequence[Message], written: Written) -> Shortened:
    """Return the history with the summary in the place of what it took in."""
    summary = Message("user", (Summary(written.text, loaded_names(messages)),))
    now, size = history.size(summary), sum(history.size(message) for message in messages)
    if now >= size:
        raise CompactionError(f"the summary takes {now} tokens, and what it would replace {size}; it is not used")
    kept = [place for place in range(history.current) if place not in taken]
    first = kept[:1] if kept and kept[0] < min(taken) else []
    rest = [place for place in range(len(history)) if place not in taken and place not in first]
    groups = [*(history[place] for place in first), (summary,), *(history[place] for place in rest)]
    return Shortened(history=groups, usage=written.usage)


def _usable(answer: object) -> Written:
    written = Written(answer) if isinstance(answer, str) else answer
    if not isinstance(written, Written):
        raise CompactionError(f"a summary is a text, not {type(answer).__name__}")
    if not written.text.strip():
        raise CompactionError("the summary is empty, so it is not used")
    return written
