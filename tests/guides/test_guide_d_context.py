"""Guide D, statements 35 to 84: the context manager, its sources, lazy toolsets and memory."""

import asyncio
from inspect import isawaitable
from typing import Any

import pytest

from sapwood import (
    AgentContextPart,
    AgentTextPart,
    AgentToolPart,
    Budget,
    ContextSource,
    Contribution,
    HistoryOptions,
    LazyToolsetOptions,
    LazyToolSourceOptions,
    Loaded,
    MemoryRecord,
    Message,
    RecallOptions,
    Saved,
    Selection,
    ServerError,
    ToolNameCollision,
    ToolSchema,
    Turn,
    create_context_manager,
    create_memory_store,
    format_memory_block,
    lazy_tool_source,
    lazy_toolset,
    memory_source,
    merge_toolsets,
    recall_memory,
    remember_facts,
    to_tool_source,
    to_toolset,
)
from sapwood.context.meter import Meter
from sapwood.core.codec import to_json
from sapwood.testing import assert_skipped, call, calls, fails, says, scripted
from support.guide import NOTES, parts
from support.turns import spec, turn


class Logged(ContextSource):
    """A source that notes what is asked of it."""

    def __init__(self, log: list[str], name: str = "logged", *, text: str = "", answers: Any = None) -> None:
        self.name = name
        self.log = log
        self.text = text
        self.answers = answers

    def contribute(self, turn: Turn) -> Contribution:
        self.log.append(f"{self.name}.contribute")
        tools = [ToolSchema(f"{self.name}_meta")] if self.answers is not None else []
        return Contribution(tools=tools, meta_tools=[tool.name for tool in tools], system=f"system of {self.name}")

    async def select(self, turn: Turn, room: int) -> Selection | None:
        self.log.append(f"{self.name}.select")
        return Selection(text=self.text) if self.text else None

    def handle(self, call: Any, turn: Turn) -> Loaded | None:
        self.log.append(f"{self.name}.handle")
        return Loaded(result=self.answers) if self.answers not in (None, "nothing") else None

    def commit(self, turn: Turn) -> Saved:
        self.log.append(f"{self.name}.commit:{turn.reply}")
        return Saved(records=(MemoryRecord("1", f"kept by {self.name}", 0),))


def test_d35_order_is_compact_prepare_handle_commit() -> None:
    log: list[str] = []

    def compact(messages: list[Message], budget: Budget) -> list[Message]:
        log.append("compact")
        return messages

    context = create_context_manager(
        budget=Budget(10_000), sources=[Logged(log, answers="yes")], history=HistoryOptions(compact=compact)
    )
    parts(client=scripted(calls("logged_meta"), says("bye")), prompt="x", context=context)
    assert log == ["logged.contribute", "compact", "logged.select", "logged.handle", "logged.commit:bye"]


def test_d36_compact_runs_the_history_option_and_else_changes_nothing() -> None:
    history = [Message.user("a"), Message.assistant("b"), Message.user("c"), Message.assistant("d")]

    async def last_two(messages: list[Message], budget: Budget) -> list[Message]:
        assert budget.max_tokens == 10_000
        return messages[-3:]

    model = scripted(says("ok"), says("ok"))
    context = create_context_manager(budget=Budget(10_000), history=HistoryOptions(compact=last_two))
    parts(client=model, messages=history, prompt="e", context=context)
    parts(client=model, messages=history, prompt="e", context=create_context_manager(budget=Budget(10_000)))
    assert [[message.text for message in request.transcript] for request in model.requests] == [
        ["c", "d", "e"],
        ["a", "b", "c", "d", "e"],
    ]
    assert asyncio.run(context.compact(history, room=5)) == tuple(history[-3:])
    assert asyncio.run(create_context_manager(budget=Budget(9)).compact(history)) is None


def test_d37_prepare_asks_every_source_first_what_it_offers_then_what_it_selects() -> None:
    log: list[str] = []
    context = create_context_manager(
        budget=Budget(10_000), sources=[Logged(log, "a", text="A"), Logged(log, "b", text="B")]
    )
    prepared = asyncio.run(context.prepare(Turn(text="x", room=1_000)))
    assert log == ["a.contribute", "b.contribute", "a.select", "b.select"]
    assert prepared.system == ("system of a", "system of b", "A", "B")


