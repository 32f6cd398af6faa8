"""The thread of a conversation: what was said before, and the answer that is coming.

Laws: nothing is changed in place; what an input does not touch stays the same object; an input costs the same however
long the thread is, as only the newest answer is open (`Thread.items` is what walks the thread). The same reducer is in
`packages/react/src/reducer.ts`, held to the same fixtures.
Source: guide D, "useAssistant"; the chunks are those of `sapwood.server.encode.chunks`, as JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from sapwood.core.assistant_draft import Chunk, Draft, draft_from, draft_of, find_tool, made, with_chunk, with_part
from sapwood.core.assistant_parts import (
    AssistantItem,
    AssistantPart,
    CompactionPart,
    ContextPart,
    FilePart,
    LedgerPart,
    LimitPart,
    OutputPart,
    ReplyItem,
    SubagentPart,
    ThinkingPart,
    ToolPart,
    UserItem,
)
from sapwood.core.parts import AgentPart, AgentTextPart
from sapwood.core.struct import Data

Input: TypeAlias = AgentPart | Mapping[str, Any]
"""What a stream gives: a part of a turn, or the JSON of one or of a server's chunk."""

_PLAIN = ("text", "tool", "memory", "context")
_WHOLE: dict[str, type[AssistantPart]] = {
    "file": FilePart,
    "data-ledger": LedgerPart,
    "data-limit": LimitPart,
    "data-output": OutputPart,
    "data-context": ContextPart,
    "data-compaction": CompactionPart,
}
_ASKS = ("approval", "limit_ask")
_GOES_ON = (None, "", *_ASKS)
_TOLD = ("tool-output-available", "tool-output-error", "tool-output-denied", "tool-approval-request")


class OpenReply(Data, frozen=True):
    """The newest answer, while it may still change. retry: the model did not answer and is asked again."""

    item: ReplyItem
    draft: Draft
    retry: dict[str, Any] | None = None


class Thread(Data, frozen=True):
    """A conversation. past: what is over. open: the newest answer."""

    past: tuple[AssistantItem, ...] = ()
    open: OpenReply | None = None

    @property
    def items(self) -> tuple[AssistantItem, ...]:
        """What was said, oldest first."""
        return (*self.past, self.open.item) if self.open else self.past


def thread_of(items: Sequence[AssistantItem]) -> Thread:
    """Return the thread of these items; the last one may go on."""
    last = items[-1] if items else None
    if isinstance(last, ReplyItem):
        return Thread(tuple(items[:-1]), OpenReply(last, draft_from(last.parts)))
    return Thread(tuple(items))


def with_prompt(thread: Thread, user: UserItem, reply_id: str) -> Thread:
    """Return the thread with what the user said and an empty answer to it."""
    return Thread((*thread.items, user), OpenReply(ReplyItem(reply_id), Draft()))


def with_replay(thread: Thread, message_id: str) -> Thread:
    """Return the thread ready for a replay of this message from its beginning.

    The newest answer is emptied where it is that message, or else a new one begins.
    """
    reply = thread.open
    is_same = reply is not None and (reply.item.id == message_id or reply.item.metadata is None)
    return Thread(thread.past if is_same else thread.items, OpenReply(ReplyItem(message_id), Draft()))


def reduce(thread: Thread, given: Input) -> Thread:
    """Return the thread with an input applied to the newest answer."""
    reply = thread.open
    if reply is None:
        return thread
    part = plain_part(given)
    if part is not None:
        return _with_draft(thread, reply, with_part(reply.draft, part))
    assert isinstance(given, Mapping), "what is no part is a chunk"
    match given:
        case {"type": "data-waiting", "data": data}:
            return thread.replace(open=reply.replace(retry=data))
        case {"type": "start", "messageId": str(id)}:
            going = reply.item if reply.item.metadata is None else _said(reply.item, {"stoppedBy": ""})
            # What went wrong before is over, as the run goes on.
            return _with_item(thread, reply, _said(going, given.get("messageMetadata")).replace(id=id, error=None))
        case {"type": "finish"}:
            return _with_item(thread, reply, _said(reply.item, given.get("messageMetadata")))
        case {"type": "abort" | "error"}:
            return _ended(thread, reply, given)
        case _:
            return _with_draft(thread, reply, with_chunk(reply.draft, given))


