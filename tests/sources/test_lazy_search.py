"""A lazy toolset's search: what it learns, how it changes, and that guide D's sentences stay true with vectors too."""

from collections.abc import Sequence
from typing import Any

import pytest

from sapwood import (
    Agent,
    ConfigError,
    LazyToolset,
    Message,
    PastRequest,
    ToolCall,
    ToolNameCollision,
    Turn,
    lazy_tool_source,
    lazy_toolset,
    tool,
)
from sapwood.core.messages import Text, ToolResult
from sapwood.retrieval.static_vectors import installed_folder
from sapwood.testing import call, calls, says, scripted

BILLS = [
    {"name": "invoices.create", "description": "Create an invoice"},
    {"name": "invoices.list", "description": "List all invoices"},
    {"name": "notes.add", "description": "Add a note"},
]
HOW: list[Any] = [False]
if installed_folder() is not None:
    HOW += [True, "auto"]


def names(toolset: LazyToolset, query: str) -> list[str]:
    return [schema.name for schema in toolset.search(query, loaded=())]


@pytest.mark.parametrize("vectors", HOW)
def test_words_of_no_tool_find_nothing_and_patterns_are_words(vectors: Any) -> None:
    toolset = lazy_toolset(BILLS, vectors=vectors)
    for query in ("", "zzz", "?!…", ".*", "(a+)+$"):
        assert names(toolset, query) == [], query
    assert names(toolset, "notes.add")[0] == "notes.add"
    assert names(toolset, "make an INVOICE")[0] == "invoices.create"
    assert toolset.scores("note")["notes.add"] > 0


@pytest.mark.skipif(installed_folder() is None, reason="the extra vectors is not installed")
def test_another_word_for_it_finds_a_tool_where_there_are_vectors() -> None:
    tools = [
        {"name": "weather", "description": "Forecast for a place"},
        {"name": "music", "description": "Play a song"},
    ]
    assert names(lazy_toolset(tools, vectors=True), "will it rain tomorrow") == ["weather"]
    assert names(lazy_toolset(tools, vectors=False), "will it rain tomorrow") == []


def test_tools_that_are_added_later_are_found_and_removed_ones_are_not() -> None:
    toolset = lazy_toolset(BILLS, pin=["notes.add"], vectors=False)
    assert names(toolset, "umbrella") == []
    toolset.add([{"name": "shop.umbrella", "description": "Buy an umbrella"}])
    assert names(toolset, "umbrella") == ["shop.umbrella"]
    assert toolset.name_map["shop_umbrella"] == "shop.umbrella"
    assert "shop_umbrella" in toolset.menu
    toolset.search("umbrella")
    assert toolset.remove("shop_umbrella")
    assert not toolset.remove("shop_umbrella")
    assert names(toolset, "umbrella") == []
    assert [schema.name for schema in toolset.tools] == ["search_tools", "notes_add"]
    with pytest.raises(ConfigError, match="pinned"):
        toolset.remove("notes_add")
    with pytest.raises(ToolNameCollision):
        toolset.add([{"name": "notes_add"}])
    with pytest.raises(ToolNameCollision):
        toolset.add([{"name": "search_tools"}])
    assert names(toolset, "list invoices") == ["invoices.list", "invoices.create"]


def test_an_added_tool_replaces_the_one_of_its_name() -> None:
    toolset = lazy_toolset(BILLS, vectors=False)
    toolset.prepare()
    toolset.add([{"name": "invoices.list", "description": "Show what customers owe"}])
    assert names(toolset, "owe") == ["invoices.list"]
    assert len(toolset.hidden) == 3


def test_a_request_that_was_learnt_finds_its_tool() -> None:
    toolset = lazy_toolset(BILLS, vectors=False)
    assert toolset.learn("put it on their tab", ["invoices_create", "unknown"], run_id="r1") == ["invoices.create"]
    assert toolset.learn("put it on their tab", ["invoices.create"], run_id="r1") == []
    assert names(toolset, "put that on the tab") == ["invoices.create"]


