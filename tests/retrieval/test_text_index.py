"""The inverted index, whatever was added and removed before."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ConfigError
from sapwood.retrieval.text_index import Field, Packed, TextIndex

FIELDS = {"name": Field(2.0), "text": Field(1.0, 0.5)}
Document = Mapping[str, list[str]]

words = st.lists(st.sampled_from("abcdef"), max_size=6)
documents = st.fixed_dictionaries({"name": words, "text": words})
steps = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), documents)), max_size=30)


def built(kept: Mapping[int, Document]) -> TextIndex[int]:
    index = TextIndex[int](FIELDS)
    for key, document in kept.items():
        index.add(key, document)
    return index


def shown(index: TextIndex[int]) -> dict[str, dict[int, float]]:
    return {term: index.scores([term]) for term in "abcdefg"}


@given(steps, st.booleans())
def test_after_any_adding_and_removing_it_is_as_if_built_anew(changes: list, packs: bool) -> None:
    index, kept = TextIndex[int](FIELDS), {}
    for key, document in changes:
        if document is None:
            assert index.remove(key) == (kept.pop(key, None) is not None)
        else:
            index.add(key, document)
            kept[key] = document
        index.scores("abc")
    if packs:
        other = TextIndex[int](FIELDS)
        other.load(list(index), index.packed())
        index = other
    fresh = built(kept)
    assert shown(index) == shown(fresh)
    assert len(index) == len(kept)
    assert set(index) == set(kept)


@given(st.lists(documents, min_size=1, max_size=6), st.integers(0, 5), documents)
def test_an_index_from_bytes_changes_like_any_other(found: list[Document], key: int, document: Document) -> None:
    kept = dict(enumerate(found))
    index = TextIndex[int](FIELDS)
    index.load(list(kept), built(kept).packed())
    index.scores("ab")
    index.add(key, document)
    index.remove(0)
    fresh = built({**kept, key: document})
    fresh.remove(0)
    assert shown(index) == shown(fresh)


def test_rare_terms_short_fields_and_weighty_fields_count_more() -> None:
    index = built({1: {"name": ["a"]}, 2: {"text": ["a"]}, 3: {"text": ["b", "c", "c"]}, 4: {"text": ["b"]}})
    scores = index.scores(["a", "b"])
    assert scores[1] > scores[2]
    assert scores[4] > scores[3]
    assert index.rarity("c") > index.rarity("b")
    assert index.rarity("zzz") == index.rarity("") == 0.0
    assert index.scores(["zzz"]) == {}
    assert 1 in index
    assert 9 not in index


def test_a_term_counts_once_in_a_question() -> None:
    index = built({1: {"text": ["a", "b"]}, 2: {"text": ["c"]}})
    assert index.scores(["a", "a"]) == index.scores(["a"])


def test_a_term_that_stands_in_a_field_a_thousand_times_counts_no_less() -> None:
    index = built({1: {"text": ["a"] * 1000, "name": ["a"]}, 2: {"text": ["b"]}})
    assert index.scores(["a"])[1] > 0
    assert list(index.scores(["b"])) == [2]


def test_fields_are_checked() -> None:
    with pytest.raises(ConfigError, match="no field 'title'; it has name, text"):
        built({1: {"title": ["a"]}})
    with pytest.raises(ConfigError, match="not 8"):
        TextIndex({str(n): Field() for n in range(8)})


def test_bytes_of_another_index_are_refused() -> None:
    index = built({1: {"text": ["a"]}, 2: {"text": ["b"]}})
    packed = index.packed()
    with pytest.raises(ValueError, match="another index"):
        TextIndex[int](FIELDS).load([1], packed)
    with pytest.raises(ValueError, match="another index"):
        TextIndex[int]({"text": Field()}).load([1, 2], packed)
    numbers, counts = packed.postings["a"]
    for broken in ((numbers, counts[:-8]), (numbers[:-1], counts[:-2])):
        altered = msgspec.structs.replace(packed, postings={"a": broken})
        with pytest.raises(ValueError, match="cut short"):
            TextIndex[int](FIELDS).load([1, 2], altered)
    strange = Packed(2, packed.lengths, {"a": (b"\xff\xff\xff\x7f", counts)})
    index.load([1, 2], strange)
    assert index.scores(["a"]) == {}, "a number of no document is passed over"
