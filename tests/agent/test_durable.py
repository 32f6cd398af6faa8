"""Agents on stores: conversations, pauses that outlive a process, two who resume, and prompts that come too early."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ConfigError,
    ConflictError,
    ConversationBusyError,
    ExternalResult,
    HookResult,
    Message,
    RunPausedError,
    ServerError,
    StoreError,
    SubagentDefinition,
    UsageLimits,
    tool,
)
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from sapwood.core.model import ModelRequest
from sapwood.core.transcript import INTERRUPTED, repair
from sapwood.llm.scripted import ScriptedReply
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import assert_ordered, call, calls, fails, says, scripted

YES, NO = ApprovalDecision(approved=True), ApprovalDecision(approved=False, reason="too risky")
Make = Callable[[], Any]


@pytest.fixture(params=["sqlite", "in process"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = SqliteStore(tmp_path / "agent.db") if request.param == "sqlite" else InProcessStore()
    with made:
        yield made


class Effects(list[str]):
    """What tools did, in order."""

    def tools(self) -> list[Any]:
        @tool(requires_approval=True)
        def erase(table: str) -> str:
            """Erase a table."""
            self.append(table)
            return f"erased {table}"

        @tool
        def look(what: str = "it") -> str:
            """Look."""
            self.append(f"look {what}")
            return f"saw {what}"

        @tool(external=True)
        def ask_office(question: str) -> str:
            """Ask the office."""
            raise AssertionError("it runs outside")

        return [erase, look, ask_office]


def answers(*steps: Any) -> Any:
    """A model that gives one step for each reply of the turn, by the request alone, so that it may be made anew."""

    def answer(request: ModelRequest) -> ScriptedReply:
        last = [place for place, message in enumerate(request.transcript) if message.role == "user"][-1]
        done = sum(message.role == "assistant" for message in request.transcript[last:])
        step: ScriptedReply = steps[min(done, len(steps) - 1)]
        return step

    return scripted(*[answer] * 40)


def agent_on(store: Any, effects: Effects, *steps: Any, conversation: str | None = "c1", **options: Any) -> Agent:
    agent = Agent(llm=answers(*steps)).with_tools(effects.tools()).with_approval(defer=True)
    return agent.with_conversation(store, conversation, **options) if conversation else agent.with_run_store(store)


def run_id_of(agent: Agent) -> str:
    assert agent.last_turn is not None
    return agent.last_turn.waiting[0].run_id


def waiting(agent: Agent) -> list[str]:
    assert agent.last_turn is not None
    return [request.id for request in agent.last_turn.waiting]


def results(events: list[AgentEvent]) -> list[str]:
    return [event.result for event in events if isinstance(event, ToolFinished) and not event.path]


GATED = calls(call("erase", {"table": "t"}), call("look"))


def test_a_conversation_goes_on_in_another_process(store: Any) -> None:
    for number in range(3):
        agent = Agent(llm=scripted(lambda request: says(f"{len(request.transcript)} messages")))
        agent.with_conversation(store, "c1")
        assert "".join(agent.chat(f"prompt {number}")) == f"{2 * number + 1} messages"
    assert len(store.conversations.load("c1").messages) == 6
    assert store.conversations.load("c2").messages == ()


def test_a_paused_turn_is_answered_days_later_elsewhere(store: Any) -> None:
    effects = Effects()
    first = agent_on(store, effects, GATED, says("done"))
    events = list(first.stream("go"))
    assert_ordered(events)
    assert (effects, waiting(first)) == (["look it"], ["r0c0"])
    assert store.conversations.load("c1").messages == (), "a paused segment does not commit"

    second = agent_on(store, effects, GATED, says("done"))
    events = list(second.resume(run_id_of(first), {"r0c0": YES}, by="ann"))
    assert_ordered(events)
    assert effects == ["look it", "t"]
    assert second.last_turn is not None
    assert second.last_turn.stopped_by == "stop"
    # The free call's result was not lost, and both are in the request, in call order.
    request = second._provider.requests[0]  # type: ignore[union-attr]
    assert [result.text for result in request.transcript[-1].tool_results] == ["erased t", "saw it"]
    assert [event.by for event in events if isinstance(event, ApprovalResolved)] == ["ann"]
    assert [message.role for message in store.conversations.load("c1").messages] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_partial_answers_keep_waiting_and_each_call_runs_once(store: Any) -> None:
    effects = Effects()
    three = calls(*(call("erase", {"table": letter}) for letter in "abc"))
    agent = agent_on(store, effects, three, says("done"))
    list(agent.stream("go"))
    run_id = run_id_of(agent)
    list(agent.resume(run_id, {"r0c1": YES}))
    assert (effects, waiting(agent)) == (["b"], ["r0c0", "r0c2"])
    with pytest.raises(ConflictError, match="has an answer to 'r0c1' already"):
        list(agent.resume(run_id, {"r0c1": YES}))
    list(agent.resume(run_id, {"r0c2": NO}))
    assert (effects, waiting(agent)) == (["b"], ["r0c0"])
    events = list(agent.resume(run_id, {"r0c0": YES}))
    assert effects == ["b", "a"]
    request = agent._provider.requests[-1]  # type: ignore[union-attr]
    assert [result.text for result in request.transcript[-1].tool_results] == [
        "erased a",
        "erased b",
        "Denied: too risky",
    ]
    assert isinstance(events[-1], TurnFinished)
    with pytest.raises(StoreError, match="has ended"):
        list(agent.resume(run_id))


@pytest.mark.parametrize(
    ("decisions", "problem"),
    [
        ({"zzz": YES}, "no call 'zzz' of run .* waits for an answer; those that wait: r0c0"),
        ({"r0c0": True}, "answered with an ApprovalDecision, not bool"),
        ({"r0c0": ExternalResult("x")}, "answered with an ApprovalDecision, not ExternalResult"),
    ],
)
def test_an_answer_that_fits_nothing_changes_nothing(store: Any, decisions: Any, problem: str) -> None:
    effects = Effects()
    agent = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"))
    list(agent.stream("go"))
    before = store.runs.events(run_id_of(agent))
    with pytest.raises(ConfigError, match=problem):
        list(agent.resume(run_id_of(agent), decisions))
    assert store.runs.events(run_id_of(agent)) == before
    assert store.runs.summary(run_id_of(agent)).status == "paused"
    with pytest.raises(RunPausedError, match=r"waits for an answer to r0c0 \(erase\); resume it with decisions"):
        list(agent.resume(run_id_of(agent)))


def test_two_who_resume_one_run_do_not_both_run_it(store: Any) -> None:
    effects = Effects()
    agent = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"))
    list(agent.stream("go"))
    first, second = (agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done")) for _ in range(2))
    winner = first.resume(run_id_of(agent), {"r0c0": YES})
    next(winner)
    with pytest.raises(ConflictError, match="is held by"):
        list(second.resume(run_id_of(agent), {"r0c0": NO}))
    list(winner)
    assert effects == ["t"]


def test_a_result_from_outside_is_shown_to_the_model(store: Any) -> None:
    asks = calls(call("ask_office", {"question": "may I?"}))
    agent = agent_on(store, Effects(), asks, says("done"))
    list(agent.stream("go"))
    run_id = run_id_of(agent)
    with pytest.raises(ConfigError, match="answered with an ExternalResult, not ApprovalDecision"):
        list(agent.resume(run_id, {"r0c0": YES}))
    events = list(agent.resume(run_id, {"r0c0": ExternalResult({"ok": True})}))
    assert results(events) == ['{"ok":true}']

    list(agent.stream("again"))
    events = list(agent.resume(run_id_of(agent), {"r0c0": ApprovalDecision(approved=False, reason="closed")}))
    assert results(events) == ["Denied: closed"]


def test_a_hook_that_asks_pauses_the_turn_where_nobody_can_be_asked() -> None:
    effects = Effects()
    agent = Agent(llm=answers(calls(call("look")), says("done"))).with_tools(effects.tools())
    agent.with_hooks(pre_tool_use=lambda name, given: HookResult(decision="ask", reason="new tool"))
    list(agent.stream("go"))
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "approval"
    assert [request.reason for request in agent.last_turn.waiting] == ["new tool"]
    list(agent.resume(run_id_of(agent), {"r0c0": YES}))
    assert effects == ["look it"]


def test_a_gate_two_subagents_down_is_answered_by_its_path(store: Any) -> None:
    effects = Effects()

    def answer(request: ModelRequest) -> ScriptedReply:
        task = [message.text for message in request.transcript if message.role == "user"][-1]
        if request.transcript[-1].role == "tool":
            return says(f"{task} done")
        if task == "deep":
            return calls(call("erase", {"table": "t"}))
        return calls(
            call(
                "task",
                {"agent_name": "low" if task == "middle" else "mid", "task": "deep" if task == "middle" else "middle"},
            )
        )

    def agent() -> Agent:
        low = SubagentDefinition(name="low", description="Low.", tools=tuple(effects.tools()))
        mid = SubagentDefinition(name="mid", description="Mid.", subagents=(low,))
        made = Agent(llm=scripted(*[answer] * 20)).with_subagents([mid]).with_approval(defer=True)
        return made.with_conversation(store, "c1")

    first = agent()
    events = list(first.stream("go"))
    assert_ordered(events)
    assert waiting(first) == ["r0c0/r0c0/r0c0"]
    second = agent()
    events = list(second.resume(run_id_of(first), {"r0c0/r0c0/r0c0": YES}))
    assert_ordered(events)
    assert effects == ["t"]
    assert second.last_turn is not None
    assert second.last_turn.stopped_by == "stop"
    assert [child.name for child in second.last_turn.children] == ["mid"]
    assert results(events) == ["middle done"]


def test_a_new_prompt_on_a_paused_conversation_is_refused_or_denies(store: Any) -> None:
    effects = Effects()
    agent = agent_on(store, effects, GATED, says("done"))
    list(agent.stream("first"))
    with pytest.raises(RunPausedError, match=r'waits for an answer to r0c0 \(erase\).*on_pending="deny"'):
        list(agent.stream("second"))
    paused = run_id_of(agent)
    moved_on = agent_on(store, effects, says("hello"), on_pending="deny")
    assert "".join(moved_on.chat("third")) == "hello"
    assert effects == ["look it"]
    messages = store.conversations.load("c1").messages
    assert [message.text for message in messages if message.role == "user"] == ["first", "third"]
    assert [result.text for result in messages[2].tool_results] == [
        "Denied: the user moved on to something else.",
        "saw it",
    ]
    assert repair(messages) == messages
    with pytest.raises(StoreError, match="has ended"):
        list(agent.resume(paused, {"r0c0": YES}))


def test_a_turn_that_an_error_broke_off_can_be_resumed(store: Any) -> None:
    effects = Effects()
    down = Agent(llm=scripted(calls(call("look")), fails(ServerError("down", is_transient=False))))
    down = down.with_tools(effects.tools()).with_conversation(store, "c1")
    with pytest.raises(ServerError):
        list(down.stream("go"))
    (summary,) = store.runs.waiting("c1")
    assert summary.status == "interrupted"
    events = list(agent_on(store, effects, calls(call("look")), says("done")).resume(summary.run_id))
    assert_ordered(events)
    assert effects == ["look it"]
    assert [message.text for message in store.conversations.load("c1").messages][-1] == "done"


def test_the_next_prompt_closes_a_turn_that_an_error_broke_off(store: Any) -> None:
    effects = Effects()
    down = Agent(llm=scripted(calls(call("look")), fails(ServerError("down", is_transient=False), after="half of it")))
    down = down.with_tools(effects.tools()).with_conversation(store, "c1")
    with pytest.raises(ServerError):
        list(down.stream("first"))
    agent = agent_on(store, effects, says("hello"))
    list(agent.stream("second"))
    messages = store.conversations.load("c1").messages
    assert [message.text for message in messages] == ["first", "", "", "half of it", "second", "hello"]
    assert messages[3].partial
    assert [run.status for run in store.runs.list(conversation_id="c1")] == ["ended", "ended"]


def test_a_call_in_flight_at_a_crash_is_told_or_asked_about(store: Any) -> None:
    class Died(BaseException):
        pass

    ran: list[str] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(f"{amount}")
        if len(ran) == 1:
            raise Died
        return f"paid {amount}"

    def agent(**options: Any) -> Agent:
        made = Agent(llm=answers(calls(call("pay", {"amount": 5})), says("done"))).with_tools([pay])
        made = made.with_approval(defer=True, **options) if options else made
        return made.with_conversation(store, "c1")

    with pytest.raises(Died):
        list(agent().stream("go"))
    (summary,) = store.runs.waiting("c1")
    asking = agent(on_unknown="ask")
    list(asking.resume(summary.run_id))
    assert asking.last_turn is not None
    assert [(request.kind, request.tool_input) for request in asking.last_turn.waiting] == [("unknown", {"amount": 5})]
    assert results(list(asking.resume(summary.run_id, {"r0c0": YES}))) == ["paid 5"]
    assert ran == ["5", "5"]

    ran.clear()
    with pytest.raises(Died):
        list(agent().stream("go"))
    (summary,) = store.runs.waiting("c1")
    assert results(list(agent().resume(summary.run_id))) == [INTERRUPTED]

    ran.clear()
    with pytest.raises(Died):
        list(agent().stream("go"))
    (summary,) = store.runs.waiting("c1")
    asking = agent(on_unknown="ask")
    list(asking.resume(summary.run_id))
    assert results(list(asking.resume(summary.run_id, {"r0c0": ApprovalDecision(approved=False)}))) == [
        f"Denied: it is not to be run again. {INTERRUPTED}"
    ]
    assert ran == ["5"]


def test_an_expired_request_counts_as_denied_whatever_the_answer(store: Any) -> None:
    effects = Effects()
    agent = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"))
    agent.with_approval(defer=True, expires_seconds=60)
    list(agent.stream("go"))
    assert agent.last_turn is not None
    expires_at = agent.last_turn.waiting[0].expires_at
    assert expires_at is not None
    assert timedelta(seconds=50) < expires_at - datetime.now(UTC) <= timedelta(seconds=60)
    from sapwood.agent.answers import Answers, answers_of

    run = store.runs.load(run_id_of(agent))
    late = expires_at + timedelta(seconds=1)
    (event,) = answers_of(run, Answers({"r0c0": YES}), late)
    assert isinstance(event, ApprovalResolved)
    assert (event.approved, event.reason) == (False, f"nobody answered in time (until {expires_at})")
    assert answers_of(run, Answers(), late) == (event,), "nobody has to say so"
    assert answers_of(run, Answers(), expires_at) == ()


def test_a_limit_that_asks_pauses_and_is_extended_or_stands(store: Any) -> None:
    effects = Effects()
    looks = [calls(call("look", {"what": str(n)})) for n in range(4)]

    def agent() -> Agent:
        made = agent_on(store, effects, *looks, says("that is all"))
        return made.with_usage_limits(UsageLimits(tool_calls_limit=1, on_limit="ask"))

    first = agent()
    events = list(first.stream("go"))
    assert_ordered(events)
    assert first.last_turn is not None
    assert first.last_turn.stopped_by == "limit_ask"
    (summary,) = store.runs.waiting("c1")
    with pytest.raises(RunPausedError, match=r"waits at the limit of 1 tool calls .* extend=\{\} to let it finish"):
        list(agent().resume(summary.run_id))
    with pytest.raises(ConfigError, match="does not wait at a limit 'cost'; it waits at: tool_calls"):
        list(agent().resume(summary.run_id, extend={"cost": 1.0}))
    with pytest.raises(ConfigError, match="is how much more is allowed"):
        list(agent().resume(summary.run_id, extend={"tool_calls": -1}))
    second = agent()
    list(second.resume(summary.run_id, extend={"tool_calls": 1}))
    assert second.last_turn is not None
    assert second.last_turn.stopped_by == "limit_ask"
    assert effects == ["look 0", "look 2"]
    third = agent()
    list(third.resume(summary.run_id, extend={}))
    assert third.last_turn is not None
    assert third.last_turn.stopped_by == "usage_limit"
    assert effects == ["look 0", "look 2"]


def test_a_call_that_is_answered_from_outside_keeps_its_place_in_the_limits(store: Any) -> None:
    # Its callback was asked when the process died; the resume would ask again, and has the answer with it.
    effects = Effects()
    replies = (GATED, calls(call("look", {"what": "too much"})), says("over"))

    def agent() -> Agent:
        made = agent_on(store, effects, *replies).with_approval(lambda _: NO)
        return made.with_usage_limits(UsageLimits(tool_calls_limit=2))

    events = agent().stream("go")
    run_id = next(event.run_id for event in events if isinstance(event, TurnStarted))
    assert any(isinstance(event, ApprovalRequested) for event in events)
    events.close()  # type: ignore[attr-defined]
    resumed = list(agent().resume(run_id, {"r0c0": YES}))
    assert effects == ["t", "look it"]
    assert results(resumed)[-1] == "Not run: the limit of 2 tool calls (3 used) is reached."


def test_two_turns_at_once_on_one_conversation(store: Any) -> None:
    slow = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        assert slow.wait(20)
        return "waited"

    def agent(**options: Any) -> Agent:
        made = Agent(llm=answers(calls(call("wait")), says("done"))).with_tools([wait])
        return made.with_conversation(store, "c1", **options)

    thread = threading.Thread(target=lambda: list(agent().stream("first")))
    thread.start()
    while not store.runs.waiting("c1"):
        time.sleep(0.01)
    with pytest.raises(
        ConversationBusyError, match="runs on conversation 'c1'; wait for its end, or give on_busy=\"wait\""
    ):
        list(agent().stream("second"))
    late = threading.Thread(target=lambda: list(agent(on_busy="wait").stream("third")))
    late.start()
    time.sleep(0.1)
    slow.set()
    thread.join(20)
    late.join(20)
    texts = [message.text for message in store.conversations.load("c1").messages if message.role == "user"]
    assert texts == ["first", "third"]


def test_a_turn_without_a_conversation_keeps_its_past_with_the_run(store: Any) -> None:
    effects = Effects()
    past = [Message.user("before"), Message.assistant("yes")]
    agent = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"), conversation=None)
    list(agent.stream("go", messages=past))
    again = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"), conversation=None)
    list(again.resume(run_id_of(agent), {"r0c0": YES}))
    assert [message.text for message in again.last_messages] == ["before", "yes", "go", "", "", "done"]


def test_a_pause_without_any_store_is_answered_in_the_same_process() -> None:
    effects = Effects()
    agent = Agent(llm=answers(GATED, says("done"))).with_tools(effects.tools()).with_approval(defer=True)

    async def main() -> None:
        events = [event async for event in agent.astream("go", messages=[Message.user("a"), Message.assistant("b")])]
        assert_ordered(events)
        run_id = run_id_of(agent)
        events = [event async for event in agent.aresume(run_id, {"r0c0": YES})]
        assert_ordered(events)
        with pytest.raises(ConfigError, match="no run store to resume from"):
            [event async for event in agent.aresume(run_id, {"r0c0": YES})]

    asyncio.run(main())
    assert effects == ["look it", "t"]
    assert [message.text for message in agent.last_messages][-1] == "done"


def test_a_conversation_store_alone_keeps_what_a_turn_did_even_where_it_failed(store: Any) -> None:
    effects = Effects()
    agent = Agent(llm=scripted(calls(call("look")), fails(ServerError("down", is_transient=False)), says("hello")))
    agent = agent.with_tools(effects.tools()).with_conversation(store.conversations, "c1")
    with pytest.raises(ServerError):
        list(agent.stream("first"))
    assert "".join(agent.chat("second")) == "hello"
    texts = [message.text for message in store.conversations.load("c1").messages]
    assert texts == ["first", "", "", "second", "hello"]


class Later:
    """A store whose methods are async."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        async def later(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            return method(*args, **options)

        return later


