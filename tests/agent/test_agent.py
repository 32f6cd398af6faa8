"""The fluent face."""

import asyncio
import threading
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from sapwood import (
    Agent,
    Allocation,
    CancelToken,
    ConfigError,
    ContextOverflowError,
    ContextSource,
    Image,
    Message,
    RunCancelledError,
    Selection,
    TextDelta,
    TokenBudget,
    ToolCall,
    ToolNameCollision,
    ToolResult,
    Transcript,
    Turn,
    Usage,
    create_memory_store,
    lazy_tool_source,
    memory_source,
    tool,
)
from sapwood.core.errors import AuthenticationError, ProviderNotInstalledError, ServerError
from sapwood.core.messages import Text
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import (
    assert_kept,
    assert_ordered,
    assert_prefix_kept,
    assert_skipped,
    assert_under,
    call,
    calls,
    fails,
    says,
    scripted,
)
from support.turns import long_history


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_chat_yields_text_and_astream_events() -> None:
    agent = Agent(llm=scripted(says("Hello you"), says("Hello you"), says("Hello you"))).with_system_prompt("Be kind.")

    async def main() -> tuple[str, list[str]]:
        text = "".join([chunk async for chunk in agent.achat("hi")])
        return text, [event.type async for event in agent.astream("hi")]

    assert list(agent.chat("hi")) == ["Hello", " you"]
    text, kinds = asyncio.run(main())
    assert text == "Hello you"
    assert kinds[0] == "turn_started"
    assert kinds[-1] == "turn_finished"


def test_the_constructor_has_the_documented_defaults() -> None:
    config = Agent()._config
    assert (config.model, config.max_tokens, config.max_response_tokens, config.max_rounds) == (
        "claude-haiku-4-5-20251001",
        16_384,
        1_024,
        10,
    )
    assert (config.tool_timeout, config.tool_result_max_tokens, config.allow_skill_scripts) == (None, 10_000, False)
    assert (config.api_key, config.llm, config.fallbacks, config.tokenizer) == (None, None, (), None)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_response_tokens": 0}, "max_response_tokens"),
        ({"tool_timeout": -1}, "tool_timeout"),
        ({"tool_result_max_tokens": 0}, "tool_result_max_tokens"),
        ({"max_tokens": 1_000}, "max_response_tokens"),
    ],
)
def test_a_value_that_cannot_work_is_refused(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Agent(**options)


def test_misspelt_configuration_is_refused() -> None:
    with pytest.raises(TypeError):
        Agent(max_token=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        TokenBudget(100, reserved=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Turn(txt="x")  # type: ignore[call-arg]


def test_no_key_is_needed_to_build_an_agent_only_to_call_it() -> None:
    agent = Agent("anthropic/claude-haiku-4-5")
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        list(agent.chat("hi"))


def test_tools_accumulate_and_collisions_name_both() -> None:
    agent = Agent(llm=scripted()).with_tools([add])
    with pytest.raises(ToolNameCollision, match=r"'add' and 'add'"):
        agent.with_tools([add])
    with pytest.raises(ToolNameCollision, match=r"'notes.list' and 'notes_list'"):
        agent.with_tools([{"name": "notes.list"}, {"name": "notes_list"}])
    with pytest.raises(ConfigError, match="is no tool"):
        agent.with_tools([object()])  # type: ignore[list-item]


def test_a_tool_using_turn_reports_itself() -> None:
    model = scripted(calls(call("add", {"a": 1, "b": 2}), usage=Usage(50, 5)), says("3", usage=Usage(60, 1, 0, 40)))
    agent = Agent(llm=model).with_tools([add])
    events = list(agent.stream("add"))
    assert_ordered(events)
    last = agent.last_turn
    assert last == events[-1].diagnostics  # type: ignore[union-attr]
    assert last is not None
    assert (last.total_prompt_tokens, last.total_completion_tokens, last.total_tokens) == (110, 6, 156)
    assert (last.total_tool_calls, last.run_total_tool_calls, last.run_total_tokens) == (1, 1, 156)
    assert last.rounds[1].ledger is not None
    assert last.rounds[1].ledger.reported_tokens == 100
    assert last.rounds[1].ledger.cached_tokens == 40
    assert agent.last_result is not None
    assert agent.last_result.diagnostics["items_included"] >= 2
    assert_kept(last.rounds[0].ledger, "prompt")


def test_before_any_turn_there_is_nothing_to_report() -> None:
    agent = Agent(llm=scripted())
    assert (agent.last_turn, agent.last_result, len(agent.last_messages)) == (None, None, 0)


def test_a_conversation_goes_on_with_last_messages() -> None:
    model = scripted(says("Hi Ada"), calls(call("add", {"a": 1, "b": 1})), says("2"), says("Ada"))
    agent = Agent(llm=model).with_tools([add])
    list(agent.chat("I am Ada"))
    list(agent.chat("1+1?", messages=agent.last_messages))
    history = agent.last_messages
    list(agent.chat("my name?", messages=history))
    texts = [message.text for message in model.requests[-1].transcript]
    assert texts == ["I am Ada", "Hi Ada", "1+1?", "", "", "2", "my name?"]
    assert len(history) == 6
    assert_prefix_kept(model.requests)


def test_after_a_turn_that_failed_the_conversation_can_go_on() -> None:
    model = scripted(fails(ServerError("down", is_transient=False), after="half an"), says("whole"))
    agent = Agent(llm=model)
    with pytest.raises(ServerError):
        list(agent.chat("hi"))
    assert agent.last_turn is not None
    assert (agent.last_turn.stopped_by, agent.last_turn.error) == ("error", "ServerError: down")
    assert list(agent.chat("again", messages=agent.last_messages)) == ["whole"]
    assert [message.text for message in model.requests[1].transcript] == ["hi", "half an", "again"]


def test_messages_may_be_plain_dictionaries_and_nothing_passed_in_is_changed() -> None:
    given = [
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "calling"},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1, "b": 2}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "0"},
    ]
    before = deepcopy(given)
    model = scripted(says("ok"))
    list(Agent(llm=model).chat("go", messages=given))
    assert given == before
    sent = list(model.requests[0].transcript)
    assert sent[1].tool_calls[0].arguments == {"a": 1, "b": 2}
    assert sent[2].tool_results[0].text == "3"
    assert sent[4].tool_results == (ToolResult(sent[3].tool_calls[0].key, "add", (Text("0"),)),)


