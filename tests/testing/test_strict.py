"""The strict checks refuse what a provider would refuse."""

from typing import Any

import pytest

from sapwood.testing.strict import check_anthropic_body, check_chat_body, check_gemini_body, check_ollama_body

HI: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}, **more}


def answer(name: str, response: Any = None) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {} if response is None else response}}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": [*parts]}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": [*parts]}


@pytest.mark.parametrize(
    ("rule", "contents"),
    [
        ("V5", [{"role": "tool", "parts": [{"text": "hi"}]}]),
        ("V5", [model({"text": "hi"})]),
        ("V5", [HI, HI]),
        ("V3", [user()]),
        ("V3", [user({"text": " "})]),
        ("V7", [HI, model({"text": "hm", "thought": True})]),
        ("V5", [HI, model(call("a"), answer("a"))]),
        ("V5", [HI, model(call("a")), user({"text": "x"}, answer("a"))]),
        ("V1", [HI, model(call("a"))]),
        ("V1", [HI, model(call("a")), HI]),
        ("V1", [HI, model(call("a"), call("b")), user(answer("b"), answer("a"))]),
        ("V2", [HI, model(call("a")), user(answer("a"), answer("a"))]),
        ("V1", [HI, model(call("a")), user(answer("a", "text"))]),
        ("V6", [HI, model(call("3d")), user(answer("3d"))]),
    ],
)
def test_what_gemini_refuses(rule: str, contents: list[Any]) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_gemini_body({"contents": contents})


def test_signatures_are_demanded_where_the_model_demands_them() -> None:
    unsigned = {"contents": [HI, model(call("a"), call("b")), user(answer("a"), answer("b"))]}
    signed = {"contents": [HI, model(call("a", thoughtSignature="s"), call("b")), user(answer("a"), answer("b"))]}

    check_gemini_body(unsigned)
    check_gemini_body(signed, require_signatures=True)
    with pytest.raises(AssertionError, match="V7"):
        check_gemini_body(unsigned, require_signatures=True)
    with pytest.raises(AssertionError, match="V6"):
        check_gemini_body({"contents": [HI], "tools": [{"functionDeclarations": [{"name": "3d"}]}]})


def said(role: str, content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def asks(name: str, arguments: Any = None) -> dict[str, Any]:
    return said("assistant", "", tool_calls=[{"function": {"name": name, "arguments": arguments or {}}}])


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("V5", [said("model")]),
        ("V5", [said("user"), said("system")]),
        ("V3", [said("user", [{"type": "text", "text": "hi"}])]),
        ("V3", [said("user", " ")]),
        ("V3", [said("user", images=["http://x"])]),
        ("V2", [said("tool", tool_name="a")]),
        ("V2", [asks("a"), said("tool", tool_name="b")]),
        ("V1", [asks("a"), said("user")]),
        ("V1", [asks("a")]),
        ("V1", [asks("a", "{}"), said("tool", tool_name="a")]),
    ],
)
def test_what_ollama_refuses(rule: str, messages: list[Any]) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_ollama_body({"messages": messages})


CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "a", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
THOUGHT = {"type": "thinking", "thinking": "so", "signature": "s"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
BUDGET = {"type": "enabled", "budget_tokens": 1024}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def asked(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or [{"type": "text", "text": "hi"}]}


def test_thinking_comes_first_while_a_tool_loop_is_open() -> None:
    loop = [asked(), said(CALL), asked(RESULT)]

    check_anthropic_body({"messages": loop})
    check_anthropic_body({"messages": [*loop, said({"type": "text", "text": "ok"}), asked()], "thinking": BUDGET})
    check_anthropic_body({"messages": [asked(), said(THOUGHT, CALL), asked(RESULT)], "thinking": BUDGET})
    with pytest.raises(AssertionError, match="V8"):
        check_anthropic_body({"messages": loop, "thinking": BUDGET})


def test_the_providers_own_tools_stand_in_pairs() -> None:
    check_anthropic_body({"messages": [asked(), said(SEARCH)]})
    check_anthropic_body({"messages": [asked(), said(SEARCH, FOUND), asked()]})
    for messages in ([asked(), said(SEARCH), asked()], [asked(), said(FOUND)]):
        with pytest.raises(AssertionError, match="V8"):
            check_anthropic_body({"messages": messages})


def test_four_cache_marks_are_the_most() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}

    check_anthropic_body({"messages": [asked(marked, marked)], "system": [marked, marked]})
    with pytest.raises(AssertionError, match="V9"):
        check_anthropic_body({"messages": [asked(marked, marked)], "system": [marked, marked, marked]})


def test_ids_of_calls_may_have_to_be_short_and_their_arguments_objects() -> None:
    def body(id: str, arguments: str) -> dict[str, Any]:
        call = {"id": id, "type": "function", "function": {"name": "a", "arguments": arguments}}
        asking = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {"messages": [asking, {"role": "tool", "tool_call_id": id, "content": "ok"}]}

    check_chat_body(body("call_1", "{}"))
    check_chat_body(body("abcDEF123", "{}"), short_ids=True)
    for refused, short, rule in ((body("call_1", "{}"), True, "V6"), (body("call_1", "[]"), False, "V1")):
        with pytest.raises(AssertionError, match=rule):
            check_chat_body(refused, short_ids=short)
