"""Fail where the coverage of a part of the library is under its floor: 100 % inside, 95 % elsewhere."""

import json
import sys
from collections import defaultdict
from pathlib import Path

WHOLE = ("core", "context", "loop", "sources")
FLOOR_ELSEWHERE = 95.0


def main(path: str) -> int:
    files = json.loads(Path(path).read_text())["files"]
    lines: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    missing: dict[str, list[str]] = defaultdict(list)
    for name, entry in files.items():
        part = name.split("src/sapwood/")[-1].split("/")[0]
        part = part if part in WHOLE else "elsewhere"
        summary = entry["summary"]
        lines[part][0] += summary["covered_lines"]
        lines[part][1] += summary["num_statements"]
        if entry["missing_lines"]:
            missing[part].append(f"  {name}: {entry['missing_lines']}")
    failed = False
    for part, (covered, total) in sorted(lines.items()):
        share = 100.0 * covered / total if total else 100.0
        floor = 100.0 if part in WHOLE else FLOOR_ELSEWHERE
        good = share >= floor
        failed = failed or not good
        print(f"coverage of {part}: {share:.2f} % (floor {floor:.0f} %){'' if good else '  TOO LOW'}")
        if not good:
            print("\n".join(missing[part]))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