def budgeted(limit: int, *texts: str, reserve: int = 0) -> Any:
    """Run a turn whose only sources select these texts, and count by characters as the guide does."""

    class Fixed(ContextSource):
        def __init__(self, name: str, text: str) -> None:
            self.name, self.text = name, text

        def select(self, turn: Turn, room: int) -> Selection:
            return Selection(text=self.text)

    sources = [Fixed(f"s{number}", text) for number, text in enumerate(texts)]
    context = create_context_manager(budget=Budget(limit, reserve, len), sources=sources, count_tools=False)
    model = scripted(says("ok"))
    found = parts(client=model, prompt="hi", context=context, tools=NOTES)
    return model.requests[0].system, found


PROMPT = len(to_json(Message.user("hi")))


def test_d38_a_selection_past_the_budget_is_skipped_and_a_later_smaller_one_is_taken() -> None:
    assert budgeted(PROMPT + 10, "x" * 11, "y" * 10)[0] == ("y" * 10,)
    assert budgeted(PROMPT + 14, "x" * 11, "y" * 10, reserve=4)[0] == ("y" * 10,)
    assert budgeted(PROMPT + 10, "x" * 6, "y" * 6, "z" * 4)[0] == ("x" * 6, "z" * 4)


def test_d39_exactly_at_the_limit_is_allowed() -> None:
    assert budgeted(PROMPT + 10, "x" * 10)[0] == ("x" * 10,)


def test_d40_the_total_counts_serialised_messages_and_system_text_and_no_tool_schemas() -> None:
    system = "s" * 7
    context = create_context_manager(
        budget=Budget(PROMPT + 7 + 3, 0, len), sources=[Logged([], "l", text="abc")], count_tools=False
    )
    context.sources[0].contribute = lambda turn: Contribution()  # type: ignore[method-assign, union-attr]
    model = scripted(says("ok"))
    parts(client=model, prompt="hi", system=system, context=context, tools=NOTES)
    assert model.requests[0].system == (system, "abc")


def test_d41_the_callers_counter_is_called_on_text_only() -> None:
    seen: list[object] = []

    def count(text: str) -> int:
        seen.append(text)
        return 1

    context = create_context_manager(budget=Budget(100, 0, count), sources=[memory_source(create_memory_store())])
    parts(
        client=scripted(calls("notes_list"), says("ok")),
        prompt="hi",
        context=context,
        tools=NOTES,
        execute=lambda *_: 1,
    )
    assert seen
    assert all(isinstance(item, str) for item in seen)


def test_d42_a_source_with_tools_owns_the_list() -> None:
    model = scripted(says("ok"))
    context = create_context_manager(budget=Budget(10_000), sources=[Logged([], answers="yes")])
    parts(client=model, prompt="x", tools=NOTES, context=context)
    assert [schema.name for schema in model.requests[0].tools] == ["logged_meta"]


def test_d43_a_meta_tool_goes_to_the_sources_in_order_and_never_to_execute() -> None:
    log: list[str] = []
    ran: list[str] = []
    context = create_context_manager(
        budget=Budget(10_000), sources=[Logged(log, "a"), Logged(log, "b", answers={"from": "b"}), Logged(log, "c")]
    )
    found = parts(
        client=scripted(calls("b_meta"), says("ok")),
        prompt="x",
        context=context,
        execute=lambda name, _: ran.append(name),
    )
    assert [entry for entry in log if "handle" in entry] == ["a.handle", "b.handle"]
    assert ran == []
    assert [part.result for part in found if isinstance(part, AgentToolPart)] == [{"from": "b"}]


def test_d44_a_meta_tool_that_nobody_answers_is_an_error_result() -> None:
    context = create_context_manager(budget=Budget(10_000), sources=[Logged([], answers="nothing")])
    found = parts(client=scripted(calls("logged_meta"), says("ok")), prompt="x", context=context)
    (tool,) = [part for part in found if isinstance(part, AgentToolPart)]
    assert tool.is_error


