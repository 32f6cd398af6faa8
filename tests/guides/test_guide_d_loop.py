"""Guide D, statements 1 to 34: the loop, names, errors, approvals, memory and lazy tools without a manager.

Each test is named by the number of its statement. Where a statement was inferred and is bettered, the test
says why.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from sapwood import (
    AgentContextPart,
    AgentMemoryPart,
    AgentTextPart,
    AgentToolPart,
    Budget,
    CancelToken,
    ConfigError,
    MemoryRecord,
    Message,
    RecallOptions,
    RunCancelledError,
    ServerError,
    ToolError,
    ToolNameCollision,
    create_context_manager,
    create_memory_store,
    lazy_toolset,
    run_agent,
)
from sapwood.core.messages import Text, Thinking, ToolCall
from sapwood.testing import call, calls, fails, says, scripted
from support.guide import NOTES, parts


def of(kind: type, found: list[Any]) -> list[Any]:
    return [part for part in found if isinstance(part, kind)]


async def execute(name: str, arguments: dict[str, Any]) -> Any:
    return {"ran": name, **arguments}


class FakeClient:
    """The least that guide D asks of a client: `messages.stream(**body)`, events, a final message."""

    def __init__(self, *replies: list[dict[str, Any]]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.closed: list[bool] = []
        self._replies = list(replies)
        self.messages = SimpleNamespace(stream=self._stream)

    def _stream(self, **body: Any) -> "FakeStream":
        self.bodies.append(body)
        return FakeStream(self, self._replies.pop(0))


class FakeStream:
    def __init__(self, client: FakeClient, blocks: list[dict[str, Any]]) -> None:
        self._client = client
        self._blocks = blocks

    async def __aenter__(self) -> "FakeStream":
        return self

    async def __aexit__(self, *error: object) -> None:
        self._client.closed.append(True)

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        usage = {"input_tokens": 3, "output_tokens": 1}
        yield {
            "type": "message_start",
            "message": {"id": "m", "role": "assistant", "model": "c", "content": [], "usage": usage},
        }
        for index, block in enumerate(self._blocks):
            start = {**block, "text": ""} if block["type"] == "text" else block
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for word in block.get("text", "").split(" ") if block["type"] == "text" else []:
                yield {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {"type": "text_delta", "text": word + " "},
                }
            yield {"type": "content_block_stop", "index": index}
        stop = "tool_use" if any(block["type"] == "tool_use" for block in self._blocks) else "end_turn"
        yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}
        yield {"type": "message_stop"}

    async def get_final_message(self) -> dict[str, Any]:
        return {"role": "assistant", "content": self._blocks}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(name: str, id: str = "t1", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


# -- the loop --------------------------------------------------------------------------------------


def test_d01_run_agent_is_an_async_generator_of_parts() -> None:
    generator = run_agent(client=scripted(says("hi")), prompt="hello")
    assert hasattr(generator, "__anext__")
    assert hasattr(generator, "aclose")
    assert parts(client=scripted(says("hi")), prompt="hello") == [AgentTextPart("hi")]


def test_d02_only_messages_stream_of_a_client_is_used() -> None:
    client = FakeClient([text("hello there")])
    found = parts(client=client, model="claude-x", prompt="hi")
    assert "".join(part.text for part in found).strip() == "hello there"
    assert client.bodies[0]["model"] == "claude-x"
    assert client.closed == [True]


def test_d03_each_text_delta_is_a_part_in_order() -> None:
    assert [part.text for part in parts(client=scripted(says("a", "b", "c")), prompt="x")] == ["a", "b", "c"]


def test_d04_every_call_is_run_and_is_one_tool_part_after_the_text() -> None:
    model = scripted(calls(call("notes_list"), call("notes_add", {"t": 1}), text="ok."), says("done"))
    found = parts(client=model, tools=NOTES, execute=execute, prompt="x")
    assert [type(part).__name__ for part in found] == [
        "AgentTextPart",
        "AgentToolPart",
        "AgentToolPart",
        "AgentTextPart",
    ]
    assert found[2] == AgentToolPart("notes.add", {"t": 1}, {"ran": "notes.add", "t": 1})


def test_d05_results_go_back_until_a_reply_asks_for_no_tool() -> None:
    client = FakeClient([use("notes_list", "t1")], [use("notes_list", "t2")], [text("done")])
    parts(client=client, model="m", tools=NOTES, execute=execute, prompt="x")
    assert len(client.bodies) == 3
    assert client.bodies[2]["messages"][-1]["content"][0]["tool_use_id"] == "t2"


def test_d06_the_loop_ends_after_max_steps_and_the_last_calls_still_run() -> None:
    model = scripted(*[calls("notes_list")] * 5)
    found = parts(client=model, tools=NOTES, execute=execute, prompt="x", max_steps=2)
    assert len(of(AgentToolPart, found)) == 2
    assert len(model.requests) == 2


def test_d07_the_default_of_max_steps_is_ten() -> None:
    model = scripted(*[calls("notes_list")] * 20)
    parts(client=model, tools=NOTES, execute=execute, prompt="x")
    assert len(model.requests) == 10
    with pytest.raises(ConfigError, match="max_steps"):
        parts(client=model, prompt="x", max_steps=0)


def test_d08_messages_are_copied() -> None:
    given = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    parts(client=scripted(calls("notes_list"), says("ok")), tools=NOTES, execute=execute, messages=given, prompt="c")
    assert given == [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def test_d09_prompt_follows_messages() -> None:
    model = scripted(says("ok"))
    parts(client=model, messages=[Message.user("a"), Message.assistant("b")], prompt="c")
    assert [message.text for message in model.requests[0].transcript] == ["a", "b", "c"]


def test_d10_with_neither_the_conversation_starts_empty() -> None:
    model = scripted(says("ok"))
    parts(client=model)
    assert len(model.requests[0].transcript) == 0


def test_d11_thinking_that_has_no_signature_is_never_sent_back_and_the_rest_keeps_its_order() -> None:
    """The guide drops all thinking; signed thinking goes back by default, since providers demand it in a tool loop."""
    signed = Thinking("signed", {"scripted": {"signature": "s"}})
    blocks = (Thinking("", None), Text("a"), signed, ToolCall("notes_list", id="1"), Text("b"))

    def sent(keep: bool) -> list[str]:
        model = scripted(says(content=blocks, stop_reason="tool_use"), says("ok"))
        parts(client=model, tools=NOTES, execute=execute, prompt="x", keep_thinking=keep)
        return [part.type for part in model.requests[1].transcript[1].content]

    assert sent(keep=False) == ["text", "tool_call", "text"]
    client = FakeClient(
        [{"type": "thinking", "thinking": "", "signature": ""}, text("a"), use("notes_list")], [text("ok")]
    )
    parts(client=client, model="m", tools=NOTES, execute=execute, prompt="x")
    assert [block["type"] for block in client.bodies[1]["messages"][1]["content"]] == ["text", "tool_use"]


def test_d12_a_client_error_ends_the_generator_and_the_parts_stand() -> None:
    seen: list[Any] = []

    async def main() -> None:
        async for part in run_agent(client=scripted(fails(ServerError("gone"), after="half")), prompt="x"):
            seen.append(part)

    with pytest.raises(ServerError, match="gone"):
        asyncio.run(main())
    assert seen == [AgentTextPart("half")]


def test_d13_an_aborted_signal_ends_the_generator_with_an_error() -> None:
    token = CancelToken()
    client = FakeClient([text("a b c d")])
    seen: list[Any] = []

    async def main() -> None:
        async for part in run_agent(client=client, model="m", prompt="x", signal=token):
            seen.append(part)
            token.cancel("enough")

    with pytest.raises(RunCancelledError, match="enough"):
        asyncio.run(main())
    assert len(seen) == 1
    assert client.closed == [True]
    with pytest.raises(RunCancelledError):
        parts(client=scripted(), prompt="x", signal=token)


def test_d14_closing_the_generator_stops_the_client_stream() -> None:
    client = FakeClient([text("a b c d")])

    async def main() -> None:
        generator = run_agent(client=client, model="m", prompt="x")
        await anext(generator)
        await generator.aclose()
        assert client.closed == [True]

    asyncio.run(main())


def test_d15_calls_of_a_reply_run_one_after_another_in_their_order() -> None:
    running: list[str] = []

    async def one_at_a_time(name: str, arguments: dict[str, Any]) -> str:
        running.append(name)
        await asyncio.sleep(0.01)
        assert running[-1] == name
        return name

    model = scripted(calls("notes_list", "notes_add"), says("ok"))
    found = parts(client=model, tools=NOTES, execute=one_at_a_time, prompt="x")
    assert [part.name for part in of(AgentToolPart, found)] == running == ["notes.list", "notes.add"]


# -- names, errors, approvals ----------------------------------------------------------------------


def test_d16_every_name_sent_is_sanitised() -> None:
    client = FakeClient([text("ok")])
    parts(client=client, model="m", tools=[{"name": "a b/c.d é"}, *NOTES], execute=execute, prompt="x")
    assert [tool["name"] for tool in client.bodies[0]["tools"]] == ["a_b_c_d__", "notes_list", "notes_add"]


def test_d17_execute_and_the_part_get_the_original_name() -> None:
    found = parts(client=scripted(calls("notes_list"), says("ok")), tools=NOTES, execute=execute, prompt="x")
    (tool,) = of(AgentToolPart, found)
    assert (tool.name, tool.result) == ("notes.list", {"ran": "notes.list"})


def test_d18_a_good_name_maps_to_itself() -> None:
    found = parts(
        client=scripted(calls("plain-name_1"), says("ok")),
        tools=[{"name": "plain-name_1"}],
        execute=execute,
        prompt="x",
    )
    assert of(AgentToolPart, found)[0].name == "plain-name_1"


def test_d19_two_tools_that_become_one_name_are_refused() -> None:
    with pytest.raises(ToolNameCollision, match=r"'a.b' and 'a_b'"):
        lazy_toolset([{"name": "a.b"}, {"name": "a_b"}])
    with pytest.raises(ToolNameCollision, match=r"'a.b'.*'a_b'"):
        parts(client=scripted(), tools=[{"name": "a.b"}, {"name": "a_b"}], prompt="x")


def test_d20_an_error_of_ours_shows_its_message_and_the_loop_goes_on() -> None:
    def failing(name: str, arguments: dict[str, Any]) -> None:
        raise ToolError("no such note")

    model = scripted(calls("notes_list"), says("ok"))
    found = parts(client=model, tools=NOTES, execute=failing, prompt="x")
    assert found[0] == AgentToolPart("notes.list", {}, "no such note", is_error=True)
    assert model.requests[1].transcript[-1].tool_results[0].text == "no such note"
    assert found[-1] == AgentTextPart("ok")


def test_d21_any_other_error_is_logged_and_hidden(caplog: pytest.LogCaptureFixture) -> None:
    def failing(name: str, arguments: dict[str, Any]) -> None:
        raise ValueError("password=hunter2")

    model = scripted(calls("notes_list"), says("ok"))
    with caplog.at_level(logging.ERROR):
        found = parts(client=model, tools=NOTES, execute=failing, prompt="x")
    assert found[0] == AgentToolPart("notes.list", {}, "Internal error", is_error=True)
    assert model.requests[1].transcript[-1].tool_results[0].text == "Internal error"
    assert "hunter2" in caplog.text


def test_d22_a_pending_approval_sets_the_approval_id_and_reaches_the_model() -> None:
    result = {"status": "pending_approval", "actionId": "act-7"}
    model = scripted(calls("notes_add"), says("waiting"))
    found = parts(client=model, tools=NOTES, execute=lambda name, arguments: result, prompt="x")
    assert found[0] == AgentToolPart("notes.add", {}, result, approval_id="act-7")
    assert "pending_approval" in model.requests[1].transcript[-1].tool_results[0].text
    snake = {"status": "pending_approval", "action_id": "act-8"}
    found = parts(client=scripted(calls("notes_add"), says("w")), tools=NOTES, execute=lambda *_: snake, prompt="x")
    assert found[0].approval_id == "act-8"


def test_d23_a_normal_result_has_neither_flag() -> None:
    found = parts(client=scripted(calls("notes_list"), says("ok")), tools=NOTES, execute=execute, prompt="x")
    assert (found[0].approval_id, found[0].is_error) == (None, False)


def test_d24_an_invented_name_goes_the_way_of_errors() -> None:
    found = parts(client=scripted(calls("nots_list"), says("ok")), tools=NOTES, execute=execute, prompt="x")
    assert found[0].is_error
    assert "nots_list" in found[0].result
    assert found[-1] == AgentTextPart("ok")


def test_d25_results_are_json_for_the_model_and_the_value_itself_in_the_part() -> None:
    model = scripted(calls("notes_list"), says("ok"))
    found = parts(client=model, tools=NOTES, execute=lambda *_: [1, {"a": None}], prompt="x")
    assert found[0].result == [1, {"a": None}]
    assert model.requests[1].transcript[-1].tool_results[0].text == '[1,{"a":null}]'


# -- memory and lazy tools without a manager -------------------------------------------------------


def memory() -> Any:
    store = create_memory_store()
    store.save("The user prefers metric units")
    return store


def test_d26_recall_comes_before_the_first_call_and_before_any_text() -> None:
    found = parts(client=scripted(says("km")), memory=memory(), prompt="which units?")
    assert isinstance(found[0], AgentMemoryPart)
    assert (found[0].op, [record.text for record in found[0].records]) == (
        "recalled",
        ["The user prefers metric units"],
    )


def test_d27_the_block_is_added_to_the_system_prompt() -> None:
    model = scripted(says("km"))
    parts(client=model, memory=memory(), prompt="which units?", system="Be brief.")
    assert model.requests[0].system == (
        "Be brief.",
        "Relevant memory (use if helpful):\n- The user prefers metric units",
    )
    assert [message.text for message in model.requests[0].transcript] == ["which units?"]


def test_d28_no_hits_no_part() -> None:
    assert parts(client=scripted(says("hi")), memory=memory(), prompt="zzz") == [AgentTextPart("hi")]


def test_d29_the_query_is_the_prompt_or_the_last_user_text() -> None:
    found = parts(client=scripted(says("km")), memory=memory(), messages=[Message.user("which units?")])
    assert isinstance(found[0], AgentMemoryPart)


def test_d30_each_saved_fact_is_a_part_after_the_loop() -> None:
    store = create_memory_store()
    found = parts(
        client=scripted(says("hi")), memory=store, remember=lambda turn: [turn.text, " ", "second"], prompt="I am Ada"
    )
    saved = of(AgentMemoryPart, found)
    assert [(part.op, part.records[0].text) for part in saved] == [("saved", "I am Ada"), ("saved", "second")]
    assert found[0] == AgentTextPart("hi")
    assert [record.kind for record in store.all()] == ["fact", "fact"]


def test_d31_nothing_is_saved_unless_remember_returns_facts() -> None:
    store = create_memory_store()
    parts(client=scripted(says("hi")), memory=store, prompt="I am Ada")
    parts(client=scripted(says("hi")), memory=store, remember=lambda turn: None, prompt="I am Ada")
    parts(client=scripted(says("hi")), memory=store, remember=lambda turn: [], prompt="I am Ada")
    assert store.all() == []


def test_d32_a_search_is_a_tool_part_and_its_finds_are_callable_next() -> None:
    lazy = lazy_toolset(NOTES, k=1)
    model = scripted(calls(call("search_tools", {"query": "list notes"})), calls("notes_list"), says("ok"))
    found = parts(client=model, tools=NOTES, execute=execute, prompt="x", lazy_toolset=lazy)
    tools = of(AgentToolPart, found)
    assert tools[0].result["found"] == [{"name": "notes_list", "description": "List the notes"}]
    assert tools[1].result == {"ran": "notes.list"}
    assert [[schema.name for schema in request.tools] for request in model.requests] == [
        ["search_tools"],
        ["search_tools", "notes.list"],
        ["search_tools", "notes.list"],
    ]
    assert of(AgentContextPart, found) == []


def test_d33_with_context_the_other_options_are_ignored() -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was touched")

    model = scripted(says("ok"))
    found = parts(
        client=model,
        tools=NOTES,
        execute=execute,
        prompt="which units?",
        context=create_context_manager(budget=Budget(10_000)),
        memory=Untouchable(),
        recall=RecallOptions(k=1),
        remember=lambda turn: ["x"],
        lazy_toolset=Untouchable(),
    )
    assert found == [AgentTextPart("ok")]
    assert [schema.name for schema in model.requests[0].tools] == ["notes.list", "notes.add"]


def test_d34_an_error_in_recall_or_remember_reaches_the_caller() -> None:
    class Down:
        def search(self, query: str, **options: Any) -> list[MemoryRecord]:
            raise OSError("memory is down")

    with pytest.raises(OSError, match="memory is down"):
        parts(client=scripted(says("hi")), memory=Down(), prompt="x")

    def remember(turn: Any) -> list[str]:
        raise ValueError("cannot remember")

    with pytest.raises(ValueError, match="cannot remember"):
        parts(client=scripted(says("hi")), memory=create_memory_store(), remember=remember, prompt="x")


def test_options_that_do_not_exist_or_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_step"):
        parts(client=scripted(), prompt="x", max_step=3)
    with pytest.raises(ConfigError, match="model="):
        parts(client=FakeClient(), prompt="x")
    with pytest.raises(ConfigError, match="client must be"):
        parts(client=object(), prompt="x")


def test_a_client_must_be_given() -> None:
    with pytest.raises(ConfigError, match="client="):
        parts(prompt="x")
