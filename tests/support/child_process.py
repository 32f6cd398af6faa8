"""Children of a test: a script in a process of its own, ended with the test, and what it says line by line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sapwood

SOURCE = Path(sapwood.__file__).parent.parent


@contextmanager
def child_of(script: Path, *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a child, and end it whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line of a child."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
