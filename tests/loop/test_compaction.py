"""What a compaction makes of a run: told apart, fitted, noted, and the same after a crash."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    Allocation,
    Budget,
    ContextSource,
    Message,
    SqliteStore,
    TokenBudget,
    UsageLimitError,
    UsageLimits,
    compaction_source,
    create_context_manager,
    run_agent,
    tool,
)
from sapwood.context.source import Exchange, History
from sapwood.context.summarise import Written
from sapwood.core.events import CompactionFinished, ContextUpdated
from sapwood.core.messages import Summary
from sapwood.core.model import ModelRequest
from sapwood.core.usage import Usage
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, says, scripted
from sapwood.testing.faults import Crash, crash_at

RULE = "Rule: never say ZEBRA-9."


@tool
def send(to: str) -> str:
    """Send a mail."""
    return "ok"


@tool(read_only=True)
def page(n: int) -> str:
    """Show a page."""
    return f"page {n} " + "lorem ipsum " * 60


def talk(turns: int, words: int = 40) -> list[Message]:
    found = [Message.user(RULE), Message.assistant("ok")]
    for number in range(turns):
        found += [Message.user(f"q{number} " + "word " * words), Message.assistant(f"a{number} " + "word " * words)]
    return found


def text_of(request: ModelRequest) -> str:
    return "\n".join(str(message) for message in request.transcript)


def fails(messages: Sequence[Message]) -> str:
    raise RuntimeError("no")


def brief(messages: Sequence[Message]) -> str:
    return "They spoke."


@pytest.mark.parametrize("ids", [("a1", "b1"), ("", "")])
def test_a_call_of_an_earlier_turn_that_looks_the_same_is_not_taken_for_one_of_this_turn(
    tmp_path: Path, ids: tuple[str, str]
) -> None:
    pages = [calls(call("page", {"n": number})) for number in range(40)]
    mails = [calls(call("send", {"to": name}, id=id)) for name, id in zip(("ann", "bob"), ids, strict=True)]
    model = scripted(mails[0], says("Sent."), mails[1], *pages, says("done"))
    with SqliteStore(tmp_path / "a.db") as store:
        agent = Agent(llm=model, max_tokens=4_000, max_response_tokens=300, max_rounds=60).with_tools([send, page])
        agent.with_conversation(store, "c").with_compaction(0.5, compact_fn=brief, keep_last=40)
        list(agent.stream("mail ann"))
        events = list(agent.stream("mail bob and read"))
        assert any(event.own_upto for event in events if isinstance(event, CompactionFinished))
        messages = store.conversations.load("c").messages
    sent = [
        (m.tool_calls[0].arguments, messages[n + 1].tool_results[0].text)
        for n, m in enumerate(messages)
        if m.tool_calls
    ]
    assert ({"to": "ann"}, "ok") in sent
    assert "Interrupted" not in str(messages)


def test_run_agent_compacts_by_a_source_before_and_within_a_turn() -> None:
    model = scripted(*[calls(call("page", {"n": number})) for number in range(20)], says("done"))
    source = compaction_source(at=0.5, summarise=brief)
    context = create_context_manager(budget=Budget(6_000, reserve=300), sources=[source])

    async def turn() -> None:
        options: Any = {"client": model, "prompt": "hi", "messages": talk(60), "context": context, "max_steps": 30}
        async for _ in run_agent(**options, tools=[page]):
            pass

    asyncio.run(turn())
    assert len(model.requests[0].transcript) < 60
    assert "They spoke." in text_of(model.requests[0])
    assert "Cleared to save room" in text_of(model.requests[-1])


@pytest.mark.parametrize("scope", ["tree", "turn"])
def test_what_a_summary_used_counts_in_the_limits_of_the_tree_and_of_the_turn(scope: str) -> None:
    limits = UsageLimits(total_tokens_limit=40_000, on_limit="raise")
    agent = Agent(llm=scripted(says("ok")), max_tokens=2_000, max_response_tokens=100)
    agent.with_compaction(0.5, compact_fn=lambda messages: Written("short", Usage(50_000, 5_000)))
    agent.with_usage_limits(limits) if scope == "tree" else agent.with_usage_limits(turn=limits)
    with pytest.raises(UsageLimitError):
        list(agent.stream("now", messages=talk(30)))


def test_a_turn_that_died_after_its_messages_were_kept_is_resumed_with_the_whole_history(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        model = scripted(*[says("word " * 60)] * 60)
        agent = Agent(llm=model, max_tokens=1_500, max_response_tokens=300).with_conversation(store, "c")
        for number in range(24):
            with crash_at("conversation.appended"), pytest.raises(Crash):
                list(agent.stream(f"q{number} " + "word " * 30))
            (open_run,) = store.runs.waiting("c")
            list(agent.resume(open_run.run_id))
            assert list(agent.last_messages) == list(store.conversations.load("c").messages)


@pytest.mark.parametrize("summary", [fails, lambda messages: ""])
def test_pinned_messages_of_every_kind_stay_where_the_summary_fails(summary: Any) -> None:
    past = talk(60)
    past[20] = Message.user("Keep this: blue.")
    model = scripted(says("ok"))
    agent = Agent(llm=model, max_tokens=4_000, max_response_tokens=300)
    agent.with_compaction(compact_fn=summary, pin=lambda message: message.text.startswith("Keep"))
    list(agent.stream("hi", messages=past))
    sent = list(model.requests[0].transcript)
    assert past[0] in sent
    assert past[20] in sent
    assert len(sent) < len(past)


def test_a_history_over_its_share_is_summarised_and_what_is_pinned_stays() -> None:
    model = scripted(*[says("word " * 40)] * 40)
    budget = TokenBudget(6_000, 300, (Allocation("history", share=0.3),))
    agent = Agent(llm=model).with_budget(budget).with_compaction(compact_fn=brief)
    history: Any = ()
    for number in range(40):
        list(agent.stream(RULE if number == 0 else f"q{number} " + "word " * 40, messages=history))
        history = agent.last_messages
        assert RULE in text_of(model.requests[-1])
    assert "They spoke." in text_of(model.requests[-1])
    ledger = agent.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    assert ledger.sections["history"] + ledger.sections["summary"] <= 1_710


def test_the_ledger_tells_what_was_summarised_from_what_was_left_out() -> None:
    given: list[int] = []

    def summary(messages: Sequence[Message]) -> str:
        given.append(len(messages))
        return "They spoke."

    past = talk(60)
    past[-3] = Message.user("huge " * 3_200)
    model = scripted(says("ok"))
    agent = Agent(llm=model, max_tokens=3_000, max_response_tokens=300).with_compaction(compact_fn=summary, keep_last=4)
    events = list(agent.stream("hi", messages=past))
    (end,) = [event for event in events if isinstance(event, CompactionFinished)]
    labels = {line.verdict: line.label for line in end.lines}
    assert labels["summarised"] == f"{given[0]} earlier messages"
    assert "skipped" in labels


@pytest.mark.parametrize("words", [5, 20, 45])
def test_a_trimmed_history_begins_with_the_user(words: int) -> None:
    for window in range(700, 2_400, 150):
        model = scripted(says("ok"))
        list(Agent(llm=model, max_tokens=window, max_response_tokens=100).stream("now", messages=talk(60, words)))
        assert model.requests[0].transcript[0].role == "user", window


def test_a_summariser_that_fails_is_not_asked_on_every_round() -> None:
    asked: list[int] = []

    def summary(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        raise RuntimeError("no")

    @tool
    def tiny(n: int) -> str:
        """Say a little."""
        return "ok"

    model = scripted(*[calls(call("tiny", {"n": number})) for number in range(20)], says("done"))
    budget = TokenBudget(8_000, 300, (Allocation("history", 100),))
    agent = Agent(llm=model, max_rounds=40).with_budget(budget).with_tools([tiny]).with_compaction(compact_fn=summary)
    past = [Message.user("long " * 400, pinned=True), Message.assistant("ok"), *talk(10)]
    events = list(agent.stream("now", messages=past))
    assert len(asked) <= 2
    assert len([event for event in events if isinstance(event, CompactionFinished)]) <= 3
    assert [event.op for event in events if isinstance(event, ContextUpdated)].count("failed") <= 2


def test_results_are_cut_no_further_than_they_must() -> None:
    large = "word " * 990

    @tool(read_only=True)
    def big(n: int) -> str:
        """Show much."""
        return f"{n} {large}"

    model = scripted(calls(*(call("big", {"n": number}) for number in range(3))), says("done"))
    agent = Agent(llm=model, max_tokens=3_000, max_response_tokens=300).with_tools([big])
    events = list(agent.stream("go"))
    (end,) = [event for event in events if isinstance(event, CompactionFinished)]
    assert 1_500 < end.tokens_after <= 2_700


def replies(*texts: str) -> list[ScriptedReply]:
    return [says(text) for text in texts]


def test_small_talk_alone_is_a_summary_too() -> None:
    model = scripted(*replies("ok"))
    past = [
        Message.user("hm so so la la " * 12) if n % 2 == 0 else Message.assistant("ah la la " * 12) for n in range(60)
    ]
    agent = Agent(llm=model, max_tokens=3_000, max_response_tokens=300).with_compaction(0.5, compact_fn="checklist")
    events = list(agent.stream("now", messages=past))
    assert [event for event in events if isinstance(event, ContextUpdated)] == []
    assert any(isinstance(part, Summary) for message in model.requests[0].transcript for part in message.content)


class LastTwo(ContextSource):
    """Keeps the end of the history."""

    name = "last_two"

    def compact(self, history: History, room: int) -> Sequence[Exchange]:
        return history[-3:]


def test_a_source_that_only_leaves_the_beginning_out_says_how_much_and_copies_nothing() -> None:
    agent = Agent(llm=scripted(says("ok")), max_tokens=1_500, max_response_tokens=300).with_sources([LastTwo()])
    (end,) = [event for event in agent.stream("now", messages=talk(60)) if isinstance(event, CompactionFinished)]
    assert (end.upto, end.past) == (120, None)
    assert ContextSource().stays((Message.user("hi"),), 0) is False


def test_a_turn_without_a_prompt_is_compacted_too() -> None:
    model = scripted(says("ok"))
    source = compaction_source(at=0.5, summarise=brief)
    context = create_context_manager(budget=Budget(6_000, reserve=300), sources=[source])

    async def turn() -> None:
        options: Any = {"client": model, "messages": talk(60), "context": context}
        async for _ in run_agent(**options):
            pass

    asyncio.run(turn())
    assert len(model.requests[0].transcript) < 60
    assert "They spoke." in text_of(model.requests[0])
