"""A conversation goes from one provider to any other and back: real replies, checked by each provider's rules.

What a provider must get back goes back to it byte for byte, also after another one has spoken; nobody else gets it.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from contract_samples import OLLAMA as OLLAMA_SAMPLES
from test_wire_decode import APIS, GEMINI
from wire_files import SMALL, Exchange, exchanges, whole_set, wire_file

from sapwood import Agent, AgentTool
from sapwood.core.codec import from_json, to_json
from sapwood.core.errors import LLMError
from sapwood.core.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, Reply
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import Codec
from sapwood.llm.gemini import GeminiCodec, GeminiProvider
from sapwood.llm.gemini.encode import NO_SIGNATURE
from sapwood.llm.ollama import OllamaCodec, OllamaProvider
from sapwood.llm.openai import ChatCodec, OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider, ResponsesCodec
from sapwood.llm.options import ModelOptions
from sapwood.testing.prefix import prompt_bytes
from sapwood.testing.strict import (
    check_anthropic_body,
    check_chat_body,
    check_gemini_body,
    check_ollama_body,
    check_responses_body,
)
from support.serving import Serve

PICTURE = "iVBORw0KGgoAAAANSUhEUgAA"
TOOLS = (ToolSchema("read", "Reads.", {"type": "object"}),)
OPAQUE = re.compile(r'"(?:signature|encrypted_content|thoughtSignature|thought_signature|data)":\s*("[^"\\]{24,}")')
RIDDLES = re.compile(rb'"(?:signature|encrypted_content|thoughtSignature)":"[^"]{8,}"')


class Side(NamedTuple):
    """One provider of the conversation. check: its rules. api: the protocol of its recordings."""

    codec: Codec
    profile: ModelProfile
    check: Callable[[dict[str, Any]], None]
    api: tuple[str, ...]

    def body(self, transcript: Transcript, notice: str | None = None) -> bytes:
        request = ModelRequest(transcript, ("be brief",), TOOLS, notice=notice)
        call = self.codec.encode(request, self.profile, base_url="http://127.0.0.1:9", api_key="k")
        self.check(json.loads(call.body))
        return call.body


def gemini_rules(body: dict[str, Any]) -> None:
    check_gemini_body(body, require_signatures=True)


def mistral_rules(body: dict[str, Any]) -> None:
    check_chat_body(body, short_ids=True)


def deepseek_rules(body: dict[str, Any]) -> None:
    check_chat_body(body)
    replies = [message for message in body["messages"] if message["role"] == "assistant"]
    assert all("reasoning_content" in message for message in replies)


CLAUDE = ModelProfile("anthropic", "claude", cache_marks=True, thinking="budget", tool_loading="deferred")
SIDES = {
    "anthropic": Side(
        AnthropicCodec(ModelOptions(thinking=2048)), CLAUDE, check_anthropic_body, ("anthropic.messages",)
    ),
    "chat": Side(ChatCodec(), ModelProfile("openrouter", "m"), check_chat_body, ("openai.chat",)),
    "responses": Side(
        ResponsesCodec(),
        ModelProfile("openai", "gpt-5", encrypted_thinking=True, thinking="effort"),
        check_responses_body,
        ("openai.responses",),
    ),
    "gemini": Side(GeminiCodec(), ModelProfile("gemini", "three", call_signatures=True), gemini_rules, GEMINI),
    "ollama": Side(OllamaCodec(), ModelProfile("ollama", "qwen3"), check_ollama_body, ("ollama.chat",)),
}
MISTRAL = Side(ChatCodec(), ModelProfile("mistral", "m", short_call_ids=True), mistral_rules, ())
DEEPSEEK = Side(
    ChatCodec(), ModelProfile("deepseek", "m", returned_thinking="reasoning_content", images=False), deepseek_rules, ()
)
EVERYONE = {**SIDES, "mistral": MISTRAL, "deepseek": DEEPSEEK}
PAIRS = [(first, second) for first in SIDES for second in SIDES]
STORIES = {  # recordings that are one conversation: calls, parallel calls, thinking, the provider's own tools, citations
    "anthropic": ["thinking-tools-stream", "tools-parallel-stream", "thinking-redacted-stream"],
    "chat": ["openrouter-chat-reasoning-details-tools", "openai-chat-tools-parallel", "mistral-chat-tools-stream"],
    "responses": ["openai-responses-phase-stream", "openai-responses-web-search-annotations-stream"],
    "gemini": ["google-structured-tools-stream", "google-tools-parallel", "google-json-array-stream-tools"],
    "ollama": ["ollama-native-text-ndjson-2"],
}
SMALL_SET = exchanges(SMALL, *APIS)
WHOLE_SET = exchanges(whole_set(), *APIS)


def reply_of(side: Side, exchange: Exchange) -> Reply | None:
    """What this side's decoder makes of a recording; None where that is an error."""
    decoder, splitter = side.codec.decoder(side.profile), exchange.splitter()
    try:
        if splitter is None:
            return decoder.whole(exchange.body)
        for name, data in [*splitter.feed(exchange.body), *splitter.finish()]:
            decoder.feed(name, data)
        return decoder.finish()
    except LLMError:
        return None


