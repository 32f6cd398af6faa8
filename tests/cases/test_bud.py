"""Public cases on context budgets and compaction (BUD), each by its id."""

from collections.abc import Sequence
from typing import Any

import pytest

from sapwood import Agent, Budget, ConfigError, ContextOverflowError, TokenBudget, create_memory_store, memory_source
from sapwood.context.meter import IMAGE_TOKENS, estimate_tokens
from sapwood.core.events import CompactionFinished, ContextUpdated
from sapwood.core.messages import Image, Message, Summary
from sapwood.core.model import ModelRequest
from sapwood.core.tools import ToolSchema
from sapwood.sources.lazy_tools import lazy_tool_source
from sapwood.testing import call, calls, says, scripted
from support.turns import bound


def texts_of(request: ModelRequest) -> str:
    return "\n".join(str(message) for message in request.transcript)


def talk(count: int, size: int = 30) -> list[Message]:
    return [
        Message.user(f"q{n} " + "word " * size) if n % 2 == 0 else Message.assistant(f"a{n} " + "word " * size)
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("unit", "least", "most"),
    [
        ("The quick brown fox jumps over it. ", 60, 160),
        ("春眠不覚暁処処聞啼鳥", 240, 1_000),
        ("こんにちは世界のみなさま", 240, 1_000),
        ("안녕하세요 세계 여러분 ", 240, 1_000),
        ("😀🎉🚀", 400, 2_000),
        ("ＡＢＣａｂｃ１２３", 240, 2_000),
        ("x = f(a, b)\n", 60, 400),
    ],
)
def test_bud_01_a_text_in_another_script_is_not_counted_by_quarters(unit: str, least: int, most: int) -> None:
    text = (unit * 400)[:400]
    sizes = [estimate_tokens(text[:length]) for length in range(0, 401, 40)]
    assert least <= sizes[-1] <= most
    assert sizes == sorted(sizes)


def test_bud_02_definitions_and_images_count_and_what_is_not_loaded_does_not() -> None:
    tools = [ToolSchema(f"tool_{n}", "word " * 400, {"type": "object"}) for n in range(50)]
    history = talk(20)
    model = scripted(says("ok"), says("ok"))
    with pytest.raises(ContextOverflowError, match="tools"):
        list(Agent(llm=model, max_tokens=3_000, max_response_tokens=500).with_tools(tools).chat("hi", messages=history))
    lazy = Agent(llm=model, max_tokens=3_000, max_response_tokens=500).with_sources([lazy_tool_source(tools)])
    list(lazy.chat("hi", messages=history))
    ledger = lazy.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    assert ledger.sections["tools"] < 500
    seen = Agent(llm=model)
    list(seen.chat(["look", Image("A" * 400_000)]))
    ledger = seen.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    assert ledger.sections["files"] == IMAGE_TOKENS


