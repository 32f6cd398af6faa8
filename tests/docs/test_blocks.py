"""Every code block of README.md and docs/*.md runs as printed, offline, without a key, with warnings as errors."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNER = Path(__file__).parent / "page_runner.py"


runner = load_module(RUNNER)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_as_printed(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(RUNNER), str(page)],
        cwd=tmp_path,
        env=runner.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_does_not_run_says_why(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```") % 2 == 0, "a fence is not closed"
    for block in runner.blocks(text):
        # What is tsx, the tests of packages/react type-check.
        assert block.kind in {"python", "no-run", "output", "console", "sh", "text", "toml", "json", "tsx"}, block.line
        assert block.kind != "no-run" or len(block.reason) > 8, f"line {block.line} gives no reason"
        assert block.kind != "python" or not block.reason, f"line {block.line}: {block.reason!r} means nothing"
        if block.kind in ("python", "no-run"):
            compile(block.code, f"{page.name}:{block.line}", "exec", dont_inherit=True)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "AGENTS.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{target} is not there"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{target} is not there"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_a_page_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="the page shows"):
        runner.run(page)
