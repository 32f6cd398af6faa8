"""Run the code of one Markdown page, top to bottom, in one namespace: `python page_runner.py PAGE`.

    ```python            runs; an ```output block directly after it is what it printed, exactly
    ```python no-run     does not run; the rest of the line says why
    ```console           its `$ ` lines run; lines below one are its output, with `...` for anything
    <!-- setup: ... -->  runs too, and a reader does not see it

A Python block that begins with a comment such as `# app.py` is also kept as that file, for the commands below it.
Law: nothing but this machine is reached; a connection elsewhere raises.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_PIECE = re.compile(
    r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```[ ]*$|^<!-- setup:[ ]*\n(?P<setup>.*?)^-->[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# (?P<name>[\w./-]+\.py)\n")
_LOCAL = ("127.0.0.1", "::1", "localhost")


class Block(NamedTuple):
    """One piece of a page. kind: python, output, console, no-run or another word of a fence."""

    kind: str
    code: str
    line: int
    reason: str = ""


def blocks(page: str) -> list[Block]:
    """Return the pieces of a page that are code or output, in their order."""
    found: list[Block] = []
    for match in _PIECE.finditer(page):
        kind, _, rest = (match["info"] or "").strip().partition(" ")
        line = page.count("\n", 0, match.start()) + 1
        if match["setup"] is not None:
            found.append(Block("python", match["setup"], line))
        elif kind == "python" and rest.startswith("no-run"):
            found.append(Block("no-run", match["code"], line, rest.removeprefix("no-run").strip(" :")))
        else:
            found.append(Block(kind, match["code"], line, rest))
    return found


def run(path: Path) -> None:
    """Run a page in the current folder; raise at the first thing that is not as printed."""
    sys.addaudithook(_stay_here)
    sys.path.insert(0, str(Path.cwd()))
    names: dict[str, Any] = {"__name__": "__main__"}
    pieces = blocks(path.read_text(encoding="utf-8"))
    for place, block in enumerate(pieces):
        if block.kind == "python":
            printed = _python(block, path, names)
            after = pieces[place + 1] if place + 1 < len(pieces) else None
            if after is not None and after.kind == "output":
                _same(after.code, printed, path, after.line)
        elif block.kind == "console":
            _console(block, path)


def _python(block: Block, path: Path, names: dict[str, Any]) -> str:
    if named := _FILE.match(block.code):
        Path(named["name"]).write_text(block.code, encoding="utf-8")
    code = compile("\n" * block.line + block.code, str(path), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def _console(block: Block, path: Path) -> None:
    """Run each command; several of its lines may be joined by a backslash at the end."""
    parts = re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]
    line = block.line
    for part in parts:
        head, _, expected = part.replace("\\\n", "\0").partition("\n")
        command = head.replace("\0", "\\\n")
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise AssertionError(f"{path}:{line}: {command.strip()} failed:\n{done.stdout}{done.stderr}")
        if expected.strip():
            _same(expected.rstrip() + "\n", done.stdout.rstrip() + "\n", path, line)
        line += part.count("\n")


def _same(expected: str, printed: str, path: Path, line: int) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE if "..." in expected else 0
    if not doctest.OutputChecker().check_output(expected, printed, flags):
        raise AssertionError(f"{path}:{line}: the page shows\n{expected}\nand this was printed\n{printed}")


def _stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple) and arguments[1][0] not in _LOCAL:
        raise ConnectionRefusedError(f"a page may not connect to {arguments[1]}")


def environment(folder: Path) -> dict[str, str]:
    """Return an environment without keys and addresses, in which `sapwood` is on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL", "_PROXY"))}
    kept.pop("SAPWOOD_MODEL", None)
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


if __name__ == "__main__":
    run(Path(sys.argv[1]))
