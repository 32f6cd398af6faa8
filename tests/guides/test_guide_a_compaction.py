"""Guide A, section 11: compaction. Where our design differs, the test says so."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sapwood import Agent, ConfigError, Message, Summary, tool
from sapwood.core.events import CompactionFinished, CompactionStarted, RoundStarted
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, says, scripted


@tool(read_only=True)
def look(n: int) -> str:
    """Look."""
    return f"page {n} " + "lorem ipsum " * 40


def rounds(count: int) -> list[ScriptedReply]:
    return [*(calls(call("look", {"n": number})) for number in range(count)), says("done")]


def talk(turns: int) -> list[Message]:
    return [
        message
        for number in range(turns)
        for message in (Message.user(f"question {number} " + "word " * 40), Message.assistant(f"answer {number}"))
    ]


def summary_of(request: ModelRequest) -> list[str]:
    return [part.text for message in request.transcript for part in message.content if isinstance(part, Summary)]


def short(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


def test_11_1_over_the_trigger_all_but_the_last_messages_become_one_summary_at_the_start_of_a_round() -> None:
    # Ours keeps the first message beside the last ones, and takes only so much into the summary as it must.
    model = scripted(says("ok"))
    agent = Agent(llm=model).with_compaction(500, keep_last=2, compact_fn=short)
    events = list(agent.stream("now", messages=talk(20)))
    assert [type(event) for event in events[1:4] if not isinstance(event, RoundStarted)][:2] == [
        CompactionStarted,
        CompactionFinished,
    ]
    (request,) = model.requests
    (told,) = summary_of(request)
    assert int(told.split()[0]) > 30
    assert [message.text for message in request.transcript][-2:] == ["answer 19", "now"]


def test_11_1_a_summary_is_not_written_for_what_is_smaller_than_it() -> None:
    asked: list[int] = []

    def summary(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "short"

    model = scripted(says("ok"))
    # Over the trigger by what may not be summarised: the system prompt.
    agent = Agent(llm=model).with_system_prompt("rule " * 500).with_compaction(300, keep_last=0, compact_fn=summary)
    list(agent.stream("now", messages=[Message.user("hi"), Message.assistant("hello")]))
    assert asked == []


def test_11_1_a_result_is_never_kept_without_its_call() -> None:
    past: list[Message] = []
    agent = Agent(llm=scripted(*rounds(6))).with_tools([look])
    list(agent.stream("look at six pages"))
    past = list(agent.last_messages)
    for keep in range(8):
        model = scripted(says("ok"))
        own = Agent(llm=model).with_tools([look]).with_compaction(300, keep_last=keep, compact_fn=short)
        list(own.stream("now", messages=past))
        messages = list(model.requests[0].transcript)
        for place, message in enumerate(messages):
            if message.role == "tool":
                assert [item.key for item in messages[place - 1].tool_calls] == [r.key for r in message.tool_results]


def test_11_2_the_summary_function_may_be_async_and_without_one_the_agents_model_is_asked() -> None:
    async def slow(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return "written slowly"

    model = scripted(says("ok"))
    list(Agent(llm=model).with_compaction(500, keep_last=2, compact_fn=slow).stream("now", messages=talk(20)))
    assert summary_of(model.requests[0]) == ["written slowly"]
    own = scripted(says("written by the model"), says("ok"))
    list(Agent(llm=own).with_compaction(500, keep_last=2).stream("now", messages=talk(20)))
    assert summary_of(own.requests[1]) == ["written by the model"]


def test_11_2_a_function_that_raises_does_not_leave_the_turn() -> None:
    def fails(messages: Sequence[Message]) -> str:
        raise RuntimeError("no")

    model = scripted(says("ok"))
    assert "".join(Agent(llm=model).with_compaction(500, compact_fn=fails).chat("now", messages=talk(20))) == "ok"
    assert len(model.requests[0].transcript) == 41


def test_11_3_and_b20_the_users_question_is_in_every_request_word_for_word() -> None:
    model = scripted(*rounds(5))
    agent = Agent(llm=model).with_tools([look]).with_compaction(500, keep_last=2, compact_fn=short)
    list(agent.stream("What is on page 4? Tell me at once."))
    for request in model.requests:
        assert "What is on page 4? Tell me at once." in [m.text for m in request.transcript if m.role == "user"]
        assert not any("coroutine" in str(message) for message in request.transcript)


@pytest.mark.parametrize(("trigger", "keep"), [(0, 4), (-5, 4), (500, -1)])
def test_11_4_and_b20_a_trigger_or_a_number_to_keep_that_is_none_is_refused(trigger: int, keep: int) -> None:
    with pytest.raises(ConfigError):
        Agent(llm=scripted()).with_compaction(trigger, keep_last=keep)


def test_11_the_summary_is_never_the_words_of_the_user_on_any_wire() -> None:
    from sapwood.llm.anthropic import AnthropicCodec
    from sapwood.llm.gemini import GeminiCodec
    from sapwood.llm.openai import ChatCodec

    model = scripted(says("ok"))
    agent = Agent(llm=model).with_compaction(500, keep_last=2, compact_fn=lambda messages: "ZEBRA")
    list(agent.stream("now", messages=talk(20)))
    codecs: list[Any] = [AnthropicCodec(), ChatCodec(), GeminiCodec()]
    for codec in codecs:
        profile = model.profile.replace(provider="x")
        body = codec.encode(model.requests[0], profile, base_url="http://127.0.0.1:9", api_key="k").body.decode()
        before = body[: body.index("ZEBRA")]
        assert "not written by the user" in before[-200:]