def is_waiting(thread: Thread) -> bool:
    """Tell whether the newest answer waits for a word: on a call, or on a limit."""
    item = thread.open.item if thread.open else None
    if item is None or item.error is not None:
        return False
    if cause := (item.metadata or {}).get("stoppedBy"):
        return cause in _ASKS
    return any(isinstance(part, ToolPart) and part.state == "waiting" for part in item.parts)


def from_ui_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[AssistantItem, ...]:
    """Return a server's messages as items; what a system message says is not shown."""
    items: list[AssistantItem] = []
    for message in messages:
        if message["role"] == "user":
            items.append(_user_item(message))
        elif message["role"] == "assistant":
            items.append(_reply_item(message))
    return tuple(items)


def part_of(thread: Thread, given: Input) -> AssistantPart | None:
    """Return what this input adds, as a part, from the thread after it; None where it adds none.

    A piece of text or thinking, a call with its result, and the others whole.
    """
    part = plain_part(given)
    if part is not None:
        return part
    assert isinstance(given, Mapping), "what is no part is a chunk"
    parts = thread.open.draft.parts if thread.open else ()
    match given:
        case {"type": "text-delta", "delta": str(delta)}:
            return AgentTextPart(delta) if delta else None
        case {"type": "reasoning-delta", "delta": str(delta)}:
            return ThinkingPart(delta) if delta else None
        case {"type": str(type), "toolCallId": str(id)} if type in _TOLD and thread.open:
            at = find_tool(thread.open.draft, id)
            return parts[at] if at >= 0 else None
        case {"type": "data-subagent", "data": {"path": path}}:
            lanes = (part for part in parts if isinstance(part, SubagentPart) and part.path == tuple(path))
            return next(lanes, None)
        case {"type": str(type)} if type in _WHOLE:
            return made(given.get("data", given), _WHOLE[type])
        case _:
            return None


def plain_part(given: Input) -> AgentPart | None:
    """Return a part of a turn as it is, its JSON as the part, and None for a chunk."""
    if not isinstance(given, Mapping):
        return given
    return msgspec.convert(given, AgentPart) if given.get("type") in _PLAIN else None


def _with_draft(thread: Thread, reply: OpenReply, draft: Draft) -> Thread:
    if draft is reply.draft and reply.retry is None:
        return thread
    item = reply.item if draft.parts is reply.item.parts else reply.item.replace(parts=draft.parts)
    return thread.replace(open=OpenReply(item, draft))


def _with_item(thread: Thread, reply: OpenReply, item: ReplyItem) -> Thread:
    return thread.replace(open=OpenReply(item, reply.draft))


def _ended(thread: Thread, reply: OpenReply, chunk: Chunk) -> Thread:
    draft = with_chunk(reply.draft, chunk)
    item = reply.item.replace(parts=draft.parts)
    if chunk["type"] == "error":
        item = item.replace(error=chunk["errorText"])
    elif item.metadata is not None:
        item = _said(item, {"stoppedBy": "cancelled"})
    return thread.replace(open=OpenReply(item, draft))


def _said(item: ReplyItem, metadata: Mapping[str, Any] | None) -> ReplyItem:
    return item.replace(metadata={**(item.metadata or {}), **metadata}) if metadata else item


def _reply_item(message: Mapping[str, Any]) -> ReplyItem:
    metadata: dict[str, Any] | None = message.get("metadata")
    draft = draft_of(message["parts"])
    # Of a run that has ended nothing runs any more, whatever its last words were.
    if (metadata or {}).get("stoppedBy") not in _GOES_ON:
        draft = with_chunk(draft, {"type": "abort"})
    return ReplyItem(message["id"], draft.parts, metadata)


def _user_item(message: Mapping[str, Any]) -> UserItem:
    parts = message["parts"]
    files = [part for part in parts if part["type"] == "file"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return UserItem(message["id"], text, tuple(msgspec.convert(file, FilePart) for file in files))
