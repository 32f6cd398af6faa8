"""Which records go into a prompt, when there is room for a number of tokens.

Laws: records are taken in their order of rank; one that does not fit is left out alone, and later, smaller ones are
still taken; where one fits at all, the answer is not empty; what stands around a hit comes only after every hit.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
BY_SIZE = 0.25
"""Set on the two conversations for tuning: long texts are held back a little."""


class Piece(msgspec.Struct, Generic[T], frozen=True):
    """What may go into the room.

    item: what it stands for, compared to tell what is in already. value: above 0, how much it is worth. text: as it is
    shown. around: what stands next to it, nearest first, as its own pieces.
    """

    item: T
    value: float
    text: str
    around: tuple["Piece[T]", ...] = ()


def pack(
    pieces: Iterable[Piece[T]], room: int, count: Callable[[str], int], *, by_size: float = BY_SIZE
) -> list[Piece[T]]:
    """Return the pieces that go into the room, best first, and after them what stands around those, as far as it fits.

    pieces: best first. count: text -> tokens; called once for each piece. by_size: how much a piece's size is held
    against it: 0 takes them in their order, 1 by value for each token.

    >>> pieces = [Piece("a", 1.0, "x" * 40), Piece("b", 0.9, "x" * 400), Piece("c", 0.5, "x" * 40)]
    >>> [piece.item for piece in pack(pieces, 20, lambda text: len(text) // 4)]
    ['a', 'c']
    """
    sized = [(piece, max(1, count(piece.text))) for piece in pieces]
    if by_size:
        sized.sort(key=lambda pair: -pair[0].value / pair[1] ** by_size)
    kept: list[Piece[T]] = []
    for piece, size in sized:
        if size <= room:
            kept.append(piece)
            room -= size
    # First the nearest of each hit, then the next ones: what is further away tells less.
    deepest = max((len(piece.around) for piece in kept), default=0)
    for near in [hit.around[depth] for depth in range(deepest) for hit in kept if depth < len(hit.around)]:
        if all(near.item != other.item for other in kept) and (size := max(1, count(near.text))) <= room:
            kept.append(near)
            room -= size
    return kept
