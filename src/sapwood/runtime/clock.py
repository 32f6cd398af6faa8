"""Time, chance and ids: what every runtime of this process takes from the system."""

import random
import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The system's clock and sources of chance."""

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def random(self) -> float:
        """A number from 0 to 1."""
        return random.random()

    def new_id(self) -> str:
        """A random id of 32 hexadecimal digits."""
        return uuid.uuid4().hex
