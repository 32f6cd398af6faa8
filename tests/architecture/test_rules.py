"""The rules that no linter knows: sizes, imports, public names, closing of generators, generated pages."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sapwood
from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted((ROOT / "src" / "sapwood").rglob("*.py"))
DOORS = {
    "tool_call.py",
    "gate.py",
    "child.py",
    "output_check.py",
    "manager.py",
    "background.py",
    "app.py",
    "chat.py",
    "guard.py",  # of the server, the door of each request
    "live_runs.py",  # of the server, the door of each run
    "followed.py",  # of the server: a store that fails while a reader waits
    "memory_window.py",
    "embedding.py",  # whatever an embedder raises
}
HEAVY = ("pydantic", "httpx2", "aiohttp", "asyncio", "msgspec", "rich", "griffe")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_has_one_idea(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 500, "no file has more than 500 lines"
    long = [node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno + 1 > 60]
    assert not long, "no function has more than 60 lines"
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module says what it owns"
    assert not re.search(r"\bissue #?\d+|TODO|FIXME", text), "the project speaks of itself alone"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_things_are_documented(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    missing: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node) and not _is_overload(node):
                missing.append(node.name)
            if isinstance(node, ast.ClassDef):
                members = (item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
                missing += [
                    f"{node.name}.{item.name}"
                    for item in members
                    if not item.name.startswith("_") and not ast.get_docstring(item) and not _is_overload(item)
                ]
    assert not missing


def _is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id in ("overload", "setter") for item in node.decorator_list)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_exceptions_are_caught_wide_only_at_the_doors(path: Path) -> None:
    wide: list[int] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ExceptHandler):
            continue
        names = {item.id for item in ast.walk(node.type) if isinstance(item, ast.Name)} if node.type else {"Exception"}
        reraises = any(isinstance(item, ast.Raise) for item in ast.walk(node))
        if "Exception" in names and not reraises:
            wide.append(node.lineno)
    allowed = path.name in DOORS or "/runtime/" in str(path)
    assert allowed or not wide, f"lines {wide} swallow everything"


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.parent.name in ("loop", "context", "agent")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_an_async_generator_is_entered_with_aclosing(path: Path) -> None:
    """In the loop and the context, `async for` runs over a name that `aclosing` bound, never over a call."""
    bad = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AsyncFor) and isinstance(node.iter, ast.Call)
    ]
    assert not bad


def test_public_names_are_those_of_the_table_and_all_import() -> None:
    names = set(sapwood.__all__) - {"__version__"}
    assert names == set(sapwood._NAMES)
    for name in sorted(names):
        assert getattr(sapwood, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        sapwood.no_such_name


def test_every_public_name_is_in_the_documentation() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
    pages += (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in sorted(sapwood._NAMES) if not re.search(rf"\b{name}\b", pages)]
    assert not missing


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, sapwood; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_agent_imports_no_http_client_no_pydantic_and_no_event_loop() -> None:
    code = (
        "import sys, sapwood; sapwood.Agent; print([n for n in ('pydantic', 'httpx2', 'asyncio') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_state_table_in_the_documentation_is_current() -> None:
    module = load_module(ROOT / "scripts" / "draw_docs.py")
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert module.drawn("architecture.md", page) == page
    assert module.table().count("\n") >= 10


def test_the_types_of_the_wire_in_typescript_are_current() -> None:
    module = load_module(ROOT / "scripts" / "draw_types.py")
    assert module.main(["--check"]) == 0, "run `python scripts/draw_types.py`"
    assert module.drawn().count("export ") > 40


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "AGENTS.md", "LICENSE"])
def test_the_newcomers_pages_are_there(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()
