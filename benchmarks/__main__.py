"""`python -m benchmarks [NAME ...]`: run the benchmarks, print one table and write it to build/benchmarks.json.

Each benchmark is a module of this package with a `run() -> list[Row]`. A figure that misses its bar is marked,
never left out; a peer that is not installed is named in the remark.
"""

import dataclasses
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence

from benchmarks.rows import ROOT, Row

NAMES = (
    *("imports", "first_token", "model_call", "text_delta", "codec_event", "http_delta", "tool_rounds", "many_turns"),
    *("cache_prefix", "counting", "journal", "governed", "durable", "tool_search", "compaction", "recall"),
    *("memory_store", "retrieval"),
)
FILE = ROOT / "build" / "benchmarks.json"


def main(names: Sequence[str]) -> int:
    """Run the named benchmarks, all without a name; return 1 where a bar is missed."""
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
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(
        json.dumps([dataclasses.asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return int(any(row.holds is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
