"""The messages that an AG-UI client holds of a run, kept for snapshots.

Laws: a snapshot takes out of the client what it does not name, so it names all that the client has; an id is a
function of the run, the path and the round, so that a resumed stream names the same messages.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from sapwood.core.messages import File, Image, Message, ResultPart, Text

AgUiMessage: TypeAlias = dict[str, Any]
AgUiPart: TypeAlias = dict[str, Any]


class ClientMessages:
    """What the client has, as far as this run goes. posted: what it held before."""

    def __init__(self, run_id: str, posted: Sequence[AgUiMessage] = ()) -> None:
        self._run_id = run_id
        self._own: dict[str, AgUiMessage] = {}
        self._posted = tuple(posted)
        self._posted_ids = frozenset(str(item.get("id")) for item in posted)

    def reply_id(self, path: Sequence[str], round: int) -> str:
        """Return the id of the reply of a round."""
        return f"{'/'.join((self._run_id, *path))}:{round}"

    def has_stale(self, id: str) -> bool:
        """Tell whether the client holds a part of a message that this run does not know, as a crash cut it off."""
        return id in self._posted_ids and id not in self._own

    def add_prompt(self, message: Message) -> None:
        """Note the user's message, where the client did not post one."""
        if not self._posted:
            parts = [part for part in message.content if isinstance(part, Text | Image | File)]
            self._add(f"{self._run_id}:prompt", "user", "", content=content_of(message.text, parts))

    def open_text(self, id: str, owner: str) -> None:
        """Note a reply whose text begins."""
        self._add(id, "assistant", owner).setdefault("content", "")

    def open_thinking(self, id: str, owner: str) -> None:
        """Note that the model begins to think."""
        self._add(id, "reasoning", owner).setdefault("content", "")

    def write(self, id: str, text: str) -> None:
        """Note the text of a message so far."""
        self._own[id]["content"] = text

    def add_call(self, reply: str, owner: str, id: str, name: str, arguments: str) -> None:
        """Note a call of a reply."""
        made = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        self._add(reply, "assistant", owner).setdefault("toolCalls", []).append(made)

    def add_result(self, id: str, owner: str, call: str, content: Any, *, error: str | None) -> None:
        """Note what a call returned. error: what is shown of its failure."""
        more = {} if error is None else {"error": error}
        self._add(id, "tool", owner, toolCallId=call, content=content, **more)

    def void(self, id: str) -> None:
        """Take out the text of a reply that began anew."""
        message = self._own.get(id)
        if message is None:
            return
        others = any(item["role"] == "reasoning" and item is not message for item in self.all())
        # A client keeps its reasoning where a snapshot names none, so the last one is emptied instead.
        if message.get("toolCalls") or (message["role"] == "reasoning" and not others):
            message["content"] = ""
        else:
            del self._own[id]

    def all(self) -> Iterator[AgUiMessage]:
        """Yield the messages of a snapshot: what the client held before, and this run's."""
        prefixes = (f"{self._run_id}:", f"{self._run_id}/")
        for item in self._posted:
            if not str(item.get("id")).startswith(prefixes):
                yield item
        yield from self._own.values()

    def _add(self, id: str, role: str, owner: str, **more: Any) -> AgUiMessage:
        if id not in self._own:
            tag = {"subagentRunId": owner} if owner else {}
            self._own[id] = {"id": id, "role": role, **tag, **more}
        return self._own[id]


def content_of(text: str, parts: Sequence[ResultPart]) -> str | list[AgUiPart]:
    """Return a content: plain text where there is nothing else.

    >>> content_of("hello", [])
    'hello'
    """
    if all(isinstance(part, Text) for part in parts):
        return text
    shown: list[AgUiPart] = []
    for part in parts:
        match part:
            case Text(text=text):
                shown.append({"type": "text", "text": text})
            case Image():
                shown.append({"type": "image", "source": _source(part)})
            case File():
                shown.append({"type": "document", "source": _source(part)})
    return shown


def _source(part: Image | File) -> AgUiPart:
    if part.data is not None:
        return {"type": "data", "value": part.data, "mimeType": part.media_type}
    return {"type": "url", "value": part.url or "", "mimeType": part.media_type}
