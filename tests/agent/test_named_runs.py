"""What a server asks of an agent: runs by name, a look at each request, a copy for each user, errors that may be shown."""

from typing import Any

import pytest

from sapwood import Agent, ConfigError, MemoryManager, ToolError, create_memory_store, memory_source, tool
from sapwood.core.errors import ConflictError
from sapwood.core.events import ToolFinished
from sapwood.core.ledger import ContextLedger
from sapwood.core.model import ModelRequest
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.plain_store import PlainStore


def test_a_run_has_the_name_it_was_given_and_a_store_takes_each_once() -> None:
    store = InProcessStore()
    agent = Agent(llm=scripted(says("One."), says("Two."))).with_conversation(store, "c1")
    first = list(agent.stream("Hi", run_id="mine"))
    assert first[0].run_id == "mine"  # type: ignore[union-attr]
    with pytest.raises(ConflictError):
        list(agent.stream("Hi", run_id="mine"))
    assert [message.text for message in store.conversations.load("c1").messages] == ["Hi", "One."]
    alone = list(Agent(llm=scripted(says("Three."))).stream("Hi", run_id="other"))
    assert alone[0].run_id == "other"  # type: ignore[union-attr]


def test_inspectors_see_each_request_with_its_ledger_before_it_is_sent() -> None:
    seen: list[tuple[str, ModelRequest, ContextLedger]] = []

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = scripted(calls(call("add", {"a": 1, "b": 2})), says("Three."))
    agent = Agent(llm=model).with_tools([add])
    agent.with_inspector(lambda request, ledger: seen.append(("first", request, ledger)))
    agent.with_inspector(lambda request, ledger: seen.append(("second", request, ledger)))
    list(agent.chat("1 + 2?"))
    assert [name for name, _, _ in seen] == ["first", "second", "first", "second"]
    assert [request for _, request, _ in seen[::2]] == model.requests
    assert all(ledger.estimated_tokens > 0 for _, _, ledger in seen)


def test_what_an_inspector_raises_ends_the_turn_and_nothing_is_sent() -> None:
    def refuse(request: ModelRequest, ledger: ContextLedger) -> None:
        raise PermissionError("not today")

    model = scripted(says("Never."))
    with pytest.raises(PermissionError):
        list(Agent(llm=model).with_inspector(refuse).chat("Hi"))
    assert model.requests == []


def test_an_agent_for_a_user_recalls_and_keeps_what_is_theirs() -> None:
    store = create_memory_store()
    base = Agent(llm=scripted(says("Noted."), says("I do not know."), says("7741.")))
    base.with_memory(MemoryManager(store=store)).with_sources([memory_source(create_memory_store())])
    ann, bob = base.for_user("ann"), base.for_user("bob")
    list(ann.chat("The launch code of the ferry is 7741"))
    list(bob.chat("What is the launch code of the ferry?"))
    assert {record.scope.user for record in store.all()} == {"ann", "bob"}
    assert base.memory is not None
    assert base.memory.messages == ()
    assert ann.memory is not base.memory


def test_agents_below_an_agent_for_a_user_are_that_users_too() -> None:
    store, seen = create_memory_store(), list[str]()
    store.save("ann keeps the secret code PURPLE")

    def reply(request: ModelRequest) -> Any:
        seen.append(str(request.transcript[:]))
        return says("Noted.")

    child = Agent(llm=scripted(*[reply] * 2)).with_memory(store)
    asks = calls(call("helper", {"task": "what is the secret code?"}))
    parent = Agent(llm=scripted(asks, says("Done."), asks, says("Done."))).with_tools(
        [child.as_tool("helper", "Helps.")]
    )
    child.with_tools([parent.as_tool("boss", "Asks back.")])  # in a circle
    list(parent.chat("Ask"))
    assert "PURPLE" in seen[0]
    list(parent.for_user("bob").chat("Ask"))
    assert "PURPLE" not in seen[1]
    assert {record.scope.user for record in store.all()} == {None, "bob"}


def test_an_agent_that_is_a_tool_of_a_skill_is_nobodys_in_particular() -> None:
    from sapwood import Skill

    child = Agent(llm=scripted()).with_memory(create_memory_store()).as_tool("helper", "Helps.")
    skill = Skill(name="help", description="Helps.", instructions="Ask the helper.", tools=[child])
    with pytest.raises(ConfigError, match="a tool of a skill is an agent"):
        Agent(llm=scripted()).with_skill(skill).for_user("ann")


def test_a_user_cannot_have_a_memory_that_is_everybodys(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="one for all users"):
        Agent(llm=scripted()).with_memory_tool(tmp_path).for_user("ann")

    with pytest.raises(ConfigError, match="PlainStore keeps what all users said in one place"):
        Agent(llm=scripted()).with_memory(PlainStore()).for_user("ann")
    assert MemoryManager().scoped("ann").messages == ()


@pytest.mark.parametrize(
    ("error", "result", "shown"),
    [
        (RuntimeError("at db.internal"), "RuntimeError: at db.internal", "Internal error"),
        (ToolError("no such customer"), "no such customer", None),
    ],
)
def test_an_error_of_the_inside_has_a_text_that_users_may_see(error: Exception, result: str, shown: str | None) -> None:
    @tool
    def breaks() -> str:
        """Break."""
        raise error

    agent = Agent(llm=scripted(calls(call("breaks")), says("Sorry."))).with_tools([breaks])
    (finished,) = [event for event in agent.stream("Go") if isinstance(event, ToolFinished)]
    assert (finished.result, finished.shown) == (result, shown)


def test_a_hook_that_fails_and_one_that_replaces_an_error_decide_what_is_shown() -> None:
    from sapwood import HookResult

    @tool
    def breaks() -> str:
        """Break."""
        raise RuntimeError("at db.internal")

    def fails(name: str, arguments: dict[str, Any]) -> None:
        raise KeyError("at db.internal")

    def replaces(name: str, arguments: dict[str, Any], result: str) -> HookResult:
        return HookResult(updated_output="It is down; try later.")

    def run(agent: Agent) -> ToolFinished:
        (finished,) = [event for event in agent.stream("Go") if isinstance(event, ToolFinished)]
        return finished

    model = [calls(call("breaks")), says("Sorry.")]
    before = run(Agent(llm=scripted(*model)).with_tools([breaks]).with_hooks(pre_tool_use=fails))
    assert before.shown == "Denied: a hook failed (Internal error)"
    assert "db.internal" in before.result
    after = run(Agent(llm=scripted(*model)).with_tools([breaks]).with_hooks(post_tool_use=replaces))
    assert (after.result, after.shown) == ("It is down; try later.", None)


def test_an_agent_tells_its_model_and_the_window_it_plans_for() -> None:
    agent = Agent("openai/gpt-5-mini", api_key="k", max_tokens=9_000)
    assert (agent.model, agent.window) == ("openai/gpt-5-mini", 9_000)
    assert Agent(llm=scripted(), max_tokens=10_000_000).window == 200_000
