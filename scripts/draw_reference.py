"""Draw the list of public names into docs/reference.md from `sapwood.__all__`, or check that it is current.

Names stand under their module; what is said of each is the first line of its docstring.
"""

import importlib
import inspect
import sys
import typing
from pathlib import Path

import sapwood

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
START, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def listing() -> str:
    """Return the public names by module as Markdown."""
    by_module: dict[str, list[str]] = {}
    for name, module in sapwood._NAMES.items():
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


def drawn(page: str) -> str:
    """Return the page with the names of today in their place; raises ValueError without the two marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no {START} ... {END}")
    return f"{before}{START}\n\n{listing()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    fresh = drawn(page)
    if "--check" in arguments:
        if fresh != page:
            print("docs/reference.md is not current; run `make docs`", file=sys.stderr)
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
