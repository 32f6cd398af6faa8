"""Guide A's peer, section 17: models, errors, retries, fallbacks, names of models, and the wire.

Each test holds to what is right in a statement. Where the peer is wrong, or where this library is made in another way
on purpose, the docstring says so; the faults themselves (B22 to B25, B41, B43, B44) are tested beside the others in
test_must_differ.py and in tests/llm/test_pricing.py.
"""

import json
from typing import Any

import pytest

from sapwood import (
    Agent,
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    LLMError,
    LLMProvider,
    LLMTimeoutError,
    Message,
    ModelNotFoundError,
    ModelRequest,
    ProviderNotInstalledError,
    RateLimitError,
    ServerError,
    Transcript,
    Usage,
    create_provider,
    tool,
)
from sapwood.core.events import ProviderWaiting, RoundRestarted, TurnFinished
from sapwood.core.messages import Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile
from sapwood.core.tools import ToolSchema
from sapwood.llm.codec import Timeouts
from sapwood.llm.failures import error_of
from sapwood.llm.retry import RetryPolicy, retry_delay
from sapwood.testing import calls, fails, says, scripted

ADD = ToolSchema("notes.add", "Adds.", {"type": "object"}, input_examples=[{"text": "tea"}])
SECOND = ModelProfile("second", "m")


def sent(name: str, *history: Message, **request: Any) -> dict[str, Any]:
    """The body that a model of this name is sent."""
    provider: Any = create_provider(name, api_key="k")
    asked = ModelRequest(Transcript.of(history or [Message.user("hi")]), ("be brief",), **request)
    body: dict[str, Any] = json.loads(provider._call(asked).body)
    return body


def answered(*, is_error: bool = False) -> list[Message]:
    asking = (ToolCall("notes.add", {"text": "a"}, "r0c0", "t0"), ToolCall("notes.add", {}, "r0c1", "t1"))
    results = (ToolResult("r0c0", "notes.add", (Text("no"),), is_error), ToolResult("r0c1", "notes.add", (Text("ok"),)))
    return [Message.user("hi"), Message("assistant", asking), Message("tool", results)]


# ---- protocol and values


def test_a_model_is_known_by_its_protocol_at_run_time() -> None:
    """Differs: one `stream` and a profile in place of six members; it may be plain or async (B41)."""
    assert isinstance(create_provider("anthropic/m"), LLMProvider)
    assert not isinstance(object(), LLMProvider)


def test_the_loop_passes_the_cap_of_the_reply_and_the_choice_of_tools_when_it_matters() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    model = scripted(calls("look"), says("done"))
    list(Agent(llm=model, max_response_tokens=77, max_rounds=2).with_tools([look]).chat("go"))
    assert [request.max_tokens for request in model.requests] == [77, 77]
    assert [request.tool_choice for request in model.requests] == [None, "none"]


def test_usage_has_the_names_and_the_sum() -> None:
    """Differs: the cost is `cost_usd` and may be unknown (B43); cached tokens are counted once (B22)."""
    usage = Usage(prompt_tokens=20, completion_tokens=5, cache_creation_tokens=3, cache_read_tokens=80)
    assert usage.total_tokens == 108
    assert usage.cost_usd is None


def test_a_call_and_its_result_carry_id_name_arguments_and_whether_it_failed() -> None:
    asked = ToolCall("add", {"a": 1}, id="t1")
    assert (asked.id, asked.name, asked.arguments) == ("t1", "add", {"a": 1})
    assert ToolResult("r0c0", "add", (Text("no"),), is_error=True).is_error


# ---- errors


def test_errors_say_who_was_asked_and_whether_another_try_may_help() -> None:
    """Differs: the root is LLMError, and an overflow has a class of its own."""
    for kind, transient in (
        (RateLimitError, True),
        (ServerError, True),
        (LLMTimeoutError, True),
        (AuthenticationError, False),
        (ModelNotFoundError, False),
        (ContentFilterError, False),
        (ContextOverflowError, False),
        (LLMError, False),
    ):
        error = kind("no", provider="p")
        assert isinstance(error, LLMError)
        assert (error.provider, error.is_transient) == ("p", transient)
    assert RateLimitError("no", retry_after_seconds=3.0).retry_after_seconds == 3.0
    assert LLMError("no", is_transient=True).is_transient