def test_images_and_files_are_input() -> None:
    model = scripted(says("a cat"))
    picture = Image(data="aGk=")
    list(Agent(llm=model).chat(["what is this?", picture]))
    assert model.requests[0].transcript[0].content == (Text("what is this?"), picture)


@pytest.mark.parametrize("prompt", [[], Message.assistant("hi"), Message("user", ())])
def test_a_prompt_that_is_none_is_refused(prompt: Any) -> None:
    with pytest.raises(ConfigError, match="prompt"):
        list(Agent(llm=scripted()).chat(prompt))


def test_memory_recalled_for_a_prompt_stands_beside_it_and_stays() -> None:
    store = create_memory_store()
    store.save("The user prefers metric units")
    model = scripted(says("km"), says("ok"))
    agent = Agent(llm=model).with_sources([memory_source(store, placement="turn")])
    list(agent.chat("which units?"))
    list(agent.chat("thanks", messages=agent.last_messages))
    first = model.requests[0].transcript[0]
    assert [part.type for part in first.content] == ["recalled", "text"]
    assert model.requests[1].transcript[0] == first
    assert_kept(agent.last_turn.rounds[0].ledger, "prompt")  # type: ignore[union-attr]


def test_a_budget_gives_a_source_its_share() -> None:
    class Long(ContextSource):
        name = "long"

        def select(self, turn: Turn, room: int) -> Selection:
            return Selection(text="word " * 200)

    def ledger(overflow: Any) -> Any:
        agent = Agent(llm=scripted(says("ok"))).with_sources([Long()])
        agent.with_budget(TokenBudget(10_000, allocations=(Allocation("long", 50, overflow=overflow),)))
        list(agent.chat("hi"))
        return agent.last_turn.rounds[0].ledger  # type: ignore[union-attr]

    assert_skipped(ledger("drop"), "long")
    cut = ledger("truncate")
    assert_kept(cut, "long")
    assert_under(cut, 50, section="memory")
    with pytest.raises(AssertionError, match="more than 1"):
        assert_under(cut, 1)
    with pytest.raises(AssertionError, match="nothing of 'long' was skipped"):
        assert_skipped(cut, "long")
    with pytest.raises(AssertionError, match="nothing of 'other' was kept"):
        assert_kept(cut, "other")
    with pytest.raises(AssertionError, match="no ledger"):
        assert_under(None, 1)


