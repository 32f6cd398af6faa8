"""Words of texts in many scripts and languages, and the terms that an index has of them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.memory import languages
from sapwood.memory.corpus import HAS_TIME, IS_QUESTION
from sapwood.memory.list_corpus import ListCorpus
from sapwood.memory.question import asked
from sapwood.memory.search import search
from sapwood.memory.text import indexed, rules, terms_of
from sapwood.memory.words import is_unspaced, joined_numbers, names_of_code, pairs, symbols, unaccented, words

NOISE = (
    "The weather was fine all day",
    "Das Wetter war den ganzen Tag schön",
    "Il a plu toute la journée à Paris",
    "El perro duerme en la cocina",
    "Собака спит на кухне",
    "猫在厨房里睡觉",
    "She works at the harbour",
)

# record, question: one language each, the question with another form of the word, or typed without its marks
INFLECTED = {
    "German plural": ("Das Haus in Bergen ist rot", "Häuser"),
    "German question": ("Sie liest gern alte Bücher", "Welches Buch mag sie?"),
    "German verb": ("Die Kinder schwimmen jeden Morgen im See", "schwimme"),
    "German without ß": ("Sie wohnt in der Goethestraße", "GOETHESTRASSE"),
    "French plural": ("Elle adore les chevaux et les écoles", "école"),
    "French without accents": ("Il mange une crème brûlée", "creme brulee"),
    "French elision": ("Il préfère l'été à la mer", "été"),
    "Spanish verb": ("A Luis le gusta cocinar los domingos", "¿Qué cocinaba Luis?"),
    "Spanish plural": ("Tiene dos canciones favoritas", "canción"),
    "Italian plural": ("Le piacciono i libri antichi della nonna", "libro antico"),
    "Portuguese plural": ("Ela tem dois gatos na casa da avó", "gato"),
    "Portuguese without accents": ("A reunião é na terça", "reuniao"),
    "Dutch plural": ("Hij heeft twee kinderen en een hond", "honden"),
    "Swedish form": ("Hon köpte böckerna i Malmö och läser dem", "böcker"),
    "Danish form": ("Han har mange venner i byen og på landet", "vennerne"),
    "Norwegian form": ("Hun liker ikke regnet og vinden i Bergen", "regn"),
    "Finnish cases": ("Minä asun talossa ja olen iloinen", "talo"),
    "Hungarian form": ("A könyvek az asztalon vannak", "könyv"),
    "Polish form": ("Nie lubi kawy, ale pije herbatę", "herbata"),
    "Turkish form": ("Onun kitapları çok eski ve ağır", "kitap"),
    "Romanian form": ("Ea are două pisici și un câine", "pisică"),
    "Russian cases": ("Она читает книги по вечерам", "книга"),
    "Russian dative": ("Любит чай с лимоном", "чаю"),
    "Russian yo": ("У нас дома ёлка", "елка"),
    "Greek form": ("Μου αρέσουν οι γάτες", "γάτα"),
    "Arabic form": ("يحب القهوة في الصباح", "قهوة"),
    "Hindi": ("उसे हिन्दी किताबें पसंद हैं", "किताब"),
    "Hebrew": ("הוא אוהב קפה", "קפה"),
    "Chinese": ("用户喜欢喝绿茶", "绿茶"),
    "Japanese": ("東京に住んでいます", "東京"),
    "Japanese half-width": ("コーヒーが好きです", "ｺｰﾋｰ"),
    "Korean": ("야간 배송 확인 절차", "배송"),
    "Korean particle": ("서울에서 일합니다", "서울"),
    "Thai": ("ฉันชอบดื่มกาแฟ", "กาแฟ"),
    "English plural": ("Ann keeps two geese and a pony", "ponies"),
    "English in capitals": ("Prefers METRIC units", "Metric Unit?"),
    "a name of code": ("The bug is in createInvoice", "createinvoice"),
    "a number of a ticket": ("See ticket ERR-1234 for that", "err-1234"),
    "an emoji": ("🎉 party on Sunday", "🎉"),
    "an emoji of another tone": ("Great 👍🏽 work", "👍"),
    "an emoji of several": ("She is a 👩‍💻", "💻"),
    "a flag": ("He moved to 🇳🇴 in May", "🇳🇴"),
    "a sign of money": ("It is 5 € each", "€"),
    "a telephone number in groups": ("Call +49 170 1234567 at noon", "+491701234567"),
    "a telephone number in other groups": ("Call 0170-123-4567 at noon", "01701234567"),
    "a telephone number without groups": ("Call +491701234567 at noon", "+49 170 1234567"),
    "a camelCase name by its words": ("The bug is in createInvoice", "invoices"),
}


@pytest.mark.parametrize(
    ("text", "found"),
    {
        "2023-05-08 and 8/5/2023": [],
        "12 34": [],
        "1234567": [],
        "5 x 7 7 7 7 7 7a": [],
        "(0170) 123 45 67": ["01701234567"],
        " ".join(["123"] * 2_000): [],
    }.items(),
)
def test_only_groups_of_digits_like_telephone_numbers_are_joined(text: str, found: list[str]) -> None:
    assert joined_numbers(text) == found


def test_a_text_without_signs_has_the_terms_of_its_words_alone() -> None:
    assert symbols("naïve → 喜欢, ≤ 5") == []
    assert symbols("👩\u200d💻\ufe0f 🇳🇴🇸🇪 🎉🎉") == ["👩", "💻", "🇳🇴", "🇸🇪", "🎉"]
    assert [word.shown for word in asked("the 🎉", now=0, speakers={}, has=lambda _: False).words][-1] == "🎉"


def corpus_of(*texts: str) -> ListCorpus:
    corpus = ListCorpus()
    for text in texts:
        corpus.add(text)
    return corpus


@pytest.mark.parametrize(("record", "question"), INFLECTED.values(), ids=INFLECTED)
def test_a_question_finds_its_record_first_in_its_own_language(record: str, question: str) -> None:
    corpus = corpus_of(record, *NOISE)
    assert [hit.number for hit in search(corpus, question, now_ms=0)][:1] == [1]


LANGUAGES = {
    "das haus ist groß und alt": ("de",),
    "the house is big": (),
    "je ne sais pas où il est": ("fr",),
    "no sé dónde está mi libro": ("es",),
    "hij heeft een huis": ("nl",),
    "metric units": None,
    "": None,
}


@pytest.mark.parametrize(("text", "language"), LANGUAGES.items())
def test_stop_words_and_letters_tell_the_language(text: str, language: tuple[str, ...] | None) -> None:
    assert languages.languages_of(text.split()) == language


def test_at_most_two_languages_are_taken_where_a_text_may_be_in_many() -> None:
    found = languages.languages_of(["en", "er"])
    assert found is not None
    assert len(found) == 2


@pytest.mark.parametrize(
    ("word", "term"), {"книги": "ru~книг", "гости": "ru~гост", "љубав": "sr~ljubav", "چای": "fa~چای"}.items()
)
def test_the_letters_of_a_word_tell_its_language_where_they_are_not_latin(word: str, term: str) -> None:
    assert languages.stems(word, ("de",)) == [term]


def test_a_number_has_no_stem() -> None:
    assert languages.stems("2024", ("de",)) == []


def test_each_named_language_has_rules() -> None:
    for language in languages.LANGUAGES:
        assert languages.stems("x", (language,)) == [f"{language}~x"]


def test_the_rules_name_their_version() -> None:
    assert rules().split("/")[:2] == ["2", "snowball"]


def test_an_english_text_needs_no_other_language() -> None:
    assert set(terms_of("She likes the green tea of her grandmother")[0]) == {"like", "green", "tea", "grandmoth"}


def test_a_text_of_stop_words_alone_is_taken_at_its_word() -> None:
    assert terms_of("to be or not to be")[0] == {"to": 2, "be": 2, "or": 1, "not": 1}


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("We met last Friday.", HAS_TIME),
        ("Did we meet Ann?", IS_QUESTION),
        ('He said "when?"', IS_QUESTION),
        ("Ann, at 7:30?", IS_QUESTION | HAS_TIME),
        ("你好吗？", IS_QUESTION),
        ("We met Ann", 0),
        ("", 0),
    ],
)
def test_flags_tell_questions_and_times(text: str, flags: int) -> None:
    assert indexed(text).flags == flags


def test_a_title_is_counted_apart_and_embedded_first() -> None:
    found = indexed("A dog on a beach, a dog!", title="My dog")
    assert found.entries == {"dog": (2, 1), "beach": (1, 0)}
    assert (found.length, found.vector_text) == (4, "My dog. A dog on a beach, a dog!")


def test_only_the_speakers_own_name_before_a_colon_is_left_out() -> None:
    assert indexed("Ann: hello there", speaker="ann").vector_text == "hello there"
    assert indexed("Note: hello there", speaker="Ann").vector_text == "Note: hello there"
    assert indexed("hello there", speaker="Ann").vector_text == "hello there"


def every_char() -> Iterator[str]:
    yield from map(chr, range(0x3000))


def test_words_of_all_letters_are_found_somewhere() -> None:
    letters = [letter for letter in every_char() if letter.isalpha()]
    lost = [letter for letter in letters if not words(letter)]
    assert lost == []


def test_a_single_character_is_its_own_pair() -> None:
    assert pairs("茶") == ["茶"]
    assert is_unspaced("茶")
    assert not is_unspaced("чай")


def test_letters_with_marks_of_their_own_alphabet_stay() -> None:
    assert [unaccented(word) for word in ("чай", "στην", "ångström")] == ["чай", "στην", "angstrom"]


def test_names_of_code_are_told_from_words() -> None:
    assert names_of_code("the and/or of a b c, v2.1, a_b.") == ["and/or", "v2.1", "a_b"]


@given(st.text(max_size=200))
def test_any_text_is_indexed_the_same_twice_and_found_by_itself_when_it_has_words(text: str) -> None:
    made = indexed(text)
    assert made == indexed(text)
    assert bool(made.entries) == bool(words(text))
    corpus = corpus_of(text)
    found = search(corpus, text, now_ms=0)
    assert bool(found) == bool(words(text) and text.strip())
