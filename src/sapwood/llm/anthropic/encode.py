"""A ModelRequest as a request of Anthropic's Messages API.

Laws: signed thinking goes back byte for byte to the model that made it, or not at all; blocks that only
Anthropic understands go back whole, to it alone; no blank text is sent; results come before text.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, assert_never
from urllib.parse import quote

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
from sapwood.core.names import wire_name
from sapwood.core.strict_schema import strict_schema
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import is_blank
from sapwood.llm.addresses import endpoint_url
from sapwood.llm.anthropic.decode import BESIDE_BLOCKS
from sapwood.llm.anthropic.open_loop import OpenLoop, is_lost, open_loop
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import EncodedHistory, Fragment, Shape, cache_mark, encoded_tools, left_out, summary_text
from sapwood.llm.forced_choice import sendable
from sapwood.llm.options import ModelOptions, reply_cap, thinking_budget
from sapwood.llm.shapes import encode_json, join_fields, own_data, text_in, with_extra

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8_192
_CLOUD_VERSIONS = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}
SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop": "stop_sequences"}
# How a reply is written is no part of what goes in; the endpoint that counts refuses these.
_UNCOUNTED = frozenset(
    {"max_tokens", "stream", "metadata", "service_tier", "container", "context_management", *SAMPLING.values()}
)
_USER = Shape(b'{"role":"user","content":[', b",", b"]}")
_ASSISTANT = Shape(b'{"role":"assistant","content":[', b",", b"]}")
_OWN_PATHS = ("/v1/messages", "/v1")
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


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
    betas = _betas(request, profile, options)
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": VERSION,
        **({"x-api-key": api_key} if api_key else {}),
        **({"anthropic-beta": ",".join(betas)} if betas and platform != "bedrock" else {}),
    }
    if platform:
        headers = {name: value for name, value in headers.items() if name not in ("x-api-key", "anthropic-version")}
        headers |= {"authorization": f"Bearer {api_key}"} if api_key else {}
    if platform == "bedrock":
        headers["accept"] = "application/vnd.amazon.eventstream"
    body = encode_body(request, profile, options, platform=platform)
    return HttpCall(_url(base_url, profile.model, platform), {**headers, **options.extra_headers}, body)


def encode_count(
    request: ModelRequest, profile: ModelProfile, options: ModelOptions, *, base_url: str, api_key: str | None
) -> HttpCall:
    """Return the HTTP request that asks how many tokens the request has."""
    call = encode_call(request, profile, options, base_url=base_url, api_key=api_key)
    body = encode_body(request, profile, options, stream=False, counts=True)
    url = endpoint_url(base_url, "/v1/messages/count_tokens", without=_OWN_PATHS)
    return HttpCall(url, {**call.headers, "accept": "application/json"}, body)


def _url(base_url: str, model: str, platform: str) -> str:
    match platform:
        case "bedrock":
            return endpoint_url(base_url, f"/model/{quote(model, safe='')}/invoke-with-response-stream")
        case "vertex":
            return endpoint_url(base_url, f"/publishers/anthropic/models/{quote(model, safe='@:')}:streamRawPredict")
        case _:
            return endpoint_url(base_url, "/v1/messages", without=_OWN_PATHS)


def encode_body(
    request: ModelRequest,
    profile: ModelProfile,
    options: ModelOptions,
    *,
    stream: bool = True,
    platform: str = "",
    counts: bool = False,
) -> bytes:
    """Return the JSON body; its messages are joined from what the transcript keeps. counts: only what is counted."""
    mark = cache_mark(request.cache, profile)
    state = open_loop(request.transcript, profile)
    fields = _fields(request, profile, options, mark, state)
    if platform:  # the clouds have the model in the address
        del fields["model"]
        fields["anthropic_version"] = encode_json(_CLOUD_VERSIONS[platform])
    if platform == "bedrock" and (betas := _betas(request, profile, options)):
        fields["anthropic_beta"] = encode_json(betas)
    if stream and platform != "bedrock":
        fields["stream"] = b"true"
    fields = with_extra(fields, options.extra_body)
    container = _container(request, profile)
    if container and is_object(options.extra_body.get("container", {})):  # only a bare id goes on with what runs
        fields["container"] = encode_json(container)
    if counts:
        fields = {name: value for name, value in fields.items() if name not in _UNCOUNTED}
    head = join_fields(fields)
    notice, lost = None, state.lost
    if request.notice and request.notice.strip():
        notice = Fragment(_USER, encode_json({"type": "text", "text": request.notice}))
        lost = lost if state.answers else lost | state.waiting  # the notice comes in the user's name
    deferred = _deferred(request, profile)
    history = request.transcript.derived(
        ("anthropic", profile, lost, deferred), lambda: EncodedHistory(partial(_fragment, profile, lost, deferred))
    )
    end_mark = b"," + mark if mark and request.cache is not None and request.cache.messages else b""
    earlier = request.cache is None or request.cache.earlier
    pieces = history.pieces(request.transcript, mark=end_mark, notice=notice, earlier=earlier)
    return b"".join((b"{", head, b',"messages":[', *pieces, b"]}"))


def _fields(
    request: ModelRequest, profile: ModelProfile, options: ModelOptions, mark: bytes, state: OpenLoop
) -> dict[str, bytes]:
    default = min(profile.max_output_tokens or DEFAULT_MAX_TOKENS, 4 * DEFAULT_MAX_TOKENS)
    fields = {
        "model": encode_json(profile.model),
        "max_tokens": b"%d" % reply_cap(request, options, profile, default),
    }
    fields.update((name, encode_json(value)) for name, value in options.sampling(SAMPLING).items())
    fields.update((name, encode_json(value)) for name, value in _thinking(request, profile, options, state).items())
    prefix_mark = mark if request.cache is not None and request.cache.prefix else b""
    count = len(request.system) if request.cache is None or request.cache.stable is None else request.cache.stable
    stable = [encode_json({"type": "text", "text": text}) for text in request.system[:count] if text.strip()]
    later = [encode_json({"type": "text", "text": text}) for text in request.system[count:] if text.strip()]
    key = ("anthropic", profile.tool_loading, profile.native_tools)
    tools = encoded_tools(request, key, lambda tool: encode_json(tool_block(tool, profile)))
    # One mark ends the stable prefix: after the system text that stays, or after the tools where there is none.
    if stable or later:
        fields["system"] = _list([*_marked(stable, prefix_mark), *later])
    if edits := [edit for edit in request.context_edits if profile.edits(edit["type"])]:
        fields["context_management"] = encode_json({"edits": edits})
    if tools:
        # A deferred tool takes no mark.
        places = [place for place, tool in enumerate(request.tools) if not _is_deferred(tool, profile)]
        end = places[-1] + 1 if places else 0
        fields["tools"] = _list([*_marked(tools[:end], b"" if stable else prefix_mark), *tools[end:]])
        if request.tool_choice:
            fields["tool_choice"] = _tool_choice(sendable(request.tool_choice, can_force=can_force(profile, options)))
    return fields


def _betas(request: ModelRequest, profile: ModelProfile, options: ModelOptions) -> tuple[str, ...]:
    """Return the beta features that a request names: those of the provider object, and those of its edits."""
    asked = {edit.get("type") for edit in request.context_edits}
    return tuple(
        dict.fromkeys((*options.betas, *(beta for kind, beta in profile.context_edits if kind in asked and beta)))
    )


def _container(request: ModelRequest, profile: ModelProfile) -> str:
    """Return the id of the container that the reply at the end of the transcript waits in, empty where none does.

    Later turns do not name it: it may have expired, and an expired one is refused.
    """
    for message in reversed(request.transcript):
        if message.role == "tool":
            continue
        if message.role == "assistant" and _is_own(message, profile):
            for part in message.content:
                if isinstance(part, Opaque) and part.kind == "container":
                    return text_in(own_data(part.provider_data, profile.provider), "id")
        break
    return ""


def _marked(items: list[bytes], mark: bytes) -> list[bytes]:
    if not mark or not items:
        return items
    return [*items[:-1], items[-1][:-1] + b"," + mark + b"}"]


def _list(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _thinking(request: ModelRequest, profile: ModelProfile, options: ModelOptions, state: OpenLoop) -> dict[str, Any]:
    """Return the fields that ask for thinking and for an output of a given shape."""
    fields: dict[str, Any] = {}
    config: dict[str, Any] = {}
    asked = options.thinking
    if asked is False:
        fields["thinking"] = {"type": "disabled"}
    elif asked is not None and profile.thinking == "adaptive":
        fields["thinking"] = {"type": "adaptive"}
        config |= {"effort": asked} if isinstance(asked, str) else {}
    elif asked is not None and state.began_thinking is not False:
        fields["thinking"] = {"type": "enabled", "budget_tokens": thinking_budget(options)}
    if request.output_schema is not None:
        # Anthropic always holds the model to it, and refuses objects that are left open.
        schema = strict_schema(request.output_schema) or request.output_schema
        config["format"] = {"type": "json_schema", "schema": schema}
    return {**fields, "output_config": config} if config else fields


def can_force(profile: ModelProfile, options: ModelOptions) -> bool:
    """Tell whether a call of a tool may be demanded: not beside a budget for thinking, and not of every model.

    >>> can_force(ModelProfile(thinking="budget"), ModelOptions(thinking=2_000))
    False
    """
    own: Any = options.extra_body.get("thinking")
    is_budget = text_in(own, "type") == "enabled"
    thinks = options.thinking not in (None, False) and profile.thinking != "adaptive"
    return profile.forced_tool_choice and not thinks and not is_budget


def _tool_choice(choice: ToolChoice) -> bytes:
    if isinstance(choice, NamedTool):
        return encode_json({"type": "tool", "name": wire_name(choice.name)})
    return encode_json({"type": choice})


def tool_block(tool: ToolSchema, profile: ModelProfile) -> dict[str, Any]:
    """Return one entry of `tools`."""
    block: dict[str, Any] = {"name": wire_name(tool.name)}
    if profile.native_tokens(tool) is not None:
        return {"type": tool.native, **block}
    if tool.description.strip():
        block["description"] = tool.description
    block["input_schema"] = tool.input_schema
    if tool.input_examples:
        block["input_examples"] = tool.input_examples
    if _is_deferred(tool, profile):
        block["defer_loading"] = True
    return block


def _is_deferred(tool: ToolSchema, profile: ModelProfile) -> bool:
    return tool.defer and profile.tool_loading == "deferred"


def _deferred(request: ModelRequest, profile: ModelProfile) -> frozenset[str]:
    """Return the wire names of the tools that results may refer to; a reference to any other tool is refused."""
    return frozenset(wire_name(tool.name) for tool in request.tools if _is_deferred(tool, profile))


def _fragment(
    profile: ModelProfile,
    lost: frozenset[str],
    deferred: frozenset[str],
    message: Message,
    ids: Sequence[str],
    ends: bool,
) -> Fragment | None:
    """Return a message's blocks. lost: see `OpenLoop`. ends: it is the last of the request."""
    blocks = [block for block in _blocks(profile, deferred, message, ids) if not is_lost(block, lost)]
    if ends and blocks and blocks[-1].get("type") == "text":
        # A final assistant text that ends in white space is refused; the stored text stays as it is.
        blocks[-1] = {**blocks[-1], "text": str(blocks[-1]["text"]).rstrip()}
    if not blocks:
        return None
    encoded = [encode_json(block) for block in blocks]
    mark_at = -1
    for count in range(len(blocks), 0, -1):
        if blocks[count - 1].get("type") not in _UNMARKABLE:
            mark_at = sum(map(len, encoded[:count])) + count - 2  # before the block's closing brace
            break
    return Fragment(_ASSISTANT if message.role == "assistant" else _USER, b",".join(encoded), mark_at, len(blocks))


