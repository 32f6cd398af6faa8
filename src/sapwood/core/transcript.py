"""The transcript: an append-only sequence of messages, and pure functions over messages.

Laws: a transcript never changes; extending one shares everything with it, so turn 500 costs what turn 1
does. What is derived from its messages (encoded fragments, token counts) is kept beside them and made
once for each message. `repair` is the only way in for messages of unknown origin.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast, overload

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

T = TypeVar("T")
D = TypeVar("D", bound="Derived")
COMPACTION = "compaction"
"""The kind of the part in which a provider hands over its own summary of all messages before it."""
INTERRUPTED = "Interrupted: no result was recorded for this call; its outcome is unknown."


class Derived(Protocol):
    """Something kept beside the messages of a transcript."""

    def forked(self, length: int) -> "Derived":
        """Return a copy for another branch, with what belongs to the first `length` messages."""
        ...


class Transcript(Sequence[Message]):
    """An immutable sequence of valid messages that is cheap to extend.

    >>> past = Transcript.of([Message.user("hi"), Message.assistant("hello")])
    >>> len(past.extend([Message.user("and now?")])), len(past)
    (3, 2)
    """

    __slots__ = ("_buffer", "_length", "_memo", "_taken")

    def __init__(self) -> None:
        self._buffer: list[Message] = []
        self._length = 0
        self._memo: dict[Hashable, Derived] = {}
        self._taken: dict[int, object] = {}

    @classmethod
    def of(cls, messages: Iterable[Message]) -> "Transcript":
        """Return a valid transcript of messages from anywhere: repaired where they were not."""
        if isinstance(messages, Transcript):
            return messages
        return cls().extend(repair(tuple(messages)))

    def extend(self, messages: Sequence[Message]) -> "Transcript":
        """Return this transcript with messages at its end; this one stays as it is.

        The caller vouches for the messages. At the tip this costs only what is new; a second branch from
        one point copies the shared part once.
        """
        if not messages:
            return self
        longer = Transcript()
        token = object()
        # `setdefault` is atomic: of two threads that extend one tip, one may append in place.
        if self._taken.setdefault(self._length, token) is token:
            longer._buffer, longer._memo, longer._taken = self._buffer, self._memo, self._taken
        else:
            longer._buffer = self._buffer[: self._length]
            kept = list(self._memo.items())
            longer._memo = {key: derived.forked(self._length) for key, derived in kept}
        longer._buffer.extend(messages)
        longer._length = self._length + len(messages)
        return longer

    def derived(self, key: Hashable, make: Callable[[], D]) -> D:
        """Return what is kept beside the messages under this key, made on first use.

        It is shared by all transcripts of this branch, so it may hold more messages than this one has;
        it must be filled in a way that repeating it does no harm.
        """
        found = self._memo.get(key)
        # `setdefault` keeps the first of two made at once, so that both callers share one.
        kept = self._memo.setdefault(key, make()) if found is None else found
        return cast("D", kept)  # a key always names the same kind

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._buffer[i] for i in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._buffer[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        return (self._buffer[i] for i in range(self._length))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((Transcript, self._length))  # messages hold dictionaries, so they have no hash

    def __repr__(self) -> str:
        return f"Transcript({self._length} messages)"


class Joined(Sequence[Message]):
    """Two sequences of messages seen as one, without copying either."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Sequence[Message], second: Sequence[Message]) -> None:
        self._first = first
        self._second = second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        place = index if index >= 0 else len(self) + index
        size = len(self._first)
        if not 0 <= place < len(self):
            raise IndexError(f"message {index} of {len(self)}")
        return self._first[place] if place < size else self._second[place - size]


class Running(Generic[T]):
    """A value folded over the messages of a transcript, kept so that each message is visited once.

    Keep it with `Transcript.derived`. Two threads may fill it at once: they write the same values.
    """

    __slots__ = ("_start", "_step", "_values")

    def __init__(self, start: T, step: Callable[[T, Message], T]) -> None:
        self._start = start
        self._step = step
        self._values: dict[int, T] = {}

    def forked(self, length: int) -> "Running[T]":
        """Return a copy for another branch, with the values of the first `length` messages."""
        other = Running(self._start, self._step)
        other._values = {place: value for place, value in list(self._values.items()) if place <= length}
        return other

    def upto(self, transcript: Transcript, length: int | None = None) -> T:
        """Return the value after the last message of the transcript, or after its first `length`."""
        length = len(transcript) if length is None else length
        known = length
        while known and known not in self._values:
            known = min(known - 1, len(self._values))
        value = self._values[known] if known else self._start
        for index in range(known, length):
            value = self._step(value, transcript[index])
            self._values[index + 1] = value
        return value


def exchanges(messages: Iterable[Message]) -> list[tuple[Message, ...]]:
    """Group messages so that a reply stays together with the results of its calls.

    >>> [len(group) for group in exchanges([Message.user("a"), Message.assistant("b")])]
    [1, 1]
    """
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return [tuple(group) for group in groups]


def pending_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls that have no result yet; in a valid transcript only the last reply can have any."""
    answered: set[str] = set()
    for message in reversed(messages):
        answered.update(result.key for result in message.tool_results)
        if message.role == "assistant":
            return tuple(call for call in message.tool_calls if call.key not in answered)
    return ()


def loaded_names(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the lazily loaded tools that these messages made callable, in the order of loading."""
    names: dict[str, None] = {}
    for message in messages:
        for part in message.content:
            match part:
                case (
                    ToolResult(loaded=loaded) | Summary(loaded=loaded) | Recalled(loaded=loaded) | Opaque(loaded=loaded)
                ):
                    names.update(dict.fromkeys(loaded))
                case _:
                    pass
    return tuple(names)


