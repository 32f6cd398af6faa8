"""The records that are closest in meaning to a question: the part of a search that needs NumPy.

Laws: imported where there are vectors alone; equal cosines are ordered newest first.
"""

from collections.abc import Iterable

import numpy as np

from sapwood.memory.corpus import Meanings


def closest(meanings: Meanings, most: int, least: float) -> list[int]:
    """Return the numbers of the closest records, closest first, of those that are at least so close."""
    cosines = np.asarray(meanings.cosines)
    numbers = np.asarray(meanings.numbers)
    near = np.flatnonzero(cosines >= least)
    if len(near) > most:
        near = near[np.argpartition(-cosines[near], most)[:most]]
    order = np.lexsort((-numbers[near], -cosines[near]))
    found: list[int] = numbers[near][order].tolist()
    return found


def cosines_of(meanings: Meanings, wanted: Iterable[int]) -> dict[int, float]:
    """Return the cosines of these records, of those that have a vector."""
    numbers = np.asarray(meanings.numbers)
    asked = np.fromiter(wanted, dtype=np.int64)
    places = np.searchsorted(numbers, asked)
    places[places == len(numbers)] = 0
    is_known = numbers[places] == asked
    cosines = np.asarray(meanings.cosines)[places[is_known]]
    return dict(zip(asked[is_known].tolist(), cosines.tolist(), strict=True))
