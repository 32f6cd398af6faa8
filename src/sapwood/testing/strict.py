"""What a strict provider refuses: checks of a request body, as rules V1 to V7.

V1 every call has one result directly after; V2 no result without its call; V3 nothing blank; V4 no white
space at the end of a final assistant text; V5 roles alternate and results come before text; V6 call ids
are valid and unique; V7 a thinking block has its signature. For Responses V8 besides: reasoning stands on its own,
before what followed it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.core.json_object import is_list, read_object

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


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
    if messages and before == "assistant":
        last = messages[-1]["content"][-1]
        _demand(last.get("type") != "text" or last["text"] == last["text"].rstrip(), "V4", "white space at the end")


def check_chat_body(body: Mapping[str, Any]) -> None:
    """Raise AssertionError where a strict Chat Completions endpoint would refuse this body.

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
            waiting.append(call["id"])
    _demand(not waiting, "V1", "the last calls have no results")
    if messages and messages[-1]["role"] == "assistant" and isinstance(messages[-1].get("content"), str):
        text: str = messages[-1]["content"]
        _demand(text == text.rstrip(), "V4", "white space at the end")


def check_responses_body(body: Mapping[str, Any]) -> None:
    """Raise AssertionError where a strict Responses endpoint that stored nothing would refuse this body.

    >>> check_responses_body({"store": False, "input": [{"type": "message", "role": "user", "content": "hi"}]})
    """
    items: Sequence[Mapping[str, Any]] = body["input"]
    _demand(is_list(items) and bool(items), "V3", "the input is empty")
    _demand(body.get("tools") != [], "V3", "the list of tools is empty")
    _demand(body.get("instructions") is None or not _is_blank(body["instructions"]), "V3", "the instructions are blank")
    waiting: dict[str, str] = {}
    used: set[str] = set()
    thinks = False
    for number, item in enumerate(items):
        where, kind = f"item {number}", str(item.get("type", "message"))
        if kind.endswith("_output") and item.get("call_id"):
            _demand(waiting.pop(item["call_id"], "-") in (kind, "-"), "V2", f"{where} answers a call of another kind")
            _demand(item["call_id"] in used, "V2", f"{where} answers {item['call_id']!r}, which was not asked before")
            used.discard(item["call_id"])
            _demand(not thinks, "V8", f"{where} follows reasoning without what came of it")
        _check_item(item, kind, used, where, stores=body.get("store", True))
        if kind in _ANSWERED:
            waiting[item["call_id"]] = f"{kind}_output" if kind != "custom_tool_call" else kind + "_output"
        thinks = kind == "reasoning"
        _demand(not (thinks and number == len(items) - 1), "V8", f"{where} is reasoning without what followed it")
        if kind == "message" and item["role"] != "assistant":
            _demand(not waiting, "V1", f"{where} follows calls without results: {sorted(waiting)}")
    _demand(not waiting, "V1", f"calls have no results: {sorted(waiting)}")


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
