"""Words of a text, for keyword search without an index.

Laws: case and punctuation do not matter, in any script; a name such as `createInvoice` or `notes.list` is
its words; Chinese, Japanese and Korean text, which has no blanks, is its characters.
"""

import re
import unicodedata

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


def words(text: str) -> list[str]:
    """Return the words of a text in their order, folded and without plural endings.

    >>> words("createInvoice: Which units?")
    ['create', 'invoice', 'which', 'unit']
    """
    split = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    return [stem(word) for word in _WORD.findall(split.casefold())]


def stem(word: str) -> str:
    """Return an English word without its plural ending, so that `notes` finds `note`.

    >>> [stem(word) for word in ("queries", "notes", "class", "status")]
    ['query', 'note', 'class', 'status']
    """
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]
