"""Runs that wait in the memory of an Agent: nothing is lost, one goes on at a time, and they own their conversation."""

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
    tool,
)
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import assert_ordered, call, calls, fails, says, scripted

YES = ApprovalDecision(approved=True)
DOWN = fails(ServerError("down", is_transient=False))
PAYS = calls(call("pay", {"cents": 1}))


class Case:
    """An agent with a conversation store alone, or with no store; and what it paid."""

    def __init__(self, *steps: Any, conversations: bool = True, **options: Any) -> None:
        self.paid: list[int] = []
        self.store = InProcessStore()

        @tool(requires_approval=True)
        def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"paid {cents}"

        self.agent = Agent(llm=scripted(*steps)).with_tools([pay]).with_approval(defer=True)
        self.conversations = conversations
        if conversations:
            self.agent.with_conversation(self.store.conversations, "c", **options)

    def paused(self) -> str:
        list(self.agent.stream("go"))
        assert self.agent.last_turn is not None
        (request,) = self.agent.last_turn.waiting
        assert request.id.endswith("c0")
        return request.run_id

    def kept(self) -> list[str]:
        return [message.text for message in self.store.conversations.load("c").messages]


@pytest.mark.parametrize("conversations", [True, False])
def test_a_client_that_leaves_before_the_first_event_loses_nothing(conversations: bool) -> None:
    case = Case(PAYS, says("done"), conversations=conversations)
    run_id = case.paused()
    case.agent.resume(run_id, {"r0c0": YES}).close()
    assert_ordered(list(case.agent.resume(run_id, {"r0c0": YES})))
    assert case.paid == [1]


@pytest.mark.parametrize("conversations", [True, False])
def test_a_model_that_fails_after_the_answer_loses_nothing(conversations: bool) -> None:
    case = Case(PAYS, DOWN, says("done"), conversations=conversations)
    run_id = case.paused()
    with pytest.raises(ServerError):
        list(case.agent.resume(run_id, {"r0c0": YES}))
    with pytest.raises(ConflictError, match="has an answer to 'r0c0' already"):
        list(case.agent.resume(run_id, {"r0c0": YES}))
    list(case.agent.resume(run_id))
    assert case.paid == [1]
    assert [message.text for message in case.agent.last_messages] == ["go", "", "", "done"]


def test_an_answer_that_fits_nothing_leaves_the_run_where_it_is() -> None:
    case = Case(PAYS, says("done"), conversations=False)
    run_id = case.paused()
    with pytest.raises(ConfigError, match="no call 'zzz'"):
        list(case.agent.resume(run_id, {"zzz": YES}))
    with pytest.raises(RunPausedError):
        list(case.agent.resume(run_id))
    list(case.agent.resume(run_id, {"r0c0": YES}))
    assert case.paid == [1]


def test_two_who_resume_one_run_do_not_both_run_it() -> None:
    case = Case(PAYS, PAYS, says("done"), conversations=False)
    run_id = case.paused()
    first = case.agent.resume(run_id, {"r0c0": YES})
    next(first)
    with pytest.raises(ConflictError, match="somebody else goes on with run"):
        list(case.agent.resume(run_id, {"r0c0": YES}))
    last = None
    for event in first:
        last = event
        if event.type == "turn_finished":
            break
    assert last is not None
    second = case.agent.resume(run_id, {"r1c0": YES})
    next(second)
    first.close()  # after somebody else took the run, which stays with them
    with pytest.raises(ConflictError, match="somebody else goes on with run"):
        list(case.agent.resume(run_id, {"r1c0": YES}))
    list(second)
    assert case.paid == [1, 1]


def test_a_resumed_turn_enters_the_conversation_also_without_a_run_store() -> None:
    case = Case(PAYS, says("done"), says("hello"))
    run_id = case.paused()
    assert case.kept() == []
    list(case.agent.resume(run_id, {"r0c0": YES}))
    assert case.kept() == ["go", "", "", "done"]
    assert "".join(case.agent.chat("next")) == "hello"
    assert case.kept()[4:] == ["next", "hello"]


