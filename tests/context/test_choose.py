"""Which items go into the window: rank, shares, gaps, and what is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Allocation, ContextItem, ContextOverflowError, SourceType, TokenBudget
from sapwood.context.choose import Chosen, choose, shares_of


def words(text: str) -> int:
    return len(text.split())


def item(content: str, score: float = 0.0, priority: int = 5, source: SourceType = SourceType.RETRIEVAL) -> ContextItem:
    return ContextItem(content=content, score=score, priority=priority, source=source)


def said(content: str, role: str, score: float, priority: int = 7) -> ContextItem:
    return ContextItem(
        content=content, source=SourceType.CONVERSATION, score=score, priority=priority, metadata={"role": role}
    )


def contents(chosen: Chosen) -> list[str]:
    return [one.content for one in chosen.window.items]


def test_items_go_in_by_priority_then_score_and_smaller_ones_still_enter() -> None:
    items = [item("low one", 0.1), item("big " * 9, 0.9), item("high one", 0.8), item("fact", 0.0, 8)]
    chosen = choose(items, 5, words)
    assert contents(chosen) == ["fact", "high one", "low one"]
    assert [one.content for one in chosen.overflow] == ["big " * 9]
    assert chosen.window.used_tokens == 5
    assert chosen.window.remaining_tokens == 0


def test_items_of_one_rank_go_in_as_they_were_given() -> None:
    assert contents(choose([item("b"), item("a"), item("c")], 2, words)) == ["b", "a"]


def test_what_an_item_says_of_its_size_is_not_believed() -> None:
    wrong = item("one two three").replace(token_count=1)
    assert choose([wrong], 2, words).overflow == (wrong.replace(token_count=3),)
    assert choose([wrong.replace(token_count=10_000)], 3, words).window.used_tokens == 3


def test_system_texts_and_the_question_are_whole_or_nothing_is_built() -> None:
    system = [item("be kind", source=SourceType.SYSTEM)]
    chosen = choose([item("x")], 4, words, question="why so", system=system)
    assert contents(chosen) == ["be kind"]
    assert chosen.ledger.sections == {"system": 2, "prompt": 2}
    with pytest.raises(ContextOverflowError, match=r"system 2, prompt 2") as raised:
        choose([], 3, words, question="why so", system=system)
    assert raised.value.sizes == {"system": 2, "prompt": 2}


def test_a_share_limits_its_kind_and_drops_what_is_over_it() -> None:
    items = [item("a b c", 0.9), item("d e", 0.5), item("m", source=SourceType.MEMORY)]
    chosen = choose(items, 10, words, allocations={"retrieval": Allocation("retrieval", 2)})
    assert contents(chosen) == ["d e", "m"]
    (line,) = chosen.ledger.of("skipped")
    assert (line.source, line.section, line.label) == ("retrieval", "retrieval", "a b c")


def test_a_share_that_truncates_keeps_the_beginning_of_the_first_that_did_not_fit() -> None:
    share = {"retrieval": Allocation("retrieval", 5, overflow="truncate")}
    chosen = choose([item("a b c", 0.9), item("d e f g", 0.5), item("h i j k", 0.1)], 10, words, allocations=share)
    assert [text.strip() for text in contents(chosen)] == ["a b c", "d e"]
    (line,) = chosen.ledger.of("trimmed")
    assert (line.tokens, line.reason) == (2, "cut from 4 tokens to 2")
    assert chosen.window.used_tokens == 5


def test_a_share_that_truncates_cuts_to_what_is_left_of_the_window_and_to_nothing_not_at_all() -> None:
    share = {"retrieval": Allocation("retrieval", 50, overflow="truncate"), "memory": Allocation("memory", 0)}
    assert [text.strip() for text in contents(choose([item("a b c")], 2, words, allocations=share))] == ["a b"]
    assert contents(choose([item("a b c")], 0, words, allocations=share)) == []
    assert contents(choose([item("a b c")], 3, words, allocations=share, each=3)) == []


def test_a_conversation_has_no_gaps_and_begins_with_no_reply() -> None:
    talk = [
        said("old question", "user", 0.5),
        said("old reply", "assistant", 0.6),
        said("a very long question", "user", 0.8),
        said("reply", "assistant", 0.9),
        said("newest", "user", 1.0),
    ]
    chosen = choose(talk, 5, words)
    assert contents(chosen) == ["newest"]
    reasons = {line.label: line.reason for line in chosen.ledger.of("skipped")}
    assert reasons["old reply"] == "a newer message did not fit"
    assert reasons["reply"] == "the message that it answers did not fit"
    assert contents(choose(talk, 20, words)) == [one.content for one in talk]
    assert contents(choose(talk[:1], 1, words)) == []


def test_a_conversation_stands_last_and_in_its_own_order_whatever_its_rank() -> None:
    talk = [said("first", "user", 0.5), said("second", "assistant", 1.0)]
    assert contents(choose([*talk, item("document")], 9, words)) == ["document", "first", "second"]


def test_labels_are_titles_or_beginnings() -> None:
    items = [item("x").replace(metadata={"title": "A title"}), item("word " * 30)]
    labels = [line.label for line in choose(items, 99, words).ledger.lines]
    assert labels == ["A title", "word word word word word word word word…"]


def test_shares_of_a_conversation_are_those_of_history() -> None:
    budget = TokenBudget(100, allocations=(Allocation("conversation", 1), Allocation("memory", 2)))
    assert {name: share.max_tokens for name, share in shares_of(budget).items()} == {"history": 1, "memory": 2}
    assert shares_of(None) == {}
    chosen = choose([said("a b", "user", 1.0)], 9, words, allocations=shares_of(budget))
    assert contents(chosen) == []


ITEMS = st.lists(
    st.builds(
        lambda size, score, priority, source, role: ContextItem(
            content="w " * size, score=score, priority=priority, source=source, metadata={"role": role}
        ),
        st.integers(0, 12),
        st.floats(0, 1),
        st.integers(1, 10),
        st.sampled_from([kind for kind in SourceType if kind != SourceType.SYSTEM]),
        st.sampled_from(["user", "assistant"]),
    ),
    max_size=12,
)
SHARES = st.dictionaries(
    st.sampled_from(["retrieval", "memory", "history", "tool"]),
    st.tuples(st.integers(0, 20), st.sampled_from(["drop", "truncate"])),
).map(lambda given: {name: Allocation(name, size, overflow=how) for name, (size, how) in given.items()})  # type: ignore[arg-type]


@given(items=ITEMS, room=st.integers(0, 60), shares=SHARES, each=st.integers(0, 2), system=st.integers(0, 5))
def test_a_window_never_exceeds_its_room_or_its_shares_and_the_same_input_gives_the_same(
    items: list[ContextItem], room: int, shares: dict[str, Allocation], each: int, system: int
) -> None:
    prompts = [item("s " * system, source=SourceType.SYSTEM)] if system else []

    def build() -> Chosen:
        return choose(items, room, words, question="q q", system=prompts, allocations=shares, each=each)

    if system + 2 > max(room, 1):
        with pytest.raises(ContextOverflowError):
            build()
        return
    chosen = build()
    assert chosen == build()
    assert chosen.window.used_tokens <= room
    real = sum(words(one.content) for one in chosen.window.items) + 2
    assert real + each * (len(chosen.window.items) - len(prompts)) == chosen.window.used_tokens
    assert chosen.ledger.estimated_tokens == chosen.window.used_tokens
    assert chosen.window.items[: len(prompts)] == tuple(one.replace(token_count=system) for one in prompts)
    assert len(chosen.window.items) - len(prompts) + len(chosen.overflow) == len(items)
    for name, share in shares.items():
        taken = sum(line.tokens for line in chosen.ledger.lines if line.source == name and line.verdict != "skipped")
        assert taken <= (share.max_tokens or 0)
