"""Draw the loop's state table into docs/architecture.md from the rows of decide, or check that it is current.

Each row of `decide` stands under a comment `# what the run shows | action`; nothing else is read.
"""

import inspect
import re
import sys
from pathlib import Path

from sapwood.core.decide import decide

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
START, END = "<!-- decide: begin -->", "<!-- decide: end -->"
_ROW = re.compile(r"^    # (?P<shows>.+) \| (?P<action>.+)$", re.MULTILINE)


def table() -> str:
    """Return the table as Markdown."""
    rows = [(found["shows"], found["action"]) for found in _ROW.finditer(inspect.getsource(decide))]
    lines = ["| # | the run shows | action |", "|---|---|---|"]
    lines += [f"| {number} | {shows} | `{action}` |" for number, (shows, action) in enumerate(rows, 1)]
    return "\n".join(lines)


def drawn(page: str) -> str:
    """Return the page with the table of today in its place; raises ValueError without the two marks."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the page has no {START} ... {END}")
    return f"{before}{START}\n{table()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    fresh = drawn(page)
    if "--check" in arguments:
        if fresh != page:
            print("docs/architecture.md is not current; run `make docs`", file=sys.stderr)
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
