"""Tools that are offered with the prompt: the best matches for the request, as many as there is room for."""

from typing import Any

import pytest

from sapwood import Agent, ConfigError, Message, Turn, lazy_tool_source, lazy_toolset, tool
from sapwood.core.codec import from_json, to_json
from sapwood.core.events import ContextUpdated
from sapwood.core.evolve import evolve
from sapwood.core.messages import Recalled
from sapwood.core.run import Run
from sapwood.core.transcript import carried_names, loaded_names
from sapwood.testing import call, calls, says, scripted

TOOLS = [
    {"name": "invoices.create", "description": "Create an invoice"},
    {"name": "invoices.list", "description": "List all invoices"},
    {"name": "notes.add", "description": "Add a note"},
]


def select(text: str, *, room: int = 10_000, preload: int = 2, **turn: Any) -> Any:
    source = lazy_tool_source(TOOLS, preload=preload, vectors=False)
    return source.select(Turn(text=text, count=len, **turn), room)


def test_the_best_matches_stand_beside_the_prompt_with_their_definitions() -> None:
    found = select("create an invoice", tool_loading="dispatch")
    assert found.tools == ("invoices.create", "invoices.list")
    assert (found.placement, found.section) == ("turn", "tools")
    assert found.label == "tools for this request: invoices.create, invoices.list"
    head, first, second = found.text.split("\n")
    assert head == 'These tools may fit the request; run one with call_tool: {"name": "...", "args": {...}}.'
    assert first.startswith('{"name": "invoices_create", "description": "Create an invoice", "input_schema"')
    assert "invoices_list" in second


def test_where_the_list_grows_only_their_names_are_told() -> None:
    found = select("create an invoice", preload=1, tool_loading="relist")
    assert found.text == "These tools may fit the request and can be called now: invoices_create."


@pytest.mark.parametrize("text", ["", "  ", "zzz"])
def test_a_prompt_that_nothing_fits_brings_nothing(text: str) -> None:
    assert select(text) is None


def test_what_is_loaded_already_is_not_offered_again() -> None:
    assert select("create an invoice", preload=1, loaded=("invoices.create",)).tools == ("invoices.list",)


def test_there_are_as_many_as_fit_the_room() -> None:
    whole = select("create an invoice", tool_loading="dispatch")
    less = select("create an invoice", tool_loading="dispatch", room=len(whole.text) - 1)
    assert less.tools == whole.tools[:1]
    assert select("create an invoice", tool_loading="dispatch", room=5) is None


def test_only_a_source_that_preloads_selects() -> None:
    agent = Agent(llm=scripted(says("ok"))).with_sources([lazy_tool_source(lazy_toolset(TOOLS, vectors=False))])
    list(agent.stream("create an invoice"))
    assert agent.last_turn is not None
    assert "tools for this request" not in str(agent.last_turn.rounds[0].ledger)


def test_fewer_than_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="preload must be 0"):
        lazy_toolset(TOOLS, preload=-1)


def test_what_was_offered_is_read_from_the_transcript() -> None:
    event = ContextUpdated(source="tools", op="recalled", text="Use a.", tools=("a", "b"))
    run = evolve(Run(messages=(Message.user("hi"),)), event)
    run = evolve(run, ContextUpdated(source="tools", op="loaded", tools=("b", "c")))
    assert run.loaded == ("a", "b", "c")
    kept = from_json(to_json(run.messages[0]), Message)
    assert kept.content[0] == Recalled("Use a.", "tools", ("a", "b"))
    assert loaded_names([kept]) == ("a", "b")
    assert carried_names(kept, "") == ("a", "b")
    assert carried_names(kept, "", reads_recalled=False) == ()


def test_in_the_system_text_it_counts_for_the_turn() -> None:
    event = ContextUpdated(source="tools", op="recalled", text="Use a.", tools=("a",), placement="system")
    run = evolve(Run(messages=(Message.user("hi"),)), event)
    assert (run.loaded, run.messages[0].content) == (("a",), Message.user("hi").content)


@pytest.mark.parametrize("loading", ["relist", "dispatch", "deferred", "inline"])
def test_the_ledger_tells_and_the_next_turn_still_has_it(loading: Any) -> None:
    direct = call("invoices_create", {})
    through = call("call_tool", {"name": "invoices_create", "args": {}})
    used = direct if loading == "relist" else through
    model = scripted(calls(used), says("ok"), calls(used), says("ok"))
    ran: list[str] = []

    @tool(name="invoices.create")
    def create() -> str:
        """Create an invoice."""
        ran.append("made")
        return "made"

    agent = Agent(llm=model).with_sources(
        [lazy_tool_source([create, *TOOLS[1:]], preload=1, loading=loading, vectors=False)]
    )
    list(agent.stream("create an invoice"))
    assert agent.last_turn is not None
    ledger = agent.last_turn.rounds[0].ledger
    assert ledger is not None
    assert [line.verdict for line in ledger.lines if line.label == "tools for this request: invoices.create"] == [
        "kept"
    ]
    list(agent.stream("thanks", messages=agent.last_messages))
    assert ran == ["made", "made"]
