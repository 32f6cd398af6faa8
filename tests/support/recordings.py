"""A recorded conversation by its name: from the small set, or from the whole one where that is found."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.load_module import load_module

_FILES = load_module(Path(__file__).parents[1] / "llm" / "wire_files.py")


def recording(name: str) -> dict[str, Any]:
    """Return a recording; the test is skipped where only the whole set has it and that is not here."""
    whole = _FILES.whole_set()
    for folder in (_FILES.SMALL, whole):
        if folder is not None and (folder / f"{name}.json").exists():
            document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
            return document
    if whole is not None:
        raise AssertionError(f"there is no recording called {name!r}")
    pytest.skip("the whole set of recordings is not here")