@pytest.mark.parametrize(
    ("status", "kind", "transient"),
    [
        (401, AuthenticationError, False),
        (404, ModelNotFoundError, False),
        (429, RateLimitError, True),
        (500, ServerError, True),
        (502, ServerError, True),
        (503, ServerError, True),
        (529, ServerError, True),
        (400, LLMError, False),
        (422, LLMError, False),
        # Differs from here: the peer makes all of these a permanent error without a kind (B24).
        (403, AuthenticationError, False),
        (408, LLMTimeoutError, True),
        (504, LLMTimeoutError, True),
        (409, ServerError, True),
    ],
)
def test_a_status_means_this(status: int, kind: type[LLMError], transient: bool) -> None:
    error = error_of(b'{"error": {"message": "no"}}', status=status)
    assert (type(error), error.is_transient) == (kind, transient)


def test_a_request_that_is_too_large_is_too_long() -> None:
    """Differs: 413 is what a shorter history can help, so it is no error without a kind."""
    error = error_of(b'{"error": {"type": "request_too_large", "message": "Request too large"}}', status=413)
    assert type(error) is ContextOverflowError


def test_no_connection_is_a_server_error() -> None:
    """Differs: a closed port is no time-out."""
    provider = create_provider("anthropic/m", base_url="http://127.0.0.1:9", api_key="k")
    with pytest.raises(ServerError) as caught:
        list(provider.stream(ModelRequest(Transcript.of([Message.user("hi")]))))  # type: ignore[arg-type]
    assert caught.value.is_transient


def test_a_missing_key_is_an_error_at_the_first_call_and_not_before() -> None:
    """Differs: it is an AuthenticationError, which says what to set (B24)."""
    agent = Agent("anthropic/m", max_retries=0)
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        list(agent.chat("hi"))


# ---- retries


def test_three_tries_unless_told_otherwise() -> None:
    down = [fails(ServerError("down", retry_after_seconds=0.0)) for _ in range(3)]
    model = scripted(*down)
    with pytest.raises(ServerError):
        list(Agent(llm=model).with_tools([]).chat("go"))
    assert len(model.requests) == 3
    assert RetryPolicy().max_retries == 2


def test_waits_double_up_to_eight_seconds_and_heed_the_provider() -> None:
    """Differs: they begin at half a second, vary at random, and are told by an event (B23)."""
    patient = RetryPolicy(max_retries=9)
    waits = [retry_delay(ServerError("down"), attempt, 0.0, policy=patient) for attempt in range(6)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert retry_delay(RateLimitError("slow", retry_after_seconds=20.0), 0, 0.0) == 20.0


@pytest.mark.parametrize("error", [AuthenticationError("no"), ModelNotFoundError("no"), LLMError("no")])
def test_what_cannot_pass_is_not_tried_again(error: LLMError) -> None:
    model = scripted(fails(error))
    with pytest.raises(type(error)):
        list(Agent(llm=model).chat("go"))
    assert len(model.requests) == 1


def test_after_the_first_piece_was_shown_an_error_is_the_callers() -> None:
    model = scripted(fails(ServerError("down"), after="It is"))
    shown: list[str] = []
    with pytest.raises(ServerError) as caught:
        shown.extend(Agent(llm=model).chat("go"))
    assert len(model.requests) == 1
    assert "".join(shown) == "It is"
    assert caught.value.partial is not None


def test_time_outs_are_for_a_connection_and_between_two_pieces() -> None:
    """Differs: not sixty seconds for everything; a model may think for long, and none is set in total."""
    assert Timeouts() == Timeouts(connect=5.0, between_bytes=120.0)


# ---- fallbacks


def test_a_fallback_takes_over_after_a_failure_that_may_pass() -> None:
    """Differs: also for keys, missing models and raw network errors, and it is the one reported and priced (B25)."""
    second = scripted(says("ok"), profile=SECOND)
    agent = Agent(llm=scripted(fails(ServerError("down"))), fallbacks=[second], max_retries=0)
    assert "".join(agent.chat("hi")) == "ok"
    assert agent.last_messages[-1].origin == "second/m"


def test_a_fallback_in_mid_stream_starts_the_round_again_and_says_so() -> None:
    """Differs: the peer gives up once a piece was shown."""
    second = scripted(says("ok"), profile=SECOND)
    agent = Agent(llm=scripted(fails(ServerError("down"), after="It is")), fallbacks=[second], max_retries=0)
    events = list(agent.stream("hi"))
    assert [event.model for event in events if isinstance(event, RoundRestarted)] == ["second/m"]
    last = events[-1]
    assert isinstance(last, TurnFinished)
    assert last.text == "ok"


def test_a_request_that_is_wrong_does_not_fall_back() -> None:
    second = scripted(says("ok"))
    agent = Agent(llm=scripted(fails(LLMError("bad request", status=400))), fallbacks=[second])
    with pytest.raises(LLMError, match="bad request"):
        list(agent.chat("hi"))
    assert not second.requests


def test_a_wait_is_told() -> None:
    """Differs: the peer sleeps in silence."""
    model = scripted(fails(RateLimitError("slow", retry_after_seconds=0.0)), says("ok"))
    (waiting,) = [event for event in Agent(llm=model).stream("hi") if isinstance(event, ProviderWaiting)]
    assert "slow" in waiting.reason


# ---- names of models


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("openrouter/meta-llama/llama-3", "openrouter/meta-llama/llama-3"),
        ("gemini/gemini-3-flash-preview", "gemini/gemini-3-flash-preview"),
        ("ollama/qwen3", "ollama/qwen3"),
        ("OpenAI/gpt-4o", "openai/gpt-4o"),  # differs: case and blanks around the name do not matter
        ("  ollama/qwen3 ", "ollama/qwen3"),
    ],
)
def test_a_model_is_named_by_provider_and_model(name: str, origin: str) -> None:
    assert create_provider(name).profile.origin == origin


