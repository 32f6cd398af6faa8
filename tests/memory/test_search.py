"""Search of a memory: what is found, in which order, with which score and why."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.memory.list_corpus import ListCorpus
from sapwood.memory.search import Found, search
from sapwood.memory.weights import WEIGHTS, KindWeights

NOW = int(datetime(2024, 3, 14, 15, tzinfo=UTC).timestamp()) * 1000
DAY = 86_400_000


def facts(*texts: str) -> ListCorpus:
    corpus = ListCorpus()
    for text in texts:
        corpus.add(text, kind="fact")
    return corpus


def talk(*said: tuple[str, str], corpus: ListCorpus | None = None, name: str = "c1", at: int = NOW) -> ListCorpus:
    corpus = corpus or ListCorpus()
    for position, (speaker, text) in enumerate(said, 1):
        corpus.add(text, speaker=speaker, conversation=name, position=position, at=at, kind="turn")
    return corpus


def numbers(found: Sequence[Found]) -> list[int]:
    return [hit.number for hit in found]


# question: numbers found, best first, of 1 metric units, 2 green tea, 3 Porto, 4 tea in Porto
FACTS = ("The user prefers metric units", "Ann likes green tea", "Noor lives in Porto", "Noor drank a tea in Porto")
QUESTIONS: dict[str, list[int]] = {
    "which units?": [1],
    "WHICH UNITS??": [1],
    "tea": [4, 2],
    "tea in Porto": [4, 3, 2],
    "Where does Noor live?": [3, 4],
    "coffee": [],
    "the": [],
    "": [],
    " \n": [],
    "?!": [],
    "help": [],
}


@pytest.mark.parametrize(("question", "expected"), QUESTIONS.items())
def test_facts_are_found_by_the_words_they_share(question: str, expected: list[int]) -> None:
    assert numbers(search(facts(*FACTS), question, now_ms=NOW)) == expected


def test_nothing_is_found_in_an_empty_memory_and_no_more_than_asked_for() -> None:
    assert search(ListCorpus(), "tea", now_ms=NOW) == []
    assert search(facts(*FACTS), "tea", now_ms=NOW, k=0) == []
    assert numbers(search(facts(*FACTS), "tea", now_ms=NOW, k=1)) == [4]


def test_a_fact_that_covers_the_whole_question_has_the_full_score() -> None:
    (hit,) = search(facts(*FACTS), "which units?", now_ms=NOW)
    assert hit == Found(1, 1.0, {"words": 1.0}, "shares 'units'")


def test_the_score_falls_with_what_is_not_covered() -> None:
    scores = [
        search(facts(*FACTS), question, now_ms=NOW)[0].score
        for question in ("metric units", "metric units of weight", "metric units of weight and speed in Norway")
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert scores[2] < 0.5


def test_of_equal_records_the_newest_comes_first() -> None:
    assert numbers(search(facts("likes tea", "likes cake", "drinks tea"), "tea", now_ms=NOW)) == [3, 1]


def test_a_title_is_searched_as_well() -> None:
    corpus = ListCorpus()
    corpus.add("It was great", title="A dog on a beach")
    assert numbers(search(corpus, "beach", now_ms=NOW)) == [1]


def test_what_matters_more_comes_first_where_all_else_is_equal() -> None:
    corpus = ListCorpus()
    corpus.add("likes tea", importance=1.0)
    corpus.add("drinks tea", importance=0.0)
    assert numbers(search(corpus, "tea", now_ms=NOW)) == [1, 2]


def test_records_that_say_the_same_are_one_and_name_the_others() -> None:
    corpus = facts("likes tea with milk", "Likes tea, with milk!", "drinks no tea", "LIKES TEA WITH MILK")
    first, second = search(corpus, "who likes tea", now_ms=NOW, k=2)
    assert (first.number, first.same, second.number) == (4, (2, 1), 3)
    assert first.reason.endswith("; said 3 times")


def test_records_that_differ_in_a_number_or_a_not_are_two() -> None:
    rest = "of the yearly report about the harbour and all of its ships and boats and their owners in Bergen"
    corpus = facts(f"figure 12 {rest}", f"figure 13 {rest}", f"figure 13 not {rest}")
    assert len(search(corpus, "the harbour of Bergen", now_ms=NOW)) == 3


def test_records_of_the_same_words_in_another_order_are_two() -> None:
    assert len(search(facts("Ann likes Bob", "Bob likes Ann", "ann LIKES bob"), "likes", now_ms=NOW)) == 2


def test_records_of_two_kinds_are_two() -> None:
    corpus = ListCorpus()
    corpus.add("likes tea", kind="fact")
    corpus.add("likes tea", kind="note")
    assert numbers(search(corpus, "tea", now_ms=NOW)) == [2, 1]


TALK = (
    ("Ann", "Where did you go on holiday?"),
    ("Bob", "To the coast, with my brother."),
    ("Ann", "Nice! And how was the weather?"),
    ("Bob", "It rained."),
    ("Ann", "I stayed at home and read a book."),
    ("Bob", "Fine."),
)


def test_an_answer_is_found_next_to_its_question() -> None:
    found = search(talk(*TALK), "How was the weather?", now_ms=NOW)
    assert numbers(found)[:2] == [3, 4]
    assert found[1].parts["neighbours"] > 0
    assert found[1].reason == "next to 'weather'; in a conversation about it"
    assert 6 not in numbers(found)


def test_neighbours_are_of_one_conversation_and_turns_alone() -> None:
    corpus = talk(TALK[2])
    talk(("Bob", "ok"), TALK[3], corpus=corpus, name="c2")
    assert numbers(search(corpus, "weather", now_ms=NOW)) == [1]
    notes = ListCorpus()
    for position, text in enumerate(("The weather", "It rained"), 1):
        notes.add(text, conversation="c1", position=position, kind="note")
    assert numbers(search(notes, "weather", now_ms=NOW)) == [1]


def test_a_turn_next_to_a_document_is_no_neighbour_of_it() -> None:
    corpus = talk(("Ann", "The weather"))
    corpus.add("It rained", conversation="c1", position=2, kind="chunk")
    assert numbers(search(corpus, "weather", now_ms=NOW)) == [1]


def test_who_is_named_comes_first_and_his_name_is_not_looked_for() -> None:
    corpus = talk(("Ann", "I love tea, Bob"), ("Zoe", "x"), ("Zoe", "y"), ("Zoe", "z"), ("Bob", "I love tea, Ann"))
    for name, first in (("Ann", 1), ("Bob", 5), ("bob's", 5)):
        hit = search(corpus, f"Does {name} love tea?", now_ms=NOW)[0]
        assert (hit.number, hit.parts["speaker"] > 0) == (first, True)
        assert f"; said by {'Ann' if first == 1 else 'Bob'}" in hit.reason


def test_a_fact_about_one_who_speaks_is_found_by_his_name() -> None:
    corpus = talk(*TALK)
    corpus.add("Ann Smith is a nurse", kind="fact")
    assert numbers(search(corpus, "What is Ann's job?", now_ms=NOW))[:1] == [7]


def test_a_fact_keeps_the_names_that_stand_in_it_whoever_said_it() -> None:
    corpus = talk(*TALK)
    corpus.add("Bob is a nurse", kind="fact", speaker="Ann")
    assert numbers(search(corpus, "What is Bob's job?", now_ms=NOW))[:1] == [7]


def test_a_question_of_a_name_alone_asks_for_that_name() -> None:
    corpus = talk(("Ann", "I met Bob"), ("Zoe", "x"), ("Zoe", "y"), ("Zoe", "z"), ("Bob", "hello"))
    assert numbers(search(corpus, "Bob?", now_ms=NOW))[:1] == [1]


def test_a_name_of_two_words_is_told_from_the_same_words_in_small_letters() -> None:
    corpus = talk(("Support Team", "Write to us"), ("Zoe", "x"), ("Zoe", "y"), ("Zoe", "z"), ("Zoe", "we support this"))
    assert "speaker" not in search(corpus, "who gives support?", now_ms=NOW)[0].parts
    assert search(corpus, "What did the Support Team write?", now_ms=NOW)[0].parts["speaker"] > 0


def test_a_question_for_a_time_finds_turns_that_name_one() -> None:
    corpus = talk(
        ("Ann", "I moved to Bergen last Friday"),
        *[("Zoe", letter) for letter in "uvw"],
        ("Ann", "I moved to Bergen with Zoe"),
    )
    first = search(corpus, "When did Ann move to Bergen?", now_ms=NOW)[0]
    assert (first.number, first.parts["time"] > 0) == (1, True)
    assert "names a time" in first.reason


def test_a_question_that_names_a_time_finds_what_was_said_then() -> None:
    corpus = talk(("Ann", "We had tea with Zoe"), at=NOW - DAY)
    talk(("Ann", "We had tea with Bob"), corpus=corpus, name="c2", at=NOW)
    assert numbers(search(corpus, "Did we have tea yesterday?", now_ms=NOW))[0] == 1
    hit = search(corpus, "Did we have tea today?", now_ms=NOW)[0]
    assert (hit.number, hit.parts["date"] > 0) == (2, True)
    assert hit.reason.endswith("said at the time asked about")


def test_a_turn_that_asks_comes_after_one_that_tells() -> None:
    corpus = talk(("Ann", "Is there tea?"), *[("Zoe", letter) for letter in "uvw"], ("Zoe", "Here is tea."))
    first, second, *_ = (hit for hit in search(corpus, "tea", now_ms=NOW) if "words" in hit.parts)
    assert (first.number, second.number) == (5, 1)
    assert second.parts["question"] < 0


def test_what_is_not_allowed_is_neither_found_nor_a_neighbour() -> None:
    corpus = talk(*TALK)
    found = search(corpus, "How was the weather?", now_ms=NOW, allowed=lambda traits: traits.number != 3)
    assert found == []


def test_a_few_allowed_records_are_found_among_many_others() -> None:
    corpus = ListCorpus()
    for number in range(3_000):
        corpus.add(f"tea {number}", kind="fact" if number % 1_000 == 0 else "note")
    found = search(corpus, "tea", now_ms=NOW, allowed=lambda traits: traits.kind == "fact")
    assert numbers(found) == [2_001, 1_001, 1]


def test_a_rare_word_is_found_among_more_common_ones_than_are_read() -> None:
    corpus = ListCorpus()
    for number in range(2_000):
        corpus.add(f"green tea {number % 7}" if number % 3 else f"cake {number % 7}", kind="turn")
    corpus.add("green tea from Uji", kind="turn")
    corpus.add("Uji", kind="turn")
    few = msgspec.structs.replace(WEIGHTS, postings=50, candidates=20)
    found = search(corpus, "green tea from Uji", now_ms=NOW, settings=few)
    assert numbers(found)[:2] == [2_001, 2_002]
    assert found[0].reason == "shares 'green', 'tea', 'uji'"


def test_below_the_least_certainty_nothing_is_found() -> None:
    sure = msgspec.structs.replace(WEIGHTS, least=0.3)
    assert (
        search(facts(*FACTS), "the capital of Mongolia, its rivers, units and lakes", now_ms=NOW, settings=sure) == []
    )
    assert numbers(search(facts(*FACTS), "which units?", now_ms=NOW, settings=sure)) == [1]


def test_a_long_question_is_read_at_its_ends() -> None:
    question = f"metric {'x ' * 5_000} Porto"
    assert set(numbers(search(facts(*FACTS), question, now_ms=NOW))) == {1, 3, 4}


class Directions:
    """An embedder of two numbers: how much of a text is about drinks, and how much about places."""

    name = "directions/1"

    def embed(self, texts: Sequence[str]) -> Any:
        rows: list[list[float]] = []
        for text in texts:
            x = float(any(word in text.casefold() for word in ("tea", "coffee", "drink", "beverage")))
            y = float(any(word in text.casefold() for word in ("porto", "city", "lives")))
            size = (x * x + y * y) ** 0.5 or 1.0
            rows.append([x / size, y / size])
        return rows


def test_vectors_find_what_shares_no_word() -> None:
    embedder = Directions()
    corpus = ListCorpus(embedder)
    for text in FACTS:
        corpus.add(text, kind="fact")
    found = search(corpus, "favourite beverage", now_ms=NOW, embed=lambda text: embedder.embed([text])[0])
    assert numbers(found) == [2, 4]
    assert found[0].reason == "close in meaning (1.00)"
    assert found[0].parts == {"meaning": pytest.approx(1.0)}


def test_names_are_left_out_of_what_is_embedded() -> None:
    asked: list[str] = []

    def embed(text: str) -> list[float]:
        asked.append(text)
        return [1.0, 0.0]

    corpus = ListCorpus(Directions())
    corpus.add("I love tea", speaker="Ann", conversation="c", position=1, kind="turn")
    search(corpus, "What does Ann drink?", now_ms=NOW, embed=embed)
    search(corpus, "Ann?", now_ms=NOW, embed=embed)
    assert asked == ["What does drink?", "Ann?"]


def test_a_corpus_without_vectors_is_searched_by_words() -> None:
    found = search(facts(*FACTS), "which units?", now_ms=NOW, embed=lambda text: [1.0, 0.0])
    assert numbers(found) == [1]


def test_meaning_finds_nothing_that_is_not_allowed() -> None:
    embedder = Directions()
    corpus = ListCorpus(embedder)
    corpus.add("Ann likes green tea", kind="fact")
    corpus.add("Bob likes coffee", kind="secret")
    found = search(
        corpus,
        "beverage",
        now_ms=NOW,
        embed=lambda text: embedder.embed([text])[0],
        allowed=lambda traits: traits.kind == "fact",
    )
    assert numbers(found) == [1]


def test_only_the_closest_are_added_by_meaning() -> None:
    embedder = Directions()
    corpus = ListCorpus(embedder)
    for number in range(50):
        corpus.add(f"coffee {number}")
    few = msgspec.structs.replace(WEIGHTS, candidates=3)
    found = search(corpus, "beverage", now_ms=NOW, k=10, settings=few, embed=lambda text: embedder.embed([text])[0])
    assert len(found) == 3


WORD = st.sampled_from(
    ["tea", "coffee", "milk", "cake", "Bergen", "Porto", "harbour", "ship", "boat", "green", "likes", "drinks"]
)
TEXTS = st.lists(st.lists(WORD, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=12, unique=True)
ASKED = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
ALL_APART = msgspec.structs.replace(WEIGHTS, same=1.1)


@given(TEXTS, ASKED)
def test_scores_are_in_range_fall_along_the_answer_and_are_the_sum_of_their_parts(texts: list[str], asked: str) -> None:
    corpus = ListCorpus()
    for position, text in enumerate(texts, 1):
        corpus.add(text, speaker="Ann" if position % 2 else "Bob", conversation="c", position=position, kind="turn")
    found = search(corpus, f"{asked} Ann", now_ms=NOW, k=20)
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert all(sum(hit.parts.values()) == pytest.approx(hit.score) for hit in found)
    assert found == search(corpus, f"{asked} Ann", now_ms=NOW, k=20)


@given(TEXTS, ASKED, st.randoms(use_true_random=False))
def test_the_order_of_saving_does_not_change_the_score_of_a_fact(texts: list[str], asked: str, chance: Any) -> None:
    def scored(ordered: list[str]) -> dict[str, float]:
        found = search(facts(*ordered), asked, now_ms=NOW, k=20, settings=ALL_APART)
        return {ordered[hit.number - 1]: round(hit.score, 9) for hit in found}

    other = list(texts)
    chance.shuffle(other)
    assert scored(texts) == scored(other)


@given(TEXTS, ASKED)
def test_a_record_is_found_if_and_only_if_it_shares_a_word(texts: list[str], asked: str) -> None:
    found = search(facts(*texts), asked, now_ms=NOW, k=20, settings=ALL_APART)
    sharing = {place for place, text in enumerate(texts, 1) if set(text.split()) & set(asked.split())}
    assert set(numbers(found)) == sharing


@settings(max_examples=50)
@given(st.lists(WORD, min_size=2, max_size=4, unique=True), st.integers(0, 30))
def test_unrelated_records_never_bring_a_fact_before_one_that_covers_more(asked: list[str], others: int) -> None:
    padding = ["xylo"] * (len(asked) - 1)
    corpus = facts(
        " ".join(asked), " ".join([asked[0], *padding]), *[f"unrelated {number}" for number in range(others)]
    )
    assert numbers(search(corpus, " ".join(asked), now_ms=NOW, k=2, settings=ALL_APART)) == [1, 2]


def test_weights_can_be_set_for_a_kind_of_ones_own() -> None:
    corpus = ListCorpus()
    for position, text in enumerate(("The weather", "It rained"), 1):
        corpus.add(text, conversation="c1", position=position, kind="note")
    own = msgspec.structs.replace(WEIGHTS, kinds={"note": KindWeights(neighbours={-1: 0.5})})
    assert numbers(search(corpus, "weather", now_ms=NOW, settings=own)) == [1, 2]