def spoken(side: Side, reply: Reply, round: int) -> list[Message]:
    """What the loop stores of a reply: the message with keys, and results, one of them with a picture."""
    parts: list[Part] = []
    for part in reply.content:
        count = sum(isinstance(kept, ToolCall) for kept in parts)
        parts.append(part.replace(key=f"r{round}c{count}") if isinstance(part, ToolCall) else part)
    message = Message("assistant", tuple(parts), side.profile.origin)
    if not message.content:
        return []
    results = [ToolResult(call.key, call.name, (Text("found"), Image(PICTURE))) for call in message.tool_calls]
    return [message, *([Message("tool", tuple(results))] if results else [])]


def turn_of(side: Side, found: list[Exchange], round: int) -> list[Message]:
    """One turn in which this side said all of this."""
    turn = [Message.user(f"question {round}", Image(PICTURE))]
    for number, exchange in enumerate(found):
        if (reply := reply_of(side, exchange)) is not None:
            said = spoken(side, reply, round * 100 + number)
            turn += said
            if said and said[-1].role == "assistant":
                turn.append(Message.user("go on"))
    return turn[:-1] if turn[-1].role == "user" and len(turn) > 1 else turn


@cache
def story(name: str) -> list[Exchange]:
    side = SIDES[name]
    found = [item for word in STORIES[name] for item in SMALL_SET if word in item.name and item.api in side.api]
    assert found
    if name == "ollama":  # a recording with thinking and calls is not there
        for sample in (OLLAMA_SAMPLES.thinking, OLLAMA_SAMPLES.parallel_tools):
            assert sample is not None
            head = {"content-type": sample.content_type}
            response = {"status": 200, "headers": head, "text": sample.body.decode()}
            found.append(Exchange("constructed#0", "ollama.chat", {}, response))
    return found


def through_json(messages: list[Message]) -> Transcript:
    return Transcript.of([from_json(to_json(message), Message) for message in messages])


def state_in(found: list[Exchange]) -> set[str]:
    """All that a provider gave to be sent back, read from the raw bytes of its replies."""
    kept: set[str] = set()
    for exchange in found:
        for line in exchange.body.decode().splitlines():
            if "data" not in line[:4] or '"response.' not in line or "response.output_item.done" in line:
                kept |= {json.loads(text) for text in OPAQUE.findall(line)}  # of items only the finished ones count
    return kept


def riddles(body: bytes) -> set[bytes]:
    """The signatures and ciphers in a request, without the word that stands for one in requests to Gemini."""
    return {found for found in RIDDLES.findall(body) if NO_SIGNATURE.encode() not in found}


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(item)