def test_a_prompt_that_cannot_fit_is_refused_with_its_sizes_before_anything_is_sent() -> None:
    model = scripted(says("never"))
    agent = Agent(llm=model, max_tokens=2_000, max_response_tokens=500).with_system_prompt("s " * 300)
    with pytest.raises(ContextOverflowError, match="prompt") as caught:
        list(agent.chat("word " * 5_000))
    assert model.requests == []
    assert caught.value.sizes["prompt"] > 1_500
    assert set(caught.value.sizes) >= {"system", "prompt"}


def test_history_that_does_not_fit_loses_its_oldest_exchanges_and_says_so() -> None:
    past = long_history()
    model = scripted(says("ok"))
    agent = Agent(llm=model, max_tokens=1_500, max_response_tokens=500)
    events = list(agent.stream("now", messages=past))
    assert_ordered(events)
    sent = model.requests[0].transcript
    assert sent[-1].text == "now"
    assert 2 < len(sent) < 60
    assert sent[-2].text.startswith("answer 59")
    compaction = next(event for event in events if event.type == "compaction_finished")
    assert compaction.tokens_after < compaction.tokens_before  # type: ignore[union-attr]
    assert agent.last_turn is not None
    assert_under(agent.last_turn.rounds[0].ledger, 1_000)
    assert len(agent.last_messages) == len(sent) + 1


def test_an_exact_tokenizer_is_used_as_it_is() -> None:
    class Words:
        def count_tokens(self, text: str) -> int:
            return len(text.split())

    agent = Agent(llm=scripted(says("ok", usage=Usage(9_999, 1))), tokenizer=Words()).with_system_prompt(
        "one two three"
    )
    list(agent.chat("hi"))
    assert agent.last_turn is not None
    ledger = agent.last_turn.rounds[0].ledger
    assert ledger is not None
    assert ledger.sections["system"] == 3
    agent = Agent(llm=scripted(says("ok")), tokenizer=len).with_system_prompt("abc")
    list(agent.chat("hi"))
    assert agent.last_turn.rounds[0].ledger.sections["system"] == 3  # type: ignore[union-attr]


def test_the_estimate_learns_from_what_the_model_reports() -> None:
    model = scripted(says("ok", usage=Usage(400, 1)), says("ok", usage=Usage(400, 1)))
    agent = Agent(llm=model).with_system_prompt("word " * 200)
    list(agent.chat("hi"))
    before = agent.last_turn.rounds[0].ledger.estimated_tokens  # type: ignore[union-attr]
    list(agent.chat("hi"))
    after = agent.last_turn.rounds[0].ledger.estimated_tokens  # type: ignore[union-attr]
    assert abs(after - 400) < abs(before - 400)


def test_the_window_is_the_smaller_of_what_was_asked_and_what_the_model_has() -> None:
    small = ModelProfile(provider="x", model="y", context_window=4_000)
    agent = Agent(llm=scripted(says("ok"), profile=small), max_tokens=16_000)
    list(agent.chat("hi"))
    assert agent.last_turn.rounds[0].ledger.window == 4_000 - 1_024  # type: ignore[union-attr]


def test_a_cancel_token_stops_a_turn_and_says_so() -> None:
    token = CancelToken()

    def stop(request: ModelRequest) -> ScriptedReply:
        token.cancel("the user left")
        return says("a b c")

    agent = Agent(llm=scripted(stop))
    with pytest.raises(RunCancelledError, match="the user left"):
        list(agent.chat("hi", cancel=token))
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "cancelled"


def test_leaving_chat_early_closes_the_stream_and_keeps_the_text() -> None:
    model = scripted(says("one two three"))
    agent = Agent(llm=model)
    text = agent.chat("hi")
    assert next(text) == "one"
    text.close()
    assert model.streams[0].closed
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "cancelled"
    assert agent.last_messages[-1] == Message("assistant", (Text("one"),), "scripted/scripted", partial=True)


