"""Agents on stores, where others are quicker or a client goes away in the middle: nobody's answer is lost or misread."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ConfigError,
    ConflictError,
    ConversationBusyError,
    RunPausedError,
    ServerError,
    StoreError,
    SubagentDefinition,
    UsageLimits,
    tool,
)
from sapwood.agent.answers import Answers
from sapwood.agent.durable import record_answers
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, fails, says, scripted

YES = ApprovalDecision(approved=True)


@pytest.fixture(params=["sqlite", "in process"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = SqliteStore(tmp_path / "agent.db") if request.param == "sqlite" else InProcessStore()
    with made:
        yield made


class Till:
    """A payment that needs approval, and what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(requires_approval=True)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.tool = pay

    def agent(self, store: Any = None, *, steps: tuple[ScriptedReply, ...] = (), **options: Any) -> Agent:
        """Return an agent that pays, then says so."""
        made = Agent(llm=following(*(steps or (calls(call("pay", {"cents": 1})), says("done")))))
        made = made.with_tools([self.tool]).with_approval(defer=True)
        return made.with_conversation(store, "c", **options) if store is not None else made


def following(*steps: ScriptedReply) -> Any:
    """A model that gives the n-th step as the n-th reply of a turn, whoever asks."""

    def answer(request: ModelRequest) -> ScriptedReply:
        last = [place for place, message in enumerate(request.transcript) if message.role == "user"][-1]
        done = sum(message.role == "assistant" for message in request.transcript[last:])
        return steps[min(done, len(steps) - 1)]

    return scripted(*[answer] * 40)


def paused(agent: Agent) -> tuple[str, str]:
    """Run a turn until it waits, and return the run and the request."""
    list(agent.stream("go"))
    assert agent.last_turn is not None
    (request,) = agent.last_turn.waiting
    return request.run_id, request.id


