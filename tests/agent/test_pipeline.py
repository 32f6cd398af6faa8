"""A pipeline in an Agent, and the scope of what may be searched."""

import asyncio
from typing import Any

import pytest

from sapwood import (
    Agent,
    Allocation,
    ConfigError,
    ContextItem,
    ContextPipeline,
    QueryBundle,
    RetrievalScope,
    SubagentDefinition,
    TokenBudget,
    ToolContext,
    Turn,
    create_memory_store,
    memory_source,
    rag_skill,
    retriever_step,
    tool,
)
from sapwood.core.messages import Recalled
from sapwood.testing import call, calls, says, scripted
from support.governed import run

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
LAW = RetrievalScope(include=("/law",))


def recalled(model: Any, place: int = 0) -> list[str]:
    message = model.requests[place].transcript[-1]
    return [part.text for part in message.content if isinstance(part, Recalled)]


@RUNTIMES
def test_a_pipeline_is_a_source_among_the_others(runtime: str) -> None:
    pipeline = ContextPipeline().add_system_prompt("Cite.").add_step(retriever_step("s", lambda query: [f"on {query}"]))
    model = scripted(says("ok"))
    agent = Agent(llm=model).with_system_prompt("Be brief.").with_pipeline(pipeline)
    run(agent, runtime, "bees")
    assert model.requests[0].system == ("Be brief.", "Cite.")
    assert recalled(model) == ["Here is relevant context:\n\non bees"]
    assert agent.last_turn is not None
    lines = [line for line in agent.last_turn.rounds[0].ledger.lines if line.source == "pipeline"]
    assert [(line.label, line.section, line.verdict) for line in lines] == [("1 item", "retrieval", "kept")]


