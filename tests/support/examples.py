"""How many examples a property is tried with.

All on the first Python; a quarter on the others: examples are the same on each run, so another Python is there to find
what differs between Pythons, and not between examples.
"""

import os
from typing import Any

from hypothesis import settings

FEW = "SAPWOOD_FEW_EXAMPLES"
"""Set by `make test` for every Python after the first."""
LEAST = 10


def examples(count: int, **more: Any) -> settings:
    """Return the settings of a property; more: as of `settings`."""
    return settings(max_examples=max(min(count, LEAST), count // 4) if os.environ.get(FEW) else count, **more)
