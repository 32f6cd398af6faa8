"""The React hook, its package and its example: their own tests, run from here, and on the first Python only."""

import os
import sys
from pathlib import Path

import pytest

from support.examples import FEW
from support.web import ensure_browser, npm

ROOT = Path(__file__).parent.parent.parent
REACT = ROOT / "packages" / "react"
EXAMPLE = ROOT / "examples" / "react_chat"

pytestmark = pytest.mark.skipif(bool(os.environ.get(FEW)), reason="the first Python has run them")


@pytest.mark.timeout(500)
@pytest.mark.parametrize("react", ["react-19", "react-18"])
def test_the_hook_passes_its_own_tests(react: str) -> None:
    told = npm(REACT, "exec", "--", "vitest", "run", "--no-color", "--project", react, timeout=400)
    assert react in told


@pytest.mark.timeout(500)
def test_the_types_of_the_hook_and_of_its_tests_fit_together() -> None:
    npm(REACT, "run", "check", timeout=400)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_npm_pack_makes_is_installed_checked_and_built_in_a_fresh_project() -> None:
    assert "ok " in npm(REACT, "run", "test:pack", timeout=500)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_example_talks_to_its_agent_in_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_CHROMIUM", ensure_browser())
    monkeypatch.setenv("PYTHON", sys.executable)
    npm(REACT, "run", "build")
    assert npm(EXAMPLE, "test", timeout=500).count("ok  ") == 9
