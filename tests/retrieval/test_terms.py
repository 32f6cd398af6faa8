"""Terms, clauses and identifiers of a text."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.retrieval import terms as module
from sapwood.retrieval.terms import clauses, identifiers, question_terms, split_words, telling, terms

WORDS = [
    ("", []),
    (" .,!?_-", []),
    ("createInvoice", ["create", "invoice"]),
    ("notes.list_all-now", ["notes", "list", "all", "now"]),
    ("HTTPServer parseJSONNow", ["http", "server", "parse", "json", "now"]),
    ("don’t ACME's", ["don't", "acme's"]),
    ("Straße ｆｕｌｌ", ["strasse", "full"]),
    ("天气 tool", ["天", "气", "tool"]),
    ("3.14 apples", ["3", "14", "apples"]),
]
CLAUSES = [
    ("", [""]),
    ("List my notes", ["List my notes"]),
    ("Find a cheap flight. Book a hotel room!", ["Find a cheap flight", "Book a hotel room"]),
    ("Find a cheap flight, then book a hotel room", ["Find a cheap flight", "book a hotel room"]),
    ("Find a cheap flight and also book a hotel room", ["Find a cheap flight", "book a hotel room"]),
    (
        "I need a hoodie with an abstract design. Can you assist me?",
        ["I need a hoodie with an abstract design, Can you assist me"],
    ),
    ("Hello. Please list open invoices today", ["Hello, Please list open invoices today"]),
    ("reports, charts and tables for sales", ["reports, charts and tables for sales"]),
    ("查天气和温度。发邮件给他！", ["查天气和温度", "发邮件给他"]),
]


@pytest.mark.parametrize(("text", "found"), WORDS)
def test_words_are_split_where_a_name_has_parts(text: str, found: list[str]) -> None:
    assert split_words(text) == found


@pytest.mark.parametrize(("text", "found"), CLAUSES)
def test_a_request_is_split_where_a_step_ends(text: str, found: list[str]) -> None:
    assert clauses(text) == found


def test_there_are_never_more_than_twelve_clauses() -> None:
    many = clauses(" ".join(f"Alpha{n} beta{n} gamma{n}." for n in range(40)))
    assert len(many) == 12
    assert "gamma39" in many[-1]


def test_a_question_loses_stop_words_politeness_and_repetition() -> None:
    assert question_terms("Could you please help me find the invoices, all invoices?") == ["find", "invoic", "all"][:2]
    assert question_terms("please help") == ["pleas", "help"], "a question of nothing else is taken at its word"
    assert question_terms("?!") == []
    assert terms("the list of lists") == ["list", "list"]
    assert telling("please help me with the notes and notes") == 1


def test_what_is_written_as_a_name_is_kept_whole() -> None:
    text = "call notes.list, createInvoice or get_user_v2 with http://x.y; not and-or"
    assert identifiers(text) == ["notes.list", "createinvoice", "get_user_v2", "http://x.y", "and-or"]
    assert identifiers("plain words only.") == []


@given(st.text(max_size=200))
def test_any_text_has_terms_and_clauses(text: str) -> None:
    assert all(word and word == word.casefold() for word in split_words(text))
    assert len(clauses(text)) >= 1
    assert set(question_terms(text)) <= set(terms(text, without=()))


def test_a_change_of_the_rules_gets_a_new_number() -> None:
    """Index caches hold terms: where this fails, raise `RULES` and put the new digest here."""
    said = [
        "Could you create HTTPServer invoices for ACME's 天气, please?",
        "running flies happily",
        "get_user-v2 naïve",
    ]
    shown = repr([(terms(text), question_terms(text), identifiers(text)) for text in said])
    shown += repr((sorted(module.STOP_WORDS), sorted(module.FILLER)))
    assert (module.RULES, hashlib.sha256(shown.encode()).hexdigest()[:12]) == (1, "88d5bf1eeece")
