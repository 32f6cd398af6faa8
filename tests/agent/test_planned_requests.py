"""The planned request, by properties: it fits, the fixed things are whole, and nothing about it is chance."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import (
    Agent,
    Allocation,
    ConfigError,
    ContextOverflowError,
    ContextSource,
    Message,
    Selection,
    TokenBudget,
    default_agent_budget,
    default_chat_budget,
    default_rag_budget,
)
from sapwood.context.plan import Demand, plan
from sapwood.core.events import ContextUpdated
from sapwood.core.model import ModelRequest
from sapwood.testing import says, scripted
from support.examples import examples
from support.histories import history as random_history
from support.histories import words


class Offers(ContextSource):
    """A source that offers one text."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self.rooms: list[int] = []

    def select(self, turn: Any, room: int) -> Selection | None:
        self.rooms.append(room)
        return Selection(text=self._text) if self._text else None


NAMES = ("memory", "retrieval", "notes")
_allocation = st.builds(
    Allocation,
    st.just("x"),
    st.none() | st.integers(50, 600),
    st.sampled_from(["drop", "truncate"]),
    st.none() | st.floats(0, 1),
    st.integers(0, 50),
    st.integers(-1, 1),
)
_allocations = st.dictionaries(st.sampled_from((*NAMES, "history")), _allocation, max_size=4).map(
    lambda found: tuple(item.replace(source=name) for name, item in found.items())
)


def sent(
    seed: int, total: int, reserve: int, allocations: tuple[Allocation, ...], system: int
) -> tuple[ModelRequest, Any, list[Any]]:
    import random

    chance = random.Random(seed)
    past = random_history(chance, chance.randrange(12))
    model = scripted(says("ok"))
    sources = [Offers(name, words(chance, chance.choice([0, 20, 400]) + 1)) for name in NAMES]
    agent = Agent(llm=model).with_budget(TokenBudget(total, reserve, allocations)).with_sources(sources)
    agent.with_system_prompt("rule " * system)
    events = list(agent.stream("What is the answer?", messages=past))
    assert agent.last_turn is not None
    return model.requests[0], agent.last_turn.rounds[0].ledger, events


@examples(150, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    total=st.integers(900, 6_000),
    reserve=st.integers(1, 300),
    allocations=_allocations,
    system=st.integers(0, 40),
)
def test_a_planned_request_fits_and_its_fixed_things_are_whole(
    seed: int, total: int, reserve: int, allocations: tuple[Allocation, ...], system: int
) -> None:
    try:
        request, ledger, events = sent(seed, total, reserve, allocations, system)
    except ContextOverflowError as error:  # what is pinned may be more than the window
        assert sum(error.sizes.values()) > total - reserve
        return
    assert ledger.estimated_tokens <= total - reserve
    assert system == 0 or request.system[0] == "rule " * system
    assert request.transcript[-1].text == "What is the answer?"
    again, same, _ = sent(seed, total, reserve, allocations, system)
    assert (tuple(again.transcript), again.system, same) == (tuple(request.transcript), request.system, ledger)
    offered = [line for line in ledger.lines if line.label == line.source]  # the others are sums of sections
    taken = {line.source: line for line in offered if line.verdict in ("kept", "trimmed")}
    for item in allocations:
        if item.source in NAMES and item.source in taken:
            assert taken[item.source].tokens <= item.limit(total - reserve)
    recalled = [event.source for event in events if isinstance(event, ContextUpdated)]
    ranks = {item.source: -item.priority for item in allocations}
    assert [ranks.get(name, 0) for name in recalled] == sorted(ranks.get(name, 0) for name in recalled)


_demands = st.lists(
    st.builds(Demand, st.sampled_from(NAMES), st.just("x"), st.just("memory"), st.integers(0, 200)), max_size=8
)


@given(demands=_demands, room=st.integers(0, 900), more=st.integers(0, 500), allocations=_allocations)
def test_more_room_never_removes_a_kept_block_of_higher_rank(
    demands: list[Demand], room: int, more: int, allocations: tuple[Allocation, ...]
) -> None:
    by_name = {item.source: item for item in allocations}
    less, greater = plan(demands, room, by_name).taken, plan(demands, room + more, by_name).taken
    ranks = sorted(
        range(len(demands)),
        key=lambda place: -by_name[demands[place].source].priority if demands[place].source in by_name else 0,
    )
    changed = [place for place in ranks if less[place] != greater[place]]
    assert not changed or greater[changed[0]]


@given(demands=_demands, room=st.integers(0, 900), allocations=_allocations)
def test_a_floor_is_there_for_its_source_whatever_the_others_take(
    demands: list[Demand], room: int, allocations: tuple[Allocation, ...]
) -> None:
    by_name = {item.source: item for item in allocations}
    made = plan(demands, room, by_name)
    used = {
        name: sum(d.tokens for d, taken in zip(demands, made.taken, strict=True) if taken and d.source == name)
        for name in NAMES
    }
    assert sum(used.values()) <= max(room, 0)
    for place, demand in enumerate(demands):
        own = by_name.get(demand.source)
        floors = sum(item.min_tokens for item in allocations if any(d.source == item.source for d in demands))
        earlier = [d for d in demands[:place] if d.source == demand.source]
        if own is not None and floors <= room and not earlier and demand.tokens <= min(own.min_tokens, own.limit(room)):
            assert made.taken[place]


