"""Cases STR and THR of the loop and the Agent: leaving streams, terminal events, threads and loops."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sapwood import Agent, ContextSource, Message, ServerError, TextDelta, Turn, tool
from sapwood.core.messages import Text
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.retry import RetryPolicy
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.testing import calls, fails, says, scripted
from support.replay_server import Faults, ReplayServer
from support.turns import bound, collect, spec, turn, with_policy

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


@RUNTIMES
def test_str_01_leaving_the_stream_early(runtime: str) -> None:
    model = scripted(says("1 2 3 4 5 6 7 8 9 10"), says("on"))
    agent = Agent(llm=model)
    problems: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        events = agent.astream("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert model.streams[0].closed
        assert len(asyncio.all_tasks()) == 1

    if runtime == "asyncio":
        asyncio.run(main())
    else:
        events = agent.stream("go")
        next(event for event in events if isinstance(event, TextDelta))
        events.close()
        assert model.streams[0].closed
    assert problems == []
    assert list(agent.chat("go on", messages=agent.last_messages)) == ["on"]


@RUNTIMES
def test_str_02_a_failure_before_the_first_event_reaches_the_consumer(runtime: str) -> None:
    class Broken(ContextSource):
        name = "broken"

        def contribute(self, turn: Turn) -> Any:
            raise RuntimeError("source is down")

    with pytest.raises(ServerError):
        turn(spec(scripted(fails(ServerError("down", is_transient=False)))), runtime=runtime)
    with pytest.raises(RuntimeError, match="source is down"):
        turn(spec(scripted(), sources=[Broken()]), runtime=runtime)
    agent = Agent(llm=scripted(fails(ServerError("down", is_transient=False))))
    with pytest.raises(ServerError):
        list(agent.chat("hi"))
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "error"


@RUNTIMES
def test_str_03_exactly_one_terminal_event_or_one_exception(runtime: str) -> None:
    def boom() -> None:
        raise RuntimeError("boom")

    tools = [bound("boom", boom), bound("ping", lambda: "pong")]
    for given in (
        spec(scripted(says("done")), tools),
        spec(scripted(calls("boom"), says("done")), tools),
        with_policy(spec(scripted(calls("ping"), calls("ping")), tools), max_rounds=2),
    ):
        events = turn(given, runtime=runtime)
        assert [event.type for event in events].count("turn_finished") == 1
        assert events[-1].type == "turn_finished"
    seen: list[Any] = []

    async def main() -> None:
        given = spec(scripted(calls("ping"), fails(ServerError("gone", is_transient=False), after="half")), tools)
        async for event in run_turn(start_run("r"), given, AsyncioRuntime(), prompt=Message.user("go")):
            seen.append(event)

    with pytest.raises(ServerError):
        asyncio.run(main())
    kinds = [event.type for event in seen]
    assert "turn_finished" not in kinds
    assert kinds.count("tool_started") == kinds.count("tool_finished") == 1


@RUNTIMES
def test_str_04_text_is_not_delivered_twice(runtime: str) -> None:
    whole = says("He", "llo", content=(Text("Hello"), *calls("ping").tool_calls), stop_reason="tool_use")
    events = turn(spec(scripted(whole, says("Bye")), [bound("ping", lambda: "pong")]), runtime=runtime)
    rounds: list[str] = []
    for event in events:
        if event.type == "round_started":
            rounds.append("")
        elif isinstance(event, TextDelta):
            rounds[-1] += event.text
    assert rounds == ["Hello", "Bye"]
    assert events[-1].text == "HelloBye"  # type: ignore[union-attr]


@RUNTIMES
def test_str_09_a_stream_that_stops_without_its_end_is_no_answer(runtime: str) -> None:
    class Cut:
        profile = ModelProfile(provider="x", model="y")

        def stream(self, request: ModelRequest) -> Any:
            yield TextChunk("The answer is")

    with pytest.raises(ServerError) as caught:
        turn(spec(Cut(), retry=RetryPolicy(max_retries=0)), runtime=runtime)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "The answer is"
    assert caught.value.partial.partial


# -- threads and loops, with a real HTTP server ---------------------------------------------------

TEXT = {
    "id": "thr",
    "exchanges": [
        {
            "api": "anthropic.messages",
            "request": {"method": "POST", "path": "/v1/messages", "body": {"stream": True}},
            "response": {
                "status": 200,
                "headers": {"content-type": "text/event-stream"},
                "text": (
                    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
                    '"role":"assistant","model":"claude","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
                    'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
                    '"content_block":{"type":"text","text":""}}\n\n'
                    + "".join(
                        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
                        f'"delta":{{"type":"text_delta","text":"w{n} "}}}}\n\n'
                        for n in range(20)
                    )
                    + 'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
                    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
                    '"usage":{"output_tokens":20}}\n\n'
                    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
                ),
            },
        }
    ],
}
ANSWER = "".join(f"w{n} " for n in range(20))


def server(**faults: Any) -> ReplayServer:
    return ReplayServer(TEXT, faults=Faults(**faults), on_exhausted="repeat")


def http_agent(url: str) -> Agent:
    return Agent(llm=AnthropicProvider("claude-haiku-4-5", base_url=url, api_key="k"))


def test_thr_01_the_synchronous_api_again_and_again_and_from_threads_and_loops() -> None:
    with server() as live:
        agent = http_agent(live.url)
        assert "".join(agent.chat("hi")) == ANSWER
        assert "".join(agent.chat("hi")) == ANSWER
        answers: list[str] = []
        workers = [threading.Thread(target=lambda: answers.append("".join(agent.chat("hi")))) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert answers == [ANSWER, ANSWER]

        async def main() -> str:
            return "".join([text async for text in agent.achat("hi")])

        assert asyncio.run(main()) == ANSWER
        assert asyncio.run(main()) == ANSWER


def test_thr_02_the_synchronous_api_inside_a_running_loop() -> None:
    @tool
    def plain() -> str:
        """Answer."""
        return "pong"

    @tool
    async def is_async() -> str:
        """Answer."""
        return "pong"

    async def notebook() -> str:
        text = "".join(Agent(llm=scripted(calls("plain"), says("ok"))).with_tools([plain]).chat("go"))
        with pytest.raises(TypeError, match="astream"):
            list(Agent(llm=scripted(calls("is_async"), says("ok"))).with_tools([is_async]).chat("go"))
        return text

    assert asyncio.run(notebook()) == "ok"
    with server() as live:

        async def over_http() -> str:
            return "".join(http_agent(live.url).chat("hi"))

        assert asyncio.run(over_http()) == ANSWER


def test_thr_03_context_variables_in_tools_of_concurrent_runs() -> None:
    seen: dict[str, list[str]] = {"ada": [], "bob": []}

    @tool(read_only=True)
    def plain(name: str) -> str:
        """Look."""
        seen[name].append(USER.get())
        return "ok"

    @tool(read_only=True)
    async def is_async(name: str) -> str:
        """Look."""
        await asyncio.sleep(0)
        seen[name].append(USER.get())
        return "ok"

    def script(name: str) -> Any:
        from sapwood.testing import call

        return scripted(calls(call("plain", {"name": name}), call("is_async", {"name": name})), says("ok"))

    async def run(name: str) -> None:
        USER.set(name)
        async for _ in Agent(llm=script(name)).with_tools([plain, is_async]).astream("go"):
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(asyncio.create_task(run("ada")), asyncio.create_task(run("bob")))

    asyncio.run(main())
    assert seen == {"ada": ["ada", "ada"], "bob": ["bob", "bob"]}
    contextvars.copy_context().run(
        lambda: (USER.set("ada"), list(Agent(llm=script("ada")).with_tools([plain, is_async]).stream("go")))
    )
    assert seen["ada"][2:] == ["ada", "ada"]


def test_thr_04_two_runs_at_once_on_one_agent_stay_apart() -> None:
    def echo(request: ModelRequest) -> Any:
        return says(*(f"{message.text}," for message in request.transcript))

    agent = Agent(llm=scripted(*[echo] * 4))
    histories = {name: [Message.user(f"{name}1"), Message.assistant(f"{name}2")] for name in "ab"}
    answers: dict[str, str] = {}

    async def run(name: str) -> None:
        pieces: list[str] = []
        async for text in agent.achat(f"{name}3", messages=histories[name]):
            pieces.append(text)
            await asyncio.sleep(0)
        answers[name] = "".join(pieces)

    async def main() -> None:
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(main())
    assert answers == {"a": "a1,a2,a3,", "b": "b1,b2,b3,"}
    assert [len(history) for history in histories.values()] == [2, 2]


def test_thr_05_a_client_made_in_one_loop_and_used_in_another() -> None:
    with server(delay=0.005) as live:
        agent = http_agent(live.url)

        async def warm_up() -> None:
            async for _ in agent.achat("hi"):
                pass

        async def leave_early() -> str:
            text = agent.achat("hi")
            first = await anext(text)
            await text.aclose()
            return first

        async def whole() -> str:
            return "".join([text async for text in agent.achat("hi")])

        asyncio.run(warm_up())
        assert asyncio.run(leave_early()) == "w0 "
        assert asyncio.run(whole()) == ANSWER


def test_an_abandoned_async_turn_over_http_leaves_no_task_and_no_socket() -> None:
    with server(delay=0.01) as live:
        agent = http_agent(live.url)

        async def main() -> None:
            task = asyncio.create_task(collect(agent.astream("hi")))
            await asyncio.sleep(0.08)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}

        before = threading.active_count()
        asyncio.run(main())
        assert threading.active_count() <= before + 1  # the server's own thread for the connection
        assert agent.last_turn is not None
        assert agent.last_turn.stopped_by == "cancelled"
        assert agent.last_messages[-1].partial


def test_an_async_generator_provider_is_closed_with_the_turn() -> None:
    closed: list[str] = []

    class Slow:
        profile = ModelProfile(provider="x", model="y")

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
            try:
                for _ in range(10):
                    yield TextChunk("a")
                    await asyncio.sleep(0)
                yield Reply((Text("a"),))
            finally:
                closed.append("closed")

    async def main() -> None:
        events = Agent(llm=Slow()).astream("go")  # type: ignore[arg-type]
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()
        assert closed == ["closed"]

    asyncio.run(main())
