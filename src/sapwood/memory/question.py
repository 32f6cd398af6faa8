"""What a question asks of a memory: words with their spellings, names of speakers, times.

Laws: names of those who speak are told apart from what is asked about them; a question of names alone asks for
those names; a word counts once.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from sapwood.memory import languages
from sapwood.memory.text import marker, plain_term
from sapwood.memory.times import Span, asks_when, spans_of
from sapwood.memory.words import is_unspaced, joined_numbers, names_of_code, pairs, symbols, unaccented, words

_CAPITAL = re.compile(r"\b[^\W\d_a-z][\w']*")
LONGEST = 3_000
"""Characters of a question that are read: of a longer one its beginning and its end."""
MOST_WORDS = 48
_POLITE = frozenset({
    "please", "kindly", "thanks", "thank", "hi", "hello", "hey", "can", "could", "would", "let", "tell", "know", "show",
    "give",
})  # fmt: skip
"""What a request adds in politeness. Unlike in the search of tools, `like`, `want` and `need` say something here."""
_SINGLE = 0.3
_OTHER_SPELLING = 0.9
_BONUS = 0.1


class Word(msgspec.Struct, frozen=True):
    """One word of a question.

    shown: as it was asked. terms: each term that stands for it, with what it counts. share: what the word counts
    when it is asked how much of the question a record covers. is_name: it names one who speaks.
    """

    shown: str
    terms: tuple[tuple[str, float], ...]
    share: float = 1.0
    is_name: bool = False


class Question(msgspec.Struct, frozen=True):
    """A question, read.

    speakers: the numbers of those it names. spans: the times it names. vector_text: what is embedded, without names.
    """

    words: tuple[Word, ...]
    speakers: frozenset[int]
    asks_when: bool
    spans: tuple[Span, ...]
    vector_text: str


def asked(text: str, *, now: int, speakers: Mapping[str, int], has: Callable[[str], bool]) -> Question:
    """Return what a question asks.

    now: ms since 1970. speakers: numbers of those who speak in the records, by name. has: tells whether a record has
    a term; it is asked which languages there are where the question does not tell its own.

    >>> found = asked("Which units does Ann prefer?", now=0, speakers={"Ann": 7}, has=lambda term: False)
    >>> [word.shown for word in found.words if not word.is_name], found.speakers
    (['units', 'prefer'], frozenset({7}))
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST * 2 // 3]}\n{text[-LONGEST // 3 :]}"
    found = words(text)
    spoken = languages.languages_of(found, letters=False)
    if spoken is None:
        spoken = tuple(name for name in languages.STOPS if has(marker(name)))
    stops = languages.stop_words(spoken)
    telling = [word for word in dict.fromkeys(found) if word not in stops]
    telling = [word for word in telling if word not in _POLITE] or telling or list(dict.fromkeys(found))
    named, numbers = _named(text, telling, speakers)
    made: dict[tuple[tuple[str, float], ...], Word] = {}
    for word in telling[:MOST_WORDS]:
        for part in _parts(word, spoken, is_name=word in named):
            made.setdefault(part.terms, part)
    known = {term for word in made.values() for term, _ in word.terms}
    for name in names_of_code(text):
        if (term := plain_term(name)) not in known:
            made[((term, 1.0),)] = Word(name, ((term, 1.0),), share=_BONUS)
    for sign in (*symbols(text), *joined_numbers(text))[:MOST_WORDS]:
        made.setdefault(((sign, 1.0),), Word(sign, ((sign, 1.0),), share=_BONUS))
    return Question(tuple(made.values()), numbers, asks_when(text), spans_of(text, now), _without(text, named))


def _parts(word: str, spoken: tuple[str, ...], *, is_name: bool) -> list[Word]:
    if is_unspaced(word):
        if len(word) == 1:
            return [Word(word, ((word, 1.0),))]
        single = _SINGLE / len(word)
        return [
            *(Word(pair, ((pair, 1.0),), share=1 / len(word)) for pair in pairs(word)),
            *(Word(letter, ((letter, _SINGLE),), share=single) for letter in dict.fromkeys(word)),
        ]
    plain = plain_term(word)
    others = languages.stems(word, spoken)
    return [Word(word, ((plain, 1.0), *((term, _OTHER_SPELLING) for term in others)), is_name=is_name)]


def _named(text: str, telling: list[str], speakers: Mapping[str, int]) -> tuple[frozenset[str], frozenset[int]]:
    """Return which words name one who speaks, and the numbers of those named.

    A name of one word is known by it, one of several by its first or last, written as a name is: "Support Team" is
    not asked for by "who supports it".
    """
    plain = {_bare(word): word for word in telling}
    capital = {_bare(word.casefold()) for word in _CAPITAL.findall(text)}
    named: set[str] = set()
    numbers: set[int] = set()
    for name, number in speakers.items():
        parts = unaccented(name.casefold()).split()
        known = plain if len(parts) == 1 else capital
        if parts and (parts[0] in known or parts[-1] in known):
            numbers.add(number)
            named.update(plain[part] for part in parts if part in plain)
    return frozenset(named), frozenset(numbers)


def _bare(word: str) -> str:
    return unaccented(word).removesuffix("'s")


def _without(text: str, named: frozenset[str]) -> str:
    """Return the text without the names, which draw a vector to all that their bearers ever said."""
    if not named:
        return text
    kept = [word for word in text.split() if not any(part in named for part in words(word))]
    return " ".join(kept) or text