def test_d45_commit_runs_once_for_each_source_in_order() -> None:
    log: list[str] = []
    context = create_context_manager(budget=Budget(10_000), sources=[Logged(log, "a"), Logged(log, "b")])
    parts(client=scripted(says("bye")), prompt="x", context=context)
    assert log[-2:] == ["a.commit:bye", "b.commit:bye"]


def test_d46_commit_does_not_run_when_the_client_fails() -> None:
    log: list[str] = []
    context = create_context_manager(budget=Budget(10_000), sources=[Logged(log)])
    with pytest.raises(ServerError):
        parts(client=scripted(fails(ServerError("x", is_transient=False))), prompt="x", context=context)
    assert not any("commit" in entry for entry in log)


def test_d47_what_happens_shows_as_context_parts() -> None:
    store = create_memory_store()
    store.save("likes lists")
    sources = [memory_source(store, remember=lambda turn: ["new fact"]), lazy_tool_source(NOTES, k=1)]
    context = create_context_manager(budget=Budget(10_000), sources=sources)
    model = scripted(calls(call("search_tools", {"query": "list"})), says("ok"))
    found = parts(client=model, prompt="lists", context=context, tools=NOTES, execute=lambda *_: 1)
    shown = [part for part in found if isinstance(part, AgentContextPart)]
    assert [(part.source, part.op, part.tools) for part in shown] == [
        ("memory", "recalled", None),
        ("tools", "loaded", ("notes.list",)),
        ("memory", "saved", None),
    ]
    assert [record.text for part in shown for record in part.records or ()] == ["likes lists", "new fact"]


def test_d48_a_skipped_selection_yields_no_part() -> None:
    _, found = budgeted(PROMPT + 5, "x" * 10)
    assert found == [AgentTextPart("ok")]


def test_d49_a_source_may_implement_any_methods_or_none() -> None:
    class Nothing:
        name = "nothing"

    class OnlySelect:
        name = "only"

        def select(self, turn: Turn, room: int) -> Selection:
            return Selection(text="selected")

    model = scripted(says("ok"))
    context = create_context_manager(budget=Budget(10_000), sources=[Nothing(), ContextSource(), OnlySelect()])
    parts(client=model, prompt="x", context=context)
    assert model.requests[0].system == ("selected",)


def test_d50_two_sources_may_have_one_name() -> None:
    log: list[str] = []
    context = create_context_manager(
        budget=Budget(10_000), sources=[Logged(log, "m", text="1"), Logged(log, "m", text="2")]
    )
    found = parts(client=scripted(says("ok")), prompt="x", context=context)
    assert [(part.source, part.op) for part in found if isinstance(part, AgentContextPart)] == [
        ("m", "recalled"),
        ("m", "recalled"),
        ("m", "saved"),
        ("m", "saved"),
    ]


def test_d51_memory_source_is_called_memory_and_recalls_into_the_system_prompt() -> None:
    store = create_memory_store()
    store.save("The user prefers metric units")
    source = memory_source(store, recall=RecallOptions(k=6))
    assert source.name == "memory"
    model = scripted(says("ok"))
    parts(client=model, prompt="which units?", context=create_context_manager(budget=Budget(10_000), sources=[source]))
    assert model.requests[0].system == ("Relevant memory (use if helpful):\n- The user prefers metric units",)


def test_d52_memory_source_saves_exactly_what_remember_returns_and_once_for_a_run() -> None:
    store = create_memory_store()
    silent = create_context_manager(budget=Budget(10_000), sources=[memory_source(store)])
    parts(client=scripted(says("ok")), prompt="I am Ada", context=silent)
    assert store.all() == []

    async def remember(turn: Turn) -> list[str]:
        return [" The user is Ada ", ""]

    source = memory_source(store, remember=remember, kind="person")
    parts(
        client=scripted(says("ok")),
        prompt="I am Ada",
        context=create_context_manager(budget=Budget(10_000), sources=[source]),
    )
    assert [(record.text, record.kind) for record in store.all()] == [("The user is Ada", "person")]
    turn = Turn(run_id="r", text="x")

    async def commit(turn: Turn) -> Any:
        answer = source.commit(turn)
        return await answer if isawaitable(answer) else answer

    assert asyncio.run(commit(turn)) is not None
    assert asyncio.run(commit(turn)) is None
    for number in range(1_100):
        asyncio.run(commit(Turn(run_id=f"r{number}", text="x")))
    assert len(source._saved_runs) <= 1_000