def unmarked(body: bytes) -> bytes:
    return prompt_bytes(body).rstrip(b'"]}')


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_conversation_goes_over_and_comes_back(first: str, second: str) -> None:
    one, other = SIDES[first], SIDES[second]
    begun = turn_of(one, story(first), 1)
    went_on = turn_of(other, story(second), 2)
    assert begun[-1].role == "assistant" or begun[-1].tool_results

    over = through_json([*begun, Message.user("and now you")])
    to_other = other.body(over)
    one_again = through_json([*begun, *went_on, Message.user("back to you")])
    back = one.body(one_again)
    other.body(one_again)

    alone = one.body(through_json(begun))  # as if nobody else had ever spoken
    assert unmarked(back).startswith(unmarked(alone)), "what it had said itself moved"
    state = state_in(story(first))
    assert state or first in ("chat", "ollama")
    returned = set(texts_in(json.loads(back)))
    assert {text[:50] for text in state - returned} == set(), "its own state did not come back byte for byte"
    if other.profile.origin != one.profile.origin:
        assert not state & set(texts_in(json.loads(to_other))), "another provider got it"


@pytest.mark.parametrize("first", SIDES)
@pytest.mark.parametrize("second", EVERYONE)
def test_another_may_take_over_inside_an_open_tool_loop(first: str, second: str) -> None:
    """As a fallback does: the calls are answered, and the next round is another provider's."""
    one, other = SIDES[first], EVERYONE[second]
    calling = [item for item in story(first) if (reply := reply_of(one, item)) and reply.stop_reason == "tool_use"]
    assert calling
    for exchange in calling:
        open_loop = turn_of(one, [exchange], 1)
        assert open_loop[-1].role == "tool"
        other.body(through_json(open_loop), notice="the last round")
        assert other.profile is one.profile or not riddles(other.body(through_json(open_loop)))


@pytest.mark.parametrize("second", ["mistral", "deepseek"])
@pytest.mark.parametrize("first", SIDES)
def test_servers_with_rules_of_their_own_take_it_too(first: str, second: str) -> None:
    turn = turn_of(SIDES[first], story(first), 1)
    body = EVERYONE[second].body(through_json([*turn, Message.user("and now you")]))
    assert not riddles(body)


def test_thinking_of_a_sibling_stays_with_it() -> None:
    """Of one provider, another model: signatures and ciphers are bound to the model that made them."""
    for name, side in SIDES.items():
        sibling = side._replace(profile=side.profile.replace(model="sibling"))
        turn = turn_of(side, story(name), 1)
        sent = set(texts_in(json.loads(sibling.body(through_json([*turn, Message.user("and now you")])))))
        thoughts = [part for message in turn for part in message.content if isinstance(part, Thinking)]
        kept = {text for part in thoughts for text in texts_in(part.provider_data) if len(text) > 24}
        assert not kept & sent, name


NOT_RETURNED = {"anthropic-messages-pause-turn-stream#1"}  # its first result answers a call of the reply before it
CASES = [pytest.param(item, id=item.name) for item in SMALL_SET] + [
    pytest.param(item, id=item.name, marks=pytest.mark.wire)
    for item in WHOLE_SET
    if item.name not in {known.name for known in SMALL_SET}
]


@pytest.mark.parametrize("exchange", CASES)
def test_every_recorded_reply_can_go_to_everybody(exchange: Exchange) -> None:
    side = next(side for side in SIDES.values() if exchange.api in side.api)
    reply = reply_of(side, exchange) if exchange.response["status"] == 200 else None
    if reply is None:
        return
    turn = [Message.user("go"), *spoken(side, reply, 0)]
    closed = through_json([*turn, Message.user("and now?")])
    is_open = turn[-1].role == "tool" or reply.stop_reason == "pause_turn"
    foreign = [Message.user("you?"), Message("assistant", (Text("yes"),), "elsewhere/m"), Message.user("and you?")]
    back = side.body(through_json([*turn, *foreign]))
    if exchange.name not in NOT_RETURNED:
        assert state_in([exchange]) <= set(texts_in(json.loads(back)))
    for name, other in EVERYONE.items():
        other.body(closed)
        if is_open and (turn[-1].role == "tool" or other is side):
            other.body(through_json(turn))
        if other.profile.origin != side.profile.origin:
            assert not riddles(other.body(closed)), name


