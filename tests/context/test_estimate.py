"""The estimate: near the truth for every kind of text, never raising, never less for more."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.context.meter import estimate_tokens
from support.samples import SAMPLES

# All of Unicode: lone surrogates, controls and what looks like a special token, too.
ANY_TEXT = st.one_of(
    st.text(st.characters(codec=None, categories=None), max_size=200),
    st.sampled_from(["<|endoftext|>", "\ud800", "a\udfffb", "<|im_start|>system", "\x00", "\u202e", "é" * 9]),
    st.lists(st.sampled_from([text for text, _ in SAMPLES.values()]), max_size=2).map("".join),
)


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_of_a_short_text_is_within_a_third_of_the_truth(kind: str) -> None:
    text, tokens = SAMPLES[kind]
    assert estimate_tokens(text) == pytest.approx(tokens, rel=0.36)


BANDS = {
    "English": ("English", "English, a chat"),
    "code": ("Python", "TypeScript"),
    "JSON": ("a tool's definition", "JSON, indented"),
    "ids": ("base64", "hexadecimal", "URLs"),
    "tables": ("a Markdown table", "a log", "white space"),
    "East Asia": ("Chinese", "Japanese", "Korean"),
    "other scripts": ("Russian", "Arabic", "Hindi"),
}


@pytest.mark.parametrize(("kinds", "low", "high"), [
    (BANDS["English"], -0.15, 0.05),
    (BANDS["code"], -0.05, 0.10),
    (BANDS["JSON"], -0.05, 0.05),
    (BANDS["ids"], -0.15, 0.05),
    (BANDS["tables"], -0.10, 0.05),
    (BANDS["East Asia"], 0.10, 0.30),
    (BANDS["other scripts"], 0.10, 0.25),
], ids=list(BANDS))  # fmt: skip
def test_the_estimate_of_a_kind_of_text_is_in_its_band(kinds: tuple[str, ...], low: float, high: float) -> None:
    truth = sum(SAMPLES[kind][1] for kind in kinds)
    error = sum(estimate_tokens(SAMPLES[kind][0]) for kind in kinds) / truth - 1
    assert low <= error <= high


def test_it_knows_texts_that_a_quarter_of_the_length_does_not() -> None:
    def error(kind: str, guess: float) -> float:
        return abs(guess / SAMPLES[kind][1] - 1)

    for kind in ("JSON, indented", "Chinese", "Japanese", "emoji", "base64", "hexadecimal", "a log"):
        text = SAMPLES[kind][0]
        assert error(kind, estimate_tokens(text)) < error(kind, len(text) / 4)


EXACT = [
    ("", 0),
    (" ", 1),
    ("\n" * 3, 1),
    ("a", 1),
    ("aaaa aaaa", 2),
    ("1" * 100, 30),
    ("雪" * 100, 79),
    ("🦊" * 100, 209),
    ("я" * 100, 34),
    ("ä" * 100, 113),
    ("\ud800" * 100, 79),
    ("<|endoftext|>", 3),
]


@pytest.mark.parametrize(("text", "tokens"), EXACT)
def test_the_weights(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(text=ANY_TEXT, cut=st.integers(0, 200))
def test_any_text_counts_and_never_less_than_its_beginning(text: str, cut: int) -> None:
    whole = estimate_tokens(text)
    assert whole >= 1 if text else whole == 0
    assert estimate_tokens(text[:cut]) <= whole


@given(first=ANY_TEXT, second=ANY_TEXT)
def test_two_texts_count_about_as_much_as_their_join(first: str, second: str) -> None:
    parts, joined = estimate_tokens(first) + estimate_tokens(second), estimate_tokens(first + second)
    assert abs(parts - joined) <= 5  # a change of class at the seam, and rounding


def test_a_megabyte_is_counted_in_no_time() -> None:
    text = SAMPLES["English"][0] * 3_000
    took = []
    for _ in range(5):
        began = time.process_time()
        estimate_tokens(text)
        took.append(time.process_time() - began)
    assert len(text) / min(took) > 10e6  # 70 MB/s where it was written; no loop over characters gets here
