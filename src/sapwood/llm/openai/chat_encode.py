"""A ModelRequest as a request of OpenAI's Chat Completions, also for servers that speak it.

Laws: one system message; a `tool` message for each call, directly after the reply that made it; what a
server gave to be returned goes back to the same model only.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

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
from sapwood.core.model import ModelProfile, ModelRequest, NamedTool, ToolChoice
from sapwood.core.names import wire_name
from sapwood.core.strict_schema import strict_schema
from sapwood.core.tools import ToolSchema
from sapwood.llm.addresses import endpoint_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import (
    EncodedHistory,
    Fragment,
    Shape,
    cache_mark,
    data_url,
    encoded_tools,
    left_out,
    summary_text,
)
from sapwood.llm.forced_choice import sendable
from sapwood.llm.options import ModelOptions, ThinkingOption, reply_cap
from sapwood.llm.shapes import encode_json, join_fields, object_in, own_data, with_extra

THINK_TAGS = "<think>"
NO_OUTPUT = "(no output)"
SAMPLING = {"temperature": "temperature", "top_p": "top_p", "stop": "stop", "seed": "seed"}
# Texts are joined inside one JSON string: a text-only message is what the simplest servers understand.
_TEXT = Shape(b'{"role":"user","content":"', rb"\n\n", b'"}')
_PARTS = Shape(b'{"role":"user","content":[', b",", b"]}")
_ALONE = Shape()


def encode_call(
    request: ModelRequest,
    profile: ModelProfile,
    options: ModelOptions,
    *,
    base_url: str,
    api_key: str | None,
    key_header: str = "",
) -> HttpCall:
    """Return the HTTP request that asks for a streamed reply."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        **key_headers(api_key, key_header),
        **options.extra_headers,
    }
    url = endpoint_url(base_url, "/chat/completions", without=("/chat/completions",))
    return HttpCall(url, headers, encode_body(request, profile, options))


def key_headers(api_key: str | None, key_header: str) -> dict[str, str]:
    """Return the header that carries the key: a bearer's, or the one that the server names."""
    if not api_key:
        return {}
    return {key_header: api_key} if key_header else {"authorization": f"Bearer {api_key}"}


def encode_body(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> bytes:
    """Return the JSON body; its messages are joined from what the transcript keeps."""
    head = join_fields(with_extra(_fields(request, profile, options), options.extra_body))
    history = request.transcript.derived(
        ("openai.chat", profile),
        lambda: EncodedHistory(partial(_fragment, profile), short_ids=profile.short_call_ids),
    )
    notice = None
    if request.notice and request.notice.strip():
        notice = Fragment(_TEXT, encode_json(request.notice)[1:-1])
    mark = cache_mark(request.cache, profile)
    end_mark = b"," + mark if mark and request.cache is not None and request.cache.messages else b""
    earlier = request.cache is None or request.cache.earlier
    pieces = history.pieces(request.transcript, mark=end_mark, notice=notice, earlier=earlier)
    if first := _system(request, profile, mark):
        pieces = [first, b"," if any(pieces) else b"", *pieces]
    return b"".join((b"{", head, b',"messages":[', *pieces, b"]}"))


def _system(request: ModelRequest, profile: ModelProfile, mark: bytes) -> bytes:
    """Return the system message; where the server wants cache marks, in parts, of which the stable one is marked."""
    plan = request.cache
    count = len(request.system) if plan is None or plan.stable is None else plan.stable
    halves = [joined for texts in (request.system[:count], request.system[count:]) if (joined := _joined(texts))]
    if not halves:
        return b""
    role = encode_json(profile.system_role)
    if not mark or plan is None or not plan.prefix or not _joined(request.system[:count]):
        return b'{"role":%b,"content":%b}' % (role, encode_json("\n\n".join(halves)))
    parts = [encode_json({"type": "text", "text": text}) for text in halves]
    return b'{"role":%b,"content":[%b]}' % (role, b",".join([parts[0][:-1] + b"," + mark + b"}", *parts[1:]]))


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text.strip())


