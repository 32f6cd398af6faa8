"""grow: chunks that were found, with their neighbours, as passages that fill a room.

Laws: a passage is a run of chunks of one document, so nothing is shown twice; passages of a document come in its order,
documents in the order of their best chunk; what is returned fits in the room, by the counts that were asked.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

Place: TypeAlias = tuple[str, int]
"""A chunk: its document, and its number there, counted from 0."""

FADING = 0.6
"""What a neighbour of a chunk counts against it, and the neighbour of that one again."""


class Passage(msgspec.Struct, frozen=True):
    """Chunks `first` to `last` of a document, both of them in it. score: that of the best one."""

    document: str
    first: int
    last: int
    score: float


def grow(
    hits: Mapping[Place, float],
    room: int,
    *,
    tokens: Callable[[str, int, int], int],
    length: Callable[[str], int],
    fading: float = FADING,
) -> list[Passage]:
    """Return the hits, and as many of the chunks around them as the room takes, merged where they touch.

    The best go in first; a chunk that does not fit is left out, and smaller ones may still go in. hits: scores by
    place. room: tokens. tokens: document, first, last -> the tokens of that passage. length: document -> its chunks.

    >>> grow({("a", 1): 0.9}, 20, tokens=lambda document, first, last: 10 * (last - first + 1), length=lambda _: 3)
    [Passage(document='a', first=0, last=1, score=0.9)]
    """
    waiting = [(-score, document, number) for (document, number), score in hits.items()]
    heapq.heapify(waiting)
    runs: dict[str, list[tuple[int, int]]] = {}
    sizes: dict[tuple[str, int, int], int] = {}
    seen: set[Place] = set()
    while waiting and room > 0:
        value, document, number = heapq.heappop(waiting)
        if (document, number) in seen:
            continue
        seen.add((document, number))
        own = runs.get(document, [])
        touched = [run for run in own if run[0] <= number + 1 and number - 1 <= run[1]]
        first = min((number, *(run[0] for run in touched)))
        last = max((number, *(run[1] for run in touched)))
        cost = tokens(document, first, last) - sum(sizes[document, *run] for run in touched)
        if cost > room:
            continue
        room -= cost
        sizes[document, first, last] = cost + sum(sizes[document, *run] for run in touched)
        runs[document] = [*(run for run in own if run not in touched), (first, last)]
        for beside in (number - 1, number + 1):
            if 0 <= beside < length(document) and (document, beside) not in seen:
                heapq.heappush(waiting, (value * fading, document, beside))
    return _in_order(runs, hits)


def _in_order(runs: Mapping[str, list[tuple[int, int]]], hits: Mapping[Place, float]) -> list[Passage]:
    found = [
        [Passage(document, first, last, _best(hits, document, first, last)) for first, last in sorted(own)]
        for document, own in runs.items()
    ]
    return [passage for own in sorted(found, key=lambda own: -max(item.score for item in own)) for passage in own]


def _best(hits: Mapping[Place, float], document: str, first: int, last: int) -> float:
    return max((hits.get((document, number), 0.0) for number in range(first, last + 1)), default=0.0)