def test_an_agent_has_a_pipeline_of_its_own_to_add_steps_to() -> None:
    model = scripted(says("one"), says("two"))
    agent, other = Agent(llm=model), Agent(llm=model)

    @agent.pipeline.step
    def bees(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        return [*items, ContextItem(content=f"{query} after {len(query.chat_history)}")]

    list(agent.chat("bees"))
    assert recalled(model) == ["Here is relevant context:\n\nbees after 1"]
    list(other.chat("bees"))
    assert recalled(model, 1) == []
    assert other.pipeline.is_empty


def test_an_async_step_works_on_both_sides_and_in_a_running_loop_says_the_way_out() -> None:
    model = scripted(says("ok"), says("ok"))
    agent = Agent(llm=model)

    @agent.pipeline.step
    async def later(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        await asyncio.sleep(0)
        return [ContextItem(content="later")]

    list(agent.chat("a"))
    agent.close()

    async def main() -> None:
        [text async for text in agent.achat("b")]

    asyncio.run(main())
    assert recalled(model) == recalled(model, 1) == ["Here is relevant context:\n\nlater"]


@RUNTIMES
def test_a_step_that_fails_does_not_lose_the_turn(runtime: str) -> None:
    model = scripted(says("ok"))
    agent = Agent(llm=model)

    @agent.pipeline.step
    def broken(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        raise OSError("no network")

    events = run(agent, runtime, "bees")
    assert [event.error for event in events if event.type == "context_updated"] == ["PipelineExecutionError"]
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "stop"


def test_a_memory_of_a_pipeline_recalls_and_remembers() -> None:
    store = create_memory_store()
    store.save("The user drinks tea")
    source = memory_source(store, remember=lambda turn: [f"asked: {turn.text}"])
    model = scripted(says("Tea."))
    agent = Agent(llm=model).with_pipeline(ContextPipeline().with_memory(source))
    list(agent.chat("What does the user drink?"))
    assert recalled(model) == ["Relevant memory (use if helpful):\n- The user drinks tea"]
    assert [record.text for record in store.all()] == ["The user drinks tea", "asked: What does the user drink?"]


def test_what_a_pipeline_brings_is_held_to_the_share_of_its_name() -> None:
    pipeline = ContextPipeline().add_step(retriever_step("s", lambda query: ["word " * 500]))
    cuts = TokenBudget(2_000, reserve_tokens=500, allocations=(Allocation("pipeline", 50, overflow="truncate"),))
    model = scripted(says("ok"), says("ok"))
    agent = Agent(llm=model).with_pipeline(pipeline).with_budget(cuts)
    list(agent.chat("a"))
    assert agent.last_turn is not None
    (line,) = agent.last_turn.rounds[0].ledger.of("trimmed")
    assert (line.source, line.tokens <= 50) == ("pipeline", True)
    agent.with_budget(TokenBudget(2_000, reserve_tokens=500, allocations=(Allocation("pipeline", 50),)))
    list(agent.chat("a"))
    assert [line.source for line in agent.last_turn.rounds[0].ledger.of("skipped")] == ["pipeline"]


def test_what_is_no_pipeline_and_no_scope_is_refused() -> None:
    with pytest.raises(ConfigError, match="with_pipeline takes a ContextPipeline, not str"):
        Agent(llm=scripted()).with_pipeline("x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="with_scope takes a RetrievalScope, not str"):
        Agent(llm=scripted()).with_scope("/law")  # type: ignore[arg-type]


# -- scope ----------------------------------------------------------------------------------------


def shelves(query: str) -> list[dict[str, str]]:
    return [{"text": f"{name} on {query}", "namespace": f"/{name}"} for name in ("law", "law/drafts", "art")] + [
        {"text": "nowhere"}
    ]


def test_a_scope_reaches_the_steps_of_a_pipeline_and_tools_that_read_it() -> None:
    seen: list[Any] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.scope)
        return "ok"

    model = scripted(calls(call("look", {})), says("ok"), calls(call("look", {})), says("ok"))
    pipeline = ContextPipeline().add_step(retriever_step("s", shelves))
    agent = Agent(llm=model).with_tools([look]).with_pipeline(pipeline).with_scope(LAW)
    list(agent.chat("bees"))
    assert recalled(model) == ["Here is relevant context:\n\nlaw on bees\n\n---\n\nlaw/drafts on bees"]
    list(agent.with_scope(None).chat("bees"))
    assert seen == [LAW, None]


@RUNTIMES
@pytest.mark.parametrize(
    ("outer", "own", "shown"),
    [
        (None, None, ["law", "law/drafts", "art", "nowhere"]),
        (LAW, None, ["law", "law/drafts"]),
        (None, RetrievalScope(exclude=("/law",)), ["art", "nowhere"]),
        (LAW, RetrievalScope(exclude=("/law/drafts",)), ["law"]),
        (LAW, RetrievalScope(include=("/art",)), ["Nothing was found."]),
    ],
)
def test_rag_skill_shows_only_what_both_scopes_allow(runtime: str, outer: Any, own: Any, shown: list[str]) -> None:
    model = scripted(
        calls(call("activate_skill", {"skill_name": "rag"})),
        calls(call("call_tool", {"name": "search_docs", "args": {"query": "bees"}})),
        says("ok"),
    )
    agent = Agent(llm=model).with_skill(rag_skill(shelves, scope=own)).with_scope(outer)
    events = run(agent, runtime, "?")
    (result,) = [event.result for event in events if event.type == "tool_finished" and event.name == "search_docs"]
    assert [line.removesuffix(" on bees") for line in result.split("\n---\n")] == shown


@RUNTIMES
def test_a_subagent_can_only_narrow_the_scope(runtime: str) -> None:
    seen: list[RetrievalScope | None] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.scope)
        return "ok"

    def child(name: str, scope: RetrievalScope | None) -> SubagentDefinition:
        model = scripted(calls(call("look", {})), says("done"))
        return SubagentDefinition(name=name, description="Looks.", llm=model, tools=(look,), scope=scope)

    wider = RetrievalScope(include=("/law/tax", "/art"), exclude=("/law/tax/old",))
    for name, scope in (("same", None), ("narrow", wider)):
        model = scripted(calls(call("task", {"agent_name": name, "task": "look"})), says("ok"))
        agent = Agent(llm=model).with_subagents([child(name, scope)]).with_scope(LAW)
        run(agent, runtime, "go")
    assert seen == [LAW, RetrievalScope(include=("/law/tax",), exclude=("/law/tax/old",))]


def test_a_source_of_your_own_is_told_of_the_scope() -> None:
    seen: list[Any] = []

    class Looks:
        name = "looks"

        def select(self, turn: Turn, room: int) -> None:
            seen.append(turn.scope)

    list(Agent(llm=scripted(says("ok"))).with_sources([Looks()]).with_scope(LAW).chat("?"))
    assert seen == [LAW]