def _blocks(
    profile: ModelProfile, deferred: frozenset[str], message: Message, ids: Sequence[str]
) -> list[dict[str, Any]]:
    numbered = iter(ids)
    recalled: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for part in message.content:
        wire_id = next(numbered) if isinstance(part, ToolCall | ToolResult) else ""
        if is_blank(part):
            continue
        if (block := _block(profile, deferred, message, part, wire_id)) is not None:
            (recalled if isinstance(part, Recalled) else blocks).append(block)
    return recalled + blocks


def _block(
    profile: ModelProfile, deferred: frozenset[str], message: Message, part: Part, wire_id: str
) -> dict[str, Any] | None:
    match part:
        case Text() if not part.text.strip():
            return None  # what another provider hung on an empty text
        case Text():
            citations: Any = _own(part.provider_data, message, profile).get("citations")
            block: dict[str, Any] = {"type": "text", "text": part.text}
            return {**block, "citations": citations} if citations else block
        case Recalled(text=text):
            return {"type": "text", "text": text}
        case Summary(text=text):
            return {"type": "text", "text": summary_text(text)}
        case Thinking():
            signature: Any = own_data(part.provider_data, profile.provider).get("signature")
            if not signature or not _is_own(message, profile):
                return None
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case Image():
            return _image(part, profile)
        case File():
            return _file(part, profile)
        case ToolCall():
            return _tool_use(part, _own(part.provider_data, message, profile), wire_id)
        case ToolResult():
            return _tool_result(part, profile, deferred, wire_id) if wire_id else None
        case Opaque(kind=kind):
            if kind in BESIDE_BLOCKS:
                return None
            if kind == "redacted_thinking" and not _is_own(message, profile):
                return None
            if own := _own(part.provider_data, message, profile):
                return own
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case _:
            assert_never(part)


