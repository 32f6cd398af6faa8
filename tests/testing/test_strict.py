"""The strict checks refuse what a provider would refuse."""

from typing import Any

import pytest

from sapwood.testing.strict import check_gemini_body, check_ollama_body

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
