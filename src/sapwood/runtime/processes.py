"""Processes: a program that is run to its end, with a limit on its time and on what it may say.

Laws: it gets no input and none of this program's environment but what a program needs to start, so no key either; at
the end nothing of its group goes on; what it says beyond the limit is read and dropped, so it is never held up by it.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
_PIECE = 65_536
_TICK_SECONDS = 0.1


class Ended(msgspec.Struct, frozen=True):
    """How a program ended.

    code: its exit code, negative for a signal; None where it was stopped, and why. output, errors: what it said.
    """

    code: int | None
    output: str
    errors: str
    why: str = ""

    @property
    def shown(self) -> str:
        """Both outputs as one text, each under its name."""
        named = (("stdout", self.output), ("stderr", self.errors))
        return "\n".join(f"{name}:\n{text.rstrip()}" for name, text in named if text.strip()) or "(no output)"


def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    most: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Ended:
    """Run a program in a folder and return how it ended.

    most: characters kept of each output, the beginning and the end of it. stopped: asked now and then whether it
    should be ended early.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Ended(None, "", "", f"it could not be started ({reason})")
    with process:
        try:
            return _followed(process, time.monotonic() + seconds, seconds, most, stopped)
        finally:
            _end(process)


def _followed(
    process: subprocess.Popen[bytes], until: float, seconds: float, most: int, stopped: Callable[[], bool]
) -> Ended:
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    outputs = [_Kept(most) for _ in pipes]
    why = ""
    with selectors.DefaultSelector() as selector:
        for pipe, kept in zip(pipes, outputs, strict=True):
            selector.register(pipe, selectors.EVENT_READ, kept)
        while not why and selector.get_map():
            has_ended = process.poll() is not None
            ready = selector.select(0 if has_ended else _TICK_SECONDS)
            for key, _ in ready:
                if not _take(key.fd, key.data):
                    selector.unregister(key.fileobj)
            if has_ended and not ready:
                break  # a program that it left behind holds its outputs open
            why = _stops(process, until, seconds, stopped)
    while not why and process.poll() is None:  # it closed its outputs and goes on
        time.sleep(_TICK_SECONDS)
        why = _stops(process, until, seconds, stopped)
    output, errors = (kept.text for kept in outputs)
    return Ended(None if why else process.returncode, output, errors, why)


def _stops(process: subprocess.Popen[bytes], until: float, seconds: float, stopped: Callable[[], bool]) -> str:
    if process.poll() is not None:
        return ""
    if time.monotonic() >= until:
        return f"it took longer than {seconds:.3g} s"
    return "the turn was cancelled" if stopped() else ""


def _take(pipe: int, kept: "_Kept") -> bool:
    """Read what is there; False where there will be no more."""
    piece = os.read(pipe, _PIECE)
    kept.add(piece)
    return bool(piece)


class _Kept:
    """The beginning and the end of an output."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head, self._tail, self._dropped = b"", b"", 0

    def add(self, piece: bytes) -> None:
        room = self._half - len(self._head)
        self._head += piece[:room]
        tail = self._tail + piece[room:]
        cut = max(0, len(tail) - self._half)
        self._tail, self._dropped = tail[cut:], self._dropped + cut

    @property
    def text(self) -> str:
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[{self._dropped:,} bytes left out]\n{tail}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the program and of what it started."""
    # Where nothing is left of it, there is no such group, or, on macOS, one that may not be touched.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