def test_an_unknown_provider_is_an_error_that_lists_the_known_ones() -> None:
    """Differs: it is a ConfigError too, and shows base_url= in place of an extra that does not exist."""
    with pytest.raises(ProviderNotInstalledError, match=r"known: .*anthropic.*base_url=") as caught:
        create_provider("nobody/m")
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("name", ["", "  ", "openai/", "openai/ "])
def test_an_empty_model_is_refused(name: str) -> None:
    """Differs: the peer accepts it and fails at the first call."""
    with pytest.raises(ConfigError, match="empty"):
        create_provider(name)


# ---- the wire


def test_the_prompt_is_cached_by_default() -> None:
    """Differs: marks at the seams in place of one at the top, which not every server knows; see docs/models.md."""
    body = sent("anthropic/claude-haiku-4-5", tools=(ADD,))
    assert "cache_control" in json.dumps(body["system"])
    assert "cache_control" in json.dumps(body["messages"][-1])


def test_anthropic_gets_errors_marked_and_examples() -> None:
    """Differs: the results of one reply are one user message, as the endpoint demands, and names are valid (B46)."""
    body = sent("anthropic/claude-haiku-4-5", *answered(is_error=True), tools=(ADD,))
    first, second = body["messages"][-1]["content"]
    assert [block["type"] for block in (first, second)] == ["tool_result", "tool_result"]
    assert first["is_error"] is True
    assert "is_error" not in second
    assert body["tools"][0]["input_examples"] == [{"text": "tea"}]
    assert body["tools"][0]["name"] == "notes_add"


def test_thinking_goes_back_to_anthropic() -> None:
    """Differs: the peer drops it, and with it what a model in a tool loop goes on from."""
    thought = Thinking("so", {"anthropic": {"signature": "s"}})
    reply = Message("assistant", (thought, Text("ok")), "anthropic/claude-haiku-4-5")
    body = sent("anthropic/claude-haiku-4-5", Message.user("hi"), reply, Message.user("more"))
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "so", "signature": "s"}


def test_openai_gets_arguments_as_text_and_is_asked_for_its_usage() -> None:
    body = sent("openai-chat/gpt-4o", *answered(), tools=(ADD,), max_tokens=50)
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"text":"a"}'
    assert body["stream_options"] == {"include_usage": True}
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]


@pytest.mark.parametrize(("choice", "word"), [("any", "required"), ("auto", "auto"), ("none", "none")])
def test_openai_has_its_own_word_for_any(choice: Any, word: str) -> None:
    assert sent("openai-chat/gpt-4o", tools=(ADD,), tool_choice=choice)["tool_choice"] == word


def test_gemini_is_told_that_a_call_failed_and_chat_has_no_place_for_it() -> None:
    """As with the peer: in Chat Completions only the words of a result say that it is an error."""
    contents = sent("gemini/gemini-3-flash-preview", *answered(is_error=True), tools=(ADD,))["contents"]
    assert [list(part["functionResponse"]["response"]) for part in contents[-1]["parts"]] == [["error"], ["result"]]
    chat = sent("openai-chat/gpt-4o", *answered(is_error=True), tools=(ADD,))["messages"]
    assert chat[3] == {"role": "tool", "tool_call_id": "t0", "content": "no"}
