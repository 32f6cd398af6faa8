"""One figure of the table, and how CPU time is taken."""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass
class Row:
    """One figure. holds: it meets its bar; None where there is none. figures: the same as plain numbers, for the file."""

    what: str
    ours: str
    bar: str = ""
    peer: str = ""
    holds: bool | None = None
    remark: str = ""
    load: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def line(self) -> str:
        """The figure as a line of text."""
        mark = {True: "holds", False: "MISSED", None: ""}[self.holds]
        return f"{self.what}: {self.ours}  (bar {self.bar or '-'}; peer {self.peer or '-'}; load {self.load}) {mark} {self.remark}"

    def markdown(self) -> str:
        """The figure as a row of a table."""
        mark = {True: "✓", False: "✗ missed", None: ""}[self.holds]
        return f"| {self.what} | {self.ours} | {self.bar} | {self.peer} | {self.load} | {mark} {self.remark} |"


def cpu_of(code: str, *, runs: int = 7, env: dict[str, str] | None = None) -> float:
    """Return the least CPU seconds, of several runs, that a fresh interpreter takes for this code."""
    best = float("inf")
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=ROOT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def compiled() -> None:
    """Compile the package, as installing it does; a checkout may run with bytecode turned off."""
    import compileall

    compileall.compile_dir(ROOT / "src" / "sapwood", quiet=2)


def cpu_around(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that the work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def median(values: list[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def has(module: str) -> bool:
    """Tell whether a peer is installed."""
    from importlib.util import find_spec

    return find_spec(module) is not None
