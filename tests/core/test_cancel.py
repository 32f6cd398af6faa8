"""A wish to stop: set once, heard by everyone."""

import pytest

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import RunCancelledError


def test_a_cancel_token_tells_each_listener_once_and_late_ones_at_once() -> None:
    token = CancelToken()
    heard: list[str] = []
    token.listen(lambda: heard.append("first"))
    silence = token.listen(lambda: heard.append("never"))
    silence()
    silence()
    token.check()
    token.cancel("enough")
    token.cancel("again")
    assert heard == ["first"]
    token.listen(lambda: heard.append("late"))
    assert heard == ["first", "late"]
    assert (token.cancelled, token.reason) == (True, "enough")
    with pytest.raises(RunCancelledError, match="enough"):
        token.check()


def test_a_token_cancelled_without_a_reason_says_so_all_the_same() -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(RunCancelledError, match="the turn was cancelled"):
        token.check()
