"""A ModelRequest as a request of OpenAI's Responses, also for servers that speak it.

Laws: nothing is stored at the provider, so what a model must get back travels in the request: its reasoning
and the items of the provider's own tools, as they came and in their order, to the model that made them and to no
other; a reasoning item is never sent without what followed it; every call is answered once, after it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, assert_never

from sapwood.core.context_edits import COMPACT
from sapwood.core.json_object import is_object
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
)
from sapwood.core.model import ModelProfile, ModelRequest, NamedTool, ToolChoice
from sapwood.core.names import wire_name
from sapwood.core.strict_schema import strict_schema
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.addresses import endpoint_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.encoded import EncodedHistory, Fragment, Shape, data_url, encoded_tools, left_out, summary_text
from sapwood.llm.forced_choice import sendable
from sapwood.llm.openai.chat_encode import NO_OUTPUT, key_headers
from sapwood.llm.openai.chat_encode import tool_block as chat_tool_block
from sapwood.llm.openai.late_tools import LateForm, LateTools
from sapwood.llm.openai.responses_decode import can_return
from sapwood.llm.openai.responses_tools import awaits_answer
from sapwood.llm.options import ModelOptions, ThinkingOption, reply_cap
from sapwood.llm.shapes import encode_json, join_fields, list_in, object_in, own_data, text_in, with_extra

SAMPLING = {"temperature": "temperature", "top_p": "top_p"}
ENCRYPTED = "reasoning.encrypted_content"
_COUNTED = frozenset({"model", "input", "instructions", "tools", "tool_choice", "text", "reasoning"})
_ALONE = Shape()


class Refusals:
    """What a server refused of one branch of a transcript, so that it is not sent again. Kept beside the messages.

    thoughts: encrypted reasoning that it could not read. asks: whether encrypted reasoning is asked for.
    """

    __slots__ = ("asks", "thoughts")

    def __init__(self, thoughts: frozenset[str] = frozenset(), *, asks: bool = True) -> None:
        self.thoughts = thoughts
        self.asks = asks

    def forked(self, length: int) -> "Refusals":
        """Return a copy for another branch."""
        return Refusals(self.thoughts, asks=self.asks)


def refusals_of(transcript: Transcript, profile: ModelProfile) -> Refusals:
    """Return what this model's server refused of a transcript.

    >>> refusals_of(Transcript(), ModelProfile()).asks
    True
    """
    return transcript.derived(("openai.responses.refused", profile), Refusals)


def thoughts_in(transcript: Transcript, profile: ModelProfile) -> frozenset[str]:
    """Return the encrypted reasoning that goes back to this model.

    >>> thoughts_in(Transcript(), ModelProfile())
    frozenset()
    """
    written = [message for message in transcript if message.origin == profile.origin]
    own = [own_data(p.provider_data, profile.provider) for m in written for p in m.content if isinstance(p, Thinking)]
    return frozenset(text for item in own if (text := text_in(item, "encrypted_content")))


def encode_call(
    request: ModelRequest,
    profile: ModelProfile,
    options: ModelOptions,
    *,
    base_url: str,
    api_key: str | None,
    key_header: str = "",
    counts: bool = False,
) -> HttpCall:
    """Return the HTTP request that asks for a streamed reply. counts: it asks how many tokens go in instead."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json" if counts else "text/event-stream",
        **key_headers(api_key, key_header),
        **options.extra_headers,
    }
    path = "/responses/input_tokens" if counts else "/responses"
    url = endpoint_url(base_url, path, without=("/responses",))
    return HttpCall(url, headers, encode_body(request, profile, options, counts=counts))


def encode_body(request: ModelRequest, profile: ModelProfile, options: ModelOptions, *, counts: bool = False) -> bytes:
    """Return the JSON body; its items are joined from what the transcript keeps."""
    refused = refusals_of(request.transcript, profile)
    fields = with_extra(_fields(request, profile, options, asks=refused.asks), options.extra_body)
    if counts:
        fields = {name: value for name, value in fields.items() if name in _COUNTED}
    late = _late_tools(request, profile)
    history = request.transcript.derived(
        ("openai.responses", profile, refused.thoughts, late.form),
        lambda: EncodedHistory(partial(_fragment, profile, refused.thoughts, late)),
    )
    notice = None
    if request.notice and request.notice.strip():
        notice = Fragment(_ALONE, encode_json(_user_item([{"type": "input_text", "text": request.notice}])))
    pieces = history.pieces(request.transcript, notice=notice)
    return b"".join((b"{", join_fields(fields), b',"input":[', *pieces, b"]}"))


