"""The source that shortens a history: when, how far, what stays, and what the model can read again."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

import pytest

from sapwood import Agent, SubagentDefinition, tool
from sapwood.context.source import Exchange, History, Loaded, Shortened, Turn
from sapwood.context.summarise import Written
from sapwood.core.codec import dump_run, load_run
from sapwood.core.errors import CompactionError, ConfigError
from sapwood.core.events import AgentEvent, CompactionFinished, ContextUpdated, RoundStarted, ToolFinished
from sapwood.core.messages import Image, Message, Summary, Text, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import exchanges, pending_calls, repair, shortened
from sapwood.core.usage import Usage
from sapwood.llm.anthropic import AnthropicCodec
from sapwood.llm.gemini import GeminiCodec
from sapwood.llm.openai import ChatCodec
from sapwood.llm.scripted import ScriptedReply
from sapwood.sources.compaction import READ_RESULT, CompactionOptions, CompactionSource, compaction_source
from sapwood.testing import call, calls, fold, says, scripted
from sapwood.testing.strict import check_anthropic_body, check_chat_body, check_gemini_body
from support.histories import history as random_history

PAGE = "lorem ipsum dolor " * 120


@tool(read_only=True)
def look(n: int) -> str:
    """Look at a page."""
    return f"page {n}: {PAGE}"


def agent(model: Any, **more: Any) -> Agent:
    more = {"max_tokens": 8_000, "max_response_tokens": 500, "max_rounds": 60, **more}
    return Agent(llm=model, **more).with_tools([look])


def finished(events: Sequence[AgentEvent]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished)]


def shown(request: ModelRequest) -> str:
    parts = [part for message in request.transcript for part in message.content]
    return "\n".join(part.text for part in parts if isinstance(part, Text | ToolResult | Summary))


def compacted(source: CompactionSource, history: History, room: int = 0) -> Sequence[Exchange] | Shortened | None:
    answer = source.compact(history, room)
    assert not isawaitable(answer)
    return answer


def rounds(count: int) -> list[ScriptedReply]:
    return [*(calls(call("look", {"n": number})) for number in range(count)), says("done")]


def test_a_long_conversation_stays_in_its_window_and_holds_the_rule_of_its_first_turn() -> None:
    chance = random.Random(1)
    script: list[ScriptedReply] = []
    for number in range(300):
        script += [calls(call("look", {"n": number * 10 + place})) for place in range(chance.randrange(3))]
        script.append(says(f"Answer {number}. " + "And so on. " * chance.randrange(3, 30)))
    model = scripted(*script)
    own = agent(model, max_tokens=16_000, max_response_tokens=1_000).with_compaction(compact_fn="checklist")
    history: Any = []
    due: list[int] = []
    for number in range(300):
        prompt = "The locker code is K-17. Never open it." if number == 0 else f"Question {number}? " + "Go on. " * 9
        events = list(own.stream(prompt, messages=history))
        due += [number for _ in finished(events)]
        sent = [event.ledger for event in events if isinstance(event, RoundStarted)]
        assert all(ledger is not None and ledger.estimated_tokens <= 15_000 for ledger in sent)
        history = own.last_messages
        assert repair(history) == tuple(history)
        assert "The locker code is K-17. Never open it." in shown(model.requests[-1])
    assert 10 < len(due) < 45
    assert len(history) < 250


def test_old_results_of_one_long_turn_are_cleared_and_the_turn_goes_on() -> None:
    model = scripted(*rounds(40))
    own = agent(model).with_compaction(compact_fn="checklist")
    events = list(own.stream("Read all pages."))
    assert own.last_turn is not None
    assert own.last_turn.stopped_by == "stop"
    assert finished(events)
    assert all(event.results for event in finished(events))
    lines = [line for event in finished(events) for line in event.lines]
    assert {line.verdict for line in lines} == {"cleared"}
    assert "Read all pages." in shown(model.requests[-1])
    assert shown(model.requests[-1]).count("page 39: lorem") == 1
    assert "page 0: lorem" not in shown(model.requests[-1])
    results = [result for message in own.last_messages for result in message.tool_results]
    assert [bool(result.whole) for result in results][:10] == [True] * 10
    run = fold(events)
    assert load_run(dump_run(run)) == run


def test_a_turn_of_hundreds_of_rounds_is_summarised_too() -> None:
    model = scripted(*rounds(220))
    own = agent(model, max_tokens=6_000, max_rounds=300).with_compaction(compact_fn="checklist")
    events = list(own.stream("Read all pages. Never skip one."))
    assert own.last_turn is not None
    assert own.last_turn.stopped_by == "stop"
    assert any(event.own_upto for event in finished(events))
    assert len(model.requests[-1].transcript) < 200
    assert model.requests[-1].transcript[0].content[0] == next(
        part for message in own.last_messages for part in message.content
    )
    assert pending_calls(own.last_messages) == ()
    assert "Read all pages. Never skip one." in shown(model.requests[-1])
    assert load_run(dump_run(fold(events))) == fold(events)


def test_a_cleared_result_can_be_read_again() -> None:
    ids: list[str] = []

    def ask(request: ModelRequest) -> ScriptedReply:
        ids.extend(re.findall(r'read_result with id "(\w+)"', shown(request))[:1])
        return calls(call(READ_RESULT, {"id": ids[0]}))

    model = scripted(*rounds(20)[:-1], ask, says("done"))
    own = agent(model).with_compaction(compact_fn="checklist")
    ends = [event for event in own.stream("Read.") if isinstance(event, ToolFinished)]
    assert ends[-1].result == f"page 0: {PAGE}"
    assert READ_RESULT in [schema.name for schema in model.requests[0].tools]


def test_without_other_tools_the_one_that_reads_results_is_not_offered() -> None:
    model = scripted(says("hi"))
    list(Agent(llm=model).with_compaction().stream("Hi"))
    assert model.requests[0].tools == ()
    with_tools = scripted(says("hi"))
    list(agent(with_tools).with_sources([compaction_source(read_tokens=0)]).stream("Hi"))
    assert [schema.name for schema in with_tools.requests[0].tools] == ["look"]


WHOLE = shortened(ToolResult("k", "draw", (Text("x" * 30_000), Image("aGk="))), "[cleared]")


def test_a_long_result_is_read_page_by_page() -> None:
    source = compaction_source(read_tokens=1_000)
    turn = Turn(messages=[Message("tool", (WHOLE,))], count=lambda text: len(text) // 4)
    from sapwood.context.ladder import result_id

    def read(offset: int) -> Any:
        answer = source.handle(ToolCall(READ_RESULT, {"id": result_id(WHOLE), "offset": offset}), turn)
        assert isinstance(answer, Loaded)
        return answer.result

    first, picture = read(0)
    assert picture == Image("aGk=")
    assert first.endswith("go on with offset 4000]")
    assert read(29_000) == "x" * 1_000
    dense = Turn(messages=turn.messages, count=len)
    answer = source.handle(ToolCall(READ_RESULT, {"id": result_id(WHOLE), "offset": 1}), dense)
    assert isinstance(answer, Loaded)
    assert answer.result.startswith("x" * 900)
    assert len(answer.result) < 1_100
    assert source.handle(ToolCall("look", {}), turn) is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"id": "nope"}, "nope"), ({}, "needs"), ({"id": 3}, "needs"), ({"id": "a", "offset": -1}, "needs")],
)
def test_what_cannot_be_read_is_an_error_that_says_so(arguments: dict[str, Any], word: str) -> None:
    answer = compaction_source().handle(ToolCall(READ_RESULT, arguments), Turn(messages=[Message("tool", (WHOLE,))]))
    assert isinstance(answer, Loaded)
    assert answer.is_error
    assert word in answer.result


def talk(turns: int, size: int = 40) -> list[Message]:
    return [
        message
        for number in range(turns)
        for message in (Message.user(f"question {number} " + "word " * size), Message.assistant(f"answer {number}"))
    ]


async def slow(messages: Sequence[Message]) -> str:
    await asyncio.sleep(0)
    return f"{len(messages)} messages were summarised."


def quick(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages were summarised."


@pytest.mark.parametrize("summarise", [slow, quick])
@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_a_plain_or_async_function_may_write_the_summary(summarise: Any, runtime: str) -> None:
    model = scripted(says("ok"))
    own = Agent(llm=model, max_tokens=2_000, max_response_tokens=100).with_compaction(0.5, compact_fn=summarise)
    events: list[AgentEvent] = []
    if runtime == "blocking":
        events = list(own.stream("now", messages=talk(30)))
    else:

        async def collect() -> None:
            events.extend([event async for event in own.astream("now", messages=talk(30))])

        asyncio.run(collect())
    assert [line.verdict for event in finished(events) for line in event.lines] == ["summarised"]
    sent = model.requests[0].transcript
    assert [type(part) for part in sent[1].content] == [Summary]
    assert "were summarised" in shown(model.requests[0])
    assert sent[0].text.startswith("question 0")
    assert sent[-1].text == "now"
    assert not any("were summarised" in message.text for message in sent)


def test_the_agents_own_model_writes_the_summary_and_what_it_used_is_counted() -> None:
    model = scripted(says("They spoke of words.", usage=Usage(900, 9)), says("ok", usage=Usage(100, 1)))
    own = Agent(llm=model, max_tokens=2_000, max_response_tokens=100).with_compaction(0.5)
    events = list(own.stream("now", messages=talk(30)))
    assert "They spoke of words." in shown(model.requests[1])
    (end,) = finished(events)
    assert end.usage is not None
    assert own.last_turn is not None
    assert own.last_turn.run_total_tokens == 1_010
    assert fold(events).usage.input_tokens == 1_000


def broken(messages: Sequence[Message]) -> str:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("summarise", "name"),
    [
        (broken, "RuntimeError"),
        (lambda messages: "", "CompactionError"),
        (lambda messages: "word " * 3_000, "CompactionError"),
        (lambda messages: 3, "CompactionError"),
    ],
)
def test_a_summary_that_fails_changes_nothing(summarise: Any, name: str) -> None:
    model = scripted(says("ok"))
    own = Agent(llm=model, max_tokens=4_000, max_response_tokens=100).with_compaction(0.5, compact_fn=summarise)
    past = talk(40)
    events = list(own.stream("now", messages=past))
    assert [event.error for event in events if isinstance(event, ContextUpdated)] == [name]
    assert list(model.requests[0].transcript[:-1]) == past
    (end,) = finished(events)
    assert (end.upto, end.past, end.results, end.lines) == (0, None, {}, ())


def test_a_summary_that_fails_is_not_asked_for_again_until_the_request_has_grown() -> None:
    asked: list[int] = []

    def fails(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        raise RuntimeError("no")

    model = scripted(*[calls(call("tiny", {"n": number})) for number in range(8)], says("ok"))

    @tool
    def tiny(n: int) -> str:
        """Say a little."""
        return "ok"

    own = Agent(llm=model, max_tokens=4_000, max_response_tokens=100).with_tools([tiny])
    list(own.with_compaction(0.5, compact_fn=fails).stream("now", messages=talk(40)))
    assert len(asked) == 1


def test_pinned_messages_loaded_tools_and_what_a_function_names_stay() -> None:
    past = talk(30)
    past[10] = past[10].replace(pinned=True)
    past[20] = Message.user("remember: blue")
    found = (ToolResult("r0c0", "search_tools", (Text("found " * 60),), loaded=("notes",)),)
    past[24:24] = [Message.assistant(ToolCall("search_tools", {}, "r0c0")), Message("tool", found)]
    model = scripted(says("ok"))
    own = Agent(llm=model, max_tokens=2_500, max_response_tokens=100)
    own.with_compaction(0.5, compact_fn=quick, pin=lambda message: message.text.startswith("remember"), pin_first=False)
    list(own.stream("now", messages=past))
    sent = list(model.requests[0].transcript)
    assert past[10] in sent
    assert Message.user("remember: blue") in sent
    assert Message("tool", found) in sent
    assert past[0] not in sent
    assert [type(part) for part in sent[0].content] == [Summary]


def test_an_earlier_summary_goes_into_the_next_one_so_that_there_is_only_one() -> None:
    seen: list[str] = []

    def remembers(messages: Sequence[Message]) -> str:
        before = [part.text for message in messages for part in message.content if isinstance(part, Summary)]
        seen.extend(before)
        return f"summary {len(seen)}"

    model = scripted(*[says("word " * 60)] * 60)
    own = Agent(llm=model, max_tokens=2_000, max_response_tokens=200).with_compaction(0.8, compact_fn=remembers)
    history: Any = []
    for number in range(60):
        list(own.stream(f"question {number} " + "word " * 40, messages=history))
        history = own.last_messages
        summaries = [part for message in history for part in message.content if isinstance(part, Summary)]
        assert len(summaries) <= 1
    assert len(seen) > 2
    assert seen == [f"summary {number}" for number in range(len(seen))]


def test_little_that_a_summary_could_take_in_is_left_as_it_is() -> None:
    source = compaction_source(at=100, summarise=quick, pin_first=False, keep_messages=40)
    history = History(exchanges(talk(12)))
    assert compacted(source, history) is None
    one_summary = History([(Message("user", (Summary("word " * 400),)),), *exchanges(talk(2, 400))])
    assert compacted(compaction_source(at=1_000, keep_messages=4, summarise=quick), one_summary) is None


def test_a_history_that_fits_and_one_without_a_window_are_left_alone() -> None:
    history = History(exchanges(talk(12)))
    assert compacted(compaction_source(), history, 100_000) is None
    assert compacted(compaction_source(), history, 0) is None
    assert compacted(compaction_source(at=100, summarise=None), history) is None


def test_a_summariser_may_say_what_it_used() -> None:
    source = compaction_source(at=500, summarise=lambda messages: Written("They spoke.", Usage(5, 6)))
    answer = compacted(source, History(exchanges(talk(20))))
    assert isinstance(answer, Shortened)
    assert answer.usage == Usage(5, 6)


def test_clearing_is_enough_where_it_is_and_superseded_reads_go_before_a_summary() -> None:
    again = [
        message
        for number in range(6)
        for message in (
            Message.assistant(ToolCall("look", {"n": 1}, f"r{number}c0")),
            Message("tool", (ToolResult(f"r{number}c0", "look", (Text("word " * 200),)),)),
        )
    ]
    history = History(exchanges([Message.user("go"), *again]), current=0)
    answer = compacted(compaction_source(at=1_000, keep_results=6, summarise=None), history)
    assert isinstance(answer, History)
    texts = [result.text[:9] for group in answer for message in group for result in message.tool_results]
    assert texts == ["[Left out"] * 5 + ["word word"]


def test_subagents_compact_as_their_caller_does_unless_they_have_a_way_of_their_own() -> None:
    model = scripted(calls(call("task", {"agent_name": "reader", "task": "Read."})), *rounds(14), says("done"))
    reader = SubagentDefinition(name="reader", description="Reads.", tools=[look], max_rounds=30)
    own = Agent(llm=model, max_tokens=8_000, max_response_tokens=500).with_subagents([reader])
    events = list(own.with_compaction(3_000, compact_fn="checklist").stream("go"))
    below = [event for event in finished(events) if event.path]
    assert below
    assert all(event.tokens_before < 6_000 for event in below)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"at": 0}, "at is"),
    ({"at": -3}, "at is"),
    ({"at": True}, "at is"),
    ({"at": float("nan")}, "at is"),
    ({"to": 1}, "to is"),
    ({"to": 0}, "to is"),
    ({"keep_messages": -1}, "keep_messages"),
    ({"keep_results": 1.5}, "keep_results"),
    ({"trim_tokens": 10}, "trim_tokens"),
    ({"read_tokens": -1}, "read_tokens"),
    ({"summarise": "model"}, "summarise"),
]


@pytest.mark.parametrize(("options", "word"), BAD)
def test_a_value_that_cannot_work_is_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        CompactionOptions(**options)


@pytest.mark.parametrize(("trigger", "keep"), [(0, 4), (-1, 4), (500, -1)])
def test_a_trigger_or_a_number_to_keep_that_is_none_is_refused(trigger: float, keep: int) -> None:
    with pytest.raises(ConfigError):
        Agent(llm=scripted()).with_compaction(trigger, keep_last=keep)


CHECKS: list[tuple[Any, ModelProfile, Callable[[dict[str, Any]], None]]] = [
    (AnthropicCodec(), ModelProfile("anthropic", "claude-sonnet-4-5"), check_anthropic_body),
    (ChatCodec(), ModelProfile("openai", "m"), check_chat_body),
    (GeminiCodec(), ModelProfile("gemini", "m"), check_gemini_body),
]


def cut_at_random(seed: int) -> None:
    chance = random.Random(seed)
    past = random_history(chance, chance.randrange(1, 14))
    model = scripted(says("ok"))
    own = Agent(llm=model, max_tokens=chance.randrange(1_400, 9_000), max_response_tokens=100).with_tools([look])
    if chance.random() < 0.8:
        own.with_compaction(
            chance.choice([0.2, 0.5, 0.8, 0.95]),
            keep_last=chance.randrange(8),
            keep_results=chance.randrange(4),
            compact_fn=chance.choice(["checklist", quick, broken]),  # type: ignore[arg-type]
            pin_first=chance.random() < 0.5,
        )
    list(own.stream("What now?", messages=past))
    (request,) = model.requests
    messages = tuple(request.transcript)
    assert repair(messages) == messages, seed
    kept = [message for message in past if message.pinned]
    assert [message for message in messages if message.pinned] == kept, seed
    for codec, profile, check in CHECKS:
        body = codec.encode(request, profile, base_url="http://127.0.0.1:9", api_key="k").body
        check(json.loads(body))


def test_random_histories_cut_under_random_budgets_are_requests_that_no_provider_refuses() -> None:
    for seed in range(120):
        cut_at_random(seed)


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(1, 11))
def test_ten_thousand_random_histories_are_requests_that_no_provider_refuses(thousand: int) -> None:
    for seed in range(thousand * 1_000, (thousand + 1) * 1_000):
        cut_at_random(seed)


def test_a_failed_summary_names_what_it_would_have_replaced() -> None:
    source = compaction_source(at=500, summarise=lambda messages: "word " * 900)
    with pytest.raises(CompactionError, match=r"takes \d+ tokens"):
        compacted(source, History(exchanges(talk(20))))


def test_an_activated_skill_stays_word_for_word_over_many_compactions() -> None:
    from sapwood import Skill

    skill = Skill(name="reports", description="Writes reports.", instructions="Always end with the word HERON.")
    model = scripted(
        calls(call("activate_skill", {"skill_name": "reports"})), says("Ready."), *[says("word " * 80)] * 60
    )
    own = Agent(llm=model, max_tokens=3_000, max_response_tokens=200).with_skill(skill)
    own.with_compaction(compact_fn="checklist")
    history: Any = ()
    due = 0
    for number in range(60):
        events = list(own.stream(f"report {number} " + "please " * 40, messages=history))
        due += len(finished(events))
        history = own.last_messages
        assert "Always end with the word HERON." in shown(model.requests[-1])
    assert due > 3
    assert [result.skill for message in history for result in message.tool_results if result.skill] == ["reports"]