def test_d53_remember_gets_the_turn_with_the_users_text_and_the_reply() -> None:
    seen: list[tuple[str, str]] = []

    def remember(turn: Turn) -> None:
        seen.append((turn.text, turn.reply))

    source = memory_source(create_memory_store(), remember=remember)
    parts(
        client=scripted(says("hi Ada")),
        prompt="I am Ada",
        context=create_context_manager(budget=Budget(10_000), sources=[source]),
    )
    assert seen == [("I am Ada", "hi Ada")]


def test_d54_lazy_tool_source_is_called_tools_and_owns_the_list() -> None:
    source = lazy_tool_source(NOTES, pin=["notes.add"])
    assert source.name == "tools"
    model = scripted(says("ok"))
    context = create_context_manager(budget=Budget(10_000), sources=[source])
    parts(client=model, prompt="x", tools=NOTES, context=context)
    assert [schema.name for schema in model.requests[0].tools] == ["search_tools", "notes.add"]
    assert "notes_list" in model.requests[0].system[0]


def test_d55_each_load_yields_a_context_part() -> None:
    context = create_context_manager(budget=Budget(10_000), sources=[lazy_tool_source(NOTES, k=1)])
    searches = [
        calls(call("search_tools", {"query": "note"})),
        calls(call("search_tools", {"query": "note"})),
        says("ok"),
    ]
    found = parts(client=scripted(*searches), prompt="x", tools=NOTES, context=context)
    loads = [part for part in found if isinstance(part, AgentContextPart)]
    assert [part.op for part in loads] == ["loaded", "loaded"]
    assert sorted(name for part in loads for name in part.tools or ()) == ["notes.add", "notes.list"]


def test_d56_its_options_are_those_of_the_toolset_and_the_old_names_are_gone() -> None:
    import sapwood

    assert LazyToolSourceOptions is LazyToolsetOptions
    assert not hasattr(sapwood, "tool_source")
    assert not hasattr(sapwood, "ToolSourceOptions")
    assert lazy_tool_source(lazy_toolset(NOTES, LazyToolsetOptions(k=2)))._toolset.options.k == 2


def test_d57_before_a_search_the_search_and_the_pinned_tools_can_be_sent() -> None:
    assert [tool.name for tool in lazy_toolset(NOTES, pin=["notes.add"]).tools] == ["search_tools", "notes_add"]


def test_d58_the_menu_lists_the_rest_shortly() -> None:
    menu = lazy_toolset(NOTES, pin=["notes.add"]).menu
    assert "notes_list" in menu
    assert "notes_add" not in menu
    many = lazy_toolset([{"name": f"tool.number{n}"} for n in range(500)], menu_tokens=100)
    assert "and" in many.menu
    assert "500" in many.menu
    assert len(many.menu) < 500
    tiny = lazy_toolset([{"name": f"tool.number{n}"} for n in range(500)], menu_tokens=1)
    assert tiny.menu == "More tools (500) can be found with search_tools."
    assert lazy_toolset(NOTES, pin=["notes.add", "notes.list"]).menu == ""


def test_d59_pin_takes_original_and_sanitised_names() -> None:
    assert lazy_toolset(NOTES, pin=["notes_add", "notes.list"]).pinned == ("notes.add", "notes.list")


def test_d60_search_scores_words_of_name_and_description_and_gives_at_most_k() -> None:
    tools = [
        {"name": "invoices.create", "description": "Make a new invoice"},
        {"name": "invoices.list", "description": "List invoices"},
        {"name": "users.create", "description": "Create a user"},
    ]
    names = [tool.name for tool in lazy_toolset(tools, k=2).search("CREATE invoices!")]
    assert names[0] == "invoices.create"
    assert len(names) == 2
    assert lazy_toolset(tools).search("users.create")[0].name == "users.create"
    assert [tool.name for tool in lazy_toolset([{"name": "createInvoice"}]).search("invoice")] == ["createInvoice"]


