"""The words of a text in any script, folded so that one word is written one way.

Laws: a text and a question become words by the same rules; script that has no blanks between its words (Chinese,
Japanese, Korean, Thai, Lao, Khmer, Burmese, Tibetan) comes as its characters and its pairs of characters.
"""

import re
import unicodedata

_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f\u1100-\u11ff"
    "\u1780-\u17d3\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30fa\u30fc-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Marks that stand on a letter; `\w` leaves them out, which would cut Hindi, Hebrew and Arabic words to pieces.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0903\u093a-\u094f\u0955-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a3c-\u0a4d\u0abc-\u0acd"
    "\u0b3c-\u0b57\u0bbe-\u0bcd\u0c3e-\u0c56\u0cbc-\u0cd6\u0d3b-\u0d4d\u0dca-\u0ddf"
)
_LETTER = f"(?:[^\\W_{_UNSPACED}]|[{_MARKS}])"
_WORD = re.compile(f"[{_UNSPACED}]+|{_LETTER}+(?:'[A-Za-z]{{1,2}}\\b)?")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# French and Italian write a little word and its noun as one: l'eau, d'été, dell'arte.
_ELISION = re.compile(r"\b(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|dell|all|nell|sull|un)'(?=[^\W\d_]{2})", re.IGNORECASE)
_NAME = re.compile(r"[^\W_][\w./:-]*")
_SHAPED = re.compile(r"[^\W_][_./:-]+[^\W_]|[a-z0-9][A-Z]")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ё": "е"}
)


# Pictures, faces, flags and dingbats, without what only varies the one before: tones of skin, variants, joiners.
_SYMBOL = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u00a2-\u00a5\u20a0-\u20cf\u231a-\u23ff\u25a0-\u27bf\u2b00-\u2bff"
    "\U0001f004-\U0001f0ff\U0001f170-\U0001f19a\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
_NUMBERS = re.compile(r"(?<![\w.,])\d+(?:[ \u00a0\u202f()/-]{1,3}\d+)+(?!\w)")
_DATE = re.compile(r"\d{4}[-/]\d\d?[-/]\d\d?|\d\d?[-/]\d\d?[-/]\d{4}")
_LEAST_DIGITS, _MOST_DIGITS = 7, 20


def words(text: str) -> list[str]:
    """Return the words of a text in their order, lower-case; a run of a script without blanks is one word.

    >>> words("Ann's createInvoice: die STRASSE, l'été, 喜欢喝绿茶!")
    ["ann's", 'create', 'invoice', 'die', 'strasse', 'été', '喜欢喝绿茶']
    """
    written = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    return _WORD.findall(_CAMEL.sub(" ", _ELISION.sub(" ", written)).casefold())


def symbols(text: str) -> list[str]:
    """Return the emoji and signs of a text, each once: a flag is one, of several joined ones each is one.

    >>> symbols("🎉 party 🎉 👍🏽 🇳🇴 5 €")
    ['🎉', '👍', '🇳🇴', '€']
    """
    return [] if text.isascii() else list(dict.fromkeys(_SYMBOL.findall(text)))


def joined_numbers(text: str) -> list[str]:
    """Return what is written as telephone numbers are, in groups of digits, as one run of digits, each once.

    >>> joined_numbers("+49 170 1234567, since 2023-05-08")
    ['491701234567']
    """
    found = (group for group in _NUMBERS.findall(text) if not _DATE.fullmatch(group))
    joined = ("".join(letter for letter in group if letter.isdecimal()) for group in found)
    return list(dict.fromkeys(digits for digits in joined if _LEAST_DIGITS <= len(digits) <= _MOST_DIGITS))


def is_unspaced(word: str) -> bool:
    """Tell whether a word is a run of a script that has no blanks between its words."""
    return word > "\u0e00" and _IS_UNSPACED.match(word) is not None


def pairs(run: str) -> list[str]:
    """Return each two characters that follow each other in a run; the character where it is alone.

    >>> pairs("喝绿茶")
    ['喝绿', '绿茶']
    """
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def unaccented(word: str) -> str:
    """Return a lower-case word as it is typed on a keyboard without its accents.

    >>> [unaccented(word) for word in ("crème", "smørrebrød", "ёлка", "чай")]
    ['creme', 'smorrebrod', 'елка', 'чай']
    """
    if word.isascii():
        return word
    word = word.translate(_LETTERS)
    if not "\u0080" < max(word) < "\u0400" and not "\u1e00" <= max(word) <= "\u1fff":
        return word  # й is a letter of its own, and so are most that are written with marks
    parts = unicodedata.normalize("NFD", word)
    return "".join(part for part in parts if not unicodedata.combining(part))


def names_of_code(text: str) -> list[str]:
    """Return what is written as names and numbers of things are, lower-case and whole, each once.

    >>> names_of_code("Ticket ERR-1234 of createInvoice on an iPhone")
    ['err-1234', 'createinvoice', 'iphone']
    """
    found = (name.rstrip("./:-_") for name in _NAME.findall(text))
    return list(dict.fromkeys(name.casefold() for name in found if _SHAPED.search(name)))
