"""CacheWatch: notices when a provider's prompt cache is no longer hit, and finds what moved.

Laws: a request is only kept by reference, and looked into only once the cache was missed; nothing is said of a
cache that may have expired, nor of another conversation.
"""

import logging
from collections.abc import Sequence

import msgspec

from sapwood.core.model import CacheTtl, ModelRequest
from sapwood.core.usage import Usage

log = logging.getLogger("sapwood.loop")
SECONDS: dict[CacheTtl, float] = {"5m": 300.0, "1h": 3_600.0}
LEAST_TOKENS = 1_024
"""A smaller cached prefix is worth no warning."""


class _Seen(msgspec.Struct, frozen=True):
    request: ModelRequest
    cached_tokens: int
    at: float


class CacheWatch:
    """What the last request to each model had in the cache.

    It belongs to whoever holds it (an Agent holds one for all its turns), not to a turn.
    """

    __slots__ = ("_seen", "_warned")

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._warned = ""

    def note(self, origin: str, request: ModelRequest, usage: Usage, *, now: float, run_id: str) -> str | None:
        """Take a reply into account; return the warning that was logged where less than half of the cache was hit.

        now: seconds of a clock that only rises. run_id: of each turn, one warning is logged.
        """
        before = self._seen.get(origin)
        cached = usage.cache_read_tokens + usage.cache_creation_tokens
        self._seen[origin] = _Seen(request, cached, now)
        if before is None or before.cached_tokens < LEAST_TOKENS or request.cache is None:
            return None
        if now - before.at > SECONDS[request.cache.ttl] or usage.cache_read_tokens * 2 >= before.cached_tokens:
            return None
        place = first_difference(before.request, request)
        if place == "message 0" or self._warned == run_id:
            return None
        self._warned = run_id
        text = f"{origin} read {usage.cache_read_tokens} of {before.cached_tokens} cached prompt tokens; " + (
            f"the first difference is at {place}" if place else "the requests agree, so the provider dropped it"
        )
        log.warning("%s", text)
        return text


def first_difference(before: ModelRequest, after: ModelRequest) -> str:
    """Return where a request stops being a continuation of the one before it, empty where it is one.

    >>> from sapwood.core.transcript import Transcript
    >>> first_difference(ModelRequest(Transcript(), ("Be brief.",)), ModelRequest(Transcript(), ("Be kind.",)))
    'system text 0, character 3'
    """
    for number, (old, new) in enumerate(zip(before.tools, after.tools, strict=False)):
        if old != new:
            return f"tool {number} ({new.name})"
    if len(before.tools) != len(after.tools):
        return f"tool {min(len(before.tools), len(after.tools))}: {len(before.tools)} became {len(after.tools)}"
    place = _in_texts(before.system, after.system)
    if place:
        return place
    for number in range(len(before.transcript)):
        if number >= len(after.transcript) or before.transcript[number] != after.transcript[number]:
            return f"message {number}"
    return ""


def _in_texts(before: Sequence[str], after: Sequence[str]) -> str:
    for number, old in enumerate(before):
        new = after[number] if number < len(after) else ""
        if old != new:
            same = next((n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
            return f"system text {number}, character {min(len(old), len(new)) if same is None else same}"
    return f"system text {len(before)}, character 0" if len(after) > len(before) else ""