def test_d61_a_loaded_or_pinned_tool_is_never_returned_and_a_repeat_gives_the_next_best() -> None:
    lazy = lazy_toolset(NOTES, k=1)
    first, second, third = (lazy.search("note list add") for _ in range(3))
    assert {first[0].name, second[0].name} == {"notes.list", "notes.add"}
    assert third == []
    assert lazy_toolset(NOTES, pin=["notes.list", "notes.add"]).search("notes") == []


def test_d62_the_result_has_found_and_note() -> None:
    lazy = lazy_toolset(NOTES, k=1)
    result = lazy.handle("search_tools", {"query": "list"})
    assert result is not None
    assert result["found"] == [{"name": "notes_list", "description": "List the notes"}]
    assert result["note"]
    empty = lazy.handle("search_tools", {"query": "zzz"})
    assert empty is not None
    assert empty["found"] == []
    assert "No other tool" in empty["note"]
    assert lazy.handle("other", {}) is None


def test_d63_found_names_are_the_ones_to_call() -> None:
    result = lazy_toolset(NOTES).handle("search_tools", {"query": "list"})
    assert result is not None
    assert result["found"][0]["name"] == "notes_list"


def test_d64_name_map_maps_every_wire_name_back() -> None:
    assert lazy_toolset(NOTES).name_map == {"notes_list": "notes.list", "notes_add": "notes.add"}


@pytest.mark.parametrize("query", ["", "   ", "?!…", "(a+)+$"])
def test_d65_a_query_of_no_usable_words_finds_nothing(query: str) -> None:
    assert lazy_toolset([{"name": "x.y", "description": "b" * 28}]).search(query) == []


def test_d66_a_tool_called_before_it_was_loaded_is_an_error_result() -> None:
    ran: list[str] = []
    found = parts(
        client=scripted(calls("notes_list"), says("ok")),
        tools=NOTES,
        execute=lambda name, _: ran.append(name),
        prompt="x",
        lazy_toolset=lazy_toolset(NOTES),
    )
    assert found[0].is_error
    assert "search_tools" in found[0].result
    assert ran == []


def test_d67_loaded_tools_stay_loaded_as_long_as_the_transcript_says_so() -> None:
    """Inferred for the toolset's life; bettered: what is loaded is read from the messages, so it survives the process and no two conversations share it."""
    lazy = lazy_toolset(NOTES, k=1)
    lazy.search("list")
    assert [tool.name for tool in lazy.tools] == ["search_tools", "notes_list"]
    model = scripted(
        calls(call("search_tools", {"query": "list"})),
        says("ok"),
        calls("notes_list"),
        says("ok"),
        calls("notes_list"),
        says("ok"),
    )
    shared = lazy_toolset(NOTES, k=1)
    parts(client=model, tools=NOTES, execute=lambda *_: "ran", prompt="x", lazy_toolset=shared)
    seen = list(model.requests[1].transcript)
    found = parts(
        client=model,
        tools=NOTES,
        execute=lambda *_: "ran",
        messages=seen,
        prompt="again",
        lazy_toolset=lazy_toolset(NOTES),
    )
    assert found[0].result == "ran"
    other = parts(client=model, tools=NOTES, execute=lambda *_: "ran", prompt="fresh", lazy_toolset=shared)
    assert other[0].is_error


# -- memory ----------------------------------------------------------------------------------------


def test_d68_a_seed_is_preloaded_with_its_ids_and_dates() -> None:
    seed = [MemoryRecord("a", "one", 1), MemoryRecord("b", "two", 2)]
    assert create_memory_store(seed).all() == seed


def test_d69_save_gives_a_random_id_and_the_time_in_milliseconds() -> None:
    import time

    store = create_memory_store()
    before = int(time.time() * 1000)
    first, second = store.save("a", kind="k", meta={"x": [1]}), store.save("a")
    assert first.id != second.id
    assert before <= first.created_at <= int(time.time() * 1000)
    assert (first.kind, first.meta) == ("k", {"x": [1]})