def test_leaving_achat_early_closes_the_stream_before_aclose_returns() -> None:
    model = scripted(says("one two three"))
    agent = Agent(llm=model)

    async def main() -> None:
        text = agent.achat("hi")
        assert await anext(text) == "one"
        await text.aclose()
        assert model.streams[0].closed
        assert agent.last_turn is not None
        assert agent.last_turn.stopped_by == "cancelled"

    asyncio.run(main())


def test_fallbacks_answer_where_the_model_does_not() -> None:
    from sapwood.llm.fallback import FallbackProvider

    chain = FallbackProvider([scripted(fails(ServerError("down"))), scripted(says("up"))])
    assert list(Agent(llm=chain, max_retries=0).chat("hi")) == ["up"]

    async def main() -> list[str]:
        other = FallbackProvider([scripted(fails(ServerError("down"))), scripted(says("up"))])
        return [text async for text in Agent(llm=other, max_retries=0).achat("hi")]

    assert asyncio.run(main()) == ["up"]
    refused = FallbackProvider(
        [scripted(fails(AuthenticationError("no key"))), scripted(says("up"))], on_authentication=False
    )
    with pytest.raises(AuthenticationError):
        list(Agent(llm=refused).chat("hi"))
    with pytest.raises(ConfigError):
        FallbackProvider([])
    for odd, message in [
        (["openai/gpt-5"], r"create_provider\('openai/gpt-5'\)"),
        ("abc", r"create_provider\('abc'\)"),
        ([5], "made of providers, not 5"),
        (5, "not 5"),
    ]:
        with pytest.raises(ConfigError, match=message):
            FallbackProvider(odd)  # type: ignore[arg-type]
    for prefix in ("nope", "ollama-chat"):
        with pytest.raises(ProviderNotInstalledError, match=f"no provider is called '{prefix}'"):
            Agent("anthropic/claude-haiku-4-5", fallbacks=[f"{prefix}/x"])
    assert Agent("anthropic/claude-haiku-4-5", fallbacks=["openai/gpt-4o"])._llm().profile.provider == "anthropic"


def test_close_ends_the_private_loop_and_a_later_turn_opens_a_new_one() -> None:
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    agent = Agent(llm=scripted(calls("ping"), says("a"), calls("ping"), says("b"))).with_tools([ping])
    assert "".join(agent.chat("hi")) == "a"
    agent.close()
    assert "".join(agent.chat("hi")) == "b"
    agent.close()
    Agent(llm=scripted()).close()


def test_lazy_tools_are_found_called_and_still_there_in_the_next_turn() -> None:
    model = scripted(
        calls(call("search_tools", {"query": "add numbers"})),
        calls(call("call_tool", {"name": "add", "args": {"a": 2, "b": 3}})),
        says("5"),
        calls(call("call_tool", {"name": "add", "args": {"a": 1, "b": 1}})),
        says("2"),
    )
    agent = Agent(llm=model).with_sources([lazy_tool_source([add, {"name": "other.tool", "description": "Other"}])])
    events = list(agent.stream("2+3?"))
    assert_ordered(events)
    names = [(event.name, event.is_error) for event in events if event.type == "tool_finished"]
    assert names == [("search_tools", False), ("add", False)]
    assert next(event.tools for event in events if event.type == "context_updated") == ("add",)
    events = list(agent.stream("1+1?", messages=agent.last_messages))
    assert [event.result for event in events if event.type == "tool_finished"] == ["2"]
    assert_prefix_kept(model.requests)


@pytest.mark.parametrize("loading", ["dispatch", "relist"])
def test_a_lazy_tool_that_was_never_loaded_says_how_to_find_it(loading: Any) -> None:
    asked = (
        call("call_tool", {"name": "add", "args": {"a": 1, "b": 2}})
        if loading == "dispatch"
        else call("add", {"a": 1, "b": 2})
    )
    model = scripted(calls(asked), says("ok"))
    agent = Agent(llm=model).with_sources([lazy_tool_source([add], loading=loading)])
    finish = next(event for event in agent.stream("go") if event.type == "tool_finished")
    assert finish.is_error
    assert "search_tools" in finish.result


