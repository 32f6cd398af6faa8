"""Guide A on the pipeline: its examples as printed, and its peer's sections on it, each with the number of the statement.

Where DESIGN or the list of faults differs from the peer, the docstring says so and the test asserts what is ours.
"""

import asyncio
import math
import subprocess
import sys
from typing import Any

import pytest

from sapwood import (
    Agent,
    Allocation,
    AnthropicFormatter,
    ContextItem,
    ContextPipeline,
    Message,
    OpenAIFormatter,
    PipelineExecutionError,
    QueryBundle,
    RetrievalScope,
    SourceType,
    TokenBudget,
    conversation_items,
    create_memory_store,
    memory_source,
    rag_skill,
    retriever_step,
)
from sapwood.core.messages import Recalled
from sapwood.testing import says, scripted


def words(text: str) -> int:
    return len(text.split())


def add(*items: ContextItem) -> Any:
    return lambda found, query: [*found, *items]


def contents(result: Any) -> list[str]:
    return [item.content for item in result.window.items]


# -- examples as printed --------------------------------------------------------------------------


class MemoryManager:
    """What the examples call so: a conversation that gives its items itself."""

    def __init__(self, conversation_tokens: int = 4096) -> None:
        self.messages: list[Message] = []

    def add_user_message(self, content: str) -> None:
        self.messages.append(Message.user(content))

    def add_assistant_message(self, content: str) -> None:
        self.messages.append(Message.assistant(content))

    def get_context_items(self, priority: int = 7) -> list[ContextItem]:
        return conversation_items(self.messages, priority=priority)


def test_example_the_first_pipeline() -> None:
    pipeline = (
        ContextPipeline(max_tokens=8192)
        .with_memory(MemoryManager(conversation_tokens=4096))
        .with_formatter(AnthropicFormatter())
        .add_system_prompt("You are a helpful assistant.")
    )

    result = pipeline.build("What is context engineering?")
    assert result.formatted_output == {
        "system": [{"type": "text", "text": "You are a helpful assistant."}],
        "messages": [{"role": "user", "content": "What is context engineering?"}],
    }
    assert result.diagnostics["items_included"] == 1


def test_example_retrieval() -> None:
    def my_embed_fn(text: str) -> list[float]:
        seed = sum(ord(c) for c in text) % 10000
        raw = [math.sin(seed * 1000 + i) for i in range(64)]
        norm = math.sqrt(sum(x * x for x in raw))
        return [x / norm for x in raw] if norm else raw

    items = [
        ContextItem(content="Python is great for data science.", source=SourceType.RETRIEVAL),
        ContextItem(content="RAG combines retrieval with generation.", source=SourceType.RETRIEVAL),
    ]

    class Dense:
        def retrieve(self, query: QueryBundle, top_k: int = 10) -> list[ContextItem]:
            assert query.embedding is not None
            return items[:top_k]

    dense = Dense()
    pipeline = ContextPipeline(max_tokens=8192).add_step(retriever_step("search", dense, top_k=5))
    query = QueryBundle(query_str="How does RAG work?", embedding=my_embed_fn("How does RAG work?"))
    result = pipeline.build(query)
    assert contents(result) == [item.content for item in items]


def test_example_memory() -> None:
    memory = MemoryManager(conversation_tokens=4096)
    memory.add_user_message("Help me migrate from MySQL to Postgres")
    memory.add_assistant_message("Sure! What MySQL version are you using?")
    memory.add_user_message("MySQL 8.0, about 50GB")

    pipeline = ContextPipeline(max_tokens=8192).with_memory(memory)
    result = pipeline.build(QueryBundle(query_str="What are the risks?"))
    assert contents(result) == [message.text for message in memory.messages]


