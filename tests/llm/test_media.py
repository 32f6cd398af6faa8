"""Pictures and documents in prompts and in results, for each protocol; and models that cannot take them."""

import asyncio
import json
from typing import Any

import pytest

from sapwood import Agent, create_provider, register_model, tool
from sapwood.core.errors import ConfigError
from sapwood.core.messages import File, Image, Message, Text, ToolCall, ToolResult
from sapwood.core.model import ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.profiles import profile_of
from sapwood.testing import calls, says, scripted
from sapwood.testing.strict import (
    check_anthropic_body,
    check_chat_body,
    check_gemini_body,
    check_ollama_body,
    check_responses_body,
)

PNG, PDF = "iVBORw0KGgo=", "JVBERi0xLjQ="
CHECKS = {
    "anthropic/claude-haiku-4-5": check_anthropic_body,
    "openai-chat/gpt-4o": check_chat_body,
    "openai-responses/gpt-4o": check_responses_body,
    "gemini/gemini-3.5-flash": check_gemini_body,
    "gemini/gemini-2.5-flash": check_gemini_body,
    "ollama/llava": check_ollama_body,
}
SEES = pytest.mark.parametrize("name", list(CHECKS))


def body(name: str, *messages: Message, **facts: bool) -> str:
    profile = profile_of(*name.replace("openai-chat", "openai").replace("openai-responses", "openai").split("/"))
    provider: Any = create_provider(name, api_key="k", profile=profile.replace(**facts))
    sent = provider._call(ModelRequest(Transcript.of(messages))).body
    CHECKS[name](json.loads(sent))
    text: str = sent.decode()
    return text


@SEES
def test_a_picture_in_the_prompt_is_sent(name: str) -> None:
    sent = body(name, Message.user("What is this?", Image(PNG, "image/png")), images=True)
    assert PNG in sent
    assert "What is this?" in sent


@SEES
def test_a_picture_by_its_address_is_sent_or_named(name: str) -> None:
    sent = body(name, Message.user("And this?", Image(url="https://example.org/cat.jpg")), images=True)
    assert "https://example.org/cat.jpg" in sent or "left out" in sent
    assert ("left out" in sent) == name.startswith("ollama")


@SEES
def test_a_document_is_sent_or_named(name: str) -> None:
    sent = body(name, Message.user("Sum up.", File(PDF, "application/pdf", name="a.pdf")), files=True)
    assert (PDF in sent) != ("left out" in sent)
    assert ("left out" in sent) == name.startswith("ollama")


@SEES
def test_a_picture_in_a_result_reaches_the_model(name: str) -> None:
    sent = body(
        name,
        Message.user("Draw."),
        Message.assistant(ToolCall("draw", {}, "r0c0", "call_1")),
        Message("tool", (ToolResult("r0c0", "draw", (Text("Here."), Image(PNG, "image/png"))),)),
        images=True,
    )
    assert PNG in sent
    assert "Here." in sent


@SEES
def test_a_model_that_reads_none_says_so_of_the_newest_message_and_leaves_older_ones_out(name: str) -> None:
    shown = Message.user("Look.", Image(PNG, "image/png"), File(PDF, "application/pdf", name="a.pdf"))
    with pytest.raises(ConfigError, match=r"reads no images, and the message holds 1.*register_model\("):
        body(name, shown, images=False)
    with pytest.raises(ConfigError, match="reads no files"):
        body(name, shown, images=True, files=False)
    sent = body(name, shown, Message.assistant("A cat."), Message.user("Sure?"), images=False, files=False)
    assert PNG not in sent
    assert PDF not in sent
    assert sent.count("left out") == 2


def test_an_agent_says_so_before_anything_is_sent() -> None:
    agent = Agent("deepseek/deepseek-chat", api_key="k", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match="deepseek/deepseek-chat reads no images"):
        list(agent.chat(["Look.", Image(PNG)]))

    async def main() -> None:
        async for _ in agent.achat(["Look.", Image(PNG)]):
            pass

    with pytest.raises(ConfigError, match="reads no images"):
        asyncio.run(main())


def test_a_registered_fact_is_believed() -> None:
    register_model("vllm/my-eyes", images=True)
    provider: Any = create_provider("vllm/my-eyes")
    sent = provider._call(ModelRequest(Transcript.of([Message.user("Look.", Image(PNG))]))).body
    assert PNG.encode() in sent


def test_a_picture_that_a_tool_returns_goes_to_the_next_round() -> None:
    @tool
    def draw() -> Image:
        """Draw a picture."""
        return Image(PNG)

    model = scripted(calls("draw"), says("A dot."))
    list(Agent(llm=model).with_tools([draw]).chat("Draw."))
    (result,) = model.requests[1].transcript[-1].tool_results
    assert Image(PNG) in result.content
