"""Which errors are worth another try, and how long to wait: a pure rule.

Laws: only before the first chunk was shown; the server's word is honoured up to a cap, beyond which the
error is raised with the time in its message; randomness and time come in as arguments.
"""

import msgspec

from sapwood.core.errors import ConfigError, LLMError

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 8.0


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how long a failed model call is tried again.

    max_retries: tries after the first one. cap_seconds: the longest wait that a server may ask for.
    deadline_seconds: no wait that would end later than this after the first try; None for no such limit.

    >>> RetryPolicy().max_retries
    2
    """

    max_retries: int = 2
    cap_seconds: float = 60.0
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.cap_seconds < 0:
            raise ConfigError("max_retries and cap_seconds must not be negative")


def retry_delay(
    error: BaseException,
    attempt: int,
    random: float,
    *,
    policy: RetryPolicy | None = None,
    elapsed_seconds: float = 0.0,
) -> float | None:
    """Return the seconds to wait before the next try, None to raise the error.

    The wait is 0.5 s doubled with each attempt, up to 8 s, less up to a quarter of it at random; never
    less than the provider asked for. Where that is beyond the cap, the error's message says so.

    attempt: how many tries have failed before this one, from 0. random: from 0 to 1.
    elapsed_seconds: since the first try.

    >>> from sapwood.core.errors import ServerError
    >>> retry_delay(ServerError("down"), 1, 0.0)
    1.0
    """
    policy = policy or RetryPolicy()
    is_transient = error.is_transient if isinstance(error, LLMError) else is_network_error(error)
    if not is_transient or attempt >= policy.max_retries:
        return None
    delay = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(attempt, 16)) * (1 - 0.25 * random)
    asked = error.retry_after_seconds if isinstance(error, LLMError) else None
    if asked is not None and asked > policy.cap_seconds:
        _note(error, f"the provider asks to wait {asked:g} s, more than {policy.cap_seconds:g} s")
        return None
    if asked is not None:
        delay = max(delay, asked)
    if policy.deadline_seconds is not None and elapsed_seconds + delay > policy.deadline_seconds:
        _note(error, f"another try would end after {policy.deadline_seconds:g} s")
        return None
    return delay


def is_network_error(error: BaseException) -> bool:
    """Tell whether an error that is not ours says that the network failed, so that another try may succeed.

    >>> is_network_error(ConnectionResetError()), is_network_error(FileNotFoundError())
    (True, False)
    """
    return isinstance(error, ConnectionError) or type(error) is TimeoutError


def _note(error: BaseException, reason: str) -> None:
    if isinstance(error, LLMError) and reason not in error.message:
        error.message = f"{error.message}; {reason}"