def _fields(request: ModelRequest, profile: ModelProfile, options: ModelOptions, *, asks: bool) -> dict[str, bytes]:
    fields = {"model": encode_json(profile.model)}
    instructions = "\n\n".join(text for text in request.system if text.strip())
    if instructions:
        fields["instructions"] = encode_json(instructions)
    if max_tokens := reply_cap(request, options, profile):
        fields["max_output_tokens"] = b"%d" % max_tokens
    fields.update((name, encode_json(value)) for name, value in options.sampling(SAMPLING).items())
    if options.thinking is not None:
        fields["reasoning"] = encode_json(_reasoning(options.thinking))
    fields["store"] = b"false"
    fields["stream"] = b"true"
    if asks and profile.encrypted_thinking and (profile.thinking != "none" or not profile.known):
        fields["include"] = encode_json([ENCRYPTED])
    if request.output_schema is not None:
        strict = strict_schema(request.output_schema)
        shape = {"name": "output", "schema": strict or request.output_schema, "strict": strict is not None}
        fields["text"] = encode_json({"format": {"type": "json_schema", **shape}})
    if profile.cache_key and request.cache is not None and request.cache.key:
        fields["prompt_cache_key"] = encode_json(request.cache.key)
    if profile.edits(COMPACT) and (edits := [_edit(edit) for edit in request.context_edits if edit["type"] == COMPACT]):
        fields["context_management"] = encode_json(edits)
    if request.tools:
        fields["tools"] = _tools(request, profile)
        if request.tool_choice:
            fields["tool_choice"] = _tool_choice(sendable(request.tool_choice, can_force=profile.forced_tool_choice))
    return fields


def _edit(edit: Mapping[str, Any]) -> dict[str, Any]:
    trigger = object_in(edit, "trigger")
    return {"type": "compaction", **({"compact_threshold": trigger["value"]} if trigger else {})}


def _reasoning(asked: ThinkingOption) -> dict[str, Any]:
    if asked is True:
        return {"summary": "auto"}
    if asked is False:
        return {"effort": "none"}
    return {"effort": asked if isinstance(asked, str) else "medium"}


def _tool_choice(choice: ToolChoice) -> bytes:
    if isinstance(choice, NamedTool):
        return encode_json({"type": "function", "name": wire_name(choice.name)})
    return encode_json("required" if choice == "any" else choice)


def _tools(request: ModelRequest, profile: ModelProfile) -> bytes:
    key = ("openai.responses", profile.tool_loading)
    blocks = encoded_tools(request, key, lambda tool: encode_json(tool_block(tool, profile)))
    is_deferred = profile.tool_loading == "deferred" and any(tool.defer for tool in request.tools)
    return b"[%b]" % b",".join([*blocks, b'{"type":"tool_search"}'] if is_deferred else blocks)


def tool_block(tool: ToolSchema, profile: ModelProfile) -> dict[str, Any]:
    """Return one entry of `tools`; without `strict: false` an optional argument would become a required one.

    >>> sorted(tool_block(ToolSchema("add"), ModelProfile()))
    ['name', 'parameters', 'strict', 'type']
    """
    block = {"type": "function", **object_in(chat_tool_block(tool), "function"), "strict": False}
    return {**block, "defer_loading": True} if tool.defer and profile.tool_loading == "deferred" else block


def _late_tools(request: ModelRequest, profile: ModelProfile) -> LateTools:
    """Return the tools whose definitions come with results, kept beside the transcript and added to, never changed."""
    deferred = [tool for tool in request.tools if tool.defer] if profile.tool_loading == "deferred" else []
    form: LateForm = "deferred" if deferred else "inline" if request.found else ""
    late = request.transcript.derived(("openai.responses.late", profile, form), partial(LateTools, form))
    for tool in deferred or request.found:
        if (name := wire_name(tool.name)) not in late.blocks:
            late.blocks[name] = tool_block(tool, profile)
    return late


def _fragment(
    profile: ModelProfile,
    refused: frozenset[str],
    late: LateTools,
    message: Message,
    ids: Sequence[str],
    ends: bool,
) -> Fragment | None:
    """Return a message's items."""
    match message.role:
        case "user":
            items = _user(profile, message)
        case "assistant":
            items = _assistant(profile, refused, message, ids)
            items = [late.called(item) for item in items]
        case "tool":
            items = _tool(profile, late, message, ids)
        case _:
            assert_never(message.role)
    return Fragment(_ALONE, b",".join(map(encode_json, items)), blocks=len(items)) if items else None


