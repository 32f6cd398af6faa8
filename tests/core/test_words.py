"""Words of a text, in any script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.words import stem, words

TABLE: list[tuple[str, list[str]]] = [
    ("", []),
    (" .,!?_-", []),
    ("List my Notes!", ["list", "my", "note"]),
    ("createInvoice", ["create", "invoice"]),
    ("notes.list_all-now", ["note", "list", "all", "now"]),
    ("HTTPServer2go", ["httpserver2go"]),
    ("v2Name", ["v2", "name"]),
    ("Straße STRASSE", ["strasse", "strasse"]),
    ("École école", ["école", "école"]),
    ("e\u0301cole", ["école"]),
    ("ｆｕｌｌ", ["full"]),
    ("天气 tool", ["天", "气", "tool"]),
    ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
    ("한국어", ["한", "국", "어"]),
    ("Привет, мир", ["привет", "мир"]),
    ("3.14 apples", ["3", "14", "apple"]),
]


@pytest.mark.parametrize(("text", "found"), TABLE)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


STEMS = [
    ("notes", "note"),
    ("queries", "query"),
    ("ties", "tie"),
    ("class", "class"),
    ("status", "status"),
    ("analysis", "analysis"),
    ("gas", "gas"),
    ("cats", "cat"),
    ("note", "note"),
]


@pytest.mark.parametrize(("word", "stemmed"), STEMS)
def test_stem(word: str, stemmed: str) -> None:
    assert stem(word) == stemmed


@given(text=st.text(st.characters(codec=None, categories=None), max_size=60))
def test_no_text_raises_and_no_word_is_blank(text: str) -> None:
    assert all(word.strip() == word != "" for word in words(text))


@given(text=st.text("abs éßñ яжή-.", max_size=30))
def test_case_does_not_matter(text: str) -> None:
    assert words(text.upper()) == words(text)


@given(first=st.sampled_from(TABLE), second=st.sampled_from(TABLE))
def test_a_text_has_the_words_of_its_halves(first: tuple[str, list[str]], second: tuple[str, list[str]]) -> None:
    assert words(f"{first[0]} {second[0]}") == [*first[1], *second[1]]
