"""Streams of AG-UI, checked: every event against the protocol's own models, and the order that its client insists on."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

from sapwood.core.events import AgentEvent
from sapwood.server.encode.ag_ui import AgUiEncoder

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)
_PAIRS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("thought", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
_ENDS = {
    "TEXT_MESSAGE_END": "text",
    "REASONING_END": "span",
    "REASONING_MESSAGE_END": "thought",
    "TOOL_CALL_END": "call",
    "STEP_FINISHED": "step",
    "SUBAGENT_FINISHED": "subagent",
    "SUBAGENT_ERROR": "subagent",
}
_KEYS = dict(_PAIRS.values())


def told(
    events: Iterable[AgentEvent], encoder: AgUiEncoder, *, earlier: Iterable[AgentEvent] = (), at: float = 1.0
) -> list[dict[str, Any]]:
    """Encode a whole segment, check it, and return its events as the client reads them."""
    for event in earlier:
        encoder.skip(event, at)
    texts = [text for event in events for text in encoder.encode(event, at)] + encoder.close()
    return checked(texts)


def checked(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Check JSON texts, and return what they hold."""
    found = [json.loads(text) for text in texts]
    for item in found:
        model = _EVENT.validate_python(item)
        assert not _unknown(model), f"fields that the protocol has not: {_unknown(model)} in {item}"
    assert_closed(found)
    return found


def assert_closed(found: Sequence[dict[str, Any]]) -> None:
    """Hold a stream to its order: begun once, all that is opened closed, nothing after the end."""
    kinds = [item["type"] for item in found]
    assert kinds[0] in ("RUN_STARTED", "RUN_ERROR")
    assert kinds[-1] in ("RUN_FINISHED", "RUN_ERROR")
    assert Counter(kinds)["RUN_STARTED"] <= 1
    assert Counter(kinds)["RUN_FINISHED"] + Counter(kinds)["RUN_ERROR"] == 1
    open_now: set[tuple[str, str, str]] = set()
    for item in found:
        owner = "" if item["type"].startswith("SUBAGENT") else item.get("subagentRunId", "")
        if item["type"] in _PAIRS:
            kind, key = _PAIRS[item["type"]]
            assert (kind, owner, item[key]) not in open_now, f"{item} is open already"
            open_now.add((kind, owner, item[key]))
        elif item["type"] in _ENDS:
            kind = _ENDS[item["type"]]
            open_now.remove((kind, owner, item[_KEYS[kind]]))
    assert kinds[-1] == "RUN_ERROR" or not open_now


def _unknown(model: Any) -> list[str]:
    names = list(model.model_extra or ())
    for value in vars(model).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                names += _unknown(item)
    return names


class Client:
    """What a client holds after a stream: messages and state, by the rules of the protocol."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}

    def read(self, found: Iterable[dict[str, Any]]) -> "Client":
        """Apply events."""
        for item in found:
            self._apply(item)
        return self

    def texts(self) -> list[tuple[str, str]]:
        """The roles and the texts."""
        return [(item["role"], item.get("content", "")) for item in self.messages]

    def _message(self, id: str, role: str) -> dict[str, Any]:
        for item in self.messages:
            if item["id"] == id:
                return item
        self.messages.append({"id": id, "role": role})
        return self.messages[-1]

    def _apply(self, item: dict[str, Any]) -> None:
        match item["type"]:
            case "TEXT_MESSAGE_CONTENT":
                message = self._message(item["messageId"], "assistant")
                message["content"] = message.get("content", "") + item["delta"]
            case "REASONING_MESSAGE_CONTENT":
                message = self._message(item["messageId"], "reasoning")
                message["content"] = message.get("content", "") + item["delta"]
            case "TOOL_CALL_START":
                message = self._message(item["parentMessageId"], "assistant")
                message.setdefault("toolCalls", []).append(item["toolCallId"])
            case "TOOL_CALL_RESULT":
                self._message(item["messageId"], "tool")["content"] = item["content"]
            case "STATE_SNAPSHOT":
                self.state = item["snapshot"]
            case "MESSAGES_SNAPSHOT":
                self._replace(item["messages"])

    def _replace(self, given: list[dict[str, Any]]) -> None:
        by_id = {item["id"]: item for item in given}
        has_reasoning = any(item["role"] == "reasoning" for item in given)
        kept = [
            by_id.get(item["id"], item)
            for item in self.messages
            if item["id"] in by_id or (item["role"] == "reasoning" and not has_reasoning)
        ]
        known = {item["id"] for item in kept}
        self.messages = [*kept, *(item for item in given if item["id"] not in known)]
