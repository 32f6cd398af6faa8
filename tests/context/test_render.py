"""The request of a model call: stable bytes first, and what it holds in the ledger."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import lazy_tool_source
from sapwood.context.meter import Calibration, Meter
from sapwood.context.offered import Offered
from sapwood.context.render import Fixed, ledger, measure, place_marks, render
from sapwood.context.result import ContextResult
from sapwood.context.source import ContextSource, Contribution, Selection, Turn
from sapwood.core.decide import CallModel, Policy
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.messages import Message, Recalled, Text, ToolResult
from sapwood.core.model import CachePlan, ModelProfile, ModelRequest
from sapwood.core.run import Run
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.sources.system_prompt import SystemPromptSource
from sapwood.testing import assert_prefix_kept, call, calls, fold, says, scripted
from support.examples import examples
from support.turns import bound, spec, turn

ADD, SUB = ToolSchema("add", "Add."), ToolSchema("sub", "Subtract.")
OFFERED = Offered(sent=(ADD, SUB), system=(("house", "Be brief."), ("tools", "More tools.")))
PAST = Transcript.of([Message.user("a"), Message.assistant("b")])
NAMES = ("invoice", "weather", "notes", "mail")


def test_tools_come_first_then_fixed_text_then_what_was_recalled_then_the_transcript() -> None:
    run = Run("r", recalled=(Recalled("likes tea", "memory"), Recalled("page 1", "docs")))
    fixed = Fixed(OFFERED, Meter(len))
    request = render(CallModel(1), run, fixed, PAST, loaded=(), max_tokens=50)
    assert request == ModelRequest(
        PAST, ("Be brief.", "More tools.", "likes tea", "page 1"), (ADD, SUB), None, 50, None
    )


def test_the_last_round_changes_nothing_before_its_notice() -> None:
    fixed = Fixed(OFFERED, Meter(len))
    usual = render(CallModel(0), Run(), fixed, PAST, loaded=(), max_tokens=None)
    action = CallModel(1, final=True, tool_choice="none")
    last = render(action, Run(), fixed, PAST, loaded=(), max_tokens=None, notice="Answer now.")
    assert (last.tool_choice, last.notice) == ("none", "Answer now.")
    assert (last.tools, last.system, last.transcript) == (usual.tools, usual.system, usual.transcript)


class Recalls(ContextSource):
    """Selects another text for each turn, where it is told to put it."""

    name = "memory"

    def __init__(self, placement: Any) -> None:
        self.placement = placement

    def select(self, turn: Turn, room: int) -> Selection:
        return Selection(text=f"about {turn.text}", placement=self.placement)


@examples(40, deadline=None)
@given(
    queries=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    loading=st.sampled_from(["dispatch", "relist"]),
    placement=st.sampled_from(["turn", "system"]),
)
def test_within_a_turn_a_request_only_grows(queries: list[str], loading: Any, placement: Any) -> None:
    tools = lazy_tool_source([bound(name, lambda **more: "ok") for name in NAMES], k=1, loading=loading)
    model = scripted(*(calls(call("search_tools", {"query": query})) for query in queries), says("done"))
    sources = [SystemPromptSource("Be brief."), tools, Recalls(placement)]
    turn(spec(model, [bound("ping", lambda: "pong")], sources=sources, policy=Policy(max_rounds=9)), "hello")

    assert_prefix_kept(model.requests, relist=loading == "relist")
    first, last = model.requests[0], model.requests[-1]
    found = list(dict.fromkeys(queries))
    appended = [schema.name for schema in last.tools[len(first.tools) :]]
    assert appended == (found if loading == "relist" else [])
    if loading == "relist":
        with pytest.raises(AssertionError, match="the tools of request 1 moved"):
            assert_prefix_kept(model.requests)
    beside = "about hello" in str(first.transcript[0])
    assert beside == (placement == "turn")
    assert ("about hello" in first.system) == (placement == "system")


def test_text_recalled_beside_the_prompt_leaves_the_prefix_of_the_next_turn_alone() -> None:
    requests: list[ModelRequest] = []
    history: list[Message] = []
    for prompt in ("one", "two"):
        model = scripted(says("ok"))
        setup = spec(model, sources=[SystemPromptSource("Be brief."), Recalls("turn")], history=history)
        run_events = turn(setup, prompt)
        requests += model.requests
        history = [*history, *fold(run_events).messages]
    assert_prefix_kept(requests)


# -- sizes ---------------------------------------------------------------------------------------


def test_what_does_not_change_is_measured_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    meter = Meter(count)
    fixed = Fixed(OFFERED, meter, overhead=7)
    sizes = [fixed.tool_tokens((ADD, SUB)), fixed.tool_tokens((ADD,)), fixed.tool_tokens(())]
    assert sizes == [7 + meter.schema(ADD) + meter.schema(SUB), 7 + meter.schema(ADD), 0]
    assert fixed.system_tokens == len("Be brief.") + len("More tools.")
    assert len(counted) == 2 + 2 + 3  # two texts, two tools, and what this test counted itself
    assert Fixed(OFFERED, meter, overhead=7, count_tools=False).tool_tokens((ADD, SUB)) == 0


def test_definitions_are_kept_raw_and_scaled_by_what_was_learnt_meanwhile() -> None:
    calibration = Calibration()
    meter = Meter(calibration=calibration, origin="a/x")
    fixed = Fixed(OFFERED, meter, overhead=7)
    before, system = fixed.tool_tokens((ADD, SUB)), fixed.system_tokens
    calibration.learn("a/x", estimated=1_000_000, reported=2_000_000)
    assert fixed.tool_tokens((ADD, SUB)) == 7 + 2 * (before - 7)
    assert fixed.system_tokens == pytest.approx(2 * system, abs=1)


def test_what_a_provider_adds_to_each_request_counts_with_the_system_text() -> None:
    profile = ModelProfile("a", "x", request_overhead_tokens=40)
    assert Fixed(OFFERED, Meter.of(profile)).system_tokens == Fixed(OFFERED, Meter()).system_tokens + 40
    calibration = Calibration()
    calibration.learn("a/x", estimated=100, reported=1)  # less than nothing is added
    assert Fixed(Offered(), Meter(calibration=calibration, origin="a/x")).system_tokens == 0


@pytest.mark.parametrize("count_tools", [True, False])
def test_a_report_is_compared_with_the_whole_request(count_tools: bool) -> None:
    meter = Meter(origin="a/x")
    fixed = Fixed(OFFERED, meter, overhead=500, count_tools=count_tools)
    run = Run("r", messages=(Message.user("go on"),), recalled=(Recalled("likes tea"),))
    request = render(CallModel(), run, fixed, Transcript.of(run.messages), loaded=(), max_tokens=None)
    texts = sum(meter.text(text) for text in (*OFFERED.system_texts, "likes tea"))
    tools = sum(meter.schema(schema) for schema in request.tools)
    whole = meter.transcript(request.transcript).total + texts + tools
    fixed.learn(request, 500 + whole)
    assert (meter.ratio, meter.overhead) == (1.0, 0)  # it was as estimated
    fixed.learn(ModelRequest(request.transcript), 300 + whole - tools)
    assert meter.overhead > 100


@given(
    past=st.lists(st.sampled_from(["", "x", "words and words"]), max_size=4),
    replies=st.lists(st.sampled_from(["so", "a longer reply"]), max_size=3),
    results=st.lists(st.sampled_from(["3", "a longer result"]), max_size=3),
    beside=st.lists(st.sampled_from(["likes tea", "page 1"]), max_size=2),
    in_system=st.lists(st.sampled_from(["likes tea", "page 1"]), max_size=2),
)
def test_the_sections_add_up_to_the_request(
    past: list[str], replies: list[str], results: list[str], beside: list[str], in_system: list[str]
) -> None:
    meter = Meter()
    history = Transcript.of([Message.user(text) for text in past])
    prompt = Message("user", (*(Recalled(text) for text in beside), Text("go on")))
    own = [
        prompt,
        *(Message.assistant(text) for text in replies),
        *(Message("tool", (ToolResult("k", "t", (Text(text),)),)) for text in results),
    ]
    run = Run("r", messages=tuple(own), recalled=tuple(Recalled(text) for text in in_system))
    fixed = Fixed(OFFERED, meter)
    request = render(CallModel(), run, fixed, history.extend(own), loaded=(), max_tokens=None)
    totals = meter.transcript(history)
    sections = measure(request, run, fixed, meter, past=totals, prompt=meter.raw_message(prompt))

    assert sum(sections.values()) == (
        meter.transcript(request.transcript).total
        + fixed.system_tokens
        + fixed.tool_tokens(request.tools)
        + sum(meter.text(text) for text in in_system)
    )
    assert all(size >= 0 for size in sections.values())
    assert sections["memory"] == sum(meter.text(text) for text in (*beside, *in_system))
    assert sections["tool_results"] == sum(
        meter.raw_message(message).tool_results for message in own if message.role == "tool"
    )


def test_a_ledger_has_a_line_for_each_section_that_is_there_and_each_thing_considered() -> None:
    skipped = LedgerLine("docs", "page 2", "retrieval", 900, "skipped", "too long")
    made = ledger({"system": 5, "tools": 0, "history": 8}, (skipped,), window=-3)
    assert made == ContextLedger(
        {"system": 5, "tools": 0, "history": 8},
        (
            LedgerLine("system", "system prompt", "system", 5),
            LedgerLine("history", "earlier messages and replies", "history", 8),
            skipped,
        ),
        0,
    )


def test_the_result_of_building_a_context_counts_what_is_in_it() -> None:
    lines = (
        LedgerLine("a", "a", "system", 20),
        LedgerLine("b", "b", "memory", 10, "trimmed"),
        LedgerLine("c", "c", "memory", 90, "skipped"),
    )
    result = ContextResult(ledger=ContextLedger({"system": 20, "memory": 10}, lines, 120))
    assert result.diagnostics == {
        "total_items_considered": 3,
        "items_included": 2,
        "items_overflow": 1,
        "token_utilization": 0.25,
        "token_usage_by_section": {"system": 20, "memory": 10},
    }
    empty = {"total_items_considered": 0, "items_included": 0, "items_overflow": 0, "token_utilization": 0.0}
    assert ContextResult().diagnostics == {**empty, "token_usage_by_section": {}}


def test_a_source_of_text_alone_offers_no_tool() -> None:
    assert SystemPromptSource("{braces} stay").contribute(Turn()) == Contribution(system="{braces} stay")


@pytest.mark.parametrize(
    ("sizes", "prefix", "messages"),
    [
        ({"system": 500, "tools": 523, "history": 0}, False, False),
        ({"system": 500, "tools": 524, "history": 0}, True, True),
        ({"system": 500, "tools": 0, "history": 600}, False, True),
    ],
)
def test_a_mark_stands_only_where_the_prefix_is_long_enough(sizes: Any, prefix: bool, messages: bool) -> None:
    request = ModelRequest(PAST, ("Be brief.", "More tools.", "recalled"))
    profile = ModelProfile(cache_minimum_tokens=1_024)
    fixed = Fixed(OFFERED, Meter(len))
    marked = place_marks(request, sizes, profile, "1h", fixed=fixed)
    assert marked.cache == CachePlan(
        "1h", prefix=prefix, messages=messages, key=fixed.cache_key, stable=2, earlier=prefix
    )
    assert place_marks(request, sizes, profile, None, fixed=fixed).cache is None


@pytest.mark.parametrize(("words", "earlier"), [(1_020, False), (1_021, True)])
def test_a_mark_stands_where_the_request_before_ended_only_if_that_was_long_enough(words: int, earlier: bool) -> None:
    meter = Meter(lambda text: text.count("w"))
    own = [Message.user("w" * words), Message.assistant("w" * 50), Message.user("w" * 50)]
    request = ModelRequest(Transcript.of(own), ("www",))
    profile = ModelProfile(cache_minimum_tokens=1_024)
    sizes: Any = {"system": 3, "history": words + 100}
    marked = place_marks(request, sizes, profile, "5m", fixed=Fixed(Offered(), meter))
    assert marked.cache is not None
    assert (marked.cache.messages, marked.cache.earlier) == (True, earlier)


def test_the_cache_is_named_by_what_stays_the_same() -> None:
    key = Fixed(OFFERED, Meter(len)).cache_key
    assert key == Fixed(Offered(sent=OFFERED.sent, system=OFFERED.system), Meter()).cache_key
    assert key != Fixed(Offered(sent=(ADD,), system=OFFERED.system), Meter()).cache_key
    assert len(key) <= 64