def test_a_prompt_over_a_run_that_waits_here_is_refused_or_denies() -> None:
    case = Case(PAYS, says("hello"), says("other"))
    run_id = case.paused()
    with pytest.raises(RunPausedError, match=r'waits for an answer to r0c0 \(pay\).*on_pending="deny"'):
        list(case.agent.stream("next"))
    case.agent.with_conversation(case.store.conversations, "other")
    assert "".join(case.agent.chat("elsewhere")) == "hello"
    case.agent.with_conversation(case.store.conversations, "c", on_pending="deny")
    assert "".join(case.agent.chat("next")) == "other"
    assert case.kept() == ["go", "", "", "next", "other"]
    (denied,) = case.store.conversations.load("c").messages[2].tool_results
    assert denied.text == "Denied: the user moved on to something else."
    assert case.paid == []
    with pytest.raises(ConfigError, match="no run store"):
        list(case.agent.resume(run_id, {"r0c0": YES}))


def test_a_prompt_while_a_run_goes_on_here_is_refused() -> None:
    case = Case(PAYS, says("done"))
    run_id = case.paused()
    going = case.agent.resume(run_id, {"r0c0": YES})
    next(going)
    with pytest.raises(ConversationBusyError, match=f"run '{run_id}' goes on, on conversation 'c'"):
        list(case.agent.stream("next"))
    list(going)
    assert case.kept() == ["go", "", "", "done"]


def test_a_run_that_was_answered_here_and_left_is_not_overrun() -> None:
    case = Case(PAYS, says("done"))
    run_id = case.paused()
    gone = case.agent.resume(run_id, {"r0c0": YES})
    while next(gone).type != "approval_resolved":
        pass
    gone.close()
    with pytest.raises(RunPausedError, match="was answered, and nobody has gone on with it yet; resume it"):
        list(case.agent.stream("next"))
    list(case.agent.resume(run_id))
    assert (case.paid, case.kept()) == ([1], ["go", "", "", "done"])


def test_a_run_that_broke_off_after_its_answer_is_closed_by_the_next_prompt() -> None:
    case = Case(PAYS, DOWN, says("hello"))
    run_id = case.paused()
    with pytest.raises(ServerError):
        list(case.agent.resume(run_id, {"r0c0": YES}))
    assert "".join(case.agent.chat("next")) == "hello"
    assert case.kept() == ["go", "", "", "next", "hello"]
    assert case.paid == [1]


def test_a_run_whose_conversation_moved_on_elsewhere_runs_nothing_and_can_be_closed() -> None:
    case = Case(PAYS, says("done"), on_pending="deny")
    run_id = case.paused()
    other = Agent(llm=scripted(says("first"))).with_conversation(case.store.conversations, "c")
    assert "".join(other.chat("quicker")) == "first"
    with pytest.raises(ConflictError, match=r"is at version 2, and run .* started from 0"):
        list(case.agent.resume(run_id, {"r0c0": YES}))
    assert "".join(case.agent.chat("next")) == "done"
    assert case.kept() == ["quicker", "first", "go", "", "", "next", "done"]
    assert case.paid == []


class Down:
    """A conversation store that cannot be written to."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.is_down = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, *args: Any, **options: Any) -> int:
        if self.is_down:
            raise StoreError("it is down")
        version: int = self._inner.append(*args, **options)
        return version


def test_a_run_that_could_not_be_closed_stays_where_it_is() -> None:
    case = Case(PAYS, says("done"))
    store = Down(case.store.conversations)
    case.agent.with_conversation(store, "c", on_pending="deny")
    run_id = case.paused()
    store.is_down = True
    with pytest.raises(StoreError, match="it is down"):
        list(case.agent.stream("next"))
    store.is_down = False
    list(case.agent.resume(run_id, {"r0c0": YES}))
    assert (case.paid, case.kept()) == ([1], ["go", "", "", "done"])
