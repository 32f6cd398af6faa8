"""plan: what goes in, what is left out, and why; pure, so by properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.context.plan import Demand, Plan, droppable, plan, require_fit, truncated
from sapwood.core.budget import Allocation
from sapwood.core.errors import ContextOverflowError
from sapwood.core.ledger import LedgerLine

SOURCES = ("memory", "documents", "skills")
_demands = st.lists(
    st.builds(Demand, st.sampled_from(SOURCES), st.just("x"), st.just("memory"), st.integers(0, 50)), max_size=8
)
_shares = st.dictionaries(st.sampled_from(SOURCES), st.integers(0, 80)).map(
    lambda shares: {name: Allocation(name, tokens) for name, tokens in shares.items()}
)
_room = st.integers(0, 150)


def placed(demands: list[Demand], made: Plan) -> list[Demand]:
    return [demand for demand, taken in zip(demands, made.taken, strict=True) if taken]


@given(demands=_demands, room=_room, shares=_shares)
def test_a_plan_never_exceeds_the_room_nor_a_share(
    demands: list[Demand], room: int, shares: dict[str, Allocation]
) -> None:
    made = plan(demands, room, shares)
    taken = placed(demands, made)
    assert sum(item.tokens for item in taken) == room - made.room <= room
    for name, share in shares.items():
        assert sum(item.tokens for item in taken if item.source == name) <= share.max_tokens


@given(demands=_demands, room=_room, shares=_shares)
def test_what_is_skipped_would_not_have_fitted_where_it_stood(
    demands: list[Demand], room: int, shares: dict[str, Allocation]
) -> None:
    made = plan(demands, room, shares)
    for place, (demand, line) in enumerate(zip(demands, made.lines, strict=True)):
        before = placed(demands[:place], plan(demands[:place], room, shares))
        used = sum(item.tokens for item in before)
        own = sum(item.tokens for item in before if item.source == demand.source)
        share = shares[demand.source].max_tokens if demand.source in shares else room
        fits = used + demand.tokens <= room and own + demand.tokens <= share
        assert made.taken[place] == fits == (line.verdict == "kept")
        assert bool(line.reason) != fits
        assert (line.source, line.label, line.section, line.tokens) == (
            demand.source,
            demand.label,
            demand.section,
            demand.tokens,
        )


@given(demands=_demands, room=_room, more=st.integers(0, 80), shares=_shares)
def test_more_room_never_removes_a_kept_block_of_higher_rank(
    demands: list[Demand], room: int, more: int, shares: dict[str, Allocation]
) -> None:
    less, greater = plan(demands, room, shares).taken, plan(demands, room + more, shares).taken
    first = next((pair for pair in zip(less, greater, strict=True) if pair[0] != pair[1]), (False, True))
    assert first == (False, True)


@given(demands=_demands, room=_room, shares=_shares)
def test_the_same_input_gives_the_same_plan_and_changes_nothing(
    demands: list[Demand], room: int, shares: dict[str, Allocation]
) -> None:
    first = plan(demands, room, shares)
    assert plan(list(demands), room, dict(shares)) == first


@given(demands=_demands, shares=_shares)
def test_exactly_at_the_limit_is_allowed(demands: list[Demand], shares: dict[str, Allocation]) -> None:
    total = sum(item.tokens for item in demands)
    wide = {name: Allocation(name, total) for name in shares}
    made = plan(demands, total, wide)
    assert (all(made.taken), made.room) == (True, 0)
    if demands and demands[-1].tokens:
        assert plan(demands, total - 1, wide).taken != made.taken


def test_the_lines_say_why() -> None:
    demands = [Demand("memory", "2 memories", "memory", 8), Demand("documents", "a", "retrieval", 7)]
    made = plan(demands, 10, {"memory": Allocation("memory", 5)})
    assert made == Plan(
        (False, True),
        (
            LedgerLine("memory", "2 memories", "memory", 8, "skipped", "8 tokens are over the source's share of 5"),
            LedgerLine("documents", "a", "retrieval", 7),
        ),
        3,
    )
    assert plan(demands, 7, {}).lines[0].reason == "8 tokens do not fit the 7 that are left"
    assert plan(demands, -3, {}).lines[0].reason == "8 tokens do not fit the 0 that are left"


@given(text=st.text(max_size=60), tokens=st.integers(-2, 70))
def test_a_text_is_cut_to_its_longest_beginning_that_fits(text: str, tokens: int) -> None:
    cut = truncated(text, tokens, len)
    assert cut == (text if len(text) <= tokens else text[: max(0, tokens)])


FIXED = {"system": 40, "tools": 0, "prompt": 61}


def test_what_must_be_sent_and_cannot_fit_names_each_size() -> None:
    with pytest.raises(ContextOverflowError) as caught:
        require_fit(FIXED, 100)
    assert caught.value.sizes == FIXED
    assert str(caught.value) == (
        "the request would take about 101 tokens and 100 are left after the reserve for the reply "
        "(system 40, prompt 61); shorten the largest of these, raise max_tokens or choose a model with a larger window"
    )


@pytest.mark.parametrize("window", [101, 102, 0])
def test_what_fits_exactly_and_an_unknown_window_are_let_through(window: int) -> None:
    assert require_fit(FIXED, window) is None


@given(sizes=st.lists(st.integers(0, 20), max_size=8), excess=st.integers(-5, 100))
def test_no_more_exchanges_are_dropped_than_needed(sizes: list[int], excess: int) -> None:
    count = droppable(sizes, excess)
    if sum(sizes) >= excess:
        assert sum(sizes[:count]) >= excess
        assert count == 0 or sum(sizes[: count - 1]) < excess
    else:
        assert count == len(sizes)