def test_twenty_overlapping_turns_on_one_agent_never_see_each_others_data() -> None:
    """Ten threads and ten tasks share one Agent; each reply repeats the words of its own request."""

    def reply(request: ModelRequest) -> ScriptedReply:
        own = request.transcript[0].text
        if len(request.transcript) == 1:
            return calls(call("echo", {"text": own}))
        result = request.transcript[-1].tool_results[0].text
        assert result == f"heard {own}"
        assert {message.text for message in request.transcript if message.role == "user"} == {own}
        return says(f"{own} done")

    barrier = threading.Barrier(10)

    @tool
    def echo(text: str) -> str:
        """Repeat."""
        return f"heard {text}"

    agent = Agent(llm=scripted(*[reply] * 40)).with_tools([echo])
    answers: dict[str, str] = {}

    def in_thread(name: str) -> None:
        barrier.wait(5)
        answers[name] = "".join(agent.chat(name))

    async def in_task(name: str) -> None:
        pieces: list[str] = []
        async for event in agent.astream(name):
            await asyncio.sleep(0)
            if isinstance(event, TextDelta):
                pieces.append(event.text)
        answers[name] = "".join(pieces)

    async def all_tasks() -> None:
        await asyncio.gather(*(in_task(f"task-{number}") for number in range(10)))

    workers = [threading.Thread(target=in_thread, args=(f"thread-{number}",)) for number in range(10)]
    for worker in workers:
        worker.start()
    asyncio.run(all_tasks())
    for worker in workers:
        worker.join()
    assert len(answers) == 20
    assert all(answer == f"{name} done" for name, answer in answers.items())


def test_overlapping_turns_on_one_history_keep_to_their_own_branch() -> None:
    agent = Agent(llm=scripted(*[lambda request: says(f"re: {request.transcript[-1].text}")] * 30))
    list(agent.chat("root"))
    root = agent.last_messages
    results: dict[str, list[str]] = {}

    async def branch(name: str) -> None:
        texts: list[str] = []
        history: Transcript = root
        for step in range(3):
            turn = f"{name}{step}"
            pieces = [event async for event in _tick(agent.astream(turn, messages=history))]
            finished = pieces[-1]
            assert finished.text == f"re: {turn}"
            history = history.extend([Message.user(turn), Message.assistant(finished.text)])
            texts.append(finished.text)
        results[name] = [message.text for message in history]

    async def main() -> None:
        await asyncio.gather(*(branch(name) for name in "abcde"))

    asyncio.run(main())
    for name, texts in results.items():
        assert texts[:2] == ["root", "re: root"]
        assert texts[2:] == [text for step in range(3) for text in (f"{name}{step}", f"re: {name}{step}")]


async def _tick(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in events:
        await asyncio.sleep(0)
        yield event


def test_a_message_of_ours_may_be_the_prompt() -> None:
    model = scripted(says("ok"))
    list(Agent(llm=model).chat(Message.user("hi")))
    assert model.requests[0].transcript[0] == Message.user("hi")


def test_an_unanswered_call_in_the_history_is_answered_at_the_door() -> None:
    model = scripted(says("ok"))
    list(Agent(llm=model).chat("go", messages=[Message.user("a"), Message.assistant(ToolCall("x", id="1"))]))
    assert model.requests[0].transcript[2].tool_results[0].is_error


def test_every_error_of_the_tree_survives_pickling() -> None:
    import pickle

    error = ContextOverflowError("too long", sizes={"prompt": 3}, provider="p", model="m", status=400, request_id="r")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.sizes) == (str(error), {"prompt": 3})
    assert str(copy) == "too long (provider=p, model=m, status=400, request_id=r)"


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_a_tool_that_needs_approval_is_refused_while_nobody_can_be_asked(runtime: str) -> None:
    ran: list[str] = []

    @tool(requires_approval=True)
    def wipe() -> str:
        """Wipe."""
        ran.append("wiped")
        return "gone"

    agent = Agent(llm=scripted(calls("wipe"), says("ok"))).with_tools([wipe])

    async def main() -> list[Any]:
        return [event async for event in agent.astream("go")]

    events = list(agent.stream("go")) if runtime == "blocking" else asyncio.run(main())
    finish = next(event for event in events if event.type == "tool_finished")
    assert finish.is_error
    assert "approval" in finish.result
    assert ran == []
    assert "tool_running" not in [event.type for event in events]


def test_a_key_goes_to_its_own_provider_and_to_no_other_fallback() -> None:
    agent = Agent("anthropic/a", api_key="ANTHROPIC", fallbacks=["openai/gpt-4o", "anthropic/b"])
    keys = [provider._secret() for provider in agent._llm().providers]  # type: ignore[attr-defined]
    assert keys == ["ANTHROPIC", "", "ANTHROPIC"]


