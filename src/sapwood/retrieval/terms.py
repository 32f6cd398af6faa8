"""Terms: what an index knows of a text, and what a question asks for.

Laws: a text and a question become terms by the same rules; a name such as `createInvoice` or `notes.list` is its
words; Chinese, Japanese and Korean text, which has no blanks, is its characters; the order of clauses is that of
the text.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable

from sapwood.retrieval.stemmer import english_stem

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+(?:'[a-z]{1,2}\\b)?"
)
# Only where a sentence ends or a next step is named: splitting at each comma and "and" tears single wishes apart.
_CLAUSE = re.compile(
    r"[.!?;:\n]+(?:\s|\Z)|(?:,\s+|\s+)(?:and then|then|after that|afterwards|and also)\s+|[。！？；]+", re.IGNORECASE
)
_NAME = re.compile(r"[^\W_][\w./:-]*")
_SHAPED = re.compile(r"[^\W_][_./:-]+[^\W_]|[a-z0-9][A-Z]")

RULES = 1
"""Stands for the rules of this module in the key of an index cache; another number, and every cache is made anew."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP_WORDS = _listed(
    """
    a about above after again against all am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
    few for from further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers
    herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself let's me more
    most mustn't my myself no nor not of off on once only or other ought our ours ourselves out over own same
    shan't she she'd she'll she's should shouldn't so some such than that that's the their theirs them
    themselves then there there's these they they'd they'll they're they've this those through to too under
    until up very was wasn't we we'd we'll we're we've were weren't what what's when when's where where's which
    while who who's whom why why's will with won't would wouldn't you you'd you'll you're you've your yours
    yourself yourselves also just may might must shall us upon via etc
    """
)
"""English words that say nothing of what a text is about."""

FILLER = _listed(
    """
    please need needs needed want wants wanted help helps like would could can know tell give show let looking
    look able kindly thanks thank hi hello hey assist assistance provide something someone anything way ways
    specific specifically various additional interested wondering curious detailed
    """
)
"""Words of a polite request that say nothing of what is asked for."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in their order, folded, each name as its words.

    >>> split_words("createInvoice: Which HTTPServer?")
    ['create', 'invoice', 'which', 'http', 'server']
    """
    folded = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    return _WORD.findall(_CAMEL.sub(" ", folded).casefold())


def terms(text: str, *, without: Collection[str] = STOP_WORDS) -> list[str]:
    """Return the stems of a text in their order, repeated as they are in it.

    without: folded words that are left out.

    >>> terms("Create the invoices")
    ['creat', 'invoic']
    """
    return [english_stem(word) for word in split_words(text) if word not in without]


def question_terms(text: str) -> list[str]:
    """Return the distinct terms of a question, without stop words and without what politeness adds.

    A question of nothing else is taken at its word.

    >>> question_terms("Could you please help me to create an invoice, an invoice for ACME?")
    ['creat', 'invoic', 'acm']
    >>> question_terms("help")
    ['help']
    """
    words = split_words(text)
    kept = [word for word in words if word not in STOP_WORDS and word not in FILLER]
    return distinct(english_stem(word) for word in (kept or words))


def distinct(words: Iterable[str]) -> list[str]:
    """Return each word once, in the order of its first place."""
    return list(dict.fromkeys(words))


def clauses(text: str, *, least_words: int = 3, most: int = 12) -> list[str]:
    """Return the steps of a request that has several; of one without, the text alone.

    A part of fewer than `least_words` telling words stays with the part before it.

    >>> clauses("Find a flight to Rome, then book a hotel near the station. Thanks!")
    ['Find a flight to Rome', 'book a hotel near the station, Thanks']
    """
    parts: list[str] = []
    for part in map(str.strip, _CLAUSE.split(text)):
        if parts and (len(parts) >= most or telling(part) < least_words or telling(parts[-1]) < least_words):
            parts[-1] = ", ".join(piece for piece in (parts[-1], part) if piece)
        else:
            parts.append(part)
    return parts


def telling(text: str) -> int:
    """Return how many distinct words of a text say what it is about."""
    return len({word for word in split_words(text) if word not in STOP_WORDS and word not in FILLER})


def identifiers(text: str) -> list[str]:
    """Return the words that are written as names in code are, folded and unsplit.

    >>> identifiers("use notes.list or createInvoice, please")
    ['notes.list', 'createinvoice']
    """
    found = (name.rstrip("./:-_") for name in _NAME.findall(text))
    return distinct(name.casefold() for name in found if _SHAPED.search(name))
