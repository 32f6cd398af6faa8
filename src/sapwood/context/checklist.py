"""checklist: a summary made without a model: the statements that a later turn could not do without, word for word.

Laws: whole statements or none; a statement that only gives a newer value replaces the older one; what an earlier
summary carried is carried on. Pure and deterministic.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from sapwood.core.messages import Message, Summary

LONGEST_STATEMENT = 240
"""A message of at most so many characters is one statement: its sentences belong together."""
OF_ROLE = {"user": 1.0, "assistant": 0.55, "tool": 0.35}
"""How much what is said by whom counts: the user's word is law, a reply repeats much, a result can be had again."""

_DEMANDS = re.compile(
    r"\b(?:never|always|must(?:n't)?|do not|don't|cannot|can't|shall|should(?:n't)?|only|at most|at least|no longer|"
    r"without (?:\w+ )?(?:approval|asking|consent|permission)|until|unless|instead of|required?|mandatory|"
    r"forbid(?:den)?|not allowed|avoid|refuse|escalate|cap|limit|budget|deadline|constraint|rule|policy|important|"
    r"remember|make sure|keep in mind|note that|all \w+ (?:are|must|should))\b",
    re.IGNORECASE,
)
_WISHES = re.compile(
    r"\b(?:prefers?|preference|wants?|would like|likes?|dislikes?|hates?|allergic|call me|my \w+|i am|i'm|i work|"
    r"i live)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"\b(?:is|are|was|runs?|running|lives?|owns?|uses?|called|named|codename|based on|next step|current(?:ly)?|"
    r"done|finished|remaining|left to do|open question|awaiting|waiting for|blocked|failing|fails?|decided|agreed|"
    r"chosen?|chose|deployed|status|version|branch|commit|todo|to do|plan is|task is|goal is)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"^[\W_]*[A-Za-z][\w /-]{1,30}:\s+\S")
_EXACT = re.compile(
    r"https?://\S+|\b[\w.+-]+@[\w-]+\.\w+|[$€£]\s?\d[\d,.]*|\b\d{4}-\d{2}-\d{2}\b|\b\d[\d.,:]*\b|"
    r"\b[A-Za-z]+[-_/.][\w./-]*\d\w*|\b[A-Z]{2,}[A-Z0-9_-]*\b|\b\w+_\w+\b|\b\w+/\w[\w./-]*|\"[^\"\n]{2,60}\"|`[^`\n]{2,60}`"
)
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_EMPTY_WORDS = re.compile(
    r"^(?:ok(?:ay)?|yes|no|sure|thanks?(?: you)?|noted(?: and recorded)?|acknowledged|understood|got it|will do|"
    r"done|great|continu(?:e|ing)\b.*|let me .{0,80}|i(?:'ll| will) .{0,80})[.!,\s]*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+(?=[\"'(\[A-Z0-9À-Þ一-鿿぀-ヿ])|\n+")
_CHANGES = re.compile(
    r"[$€£]\s?\d[\d,.]*|\b\d{4}-\d{2}-\d{2}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|\b\d[\d,.:]*(?:st|nd|rd|th|am|pm|%)?\b",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"\s+")
_MARK = "- "
_LONGEST_CALL = 80
_OF_A_CALL = 1.5


class Statement(msgspec.Struct, frozen=True):
    """One thing that was said. order: its place in the conversation. value: how much it would be missed."""

    text: str
    order: int
    value: float


def checklist(messages: Sequence[Message], room: int, count: Callable[[str], int]) -> str:
    """Return the statements of these messages that matter most, one a line, in at most `room` tokens.

    count: text -> tokens. The order is that of the conversation; an empty text where nothing fits.

    >>> print(checklist([Message.user("Hello! Never deploy on Fridays.")], 50, lambda text: len(text.split())))
    - Hello! Never deploy on Fridays.
    """
    taken: list[Statement] = []
    for statement in sorted(_latest(statements(messages)), key=lambda item: (-item.value, item.order)):
        cost = count(f"{_MARK}{statement.text}\n")
        if cost <= room:
            room -= cost
            taken.append(statement)
    return "\n".join(f"{_MARK}{item.text}" for item in sorted(taken, key=lambda item: item.order))


def statements(messages: Iterable[Message]) -> list[Statement]:
    """Return what these messages say that carries anything, with what it is worth."""
    found: list[Statement] = []
    listed = list(messages)
    calls = _calls(listed)
    for place, message in enumerate(listed):
        found += [Statement(text, len(found) + number, _OF_A_CALL) for number, text in enumerate(calls.get(place, ()))]
        for text, weight in _texts(message):
            for piece in _pieces(text):
                value = weight * _worth(piece)
                if value > 0:
                    found.append(Statement(piece, len(found), value))
    return found


def _calls(messages: Sequence[Message]) -> dict[int, list[str]]:
    """Return what tools did, by the place of the message that asked for it: each call, and how its result begins."""
    found: dict[int, list[str]] = {}
    for place, message in enumerate(messages):
        results = messages[place + 1].tool_results if place + 1 < len(messages) else ()
        by_key = {result.key: result for result in results}
        for call in message.tool_calls:
            result = by_key.get(call.key)
            given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            came = _plain(result.text)[:_LONGEST_CALL] if result is not None and result.whole is None else ""
            said = f"{call.name}({given})"[:_LONGEST_CALL]
            found.setdefault(place, []).append(f"{said}: {came}" if came else f"{said} was done")
    return found


def _texts(message: Message) -> Iterable[tuple[str, float]]:
    for part in message.content:
        if isinstance(part, Summary):
            # It was chosen once before, from more than is left now; who had said it is not known any more.
            yield part.text, 1.1
    if message.text:
        yield message.text, OF_ROLE[message.role]
    for result in message.tool_results:
        if result.whole is None:  # else a word stands there that only says so
            yield result.text, OF_ROLE["tool"]


def _pieces(text: str) -> Iterable[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(text) <= LONGEST_STATEMENT:
        yield _plain(text)
        return
    for line in lines:
        if len(line) <= LONGEST_STATEMENT:
            yield _plain(line)
        else:
            yield from (_plain(piece)[:LONGEST_STATEMENT] for piece in _SENTENCE.split(line) if piece.strip())


def _plain(text: str) -> str:
    return _BLANKS.sub(" ", text).strip().removeprefix(_MARK)


def _worth(text: str) -> float:
    """Return how much a statement would be missed: what it demands, wishes, tells of the state, and says exactly."""
    rest = _EMPTY_WORDS.sub("", text)
    if len(rest) < 4:
        return 0.0
    demands, wishes = len(_DEMANDS.findall(text)), len(_WISHES.findall(text))
    exact = len({match.lower() for match in _EXACT.findall(text)}) + len(_NAME.findall(text))
    value = 2.2 * min(demands, 3) + 1.8 * min(wishes, 2) + 0.7 * min(len(_STATES.findall(text)), 2)
    value += 0.8 * min(exact, 4) + (0.8 if _LABEL.match(text) else 0.0)
    if text.rstrip().endswith("?"):
        value *= 0.6
    return value


def _latest(found: Sequence[Statement]) -> list[Statement]:
    """Leave out what was said again later, be it with other numbers, dates or names of versions."""
    kept: dict[str, Statement] = {}
    for statement in found:
        mark = " ".join(_CHANGES.sub("#", statement.text.casefold()).split()).rstrip(".! ")
        before = kept.pop(mark, None)
        if before is not None and before.value > statement.value:
            statement = msgspec.structs.replace(statement, value=before.value)
        kept[mark] = statement
    return list(kept.values())
