"""A ModelRequest as a request of OpenAI's Chat Completions, also for servers that speak it.

Laws: one system message; a `tool` message for each call, directly after the reply that made it; what a
server gave to be returned goes back to the same model only.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec

from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import ModelProfile, ModelRequest, ToolChoice
from sapwood.core.names import wire_name
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import is_blank
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import EncodedHistory, Fragment, Shape, summary_text
from sapwood.llm.shapes import encode_extra, encode_json, join_fields, own_data

DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_OUTPUT = "(no output)"
# Texts are joined inside one JSON string: a text-only message is what the simplest servers understand.
_TEXT = Shape(b'{"role":"user","content":"', rb"\n\n", b'"}')
_PARTS = Shape(b'{"role":"user","content":[', b",", b"]}")
_ALONE = Shape()


class ChatOptions(msgspec.Struct, frozen=True):
    """What a provider object adds to every request.

    max_tokens: the reply's cap where the request names none. extra_body: further fields of the body; they
    replace ours, and None takes one of ours away. extra_headers: further headers.
    """

    max_tokens: int | None = None
    extra_body: Mapping[str, Any] = {}
    extra_headers: Mapping[str, str] = {}


def encode_call(
    request: ModelRequest,
    profile: ModelProfile,
    options: ChatOptions,
    *,
    base_url: str,
    api_key: str | None,
) -> HttpCall:
    """Return the HTTP request that asks for a streamed reply."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        **({"authorization": f"Bearer {api_key}"} if api_key else {}),
        **options.extra_headers,
    }
    root = base_url.rstrip("/").removesuffix("/chat/completions")
    return HttpCall(f"{root}/chat/completions", headers, encode_body(request, profile, options))


def encode_body(request: ModelRequest, profile: ModelProfile, options: ChatOptions) -> bytes:
    """Return the JSON body; its messages are joined from what the transcript keeps."""
    fields = _fields(request, profile, options)
    fields.update(encode_extra(options.extra_body))
    for name, value in options.extra_body.items():
        if value is None:
            del fields[name]
    head = join_fields(fields)
    history = request.transcript.derived(("openai.chat", profile), lambda: EncodedHistory(partial(_fragment, profile)))
    notice = None
    if request.notice and request.notice.strip():
        notice = Fragment(_TEXT, encode_json(request.notice)[1:-1])
    pieces = history.pieces(request.transcript, notice=notice)
    system = "\n\n".join(text for text in request.system if text.strip())
    if system:
        first = encode_json({"role": profile.system_role, "content": system})
        pieces = [first, b"," if any(pieces) else b"", *pieces]
    return b"".join((b"{", head, b',"messages":[', *pieces, b"]}"))


def _fields(request: ModelRequest, profile: ModelProfile, options: ChatOptions) -> dict[str, bytes]:
    fields = {"model": encode_json(profile.model)}
    if max_tokens := request.max_tokens or options.max_tokens:
        fields[profile.max_tokens_field] = b"%d" % max_tokens
    fields["stream"] = b"true"
    fields["stream_options"] = b'{"include_usage":true}'
    if request.tools:  # an empty list is refused
        fields["tools"] = encode_json([tool_block(tool) for tool in request.tools])
        if request.tool_choice:
            fields["tool_choice"] = _tool_choice(request.tool_choice, profile)
    return fields


def _tool_choice(choice: ToolChoice, profile: ModelProfile) -> bytes:
    if choice == "any":
        return b'"required"' if profile.forced_tool_choice else b'"auto"'
    return encode_json(choice)


def tool_block(tool: ToolSchema) -> dict[str, Any]:
    """Return one entry of `tools`."""
    description = tool.description
    for example in tool.input_examples:
        description += f"\nExample input: {encode_json(example).decode()}"
    function: dict[str, Any] = {"name": wire_name(tool.name)}
    if description.strip():
        function["description"] = description
    function["parameters"] = tool.input_schema
    return {"type": "function", "function": function}


def _fragment(profile: ModelProfile, message: Message, ids: Sequence[str], ends: bool) -> Fragment | None:
    """Return a message's part of the body. ends: it is the last of the request."""
    match message.role:
        case "user":
            return _user(profile, message)
        case "assistant":
            body = _assistant(profile, message, ids, ends)
            return None if body is None else Fragment(_ALONE, encode_json(body))
        case "tool":
            return _tool(profile, message, ids)
        case _:
            assert_never(message.role)


