"""Draw what the documentation says of the code into its pages, or check (`--check`) that they are current.

docs/architecture.md: the loop's state table, from the rows of `decide`; each stands there under a comment
`# what the run shows | action`, and nothing else is read. docs/reference.md: the public names, from
`sapwood.__all__`, under their module; what is said of each is the first line of its docstring.
"""

import importlib
import inspect
import re
import sys
import typing
from pathlib import Path

import sapwood
from sapwood._names import NAMES
from sapwood.core.decide import decide

DOCS = Path(__file__).parent.parent / "docs"
_ROW = re.compile(r"^    # (?P<shows>.+) \| (?P<action>.+)$", re.MULTILINE)


def table() -> str:
    """Return the state table as Markdown."""
    rows = [(found["shows"], found["action"]) for found in _ROW.finditer(inspect.getsource(decide))]
    lines = ["| # | the run shows | action |", "|---|---|---|"]
    lines += [f"| {number} | {shows} | `{action}` |" for number, (shows, action) in enumerate(rows, 1)]
    return "\n".join(lines)


def listing() -> str:
    """Return the public names by module as Markdown."""
    by_module: dict[str, list[str]] = {}
    for name, module in NAMES.items():
        by_module.setdefault(module, []).append(name)
    sections = [_section(module, names) for module, names in sorted(by_module.items())]
    return "\n\n".join(sections)


def _section(module: str, names: list[str]) -> str:
    loaded = importlib.import_module(module)
    lines = [f"## {module}", "", _cell(_first_line(loaded.__doc__)), "", "| name | |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(said_of(getattr(sapwood, name)))} |" for name in sorted(names, key=str.lower)]
    return "\n".join(lines)


def said_of(value: object) -> str:
    """Return the first line of a docstring; of a union, what it is made of."""
    members = typing.get_args(value)
    if members and not inspect.isclass(value):
        return "one of " + ", ".join(f"`{item.__name__}`" for item in members)
    return _first_line(inspect.getdoc(value))


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# Page -> its mark, and what stands between `<!-- mark: begin -->` and `<!-- mark: end -->`.
PAGES = {"architecture.md": ("decide", table), "reference.md": ("reference", listing)}


def drawn(name: str, page: str) -> str:
    """Return the text of this page with what holds today in its place; raises ValueError without the two marks."""
    mark, draw = PAGES[name]
    start, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"docs/{name} has no {start} ... {end}")
    return f"{before}{start}\n\n{draw()}\n\n{end}{after}"


def main(arguments: list[str]) -> int:
    stale = 0
    for name in PAGES:
        path = DOCS / name
        page = path.read_text(encoding="utf-8")
        fresh = drawn(name, page)
        if "--check" not in arguments:
            path.write_text(fresh, encoding="utf-8")
        elif fresh != page:
            print(f"docs/{name} is not current; run `make docs`", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
