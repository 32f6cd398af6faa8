"""A ModelRequest as a request of Google's Gemini API, at Google or on Vertex.

Laws: a signature goes back byte for byte in the part that brought it, to the model that made it, or not at
all; the results of a round stand together, before any text, in the order of their calls; the contents begin
with the user; no blank text is sent without a signature.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, assert_never
from urllib.parse import quote

from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_object
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    ResultPart,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import ModelProfile, ModelRequest, NamedTool, ToolChoice
from sapwood.core.tools import ToolSchema
from sapwood.llm.addresses import endpoint_url, root_of
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import EncodedHistory, Fragment, Shape, encoded_tools, left_out, summary_text
from sapwood.llm.forced_choice import sendable
from sapwood.llm.gemini.names import gemini_name, is_kept
from sapwood.llm.options import ModelOptions, ThinkingOption, reply_cap
from sapwood.llm.shapes import encode_json, join_fields, merged, own_data, text_in, with_extra

NO_OUTPUT = "(no output)"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google's documentation gives for a call that another model made."""
BEGINNING = b'{"role":"user","parts":[{"text":"(The beginning of this conversation is left out.)"}]}'
_SAMPLING = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "stop": "stopSequences", "seed": "seed"}
_USER = Shape(b'{"role":"user","parts":[', b",", b"]}")
_MODEL = Shape(b'{"role":"model","parts":[', b",", b"]}")
_MODES = {"auto": "AUTO", "any": "ANY", "none": "NONE"}
_OF_CACHE = ("systemInstruction", "tools", "toolConfig")
_COUNTED = ("systemInstruction", "tools")
_IMAGE_TYPES = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".heic": "image/heic",
    ".heif": "image/heif",
}


def encode_call(
    request: ModelRequest,
    profile: ModelProfile,
    options: ModelOptions,
    *,
    base_url: str,
    api_key: str | None,
    platform: str = "",
) -> HttpCall:
    """Return the HTTP request that asks for a streamed reply."""
    url = _url(base_url, profile.model, "streamGenerateContent?alt=sse", platform)
    headers = {**_headers(api_key, platform), "accept": "text/event-stream", **options.extra_headers}
    return HttpCall(url, headers, encode_body(request, profile, options))


def count_call(
    request: ModelRequest,
    profile: ModelProfile,
    options: ModelOptions,
    *,
    base_url: str,
    api_key: str | None,
    platform: str = "",
) -> HttpCall:
    """Return the HTTP request that asks how many tokens a request would take."""
    fields = _fields(request, profile, options)
    body = _object({name: fields[name] for name in _COUNTED if name in fields}, _contents(request, profile))
    if not platform:
        model = encode_json(_path(profile.model))
        body = b'{"generateContentRequest":{"model":%b,%b}' % (model, body[1:])
    url = _url(base_url, profile.model, "countTokens", platform)
    return HttpCall(url, {**_headers(api_key, platform), **options.extra_headers}, body)