class Slow:
    """A store whose claims and begins answer only when they are let."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.reached, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _held_up(self, outcome: Any) -> Any:
        self.reached.set()
        assert self.go.wait(20)
        return outcome

    def claim(self, run_id: str) -> Any:
        return self._held_up(self._inner.claim(run_id))

    def begin(self, *args: Any, **options: Any) -> Any:
        return self._held_up(self._inner.begin(*args, **options))


async def cancelled_in(slow: Slow, step: Any) -> None:
    """Start a step, and cancel it while the store answers."""

    async def whole() -> None:
        if isinstance(step, AsyncIterator):
            async for _ in step:
                pass
        else:
            await step

    task = asyncio.create_task(whole())
    while not slow.reached.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    slow.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task


class Both:
    def __init__(self, runs: Any, conversations: Any) -> None:
        self.runs, self.conversations = runs, conversations


@pytest.mark.parametrize("way", ["resume", "record", "deny", "begin"])
def test_a_cancellation_while_a_run_is_taken_leaves_nobody_holding_it(store: Any, way: str) -> None:
    till = Till()
    slow = Slow(store.runs)
    both = Both(slow, store.conversations)
    run_id, request = ("", "") if way == "begin" else paused(till.agent(store))
    steps: dict[str, Callable[[], Any]] = {
        "resume": lambda: till.agent(both).aresume(run_id, {request: YES}),
        "record": lambda: record_answers(slow, run_id, Answers({request: YES}), AsyncioRuntime()),  # type: ignore[arg-type]
        "deny": lambda: till.agent(both, on_pending="deny").astream("another"),
        "begin": lambda: till.agent(both).astream("first"),
    }
    asyncio.run(cancelled_in(slow, steps[way]()))
    assert "running" not in [item.status for item in store.runs.list()]
    if way == "begin":
        assert "".join(till.agent(store, steps=(says("hello"),)).chat("next")) == "hello"
    else:
        list(till.agent(store).resume(run_id, {request: YES}))
        assert till.paid == [1]


def test_a_run_whose_past_cannot_be_read_is_not_held(tmp_path: Path) -> None:
    import sqlite3

    till = Till()
    with SqliteStore(tmp_path / "agent.db") as store:
        agent = till.agent().with_run_store(store)
        list(agent.stream("go", messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]))
        (item,) = store.runs.list()
        with sqlite3.connect(tmp_path / "agent.db") as connection:
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'past%'")]
            for table in tables:
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                if "json" in columns:
                    connection.execute(f"UPDATE {table} SET json = '{{}}'")
        connection.close()
        with pytest.raises(StoreError, match="a stored message cannot be read"):
            store.runs.claim(item.run_id)
        assert store.runs.summary(item.run_id).status == "paused"


def test_an_answer_to_an_earlier_call_never_reaches_another_one(store: Any) -> None:
    till = Till()

    def answer(request: ModelRequest) -> ScriptedReply:
        prompts = [message.text for message in request.transcript if message.role == "user"]
        done = sum(message.role == "assistant" for message in request.transcript)
        if prompts == ["deep"]:
            return calls(call("pay", {"cents": 99_999})) if not done else says("paid")
        steps = [
            calls(call("pay", {"cents": 1})),
            calls(call("task", {"agent_name": "clerk", "task": "deep"})),
            says("done"),
        ]
        return steps[done]

    clerk = SubagentDefinition(name="clerk", description="Pays.", tools=(till.tool,))
    agent = Agent(llm=scripted(*[answer] * 20)).with_tools([till.tool]).with_subagents([clerk])
    agent.with_approval(defer=True).with_conversation(store, "c")
    run_id, request = paused(agent)
    answers = {request: YES}
    list(agent.resume(run_id, answers))
    assert agent.last_turn is not None
    assert [item.id for item in agent.last_turn.waiting] == ["r1c0/r0c0"]
    with pytest.raises(ConflictError, match="has an answer to 'r0c0' already"):
        list(agent.resume(run_id, answers))
    assert till.paid == [1]
    list(agent.resume(run_id, {"r1c0/r0c0": YES}))
    assert till.paid == [1, 99_999]


@pytest.mark.parametrize("before", ["failed", "paused"])
def test_prompts_that_wait_all_get_their_turn_also_after_one_that_broke_off(store: Any, before: str) -> None:
    if before == "failed":
        with pytest.raises(ServerError):
            down = Agent(llm=scripted(fails(ServerError("down", is_transient=False))))
            list(down.with_conversation(store, "c").stream("first"))
    else:
        paused(Till().agent(store))
    outcomes: Counter[str] = Counter()
    barrier = threading.Barrier(4)

    def prompt(number: int) -> None:
        agent = Agent(llm=scripted(says("ok"))).with_conversation(store, "c", on_busy="wait", on_pending="deny")
        barrier.wait(20)
        try:
            outcomes["".join(agent.chat(f"prompt {number}"))] += 1
        except Exception as error:
            outcomes[f"{type(error).__name__}: {error}"] += 1

    threads = [threading.Thread(target=prompt, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert outcomes == {"ok": 4}
    texts = [message.text for message in store.conversations.load("c").messages if message.role == "user"]
    assert sorted(texts[1:]) == [f"prompt {number}" for number in range(4)]


def test_who_answers_too_late_is_told_so_whatever_came_of_the_run(store: Any) -> None:
    till = Till()
    run_id, request = paused(till.agent(store))
    first = till.agent(store).resume(run_id, {request: YES})
    while next(first).type != "approval_resolved":
        pass
    late: list[Callable[[], Any]] = [
        lambda: list(till.agent(store).resume(run_id, {request: YES})),
        lambda: asyncio.run(record_answers(store.runs, run_id, Answers({request: YES}), AsyncioRuntime())),
    ]
    problems = {"running": "already", "answered": "resume it without one", "ended": "too late: run .* has ended"}
    for state, problem in problems.items():
        if state == "answered":
            first.close()
        elif state == "ended":
            list(till.agent(store).resume(run_id))
        for answer in late:
            with pytest.raises(ConflictError, match=problem):
                answer()
        with pytest.raises(ConfigError, match="no call 'r9c9'"):
            list(till.agent(store).resume(run_id, {"r9c9": YES}))
    assert till.paid == [1]


class Ended:
    """A store in which somebody else ends the run between the look at it and the claim."""

    def __init__(self, inner: Any, end: Callable[[], object]) -> None:
        self._inner, self._end = inner, end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def claim(self, run_id: str) -> Any:
        self._end()
        return self._inner.claim(run_id)


def test_who_answers_while_the_run_ends_is_told_that_it_is_too_late(store: Any) -> None:
    till = Till()
    run_id, request = paused(till.agent(store))
    quicker = Ended(store.runs, lambda: list(till.agent(store).resume(run_id, {request: YES})))
    with pytest.raises(ConflictError, match="too late"):
        list(till.agent(Both(quicker, store.conversations)).resume(run_id, {request: YES}))
    assert till.paid == [1]


def test_a_prompt_that_finds_a_run_closed_meanwhile_goes_on(store: Any) -> None:
    till = Till()
    run_id, request = paused(till.agent(store))
    quicker = Ended(store.runs, lambda: list(till.agent(store).resume(run_id, {request: YES})))
    agent = till.agent(Both(quicker, store.conversations), on_pending="deny", steps=(says("hello"),))
    assert "".join(agent.chat("next")) == "hello"
    texts = [message.text for message in store.conversations.load("c").messages if message.role == "user"]
    assert texts == ["go", "next"]


@pytest.mark.parametrize("stop_at", ["turn_resumed", "approval_resolved"])
def test_an_answer_whose_client_is_gone_is_neither_lost_nor_overrun(store: Any, stop_at: str) -> None:
    till = Till()
    run_id, request = paused(till.agent(store))
    gone = till.agent(store).resume(run_id, {request: YES})
    while next(gone).type != stop_at:
        pass
    gone.close()
    with pytest.raises(RunPausedError, match="resume it"):
        list(till.agent(store).stream("another"))
    list(till.agent(store).resume(run_id, None if stop_at == "approval_resolved" else {request: YES}))
    assert till.paid == [1]
    assert "".join(till.agent(store, steps=(says("hello"),)).chat("another")) == "hello"


def test_a_raised_limit_whose_client_is_gone_is_neither_lost_nor_overrun(store: Any) -> None:
    def agent() -> Agent:
        made = Agent(llm=following(*[calls(call("look"))] * 3, says("done"))).with_tools([look])
        made.with_usage_limits(UsageLimits(tool_calls_limit=1, on_limit="ask"))
        return made.with_conversation(store, "c")

    looks: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        looks.append("look")
        return "seen"

    list(agent().stream("go"))
    (item,) = store.runs.waiting("c")
    gone = agent().resume(item.run_id, extend={"tool_calls": 5})
    while next(gone).type != "limit_extended":
        pass
    gone.close()
    with pytest.raises(RunPausedError, match="was answered, and nobody has gone on with it yet; resume it"):
        list(agent().stream("another"))
    with pytest.raises(ConflictError, match="has an answer to 'tool_calls' already"):
        list(agent().resume(item.run_id, extend={"tool_calls": 5}))
    assert list(agent().resume(item.run_id))[-1].type == "turn_finished"
    assert looks == ["look", "look"]


def test_a_run_of_a_conversation_is_resumed_only_by_who_can_read_that(store: Any) -> None:
    till = Till()
    run_id, request = paused(till.agent(store))
    with pytest.raises(ConfigError, match=r"belongs to conversation 'c'.*with_conversation\(store, 'c'\)"):
        list(till.agent().with_run_store(store).resume(run_id, {request: YES}))
    list(till.agent(store).resume(run_id, {request: YES}))
    assert till.paid == [1]
    assert len(store.conversations.load("c").messages) == 4


def test_a_deferred_answer_that_is_to_be_remembered_is(store: Any) -> None:
    till = Till()
    twice = (calls(call("pay", {"cents": 1})), calls(call("pay", {"cents": 1})), says("done"))
    run_id, request = paused(till.agent(store, steps=twice))
    agent = till.agent(store, steps=twice)
    list(agent.resume(run_id, {request: ApprovalDecision(approved=True, remember={})}))
    assert till.paid == [1, 1]
    (grant,) = agent.approvals.list()
    assert (grant.tool, grant.arguments, grant.approved, grant.scope) == ("pay", {"cents": 1}, True, "c")


@pytest.mark.parametrize("strange", [b"x", 7, "\ud800"])
def test_a_conversation_is_named_by_a_text(store: Any, strange: Any) -> None:
    with pytest.raises(ConfigError, match="the id of a conversation"):
        Agent(llm=scripted()).with_conversation(store, strange)


class Overtaken:
    """A run store on which another turn comes and goes between the look at the conversation and the first begin."""

    def __init__(self, inner: Any, other: Callable[[], object]) -> None:
        self._inner, self._other = inner, other
        self._is_first = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin(self, *args: Any, **options: Any) -> Any:
        if self._is_first:
            self._is_first = False
            self._other()
        return self._inner.begin(*args, **options)


def test_a_prompt_that_another_turn_overtook_is_busy_or_starts_from_there(store: Any) -> None:
    other = Agent(llm=scripted(says("quicker"), says("quicker"))).with_conversation(store, "c")

    def agent(**options: Any) -> Agent:
        overtaken = Both(Overtaken(store.runs, lambda: list(other.stream("other"))), store.conversations)
        return Agent(llm=scripted(says("hello"))).with_conversation(overtaken, "c", **options)

    with pytest.raises(ConversationBusyError, match=r"came first .* send the prompt again"):
        list(agent().stream("mine"))
    assert "".join(agent(on_busy="wait").chat("mine")) == "hello"
    texts = [message.text for message in store.conversations.load("c").messages]
    assert texts == ["other", "quicker", "other", "quicker", "mine", "hello"]
