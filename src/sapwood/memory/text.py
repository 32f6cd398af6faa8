"""What is indexed of a record, and what of it is compared by meaning.

Laws: the same text gives the same terms in every process, as long as `rules()` stays the same; a word of another
language than English has two terms, one by the English rules and one by its own, so that a question finds it whose
language nothing tells.
"""

import re
from collections.abc import Mapping

import msgspec

from sapwood.memory import languages
from sapwood.memory.corpus import HAS_TIME, IS_QUESTION
from sapwood.memory.times import names_a_time
from sapwood.memory.words import is_unspaced, joined_numbers, names_of_code, pairs, symbols, unaccented, words
from sapwood.retrieval.stemmer import english_stem

RULES = 2
_QUESTION_ENDS = ("?", "？", "؟", ";")
_CLOSING = " \t\n\"'”’»)*_.!"
_SPOKEN = re.compile(r"\s*([^:\n]{1,40}):\s")


class Indexed(msgspec.Struct, frozen=True):
    """A record as an index keeps it.

    entries: by term, how often it stands in the text and in the title. length: of both, in words. flags: those of
    `memory.corpus`. vector_text: what an embedder is given; empty where there is nothing to embed.
    """

    entries: Mapping[str, tuple[int, int]]
    length: int
    flags: int
    vector_text: str


def indexed(text: str, title: str | None = None, speaker: str | None = None) -> Indexed:
    """Return what is indexed of a record.

    title: a heading or a caption. speaker: who said it; his name before a colon is not part of what he said.

    >>> found = indexed("Ann: I prefer the metric units!", speaker="Ann")
    >>> found.entries, found.length, found.vector_text
    ({'prefer': (1, 0), 'metric': (1, 0), 'unit': (1, 0)}, 3, 'I prefer the metric units!')
    """
    said = _without_speaker(text, speaker)
    in_text, length = terms_of(said)
    entries = {term: (times, 0) for term, times in in_text.items()}
    if title:
        in_title, more = terms_of(title)
        length += more
        for term, times in in_title.items():
            entries[term] = (entries.get(term, (0, 0))[0], times)
    is_question = said.rstrip(_CLOSING).endswith(_QUESTION_ENDS)
    flags = IS_QUESTION * is_question | HAS_TIME * names_a_time(said)
    return Indexed(entries, length, flags, f"{title}. {said}" if title else said)


def terms_of(text: str) -> tuple[dict[str, int], int]:
    """Return how often each term stands in a text, and how many words it has without its stop words.

    >>> terms_of("Die Häuser, das Haus")[0]
    {'hauser': 1, 'de~haus': 2, 'haus': 1, '~de': 1}
    """
    found = words(text)
    spoken = languages.languages_of(found) or ()
    stops = languages.stop_words(spoken)
    telling = [word for word in found if word not in stops] or found
    counts: dict[str, int] = {}
    length = 0
    for word in telling:
        if is_unspaced(word):
            length += len(word)
            made = [*word, *(pairs(word) if len(word) > 1 else ())]
        else:
            length += 1
            made = [plain_term(word), *languages.stems(word, spoken)]
        for term in made:
            counts[term] = counts.get(term, 0) + 1
    for name in names_of_code(text):
        counts.setdefault(plain_term(name), 1)
    for sign in (*symbols(text), *joined_numbers(text)):
        counts.setdefault(sign, 1)
    for language in spoken:
        counts[marker(language)] = 1
    return counts, length


def plain_term(word: str) -> str:
    """Return the term of a lower-case word by the rules that hold for every text.

    >>> plain_term("units"), plain_term("crème")
    ('unit', 'creme')
    """
    return english_stem(unaccented(word))


def marker(language: str) -> str:
    """Return the term that each text in a language has, so that a search sees which languages there are."""
    return f"~{language}"


def rules() -> str:
    """Return what stands for the rules of this index: where it has changed, a store makes its index anew.

    >>> rules().startswith("2/")
    True
    """
    return f"{RULES}/{languages.rules()}"


def _without_speaker(text: str, speaker: str | None) -> str:
    found = _SPOKEN.match(text) if speaker else None
    if found and speaker and found.group(1).strip().casefold() == speaker.strip().casefold():
        return text[found.end() :]
    return text
