"""The page in TypeScript: its own tests, whose output is shown where they fail.

They have nothing to do with the version of Python, so they run on the first one only.
"""

import json
import os
import subprocess
import sys

import pytest

from support.examples import FEW
from support.web import ROOT, ensure_browser, ensure_web

PAGE = ROOT / "packages" / "page"

pytestmark = [
    pytest.mark.skipif(bool(os.environ.get(FEW)), reason="the first Python has run them"),
    pytest.mark.skipif(not (PAGE / "package.json").exists(), reason="web: packages/page is not here"),
    pytest.mark.timeout(600),
]


def run(script: str, **environment: str) -> None:
    """Run a script of the package."""
    done = subprocess.run(
        ["npm", "run", "--silent", script],
        cwd=ensure_web(PAGE),
        env={**os.environ, "CI": "1", "SAPWOOD_PYTHON": sys.executable, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, f"npm run {script} failed:\n{done.stdout[-20_000:]}"


def test_the_parts_of_the_page_pass_their_tests() -> None:
    run("test")


# In parts of less than ten seconds, but for the two with the longest threads and answers.
LONG = ("8/15", "9/15")
PARTS = [
    *(
        pytest.param("test:browser", part, marks=[pytest.mark.soak] if part in LONG else [])
        for part in (f"{number}/15" for number in range(1, 16))
    ),
    *(("test:server", f"{number}/4") for number in range(1, 5)),
]


@pytest.mark.browser
@pytest.mark.parametrize(("script", "part"), PARTS)
def test_the_page_works_in_a_browser(script: str, part: str) -> None:
    assert script in json.loads((PAGE / "package.json").read_text(encoding="utf-8"))["scripts"]
    run(script, SAPWOOD_CHROMIUM=ensure_browser(), SAPWOOD_PART=part)
