"""CancelToken: a wish to stop, set from anywhere and looked at by a turn.

Law: pure apart from its flag; callbacks are how a runtime hears of it at once.
"""

from collections.abc import Callable

from sapwood.core.errors import RunCancelledError


class CancelToken:
    """A flag that stops a turn. It may be set from any thread, once; it never goes back.

    >>> token = CancelToken()
    >>> token.cancel()
    >>> token.cancelled
    True
    """

    __slots__ = ("_callbacks", "_cancelled", "reason")

    def __init__(self) -> None:
        self._cancelled = False
        self._callbacks: dict[object, Callable[[], None]] = {}
        self.reason = ""

    @property
    def cancelled(self) -> bool:
        """The flag is set."""
        return self._cancelled

    def cancel(self, reason: str = "") -> None:
        """Set the flag and tell whoever listens."""
        if self._cancelled:
            return
        self.reason = reason
        self._cancelled = True
        for callback in list(self._callbacks.values()):
            callback()

    def check(self) -> None:
        """Raise RunCancelledError where the flag is set."""
        if self._cancelled:
            raise RunCancelledError(self.reason or "the turn was cancelled")

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call this when the flag is set, at once if it is; return the function that stops listening."""
        key = object()
        self._callbacks[key] = callback
        if self._cancelled:
            callback()
        return lambda: self._callbacks.pop(key, None) and None