def _is_own(message: Message, profile: ModelProfile) -> bool:
    """Tell whether this model wrote the message; one that came as a dictionary names only the provider."""
    return message.origin in (profile.origin, f"{profile.provider}/")


def _own(data: Mapping[str, Any] | None, message: Message, profile: ModelProfile) -> dict[str, Any]:
    """Return what a part carries of this provider's own, empty where another of its models wrote the message."""
    is_foreign = message.role == "assistant" and message.origin is not None and not _is_own(message, profile)
    return {} if is_foreign else own_data(data, profile.provider)


def _tool_use(call: ToolCall, own: Mapping[str, Any], wire_id: str) -> dict[str, Any]:
    arguments = {} if call.problem else call.arguments
    block = {"type": "tool_use", "id": wire_id, "name": wire_name(call.name), "input": arguments}
    caller: Any = own.get("caller")
    return {**block, "caller": caller} if caller else block


def _tool_result(result: ToolResult, profile: ModelProfile, deferred: frozenset[str], wire_id: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id}
    if found := [name for name in map(wire_name, result.loaded) if name in deferred]:
        # The provider writes the definitions in place of the references, which stand alone.
        return {**block, "content": [{"type": "tool_reference", "tool_name": name} for name in found]}
    shown = [part for part in result.content if not isinstance(part, Text) or part.text.strip()]
    content = [_result_block(part, profile) for part in shown]
    if len(content) == 1 and content[0]["type"] == "text":
        block["content"] = content[0]["text"]
    elif content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _result_block(part: ResultPart, profile: ModelProfile) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image():
            return _image(part, profile)
        case File():
            return _file(part, profile)
        case _:
            assert_never(part)


def _image(part: Image, profile: ModelProfile) -> dict[str, Any]:
    if not profile.images:
        return {"type": "text", "text": left_out(part)}
    if part.data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url or ""}}
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image", "source": source}


def _file(part: File, profile: ModelProfile) -> dict[str, Any]:
    if not profile.files:
        return {"type": "text", "text": left_out(part)}
    source: dict[str, Any]
    if part.data is None:
        source = {"type": "url", "url": part.url or ""}
    elif part.media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": _decoded(part.data)}
    else:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    block: dict[str, Any] = {"type": "document", "source": source}
    return {**block, "title": part.name} if part.name else block


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return data