def test_a_key_of_the_environment_goes_only_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from sapwood import create_provider

    def secret(**options: Any) -> str:
        return create_provider("openai/gpt-4o", **options)._secret()  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    assert secret() == "SECRET"
    assert secret(base_url="http://elsewhere.example/v1") == ""
    assert secret(base_url="http://elsewhere.example/v1", api_key="own") == "own"
    assert secret(api_key="") == ""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.example/v1")
    assert secret() == "SECRET"
    assert secret(base_url="http://gateway.example/v1") == "SECRET"


def test_a_reply_of_a_fallback_carries_the_name_of_the_model_that_gave_it() -> None:
    from sapwood.llm.fallback import FallbackProvider

    second = scripted(says("up"), profile=ModelProfile(provider="second", model="m"))
    agent = Agent(llm=FallbackProvider([scripted(fails(ServerError("down"))), second]), max_retries=0)
    list(agent.chat("hi"))
    assert agent.last_messages[-1].origin == "second/m"


@pytest.mark.parametrize("prompt", ["", "  \n", ["", " "]])
def test_a_blank_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(ConfigError, match="prompt is empty"):
        list(Agent(llm=scripted()).chat(prompt))


def test_a_long_history_does_not_starve_memory() -> None:
    store = create_memory_store()
    store.save("The user's boat is called Aurora and lies in the northern harbour of the town " * 3)
    past: list[Message] = []
    for number in range(50):
        past += [
            Message.user(f"question {number} " + "word " * 12),
            Message.assistant(f"answer {number} " + "word " * 12),
        ]
    agent = Agent(llm=scripted(says("Aurora")), max_tokens=1_500, max_response_tokens=500)
    agent.with_sources([memory_source(store)])
    list(agent.chat("what is my boat called?", messages=past))
    ledger = agent.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert_kept(ledger, "memory")
    assert_under(ledger, 1_000)
    assert ledger.sections["history"] > 300  # type: ignore[union-attr]


@pytest.mark.parametrize("loading", ["relist", "dispatch"])
def test_a_lazy_source_decides_for_itself_how_its_tools_are_loaded(loading: Any) -> None:
    search = calls(call("search_tools", {"query": "add numbers"}))
    use = calls(
        call("add", {"a": 1, "b": 2})
        if loading == "relist"
        else call("call_tool", {"name": "add", "args": {"a": 1, "b": 2}})
    )
    model = scripted(search, use, says("3"))
    agent = Agent(llm=model).with_sources([lazy_tool_source([add], loading=loading)])
    events = list(agent.stream("1+2"))
    assert [event.result for event in events if event.type == "tool_finished"][-1] == "3"
    names = [[schema.name for schema in request.tools] for request in model.requests]
    if loading == "relist":
        assert names == [["search_tools"], ["search_tools", "add"], ["search_tools", "add"]]
    else:
        assert names == [["search_tools", "call_tool"]] * 3
    assert_prefix_kept(model.requests, relist=loading == "relist")


def test_what_is_recalled_beside_the_prompt_counts_as_memory_in_the_ledger() -> None:
    store = create_memory_store()
    store.save("The user prefers metric units in all answers about distances")
    agent = Agent(llm=scripted(says("ok"))).with_sources([memory_source(store)])
    list(agent.chat("which units?"))
    sections = agent.last_turn.rounds[0].ledger.sections  # type: ignore[union-attr]
    assert sections["memory"] > sections["prompt"] > 0


@pytest.mark.parametrize(
    ("options", "budget", "room", "reply"),
    [
        ({"max_tokens": 1_500, "max_response_tokens": 1_400}, None, 750, 750),
        ({}, TokenBudget(2_000, reserve_tokens=500), 1_500, 500),
        ({}, TokenBudget(8_000, reserve_tokens=200), 7_800, 200),
        ({}, TokenBudget(8_000), 6_976, 1_024),
    ],
)
def test_request_and_reply_always_fit_the_window_together(options: Any, budget: Any, room: int, reply: int) -> None:
    model = scripted(says("ok"))
    agent = Agent(llm=model, **options)
    if budget is not None:
        agent.with_budget(budget)
    list(agent.chat("hi"))
    assert agent.last_turn.rounds[0].ledger.window == room  # type: ignore[union-attr]
    assert model.requests[0].max_tokens == reply


