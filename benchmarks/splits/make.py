"""`python -m benchmarks.splits.make`: write which request ids are for tuning, which for reporting and which are past.

The rule is here and its result is committed, so that a figure can be told from one that was tuned on. See README.md.
"""

import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parent.parent.parent / "shared" / "data"
SAMPLE = 3_000
PAST = 20
LOCOMO_DEV = ("conv-26", "conv-30")
"""The conversations that weights may be set on: the first two of five; nothing is ever set on the other three."""


def requests(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the requests of a set that name at least one tool."""
    with gzip.open(folder / name / "queries.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["relevant"]]


def halves(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return ids in two halves, by the first bit of the SHA-256 of each."""
    found: dict[str, list[str]] = {"dev": [], "test": []}
    for row in rows:
        found["dev" if hashlib.sha256(row["id"].encode()).digest()[0] < 128 else "test"].append(row["id"])
    return found


def metatool(folder: Path) -> dict[str, list[str]]:
    """Return halves of 3,000 sampled requests, and past requests of each tool from outside the sample."""
    rows = requests(folder, "metatool")
    sampled = random.Random(0).sample(rows, SAMPLE)
    taken = {row["id"] for row in sampled}
    rest = [row for row in rows if row["id"] not in taken]
    random.Random(0).shuffle(rest)
    past: list[str] = []
    seen: dict[str, int] = {}
    for row in rest:
        (tool, *others) = row["relevant"]
        if not others and seen.get(tool, 0) < PAST:
            seen[tool] = seen.get(tool, 0) + 1
            past.append(row["id"])
    return {**halves(sampled), "past": past}


def sealtools(folder: Path) -> dict[str, list[str]]:
    """Return the set's own dev part, and both its test parts."""
    found: dict[str, list[str]] = {"dev": [], "test": []}
    for row in requests(folder, "sealtools"):
        found["dev" if row["split"] == "dev" else "test"].append(row["id"])
    return found


def livemcp(folder: Path) -> dict[str, list[str]]:
    """Return every request as one to report on: nothing is tuned on this set."""
    return {"dev": [], "test": [row["id"] for row in requests(folder, "livemcp")]}


def locomo(folder: Path) -> dict[str, list[str]]:
    """Return the questions of the two conversations for tuning, and of the three that are only reported on."""
    found: dict[str, list[str]] = {"dev": [], "test": []}
    for row in requests(folder, "locomo"):
        found["dev" if row["conv"] in LOCOMO_DEV else "test"].append(row["id"])
    return found


def chunkeval(folder: Path) -> dict[str, list[str]]:
    """Return halves of the questions, of each of the five documents about one half."""
    with gzip.open(folder / "chunkeval" / "queries.jsonl.gz", "rt", encoding="utf-8") as lines:
        return halves([json.loads(line) for line in lines])


def splits(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return the ids of every set, made from its data."""
    makers = (metatool, sealtools, livemcp, locomo, chunkeval)
    return {maker.__name__: maker(folder) for maker in makers}


if __name__ == "__main__":
    for name, ids in splits(DATA).items():
        (HERE / f"{name}.json").write_text(json.dumps(ids) + "\n", encoding="utf-8")
