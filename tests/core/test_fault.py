"""Fault points cost nothing until somebody watches them."""

from sapwood.core.fault import point, watch


def test_a_point_that_nobody_watches_does_nothing() -> None:
    assert point("example.reached") is None


def test_whoever_watches_is_told_of_every_visit_and_hands_back_the_one_before() -> None:
    first: list[str] = []
    second: list[str] = []

    assert watch(first.append) is None
    point("a.one")
    before = watch(second.append)
    point("a.two")
    watch(before)
    point("a.three")
    watch(None)
    point("a.four")

    assert (first, second) == (["a.one", "a.three"], ["a.two"])
