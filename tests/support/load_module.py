"""A Python file that belongs to no package, as a module."""

import importlib.util
from pathlib import Path
from typing import Any


def load_module(path: Path) -> Any:
    """Return what the file defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