def test_example_decorator() -> None:
    pipeline = ContextPipeline(max_tokens=8192)
    pipeline.add_step(add(ContextItem(content="new", score=0.5, metadata={"recent": True}), ContextItem(content="old")))

    @pipeline.step
    def boost_recent(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        return [
            item.model_copy(update={"score": min(1.0, item.score * 1.5)}) if item.metadata.get("recent") else item
            for item in items
        ]

    result = pipeline.build("What is context engineering?")
    assert [item.score for item in result.window.items] == [0.75, 0.0]


def test_example_formats() -> None:
    pipeline, query = ContextPipeline().add_system_prompt("Be kind."), "Why?"
    result = pipeline.with_formatter(AnthropicFormatter()).build(query)
    assert (result.format_type, sorted(result.formatted_output)) == ("anthropic", ["messages", "system"])
    result = pipeline.with_formatter(OpenAIFormatter()).build(query)
    assert (result.format_type, result.formatted_output["messages"][0]["role"]) == ("openai", "system")


def test_example_the_last_result_of_an_agent() -> None:
    agent = Agent(llm=scripted(says("Hi."))).with_pipeline(ContextPipeline().add_system_prompt("Be kind."))
    for _ in agent.chat("Hello"):
        pass

    result = agent.last_result
    assert result is not None
    assert result.system == ("Be kind.",)
    assert result.diagnostics["items_included"] > 0


# -- 16: the pipeline -----------------------------------------------------------------------------


def test_16_1_the_order_is_memory_enricher_steps_window_formatter() -> None:
    """System items are not handed to the steps, so that none can lose one."""
    seen: list[str] = []
    pipeline = ContextPipeline(max_tokens=100, tokenizer=words).add_system_prompt("Be kind.")
    pipeline.with_memory(MemoryManager())
    pipeline.with_query_enricher(lambda text, items: seen.append(f"enrich {len(items)}") or f"{text} more")  # type: ignore[func-returns-value]
    pipeline.add_step(lambda items, query: seen.append(f"step {query} {len(items)}") or [])  # type: ignore[func-returns-value]
    pipeline.with_formatter(lambda window: seen.append(f"format {len(window.items)}"))
    pipeline.build("why")
    assert seen == ["enrich 0", "step why more 0", "format 1"]


def test_16_1_the_window_is_filled_by_priority_then_score_and_smaller_items_still_enter() -> None:
    items = [
        ContextItem(content="low", score=0.1),
        ContextItem(content="far too long to fit", score=0.9),
        ContextItem(content="high", score=0.8),
        ContextItem(content="first", priority=9),
    ]
    result = ContextPipeline(max_tokens=4, tokenizer=words).add_step(add(*items)).build("q")
    assert contents(result) == ["first", "high", "low"]
    assert [item.content for item in result.overflow_items] == ["far too long to fit"]


def test_16_2_diagnostics_and_results_have_the_keys_of_the_guide() -> None:
    def broken(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        raise OSError

    budget = TokenBudget(10, reserve_tokens=2, allocations=(Allocation(SourceType.RETRIEVAL, 3),))
    pipeline = ContextPipeline(max_tokens=10, tokenizer=words).with_budget(budget).with_memory(MemoryManager())
    pipeline.with_query_enricher(lambda text, items: text)
    pipeline.step(on_error="skip")(broken)
    pipeline.add_step(add(ContextItem(content="a b", score=0.9), ContextItem(content="a b c", score=0.5)))
    result = pipeline.build("what")
    keys = {
        "steps",
        "memory_items",
        "total_items_considered",
        "items_included",
        "items_overflow",
        "token_utilization",
        "token_usage_by_source",
        "shared_pool_usage",
        "query_enriched",
        "skipped_steps",
        "budget_overflow_by_source",
    }
    assert keys <= set(result.diagnostics)
    assert set(result.diagnostics["steps"][0]) == {"name", "items_after", "time_ms"}
    assert (result.diagnostics["skipped_steps"], result.diagnostics["token_utilization"]) == (["broken"], 0.375)
    for field in ("window", "formatted_output", "format_type", "overflow_items", "diagnostics", "build_time_ms"):
        assert hasattr(result, field)


def test_16_3_priorities_are_those_of_the_guide() -> None:
    store = create_memory_store()
    store.save("a fact")
    talk = conversation_items([Message.user("a"), Message.assistant("b"), Message.user("c")])
    assert [(item.priority, item.score) for item in talk] == [(7, 0.5), (7, 0.75), (7, 1.0)]
    facts = ContextPipeline().with_memory(memory_source(store)).build("a fact?").window.items
    system = ContextPipeline().add_system_prompt("x").system_items
    default = ContextItem(content="x")
    assert [item.priority for item in (*system, *facts, default)] == [10, 8, 5]


def test_16_4_errors_of_steps_keep_their_cause_and_async_ones_need_abuild() -> None:
    """What the peer's error lacks, the diagnostics, is there, with the step that failed."""

    def broken(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        raise OSError("no network")

    with pytest.raises(PipelineExecutionError, match="Step 'broken' failed during execution") as raised:
        ContextPipeline().add_step(broken).build("q")
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.diagnostics["failed_step"] == "broken"
    with pytest.raises(TypeError):
        ContextPipeline().add_step(lambda items, query: None).build("q")  # type: ignore[arg-type, return-value]

    async def later(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        return items

    with pytest.raises(TypeError, match="await abuild"):
        ContextPipeline().add_step(later).build("q")
    assert contents(asyncio.run(ContextPipeline().add_step(later).abuild("q"))) == []


def test_16_5_the_window_is_what_the_reserve_leaves_and_b34_the_total_counts() -> None:
    """`truncate` keeps the beginning of what does not fit, as in every budget here; the peer skips it."""
    items = add(ContextItem(content="word " * 501))
    budget = TokenBudget(total_tokens=100, reserve_tokens=10)
    result = ContextPipeline(max_tokens=8192, tokenizer=words).with_budget(budget).add_step(items).build("q")
    assert (result.window.max_tokens, contents(result)) == (90, [])
    cut = TokenBudget(100, reserve_tokens=10, allocations=(Allocation("retrieval", 50, overflow="truncate"),))
    assert ContextPipeline(tokenizer=words, budget=cut).add_step(items).build("q").window.used_tokens == 51


def test_16_6_system_stands_aside_roles_are_merged_and_what_was_retrieved_comes_first() -> None:
    talk = conversation_items([Message.user("one"), Message.user("two"), Message.assistant("three")])
    pipeline = ContextPipeline().add_system_prompt("Be kind.").add_step(add(*talk, ContextItem(content="document")))
    body = pipeline.with_formatter(AnthropicFormatter()).build("four").formatted_output
    assert body["system"] == [{"type": "text", "text": "Be kind."}]
    assert body["messages"] == [
        {"role": "user", "content": "Here is relevant context:\n\ndocument\n\none\n\ntwo"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]


def test_16_7_and_b7_the_question_is_always_sent_last_and_counted() -> None:
    """The peer loses it where a step brings a document and there is no memory."""
    document = ContextItem(content="document")
    pipeline = (
        ContextPipeline(max_tokens=3, tokenizer=words).with_formatter(AnthropicFormatter()).add_step(add(document))
    )
    result = pipeline.build("the question")
    assert result.formatted_output["messages"][-1]["content"].endswith("the question")
    assert result.window.used_tokens == 3

    model = scripted(says("ok"))
    agent = Agent(llm=model).with_pipeline(ContextPipeline().add_step(add(document)))
    list(agent.chat("the question"))
    last = model.requests[0].transcript[-1]
    assert last.text == "the question"
    assert [part.text for part in last.content if isinstance(part, Recalled)] == [
        "Here is relevant context:\n\ndocument"
    ]


def test_16_8_and_b33_nothing_is_downloaded_and_nothing_extra_is_needed() -> None:
    code = (
        "import sys, socket; socket.socket.connect = None\n"
        "from sapwood import ContextPipeline; print(ContextPipeline().build('hello world').window.used_tokens)\n"
        "print([name for name in ('pydantic', 'httpx2', 'asyncio', 'tiktoken') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["2", "[]"]


# -- 18: scope ------------------------------------------------------------------------------------


def test_18_3_excluded_wins_and_children_can_only_narrow() -> None:
    scope = RetrievalScope(include=("/a",), exclude=("/a/b",))
    assert [path for path in ("/", "/a", "/ab", "/a/c", "/a/b", "/a/b/c", "/a/bc") if scope.matches(path)] == [
        "/a",
        "/a/c",
        "/a/bc",
    ]
    assert scope.intersect(RetrievalScope()) == scope
    child = RetrievalScope(include=("/a/c", "/z"), exclude=("/a/c/d",))
    assert scope.intersect(child) == RetrievalScope(include=("/a/c",), exclude=("/a/b", "/a/c/d"))


def test_18_3_a_scope_reaches_the_pipeline_of_an_agent() -> None:
    hits = [ContextItem(content="in", namespace="/a"), ContextItem(content="out", namespace="/a/b")]
    model = scripted(says("ok"))
    pipeline = ContextPipeline().add_step(retriever_step("s", lambda query: hits))
    agent = Agent(llm=model).with_pipeline(pipeline).with_scope(RetrievalScope(include=("/a",), exclude=("/a/b",)))
    list(agent.chat("?"))
    assert [part.text for part in model.requests[0].transcript[0].content if isinstance(part, Recalled)] == [
        "Here is relevant context:\n\nin"
    ]


def test_13_9_rag_skill_hands_over_a_question_that_is_a_bundle_and_a_text() -> None:
    def by_bundle(query: QueryBundle, top_k: int = 10) -> list[ContextItem]:
        return [ContextItem(content=f"{query.query_str} {query.embedding}", metadata={"section": "s"})]

    def by_text(query: str) -> list[str]:
        return [query.upper()]

    assert rag_skill(by_bundle, embed_fn=lambda text: [0.5]).tools[0].fn("bees") == "[s] bees [0.5]"
    assert rag_skill(by_text).tools[0].fn("bees") == "BEES"


def test_13_9_several_retrievers_add_a_vault_that_is_one_of_their_names() -> None:
    tool = rag_skill({"law": lambda query: [{"section": "s", "text": "x" * 501}], "art": lambda query: []}).tools[0]
    assert tool.input_schema["properties"]["vault"]["enum"] == ["law", "art"]
    assert tool.fn("?", "law") == f"[law: s] {'x' * 500}…"


# -- the list of faults ---------------------------------------------------------------------------


@pytest.mark.parametrize("total", range(1, 10))
def test_b34_small_budgets_work(total: int) -> None:
    assert ContextPipeline(budget=TokenBudget(total)).build("").window.max_tokens == total


def test_b34_a_step_that_is_skipped_leaves_nothing_behind() -> None:
    def spoils(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        items[0].metadata["title"] = "spoilt"
        items.append(ContextItem(content="left behind"))
        raise OSError

    pipeline = ContextPipeline().add_step(add(ContextItem(content="a", metadata={"title": "t"})))
    pipeline.step(on_error="skip")(spoils)
    (item,) = pipeline.build("q").window.items
    assert (item.content, item.metadata) == ("a", {"title": "t"})


def test_b34_a_wrong_count_is_not_believed() -> None:
    lying = ContextItem(content="one two three", token_count=1)
    assert contents(ContextPipeline(max_tokens=3, tokenizer=words).add_step(add(lying)).build("q")) == []


def test_b34_the_system_prompt_of_an_agent_and_those_of_its_pipeline_stand_beside_each_other() -> None:
    model = scripted(says("ok"))
    agent = Agent(llm=model).with_pipeline(ContextPipeline().add_system_prompt("added"))
    list(agent.with_system_prompt("first").with_system_prompt("own").chat("?"))
    assert model.requests[0].system == ("own", "added")


def test_b34_foreign_objects_are_found_where_they_are_returned() -> None:
    with pytest.raises(TypeError, match="Step 'odd' returned a list with dict at place 0"):
        pipeline = ContextPipeline()
        pipeline.step(name="odd")(lambda items, query: [{"content": "x"}])
        pipeline.add_step(lambda items, query: 1 / 0).build("q")  # type: ignore[arg-type, return-value]