def _user(profile: ModelProfile, message: Message) -> Fragment | None:
    parts = [part for part in message.content if not is_blank(part)]
    parts.sort(key=lambda part: not isinstance(part, Recalled))  # what was recalled stands before the prompt
    blocks = [block for part in parts if (block := _input_block(profile, part)) is not None]
    if not blocks:
        return None
    if all(block["type"] == "text" for block in blocks):
        text = "\n\n".join(block["text"] for block in blocks)
        return Fragment(_TEXT, encode_json(text)[1:-1])
    return Fragment(_PARTS, encode_json(blocks)[1:-1])


def _input_block(profile: ModelProfile, part: Any) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Recalled(text=text):
            return {"type": "text", "text": text}
        case Summary(text=text):
            return {"type": "text", "text": summary_text(text)}
        case Image():
            return _image(part, profile)
        case File():
            return _file(part, profile)
        case _:
            return None


def _image(part: Image, profile: ModelProfile) -> dict[str, Any]:
    if not profile.images:
        return {"type": "text", "text": "[An image is left out: this model reads no images.]"}
    url = part.url if part.data is None else f"data:{part.media_type};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url or ""}}


def _file(part: File, profile: ModelProfile) -> dict[str, Any]:
    if not profile.files or part.data is None:
        name = part.name or part.url or "A file"
        return {"type": "text", "text": f"[{name} is left out: this model reads no files of this kind.]"}
    data = f"data:{part.media_type};base64,{part.data}"
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data}}


def _assistant(profile: ModelProfile, message: Message, ids: Sequence[str], ends: bool) -> dict[str, Any] | None:
    text = "".join(
        part.text for part in message.content if isinstance(part, Text | Recalled | Summary) and not is_blank(part)
    )
    calls = [_call(call, profile, id) for call, id in zip(message.tool_calls, ids, strict=True)]
    if not text and not calls:
        return None
    if ends and not calls:
        text = text.rstrip()
    body: dict[str, Any] = {"role": "assistant", "content": text or None}
    if message.origin == profile.origin:
        body.update(_returned(message, profile, text))
    if calls:
        body["tool_calls"] = calls
    return body


def _call(call: ToolCall, profile: ModelProfile, id: str) -> dict[str, Any]:
    arguments = {} if call.problem else call.arguments
    function = {"name": wire_name(call.name), "arguments": encode_json(arguments).decode()}
    block: dict[str, Any] = {"id": id, "type": "function", "function": function}
    return {**block, **own_data(call.provider_data, profile.provider)}


def _returned(message: Message, profile: ModelProfile, text: str) -> dict[str, Any]:
    """Return what the model's server gave to be sent back beside the text."""
    fields: dict[str, Any] = {}
    for part in message.content:
        match part:
            case Thinking():
                own = own_data(part.provider_data, profile.provider)
                if own.get("field") == "reasoning_content":
                    fields["reasoning_content"] = fields.get("reasoning_content", "") + part.text
                elif own.get("field") == "content":
                    thought = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
                    fields["content"] = [thought, {"type": "text", "text": text}] if text else [thought]
                if details := own.get("reasoning_details"):
                    fields["reasoning_details"] = details
            case Opaque(kind="message"):
                fields.update(own_data(part.provider_data, profile.provider))
            case _:
                pass
    return fields


def _tool(profile: ModelProfile, message: Message, ids: Sequence[str]) -> Fragment | None:
    answers: list[bytes] = []
    shown: list[dict[str, Any]] = []
    for result, id in zip(message.tool_results, ids, strict=True):
        if not id:
            continue  # no call of this request asked for it
        text = result.text
        answers.append(
            encode_json(
                {"role": "tool", "tool_call_id": id, "content": text if text.strip() else NO_OUTPUT},
            )
        )
        shown += _shown(result, profile)
    if shown:  # a tool message holds text only, so pictures follow in the user's name
        answers.append(encode_json({"role": "user", "content": shown}))
    return Fragment(_ALONE, b",".join(answers)) if answers else None


def _shown(result: ToolResult, profile: ModelProfile) -> list[dict[str, Any]]:
    parts = [part for part in result.content if not isinstance(part, Text)]
    blocks = [block for part in parts if (block := _input_block(profile, part)) is not None]
    heading = {"type": "text", "text": f"From the result of {wire_name(result.name)}:"}
    return [heading, *blocks] if blocks else []
