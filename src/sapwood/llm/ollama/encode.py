"""A ModelRequest as a request of Ollama's own chat endpoint.

Laws: the server is told how long a prompt may be, and not to cut one silently; a call is known by its name,
so results stand directly after their calls and in their order; pictures go as bytes only.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

from sapwood.core.json_object import is_object
from sapwood.core.messages import File, Image, Message, Opaque, Part, Recalled, Summary, Text, Thinking, ToolCall
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.names import wire_name
from sapwood.llm.addresses import endpoint_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import EncodedHistory, Fragment, Shape, left_out, summary_text
from sapwood.llm.openai.chat_encode import tool_block
from sapwood.llm.options import ModelOptions, reply_cap
from sapwood.llm.shapes import encode_json, join_fields, merged, own_data, with_extra

NO_OUTPUT = "(no output)"
_SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop", "seed": "seed"}
# Texts are joined inside one JSON string: templates of models expect turns to alternate.
_TEXT = Shape(b'{"role":"user","content":"', rb"\n\n", b'"}')
_ALONE = Shape()


def encode_call(
    request: ModelRequest, profile: ModelProfile, options: ModelOptions, *, base_url: str, api_key: str | None
) -> HttpCall:
    """Return the HTTP request that asks for a streamed reply. An address that ends in /v1 is the other endpoint's."""
    headers = {
        "content-type": "application/json",
        "accept": "application/x-ndjson",
        **({"authorization": f"Bearer {api_key}"} if api_key else {}),
        **options.extra_headers,
    }
    url = endpoint_url(base_url, "/api/chat", without=("/api/chat", "/v1", "/api"))
    return HttpCall(url, headers, encode_body(request, profile, options))


def encode_body(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> bytes:
    """Return the JSON body; its messages are joined from what the transcript keeps."""
    head = join_fields(_fields(request, profile, options))
    history = request.transcript.derived(
        ("ollama", profile), lambda: EncodedHistory(partial(_fragment, profile), label=_label)
    )
    notice = None
    if request.notice and request.notice.strip():
        notice = Fragment(_TEXT, encode_json(request.notice)[1:-1])
    pieces = history.pieces(request.transcript, notice=notice)
    if system := "\n\n".join(text for text in request.system if text.strip()):
        first = encode_json({"role": "system", "content": system})
        pieces = [first, b"," if any(pieces) else b"", *pieces]
    return b"".join((b"{", head, b',"messages":[', *pieces, b"]}"))


def window_of(profile: ModelProfile, options: ModelOptions) -> int:
    """Return the tokens that the server is told a prompt and its reply may take, 0 where it is left to it."""
    own = options.extra_body.get("options")
    asked = own.get("num_ctx") if is_object(own) else None
    return asked if isinstance(asked, int) else profile.context_window


def _fields(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> dict[str, bytes]:
    settings = options.sampling(_SAMPLING)
    if max_tokens := reply_cap(request, options, profile):
        settings["num_predict"] = max_tokens
    if profile.context_window:
        settings["num_ctx"] = profile.context_window
    extra = dict(options.extra_body)
    settings = merged(settings, extra.pop("options", None))
    # By default the server drops the beginning of what does not fit and says nothing of it.
    fields: dict[str, Any] = {"model": profile.model, "stream": True, "truncate": False, "shift": False}
    if settings:
        fields["options"] = settings
    if options.thinking is not None:
        fields["think"] = options.thinking if isinstance(options.thinking, str) else bool(options.thinking)
    if request.output_schema is not None:
        fields["format"] = request.output_schema
    if request.tools and request.tool_choice != "none":  # there is no other way to forbid a call
        fields["tools"] = [tool_block(tool) for tool in request.tools]
    return with_extra({name: encode_json(value) for name, value in fields.items()}, extra)


def _label(call: ToolCall) -> str:
    return wire_name(call.name)


def _fragment(profile: ModelProfile, message: Message, names: Sequence[str], ends: bool) -> Fragment | None:
    """Return a message's part of the body. names: of its calls, or of those that its results answer."""
    match message.role:
        case "user":
            return _user(profile, message)
        case "assistant":
            body = _assistant(profile, message, names)
            return None if body is None else Fragment(_ALONE, encode_json(body))
        case "tool":
            return _tool(profile, message, names)
        case _:
            assert_never(message.role)


def _user(profile: ModelProfile, message: Message) -> Fragment | None:
    # What was recalled stands before the prompt.
    ordered = sorted(message.content, key=lambda part: not isinstance(part, Recalled))
    text = "\n\n".join(word for part in ordered if (word := _words(part, profile)).strip())
    images = _images(ordered, profile)
    if images:
        return Fragment(_ALONE, encode_json({"role": "user", "content": text, "images": images}))
    return Fragment(_TEXT, encode_json(text)[1:-1]) if text else None


def _words(part: Part, profile: ModelProfile) -> str:
    """Return what a part says in words; a picture or file that cannot be sent leaves a word in its place."""
    match part:
        case Text(text=text) | Recalled(text=text) | Opaque(text=text):
            return text
        case Summary(text=text):
            return summary_text(text) if text.strip() else ""
        case Image(data=None) if profile.images:
            return "[An image is left out: this server takes no addresses.]"
        case Image():
            return "" if profile.images else left_out(part)
        case File():
            return left_out(part, reads="this server takes")
        case _:
            return ""


def _images(parts: Sequence[Part], profile: ModelProfile) -> list[str]:
    return [part.data for part in parts if isinstance(part, Image) and part.data is not None and profile.images]


def _assistant(profile: ModelProfile, message: Message, names: Sequence[str]) -> dict[str, Any] | None:
    text = "".join(word for part in message.content if (word := _words(part, profile)).strip())
    calls = [
        {"function": {"name": name, "arguments": {} if call.problem else call.arguments}}
        for call, name in zip(message.tool_calls, names, strict=True)
    ]
    images = _images(message.content, profile)
    if not text and not calls and not images:
        return None
    body: dict[str, Any] = {"role": "assistant", "content": text}
    if images:
        body["images"] = images
    if calls:
        # A model in the middle of its tools goes on from what it thought.
        if thought := _thought(message, profile):
            body["thinking"] = thought
        body["tool_calls"] = calls
    return body


def _thought(message: Message, profile: ModelProfile) -> str:
    if message.origin != profile.origin:
        return ""
    thoughts = [part for part in message.content if isinstance(part, Thinking)]
    return "".join(part.text for part in thoughts if own_data(part.provider_data, profile.provider))


def _tool(profile: ModelProfile, message: Message, names: Sequence[str]) -> Fragment | None:
    answers: list[bytes] = []
    shown: list[bytes] = []
    for result, name in zip(message.tool_results, names, strict=True):
        if not name:
            continue  # no call of this request asked for it
        text = "\n".join(word for part in result.content if (word := _words(part, profile)).strip())
        answers.append(encode_json({"role": "tool", "tool_name": name, "content": text or NO_OUTPUT}))
        if images := _images(result.content, profile):  # templates show pictures in the user's name only
            heading = f"From the result of {name}:"
            shown.append(encode_json({"role": "user", "content": heading, "images": images}))
    return Fragment(_ALONE, b",".join([*answers, *shown])) if answers else None
