"""The list of public names in the documentation is the one of the code."""

import importlib.util
from pathlib import Path

import sapwood

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_is_current() -> None:
    spec = importlib.util.spec_from_file_location("draw_reference", ROOT / "scripts" / "draw_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert module.drawn(page) == page, "run `make docs`"


def test_every_public_name_says_what_it_is() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in sapwood._NAMES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert len(row.split("|")[2].strip()) > 8, f"{name} has no docstring"
