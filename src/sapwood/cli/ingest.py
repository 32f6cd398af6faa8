"""`sapwood ingest`: bring the documents of a file or a folder into a store, or up to date.

Laws: what is printed is what was done, or with --dry-run what would be; a file that failed is named with the reason,
and the exit code is then 1; an empty file is no failure; a dry run makes no file.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.retrieval.static_vectors import embedder_for
from sapwood.stores.in_process import create_memory_store
from sapwood.stores.ingest import MAX_BYTES, IngestReport, ingest
from sapwood.stores.sqlite import SqliteStore
from sapwood.stores.walk import IGNORED

SHOWN = 20
_MARKS = (("added", "+"), ("changed", "~"), ("removed", "-"))


def run_ingest(options: argparse.Namespace) -> int:
    """Ingest, print the report and return the exit code; raises SapwoodError for what cannot be done."""
    report = _report(options)
    if options.json:
        print(json.dumps(msgspec.to_builtins(report), ensure_ascii=False, indent=2))
    else:
        for line in lines_of(report, dry_run=options.dry_run):
            print(line)
    return 1 if report.failed else 0


def _report(options: argparse.Namespace) -> IngestReport:
    file = Path(options.db)
    chosen: dict[str, Any] = {
        "namespace": options.namespace,
        "glob": options.glob or "*",
        "ignore": (*IGNORED, *options.ignore),
        "max_bytes": MAX_BYTES if options.max_bytes is None else options.max_bytes,
        "dry_run": options.dry_run,
    }
    if not Path(options.path).exists():  # before a store is made for it
        raise ConfigError(f"there is no file or folder {options.path}")
    if options.dry_run and not file.exists():
        return ingest(options.path, create_memory_store(), **chosen)
    with SqliteStore(file, embedder=embedder_for("auto")) as store:
        return ingest(options.path, store.memory, **chosen)


def lines_of(report: IngestReport, *, dry_run: bool) -> Iterator[str]:
    """Yield a report as lines of text: what changed, what was noted, what failed, and a sum.

    >>> list(lines_of(IngestReport(added=("bees.md",), chunks=2), dry_run=False))
    ['+ bees.md', '1 added, 0 changed, 0 removed, 0 unchanged, 0 failed; 2 chunks written']
    """
    for name, mark in _MARKS:
        yield from _short([f"{mark} {_line(path)}" for path in getattr(report, name)])
    yield from _short([f"? {_line(note.path)}: {note.reason}" for note in report.notes])
    yield from _short([f"? {_line(path)}: it is empty" for path in report.empty])
    yield from (f"! {_line(note.path)}: {note.reason}" for note in report.failed)
    counts = ", ".join(f"{len(getattr(report, name))} {name}" for name in ("added", "changed", "removed", "unchanged"))
    more = f", {len(report.skipped)} skipped (no text)" if report.skipped else ""
    more += f", {len(report.empty)} empty" if report.empty else ""
    written = "would be written" if dry_run else "written"
    yield f"{counts}, {len(report.failed)} failed{more}; {report.chunks} chunks {written}"


def _short(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"{lines[0][0]} and {len(lines) - SHOWN} more (--json has all)"


def _line(path: str) -> str:
    """Return a path as one line, whatever characters are in it."""
    return "".join(char if char.isprintable() else "\ufffd" for char in path)
