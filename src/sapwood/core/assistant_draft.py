"""The parts of one answer while it comes, and what a chunk of a server's stream does to them.

Laws: nothing is changed in place; a part that a chunk does not touch stays the same object, and so does the draft
where a chunk changes nothing; a subagent's lane is a draft of its own. `packages/react/src/draft.ts` does the same to
the same chunks: the fixtures in `packages/react/fixtures` hold both to it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from sapwood.core.assistant_parts import (
    AssistantPart,
    CompactionPart,
    ContextPart,
    FilePart,
    LedgerPart,
    LimitPart,
    OutputPart,
    SubagentPart,
    ThinkingPart,
    ToolPart,
)
from sapwood.core.parts import AgentTextPart
from sapwood.core.struct import Data

Chunk: TypeAlias = Mapping[str, Any]
"""A line of the stream, or a part of a stored message, as JSON."""
Kind: TypeAlias = Literal["text", "thinking"]
T = TypeVar("T")

SETTLED = ("done", "denied", "error", "stopped")


class Span(Data, frozen=True):
    """Where the text of one wire id begins: it may be joined with others into one part, and be taken out again."""

    id: str
    part: int
    start: int


class Draft(Data, frozen=True):
    """The parts so far. spans: of the texts. lanes: the drafts of subagents, by the path to each."""

    parts: tuple[AssistantPart, ...] = ()
    spans: tuple[Span, ...] = ()
    lanes: dict[str, "Draft"] = {}


def with_part(draft: Draft, part: AssistantPart) -> Draft:
    """Return the draft with a whole part: text joins the text before it, others are appended as they are."""
    if isinstance(part, AgentTextPart):
        return _joined(draft, "text", part.text)
    return draft.replace(parts=(*draft.parts, part))


def with_chunk(draft: Draft, chunk: Chunk) -> Draft:
    """Return the draft after this chunk; one that has nothing to do with parts leaves it as it is."""
    match chunk:
        case {"type": "text-delta", "id": str(id), "delta": str(delta)}:
            return _with_delta(draft, "text", id, delta)
        case {"type": "reasoning-delta", "id": str(id), "delta": str(delta)}:
            return _with_delta(draft, "thinking", id, delta)
        case {"type": "file"}:
            return with_part(draft, made(chunk, FilePart))
        case {"type": "data-subagent-chunk", "data": data}:
            return _with_lane_chunk(draft, data)
        case {"type": "data-subagent", "data": data}:
            return _with_lane(draft, data)
        case {"type": "data-void", "data": {"ids": ids}}:
            return _without_texts(draft, ids)
        case {"type": "abort"}:
            return _ended(draft, lambda tool: _stopped(tool, chunk.get("reason") or "stopped"))
        case {"type": "error", "errorText": str(text)}:
            return _ended(draft, lambda tool: _failed(tool, text))
        case {"type": str(type)} if type.startswith("data-") and "data" in chunk:
            return _with_note(draft, type, chunk["data"])
        case {"type": str(type), "toolCallId": str(id)}:
            return _with_tool_chunk(draft, type, id, chunk)
        case _:
            # Borders of steps and texts, and types of a later server.
            return draft


def draft_of(parts: Sequence[Chunk]) -> Draft:
    """Return the parts of a stored message as a draft."""
    draft = Draft()
    for part in parts:
        draft = _with_message_part(draft, part)
    return draft


def draft_from(parts: tuple[AssistantPart, ...]) -> Draft:
    """Return a draft that goes on after these parts."""
    lanes = {"/".join(part.path): draft_from(part.parts) for part in parts if isinstance(part, SubagentPart)}
    return Draft(parts, (), lanes)


def find_tool(draft: Draft, id: str) -> int:
    """Return the place of a call, -1 where it is not known."""
    return _find_last(draft.parts, lambda part: isinstance(part, ToolPart) and part.id == id)


def _with_message_part(draft: Draft, part: Chunk) -> Draft:
    match part:
        case {"type": "text", "text": str(text)}:
            return _joined(draft, "text", text)
        case {"type": "reasoning", "text": str(text)}:
            return _joined(draft, "thinking", text)
        case {"type": "data-void"}:
            # The server has taken them out already, and the ids of texts are not kept.
            return draft
        case {"type": str(type)} if type == "dynamic-tool" or type.startswith("tool-"):
            return with_part(draft, _stored_tool(part))
        case _:
            return with_chunk(draft, part)


def _stored_tool(stored: Chunk) -> ToolPart:
    state = stored["state"]
    by_server = stored.get("providerExecuted", False)
    approval: dict[str, Any] = stored.get("approval") or {}
    tool = ToolPart(
        stored["toolCallId"],
        stored.get("toolName") or stored["type"].removeprefix("tool-"),
        stored.get("input") or {},
        "running",
        title=stored.get("title", ""),
        provider_executed=by_server,
        external=not by_server and state != "input-streaming",
        approval_id=approval.get("id"),
    )
    match state:
        case "approval-requested":
            return tool.replace(state="waiting")
        case "output-available":
            return tool.replace(state="done", result=stored.get("output"))
        case "output-error":
            return _failed(tool, stored.get("errorText", ""))
        case "output-denied":
            return tool.replace(state="denied", is_error=True)
        case _:
            return tool


def _with_note(draft: Draft, type: str, data: Any) -> Draft:
    match type:
        case "data-approval":
            return _with_approval(draft, data)
        case "data-tool-time":
            time = {"started_at": data["startedAt"], "ms": data["ms"]}
            return patched(draft, data["toolCallId"], lambda tool: tool.replace(**time))
        case "data-context":
            return with_part(draft, made(data, ContextPart))
        case "data-compaction":
            return with_part(draft, made(data, CompactionPart))
        case "data-ledger":
            ledger = made(data, LedgerPart)
            return _put(draft, ledger, lambda part: isinstance(part, LedgerPart) and part.round == ledger.round)
        case "data-limit":
            limit = made(data, LimitPart)
            return _put(draft, limit, lambda part: isinstance(part, LimitPart) and part.name == limit.name)
        case "data-output":
            return _put(draft, made(data, OutputPart), lambda part: isinstance(part, OutputPart))
        case _:
            return draft


def made(data: Chunk, kind: type[T]) -> T:
    """Return the part of this kind that these fields describe."""
    # The fields that a later server adds are left out.
    return msgspec.convert({key: value for key, value in data.items() if key != "type"}, kind)


# -- texts -----------------------------------------------------------------------------------------


def _joined(draft: Draft, kind: Kind, text: str) -> Draft:
    if not text:
        return draft
    part = AgentTextPart if kind == "text" else ThinkingPart
    last = draft.parts[-1] if draft.parts else None
    if isinstance(last, AgentTextPart | ThinkingPart) and last.type == kind:
        return _replaced(draft, len(draft.parts) - 1, part(last.text + text))
    return draft.replace(parts=(*draft.parts, part(text)))


def _with_delta(draft: Draft, kind: Kind, id: str, delta: str) -> Draft:
    if not delta:
        return draft
    at = _find_last(draft.spans, lambda span: span.id == id)
    if at < 0:
        return _begun(draft, kind, id, delta)
    if at == len(draft.spans) - 1 and draft.spans[at].part == len(draft.parts) - 1:
        return _joined(draft, kind, delta)
    return _inserted(draft, at, delta)


def _begun(draft: Draft, kind: Kind, id: str, delta: str) -> Draft:
    last = draft.parts[-1] if draft.parts else None
    if isinstance(last, AgentTextPart | ThinkingPart) and last.type == kind:
        span = Span(id, len(draft.parts) - 1, len(last.text))
    else:
        span = Span(id, len(draft.parts), 0)
    return _joined(draft, kind, delta).replace(spans=(*draft.spans, span))


def _inserted(draft: Draft, at: int, delta: str) -> Draft:
    """Return the draft with text for an id that is not the newest: two texts may be open at once."""
    span = draft.spans[at]
    part = draft.parts[span.part]
    assert isinstance(part, AgentTextPart | ThinkingPart), "a span lies in a text"
    following = draft.spans[at + 1] if at + 1 < len(draft.spans) else None
    end = following.start if following and following.part == span.part else len(part.text)
    spans = tuple(
        other.replace(start=other.start + len(delta)) if index > at and other.part == span.part else other
        for index, other in enumerate(draft.spans)
    )
    text = part.text[:end] + delta + part.text[end:]
    return _replaced(draft, span.part, part.replace(text=text)).replace(spans=spans)


def _without_texts(draft: Draft, ids: Collection[str]) -> Draft:
    if not any(span.id in ids for span in draft.spans):
        return draft
    fresh = Draft(lanes=draft.lanes)
    for index, part in enumerate(draft.parts):
        own = [span for span in draft.spans if span.part == index]
        if not isinstance(part, AgentTextPart | ThinkingPart):
            fresh = with_part(fresh, part)
        elif any(span.id in ids for span in own) or (fresh.parts and fresh.parts[-1].type == part.type):
            fresh = _with_rest(fresh, part, own, ids)
        else:
            moved = tuple(span.replace(part=len(fresh.parts)) for span in own)
            fresh = fresh.replace(parts=(*fresh.parts, part), spans=(*fresh.spans, *moved))
    return fresh


def _with_rest(draft: Draft, part: AgentTextPart | ThinkingPart, own: list[Span], ids: Collection[str]) -> Draft:
    starts = [*(span.start for span in own), len(part.text)]
    draft = _joined(draft, part.type, part.text[: starts[0]])
    for nth, span in enumerate(own):
        if span.id not in ids:
            draft = _with_delta(draft, part.type, span.id, part.text[span.start : starts[nth + 1]])
    return draft


# -- tools -----------------------------------------------------------------------------------------


def _with_tool_chunk(draft: Draft, type: str, id: str, chunk: Chunk) -> Draft:
    match type:
        case "tool-input-start":
            title = {"title": chunk["title"]} if chunk.get("title") else {}
            return _with_call(draft, id, name=chunk["toolName"], **title)
        case "tool-input-available":
            whose = {"provider_executed": True} if chunk.get("providerExecuted") else {"external": True}
            return _with_call(draft, id, name=chunk["toolName"], args=chunk["input"], **whose)
        case "tool-approval-request":
            return patched(draft, id, lambda tool: _asked(tool, approval_id=chunk["approvalId"]))
        case "tool-output-available":
            return patched(draft, id, lambda tool: tool.replace(result=chunk["output"], state="done"))
        case "tool-output-error":
            return patched(draft, id, lambda tool: _failed(tool, chunk["errorText"]))
        case "tool-output-denied":
            return patched(draft, id, lambda tool: tool.replace(is_error=True, state="denied"))
        case _:
            return draft


def _with_call(draft: Draft, id: str, **fields: Any) -> Draft:
    if find_tool(draft, id) < 0:
        return with_part(draft, ToolPart(id, "", {}, "running").replace(**fields))
    return patched(draft, id, lambda tool: tool.replace(**fields))


def _with_approval(draft: Draft, note: dict[str, Any]) -> Draft:
    # A subagent's call stands at the top under the whole path to it, which is the id of the request.
    id = next((name for name in (note["id"], note["toolCallId"]) if find_tool(draft, name) >= 0), note["id"])
    known = draft if find_tool(draft, id) >= 0 else _with_call(draft, id, name=note["name"], args=note["input"])
    return patched(known, id, lambda tool: _asked(tool, approval_id=note["id"], approval=note))


def _asked(tool: ToolPart, **fields: Any) -> ToolPart:
    return tool.replace(**fields, state=tool.state if tool.state in SETTLED else "waiting")


def _failed(tool: ToolPart, text: str) -> ToolPart:
    return tool.replace(result=text, is_error=True, error_text=text, state="error")


def _stopped(tool: ToolPart, reason: str) -> ToolPart:
    return tool.replace(result=reason, is_error=True, state="stopped")


def _ended(draft: Draft, end: Callable[[ToolPart], ToolPart]) -> Draft:
    if not any(_is_open(part) for part in draft.parts):
        return draft
    parts = tuple(end(part) if isinstance(part, ToolPart) and _is_open(part) else part for part in draft.parts)
    return draft.replace(parts=parts)


def _is_open(part: AssistantPart) -> bool:
    return isinstance(part, ToolPart) and part.state not in SETTLED


def patched(draft: Draft, id: str, change: Callable[[ToolPart], ToolPart]) -> Draft:
    """Return the draft with one call changed; a call that is not known changes nothing."""
    at = find_tool(draft, id)
    tool = draft.parts[at] if at >= 0 else None
    return _replaced(draft, at, change(tool)) if isinstance(tool, ToolPart) else draft


# -- subagents -------------------------------------------------------------------------------------


def _with_lane_chunk(draft: Draft, data: Chunk) -> Draft:
    chunk = data["chunk"]
    key = "/".join(data["path"])
    before = draft.lanes.get(key)
    lane = with_chunk(before or Draft(), chunk)
    done = chunk["type"] in ("finish", "abort", "error")
    if lane is before and not done:
        return draft
    return _with_lane_part(draft, data, lane, done=done, error=chunk.get("errorText") if done else None)


def _with_lane(draft: Draft, data: Chunk) -> Draft:
    return _with_lane_part(draft, data, draft_of(data.get("parts", ())), done=True)


def _with_lane_part(draft: Draft, data: Chunk, lane: Draft, *, done: bool, error: str | None = None) -> Draft:
    path = tuple(data["path"])
    part = SubagentPart(path, data["agent"], lane.parts, done, error)
    kept = draft.replace(lanes={**draft.lanes, "/".join(path): lane})
    at = _find_last(kept.parts, lambda other: isinstance(other, SubagentPart) and other.path == path)
    if at >= 0:
        return _replaced(kept, at, part)
    call = find_tool(kept, "/".join(path))
    if call < 0:
        return with_part(kept, part)
    # After the call that began it: a stream tells of a lane at once, a stored message only when it has ended.
    spans = tuple(span.replace(part=span.part + 1) if span.part > call else span for span in kept.spans)
    return kept.replace(parts=(*kept.parts[: call + 1], part, *kept.parts[call + 1 :]), spans=spans)


# -- places ----------------------------------------------------------------------------------------


def _put(draft: Draft, part: AssistantPart, matches: Callable[[AssistantPart], bool]) -> Draft:
    """Return the draft with the newest part that matches replaced, or else with the part appended."""
    at = _find_last(draft.parts, matches)
    return with_part(draft, part) if at < 0 else _replaced(draft, at, part)


def _replaced(draft: Draft, at: int, part: AssistantPart) -> Draft:
    return draft.replace(parts=(*draft.parts[:at], part, *draft.parts[at + 1 :]))


def _find_last(values: Sequence[T], matches: Callable[[T], bool]) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if matches(values[at])), -1)
