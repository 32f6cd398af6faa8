"""The search of many tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ToolSchema
from sapwood.retrieval.tool_index import ToolIndex, group_of, own_name

TOOLS = [
    ToolSchema("invoices.create", "Make a new invoice"),
    ToolSchema("invoices.list", "List invoices"),
    ToolSchema("users.create", "Create a user"),
    ToolSchema("weather", "Forecast for a place", {"type": "object", "properties": {"town": {"description": "Where"}}}),
]
GROUPS = [
    ("notes.list", "notes", "list"),
    ("github/search", "github", "search"),
    ("mcp__files__read", "mcp__files", "read"),
    ("a.b.c", "a.b", "c"),
    ("search", "", "search"),
    ("__private", "", "__private"),
    ("create_invoice", "", "create_invoice"),
]


def index_of(tools: list[ToolSchema] = TOOLS, **options: object) -> ToolIndex:
    index = ToolIndex(**options)  # type: ignore[arg-type]
    index.add(tools)
    return index


@pytest.mark.parametrize(("name", "group", "own"), GROUPS)
def test_a_group_is_what_stands_before_the_last_separator(name: str, group: str, own: str) -> None:
    assert (group_of(name), own_name(name)) == (group, own)


@pytest.mark.parametrize(
    "query",
    [
        "users.create",
        "USERS.CREATE",
        " users.create ",
        "users_create",
        "please use users.create for it",
        "users_create!",
    ],
)
def test_an_exact_name_comes_first(query: str) -> None:
    many = [ToolSchema(f"users.create{n}", "Create users, create a user: users create") for n in range(20)]
    assert index_of([*many, *TOOLS]).search(query, k=3)[0] == "users.create"


def test_exact_names_come_in_the_order_of_the_request_and_alone_where_they_fill_it() -> None:
    index = index_of()
    assert index.search("invoices.list, users.create", k=2) == ["invoices.list", "users.create"]
    assert index.search("invoices.list users.create", k=2, without=["invoices.list"])[0] == "users.create"
    assert index.search("invoices.list", k=1, without=["invoices.list"]) == ["invoices.create"]


def test_names_that_differ_in_case_alone_are_both_exact() -> None:
    index = index_of([ToolSchema("Read_File"), ToolSchema("read_file"), ToolSchema("file", "read read file")])
    assert set(index.search("read_file", k=2)) == {"Read_File", "read_file"}


def test_a_plain_word_in_a_request_is_no_exact_name() -> None:
    tools = [ToolSchema("load"), ToolSchema("schedule_jobs", "Schedule the load of a job queue")]
    assert index_of(tools).search("schedule a job that spreads the load", k=1) == ["schedule_jobs"]


def test_parameters_are_searched_those_inside_others_too() -> None:
    inner = {"type": "array", "items": {"description": "a seat", "properties": {"legroom": {"description": "room"}}}}
    tool = ToolSchema("x", "", {"properties": {"seats": inner, "odd": True}})
    index = index_of([tool, ToolSchema("y", "nothing")])
    for query in ("legroom", "seat", "odd"):
        assert index.search(query, k=5) == ["x"]
    deep: dict[str, object] = {"description": "bottomless"}
    for _ in range(9):
        deep = {"properties": {"down": deep}}
    assert index_of([ToolSchema("x", "", deep)]).search("bottomless", k=1) == []
    wide = ToolSchema("x", "", {"properties": {f"column{n}": {} for n in range(500)}})
    assert index_of([wide]).search("column3", k=1) == ["x"]
    assert index_of([wide]).search("column400", k=1) == []


def test_what_is_said_of_a_group_finds_its_tools() -> None:
    tools = [ToolSchema("gh/find", "Find things"), ToolSchema("dv/find", "Find things"), ToolSchema("gh/more", "More")]
    index = index_of(tools, groups={"gh": "Repositories and pull requests"})
    assert index.search("find pull requests", k=1) == ["gh/find"]
    assert index_of(tools).search("find pull requests", k=1) == ["gh/find"], "the first of two alike"
    assert index_of(tools[::-1]).search("find pull requests", k=1) == ["dv/find"]


def test_past_requests_find_a_tool_from_then_on() -> None:
    index = index_of()
    assert index.search("put it on the tab", k=1) == []
    index.set_past("invoices.create", ["put it on their tab please"])
    assert index.search("put it on the tab", k=1) == ["invoices.create"]
    index.set_past("unknown", ["put it on the tab"])
    index.add([ToolSchema("invoices.create", "Make a bill")])
    assert index.search("put it on the tab", k=1) == ["invoices.create"]
    assert index.remove("invoices.create")
    assert not index.remove("invoices.create")
    assert index.search("put it on the tab", k=1) == []
    assert len(index) == 3


def test_a_removed_group_is_gone() -> None:
    index = index_of()
    index.remove("users.create")
    assert index.search("user", k=3) == []
    assert set(index.search("create", k=3)) == {"invoices.create"}


pools = st.sampled_from([*TOOLS, ToolSchema("users.delete", "Remove a user"), ToolSchema("weather", "Rain or sun")])
changes = st.lists(st.tuples(st.booleans(), pools), max_size=12)


@given(changes, st.booleans())
def test_after_any_change_it_searches_as_if_built_anew(steps: list[tuple[bool, ToolSchema]], asks: bool) -> None:
    index, kept = ToolIndex(), {}
    for adds, tool in steps:
        if adds:
            index.add([tool])
            kept[tool.name] = tool
        else:
            index.remove(tool.name)
            kept.pop(tool.name, None)
        if asks:
            index.scores("user invoice")
    fresh = index_of(list(kept.values()))
    loaded = ToolIndex()
    loaded.load(list(kept.values()), fresh.packed())
    for query in ("create a user", "invoice", "forecast where", "rain"):
        assert index.scores(query) == pytest.approx(fresh.scores(query))
        assert loaded.scores(query) == pytest.approx(fresh.scores(query))
