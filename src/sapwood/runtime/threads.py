"""Plain functions in worker threads, one thread for each call, with the caller's context variables.

Law: a plain function cannot be stopped. At its limit, or when the turn is closed, its thread is abandoned and
named in a log line, and its late value is dropped. Threads are daemons, so they never hold up the process.
"""

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Worker(Generic[T]):
    """One call in a thread of its own.

    on_done: called from that thread once there is an outcome.
    """

    def __init__(self, step: str, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        self._step = step
        self._fn = fn
        self._args = args
        self._context = contextvars.copy_context()
        self._done = threading.Event()
        self._on_done: Callable[[], None] | None = None
        self._value: T
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"sapwood-{step}", daemon=True)

    def start(self, on_done: Callable[[], None] | None = None) -> None:
        """Begin."""
        self._on_done = on_done
        self._thread.start()

    def wait(self, timeout: float | None) -> bool:
        """Wait for the outcome; False past the time-out, in seconds."""
        return self._done.wait(timeout)

    def result(self) -> T:
        """Return what the function returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def abandon(self, why: str) -> None:
        """Leave the thread to itself."""
        self._on_done = None
        if not self._done.is_set():
            _log.warning("abandoned thread %r: %s; what it returns is dropped", self._thread.name, why)

    def _work(self) -> None:
        try:
            self._value = self._context.run(self._fn, *self._args)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, who re-raises it
            self._error = error
        self._done.set()
        if (notify := self._on_done) is not None:
            notify()
