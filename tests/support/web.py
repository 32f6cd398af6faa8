"""The clients in other languages: found, installed once, and run; skipped with a reason where that is impossible."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "tests" / "web"


@cache
def _installer() -> Any:
    return load_module(ROOT / "scripts" / "install_web.py")


@cache
def _why_not(folder: Path) -> str:
    return str(_installer().why_not_installed(folder))


def ensure_web(folder: Path = WEB) -> Path:
    """Install the packages of a folder, once for each state of its lock file, and return it; or skip the test."""
    if reason := _why_not(folder):
        pytest.skip(f"web: {reason}")
    return folder


def ensure_browser() -> str:
    """Return the path of a browser, or skip the test."""
    found = _installer().find_browser()
    if found is None:
        pytest.skip("web: no browser of the Chromium family is installed (Debian: chromium)")
    return str(found)


def node(script: str, *arguments: Any, stdin: str = "", timeout: float = 100) -> Any:
    """Run a script of `tests/web`, and return the JSON that it prints last."""
    folder = ensure_web()
    done = subprocess.run(
        ["node", script, *map(str, arguments)], cwd=folder, input=stdin, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"{script} failed:\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def npm(folder: Path, *arguments: str, timeout: float = 110) -> str:
    """Run npm in a folder whose packages are installed, and return what it printed; its failure is the test's."""
    ensure_web(folder)
    done = subprocess.run(
        ["npm", *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"npm {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout
