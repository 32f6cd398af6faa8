"""ContextPipeline: the fluent door, plain and async, with each kind of memory."""

import asyncio
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import (
    Allocation,
    Budget,
    ConfigError,
    ContextItem,
    ContextOverflowError,
    ContextPipeline,
    ContextResult,
    ContextWindow,
    MemoryRecord,
    Message,
    PipelineExecutionError,
    QueryBundle,
    SourceType,
    TokenBudget,
    Turn,
    conversation_items,
    create_context_manager,
    create_memory_store,
    filter_step,
    memory_source,
    reranker_step,
    retriever_step,
)
from sapwood.context.meter import estimate_tokens
from sapwood.context.source import Saved, Selection
from sapwood.core.errors import BlockingCallError, StepResultError
from sapwood.testing import assert_kept, assert_skipped, assert_under


def words(text: str) -> int:
    return len(text.split())


def document(content: str, score: float = 0.5) -> ContextItem:
    return ContextItem(content=content, score=score)


def contents(result: ContextResult) -> list[str]:
    return [item.content for item in result.window.items]


def adds(*items: ContextItem) -> Callable[..., list[ContextItem]]:
    def more(found: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        return [*found, *items]

    return more


def built(pipeline: ContextPipeline, query: str | QueryBundle, how: str) -> ContextResult:
    return pipeline.build(query) if how == "build" else asyncio.run(pipeline.abuild(query))


BOTH = pytest.mark.parametrize("how", ["build", "abuild"])


@BOTH
def test_a_pipeline_gathers_chooses_and_formats(how: str) -> None:
    pipeline = ContextPipeline(max_tokens=8, tokenizer=words).add_system_prompt("Be kind.")
    pipeline.add_step(retriever_step("search", lambda query: [{"text": "bees like it", "score": 0.2}, "too long " * 9]))
    result = built(pipeline, "What now?", how)
    assert contents(result) == ["Be kind.", "bees like it"]
    assert [item.content for item in result.overflow_items] == ["too long " * 9]
    assert result.format_type == "generic"
    assert result.formatted_output.endswith("=== QUESTION ===\nWhat now?")
    assert (result.system, result.messages) == (("Be kind.",), (Message.user("What now?"),))
    assert result.build_time_ms >= 0
    assert_kept(result.ledger, "retrieval")
    assert_skipped(result.ledger, "retrieval")
    assert_under(result.ledger, 8)
    diagnostics = result.diagnostics
    (step,) = diagnostics.pop("steps")
    assert (step["name"], step["items_after"], step["time_ms"] >= 0) == ("search", 2, True)
    assert diagnostics == {
        "total_items_considered": 3,
        "items_included": 2,
        "items_overflow": 1,
        "token_utilization": 0.875,
        "token_usage_by_section": {"system": 2, "prompt": 2, "retrieval": 3},
    }


def test_a_budget_shows_in_the_diagnostics() -> None:
    budget = TokenBudget(20, reserve_tokens=5, allocations=(Allocation(SourceType.RETRIEVAL, 3),))
    pipeline = ContextPipeline(tokenizer=words, budget=budget)
    fact = ContextItem(content="a fact", source=SourceType.MEMORY)
    pipeline.add_step(adds(document("a b c", 0.9), document("d"), fact))
    result = pipeline.build("why")
    assert pipeline.budget is budget
    assert result.window.max_tokens == 15
    assert result.diagnostics["token_usage_by_source"] == {"memory": 2, "retrieval": 3}
    assert result.diagnostics["shared_pool_usage"] == 2
    assert result.diagnostics["budget_overflow_by_source"] == {"retrieval": 1}
    assert "budget_overflow_by_source" not in ContextPipeline(budget=TokenBudget(9)).build("").diagnostics


@pytest.mark.parametrize(
    ("max_tokens", "total", "window"),
    [(None, None, 8_192), (100, None, 100), (100, 50, 50), (50, 100, 50), (None, 9, 9)],
)
def test_the_smaller_of_window_and_budget_counts(max_tokens: int | None, total: int | None, window: int) -> None:
    pipeline = ContextPipeline(max_tokens)
    if total is not None:
        pipeline.with_budget(TokenBudget(total))
    assert pipeline.max_tokens == window


def test_no_step_loses_a_system_prompt_and_one_may_add_system_text() -> None:
    pipeline = ContextPipeline(tokenizer=words).with_system_prompt("mine").add_system_prompt("low", priority=1)
    pipeline.add_system_prompt("  ").add_step(lambda items, query: [])
    pipeline.add_step(adds(ContextItem(content="of a step", source=SourceType.SYSTEM)))
    assert pipeline.build("?").system == ("mine", "low", "of a step")
    pipeline.with_system_prompt("other").add_step(lambda items, query: [])
    assert pipeline.build("?").system == ("other", "low")
    assert [item.content for item in pipeline.system_items] == ["other", "low"]


def test_a_pipeline_without_a_question_has_none_in_its_window() -> None:
    result = ContextPipeline().add_system_prompt("Be kind.").build(" ")
    assert (result.window.question, result.messages, result.formatted_output) == ("", (), "=== SYSTEM ===\nBe kind.")


def test_what_is_too_long_whole_is_told_before_anything_is_sent() -> None:
    with pytest.raises(ContextOverflowError, match="system 5, prompt 1"):
        ContextPipeline(5, tokenizer=words).add_system_prompt("a b c d e").build("why")


@BOTH
def test_steps_stand_in_their_order_and_may_be_decorated(how: str) -> None:
    pipeline = ContextPipeline()

    @pipeline.step
    def first(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        return [*items, document(f"about {query}", 0.4)]

    @pipeline.step(name="second", on_error="skip")
    def broken(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        items.clear()
        raise OSError("no network")

    pipeline.add_step(filter_step("third", lambda item: item.score > 0.3))
    pipeline.add_step(reranker_step("fourth", lambda query, items: items))
    result = built(pipeline, "bees", how)
    assert first([], QueryBundle("x"))[0].content == "about x"
    assert [step.name for step in pipeline.steps] == ["first", "second", "third", "fourth"]
    assert contents(result) == ["about bees"]
    assert result.diagnostics["skipped_steps"] == ["second"]
    assert [step["name"] for step in result.diagnostics["steps"]] == ["first", "third", "fourth"]


@BOTH
def test_a_step_that_fails_ends_the_build_with_what_was_known(how: str) -> None:
    pipeline = ContextPipeline().add_step(adds())

    @pipeline.step
    def broken(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        raise OSError("no network")

    with pytest.raises(PipelineExecutionError, match="Step 'broken' failed during execution: OSError") as raised:
        built(pipeline, "bees", how)
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.step == "broken"
    assert raised.value.diagnostics["failed_step"] == "broken"
    assert [step["name"] for step in raised.value.diagnostics["steps"]] == ["more"]  # type: ignore[attr-defined]


def test_the_error_of_a_step_survives_the_way_to_another_process() -> None:
    error = StepResultError("odd", step="s", diagnostics={"failed_step": "s"})
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.step, twin.diagnostics) == (StepResultError, "odd", "s", {"failed_step": "s"})


@BOTH
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "Step 'odd' returned NoneType, not a list of ContextItems"),
        ({"a": 1}, "Step 'odd' returned dict, not a list"),
        ([document("x"), "text"], "Step 'odd' returned a list with str at place 1, not a ContextItem"),
    ],
)
def test_what_a_step_returns_is_looked_at_at_once(how: str, answer: Any, told: str) -> None:
    pipeline = ContextPipeline()
    reached: list[str] = []
    pipeline.step(name="odd", on_error="skip")(lambda items, query: answer)
    pipeline.step(lambda items, query: reached.append("next"))
    with pytest.raises(TypeError, match=told) as raised:
        built(pipeline, "?", how)
    assert isinstance(raised.value, StepResultError)
    assert (raised.value.step, reached) == ("odd", [])


async def later(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
    await asyncio.sleep(0)
    return [*items, document("later")]


async def fails_later(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
    await asyncio.sleep(0)
    raise OSError("no network")


def test_async_steps_are_awaited_by_abuild_and_refused_by_build_before_anything_runs() -> None:
    ran: list[str] = []
    pipeline = ContextPipeline().add_step(lambda items, query: [*items, document(str(ran.append("plain")))])
    pipeline.step(later)
    with pytest.raises(TypeError, match=r"step 'later' is async, so build\(\) cannot wait for it; use `await abuild"):
        pipeline.build("?")
    assert ran == []
    assert contents(asyncio.run(pipeline.abuild("?"))) == ["None", "later"]


def test_an_async_step_that_hides_behind_a_plain_function_is_refused_too() -> None:
    class Ready:
        def __await__(self) -> Any:
            return iter(())

    for hidden in (lambda items, query: later(items, query), lambda items, query: Ready()):
        pipeline = ContextPipeline()
        pipeline.step(name="hidden", on_error="skip")(hidden)
        with pytest.raises(BlockingCallError, match="step 'hidden' is async"):
            pipeline.build("?")


def test_an_async_step_that_fails_is_skipped_or_ends_the_build() -> None:
    pipeline = ContextPipeline()
    pipeline.step(on_error="skip")(fails_later)
    assert asyncio.run(pipeline.abuild("?")).diagnostics["skipped_steps"] == ["fails_later"]
    pipeline.step(fails_later)
    with pytest.raises(PipelineExecutionError, match="'fails_later'"):
        asyncio.run(pipeline.abuild("?"))


def test_build_works_inside_a_running_event_loop() -> None:
    async def main() -> ContextResult:
        return ContextPipeline().with_memory(create_memory_store()).add_step(adds(document("x"))).build("?")

    assert contents(asyncio.run(main())) == ["x"]


# -- memory ---------------------------------------------------------------------------------------


class Talk:
    """A memory in guide A's form: it gives its items itself."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def get_context_items(self, priority: int = 7) -> Any:
        return self.items


class Asked(Talk):
    """The same, and it wants to know the question."""

    def get_context_items(self, priority: int = 7, *, query: str = "") -> Any:
        return [ContextItem(content=f"{query} {priority}", source=SourceType.MEMORY)]


class Async(Talk):
    """The same, later."""

    async def get_context_items(self, priority: int = 7) -> Any:
        return self.items


class Chooser:
    """A source that is no record of anything."""

    name = "chooser"

    def __init__(self, text: str) -> None:
        self.text = text

    def select(self, turn: Turn, room: int) -> Selection | None:
        return Selection(text=self.text.format(turn=turn, room=room))


def filled() -> Any:
    store = create_memory_store()
    store.save("The user drinks tea", meta={"title": "tea"})
    return store


@BOTH
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (filled, ["The user drinks tea"]),
        (lambda: memory_source(filled()), ["The user drinks tea"]),
        (lambda: memory_source(create_memory_store()), []),
        (lambda: Chooser("{turn.text} {room}"), ["What does the user drink? 100"]),
        (lambda: Chooser(""), []),
        (lambda: Asked([]), ["What does the user drink? 7"]),
        (lambda: Talk(conversation_items([Message.user("hi"), Message.assistant("ho")])), ["hi", "ho"]),
    ],
)
def test_a_memory_is_a_store_a_source_or_gives_its_items_itself(how: str, make: Any, found: list[str]) -> None:
    result = built(ContextPipeline(100).with_memory(make()), "What does the user drink?", how)
    assert contents(result) == found
    assert result.diagnostics["memory_items"] == len(found)


def test_what_a_store_finds_keeps_what_is_known_of_it() -> None:
    (item,) = ContextPipeline().with_memory(filled()).build("Does the user drink tea?").window.items
    assert (item.source, item.priority, item.metadata) == (SourceType.MEMORY, 8, {"title": "tea"})
    assert item.score > 0


def test_an_async_memory_needs_abuild() -> None:
    pipeline = ContextPipeline().with_memory(Async([document("later")]))
    with pytest.raises(TypeError, match=r"the memory is async, so build\(\) cannot wait for it"):
        pipeline.build("?")
    assert contents(asyncio.run(pipeline.abuild("?"))) == ["later"]


def test_a_memory_that_gives_something_else_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="the memory returned a list with str at place 0"):
        ContextPipeline().with_memory(Talk(["text"])).build("?")


@BOTH
def test_a_question_is_enriched_for_the_steps_and_stays_as_it_was_in_the_window(how: str) -> None:
    def enrich(words: str, items: list[ContextItem]) -> str:
        return f"{words} ({items[0].content})"

    class Enricher:
        async def enrich(self, words: str, items: list[ContextItem]) -> str:
            return enrich(words, items)

    pipeline = ContextPipeline().with_memory(filled()).add_step(retriever_step("search", lambda query: [f"on {query}"]))
    pipeline.with_query_enricher(enrich if how == "build" else Enricher())
    result = built(pipeline, "drink tea?", how)
    assert contents(result)[-1] == "on drink tea? (The user drinks tea)"
    assert result.window.question == "drink tea?"
    assert result.diagnostics["query_enriched"] is True


def test_an_enricher_that_returns_no_words_is_refused() -> None:
    pipeline = ContextPipeline().with_query_enricher(lambda words, items: None)
    with pytest.raises(TypeError, match="a query enricher returns the words to search with, not NoneType"):
        pipeline.build("?")


# -- configure ------------------------------------------------------------------------------------


def test_a_formatter_may_be_a_function_of_the_window() -> None:
    def shout(window: ContextWindow) -> str:
        return window.question.upper()

    result = ContextPipeline().with_formatter(shout).build("why?")
    assert (result.formatted_output, result.format_type) == ("WHY?", "shout")
    assert ContextPipeline().formatter.format_type == "generic"


class Counter:
    """An object that counts, as tokenizers do."""

    def count_tokens(self, text: str) -> int:
        return len(text)


def test_tokens_are_estimated_or_counted_exactly() -> None:
    text = "The quick brown fox jumps over the lazy dog."
    assert ContextPipeline().build(text).window.used_tokens == estimate_tokens(text)
    assert ContextPipeline(tokenizer=Counter()).build(text).window.used_tokens == len(text)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ContextPipeline(0), "max_tokens must be a whole number above 0, not 0"),
        (lambda: ContextPipeline(True), "max_tokens must be a whole number above 0, not True"),
        (lambda: ContextPipeline(1.5), "max_tokens must be a whole number above 0, not 1.5"),  # type: ignore[arg-type]
        (lambda: ContextPipeline(tokenizer=5), "tokenizer must be a function of a text, or have count_tokens"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().with_budget(Budget(5)), "with_budget takes a TokenBudget, not Budget"),  # type: ignore[arg-type]
        (lambda: ContextPipeline(50).with_budget(TokenBudget(100, 50)), r"reserve_tokens \(50\) must be smaller than"),
        (lambda: ContextPipeline().with_memory("x"), "with_memory takes a memory store"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().with_formatter(5), "with_formatter takes an object with format"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().with_query_enricher(5), "with_query_enricher takes a function"),
        (lambda: ContextPipeline().add_system_prompt(5), "add_system_prompt takes a text, not 5"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().with_system_prompt(None), "with_system_prompt takes a text, not None"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().add_step(5), "the step 'int' needs a function"),  # type: ignore[arg-type]
        (lambda: ContextPipeline().build(5), "a question is a text or a QueryBundle, not 5"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


# -- as a source ----------------------------------------------------------------------------------


def selected(pipeline: ContextPipeline, room: int, text: str = "?", count: Any = words) -> Selection | None:
    found: Any = pipeline.as_source().select(Turn(text=text, room=room, count=count), room)
    return found  # type: ignore[no-any-return]


def test_a_source_offers_as_much_as_fits_with_its_headings() -> None:
    pipeline = ContextPipeline().add_step(adds(document("a b c", 0.9), document("d e", 0.5)))
    whole = selected(pipeline, 40)
    assert whole is not None
    assert whole.text == "Here is relevant context:\n\na b c\n\n---\n\nd e"
    assert (whole.label, whole.section) == ("2 items", "retrieval")
    part = selected(pipeline, 14)
    assert part is not None
    assert (part.text, part.label) == ("Here is relevant context:\n\na b c", "1 item, 1 left out")


def test_a_source_whose_pipeline_brings_nothing_offers_nothing() -> None:
    assert selected(ContextPipeline().add_system_prompt("x"), 40) is None
    assert selected(ContextPipeline().add_step(adds()), 40) is None


def test_a_source_offers_what_is_too_long_so_that_the_ledger_can_say_so() -> None:
    found = selected(ContextPipeline().add_step(adds(document("word " * 50))), 20)
    assert found is not None
    assert (words(found.text), found.label) == (54, "1 item")


def test_a_source_keeps_to_the_window_of_its_own_pipeline_and_to_its_shares() -> None:
    items = adds(document("a b c", 0.9), ContextItem(content="f g", source=SourceType.MEMORY))
    small = selected(ContextPipeline(max_tokens=15).add_step(items), 99)
    assert small is not None
    assert "a b c" in small.text
    assert "f g" not in small.text
    shared = TokenBudget(99, reserve_tokens=9, allocations=(Allocation("retrieval", 1),))
    only = selected(ContextPipeline(budget=shared).add_step(items), 99)
    assert only is not None
    assert (only.text, only.section) == ("Relevant memory (use if helpful):\n- f g", "memory")


def test_a_source_fits_its_room_with_a_counter_that_does_not_add_up() -> None:
    def uneven(text: str) -> int:
        return words(text) ** 2 // 20

    pipeline = ContextPipeline().add_step(adds(*(document(f"w{n} " * 5, n / 10) for n in range(9))))
    found = selected(pipeline, 30, count=uneven)
    assert found is not None
    assert uneven(found.text) <= 30
    assert "w8" in found.text


def test_an_async_step_makes_a_source_async_and_nothing_else_does() -> None:
    pipeline = ContextPipeline().add_step(adds(document("now"))).add_step(later)
    found: Any = asyncio.run(_awaited(pipeline.as_source().select(Turn(text="?", room=50, count=words), 50)))
    assert "now" in found.text
    assert "later" in found.text


async def _awaited(value: Any) -> Any:
    return await value


def test_a_manager_asks_a_pipeline_as_it_asks_any_source() -> None:
    pipeline = ContextPipeline().add_system_prompt("Be brief.").add_step(adds(document("Bees like lavender.")))
    manager = create_context_manager(budget=Budget(1_000), sources=[pipeline.as_source()])
    prepared = asyncio.run(manager.prepare(Turn(text="What do bees like?", room=500)))
    assert prepared.system == ("Be brief.", "Here is relevant context:\n\nBees like lavender.")


def test_a_memory_that_remembers_is_told_of_the_end_of_the_turn() -> None:
    store = create_memory_store()
    source = ContextPipeline().with_memory(memory_source(store, remember=lambda turn: [turn.reply])).as_source()
    saved = source.commit(Turn(run_id="r", reply="a fact"))
    assert isinstance(saved, Saved)
    assert isinstance(saved.records[0], MemoryRecord)
    assert [record.text for record in store.all()] == ["a fact"]
    assert ContextPipeline().as_source().commit(Turn()) is None


# -- properties -----------------------------------------------------------------------------------

TEXTS = st.text(alphabet="ab \n<|>é漢", max_size=40)
GIVEN = st.lists(
    st.builds(
        lambda text, score, kind: ContextItem(content=text, score=score, source=kind),
        TEXTS,
        st.floats(0, 1),
        st.sampled_from([SourceType.RETRIEVAL, SourceType.MEMORY, SourceType.CONVERSATION, SourceType.TOOL]),
    ),
    max_size=8,
)


@given(items=GIVEN, prompt=TEXTS, question=TEXTS, total=st.integers(2, 80), reserve=st.integers(0, 20))
def test_a_built_window_never_exceeds_the_budget_less_the_reserve_and_keeps_its_system_text_whole(
    items: list[ContextItem], prompt: str, question: str, total: int, reserve: int
) -> None:
    budget = TokenBudget(total, reserve_tokens=min(reserve, total - 1))
    pipeline = ContextPipeline(budget=budget).add_system_prompt(prompt).add_step(adds(*items))
    question = question.strip()
    if estimate_tokens(prompt) * bool(prompt.strip()) + estimate_tokens(question) > budget.room:
        with pytest.raises(ContextOverflowError):
            pipeline.build(question)
        return
    result = pipeline.build(question)
    used = sum(estimate_tokens(item.content) for item in result.window.items) + estimate_tokens(question)
    assert used == result.window.used_tokens <= budget.room
    assert result.system == ((prompt,) if prompt.strip() else ())
    assert result.window == asyncio.run(pipeline.abuild(question)).window
    assert result.ledger == pipeline.build(question).ledger


@given(items=GIVEN, room=st.integers(30, 120))
def test_what_a_source_selects_fits_the_room_wherever_anything_does(items: list[ContextItem], room: int) -> None:
    found = selected(ContextPipeline().add_step(adds(*items)), room, count=estimate_tokens)
    if found is not None and not found.label.startswith("1 item"):  # one alone is offered even where it is too long
        assert estimate_tokens(found.text) <= room