def test_fallbacks_that_would_be_misread_are_refused() -> None:
    with pytest.raises(ConfigError, match="a fallback is a model's name or a provider"):
        Agent(llm=scripted(), fallbacks=[5])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="list of models"):
        Agent("anthropic/a", fallbacks="openai/gpt-4o")  # type: ignore[arg-type]


def test_arguments_with_half_a_character_are_no_reason_to_lose_the_turn() -> None:
    @tool
    def echo(x: str) -> str:
        """Echo."""
        return "heard"

    assert (
        "".join(Agent(llm=scripted(calls(call("echo", {"x": "\ud800"})), says("ok"))).with_tools([echo]).chat("go"))
        == "ok"
    )


def test_one_fact_as_a_text_is_one_fact() -> None:
    store = create_memory_store()
    list(Agent(llm=scripted(says("ok"))).with_sources([memory_source(store, remember=lambda turn: "abc")]).chat("hi"))
    assert [record.text for record in store.all()] == ["abc"]


@pytest.mark.parametrize("prompt", [{"role": "user", "content": "x"}, ["a", 5], b"x", None, 5])
def test_a_prompt_of_another_kind_is_refused(prompt: Any) -> None:
    with pytest.raises(ConfigError, match="prompt"):
        list(Agent(llm=scripted()).chat(prompt))


def test_a_picture_alone_is_a_prompt() -> None:
    model = scripted(says("a cat"))
    list(Agent(llm=model).chat(Image(data="aGk=")))  # type: ignore[arg-type]
    assert model.requests[0].transcript[0].content == (Image(data="aGk="),)


@pytest.mark.parametrize("messages", [None, "hi", ["hi"], [None], {"role": "user"}, 5])
def test_messages_of_another_kind_are_refused(messages: Any) -> None:
    with pytest.raises(ConfigError, match="message"):
        list(Agent(llm=scripted()).chat("x", messages=messages))


def test_signed_thinking_of_a_history_in_dictionaries_goes_back_to_anthropic_alone() -> None:
    from support.wire import chat_wire, wire

    model = scripted(says("ok"))
    signed = {"type": "thinking", "thinking": "t", "signature": "SIG"}
    past = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [signed, {"type": "tool_use", "id": "u", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": "r"}]},
    ]
    list(Agent(llm=model).chat("go", messages=past))
    assert wire(model.requests[0])["messages"][1]["content"][0] == signed
    assert "SIG" not in str(chat_wire(model.requests[0]))


@pytest.mark.parametrize("answer", ["text", [1], 5])
def test_a_source_that_answers_something_else_does_not_lose_the_turn(answer: Any) -> None:
    class Odd(ContextSource):
        name = "odd"

        def select(self, turn: Turn, room: int) -> Any:
            return answer

        def commit(self, turn: Turn) -> Any:
            return answer

    agent = Agent(llm=scripted(says("ok"))).with_sources([Odd()])
    events = list(agent.stream("hi"))
    assert events[-1].text == "ok"
    assert [event.op for event in events if event.type == "context_updated"] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_rounds": True}, "max_rounds"),
        ({"tool_timeout": "1"}, "tool_timeout"),
        ({"tokenizer": 5}, "tokenizer"),
        ({"llm": 5}, "llm"),
    ],
)
def test_a_value_of_another_kind_is_refused_at_once(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Agent(**options)


def test_shares_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(ConfigError, match="below 0"):
        Allocation("m", max_tokens=-1)
    with pytest.raises(ConfigError, match="more than one"):
        TokenBudget(100, allocations=(Allocation("m", 1), Allocation("m", 2)))


def test_half_a_character_in_a_prompt_or_a_reply_never_makes_a_run_that_cannot_be_stored() -> None:
    from sapwood.core.codec import dump_run, load_run
    from sapwood.testing import fold

    events = list(Agent(llm=scripted(says("o\ud83dk"))).stream("\ud800 hi"))
    run = fold(events)
    assert load_run(dump_run(run)) == run
    assert run.messages[0].text == "\ufffd hi"
    assert run.messages[1].text == "o\ufffdk"