def _fields(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> dict[str, bytes]:
    fields = {"model": encode_json(profile.model)}
    if max_tokens := reply_cap(request, options, profile):
        fields[profile.max_tokens_field] = b"%d" % max_tokens
    fields.update((name, encode_json(value)) for name, value in options.sampling(SAMPLING).items())
    if options.thinking is not None:
        fields.update((name, encode_json(value)) for name, value in _thinking(options.thinking, profile).items())
    fields["stream"] = b"true"
    if profile.stream_usage:
        fields["stream_options"] = b'{"include_usage":true}'
    if request.output_schema is not None:
        strict = strict_schema(request.output_schema)
        shape = {"name": "output", "schema": strict or request.output_schema, "strict": strict is not None}
        fields["response_format"] = encode_json({"type": "json_schema", "json_schema": shape})
    if profile.cache_key and request.cache is not None and request.cache.key:
        fields["prompt_cache_key"] = encode_json(request.cache.key)
    if request.tools:  # an empty list is refused
        tools = encoded_tools(request, "openai.chat", lambda tool: encode_json(tool_block(tool)))
        fields["tools"] = b"[%b]" % b",".join(tools)
        if request.tool_choice:
            fields["tool_choice"] = _tool_choice(
                sendable(request.tool_choice, can_force=profile.forced_tool_choice, can_name=profile.named_tool_choice),
                profile,
            )
    return fields


def _thinking(asked: ThinkingOption, profile: ModelProfile) -> dict[str, Any]:
    if profile.thinking == "switch":
        kept = {"clear_thinking": False} if asked and profile.kept_thinking else {}
        return {"thinking": {"type": "enabled" if asked else "disabled", **kept}}
    if profile.thinking == "any":
        name = "enabled" if isinstance(asked, bool) else "effort" if isinstance(asked, str) else "max_tokens"
        return {"reasoning": {name: asked}}
    if asked is False:
        return {"reasoning_effort": "none"}
    return {"reasoning_effort": asked if isinstance(asked, str) else "medium"}


def _tool_choice(choice: ToolChoice, profile: ModelProfile) -> bytes:
    if isinstance(choice, NamedTool):
        return encode_json({"type": "function", "function": {"name": wire_name(choice.name)}})
    return encode_json(profile.forced_word if choice == "any" else choice)


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
    parts = sorted(
        message.content, key=lambda part: not isinstance(part, Recalled)
    )  # what was recalled stands before the prompt
    blocks = [block for part in parts if (block := _input_block(profile, part)) is not None]
    if not blocks:
        return None
    if profile.cache_marks:
        return _markable(_PARTS, blocks)
    if all(block["type"] == "text" for block in blocks):
        text = "\n\n".join(block["text"] for block in blocks)
        return Fragment(_TEXT, encode_json(text)[1:-1])
    return Fragment(_PARTS, encode_json(blocks)[1:-1])


def _markable(shape: Shape, blocks: list[dict[str, Any]]) -> Fragment:
    """Return a message in parts, the last of which can take a cache mark."""
    body = encode_json(blocks)[1:-1]
    return Fragment(shape, body, len(body) - 1, len(blocks))


def _input_block(profile: ModelProfile, part: Any) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Recalled(text=text):
            return {"type": "text", "text": text} if text.strip() else None
        case Summary(text=text):
            return {"type": "text", "text": summary_text(text)} if text.strip() else None
        case Image():
            return _image(part, profile)
        case File():
            return _file(part, profile)
        case _:
            return None


def _image(part: Image, profile: ModelProfile) -> dict[str, Any]:
    if not profile.images:
        return {"type": "text", "text": left_out(part)}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _file(part: File, profile: ModelProfile) -> dict[str, Any]:
    if not profile.files:
        return {"type": "text", "text": left_out(part)}
    if part.data is None:
        return {"type": "text", "text": left_out(part, reads="this server fetches")}
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}


def _assistant(profile: ModelProfile, message: Message, ids: Sequence[str], ends: bool) -> dict[str, Any] | None:
    # What only another provider understands leaves its text here, such as a summary that it made.
    shown = [
        part.text
        for part in message.content
        if isinstance(part, Text | Recalled | Summary)
        or (isinstance(part, Opaque) and not own_data(part.provider_data, profile.provider))
    ]
    text = "".join(text for text in shown if text.strip())
    is_own = message.origin == profile.origin
    calls = [
        _call(call, own_data(call.provider_data, profile.provider) if is_own else {}, id)
        for call, id in zip(message.tool_calls, ids, strict=True)
    ]
    if not text and not calls:
        return None
    if ends and not calls:
        text = text.rstrip()
    body: dict[str, Any] = {"role": "assistant", "content": text or None}
    if is_own:
        body.update(_returned(message, profile, text))
    if profile.returned_thinking and profile.returned_thinking != THINK_TAGS:
        body.setdefault(profile.returned_thinking, "")  # a reply without it is refused once tools were used
    if calls:
        body["tool_calls"] = calls
    return body


def _call(call: ToolCall, own: dict[str, Any], id: str) -> dict[str, Any]:
    arguments = {} if call.problem else call.arguments
    function = {"name": wire_name(call.name), "arguments": encode_json(arguments).decode()}
    block: dict[str, Any] = {"id": id, "type": "function", "function": function}
    extra = object_in(own, "extra_content")
    return {**block, "extra_content": extra} if extra else block


def _returned(message: Message, profile: ModelProfile, text: str) -> dict[str, Any]:
    """Return what the model's server gave to be sent back beside the text."""
    fields: dict[str, Any] = {}
    for part in message.content:
        match part:
            case Thinking():
                own = own_data(part.provider_data, profile.provider)
                if profile.returned_thinking == THINK_TAGS and part.text.strip():
                    fields["content"] = f"<think>\n{part.text}\n</think>\n\n{text}"
                elif own.get("field") == "reasoning_content":
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
        text = result.text if result.text.strip() else NO_OUTPUT
        content = [{"type": "text", "text": text}] if profile.cache_marks else text
        answers.append(encode_json({"role": "tool", "tool_call_id": id, "content": content}))
        shown += _shown(result, profile)
    if shown:  # a tool message holds text only, so pictures follow in the user's name
        answers.append(encode_json({"role": "user", "content": shown}))
    if not answers:
        return None
    body = b",".join(answers)
    mark_at = len(body) - len(b"}]}") if profile.cache_marks or shown else -1
    return Fragment(_ALONE, body, mark_at, len(answers))


def _shown(result: ToolResult, profile: ModelProfile) -> list[dict[str, Any]]:
    parts = [part for part in result.content if not isinstance(part, Text)]
    blocks = [block for part in parts if (block := _input_block(profile, part)) is not None]
    heading = {"type": "text", "text": f"From the result of {wire_name(result.name)}:"}
    return [heading, *blocks] if blocks else []
