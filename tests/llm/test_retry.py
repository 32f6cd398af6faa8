"""Which errors are worth another try, and how long to wait."""

import pytest

from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    LLMError,
    LLMTimeoutError,
    RateLimitError,
    ServerError,
)
from sapwood.llm.retry import RetryPolicy, retry_delay

DOWN = ServerError("down")


@pytest.mark.parametrize(
    ("error", "attempt", "random", "delay"),
    [
        (DOWN, 0, 0.0, 0.5),
        (DOWN, 1, 0.0, 1.0),
        (DOWN, 1, 1.0, 0.75),
        (DOWN, 2, 0.0, None),
        (LLMTimeoutError("late"), 0, 0.0, 0.5),
        (RateLimitError("busy", retry_after_seconds=7), 0, 0.0, 7),
        (RateLimitError("busy", retry_after_seconds=0.1), 0, 0.0, 0.5),
        (RateLimitError("busy", retry_after_seconds=86_400), 0, 0.0, None),
        (RateLimitError("no money", is_transient=False), 0, 0.0, None),
        (AuthenticationError("no"), 0, 0.0, None),
        (LLMError("bad request"), 0, 0.0, None),
        (LLMError("told to retry", is_transient=True), 0, 0.0, 0.5),
        (ValueError("a bug"), 0, 0.0, None),
    ],
)
def test_only_transient_errors_are_tried_again(
    error: Exception, attempt: int, random: float, delay: float | None
) -> None:
    assert retry_delay(error, attempt, random) == delay


def test_waits_grow_up_to_eight_seconds() -> None:
    policy = RetryPolicy(max_retries=1000)
    waits = [retry_delay(DOWN, attempt, 0.0, policy=policy) for attempt in (0, 1, 2, 3, 4, 5, 999)]

    assert waits == [0.5, 1, 2, 4, 8, 8, 8]


def test_a_wait_beyond_the_cap_is_told_in_the_message() -> None:
    error = RateLimitError("busy", retry_after_seconds=90)

    assert retry_delay(error, 0, 0.5) is None
    assert retry_delay(error, 0, 0.5) is None
    assert str(error) == "busy; the provider asks to wait 90 s, more than 60 s"
    assert retry_delay(error, 0, 0.0, policy=RetryPolicy(cap_seconds=100)) == 90


def test_no_wait_ends_after_the_deadline() -> None:
    policy = RetryPolicy(deadline_seconds=10)

    assert retry_delay(DOWN, 0, 0.0, policy=policy, elapsed_seconds=9.5) == 0.5
    assert retry_delay(ServerError("down"), 0, 0.0, policy=policy, elapsed_seconds=9.6) is None


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ConfigError, match="negative"):
        RetryPolicy(max_retries=-1)