def test_the_bytes_of_the_index_are_a_cache() -> None:
    data = lazy_toolset(BILLS, vectors=False).index_bytes()
    assert names(lazy_toolset(BILLS, vectors=False, cache=data), "note") == ["notes.add"]


class Kept:
    """A store of past requests."""

    def __init__(self) -> None:
        self.rows: list[PastRequest] = []

    def load(self) -> Sequence[PastRequest]:
        return self.rows

    def save(self, requests: Sequence[PastRequest]) -> None:
        self.rows += requests


def test_a_store_without_learning_is_refused() -> None:
    with pytest.raises(ConfigError, match="learn=True"):
        lazy_toolset(BILLS, store=Kept())


@tool(name="invoices.create")
def create_invoice(customer: str) -> str:
    """Create an invoice."""
    if customer == "nobody":
        raise ValueError("no such customer")
    return f"invoice for {customer}"


@tool(name="invoices.list")
def list_invoices() -> str:
    """List all invoices."""
    return "none"


def conversation(store: Kept, customer: str, *, learn: bool = True, loading: Any = "dispatch") -> Agent:
    args = {"customer": customer}
    asked = call("call_tool", {"name": "invoices_create", "args": args})
    if loading == "relist":
        asked = call("invoices_create", args)
    model = scripted(calls(call("search_tools", {"query": "create an invoice"})), calls(asked), says("Done."))
    options: dict[str, Any] = {"learn": True, "store": store} if learn else {}
    source = lazy_tool_source([create_invoice, list_invoices], k=1, loading=loading, vectors=False, **options)
    return Agent(llm=model).with_sources([source])


@pytest.mark.parametrize("loading", ["dispatch", "relist"])
def test_a_turn_teaches_what_the_user_called_it(loading: Any) -> None:
    store = Kept()
    assert list(conversation(store, "ACME", loading=loading).chat("Put five on the tab of ACME.")) == ["Done."]
    assert [(row.tool, row.text) for row in store.rows] == [("invoices.create", "Put five on the tab of ACME.")]
    toolset = lazy_toolset([create_invoice, list_invoices], vectors=False, learn=True, store=store)
    assert names(toolset, "on the tab of Bolt")[0] == "invoices.create"


def test_a_call_that_failed_teaches_nothing_and_neither_does_a_turn_that_nobody_asked_to_learn_from() -> None:
    store = Kept()
    assert list(conversation(store, "nobody").chat("Put five on the tab.")) == ["Done."]
    assert list(conversation(store, "ACME", learn=False).chat("Put five on the tab.")) == ["Done."]
    assert store.rows == []


def turn(*messages: Message, text: str = "now") -> Turn:
    return Turn(run_id="r1", text=text, messages=messages)


def test_only_this_turn_teaches_and_a_turn_once() -> None:
    def ran(name: str, key: str, **result: Any) -> tuple[Message, Message]:
        answer = ToolResult(key, name, (Text("ok"),), **result)
        return Message("assistant", (ToolCall(name, {}, key=key),)), Message("tool", (answer,))

    source = lazy_tool_source(BILLS, pin=["notes.add"], vectors=False, learn=True)
    before = [Message.user("before"), *ran("invoices.list", "r0c0")]
    now = [Message.user("now"), *ran("invoices.create", "r0c0"), Message.user("and a note"), *ran("notes.add", "r1c0")]
    failed = ran("invoices.list", "r2c0", is_error=True)
    asked = turn(*before, *now, *failed)
    source.commit(asked)
    source.commit(asked)
    learnt = source._toolset._search._learnt()
    assert {name: learnt.of(name) for name in learnt} == {"invoices.create": ("now",)}


def test_a_mode_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="dispach"):
        lazy_toolset([{"name": "a"}], loading="dispach")  # type: ignore[arg-type]
