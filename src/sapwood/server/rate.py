"""How often a principal may ask: a bucket that fills again with time."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

MOST_BUCKETS = 10_000


class RateLimit:
    """Lets through so many requests a minute for each key, in bursts of at most a sixth of them.

    >>> limit = RateLimit(60, clock=lambda: 0.0)
    >>> [limit.wait_seconds("ann") for _ in range(11)][-2:]
    [0.0, 1.0]
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_minute / 60
        self._most = max(1.0, per_minute / 6)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        """Take one request of a key; return 0 where it may go on, else the seconds to wait."""
        now = self._clock()
        left, at = self._buckets.pop(key, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second
