"""Definitions of tools are encoded once for a conversation, and anew where they changed."""

import json
from typing import Any

import pytest

from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.encoded import encoded_tools
from sapwood.llm.pricing import MODEL_PRICING, MOST_ASKED, Price, price_of
from support.wire_script import PROVIDERS, Script, provider_for

ADD, SUB = ToolSchema("add", "Add."), ToolSchema("sub", "Subtract.")
SHORT = Transcript.of([Message.user("hi")])


def test_a_tool_is_encoded_once_for_all_requests_of_a_conversation() -> None:
    made: list[str] = []

    def encode(tool: ToolSchema) -> bytes:
        made.append(tool.name)
        return tool.name.encode()

    longer = SHORT.extend([Message.assistant("hello"), Message.user("and?")])
    for transcript, tools in ((SHORT, (ADD, SUB)), (longer, (ADD, SUB)), (longer, (*(ADD,), SUB))):
        assert encoded_tools(ModelRequest(transcript, tools=tools), "mine", encode) == [b"add", b"sub"]
    assert made == ["add", "sub"]
    branch = SHORT.extend([Message.assistant("no")])  # a second branch from one point
    assert encoded_tools(ModelRequest(branch, tools=(ADD, SUB)), "mine", encode) == [b"add", b"sub"]
    assert made == ["add", "sub"]
    assert encoded_tools(ModelRequest(branch, tools=(ADD, SUB)), "other", encode) == [b"add", b"sub"]
    assert len(made) == 4


@pytest.mark.parametrize("protocol", PROVIDERS)
def test_other_tools_are_sent_as_they_are(protocol: str) -> None:
    provider = provider_for(protocol, Script(protocol))
    transcript = Transcript.of([Message.user("hi")])
    other = ToolSchema("add", "Add two numbers.")

    def sent(*tools: ToolSchema) -> Any:
        body = json.loads(provider._call(ModelRequest(transcript, tools=tools)).body)
        found = body.get("tools", [])
        return found[0]["functionDeclarations"] if protocol == "gemini" and found else found

    def texts(found: Any) -> list[str]:
        return [tool.get("function", tool)["description"] for tool in found]

    assert texts(sent(ADD)) == ["Add."]
    assert texts(sent(ADD, SUB)) == ["Add.", "Subtract."]
    assert texts(sent(SUB, ADD)) == ["Subtract.", "Add."]
    assert texts(sent(other, ADD)) == ["Add two numbers.", "Add."]
    assert sent() == []
    assert texts(sent(ADD)) == ["Add."]


def test_a_price_that_changes_is_the_price_from_then_on(fresh_facts: None) -> None:
    assert price_of("acme", "rocket") is None
    MODEL_PRICING["acme/rocket"] = Price(1, 2)
    assert price_of("acme", "rocket") == Price(1, 2)
    del MODEL_PRICING["acme/rocket"]
    assert price_of("acme", "rocket") is None
    for number in range(MOST_ASKED + 10):
        price_of("acme", f"rocket-{number}")
    assert len(MODEL_PRICING.asked()) <= MOST_ASKED
