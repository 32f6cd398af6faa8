"""The small windows in which a crash or a lost answer once did harm: each was found by the simulation."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ConflictError,
    DiskFullError,
    RunPausedError,
    StoreError,
    SubagentDefinition,
    TurnFinished,
    tool,
)
from sapwood.agent.answers import Answers
from sapwood.agent.durable import record_answers
from sapwood.core.events import RoundRestarted, ToolFinished, ToolRunning
from sapwood.core.model import ModelProfile, ModelRequest, RestartChunk, TextChunk
from sapwood.core.transcript import INTERRUPTED, repair
from sapwood.runtime.blocking import BlockingRuntime
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, fails, says, scripted
from sapwood.testing.faults import Crash, crash_at


class Forgetful:
    """A store that stores the events of one kind, and then loses its answer; once."""

    def __init__(self, inner: Any, kind: type, *, stores: bool = True) -> None:
        self.runs = self
        self.conversations = inner.conversations
        self._inner = inner.runs
        self._kind, self._stores = kind, stores
        self.left = 1

    def append(self, run_id: str, events: Any, *, after: int, fence: int) -> int:
        is_hit = self.left > 0 and any(isinstance(event, self._kind) for event in events)
        self.left -= is_hit
        version: int = 0
        if self._stores or not is_hit:
            version = self._inner.append(run_id, events, after=after, fence=fence)
        if is_hit:
            raise StoreError("the answer was lost")
        return version


for _name in ("begin", "claim", "load", "events", "release", "waiting", "list", "summary", "delete"):
    setattr(Forgetful, _name, lambda self, *args, _name=_name, **more: getattr(self._inner, _name)(*args, **more))


def agent_of(store: Any, *replies: Any, tools: Any = (), **more: Any) -> Agent:
    return Agent(llm=scripted(*replies), max_retries=0).with_tools(tools).with_conversation(store, "c1", **more)


def results(store: Any, run_id: str) -> list[tuple[tuple[str, ...], str, str]]:
    return [(e.path, e.key, e.result) for e in store.runs.events(run_id) if isinstance(e, ToolFinished)]


@tool
def pay() -> str:
    """Pay."""
    return "paid"


def test_a_store_that_fails_in_a_subagent_ends_the_whole_turn_and_nothing_is_lost() -> None:
    inner = InProcessStore()
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(pay,))
    task = calls(call("task", {"agent_name": "helper", "task": "pay"}))
    agent = agent_of(Forgetful(inner, ToolFinished), task, calls("pay")).with_subagents([helper])
    with pytest.raises(StoreError, match="the answer was lost"):
        "".join(agent.chat("go"))
    (run,) = inner.runs.waiting()
    assert results(inner, run.run_id) == [(("r0c0",), "r0c0", "paid")]

    later = agent_of(inner, says("It is paid."), says("done")).with_subagents([helper])
    assert [event.text for event in later.resume(run.run_id) if isinstance(event, TurnFinished)][-1] == "done"
    assert [key for _, key, _ in results(inner, run.run_id)] == ["r0c0", "r0c0"]


def test_a_call_whose_outcome_is_unknown_is_answered_once_though_the_answer_of_the_store_is_lost() -> None:
    inner = InProcessStore()
    with crash_at("tool.before"), pytest.raises(Crash):
        "".join(agent_of(inner, calls("pay"), tools=[pay]).chat("go"))
    store = inner.reopened()
    (run,) = store.runs.waiting()
    with pytest.raises(StoreError, match="the answer was lost"):
        list(agent_of(Forgetful(store, ToolFinished), says("?"), tools=[pay]).resume(run.run_id))

    list(agent_of(store, says("I do not know."), tools=[pay]).resume(run.run_id))
    assert results(store, run.run_id) == [((), "r0c0", INTERRUPTED)]


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_run_whose_closing_broke_off_is_closed_by_whoever_resumes_it(tmp_path: Path, kind: str) -> None:
    inner: Any = InProcessStore() if kind == "memory" else SqliteStore(tmp_path / "a.db")
    with pytest.raises(ConnectionError):
        "".join(agent_of(inner, fails(ConnectionError("down"), after="Let me")).chat("first"))
    (first,) = inner.runs.waiting()
    # The next prompt closes it: its messages are in the conversation, and that it has ended is not yet stored.
    with pytest.raises(StoreError, match="the answer was lost"):
        "".join(agent_of(Forgetful(inner, TurnFinished, stores=False), says("?")).chat("second"))

    with pytest.raises(ConflictError, match="was closed, as another prompt came"):
        list(agent_of(inner, says("too late")).resume(first.run_id))
    assert inner.runs.summary(first.run_id).status == "ended"
    assert "".join(agent_of(inner, says("Hello.")).chat("second")) == "Hello."
    messages = inner.conversations.load("c1").messages
    assert [message.text for message in messages] == ["first", "Let me", "second", "Hello."]
    assert repair(messages) == messages
    inner.close()


def test_a_turn_that_died_after_its_messages_were_kept_ends_as_it_would_have() -> None:
    store = InProcessStore()
    with crash_at("conversation.appended"), pytest.raises(Crash):
        "".join(agent_of(store, says("Hello.")).chat("first"))
    later = store.reopened()
    (run,) = later.runs.waiting()
    agent = agent_of(later)
    (end,) = [event for event in agent.resume(run.run_id) if isinstance(event, TurnFinished)]
    assert (end.text, end.stopped_by) == ("Hello.", "stop")
    assert [message.text for message in agent.last_messages] == ["first", "Hello."]
    assert [message.text for message in later.conversations.load("c1").messages] == ["first", "Hello."]


def test_a_run_that_was_announced_twice_is_never_run_twice() -> None:
    store = InProcessStore()
    agent = agent_of(Forgetful(store, ToolRunning), calls("pay"), tools=[pay])
    with pytest.raises(StoreError, match="the answer was lost"):
        "".join(agent.chat("go"))
    (run,) = store.runs.waiting()
    list(agent_of(store, says("It may be paid."), tools=[pay]).resume(run.run_id))
    assert results(store, run.run_id) == [((), "r0c0", INTERRUPTED)]


def test_a_store_that_loses_an_answer_is_told_of_and_not_the_conflict_that_follows_from_it() -> None:
    inner = InProcessStore()

    class Handing:
        """Hands over to another model in the middle of its reply."""

        profile = ModelProfile("first", "m")

        def stream(self, request: ModelRequest) -> Any:
            yield TextChunk("Let me")
            yield RestartChunk("overloaded", "second/m")
            yield TextChunk("Once more")

    agent = Agent(llm=Handing()).with_conversation(Forgetful(inner, RoundRestarted), "c1")
    with pytest.raises(StoreError, match="the answer was lost"):
        list(agent.stream("go"))
    assert inner.runs.waiting()[0].status == "interrupted"


def test_a_run_that_was_answered_says_that_it_is_to_be_resumed() -> None:
    store = InProcessStore()
    guarded = tool(pay.fn, name="pay", requires_approval=True)
    agent = agent_of(store, calls("pay"), tools=[guarded]).with_approval(defer=True)
    list(agent.stream("go"))
    (run,) = store.runs.waiting()
    answers = Answers({"r0c0": ApprovalDecision(approved=True)})
    with suppress(StopIteration):
        record_answers(store.runs, run.run_id, answers, BlockingRuntime()).send(None)
    with pytest.raises(RunPausedError, match="was answered, and nobody has gone on with it yet; resume it"):
        list(agent.stream("and now?"))


class Full:
    """A conversation store with no room for one more message; once."""

    def __init__(self, inner: Any) -> None:
        self.load, self.delete, self.list = inner.load, inner.delete, inner.list
        self._inner = inner
        self.left = 1

    def append(self, *args: Any, **more: Any) -> int:
        self.left -= 1
        if self.left == 0:
            raise DiskFullError("there is no room left")
        version: int = self._inner.append(*args, **more)
        return version


def test_a_paused_run_whose_closing_broke_off_goes_on_in_its_round_and_uses_no_key_twice() -> None:
    store = InProcessStore()
    guarded = tool(pay.fn, name="guarded", requires_approval=True)
    first = agent_of(store, calls("guarded"), tools=[guarded]).with_approval(defer=True)
    list(first.stream("go"))
    (run,) = store.runs.waiting()
    second = agent_of(Full(store.conversations), says("?"), tools=[guarded], on_pending="deny").with_run_store(store)
    with pytest.raises(DiskFullError):
        list(second.stream("something else"))

    list(agent_of(store, calls("pay"), says("done"), tools=[guarded, pay]).resume(run.run_id))
    assert results(store, run.run_id) == [
        ((), "r0c0", "Denied: the user moved on to something else."),
        ((), "r1c0", "paid"),
    ]
    messages = store.conversations.load("c1").messages
    assert repair(messages) == messages
    assert messages[-1].text == "done"
