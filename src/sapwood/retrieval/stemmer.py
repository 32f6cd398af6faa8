"""The English stem of a word, by the published rules of Porter2.

Laws: pure, and the same in every process, since stems are kept in index caches; a word that is not plain lower-case
English is returned as it is.
Source: the Snowball project's description of the English stemmer. It is written out here, so that the commonest
language needs no import and is stemmed faster; other languages' stems are those of the package snowballstemmer.
"""

import re
from functools import lru_cache

_PLAIN = re.compile(r"[a-z']{3,40}\Z")
_VOWELS = "aeiouy"
# R1 begins after the first non-vowel that follows a vowel; R2 is the same inside R1.
_REGION = re.compile(r"[^aeiouy]*[aeiouy]+[^aeiouy]")
_R1_BEGINS = ("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter")
_SHORT_END = re.compile(r"(?:^[aeiouy][^aeiouy]|[^aeiouy][aeiouy][^aeiouywxY]|^past)\Z")
_HAS_VOWEL = re.compile(r"[aeiouy]")
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_VALID_LI = "cdeghkmnrt"

_WHOLE = {
    "skis": "ski", "skies": "sky", "idly": "idl", "gently": "gentl", "ugly": "ugli", "early": "earli",
    "only": "onli", "singly": "singl", "sky": "sky", "news": "news", "howe": "howe", "atlas": "atlas",
    "cosmos": "cosmos", "bias": "bias", "andes": "andes",
}  # fmt: skip
_KEPT_AFTER_1A = ("inning", "outing", "canning", "herring", "earring", "evening", "proceed", "exceed", "succeed")
_STEP_2 = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("tional", "tion"), ("biliti", "ble"), ("lessli", "less"), ("entli", "ent"), ("ation", "ate"),
    ("alism", "al"), ("aliti", "al"), ("ousli", "ous"), ("iviti", "ive"), ("fulli", "ful"), ("ogist", "og"),
    ("enci", "ence"), ("anci", "ance"), ("abli", "able"), ("izer", "ize"), ("ator", "ate"), ("alli", "al"),
    ("bli", "ble"), ("ogi", "og"), ("li", ""),
)  # fmt: skip
_STEP_3 = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("icate", "ic"), ("iciti", "ic"), ("ative", ""),
    ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize",
    "ion", "al", "er", "ic",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def english_stem(word: str) -> str:
    """Return the stem of a lower-case word, which need not be a word itself.

    >>> [english_stem(word) for word in ("invoices", "creating", "searches", "generously", "queries")]
    ['invoic', 'creat', 'search', 'generous', 'queri']
    """
    if not _PLAIN.match(word):
        return word
    word = word.removeprefix("'")
    if word in _WHOLE:
        return _WHOLE[word]
    word = _consonant_y(word)
    r1 = _first_region(word)
    r2 = _next_region(word, r1)
    word = _step_1a(_step_0(word))
    if word in _KEPT_AFTER_1A:
        return word
    word = _step_1c(_step_1b(word, r1))
    word = _step_3(_step_2(word, r1), r1, r2)
    return _step_5(_step_4(word, r2), r1, r2).replace("Y", "y")


def _consonant_y(word: str) -> str:
    """Write a `y` that begins the word or follows a vowel as `Y`: it counts as a consonant."""
    if "y" not in word:
        return word
    letters = list(word)
    for at, letter in enumerate(letters):
        if letter == "y" and (at == 0 or letters[at - 1] in _VOWELS):
            letters[at] = "Y"
    return "".join(letters)


def _first_region(word: str) -> int:
    for begin in _R1_BEGINS:
        if word.startswith(begin):
            return len(begin)
    return _next_region(word, 0)


def _next_region(word: str, after: int) -> int:
    found = _REGION.match(word, after)
    return found.end() if found else len(word)


def _step_0(word: str) -> str:
    for end in ("'s'", "'s", "'"):
        if word.endswith(end):
            return word[: -len(end)]
    return word


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and _HAS_VOWEL.search(word, 0, len(word) - 2):
        return word[:-1]
    return word


def _step_1b(word: str, r1: int) -> str:
    for end in ("eedly", "eed"):
        if word.endswith(end):
            return f"{word[: -len(end)]}ee" if len(word) - len(end) >= r1 else word
    for end in ("ingly", "edly", "ing", "ed"):
        if word.endswith(end):
            return _after_1b(word, word[: -len(end)], end, r1)
    return word


def _after_1b(word: str, rest: str, end: str, r1: int) -> str:
    if end == "ing" and len(rest) == 2 and rest[1] == "y" and rest[0] not in _VOWELS:
        return f"{rest[0]}ie"  # dying, lying, tying
    if not _HAS_VOWEL.search(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if rest.endswith(_DOUBLES):
        return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]
    if len(rest) <= r1 and _SHORT_END.search(rest):
        return f"{rest}e"
    return rest


def _step_1c(word: str) -> str:
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        return f"{word[:-1]}i"
    return word


def _step_2(word: str, r1: int) -> str:
    for end, instead in _STEP_2:
        if word.endswith(end):
            rest = word[: -len(end)]
            if len(rest) < r1 or not _step_2_holds(rest, end):
                return word
            return rest + instead
    return word


def _step_2_holds(rest: str, end: str) -> bool:
    before = rest[-1:]
    match end:
        case "ogi":
            return before == "l"
        case "li":
            return before != "" and before in _VALID_LI
        case _:
            return True


def _step_3(word: str, r1: int, r2: int) -> str:
    for end, instead in _STEP_3:
        if word.endswith(end):
            at = len(word) - len(end)
            return word[:at] + instead if at >= (r2 if end == "ative" else r1) else word
    return word


def _step_4(word: str, r2: int) -> str:
    for end in _STEP_4:
        if word.endswith(end):
            rest = word[: -len(end)]
            if len(rest) < r2 or (end == "ion" and not rest.endswith(("s", "t"))):
                return word
            return rest
    return word


def _step_5(word: str, r1: int, r2: int) -> str:
    rest = word[:-1]
    if word.endswith("e"):
        is_dropped = len(rest) >= r2 or (len(rest) >= r1 and not _SHORT_END.search(rest))
        return rest if is_dropped else word
    return rest if word.endswith("ll") and len(rest) >= r2 else word