@pytest.mark.wire
@pytest.mark.skipif(not WHOLE_SET, reason="the whole set of recordings is not here")
def test_a_paused_turn_goes_back_whole_and_what_it_left_open_does_not() -> None:
    side = SIDES["anthropic"]
    paused, resumed = [item for item in WHOLE_SET if item.name.startswith("anthropic-messages-pause-turn-stream")]
    first, then = reply_of(side, paused), reply_of(side, resumed)
    assert first is not None
    assert then is not None
    begun = [Message.user("go"), *spoken(side, first, 0)]
    both = [*begun, *spoken(side, then, 1), Message.user("and now?")]

    assert state_in([paused, resumed]) <= set(texts_in(json.loads(side.body(through_json(both)))))
    side.body(through_json(begun))  # as the provider asks for it
    given_up = json.loads(side.body(through_json([*begun, Message.user("never mind")])))
    kinds = [block["type"] for block in given_up["messages"][1]["content"]]
    assert kinds.count("server_tool_use") == kinds.count("web_search_tool_result") == 10


# ---- through the agent, over HTTP


RECORDED = {  # a turn that calls one tool and ends, by protocol: the recording and the tool
    "anthropic": ("anthropic-messages-thinking-tools-stream", "fixed_version"),
    "chat": ("openrouter-chat-reasoning-details-tools-stream", "reasoning_weather"),
    "responses": ("openai-responses-phase-stream", "get_capital"),
    "gemini": ("google-structured-tools-stream", "get_user_country"),
    "ollama": ("ollama-native-text-ndjson-2", ""),
}
MAKERS: dict[str, Callable[..., BaseLLMProvider]] = {
    "anthropic": AnthropicProvider,
    "chat": OpenAIChatProvider,
    "responses": OpenAIResponsesProvider,
    "gemini": GeminiProvider,
    "ollama": OllamaProvider,
}


def tool_named(name: str) -> AgentTool:
    schema = {"type": "object", "additionalProperties": True}
    return AgentTool(name=name, description="A tool.", input_schema=schema, fn=lambda **given: "found")


@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if pair[0] != pair[1]])
def test_an_agent_changes_its_model_and_changes_back(first: str, second: str, serve: Serve) -> None:
    tools = [tool_named(name) for _, name in RECORDED.values() if name]
    history: Any = []
    bodies: dict[str, list[dict[str, Any]]] = {first: [], second: []}
    for number, name in enumerate((first, second, first)):
        server = serve(RECORDED[name][0])
        provider = MAKERS[name](SIDES[name].profile.model, base_url=server.url, profile=SIDES[name].profile)
        agent = Agent(llm=provider, max_retries=0).with_tools(tools)
        list(agent.stream(f"question {number}", messages=history))
        assert agent.last_turn is not None
        assert agent.last_turn.stopped_by == "stop", agent.last_turn.stopped_by
        history = agent.last_messages
        for asked in server.requests:
            SIDES[name].check(asked["body"])
            bodies[name].append(asked["body"])

    assert [message.origin for message in history if message.origin][:1] == [SIDES[first].profile.origin]
    alone = json.dumps(bodies[first][0]).encode()
    back = json.dumps(bodies[first][-1]).encode()
    assert unmarked(back).startswith(unmarked(alone))
    document = wire_file(RECORDED[first][0])
    told = [item for item in exchanges(SMALL, *APIS) if item.name.startswith(document.stem)]
    assert state_in(told) <= set(texts_in(bodies[first][-1]))
    assert not state_in(told) & set(texts_in(bodies[second]))