def encode_body(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> bytes:
    """Return the JSON body; its contents are joined from what the transcript keeps."""
    return _object(_fields(request, profile, options), _contents(request, profile))


def _url(base_url: str, model: str, verb: str, platform: str) -> str:
    if platform == "vertex":
        return endpoint_url(base_url, f"/publishers/google/models/{quote(model, safe='@:')}:{verb}")
    version = "" if root_of(base_url).endswith(("/v1", "/v1beta", "/v1alpha")) else "/v1beta"
    return endpoint_url(base_url, f"{version}/{quote(_path(model), safe='/@:')}:{verb}")


def _path(model: str) -> str:
    return model if "/" in model else f"models/{model}"


def _headers(api_key: str | None, platform: str) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    if api_key:
        headers |= {"authorization": f"Bearer {api_key}"} if platform == "vertex" else {"x-goog-api-key": api_key}
    return headers


def _object(fields: dict[str, bytes], contents: list[bytes]) -> bytes:
    head = join_fields(fields)
    return b"".join((b"{", head, b"," if head else b"", b'"contents":[', *contents, b"]}"))


def _contents(request: ModelRequest, profile: ModelProfile) -> list[bytes]:
    history = request.transcript.derived(
        ("gemini", profile),
        lambda: EncodedHistory(partial(_fragment, profile), label=partial(_label, profile)),
    )
    notice = None
    if request.notice and request.notice.strip():
        notice = Fragment(_USER, encode_json({"text": request.notice}))
    pieces = history.pieces(request.transcript, notice=notice)
    first = next(filter(None, pieces), b"")
    return [BEGINNING, b",", *pieces] if first.startswith(_MODEL.open) else pieces


def _fields(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    if system := [{"text": text} for text in request.system if text.strip()]:
        fields["systemInstruction"] = encode_json({"parts": system})
    if request.tools:
        declared = encoded_tools(request, "gemini", lambda tool: encode_json(declaration(tool)))
        fields["tools"] = b'[{"functionDeclarations":[%b]}]' % b",".join(declared)
        if request.tool_choice:
            choice = sendable(request.tool_choice, can_force=profile.forced_tool_choice)
            fields["toolConfig"] = encode_json({"functionCallingConfig": _calling(choice)})
    extra = dict(options.extra_body)
    own = extra.pop("generationConfig", {})
    config = _config(request, profile, options)
    if is_object(own):
        config = merged(config, own)
    else:
        extra["generationConfig"] = own
    if config:
        fields["generationConfig"] = encode_json(config)
    fields = with_extra(fields, extra)
    if "cachedContent" in fields:  # what is cached already must not be sent again
        fields = {name: value for name, value in fields.items() if name not in _OF_CACHE}
    return fields


def _calling(choice: ToolChoice) -> dict[str, Any]:
    if isinstance(choice, NamedTool):
        return {"mode": _MODES["any"], "allowedFunctionNames": [gemini_name(choice.name)]}
    return {"mode": _MODES[choice]}


def _config(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if max_tokens := reply_cap(request, options, profile):
        config["maxOutputTokens"] = max_tokens
    config |= options.sampling(_SAMPLING)
    if options.thinking is not None:
        config["thinkingConfig"] = _thinking(options.thinking, profile)
    if request.output_schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": request.output_schema}
    return config


def _thinking(asked: ThinkingOption, profile: ModelProfile) -> dict[str, Any]:
    """Return how thinking is asked for; models with levels cannot stop, so False is the lowest that all have."""
    if asked is True:
        return {"includeThoughts": True} | ({"thinkingBudget": -1} if profile.thinking == "budget" else {})
    if asked is False:
        return {"thinkingLevel": "low"} if profile.thinking == "level" else {"thinkingBudget": 0}
    if isinstance(asked, str):
        return {"includeThoughts": True, "thinkingLevel": asked}
    return {"includeThoughts": asked != 0, "thinkingBudget": asked}


def declaration(tool: ToolSchema) -> dict[str, Any]:
    """Return one function that the model may call.

    Raises ConfigError for a name that cannot be had back from Gemini.
    """
    if not is_kept(tool.name):
        raise ConfigError(f"Gemini takes no tool named {tool.name!r}; begin its name with a letter, or shorten it")
    description = tool.description
    for example in tool.input_examples:
        description += f"\nExample input: {encode_json(example).decode()}"
    declared: dict[str, Any] = {"name": gemini_name(tool.name)}
    if description.strip():
        declared["description"] = description
    return {**declared, "parametersJsonSchema": tool.input_schema}


def _label(profile: ModelProfile, call: ToolCall) -> str:
    """Return a call's name and the id that the model gave it, if it gave one; a result repeats both."""
    id = text_in(own_data(call.provider_data, profile.provider), "id")
    return f"{gemini_name(call.name)}\n{id}"


def _called(label: str) -> dict[str, Any]:
    name, _, id = label.partition("\n")
    return {"id": id, "name": name} if id else {"name": name}


def _fragment(profile: ModelProfile, message: Message, labels: Sequence[str], ends: bool) -> Fragment | None:
    """Return a message's parts. labels: of its calls, or of those that its results answer."""
    match message.role:
        case "user":
            shape, parts = _USER, _user_parts(profile, message)
        case "assistant":
            shape, parts = _MODEL, _model_parts(profile, message, labels)
        case "tool":
            shape, parts = _USER, _result_parts(profile, message, labels)
        case _:
            assert_never(message.role)
    return Fragment(shape, encode_json(parts)[1:-1]) if parts else None


def _user_parts(profile: ModelProfile, message: Message) -> list[dict[str, Any]]:
    # What was recalled stands before the prompt.
    ordered = sorted(message.content, key=lambda part: not isinstance(part, Recalled))
    return [found for part in ordered if (found := _plain_part(part, profile)) is not None]


def _plain_part(part: Part, profile: ModelProfile) -> dict[str, Any] | None:
    """Return a part without anything of a provider's, None where it shows the model nothing."""
    match part:
        case Text(text=text) | Recalled(text=text) | Opaque(text=text):
            return {"text": text} if text.strip() else None
        case Summary(text=text):
            return {"text": summary_text(text)} if text.strip() else None
        case Image() | File():
            return _media(part, profile) or {"text": left_out(part)}
        case Thinking() | ToolCall() | ToolResult():
            return None
        case _:
            assert_never(part)


def _model_parts(profile: ModelProfile, message: Message, labels: Sequence[str]) -> list[dict[str, Any]]:
    # One that came as a dictionary names only the provider.
    is_own = message.origin in (profile.origin, f"{profile.provider}/")
    numbered = iter(labels)
    parts: list[dict[str, Any]] = []
    is_first_call = True
    for part in message.content:
        own = own_data(getattr(part, "provider_data", None), profile.provider) if is_own else {}
        signature = text_in(own, "thoughtSignature")
        found: dict[str, Any] | None
        match part:
            case ToolCall():
                arguments = {} if part.problem else part.arguments
                found = {"functionCall": {**_called(next(numbered)), "args": arguments}}
                if not signature and is_first_call and profile.call_signatures:
                    signature = NO_SIGNATURE
                is_first_call = False
            case Opaque() if own:
                found, signature = own, ""  # whole, with what it was signed with
            case Thinking():
                found = {"text": part.text, "thought": True} if signature else None
            case Text() if signature:
                found = {"text": part.text}  # though it be empty
            case _:
                found = _plain_part(part, profile)
        if found is not None:
            parts.append({**found, "thoughtSignature": signature} if signature else found)
    return parts


def _result_parts(profile: ModelProfile, message: Message, labels: Sequence[str]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result, label in zip(message.tool_results, labels, strict=True):
        if not label:
            continue  # no call of this request asked for it
        answer = _called(label)
        media = _all_media(result.content, profile)
        words = [
            result.text,
            *(left_out(part) for part in result.content if not isinstance(part, Text) and not _is_shown(part, profile)),
        ]
        text = "\n".join(word for word in words if word.strip())
        answer["response"] = {"error" if result.is_error else "result": text or NO_OUTPUT}
        if media and profile.result_images:
            answer["parts"] = media
        elif media:  # older models look at the pictures in the user's own words only
            shown += [{"text": f"From the result of {answer['name']}:"}, *media]
        answers.append({"functionResponse": answer})
    return answers + shown


def _all_media(content: Iterable[ResultPart], profile: ModelProfile) -> list[dict[str, Any]]:
    found = (_media(part, profile) for part in content if isinstance(part, Image | File))
    return [media for media in found if media is not None]


def _is_shown(part: ResultPart, profile: ModelProfile) -> bool:
    return isinstance(part, Text) or (profile.images if isinstance(part, Image) else profile.files)


def _media(part: Image | File, profile: ModelProfile) -> dict[str, Any] | None:
    if not _is_shown(part, profile):
        return None
    if part.data is None:
        url = part.url or ""
        return {"fileData": {"mimeType": _type_of(part, url), "fileUri": url}}
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}}


def _type_of(part: Image | File, url: str) -> str:
    """Return the type that the address tells, for a picture is taken to be a PNG where nobody says what it is."""
    path = url.partition("?")[0].lower()
    ending = path[path.rfind(".") :] if "." in path else ""
    return _IMAGE_TYPES.get(ending, part.media_type) if isinstance(part, Image) else part.media_type
