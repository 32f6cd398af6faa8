"""What goes into a prompt when there is room for so much."""

from hypothesis import given
from hypothesis import strategies as st

from sapwood.memory.pack import Piece, pack


def size(text: str) -> int:
    return len(text)


def named(pieces: list[Piece[str]]) -> str:
    return "".join(piece.item for piece in pieces)


def test_pieces_are_taken_in_their_order_and_one_too_large_is_left_out_alone() -> None:
    pieces = [Piece("a", 1.0, "xxx"), Piece("b", 0.9, "x" * 50), Piece("c", 0.8, "xxx"), Piece("d", 0.7, "xxxxx")]
    assert named(pack(pieces, 8, size, by_size=0)) == "ac"


def test_size_counts_against_a_piece_as_far_as_it_is_told() -> None:
    pieces = [Piece("a", 1.0, "x" * 16), Piece("b", 0.6, "x")]
    assert [named(pack(pieces, 20, size, by_size=share)) for share in (0.0, 0.25, 1.0)] == ["ab", "ba", "ba"]


def test_a_piece_of_nothing_counts_as_one() -> None:
    assert named(pack([Piece("a", 1.0, ""), Piece("b", 1.0, "")], 1, size)) == "a"


def test_what_stands_around_the_hits_comes_after_all_of_them_nearest_first_and_once() -> None:
    near, far, large = Piece("n", 0.1, "xx"), Piece("f", 0.1, "xx"), Piece("l", 0.1, "x" * 9)
    pieces = [Piece("a", 1.0, "xx", (near, far)), Piece("b", 0.9, "xx", (large, near)), Piece("c", 0.8, "xx", (far,))]
    assert [named(pack(pieces, room, size)) for room in (5, 6, 8, 10, 19)] == ["ab", "abc", "abcn", "abcnf", "abcnlf"]


PIECES = st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 40)), max_size=20)


@given(PIECES, st.integers(0, 100))
def test_the_room_is_kept_and_not_left_empty_where_one_fits(drawn: list[tuple[float, int]], room: int) -> None:
    pieces = [Piece(str(place), value, "x" * length) for place, (value, length) in enumerate(drawn)]
    kept = pack(pieces, room, size)
    assert sum(max(1, size(piece.text)) for piece in kept) <= room
    assert bool(kept) == any(max(1, size(piece.text)) <= room for piece in pieces)
    left = room - sum(max(1, size(piece.text)) for piece in kept)
    assert all(piece in kept or max(1, size(piece.text)) > left for piece in pieces)