def test_d70_search_gives_at_most_k_above_min_score_best_first_with_scores() -> None:
    store = create_memory_store()
    for text in ("red apple", "red green apple tree", "blue", "red", "apple", "red apple pie", "red"):
        store.save(text)
    hits = store.search("red apple")
    assert len(hits) == 5
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert all(score is not None and score > 0 for score in scores)
    assert {hit.text for hit in store.search("red apple", min_score=0.65)} == {
        "red apple",
        "red green apple tree",
        "red apple pie",
    }
    assert len(store.search("red apple", k=2)) == 2
    assert store.search("red apple", k=0) == []


def test_d71_kind_filters_exactly() -> None:
    store = create_memory_store()
    store.save("likes tea", kind="preference")
    store.save("likes coffee", kind="pref")
    assert [hit.text for hit in store.search("likes", kind="preference")] == ["likes tea"]


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_d72_a_blank_query_finds_nothing(query: str) -> None:
    store = create_memory_store()
    store.save("anything")
    assert store.search(query) == []


def test_d73_a_record_that_shares_no_word_is_not_returned() -> None:
    store = create_memory_store()
    store.save("tea")
    assert store.search("coffee", min_score=-1.0) == []


def test_d74_case_and_punctuation_do_not_matter() -> None:
    store = create_memory_store()
    store.save("The user prefers METRIC units.")
    store.save("Straße in École")
    assert store.search("which Units?")[0].text.startswith("The user")
    assert store.search("STRASSE")[0].text.startswith("Straße")
    assert store.search("école")[0].text.startswith("Straße")


def test_d75_ties_come_newest_first() -> None:
    store = create_memory_store()
    for number in range(3):
        store.save(f"tea {number}")
    assert [hit.text for hit in store.search("tea")] == ["tea 2", "tea 1", "tea 0"]


def test_d76_forget_is_true_once() -> None:
    store = create_memory_store()
    record = store.save("x")
    assert [store.forget(record.id), store.forget(record.id), store.forget("no such id")] == [True, False, False]


def test_d77_all_lists_everything_oldest_first() -> None:
    store = create_memory_store()
    for text in ("a", "b", "c"):
        store.save(text)
    assert [record.text for record in store.all()] == ["a", "b", "c"]


def test_d78_records_are_copies() -> None:
    store = create_memory_store()
    meta: dict[str, Any] = {"list": [1]}
    saved = store.save("x", meta=meta)
    meta["list"].append(2)
    assert saved.meta is not None
    saved.meta["list"].append(3)
    found = store.search("x")[0]
    assert found.meta == {"list": [1]}
    found.meta["list"].append(4)  # type: ignore[index]
    assert store.all()[0].meta == {"list": [1]}


def test_d79_recall_memory_returns_records_and_block_and_an_empty_query_searches_nothing() -> None:
    class Never:
        def search(self, query: str, **options: Any) -> Any:
            raise AssertionError("searched")

    store = create_memory_store()
    store.save("likes tea")
    recalled = asyncio.run(recall_memory(store, "tea", RecallOptions(k=1)))
    assert [record.text for record in recalled.records] == ["likes tea"]
    assert recalled.block == "Relevant memory (use if helpful):\n- likes tea"
    nothing = asyncio.run(recall_memory(Never(), " "))  # type: ignore[arg-type]
    assert (nothing.records, nothing.block) == ((), "")


def test_d80_the_block_has_a_heading_and_a_line_for_each_record() -> None:
    assert format_memory_block([]) == ""
    records = [MemoryRecord("1", "b", 0), MemoryRecord("2", "a", 0)]
    assert format_memory_block(records) == "Relevant memory (use if helpful):\n- b\n- a"


def test_d81_a_line_break_stays_inside_its_item() -> None:
    assert format_memory_block([MemoryRecord("1", "a\n- b\r\nc", 0)]).count("\n") == 1


def test_d82_remember_facts_saves_in_order_trims_and_skips_empties() -> None:
    store = create_memory_store()
    saved = asyncio.run(remember_facts(store, [" a ", "", "  ", "b"]))
    assert [(record.text, record.kind) for record in saved] == [("a", "fact"), ("b", "fact")]
    assert [record.text for record in store.all()] == ["a", "b"]
    assert asyncio.run(remember_facts(store, ["c"], kind="note"))[0].kind == "note"


