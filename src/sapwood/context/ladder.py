"""ladder: how a history becomes shorter without losing its shape, the cheapest rung first. Pure.

Laws: an exchange stays whole or goes whole, so no call loses its result; what is taken out of a result is kept in it
(`ToolResult.whole`), to be read again; a rung is climbed far rather than often, as each change costs the cached prefix.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

import msgspec

from sapwood.context.source import Exchange, History
from sapwood.core.messages import Message, Summary, Text, ToolCall, ToolResult
from sapwood.core.render_result import cap
from sapwood.core.transcript import is_protected, shortened

LEAST_TOKENS = 100
"""A result of fewer tokens is not worth a word in its place."""
Word: TypeAlias = Callable[[ToolResult, int], str]
"""What stands in the place of a result: (the result, its tokens) -> the text that the model sees."""


def result_id(result: ToolResult) -> str:
    """Return a short name for what a result said at first; the same before and after a compaction.

    >>> from sapwood.core.messages import Text
    >>> result = ToolResult("r0c0", "read", (Text("a long page"),))
    >>> result_id(result) == result_id(shortened(result, "[cleared]"))
    True
    """
    parts = result.content if result.whole is None else result.whole
    encoded = msgspec.json.encode([result.key, result.name, msgspec.to_builtins(parts)])
    return hashlib.sha256(encoded).hexdigest()[:8]


def clear_results(
    history: History, word: Word, *, keep: int, least: int = LEAST_TOKENS, kept_tools: Collection[str] = ()
) -> History:
    """Put a word in the place of all results but those of the newest `keep` exchanges that have any.

    Results that activated a skill or made tools callable stay, and those of pinned messages; so does what has fewer
    than `least` tokens, and what these tools gave.
    """
    having = [place for place, exchange in enumerate(history) if any(message.tool_results for message in exchange)]
    old = set(having[: max(0, len(having) - keep)])
    return _with_words(history, lambda place, result: place in old and result.name not in kept_tools, word, least)


def trim_results(history: History, *, limit: int, note: Word, with_last: bool = False) -> History:
    """Cut each result over `limit` tokens to its beginning and its end, with a note at the end of it.

    One with pictures or documents stays whole, as these would be lost. with_last: also results of the last exchange,
    which the model has not seen yet, and such with pictures.
    """

    def is_meant(place: int, result: ToolResult) -> bool:
        return with_last or all(isinstance(part, Text) for part in result.content)

    def cut(result: ToolResult, size: int) -> str:
        return f"{cap(result.text, limit, history.text_tokens)}\n{note(result, size)}"

    return _with_words(history, is_meant, cut, limit, with_last=with_last)


def drop_superseded(history: History, word: Word, *, least: int = LEAST_TOKENS) -> History:
    """Put a word in the place of each result whose call was made again later, with the same arguments, and worked."""
    newest: dict[tuple[str, bytes], tuple[int, str]] = {}
    asked: dict[tuple[int, str], tuple[str, bytes]] = {}
    for place, exchange in enumerate(history):
        for call, result in _answered(exchange):
            mark = (call.name, _mark(call))
            asked[place, result.key] = mark
            if not result.is_error:
                newest[mark] = (place, result.key)

    def is_old(place: int, result: ToolResult) -> bool:
        mark = asked.get((place, result.key))
        return mark is not None and newest.get(mark, (-1, ""))[0] > place

    return _with_words(history, is_old, word, least)


def is_kept(exchange: Exchange) -> bool:
    """Tell whether no summary may take an exchange in: it is pinned, activated a skill, or made tools callable."""
    return any(message.pinned or any(map(is_protected, message.content)) for message in exchange)


def is_summary(exchange: Exchange) -> bool:
    """Tell whether an exchange is the summary of an earlier compaction."""
    return any(isinstance(part, Summary) for message in exchange for part in message.content)


def tokens_of(exchanges: Iterable[Exchange], size: Callable[[Message], int]) -> int:
    """Return the tokens of all messages of some exchanges."""
    return sum(size(message) for exchange in exchanges for message in exchange)


def _with_words(
    history: History, is_meant: Callable[[int, ToolResult], bool], word: Word, least: int, *, with_last: bool = False
) -> History:
    """Return the history with words in the place of the results that are meant, where that makes them shorter."""
    changed: list[Exchange] = []
    for place, exchange in enumerate(history):
        is_unseen = place == len(history) - 1 and not with_last
        if is_unseen or any(message.pinned for message in exchange):
            changed.append(exchange)
            continue
        changed.append(tuple(_message(message, place, is_meant, word, least, history) for message in exchange))
    return history.replace(changed)


def _message(
    message: Message,
    place: int,
    is_meant: Callable[[int, ToolResult], bool],
    word: Word,
    least: int,
    history: History,
) -> Message:
    if message.role != "tool":
        return message
    content = list(message.content)
    for index, part in enumerate(content):
        if not isinstance(part, ToolResult) or is_protected(part) or not is_meant(place, part):
            continue
        size = history.size(Message("tool", (part,)))
        if size <= least:
            continue
        other = shortened(part, word(part, size))
        if history.size(Message("tool", (other,))) < size:
            content[index] = other
    return message if content == list(message.content) else message.replace(content=tuple(content))


def _answered(exchange: Exchange) -> Iterable[tuple[ToolCall, ToolResult]]:
    calls = {call.key: call for message in exchange for call in message.tool_calls}
    for message in exchange:
        for result in message.tool_results:
            if result.key in calls:
                yield calls[result.key], result


def _mark(call: ToolCall) -> bytes:
    try:
        return msgspec.json.encode(call.arguments, order="deterministic")
    except UnicodeEncodeError:  # half a character, which JSON cannot hold
        return repr(call.arguments).encode("utf-8", "backslashreplace")
