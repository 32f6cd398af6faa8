"""What a strict provider refuses: checks of a request body, as rules V1 to V7.

V1 every call has one result directly after; V2 no result without its call; V3 nothing blank; V4 no white
space at the end of a final assistant text; V5 roles alternate and results come before text; V6 call ids
are valid and unique, and where there are none, names are valid; V7 a thinking block or a call has its signature;
V8 thinking and the provider's own tools stand where they stood: reasoning before what followed it, a result after
its call, and thinking first while a tool loop is open; V9 no more than four cache marks.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.core.json_object import is_list, read_object

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}\Z")
_GEMINI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+=*\Z")
_ANSWERED = frozenset(
    {"function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call"}
)
_OUTPUTS = frozenset(f"{kind}_output" for kind in _ANSWERED)
_BESIDE_TEXT = {"input_text": ("input_image", "input_file"), "output_text": ("refusal",)}


def check_anthropic_body(body: Mapping[str, Any]) -> None:
    """Raise AssertionError where a strict Messages endpoint would refuse this body.

    >>> check_anthropic_body({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]})
    """
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    for entry in body.get("system", ()):
        _demand(not _is_blank(entry.get("text")), "V3", "a system block is blank")
    open_calls: list[str] = []
    used: set[str] = set()
    before = ""
    for number, message in enumerate(messages):
        where = f"message {number}"
        role, blocks = message["role"], message["content"]
        _demand(role in ("user", "assistant"), "V5", f"{where} has the role {role!r}")
        _demand(role != before, "V5", f"{where} has the role of the one before")
        _demand(is_list(blocks) and bool(blocks), "V3", f"{where} is empty")
        before = role
        if role == "user":
            _check_results(blocks, open_calls, where)
            open_calls = []
        else:
            _demand(not open_calls, "V1", f"{where} follows calls without results")
            open_calls = _calls_of(blocks, used, where)
        _check_blocks(blocks, where)
    _demand(not open_calls, "V1", "the last calls have no results")
    _check_order(messages, demands_thinking=body.get("thinking", {}).get("type") == "enabled")
    blocks = [*body.get("system", ()), *body.get("tools", ()), *(b for m in messages for b in m["content"])]
    _demand(sum("cache_control" in block for block in blocks) <= 4, "V9", "there are more than four cache marks")
    if messages and before == "assistant":
        last = messages[-1]["content"][-1]
        _demand(last.get("type") != "text" or last["text"] == last["text"].rstrip(), "V4", "white space at the end")


def _check_order(messages: Sequence[Mapping[str, Any]], *, demands_thinking: bool) -> None:
    """Check where thinking and the provider's own tools stand; `demands_thinking` comes with a budget for it."""
    called: dict[str, int] = {}
    loop: int | None = None  # where the open tool loop begins: the first reply since the user spoke
    for number, message in enumerate(messages):
        kinds = [block["type"] for block in message["content"]]
        for block, kind in zip(message["content"], kinds, strict=True):
            if kind in ("server_tool_use", "mcp_tool_use"):
                called[block["id"]] = number
            elif kind.endswith("_tool_result"):
                answered = called.pop(block["tool_use_id"], None)
                _demand(answered is not None, "V8", f"message {number} has a {kind} without its call")
        if message["role"] == "assistant":
            loop = number if loop is None else loop
        elif "tool_result" not in kinds:
            loop = None
    lost = [id for id, number in called.items() if loop is None or number < loop]
    _demand(not lost, "V8", f"calls of the provider's own tools have no result: {lost}")
    if demands_thinking and loop is not None:
        first = messages[loop]["content"][0]["type"]
        is_thought = first in ("thinking", "redacted_thinking")
        _demand(is_thought, "V8", f"an open tool loop begins with {first!r} in place of thinking")


def check_chat_body(body: Mapping[str, Any], *, short_ids: bool = False) -> None:
    """Raise AssertionError where a strict Chat Completions endpoint would refuse this body.

    short_ids: ids of calls are nine letters and digits, as Mistral demands.

    >>> check_chat_body({"messages": [{"role": "user", "content": "hi"}]})
    """
    waiting: list[str] = []
    used: set[str] = set()
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    _demand(body.get("tools") != [], "V3", "the list of tools is empty")
    for number, message in enumerate(messages):
        where, role, content = f"message {number}", message["role"], message.get("content")
        if role == "tool":
            id = message["tool_call_id"]
            _demand(id in waiting, "V2", f"{where} answers {id!r}, which was not asked directly before")
            waiting.remove(id)
            _demand(not _is_blank(content), "V3", f"{where} is blank")
            continue
        _demand(not waiting, "V1", f"{where} follows calls without results: {waiting}")
        calls: Sequence[Mapping[str, Any]] = message.get("tool_calls", ())
        _demand(bool(calls) or not _is_blank(content), "V3", f"{where} is blank")
        for call in calls:
            _check_id(call["id"], used, where)
            _demand(not short_ids or bool(_SHORT_ID.match(call["id"])), "V6", f"{where} has the call id {call['id']!r}")
            arguments = read_object(call.get("function", {}).get("arguments", "{}"))
            _demand(isinstance(arguments, dict), "V1", f"{where} has arguments that are no object")
            waiting.append(call["id"])
    _demand(not waiting, "V1", "the last calls have no results")
    if messages and messages[-1]["role"] == "assistant" and isinstance(messages[-1].get("content"), str):
        text: str = messages[-1]["content"]
        _demand(text == text.rstrip(), "V4", "white space at the end")


