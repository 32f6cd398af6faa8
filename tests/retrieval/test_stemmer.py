"""The English stemmer, against stems that follow from the published rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.retrieval.stemmer import english_stem

# One row for each rule: word, stem.
TABLE = [
    *(("a", "a"), ("is", "is"), ("'tis", "tis"), ("dog's", "dog"), ("dogs'", "dog"), ("boys's'", "boy")),
    *(("caresses", "caress"), ("ties", "tie"), ("cries", "cri"), ("queries", "queri"), ("gas", "gas"), ("gaps", "gap")),
    *(("kiwis", "kiwi"), ("status", "status"), ("class", "class"), ("skis", "ski"), ("skies", "sky"), ("news", "news")),
    *(("innings", "inning"), ("proceed", "proceed"), ("exceeds", "exceed")),
    *(("agreed", "agre"), ("feed", "feed"), ("plastered", "plaster"), ("bled", "bled"), ("motoring", "motor")),
    *(("sing", "sing"), ("conflated", "conflat"), ("troubling", "troubl"), ("sized", "size"), ("hopping", "hop")),
    *(("tanned", "tan"), ("falling", "fall"), ("hissing", "hiss"), ("filing", "file"), ("failing", "fail")),
    *(("added", "add"), ("egging", "egg"), ("dying", "die"), ("lying", "lie"), ("hurriedly", "hurri")),
    *(("happy", "happi"), ("by", "by"), ("say", "say"), ("enjoyment", "enjoy"), ("youth", "youth")),
    *(("relational", "relat"), ("conditional", "condit"), ("rational", "ration"), ("valency", "valenc")),
    *(("digitizer", "digit"), ("radically", "radic"), ("differently", "differ"), ("analogously", "analog")),
    *(("feudalism", "feudal"), ("decisiveness", "decis"), ("hopefulness", "hope"), ("callousness", "callous")),
    *(("formality", "formal"), ("sensitivity", "sensit"), ("sensibility", "sensibl"), ("geology", "geolog")),
    *(("biology", "biolog"), ("apology", "apolog"), ("quickly", "quick"), ("fly", "fli"), ("only", "onli")),
    *(("triplicate", "triplic"), ("formative", "format"), ("formalize", "formal"), ("electrical", "electr")),
    *(("hopeful", "hope"), ("goodness", "good"), ("native", "nativ")),
    *(("revival", "reviv"), ("allowance", "allow"), ("inference", "infer"), ("airliner", "airlin")),
    *(("adjustable", "adjust"), ("irritant", "irrit"), ("replacement", "replac"), ("adjustment", "adjust")),
    *(("adoption", "adopt"), ("onion", "onion"), ("communism", "communism"), ("activate", "activ")),
    *(("probate", "probat"), ("rate", "rate"), ("cease", "ceas"), ("controlling", "control"), ("roll", "roll")),
    *(("generate", "generat"), ("general", "general"), ("communication", "communic"), ("organization", "organiz")),
    *(("searches", "search"), ("invoices", "invoic"), ("creating", "creat"), ("bias", "bias"), ("pasted", "paste")),
]


@pytest.mark.parametrize(("word", "stem"), TABLE)
def test_a_word_has_the_stem_that_the_rules_give_it(word: str, stem: str) -> None:
    assert english_stem(word) == stem


@pytest.mark.parametrize("word", ["école", "b2b", "Upper", "天", "x" * 41, "ab", ""])
def test_a_word_that_is_not_plain_english_stays_as_it_is(word: str) -> None:
    assert english_stem(word) == word


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz'", max_size=30))
def test_a_stem_is_never_longer_than_its_word(word: str) -> None:
    stem = english_stem(word)
    assert len(stem) <= len(word) + 1  # "dying" and "hoping" gain an e, after an ending went
    assert stem == stem.lower()
