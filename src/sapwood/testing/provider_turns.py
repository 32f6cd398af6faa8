"""Conversations that the conformance kit sends: short, the same each time, with every kind of part."""

from sapwood.core.messages import Image, Message, Recalled, Text, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, Reply
from sapwood.core.transcript import Transcript


def message_of(reply: Reply, profile: ModelProfile) -> Message:
    """Return the message that a turn makes of a reply."""
    parts = [
        part.replace(key=f"r0c{number}") if isinstance(part, ToolCall) else part
        for number, part in enumerate(reply.content)
    ]
    return Message("assistant", tuple(parts), profile.origin)


def answered(message: Message) -> Transcript:
    """Return a conversation in which this message was answered."""
    history = [Message.user("go"), message]
    if message.tool_calls:
        results = [ToolResult(call.key, call.name, (Text("found"),)) for call in message.tool_calls]
        history.append(Message("tool", tuple(results)))
    return Transcript().extend([*history, Message.user("go on")])


def asks(*keys: str) -> Message:
    """Return a reply that calls a tool under each of these keys."""
    return Message("assistant", (Text("let me see"), *(ToolCall("read", {"n": 1}, key, f"id_{key}") for key in keys)))


def answers(key: str, *more: Text | Image) -> Message:
    """Return the result of a call."""
    return Message("tool", (ToolResult(key, "read", more or (Text("found"),)),))


def conversation(turns: int) -> Transcript:
    """Return turns with recalled text, calls one by one and two at once, and answers."""
    history: list[Message] = []
    for turn in range(turns):
        one, first, second = f"r{turn}c0", f"r{turn + 90}c0", f"r{turn + 90}c1"
        results = tuple(ToolResult(key, "read", (Text(f"found {key}"),)) for key in (first, second))
        history += [
            Message("user", (Recalled(f"they like tea {turn}", "memory"), Text(f"question {turn}"))),
            asks(one),
            answers(one),
            asks(first, second),
            Message("tool", results),
            Message.assistant(f"answer {turn}"),
        ]
    return Transcript().extend([*history, Message.user("and now?")])