def check_gemini_body(body: Mapping[str, Any], *, require_signatures: bool = False) -> None:
    """Raise AssertionError where a strict Gemini endpoint would refuse this body.

    require_signatures: the first call of each reply must bring its signature, as Gemini 3 demands.

    >>> check_gemini_body({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
    """
    open_calls: list[tuple[str, str]] = []
    before = ""
    for number, content in enumerate(body["contents"]):
        where, role, parts = f"content {number}", content["role"], content["parts"]
        _demand(role in ("user", "model"), "V5", f"{where} has the role {role!r}")
        _demand(number > 0 or role == "user", "V5", "the contents do not begin with the user")
        _demand(role != before, "V5", f"{where} has the role of the one before")
        _demand(is_list(parts) and bool(parts), "V3", f"{where} is empty")
        before = role
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        _demand(not (calls if role == "user" else results), "V5", f"{where} has parts of the other role")
        kinds = ["functionResponse" in part for part in parts]
        _demand(kinds == sorted(kinds, reverse=True), "V5", f"{where} has text before a result")
        answered = _named(results)
        _demand(len(answered) <= len(open_calls), "V2", f"{where} answers what was not asked directly before")
        _demand(answered == open_calls, "V1", f"{where} answers {answered}, asked were {open_calls}")
        open_calls = _named(calls)
        for part in parts:
            _check_gemini_part(part, where)
        first = next((part for part in parts if "functionCall" in part), None)
        if require_signatures and first is not None:
            _demand(bool(first.get("thoughtSignature")), "V7", f"{where} has a call without a signature")
    _demand(not open_calls, "V1", "the last calls have no results")
    for tool in body.get("tools", ()):
        for declared in tool.get("functionDeclarations", ()):
            _demand(bool(_GEMINI_NAME.match(declared["name"])), "V6", f"a tool has the name {declared['name']!r}")


def _named(calls: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(call["name"], call.get("id", "")) for call in calls]


def _check_gemini_part(part: Mapping[str, Any], where: str) -> None:
    if "text" in part:
        _demand(bool(part.get("thoughtSignature")) or not _is_blank(part["text"]), "V3", f"{where} has a blank text")
        _demand(bool(part.get("thoughtSignature")) or not part.get("thought"), "V7", f"{where} has unsigned thinking")
    for kind, field in (("functionCall", "args"), ("functionResponse", "response")):
        if kind in part:
            name, inner = part[kind]["name"], part[kind].get(field, {})
            _demand(bool(_GEMINI_NAME.match(name)), "V6", f"{where} has the name {name!r}")
            _demand(isinstance(inner, dict), "V1", f"{where} has a {kind} whose {field} is no object")


def check_ollama_body(body: Mapping[str, Any]) -> None:
    """Raise AssertionError where Ollama would refuse this body, or a model's template would misread it.

    >>> check_ollama_body({"messages": [{"role": "user", "content": "hi"}]})
    """
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        where, role, content = f"message {number}", message["role"], message["content"]
        _demand(role in ("system", "user", "assistant", "tool"), "V5", f"{where} has the role {role!r}")
        _demand(role != "system" or number == 0, "V5", f"{where} is a system message among the others")
        _demand(isinstance(content, str), "V3", f"{where} has a content that is no text")
        images: Sequence[Any] = message.get("images", ())
        _demand(all(_BASE64.match(image) for image in images), "V3", f"{where} has an image that is no base64")
        if role == "tool":
            name = message["tool_name"]
            _demand(waiting[:1] == [name], "V2", f"{where} answers {name!r}, waiting were {waiting}")
            waiting.pop(0)
        else:
            _demand(not waiting, "V1", f"{where} follows calls without results: {waiting}")
        calls: Sequence[Mapping[str, Any]] = message.get("tool_calls", ())
        _demand(bool(calls) or bool(images) or not _is_blank(content), "V3", f"{where} is blank")
        for call in calls:
            _demand(isinstance(call["function"]["arguments"], dict), "V1", f"{where} has arguments that are no object")
            waiting.append(call["function"]["name"])
    _demand(not waiting, "V1", "the last calls have no results")