def test_d83_when_the_third_save_fails_the_first_two_stay() -> None:
    class Failing:
        def __init__(self) -> None:
            self.saved: list[str] = []

        async def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MemoryRecord:
            if len(self.saved) == 2:
                raise OSError("full")
            self.saved.append(text)
            return MemoryRecord(text, text, 0)

    store = Failing()
    with pytest.raises(OSError, match="full"):
        asyncio.run(remember_facts(store, ["a", "b", "c"]))  # type: ignore[arg-type]
    assert store.saved == ["a", "b"]


def test_d84_any_object_with_the_methods_is_a_store() -> None:
    class Own:
        async def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MemoryRecord:
            return MemoryRecord("1", text, 0, kind)

        async def search(
            self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0
        ) -> list[MemoryRecord]:
            return [MemoryRecord("1", "own record", 0, score=1.0)]

        async def forget(self, id: str) -> bool:
            return False

    context = create_context_manager(budget=Budget(10_000), sources=[memory_source(Own())])
    found = parts(client=scripted(says("ok")), prompt="x", context=context)
    assert found[0].records[0].text == "own record"


# -- the guide's own examples ----------------------------------------------------------------------


def test_the_example_of_toolsets_and_the_manager_runs_as_the_guide_prints_it() -> None:
    def list_notes() -> list[str]:
        """List the notes."""
        return ["buy tea"]

    async def create_invoice(customer: str) -> dict[str, str]:
        """Create an invoice."""
        return {"invoice": customer}

    local = to_toolset({"notes.list": list_notes})
    remote = to_tool_source({"invoices.create": create_invoice}, format="anthropic")
    merged = merge_toolsets(local, remote)
    assert merged.names == ("notes.list", "invoices.create")
    with pytest.raises(ToolNameCollision):
        merge_toolsets(local, local)
    store = create_memory_store()
    context = create_context_manager(
        budget=Budget(max_tokens=100_000, count=lambda text: -(-len(text) // 4)),
        sources=[
            memory_source(store, recall=RecallOptions(k=6), remember=lambda turn: [turn.text]),
            lazy_tool_source(merged.tools, pin=local.names),
        ],
    )
    model = scripted(
        calls(call("search_tools", {"query": "create invoice"})),
        calls(call("invoices_create", {"customer": "ACME"})),
        says("Done."),
    )
    found = parts(
        client=model, tools=merged.tools, execute=merged.execute, prompt="Create an invoice for ACME", context=context
    )
    assert [type(part).__name__ for part in found] == [
        "AgentContextPart",
        "AgentToolPart",
        "AgentToolPart",
        "AgentTextPart",
        "AgentContextPart",
    ]
    assert found[2].result == {"invoice": "ACME"}
    assert found[2].name == "invoices.create"


def test_a_source_that_fails_is_reported_and_the_turn_goes_on_unless_told_otherwise() -> None:
    class Down(ContextSource):
        name = "down"

        def select(self, turn: Turn, room: int) -> Selection:
            raise OSError("down")

        def commit(self, turn: Turn) -> Saved:
            raise OSError("down")

    found = parts(
        client=scripted(says("ok")), prompt="x", context=create_context_manager(budget=Budget(10_000), sources=[Down()])
    )
    assert found == [AgentTextPart("ok")]
    strict = create_context_manager(budget=Budget(10_000), sources=[Down()], on_error="raise")
    with pytest.raises(OSError, match="down"):
        parts(client=scripted(says("ok")), prompt="x", context=strict)


def test_the_ledger_says_what_was_skipped_and_why() -> None:
    class Long(ContextSource):
        name = "long"

        def select(self, turn: Turn, room: int) -> Selection:
            return Selection(text="x" * 100, label="a long text")

    given = spec(scripted(says("ok")), sources=[Long()], window=PROMPT + 50, trim_history=False, meter=Meter(len))
    events = turn(given, "hi")
    ledger = next(event.ledger for event in events if event.type == "round_started")  # type: ignore[union-attr]
    assert_skipped(ledger, "long")
    assert "do not fit" in ledger.of("skipped")[0].reason