def _user_item(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def _user(profile: ModelProfile, message: Message) -> list[dict[str, Any]]:
    parts = sorted(message.content, key=lambda part: not isinstance(part, Recalled))
    blocks = _input_blocks(profile, parts)
    return [_user_item(blocks)] if blocks else []


def _input_blocks(profile: ModelProfile, parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [block for part in parts if (block := _input_block(profile, part)) is not None]


def _input_block(profile: ModelProfile, part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text) | Recalled(text=text):
            return {"type": "input_text", "text": text} if text.strip() else None
        case Summary(text=text):
            return {"type": "input_text", "text": summary_text(text)} if text.strip() else None
        case Image():
            return _image(part, profile)
        case File():
            return _file(part, profile)
        case _:
            return None


def _image(part: Image, profile: ModelProfile) -> dict[str, Any]:
    if not profile.images:
        return {"type": "input_text", "text": left_out(part)}
    return {"type": "input_image", "image_url": data_url(part)}


def _file(part: File, profile: ModelProfile) -> dict[str, Any]:
    if not profile.files:
        return {"type": "input_text", "text": left_out(part)}
    if part.data is None:
        return {"type": "input_file", "file_url": part.url or ""}
    return {"type": "input_file", "filename": part.name or "file", "file_data": data_url(part)}


def _assistant(
    profile: ModelProfile, refused: frozenset[str], message: Message, ids: Sequence[str]
) -> list[dict[str, Any]]:
    is_own = message.origin == profile.origin
    numbered = iter(ids)
    outputs = _outputs(message, profile) if is_own else frozenset[str]()
    items: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case Text():
                _add_text(items, part.text, _own(part.provider_data, profile, is_own))
            case Recalled(text=text):
                _add_text(items, text, {})
            case Summary(text=text):
                _add_text(items, summary_text(text) if text.strip() else "", {})
            case Thinking():
                own = _own(part.provider_data, profile, is_own)
                if can_return(own) and text_in(own, "encrypted_content") not in refused:
                    items.append(_thought(own))
            case ToolCall():
                items.append(_call(part, next(numbered), _own(part.provider_data, profile, is_own)))
            case Opaque():
                own = _own(part.provider_data, profile, is_own)
                if not text_in(own, "type"):
                    _add_text(items, part.text, {})
                elif not awaits_answer(own) or text_in(own, "call_id") in outputs:
                    items.append(own)
            case _:
                pass
    if not is_own:  # some servers want the outputs directly after the calls, without texts between these
        items.sort(key=lambda item: item["type"] == "function_call")
    return _without_loose_thoughts(items)


def _own(data: Mapping[str, Any] | None, profile: ModelProfile, is_own: bool) -> dict[str, Any]:
    return own_data(data, profile.provider) if is_own else {}


def _outputs(message: Message, profile: ModelProfile) -> frozenset[str]:
    """Return the ids of the calls whose outputs the provider itself gave in the same reply."""
    found = [own_data(part.provider_data, profile.provider) for part in message.content if isinstance(part, Opaque)]
    return frozenset(text_in(item, "call_id") for item in found if text_in(item, "type").endswith("_output"))


def _add_text(items: list[dict[str, Any]], text: str, own: Mapping[str, Any]) -> None:
    """Add a text of the model: to the message before it where it was a part of that, else as its own."""
    if not text.strip():
        return
    block: dict[str, Any] = {"type": "output_text", "text": text}
    if own.get("refusal"):
        block = {"type": "refusal", "refusal": text}
    elif annotations := _annotations(own):
        block["annotations"] = annotations
    if own.get("continues") and items and items[-1]["type"] == "message":
        items[-1]["content"].append(block)
        return
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": [block]}
    items.append({**item, "phase": own["phase"]} if own.get("phase") else item)


def _annotations(own: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Chat Completions of the same model nests each under its type, which is refused here.
    return [note for note in list_in(own, "annotations") if is_object(note) and text_in(note, "type") not in note]


def _thought(item: dict[str, Any]) -> dict[str, Any]:
    """Return a reasoning item as it goes back.

    Its id names nothing at a provider that stored nothing, and makes the ids of what follows necessary; it stays
    only where no ciphertext stands for it. A status is not known in requests.
    """
    left_out = {"status", "id"} if item.get("encrypted_content") else {"status"}
    kept = {key: value for key, value in item.items() if key not in left_out and value not in (None, [])}
    return {**kept, "summary": item.get("summary") or []}


def _call(call: ToolCall, id: str, own: Mapping[str, Any]) -> dict[str, Any]:
    arguments = encode_json({} if call.problem else call.arguments).decode()
    item = {"type": "function_call", "call_id": id, "name": wire_name(call.name), "arguments": arguments}
    return {**own, **item}


def _without_loose_thoughts(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the reasoning at the end: what followed it is missing, and it is refused without that."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _tool(profile: ModelProfile, late: LateTools, message: Message, ids: Sequence[str]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    added: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    for result, id in zip(message.tool_results, ids, strict=True):
        if not id:
            continue  # no call of this request asked for it
        names = late.brought(map(wire_name, result.loaded))
        added += late.items(names, id)
        output: str | list[dict[str, Any]] = result.text if result.text.strip() else NO_OUTPUT
        if names and not result.skill:  # a search; its definitions follow in their own form
            output = f"Found, and callable now: {', '.join(names)}."
        media = [part for part in result.content if not isinstance(part, Text)]
        if media and profile.result_images:
            output = _input_blocks(profile, result.content)
        elif media:  # a result may hold text only, so pictures follow in the user's name
            heading = {"type": "input_text", "text": f"From the result of {wire_name(result.name)}:"}
            shown += [heading, *_input_blocks(profile, media)]
        answers.append({"type": "function_call_output", "call_id": id, "output": output})
    answers += added
    return [*answers, _user_item(shown)] if shown else answers
