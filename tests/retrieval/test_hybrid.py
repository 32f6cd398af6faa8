"""Words and meaning together."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ConfigError
from sapwood.retrieval.hybrid import HybridIndex, SearchSettings, best
from sapwood.retrieval.terms import terms
from sapwood.retrieval.text_index import Field

np = pytest.importorskip("numpy")

SETTINGS = SearchSettings(fields={"text": Field()})
# What a text is about, as three numbers.
ABOUT = {"bill": (1, 0, 0), "invoice": (1, 0.1, 0), "weather": (0, 1, 0), "forecast": (0, 1, 0.1), "song": (0, 0, 1)}


class Topics:
    """An embedder that knows five words."""

    name = "topics/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [
            [float(sum(ABOUT[word][n] for word in text.casefold().split() if word in ABOUT)) for n in range(3)]
            for text in texts
        ]


def index_of(texts: dict[str, str], embedder: Topics | None) -> HybridIndex[str]:
    index = HybridIndex[str](SETTINGS, embedder)
    for key, text in texts.items():
        index.add(key, {"text": terms(text)}, [[text]])
    return index


TEXTS = {"a": "make an invoice", "b": "weather of a place", "c": "play a song"}


def test_a_document_is_found_by_meaning_without_a_common_word() -> None:
    assert list(index_of(TEXTS, Topics()).scores("bill them")) == ["a"]
    assert index_of(TEXTS, None).scores("bill them") == {}


def test_the_best_step_and_the_whole_make_the_score() -> None:
    scores = index_of(TEXTS, None).scores("make a new invoice for ACME. Then play that nice song again")
    assert set(scores) == {"a", "c"}
    assert all(0 < score <= 1 for score in scores.values())


def test_texts_are_embedded_on_the_first_question_and_once() -> None:
    embedder = Topics()
    index = index_of({"a": "invoice", "b": "invoice", "c": "song"}, embedder)
    assert embedder.asked == []
    index.scores("bill")
    assert embedder.asked == ["invoice", "song", "bill"]
    index.add("d", {}, [["forecast"], []])
    index.scores("weather")
    assert embedder.asked[3:] == ["forecast", "weather"]


def test_a_question_of_nothing_finds_nothing() -> None:
    for embedder in (None, Topics()):
        index = index_of(TEXTS, embedder)
        assert index.scores("") == {}
        assert index.scores("the of") == {}
        assert HybridIndex[str](SETTINGS, embedder).scores("invoice") == {}


def test_of_a_very_long_question_the_beginning_and_the_end_count() -> None:
    index = index_of(TEXTS, None)
    text = "make an invoice " + "x" * 5_000 + " weather " + "y" * 5_000 + " play a song"
    assert set(index.scores(text)) == {"a", "c"}


changes = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([None, *(f"{one} {two}" for one in ABOUT for two in ABOUT)])),
    max_size=12,
)


@given(changes, st.booleans())
def test_after_any_change_it_is_as_if_built_anew_and_bytes_hold_it(steps: list, asks: bool) -> None:
    index, kept = HybridIndex[str](SETTINGS, Topics()), {}
    for key, text in steps:
        if text is None:
            assert index.remove(key) == (kept.pop(key, None) is not None)
        else:
            index.add(key, {"text": terms(text)}, [[text]])
            kept[key] = text
        if asks:
            index.scores("bill")
    fresh = index_of(kept, Topics())
    loaded = HybridIndex[str](SETTINGS, Topics())
    loaded.load(list(kept), fresh.packed())
    for question in ("bill", "weather song", "forecast"):
        assert index.scores(question) == pytest.approx(fresh.scores(question), abs=1e-6)
        assert loaded.scores(question) == pytest.approx(fresh.scores(question), abs=1e-6)


def test_vectors_of_other_documents_are_refused() -> None:
    packed = index_of(TEXTS, Topics()).packed()
    with pytest.raises(ValueError, match="other documents"):
        HybridIndex[str](SETTINGS, Topics()).load(["a"], packed)


def test_an_embedder_that_gives_too_few_vectors_is_named() -> None:
    class Short:
        name = "short"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[1.0]]

    index = HybridIndex[str](SETTINGS, Short())
    index.add("a", {}, [["x", "y"]])
    with pytest.raises(ConfigError, match=r"'short' gave an array of shape \(1, 1\) for 2 texts"):
        index.scores("invoice")


def test_a_change_while_vectors_are_made_is_not_lost() -> None:
    class Slow(Topics):
        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if not self.asked:
                self.asked.append("once")
                index.add("b", {"text": ["invoic"]}, [["invoice"]])
            return super().embed(texts)

    index = HybridIndex[str](SETTINGS, Slow())
    index.add("a", {"text": ["song"]}, [["song"]])
    assert set(index.scores("song")) == {"a"}
    assert set(index.scores("invoice")) == {"b"}


def test_ties_keep_their_order_and_what_is_left_out_makes_room() -> None:
    scores = {"a": 0.5, "b": 0.9, "c": 0.5, "d": 0.1}
    order = {"c": 0, "a": 1, "b": 2, "d": 3}
    assert best(scores, 9, order=order) == ["b", "c", "a", "d"]
    assert best(scores, 2, without={"b"}, order=order) == ["c", "a"]
    assert best(scores, 0, order=order) == []
