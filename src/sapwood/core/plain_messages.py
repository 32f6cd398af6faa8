"""Messages in other people's words: dictionaries in the form of Anthropic or OpenAI -> our messages.

Laws: nothing is lost without a word: what cannot be understood is refused with the value and the way out;
the dictionaries are not changed and not kept.
"""

import base64
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeGuard, cast

from sapwood.core.errors import ConfigError
from sapwood.core.json_object import read_object
from sapwood.core.messages import File, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult

UNTOLD_ANTHROPIC = "anthropic/"
"""The origin of Anthropic's own blocks in a dictionary, which does not tell the model that made them: whoever passes
them in vouches that they belong to the model that is asked."""


def from_plain(value: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages that one dictionary stands for; results in it become a message of their own.

    Raises ConfigError for a role or a block that is not known.

    >>> from_plain({"role": "user", "content": "hi"})[0].text
    'hi'
    """
    role: Any = value.get("role")
    content: Any = value.get("content")
    if role in ("system", "developer"):
        raise ConfigError(
            f"a message of role {role!r} cannot stand in the history; give it as the system prompt instead "
            "(with_system_prompt(...) or system=...)"
        )
    if role == "tool":
        key = str(value.get("tool_call_id", ""))
        return (Message("tool", (ToolResult(key, "", _result_content(content)),)),)
    if role not in ("user", "assistant"):
        raise ConfigError(f"role must be user, assistant or tool, not {role!r}")
    parts = [_part(block) for block in _blocks(content)]
    if role == "assistant":
        if refusal := value.get("refusal"):
            parts.append(Text(str(refusal)))
        parts.extend(_openai_call(call) for call in _calls(value))
        signed = any(isinstance(part, Thinking | Opaque) for part in parts)
        return (Message("assistant", tuple(parts), UNTOLD_ANTHROPIC if signed else None),)
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    rest = tuple(part for part in parts if not isinstance(part, ToolResult))
    groups = (Message("tool", results) if results else None, Message("user", rest) if rest else None)
    return tuple(message for message in groups if message is not None)


def _calls(value: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    calls: Any = value.get("tool_calls") or ()
    if value.get("function_call") is not None:
        raise ConfigError("function_call is the old form of a tool call; give tool_calls instead")
    if not is_listing(calls):
        raise ConfigError(f"tool_calls must be a list, not {type(calls).__name__}")
    for call in calls:
        if not isinstance(call, Mapping):
            raise ConfigError(f"a tool call must be a dictionary, not {type(call).__name__}")
    return cast("Sequence[Mapping[str, Any]]", calls)  # each was looked at


def _blocks(content: Any) -> Sequence[Mapping[str, Any]]:
    if content is None:
        return ()
    if isinstance(content, str):
        return ({"type": "text", "text": content},) if content else ()
    if is_listing(content):
        return [_block(item) for item in content]
    raise ConfigError(f"content must be a text or a list of blocks, not {type(content).__name__}")


def is_listing(content: Any) -> TypeGuard[Sequence[Any]]:
    """Tell whether this is a list or a tuple, of anything.

    >>> is_listing(["a"]), is_listing("a")
    (True, False)
    """
    return isinstance(content, list | tuple)


def _block(item: Any) -> Mapping[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if isinstance(item, Mapping):
        return cast("Mapping[str, Any]", item)
    raise ConfigError(f"a content block must be a text or a dictionary, not {type(item).__name__}")


def _part(block: Mapping[str, Any]) -> Part:
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(
                text, {"anthropic": {"signature": block.get("signature")}} if block.get("signature") else None
            )
        case {"type": "tool_use", "name": str(name)}:
            return ToolCall(name, _arguments(name, block.get("input")), id=str(block.get("id", "")))
        case {"type": "tool_result"}:
            content = _result_content(block.get("content"))
            return ToolResult(str(block.get("tool_use_id", "")), "", content, is_error=bool(block.get("is_error")))
        case {"type": "image", "source": {"type": "base64", "data": str(data), "media_type": str(kind)}}:
            return Image(data, kind)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return Image(url=url)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _image_url(url)
        case {"type": "image_url", "image_url": str(url)}:
            return _image_url(url)
        case {"type": "file", "file": {"file_data": str(data)} as file}:
            return _file(data, file.get("filename"))
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
            return File(encoded, "text/plain", name=block.get("title"))
        case {"type": "document", "source": {"type": "base64", "data": str(data), "media_type": str(kind)}}:
            return File(data, kind, name=block.get("title"))
        case {"type": "document", "source": {"type": "url", "url": str(url)}}:
            return File(url=url, name=block.get("title"))
        case {"type": "text" | "image" | "image_url" | "file" | "input_audio" | "input_image" | "input_file" as kind}:
            raise ConfigError(
                f"a content block of type {kind!r} with the keys {sorted(block)} is not understood; "
                "give Text, Image or File from sapwood instead"
            )
        case {"type": str(kind)}:
            return Opaque(kind, {"anthropic": deepcopy(dict(block))})
        case _:
            raise ConfigError(f"a content block needs a type; got keys {sorted(block)}")


def _arguments(name: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ConfigError(f"the input of the tool_use {name!r} must be an object, not {type(given).__name__}")
    return deepcopy(cast("dict[str, Any]", given))  # a JSON object has text keys


def _file(data: str, name: Any) -> File:
    head, _, encoded = data.partition(";base64,")
    kind = head.removeprefix("data:") if encoded else "application/pdf"
    return File(encoded or data, kind, name=str(name) if name else None)


def _image_url(url: str) -> Image:
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return Image(data, head.removeprefix("data:"))
    return Image(url=url)


def _result_content(content: Any) -> tuple[Text | Image | File, ...]:
    parts = [_part(block) for block in _blocks(content)]
    shown = tuple(part for part in parts if isinstance(part, Text | Image | File))
    return shown or (Text("(no content)"),)


def _openai_call(call: Mapping[str, Any]) -> ToolCall:
    function: Any = call.get("function")
    match function:
        case {"name": str(name)}:
            raw = function.get("arguments") or "{}"
        case _:
            raise ConfigError(f"a tool call needs a function with a name; got {dict(call)!r:.300}")
    id = str(call.get("id", ""))
    found = read_object(raw) if isinstance(raw, str) else raw
    if isinstance(found, dict):
        return ToolCall(name, deepcopy(cast("dict[str, Any]", found)), id=id)
    return ToolCall(name, {}, id=id, raw=str(raw), problem=found if isinstance(raw, str) else "not_an_object")