def carried_names(message: Message, origin: str, *, reads_recalled: bool = True) -> tuple[str, ...]:
    """Return the lazily loaded tools whose definitions, or references to them, a message brings to a model.

    A summary only knows their names, and what a provider's own search found is read by the model that asked for it.
    origin: `provider/model` of the model that reads the message. reads_recalled: it can call what is only described
    beside a prompt.

    >>> carried_names(Message.user("hi"), "")
    ()
    """
    names: list[str] = []
    for part in message.content:
        match part:
            case ToolResult(loaded=loaded):
                names.extend(loaded)
            case Recalled(loaded=loaded) if reads_recalled:
                names.extend(loaded)
            case Opaque(loaded=loaded) if message.origin == origin:
                names.extend(loaded)
            case _:
                pass
    return tuple(names)


def shortened(result: ToolResult, text: str) -> ToolResult:
    """Return a result of which the model sees this text from now on; what it saw before is kept in `whole`.

    >>> shortened(ToolResult("r0c0", "read", (Text("a long page"),)), "[cleared]").whole
    (Text(text='a long page', provider_data=None),)
    """
    return result.replace(content=(Text(text),), whole=result.content if result.whole is None else result.whole)


def with_results(message: Message, texts: Mapping[str, str]) -> Message:
    """Return a message with these texts, by the key of the call, in place of its results."""
    if message.role != "tool" or not any(result.key in texts for result in message.tool_results):
        return message
    content = tuple(
        shortened(part, texts[part.key]) if isinstance(part, ToolResult) and part.key in texts else part
        for part in message.content
    )
    return message.replace(content=content)


def as_it_was(message: Message) -> Message:
    """Return a message with its results whole again, as they were before any compaction."""
    if message.role != "tool" or all(result.whole is None for result in message.tool_results):
        return message
    results = (
        part if part.whole is None else part.replace(content=part.whole, whole=None) for part in message.tool_results
    )
    return message.replace(content=tuple(results))


def active_skills(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the skills whose instructions these messages hold, in the order of activation."""
    names = (result.skill for message in messages for result in message.tool_results if result.skill)
    return tuple(dict.fromkeys(names))


def is_protected(part: Part) -> bool:
    """Tell whether a part must outlive every compaction, word for word.

    These are the results that carry what the model works by from then on: the instructions of an activated skill, and
    what a search said of the tools that it made callable; and a provider's own summary of all that came before it. To
    keep one, keep its whole exchange.

    >>> is_protected(ToolResult("r1c1", "activate_skill", (Text("Use SQL."),), skill="reports"))
    True
    """
    if isinstance(part, Opaque):
        return part.kind == COMPACTION
    return isinstance(part, ToolResult) and bool(part.skill or part.loaded)


def is_blank(part: Part) -> bool:
    """Tell whether a part shows a model nothing, so that providers would refuse it."""
    match part:
        case Text(text=text, provider_data=data):
            return not text.strip() and not data  # a provider may hang its state on an empty text
        case Recalled(text=text) | Summary(text=text):
            return not text.strip()
        case Thinking():
            return not part.text and not part.provider_data
        case ToolCall() | ToolResult() | Image() | File() | Opaque():
            return False


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages made valid: every call answered once and directly after, strays dropped.

    A call without a result gets an error result that says so; a result without its call and a message
    without content are dropped; results are put in call order. Valid messages come back as they are.
    A call without a key, or with one that was used before, gets a new one (`h<message>c<index>`).
    """
    fixed: list[Message] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if message.role == "tool" or not message.content:
            continue  # a result whose call is not directly before it
        if message.role != "assistant" or not message.tool_calls:
            fixed.append(message)
            continue
        found: list[ToolResult] = []
        while index < len(messages) and messages[index].role == "tool":
            found.extend(messages[index].tool_results)
            index += 1
        fixed.extend(_paired(message, found, len(fixed)))
    return tuple(fixed)


def _paired(reply: Message, results: list[ToolResult], position: int) -> tuple[Message, Message]:
    calls = reply.tool_calls
    keys = [call.key for call in calls]
    if len(set(keys)) == len(keys) and all(keys):
        by_key = {result.key: result for result in reversed(results)}
    else:
        keys = [f"h{position}c{number}" for number in range(len(calls))]
        by_key = _match_by_id(calls, keys, results)
        numbered = iter(keys)
        content = tuple(
            part.replace(key=next(numbered)) if isinstance(part, ToolCall) else part for part in reply.content
        )
        reply = reply.replace(content=content)
    answers = tuple(
        by_key.get(key) or ToolResult(key, call.name, (Text(INTERRUPTED),), is_error=True)
        for key, call in zip(keys, calls, strict=True)
    )
    return reply, Message("tool", answers)


def _match_by_id(calls: Sequence[ToolCall], keys: Sequence[str], results: list[ToolResult]) -> dict[str, ToolResult]:
    """Match results to calls by the id or key they name; equal ids are matched in their order."""
    left = list(results)
    matched: dict[str, ToolResult] = {}
    for call, key in zip(calls, keys, strict=True):
        for result in left:
            if result.key in (call.key or call.id, call.id):
                matched[key] = result.replace(key=key, name=call.name)
                left.remove(result)
                break
    return matched