def test_a_floor_keeps_room_for_a_source_that_is_asked_later() -> None:
    first, second = Offers("memory", "word " * 2_000), Offers("notes", "note " * 300)
    budget = TokenBudget(1_200, 100, (Allocation("memory", overflow="truncate"), Allocation("notes", min_tokens=400)))
    agent = Agent(llm=scripted(says("ok"))).with_budget(budget).with_sources([first, second])
    list(agent.stream("hi"))
    ledger = agent.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    verdicts = {line.source: line.verdict for line in ledger.lines if line.source in ("memory", "notes")}
    assert verdicts == {"memory": "trimmed", "notes": "kept"}


def test_a_source_of_a_higher_priority_is_asked_first() -> None:
    first, second = Offers("memory", "word " * 500), Offers("notes", "note " * 500)
    budget = TokenBudget(900, 100, (Allocation("notes", priority=1),))
    agent = Agent(llm=scripted(says("ok"))).with_budget(budget).with_sources([first, second])
    recalled = [event.source for event in agent.stream("hi") if isinstance(event, ContextUpdated)]
    assert recalled == ["notes"]
    assert second.rooms[0] > first.rooms[0]


def test_a_history_keeps_to_its_share_and_has_its_floor() -> None:
    past = [Message.user("quite long " * 30) if n % 2 == 0 else Message.assistant("and so on " * 30) for n in range(60)]
    capped = Agent(llm=scripted(says("ok"))).with_budget(TokenBudget(8_000, 500, (Allocation("history", 600),)))
    list(capped.stream("now", messages=past))
    ledger = capped.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    assert 200 < ledger.sections["history"] <= 600
    greedy = Offers("memory", "word " * 3_000)
    budget = TokenBudget(
        2_000, 200, (Allocation("memory", overflow="truncate"), Allocation("history", min_tokens=1_500))
    )
    agent = Agent(llm=scripted(says("ok"))).with_budget(budget).with_sources([greedy])
    list(agent.stream("now", messages=past))
    ledger = agent.last_turn.rounds[0].ledger  # type: ignore[union-attr]
    assert ledger is not None
    assert ledger.sections["history"] > 1_100


@pytest.mark.parametrize("make", [default_chat_budget, default_rag_budget, default_agent_budget])
@pytest.mark.parametrize("total", [1, 2, 9, 100, 16_000, 200_000, 1_000_000])
def test_a_default_budget_works_for_any_window(make: Any, total: int) -> None:
    budget = make(total)
    assert budget.total_tokens == total
    assert 0 <= budget.reserve_tokens <= max(4_096, total // 8)
    assert budget.room >= total * 7 // 8 - 1
    assert sum(item.limit(budget.room) for item in budget.allocations if item.share) < budget.room


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Allocation(""), "name of a source"),
        (lambda: Allocation("a", -1), "below 0"),
        (lambda: Allocation("a", share=1.5), "from 0 to 1"),
        (lambda: Allocation("a", overflow="cut"), "overflow"),  # type: ignore[arg-type]
        (lambda: Allocation("a", min_tokens=-1), "floor"),
        (lambda: Allocation("a", 10, min_tokens=11), "max_tokens"),
        (lambda: TokenBudget(100, 50, (Allocation("a", min_tokens=51),)), "floors"),
    ],
)
def test_an_allocation_that_cannot_work_is_refused(make: Any, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make()


def test_a_share_for_a_source_that_there_is_not_is_warned_of() -> None:
    agent = Agent(llm=scripted(says("ok"))).with_budget(TokenBudget(1_000, 100, (Allocation("memroy", 50),)))
    with pytest.warns(UserWarning, match="memroy"):
        list(agent.stream("hi"))


def test_a_preview_shows_what_would_be_sent_and_sends_nothing() -> None:
    asked: list[int] = []

    def summary(messages: Any) -> str:
        asked.append(len(messages))
        return "short"

    model = scripted(says("ok"))
    past = [Message.user("quite long " * 30) if n % 2 == 0 else Message.assistant("and so on " * 30) for n in range(60)]
    agent = Agent(llm=model, max_tokens=2_000, max_response_tokens=200).with_system_prompt("Be brief.")
    agent.with_compaction(0.5, compact_fn=summary)
    shown = agent.preview("now", messages=past)
    assert (model.requests, asked) == ([], [])
    assert shown.system == ("Be brief.",)
    assert shown.messages[-1].text == "now"
    assert shown.ledger is not None
    assert shown.ledger.estimated_tokens <= shown.ledger.window
    assert agent.count_tokens("now", messages=past) == shown.ledger.estimated_tokens
    over = agent.preview("word " * 3_000).ledger
    assert over is not None
    assert over.estimated_tokens > over.window


def test_a_preview_on_the_event_loop_shows_the_same() -> None:
    import asyncio

    agent = Agent(llm=scripted())
    assert asyncio.run(agent.apreview("now")).ledger == agent.preview("now").ledger