def check_responses_body(body: Mapping[str, Any]) -> None:
    """Raise AssertionError where a strict Responses endpoint would refuse this body.

    >>> check_responses_body({"store": False, "input": [{"type": "message", "role": "user", "content": "hi"}]})
    """
    items: Sequence[Mapping[str, Any]] = body["input"]
    _demand(is_list(items) and bool(items), "V3", "the input is empty")
    _demand(body.get("tools") != [], "V3", "the list of tools is empty")
    _demand("instructions" not in body or not _is_blank(body["instructions"]), "V3", "the instructions are blank")
    waiting: dict[str, str] = {}  # id of a call -> kind of the output that it waits for
    used: set[str] = set()
    before = ""
    for number, item in enumerate(items):
        where, kind = f"item {number}", str(item.get("type", "message"))
        is_models = kind not in _OUTPUTS and item.get("role", "assistant") == "assistant"
        _demand(before != "reasoning" or is_models, "V8", f"{where} stands after reasoning that nothing followed")
        if kind in _ANSWERED:
            _check_id(item["call_id"], used, where)
            waiting[item["call_id"]] = f"{kind}_output"
        elif kind in _OUTPUTS:
            _demand(waiting.pop(item["call_id"], "") == kind, "V2", f"{where} answers what waits for no {kind}")
        elif not is_models:
            _demand(not waiting, "V1", f"{where} follows calls without results: {sorted(waiting)}")
        _check_item(item, kind, where, is_stored=body.get("store") is not False)
        before = kind
    _demand(not waiting, "V1", f"calls have no results: {sorted(waiting)}")
    _demand(before != "reasoning", "V8", "the last item is reasoning that nothing followed")


def _check_item(item: Mapping[str, Any], kind: str, where: str, *, is_stored: bool) -> None:
    match kind:
        case "message":
            _check_content(item["content"], "output_text" if item["role"] == "assistant" else "input_text", where)
        case "function_call":
            _demand(bool(item["name"]), "V3", f"{where} has no name")
            _demand(isinstance(read_object(item["arguments"]), dict), "V1", f"{where} has arguments that are no object")
        case "function_call_output":
            _check_content(item["output"], "input_text", where)
        case "reasoning":
            _demand(is_list(item.get("summary")), "V8", f"{where} is reasoning without a summary, be it empty")
            is_whole = bool(item.get("encrypted_content") or item.get("content"))
            _demand(is_whole or (is_stored and "id" in item), "V8", f"{where} names reasoning that was not stored")
            _demand("status" not in item, "V8", f"{where} has a status, which is not known there")
        case "item_reference":
            _demand(is_stored, "V8", f"{where} names an item that was not stored")
        case _:
            pass


def _check_content(content: Any, text_kind: str, where: str) -> None:
    _demand(not _is_blank(content), "V3", f"{where} is blank")
    for block in content if is_list(content) else ():
        kind: str = block["type"]
        _demand(kind in (text_kind, *_BESIDE_TEXT[text_kind]), "V5", f"{where} holds {kind!r}")
        text = block.get("text", block.get("refusal", "-"))
        _demand(not _is_blank(text), "V3", f"{where} has a blank text")


def _check_results(blocks: Sequence[Mapping[str, Any]], calls: list[str], where: str) -> None:
    ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    _demand(len(set(ids)) == len(ids), "V1", f"{where} answers a call twice")
    _demand(set(ids) <= set(calls), "V2", f"{where} answers what was not asked directly before")
    _demand(set(calls) <= set(ids), "V1", f"{where} leaves a call without its result")
    kinds = [block["type"] == "tool_result" for block in blocks]
    _demand(kinds == sorted(kinds, reverse=True), "V5", f"{where} has text before a result")


def _calls_of(blocks: Sequence[Mapping[str, Any]], used: set[str], where: str) -> list[str]:
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    for id in ids:
        _check_id(id, used, where)
    return ids


def _check_id(id: str, used: set[str], where: str) -> None:
    _demand(bool(_ID.match(id)), "V6", f"{where} has the call id {id!r}")
    _demand(id not in used, "V6", f"{where} uses the call id {id!r} again")
    used.add(id)


def _check_blocks(blocks: Sequence[Mapping[str, Any]], where: str) -> None:
    for block in blocks:
        match block["type"]:
            case "text":
                _demand(not _is_blank(block["text"]), "V3", f"{where} has a blank text")
            case "thinking":
                _demand(bool(block.get("signature")), "V7", f"{where} has thinking without a signature")
                _demand("cache_control" not in block, "V7", f"{where} has a mark on thinking")
            case "tool_result":
                inner = block.get("content", "-")
                _check_blocks([{"type": "text", "text": inner}] if isinstance(inner, str) else inner, where)
            case "tool_use":
                _demand(isinstance(block["input"], dict), "V1", f"{where} has arguments that are no object")
            case _:
                pass


def _demand(holds: bool, rule: str, message: str) -> None:
    if not holds:
        raise AssertionError(f"{rule}: {message}")


def _is_blank(content: Any) -> bool:
    return not content or (isinstance(content, str) and not content.strip())
