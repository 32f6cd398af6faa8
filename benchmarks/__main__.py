"""`python -m benchmarks [NAME ...] [--json FILE]`: run the benchmarks, print one table, and write the figures.

Each benchmark is a module of this package with a `run() -> list[Row]`. A figure that misses its bar is marked,
never left out; a peer that is not installed is named in the remark.
"""

import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.rows import Row

NAMES = (
    *("imports", "first_token", "model_call", "text_delta", "codec_event", "http_delta", "tool_rounds", "many_turns"),
    *("cache_prefix", "counting", "journal", "governed", "durable", "compaction"),
)


def main(names: Sequence[str]) -> int:
    """Run the named benchmarks, all without a name; return 1 where a bar is missed."""
    names, file = _file_of(names)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in names or NAMES:
        began = os.getloadavg()[0]
        found = importlib.import_module(f"benchmarks.{name}").run()
        for row in found:
            row.load = f"{began:.1f}"
            print(row.line(), flush=True)
        rows += found
    print(f"\nPython {platform.python_version()}, {os.cpu_count()} processors; load: at the start of each benchmark\n")
    print("| what | ours | bar | peer | load | |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(row.markdown())
    if file is not None:
        file.write_text(json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1) + "\n", "utf-8")
    return int(any(row.holds is False for row in rows))


def _file_of(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the names, and the file after `--json`."""
    names = list(arguments)
    if "--json" not in names:
        return names, None
    place = names.index("--json")
    file = Path(names[place + 1]) if len(names) > place + 1 else Path("benchmarks.json")
    return names[:place] + names[place + 2 :], file


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
