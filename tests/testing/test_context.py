"""Assertions on a ledger, and the checks of a strict provider, reject what they should."""

from typing import Any

import pytest

from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.testing import assert_kept, assert_skipped, assert_under
from sapwood.testing.strict import check_anthropic_body, check_chat_body

LEDGER = ContextLedger(
    {"system": 10, "memory": 30},
    (
        LedgerLine("memory", "2 memories", "memory", 30),
        LedgerLine("docs", "page 1", "retrieval", 20, "trimmed", "cut"),
        LedgerLine("docs", "page 2", "retrieval", 90, "skipped", "too long"),
        LedgerLine("skills", "one", "skills", 90, "failed", "too long"),
    ),
)


def test_what_holds_passes() -> None:
    assert_kept(LEDGER, "memory")
    assert_kept(LEDGER, "docs")
    assert_skipped(LEDGER, "docs")
    assert_under(LEDGER, 40)
    assert_under(LEDGER, 30, section="memory")
    assert_under(LEDGER, 0, section="files")


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda: assert_kept(LEDGER, "skills"), "nothing of 'skills' was kept: .*too long"),
        (lambda: assert_kept(LEDGER, "other"), "nothing of 'other' was kept: it offered nothing"),
        (lambda: assert_kept(None, "memory"), "it offered nothing"),
        (lambda: assert_skipped(LEDGER, "memory"), "nothing of 'memory' was skipped"),
        (lambda: assert_skipped(LEDGER, "other"), "it offered nothing"),
        (lambda: assert_under(LEDGER, 39), "the request takes about 40 tokens, more than 39"),
        (lambda: assert_under(LEDGER, 29, section="memory"), "memory takes about 30 tokens, more than 29"),
        (lambda: assert_under(None, 10), "there is no ledger"),
    ],
)
def test_what_does_not_hold_fails_and_says_so(check: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check()


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(id: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "add", "input": {}, **more}


def result(id: str = "x", content: Any = "3") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def body(*blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Messages of these blocks, the user's first, by turns."""
    return {"messages": [{"role": ("user", "assistant")[n % 2], "content": item} for n, item in enumerate(blocks)]}


GO = [text("go")]


def test_a_body_that_a_strict_provider_takes_passes() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    check_anthropic_body({"messages": []})
    check_anthropic_body(
        body([*GO, picture], [thinking, use("x"), use("y")], [result("y"), result("x", GO), text("and")], GO)
    )


ANTHROPIC: list[tuple[str, dict[str, Any]]] = [
    ("V1: message 2 leaves a call", body(GO, [use()], GO)),
    ("V1: message 2 leaves a call", body(GO, [use("x"), use("y")], [result("x")])),
    ("V1: message 2 answers a call twice", body(GO, [use()], [result(), result()])),
    ("V1: the last calls have no results", body(GO, [use()])),
    ("V1: message 1 has arguments that are no object", body(GO, [use(input="{}")], [result()])),
    ("V2: message 0 answers what was not asked", body([result()])),
    ("V2: message 4 answers what was not asked", body(GO, [use()], [result()], GO, [result()])),
    ("V3: a system block is blank", {**body(GO), "system": [text(" ")]}),
    ("V3: message 0 is empty", body([])),
    ("V3: message 0 has a blank text", body([text("\n")])),
    ("V3: message 2 has a blank text", body(GO, [use()], [result(content="")])),
    ("V3: message 2 has a blank text", body(GO, [use()], [result(content=[text(" ")])])),
    ("V4: white space at the end", body(GO, [text("so ")])),
    ("V5: message 0 has the role 'system'", {"messages": [{"role": "system", "content": GO}]}),
    ("V5: message 1 has the role of the one before", {"messages": [{"role": "user", "content": GO}] * 2}),
    ("V5: message 2 has text before a result", body(GO, [use()], [text("and"), result()])),
    ("V6: message 1 has the call id 'a b'", body(GO, [use("a b")], [result("a b")])),
    ("V6: message 1 has the call id ''", body(GO, [use("")], [result("")])),
    ("V6: message 3 uses the call id 'x' again", body(GO, [use()], [result()], [use()], [result()])),
    ("V7: message 1 has thinking without a signature", body(GO, [{"type": "thinking", "thinking": "hm"}])),
    (
        "V7: message 1 has a mark on thinking",
        body(GO, [{"type": "thinking", "thinking": "h", "signature": "s", "cache_control": {}}]),
    ),
]


@pytest.mark.parametrize(("says", "given"), ANTHROPIC)
def test_a_body_that_a_strict_messages_endpoint_refuses(says: str, given: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=says):
        check_anthropic_body(given)


USER = {"role": "user", "content": "go"}
ASKED = {"role": "assistant", "tool_calls": [{"id": "x"}, {"id": "y"}]}
ONE, TWO = ({"role": "tool", "tool_call_id": id, "content": "3"} for id in ("x", "y"))


def chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def test_a_body_that_a_strict_chat_endpoint_takes_passes() -> None:
    check_chat_body(chat())
    check_chat_body(chat(USER, ASKED, TWO, ONE, {"role": "assistant", "content": "so"}, tools=[{}]))


CHAT: list[tuple[str, dict[str, Any]]] = [
    (r"V1: message 2 follows calls without results: \['x', 'y'\]", chat(USER, ASKED, USER)),
    ("V1: the last calls have no results", chat(USER, ASKED, ONE)),
    ("V2: message 1 answers 'x', which was not asked", chat(USER, ONE)),
    ("V2: message 3 answers 'x'", chat(USER, ASKED, ONE, ONE)),
    ("V3: message 0 is blank", chat({"role": "user", "content": " "})),
    ("V3: message 2 is blank", chat(USER, ASKED, {**ONE, "content": ""})),
    ("V3: the list of tools is empty", chat(USER, tools=[])),
    ("V4: white space at the end", chat(USER, {"role": "assistant", "content": "so\n"})),
    ("V6: message 1 has the call id", chat(USER, {"role": "assistant", "tool_calls": [{"id": "a b"}]})),
    ("V6: message 4 uses the call id 'x' again", chat(USER, ASKED, ONE, TWO, ASKED)),
]


@pytest.mark.parametrize(("says", "given"), CHAT)
def test_a_body_that_a_strict_chat_endpoint_refuses(says: str, given: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=says):
        check_chat_body(given)