def test_bud_03_a_system_text_over_the_budget_is_a_clear_error_before_the_first_request() -> None:
    asked: list[int] = []

    def summary(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "short"

    model = scripted()
    own = Agent(llm=model, max_tokens=1_000, max_response_tokens=100).with_system_prompt("word " * 1_500)
    own.with_compaction(compact_fn=summary)
    for _ in range(5):
        with pytest.raises(ContextOverflowError, match="system"):
            list(own.chat("hi", messages=talk(6)))
    assert model.requests == []
    assert len(asked) <= 5


@pytest.mark.parametrize(("window", "reserve"), [(0, 0), (-1, 0), (10, 10), (10, 11), (10, -1)])
def test_bud_04_what_cannot_be_a_budget_is_refused_with_its_numbers(window: int, reserve: int) -> None:
    wrong = str(window if window <= 0 else reserve)
    with pytest.raises(ConfigError, match=wrong):
        Budget(window, reserve=reserve)
    with pytest.raises(ConfigError, match=wrong):
        TokenBudget(window, reserve)


def test_bud_04_a_small_window_works_and_is_not_compacted_without_end() -> None:
    model = scripted(*[says("ok")] * 5)
    own = Agent(llm=model, max_tokens=60, max_response_tokens=20).with_compaction(compact_fn="checklist")
    history: Any = ()
    for number in range(5):
        list(own.chat(f"hi {number}", messages=history))
        history = own.last_messages
    assert len(model.requests) == 5


def fails(messages: Sequence[Message]) -> str:
    raise RuntimeError("the summary request failed")


@pytest.mark.parametrize("summary", [fails, lambda messages: "", lambda messages: None])
def test_bud_05_the_history_stays_whole_where_the_summary_fails(summary: Any) -> None:
    past = talk(40)
    model = scripted(says("ok"))
    own = Agent(llm=model, max_tokens=4_500, max_response_tokens=100).with_compaction(0.3, compact_fn=summary)
    events = list(own.stream("now", messages=past))
    assert [event.op for event in events if isinstance(event, ContextUpdated)] == ["failed"]
    assert list(model.requests[0].transcript)[:-1] == past
    assert list(own.last_messages)[:40] == past


def test_bud_06_every_request_has_the_same_system_text_and_recalled_text_after_compactions() -> None:
    store = create_memory_store()
    store.save("The user likes tea")
    model = scripted(*[says("word " * 80)] * 40)
    own = Agent(llm=model, max_tokens=2_000, max_response_tokens=200).with_system_prompt("Be brief.")
    own.with_sources([memory_source(store)]).with_compaction(0.7, compact_fn="checklist")
    history: Any = ()
    compactions = 0
    for number in range(40):
        events = list(own.stream(f"What tea does the user like, {number}? " + "word " * 20, messages=history))
        compactions += sum(isinstance(event, CompactionFinished) for event in events)
        history = own.last_messages
        assert model.requests[-1].system == ("Be brief.",)
        assert "likes tea" in str(model.requests[-1].transcript[-1])
    assert compactions >= 2


def test_bud_07_a_result_larger_than_the_window_is_cut_with_a_note_and_the_rest_is_kept() -> None:
    huge = bound("huge", lambda: "line of text " * 20_000)
    model = scripted(calls(call("huge")), says("done"))
    own = Agent(llm=model, max_tokens=6_000, max_response_tokens=500, tool_result_max_tokens=None)
    list(own.with_tools([huge]).chat("go", messages=talk(6)))
    sent = texts_of(model.requests[1])
    assert "left out" in sent
    assert "context is full" in sent
    assert "q0 word" in sent


def test_bud_07_several_results_that_are_too_much_together_are_cleared_from_the_oldest() -> None:
    large = bound("large", lambda n: f"{n}: " + "word " * 1_500)
    model = scripted(*[calls(call("large", {"n": n})) for n in range(5)], says("done"))
    own = Agent(llm=model, max_tokens=6_000, max_response_tokens=500)
    list(own.with_tools([large]).chat("go"))
    sent = texts_of(model.requests[-1])
    assert "4: word" in sent
    assert "was cleared, as the context is full" in sent
    assert own.last_turn is not None
    assert own.last_turn.stopped_by == "stop"


def test_bud_07_a_prompt_larger_than_the_window_is_a_clear_error() -> None:
    own = Agent(llm=scripted(), max_tokens=1_000, max_response_tokens=100)
    with pytest.raises(ContextOverflowError, match="prompt"):
        list(own.chat("word " * 2_000, messages=talk(6)))


def test_bud_08_what_a_compaction_kept_stays_in_the_turns_after_it() -> None:
    model = scripted(*[says("ok")] * 3)
    own = Agent(llm=model, max_tokens=4_000, max_response_tokens=100)
    own.with_compaction(0.5, keep_last=6, compact_fn=lambda messages: "They spoke.", pin_first=False)
    history: Any = talk(60)
    list(own.chat("one", messages=history))
    first = list(model.requests[0].transcript)
    assert isinstance(first[0].content[0], Summary)
    assert first[-7:-1] == history[-6:]
    for prompt in ("two", "three"):
        list(own.chat(prompt, messages=own.last_messages))
    last = list(model.requests[-1].transcript)
    assert last[: len(first)] == first
    assert [message.text for message in last[len(first) :]] == ["ok", "two", "ok", "three"]


def test_bud_09_a_fact_of_the_first_message_outlives_a_poor_summary() -> None:
    said: list[str] = []
    given: list[str] = []

    def summary(messages: Sequence[Message]) -> str:
        given.append("\n".join(str(message) for message in messages))
        said.append("poor" if len(said) == 1 else f"summary {len(said)} of what was said")
        return said[-1]

    model = scripted(*[says("word " * 60)] * 80)
    own = Agent(llm=model, max_tokens=2_000, max_response_tokens=200).with_compaction(0.8, compact_fn=summary)
    history: Any = ()
    for number in range(80):
        list(own.chat("the locker code is K-17" if number == 0 else f"and {number}? " + "word " * 30, messages=history))
        history = own.last_messages
        assert "K-17" in texts_of(model.requests[-1])
        assert sum(isinstance(part, Summary) for message in history for part in message.content) <= 1
    assert len(said) >= 3
    assert all(before in now for before, now in zip(said, given[1:], strict=False))


def test_bud_07_results_of_one_reply_that_are_too_much_together_are_all_cut() -> None:
    large = bound("large", lambda n: f"{n}: " + "word " * 1_250)
    model = scripted(calls(*(call("large", {"n": n}) for n in range(6))), says("done"))
    own = Agent(llm=model, max_tokens=6_000, max_response_tokens=500)
    list(own.with_tools([large]).chat("go"))
    sent = texts_of(model.requests[-1])
    assert all(f"{n}: word" in sent for n in range(6))
    assert sent.count("context is full") == 6
