"""Words of a text, for keyword search without an index.

Laws: case and punctuation do not matter, in any script; a name such as `createInvoice` or `notes.list` is
its words; Chinese, Japanese and Korean text, which has no blanks, is its characters.
"""

import re
import unicodedata

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\\W_\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


def words(text: str) -> list[str]:
    """Return the words of a text in their order, folded.

    >>> words("createInvoice: Which units?")
    ['create', 'invoice', 'which', 'units']
    """
    split = _CAMEL.sub(" ", unicodedata.normalize("NFKC", text))
    return [stem(word) for word in _WORD.findall(split.casefold())]


def stem(word: str) -> str:
    """Return a word as it is: the seam for a stemmer."""
    return word
