"""What a search reads of the records within a scope, whatever store they are in.

Laws: only what may be recalled is indexed here: what is superseded, quarantined or deleted has no postings; an entry
of a posting says all that a first score needs, so that the record itself is read for the best few alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

IS_QUESTION = 1
"""Flag of a record: its text ends as a question does."""
HAS_TIME = 2
"""Flag of a record: its text names a time: a date, a weekday, `yesterday`."""
TEXT, TITLE = 0, 1
"""The fields of a record."""
MOST_OF_A_TERM = 255
LONGEST_FIELD = 0xFFFF


def entry(number: int, in_text: int, in_title: int, length: int) -> int:
    """Return one entry of a posting: record number, how often the term is in text and title, terms of the record.

    >>> number_of(entry(7, 2, 0, 31)), counts_of(entry(7, 2, 0, 31))
    (7, (2, 0, 31))
    """
    length = min(length, LONGEST_FIELD)
    return number << 32 | length << 16 | min(in_title, MOST_OF_A_TERM) << 8 | min(in_text, MOST_OF_A_TERM)


def number_of(packed: int) -> int:
    """Return the record number of an entry."""
    return packed >> 32


def counts_of(packed: int) -> tuple[int, int, int]:
    """Return how often the term is in text and title, and the length of the record in terms."""
    return packed & 0xFF, packed >> 8 & 0xFF, packed >> 16 & 0xFFFF


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What a score needs of a record beside its words.

    number: unique in the store, larger for a record that was saved later. conversation, speaker: numbers, 0 for none.
    position: place in the conversation, from 1. at: when it was said, in ms since 1970. flags: IS_QUESTION, HAS_TIME.
    """

    number: int
    conversation: int = 0
    position: int = 0
    speaker: int = 0
    at: int = 0
    kind: str | None = None
    flags: int = 0
    importance: float = 0.5


class Meanings(Protocol):
    """How close the records within the scope are to the vector of a question, as two NumPy arrays of one length."""

    @property
    def numbers(self) -> Any:
        """Record numbers, ascending, int64."""
        ...

    @property
    def cosines(self) -> Any:
        """Their cosines, float32."""
        ...


class Corpus(Protocol):
    """The index of the records within one scope, at one moment."""

    @property
    def count(self) -> int:
        """How many records are indexed."""
        ...

    @property
    def total_length(self) -> int:
        """The terms of all of them together, text and title."""
        ...

    def postings(self, term: str) -> Sequence[Sequence[int]]:
        """Return the entries of a term, in chunks, each ascending by record number; empty for an unknown term."""
        ...

    def traits(self, numbers: Collection[int]) -> Mapping[int, Traits]:
        """Return what is known of these records."""
        ...

    def near(self, places: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], Traits]:
        """Return the records at these places, each a conversation's number and a position; those that there are."""
        ...

    def speakers(self) -> Mapping[str, int]:
        """Return the numbers of those who speak in these records, by name as it was given."""
        ...

    def meanings(self, vector: Sequence[float]) -> Meanings | None:
        """Compare with a vector of unit length; None where no vectors are kept."""
        ...

    def texts(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Return the texts of these records."""
        ...
