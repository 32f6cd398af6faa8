"""The events of a run as they are read again from its store, with the deltas that a store does not keep.

Law: an encoder makes the same message of these as of the events that were streamed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    MessageInterrupted,
    RoundRestarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
)
from sapwood.core.messages import Message, Opaque, Text, Thinking

Timed: TypeAlias = tuple[AgentEvent, float]
"""An event and when it came, in seconds since 1970; 0 where nobody knows."""
_ServerTool: TypeAlias = ServerToolStarted | ServerToolFinished


def as_streamed(events: Iterable[Timed]) -> Iterator[Timed]:
    """Yield stored events with the deltas of each reply before it, and the provider's own tools at their place in it.

    >>> from sapwood.core.messages import Message
    >>> [event.type for event, _ in as_streamed([(MessageAdded(message=Message.assistant("Hi")), 0.0)])]
    ['text_delta', 'message_added']
    """
    held: dict[tuple[str, ...], list[tuple[_ServerTool, float]]] = {}
    for event, at in events:
        waiting = held.setdefault(event.path, [])
        match event:
            case ServerToolStarted() | ServerToolFinished():
                waiting.append((event, at))
                continue
            case MessageAdded(message=message) | MessageInterrupted(message=message) if message.role == "assistant":
                yield from _streamed(message, event.path, waiting, at)
                waiting.clear()
            case RoundRestarted():
                yield from waiting
                waiting.clear()
            case _:
                pass
        yield event, at
    for waiting in held.values():
        yield from waiting


def _streamed(
    message: Message, path: tuple[str, ...], tools: Sequence[tuple[_ServerTool, float]], at: float
) -> Iterator[Timed]:
    left = list(tools)
    for part in message.content:
        match part:
            case Text(text=text) if text:
                yield TextDelta(path=path, text=text), at
            case Thinking(text=text) if text:
                yield ThinkingDelta(path=path, text=text), at
            case Opaque() if left:
                yield left.pop(0)
            case _:
                continue
    yield from left
