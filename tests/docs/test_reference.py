"""The list of public names in the documentation is the one of the code."""

from pathlib import Path

import sapwood
from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_is_current() -> None:
    module = load_module(ROOT / "scripts" / "draw_docs.py")
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert module.drawn("reference.md", page) == page, "run `make docs`"


def test_every_public_name_says_what_it_is() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in sapwood._NAMES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert len(row.split("|")[2].strip()) > 8, f"{name} has no docstring"
