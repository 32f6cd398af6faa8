"""AssistantSession: what guide D says of the hook, statement by statement, in Python."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sapwood import Agent, AssistantSession, tool
from sapwood.agent.assistant_session import DoneTurn
from sapwood.core.assistant_parts import AssistantPart, ReplyItem
from sapwood.core.errors import SapwoodError
from sapwood.core.parts import AgentContextPart, AgentMemoryPart, AgentPart, AgentTextPart, AgentToolPart
from sapwood.testing import call, calls, says, scripted

FIXTURES = Path(__file__).parent.parent.parent / "packages" / "react" / "fixtures"
TOOL = AgentToolPart("menu", {"day": "Monday"}, ["soup"])
MEMORY = AgentMemoryPart("recalled", ())
CONTEXT = AgentContextPart("tools", "loaded", tools=("menu",))


def text(value: str) -> AgentTextPart:
    return AgentTextPart(value)


class Told:
    """A session with a stream of these parts, and what its callbacks and its stream were told."""

    def __init__(self, *parts: Any, fails: Exception | None = None) -> None:
        self.parts: list[AssistantPart] = []
        self.turns: list[DoneTurn] = []
        self.calls: list[tuple[str, Any]] = []
        self.given = parts
        self.fails = fails
        self.gate = asyncio.Event()
        self.gate.set()
        self.session = AssistantSession(self.stream, on_part=self.parts.append, on_done=self.turns.append)

    async def stream(self, prompt: str, history: Any) -> AsyncGenerator[Any, None]:
        self.calls.append((prompt, history))
        for part in self.given:
            yield part
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails

    @property
    def shown(self) -> list[Any]:
        items = msgspec.json.decode(msgspec.json.encode(self.session.items))
        return [{key: value for key, value in item.items() if key != "id"} for item in items]

    @property
    def answer(self) -> tuple[AssistantPart, ...]:
        reply = self.session.items[-1]
        assert isinstance(reply, ReplyItem)
        return reply.parts


def test_85_send_uses_the_text_of_the_input_box_trimmed() -> None:
    told = Told()
    told.session.input = "  What is for lunch? \n"
    asyncio.run(told.session.send())
    assert told.calls == [("What is for lunch?", ())]


@pytest.mark.parametrize("given", ["", "   \n"])
def test_85_an_empty_box_has_no_effect_at_all(given: str) -> None:
    told = Told()
    told.session.input = given
    asyncio.run(told.session.send())
    assert (told.calls, told.turns, told.session.items, told.session.input) == ([], [], (), given)


def test_85_while_it_is_busy_it_has_no_effect_at_all() -> None:
    told = Told(text("a"))

    async def main() -> None:
        told.gate.clear()
        turn = asyncio.create_task(told.session.send("One"))
        while not told.parts:
            await asyncio.sleep(0)
        told.session.input = "Two"
        before = told.session.items
        await told.session.send()
        assert (told.session.items, told.session.input, told.turns) == (before, "Two", [])
        told.gate.set()
        await turn

    asyncio.run(main())
    assert [prompt for prompt, _ in told.calls] == ["One"]


def test_85_two_sends_in_the_same_tick_start_one_turn() -> None:
    told = Told(text("a"))
    told.session.input = "Once"

    async def main() -> None:
        told.gate.clear()
        first = asyncio.create_task(told.session.send())
        second = asyncio.create_task(told.session.send())
        third = asyncio.create_task(told.session.send("Twice"))
        await asyncio.gather(second, third)
        told.gate.set()
        await first

    asyncio.run(main())
    assert (len(told.calls), len(told.session.items), len(told.turns)) == (1, 2, 1)


def test_86_send_with_an_override_uses_it_and_marks_the_turn_as_spoken() -> None:
    told = Told()
    told.session.input = "typed"
    asyncio.run(told.session.send("said aloud"))
    assert (told.calls[0][0], told.turns) == ("said aloud", [DoneTurn(spoken=True)])


def test_86_the_box_marks_false() -> None:
    told = Told()
    told.session.input = "typed"
    asyncio.run(told.session.send())
    assert told.turns == [DoneTurn(spoken=False)]


def test_86_an_empty_override_has_no_effect_even_with_text_in_the_box() -> None:
    told = Told()
    told.session.input = "typed"
    asyncio.run(told.session.send("  "))
    assert (told.calls, told.session.input) == ([], "typed")


def test_87_on_send_the_input_is_cleared_two_items_are_appended_and_busy_becomes_true() -> None:
    told = Told()
    seen: list[Any] = []

    async def stream(prompt: str, history: Any) -> AsyncGenerator[AgentPart, None]:
        seen.extend([told.shown, told.session.input, told.session.busy])
        return
        yield

    told.session = AssistantSession(stream)
    told.session.input = "Hi"
    asyncio.run(told.session.send())
    assert seen == [[{"role": "user", "text": "Hi"}, {"role": "assistant"}], "", True]


def test_88_consecutive_texts_are_joined_and_a_tool_part_between_two_texts_keeps_three_parts() -> None:
    told = Told(text("Let me "), text("see. "), TOOL, text("So"), text("up."))
    asyncio.run(told.session.send("Hi"))
    assert told.answer == (text("Let me see. "), TOOL, text("Soup."))


def test_89_tool_memory_and_context_parts_are_appended_as_they_are() -> None:
    given = (MEMORY, CONTEXT, TOOL, TOOL)
    told = Told(*given)
    asyncio.run(told.session.send("Hi"))
    assert [part is whole for part, whole in zip(told.answer, given, strict=True)] == [True] * 4


def test_90_on_part_is_called_for_every_part_in_order_after_it_was_applied() -> None:
    told = Told(text("a"), text("b"), TOOL, MEMORY, text("c"))
    seen: list[tuple[AssistantPart, tuple[AssistantPart, ...]]] = []

    async def on_part(part: AssistantPart) -> None:
        seen.append((part, told.answer))

    told.session = AssistantSession(told.stream, on_part=on_part)
    asyncio.run(told.session.send("Hi"))
    assert seen == [
        (text("a"), (text("a"),)),
        (text("b"), (text("ab"),)),
        (TOOL, (text("ab"), TOOL)),
        (MEMORY, (text("ab"), TOOL, MEMORY)),
        (text("c"), (text("ab"), TOOL, MEMORY, text("c"))),
    ]


def test_91_busy_resets_at_the_end_and_on_done_runs_on_success_and_on_error() -> None:
    busy: list[bool] = []
    for told in (Told(text("a")), Told(text("a"), fails=ValueError("gone"))):
        told.session = AssistantSession(told.stream, on_done=lambda _, told=told: busy.append(told.session.busy))  # type: ignore[misc]
        asyncio.run(quietly(told.session))
    assert busy == [False, False]


async def quietly(session: AssistantSession) -> None:
    try:
        await session.send("Hi")
    except ValueError:
        return


def test_92_where_the_stream_raises_send_raises_after_busy_was_reset_and_on_done_ran() -> None:
    error = ValueError("gone")
    told = Told(text("Hel"), TOOL, fails=error)
    with pytest.raises(ValueError, match="gone") as raised:
        asyncio.run(told.session.send("Hi"))
    assert raised.value is error
    assert (told.answer, told.session.busy) == ((text("Hel"), TOOL), False)
    assert told.turns == [DoneTurn(spoken=True, error=error)]


def test_92_a_stream_that_cannot_even_begin_is_no_other_case() -> None:
    def refuse(prompt: str, history: Any) -> Any:
        raise ValueError("refused")

    turns: list[DoneTurn] = []
    session = AssistantSession(refuse, on_done=turns.append)
    with pytest.raises(ValueError, match="refused"):
        asyncio.run(session.send("Hi"))
    assert (len(session.items), session.busy, len(turns)) == (2, False, 1)


def test_92_a_turn_that_is_cancelled_ends_like_one_that_fails_and_closes_the_stream() -> None:
    told = Told(text("Hel"))

    async def main() -> None:
        told.gate.clear()
        turn = asyncio.create_task(told.session.send("Hi"))
        while not told.parts:
            await asyncio.sleep(0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(main())
    assert (told.session.busy, len(told.turns), told.answer) == (False, 1, (text("Hel"),))


def test_93_reset_empties_the_thread_and_does_not_stop_a_turn_that_runs() -> None:
    told = Told(text("Hel"), TOOL, text("lo"))

    def on_part(part: AssistantPart) -> None:
        told.parts.append(part)
        if len(told.parts) == 1:
            told.session.reset()
            told.session.reset()
        assert (told.session.items, told.session.busy) == ((), True)

    told.session = AssistantSession(told.stream, on_part=on_part, on_done=told.turns.append)
    asyncio.run(told.session.send("One"))
    assert (told.parts, told.session.items, told.session.busy) == ([text("Hel"), TOOL, text("lo")], (), False)
    assert told.turns == [DoneTurn(spoken=True)]


def test_93_after_a_reset_a_turn_has_no_history() -> None:
    told = Told(text("a"))
    asyncio.run(told.session.send("One"))
    told.session.reset()
    asyncio.run(told.session.send("Two"))
    assert told.calls == [("One", ()), ("Two", ())]


def test_94_stream_is_called_with_the_prompt_and_the_history_before_this_turn() -> None:
    told = Told(text("1"))
    asyncio.run(told.session.send("One"))
    before = told.session.items
    asyncio.run(told.session.send("Two"))
    assert told.calls == [("One", ()), ("Two", before)]


class Counting:
    """An async iterable that is no generator, and so cannot be closed."""

    def __init__(self) -> None:
        self.left = [text("b"), text("a")]

    def __aiter__(self) -> AsyncIterator[AgentPart]:
        return self

    async def __anext__(self) -> AgentPart:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


def plain_generator(prompt: str, history: Any) -> Iterator[AgentPart]:
    yield text("a")
    yield text("b")


async def promised(prompt: str, history: Any) -> list[AgentPart]:
    return [text("a"), text("b")]


@pytest.mark.parametrize(
    "stream",
    [
        plain_generator,
        promised,
        lambda prompt, history: [text("a"), text("b")],
        lambda prompt, history: Counting(),
        lambda prompt, history: [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    ],
    ids=["generator", "coroutine", "list", "async iterable", "json"],
)
def test_a_stream_may_be_plain_or_async_and_its_parts_may_be_json(stream: Any) -> None:
    session = AssistantSession(stream)
    asyncio.run(session.send("Hi"))
    assert session.items[-1] == ReplyItem(session.items[-1].id, (text("ab"),))


def chunk_cases() -> list[Any]:
    paths = [path for path in sorted(FIXTURES.glob("*.json")) if path.stem != "messages"]
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in paths
        for case in json.loads(path.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize("case", chunk_cases())
def test_a_session_shows_what_the_react_hook_shows(case: dict[str, Any]) -> None:
    told = Told(*case["inputs"])
    try:
        asyncio.run(told.session.send("Hi"))
    except SapwoodError as error:
        assert str(error) in [item.get("errorText") for item in case["inputs"]]
    assert told.shown[-1].get("parts", []) == case["parts"]
    if "told" in case:
        assert msgspec.json.decode(msgspec.json.encode(told.parts)) == case["told"]


def test_a_session_of_an_agent_goes_on_where_the_last_turn_ended() -> None:
    @tool
    def menu(day: str) -> list[str]:
        """List the dishes of a day."""
        return ["pea soup"]

    model = scripted(calls(call("menu", {"day": "Monday"})), says("Pea soup."), says("Yes."), says("Hello."))
    session = AssistantSession.of(Agent(llm=model).with_tools([menu]))
    for prompt in ("What is for lunch?", "Is it good?"):
        asyncio.run(session.send(prompt))
    assert [item.parts for item in session.items if isinstance(item, ReplyItem)] == [
        (AgentToolPart("menu", {"day": "Monday"}, ["pea soup"]), text("Pea soup.")),
        (text("Yes."),),
    ]
    said = [message.text for message in model.requests[2].transcript if message.text]
    assert said == ["What is for lunch?", "Pea soup.", "Is it good?"]
    session.reset()
    asyncio.run(session.send("Hi"))
    assert [message.text for message in model.requests[3].transcript] == ["Hi"]


def test_what_a_subagent_says_is_the_result_of_its_call_alone() -> None:
    cook = Agent(llm=scripted(says("Pea soup."))).as_tool("cook", description="Cook something.")
    model = scripted(calls(call("cook", {"task": "lunch"})), says("Done."))
    session = AssistantSession.of(Agent(llm=model).with_tools([cook]))
    asyncio.run(session.send("Cook"))
    reply = session.items[-1]
    assert isinstance(reply, ReplyItem)
    assert [part.type for part in reply.parts] == ["tool", "text"]
    assert reply.parts[1] == text("Done.")


def test_93_a_thread_that_was_reset_does_not_come_back_where_the_turn_after_it_failed() -> None:
    def refuse(request: Any) -> Any:
        raise ValueError("gone")

    model = scripted(says("Noted."), refuse, says("Hello."))
    session = AssistantSession.of(Agent(llm=model))
    asyncio.run(session.send("A secret."))
    session.reset()
    asyncio.run(quietly(session))
    asyncio.run(session.send("Three"))
    said = " ".join(message.text for message in model.requests[-1].transcript)
    assert said.endswith("Three")
    assert [word for word in ("secret", "Noted") if word in said] == []


class Steps:
    """An iterator of its own, plain and async, that tells whether it was closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def __iter__(self) -> "Steps":
        return self

    def __next__(self) -> AgentPart:
        return text("a")

    def close(self) -> None:
        self.closed.append("close")


class AsyncSteps(Steps):
    def __aiter__(self) -> "AsyncSteps":
        return self

    async def __anext__(self) -> AgentPart:
        return text("a")

    async def aclose(self) -> None:
        self.closed.append("aclose")


@pytest.mark.parametrize(("steps", "closed"), [(Steps(), ["close"]), (AsyncSteps(), ["aclose"])])
def test_a_source_is_closed_where_the_turn_ends_before_it(steps: Steps, closed: list[str]) -> None:
    def refuse(part: AssistantPart) -> None:
        raise ValueError("enough")

    session = AssistantSession(lambda prompt, history: steps, on_part=refuse)
    with pytest.raises(ValueError, match="enough"):
        asyncio.run(session.send("Hi"))
    assert steps.closed == closed