def test_an_async_store_works_from_both_apis() -> None:
    inner = InProcessStore()

    class Both:
        runs, conversations = Later(inner.runs), Later(inner.conversations)

    effects = Effects()
    agent = agent_on(Both(), effects, GATED, says("done"))
    list(agent.stream("go"))

    async def main() -> None:
        async for _ in agent.aresume(run_id_of(agent), {"r0c0": YES}):
            pass

    asyncio.run(main())
    assert effects == ["look it", "t"]
    agent.close()


@pytest.mark.parametrize(
    ("configure", "problem"),
    [
        (lambda agent: agent.with_conversation(object(), "c1"), "a conversation store has load and append"),
        (lambda agent: agent.with_run_store(5), "a run store has begin and append"),
        (lambda agent: agent.with_conversation(InProcessStore(), ""), "a conversation needs an id"),
        (lambda agent: agent.with_conversation(InProcessStore(), "c", on_pending="no"), "on_pending is"),
        (lambda agent: agent.with_conversation(InProcessStore(), "c", on_busy="no"), "on_busy is"),
        (lambda agent: agent.with_approval(), "needs a callback, or defer=True"),
        (lambda agent: agent.with_approval(lambda request: YES, defer=True), "not both"),
        (lambda agent: agent.with_approval(5), "must be a function"),
        (
            lambda agent: agent.with_approval(defer=True, expires_seconds=0),
            "expires_seconds is None for never, or seconds, a number above 0",
        ),
        (lambda agent: agent.with_approval(defer=True, on_unknown="x"), "on_unknown is"),
    ],
)
def test_what_cannot_work_is_refused_at_configuration(configure: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        configure(Agent(llm=scripted()))


def test_a_history_and_a_conversation_exclude_each_other(store: Any) -> None:
    agent = Agent(llm=scripted(says("hi"))).with_conversation(store, "c1")
    with pytest.raises(ConfigError, match="messages= has no place here"):
        list(agent.stream("go", messages=[Message.user("a")]))


def test_what_a_conversation_holds_is_counted(store: Any) -> None:
    agent = Agent(llm=scripted(says("hi " * 50))).with_conversation(store, "c1")
    before = agent.count_tokens("and now?")
    list(agent.stream("go"))
    assert agent.count_tokens("and now?") > before + 30


def test_an_answered_run_still_belongs_to_who_answered(store: Any) -> None:
    from sapwood.agent.answers import Answers
    from sapwood.agent.durable import record_answers
    from sapwood.runtime.aio import AsyncioRuntime

    effects = Effects()
    agent = agent_on(store, effects, calls(call("erase", {"table": "t"})), says("done"))
    list(agent.stream("go"))
    asyncio.run(record_answers(store.runs, run_id_of(agent), Answers({"r0c0": YES}), AsyncioRuntime()))
    with pytest.raises(RunPausedError):
        list(agent.stream("another"))
    list(agent.resume(run_id_of(agent)))
    assert effects == ["t"]


@pytest.mark.parametrize("way", ["callback", "deferred", "unknown", "remembered"])
def test_what_runs_is_what_was_shown_where_the_input_is_converted(store: Any, way: str) -> None:
    class Died(BaseException):
        pass

    ran: list[tuple[str, int, int]] = []

    @tool(requires_approval=way != "unknown")
    def pay(to: str, cents: int, tries: int = 1) -> str:
        """Pay."""
        ran.append((to, cents, tries))
        if way == "unknown" and len(ran) == 1:
            raise Died
        return f"paid {cents}"

    pays = calls(call("pay", {"to": "ann", "cents": "900"}))

    def agent() -> Agent:
        made = Agent(llm=answers(pays, pays, says("done"))).with_tools([pay]).with_conversation(store, "c1")
        if way in ("callback", "remembered"):
            remember: Any = {} if way == "remembered" else None
            return made.with_approval(lambda request: ApprovalDecision(approved=True, remember=remember))
        return made.with_approval(defer=True, on_unknown="ask")

    first = agent()
    if way == "unknown":
        with pytest.raises(Died):
            list(first.stream("go"))
        (summary,) = store.runs.waiting("c1")
        run_id = summary.run_id
        list(first.resume(run_id))
    else:
        list(first.stream("go"))
    while first.last_turn is not None and first.last_turn.stopped_by == "approval":
        (request,) = first.last_turn.waiting
        assert request.tool_input == {"to": "ann", "cents": 900, "tries": 1}
        list(agent_resumed(first := agent(), request.run_id, request.id))
    assert set(ran) == {("ann", 900, 1)}
    assert [run.status for run in store.runs.list(conversation_id="c1")] == ["ended"]


def agent_resumed(agent: Agent, run_id: str, call_id: str) -> list[AgentEvent]:
    return list(agent.resume(run_id, {call_id: YES}))
