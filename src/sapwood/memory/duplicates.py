"""Records that say the same: all but the best of them are left out of an answer.

Laws: a record is compared with those before it; only records of one kind are the same, and none that differ in a
number, in a "not" or in the order of their words; no more texts are read than it takes to fill the answer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from sapwood.memory.words import words
from sapwood.retrieval.alike import alike


def collapsed(
    texts_of: Callable[[Collection[int]], Mapping[int, str]],
    ordered: Sequence[int],
    kinds: Mapping[int, str | None],
    same: float,
    most: int,
) -> dict[int, tuple[int, ...]]:
    """Return the first records, so many at most, in their order, each with those that say the same.

    same: the share of all words of two texts that both have, from which on they are the same.

    >>> texts = {1: "likes tea.", 2: "Likes  tea", 3: "likes coffee"}
    >>> collapsed(lambda numbers: texts, [3, 2, 1], {1: None, 2: None, 3: None}, 0.9, 5)
    {3: (), 2: (1,)}
    """
    kept: dict[int, tuple[int, ...]] = {}
    known: dict[int, dict[str, None]] = {}
    read: dict[str, dict[str, None]] = {}
    batch = most + most // 2 + 2
    for start in range(0, len(ordered), batch):
        part = ordered[start : start + batch]
        texts = texts_of(part)
        for number in part:
            text = texts.get(number, "")
            own = read.get(text)
            if own is None:
                own = read[text] = dict.fromkeys(words(text))
            twins = (other for other in kept if kinds[other] == kinds[number] and alike(known[other], own, same))
            if own and (twin := next(twins, None)) is not None:
                kept[twin] = (*kept[twin], number)
            elif len(kept) < most:
                kept[number], known[number] = (), own
        if len(kept) >= most:
            break
    return kept
