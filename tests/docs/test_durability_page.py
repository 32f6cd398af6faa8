"""What docs/durability.md promises is proved by the tests that it names."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")


def test_every_promise_names_tests_that_exist() -> None:
    promises = [line for line in PAGE.splitlines() if re.match(r"\| \d \|", line)]
    assert len(promises) == 7
    for line in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line)
        assert named, line
        for path, name in named:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"
