"""A message of the AI SDK, built of its chunks as `useChat` builds it.

Law: what a client has at the end of a stream, and what it reads of the thread later, are the same parts.
Source: npm `ai` 6, the states of a tool part.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from sapwood.core.messages import File, Image, Message, Text
from sapwood.server.encode.chunks import (
    AnyChunk,
    Finish,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolInputAvailable,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
)

Part: TypeAlias = dict[str, Any]


class MessageBuilder:
    """The assistant's message so far. parts: in the AI SDK's form. metadata: of the last chunk that had one."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.metadata: dict[str, Any] = {}
        self._open: dict[str, Part] = {}
        self._texts: dict[str, Part] = {}
        self._tools: dict[str, Part] = {}
        self._data: dict[tuple[str, str], Part] = {}

    def add(self, chunks: Iterable[AnyChunk]) -> None:
        """Take in chunks."""
        for chunk in chunks:
            match chunk:
                case Start(message_metadata=metadata) | Finish(message_metadata=metadata):
                    if metadata is not None:
                        self.metadata.update(msgspec.to_builtins(metadata))
                case StartStep():
                    self.parts.append({"type": "step-start"})
                case TextStart(id=id):
                    self._begin(id, "text")
                case ReasoningStart(id=id):
                    self._begin(id, "reasoning")
                case TextDelta(id=id, delta=delta) | ReasoningDelta(id=id, delta=delta):
                    self._open[id]["text"] += delta
                case TextEnd(id=id) | ReasoningEnd(id=id):
                    self._open.pop(id)["state"] = "done"
                case FinishStep():
                    self._open.clear()
                case _:
                    self._tool(chunk)

    def _begin(self, id: str, kind: str) -> None:
        part: Part = {"type": kind, "text": "", "state": "streaming"}
        self.parts.append(part)
        self._open[id] = self._texts[id] = part

    def _tool(self, chunk: AnyChunk) -> None:
        match chunk:
            case ToolInputStart(tool_call_id=id, tool_name=name):
                part = {"type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": "input-streaming"}
                self._tools[id] = part
                self.parts.append(part)
            case ToolInputAvailable(tool_call_id=id, input=value):
                self._tools[id].update(state="input-available", input=value)
                if chunk.provider_executed:
                    self._tools[id]["providerExecuted"] = True
            case ToolApprovalRequest(tool_call_id=id, approval_id=approval):
                self._tools[id].update(state="approval-requested", approval={"id": approval})
            case ToolOutputAvailable(tool_call_id=id, output=value):
                self._tools[id].update(state="output-available", output=value)
            case ToolOutputError(tool_call_id=id, error_text=text):
                self._tools[id].update(state="output-error", errorText=text)
            case ToolOutputDenied(tool_call_id=id):
                self._tools[id].update(state="output-denied")
            case _:
                self._extra(msgspec.to_builtins(chunk))

    def _extra(self, chunk: Part) -> None:
        """Take in what stands as it came: files, and data parts, of which one with the id of another replaces it."""
        kind: str = chunk["type"]
        if kind == "file":
            self.parts.append(chunk)
        if not kind.startswith("data-") or chunk.get("transient"):
            return
        if kind == "data-void":
            self._take_out(chunk["data"]["ids"])
            return
        key = (kind, chunk.get("id", ""))
        if key[1] and key in self._data:
            self._data[key]["data"] = chunk["data"]
            return
        self._data[key] = chunk
        self.parts.append(chunk)

    def _take_out(self, ids: Iterable[str]) -> None:
        gone = [part for id in ids if (part := self._texts.pop(id, None)) is not None]
        self.parts = [part for part in self.parts if not any(part is other for other in gone)]


def user_message(message: Message, id: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a user's message in the AI SDK's form; what sources put beside it is left out."""
    return {"id": id, "role": "user", "parts": [*_user_parts(message)], "metadata": metadata}


def _user_parts(message: Message) -> Iterable[Part]:
    for part in message.content:
        match part:
            case Text(text=text):
                yield {"type": "text", "text": text}
            case Image() | File():
                url = part.url if part.url is not None else f"data:{part.media_type};base64,{part.data}"
                name = {"filename": part.name} if isinstance(part, File) and part.name else {}
                yield {"type": "file", "mediaType": part.media_type, "url": url, **name}
            case _:
                continue
