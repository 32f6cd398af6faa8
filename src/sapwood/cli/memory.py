"""`sapwood memory`: look into the memory of a file, and add to it, correct it and forget.

Laws: an action reaches the scope that was given, and no other; to forget everything of a file has to be said.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord
from sapwood.stores.memory import Memory
from sapwood.stores.sqlite import SqliteStore

ID = 8
"""So many characters of an id are shown; the beginning of an id will do wherever one is asked for."""
NEW = frozenset({"add", "import"})
"""Actions that make a file where there is none."""


def run_memory(options: argparse.Namespace, console: Console | None = None) -> int:
    """Perform one action and return the exit code; raises SapwoodError for what cannot be done."""
    console = console or Console(highlight=False, soft_wrap=True)
    if options.action not in NEW and not Path(options.db).exists():
        raise ConfigError(f"there is no file {options.db}")
    with closing(SqliteStore(options.db, embedder=_embedder(options.vectors))) as store:
        memory = _scoped(store.memory, options)
        action = {
            "add": _add,
            "search": _search,
            "why": _why,
            "list": _list,
            "history": _history,
            "confirm": _confirm,
            "correct": _correct,
            "forget": _forget,
            "export": _export,
            "import": _import,
            "stats": _stats,
            "check": _check,
            "reindex": _reindex,
        }[options.action]
        return action(memory, options, console)


def _embedder(wanted: bool) -> Any:
    if not wanted:
        return None
    from sapwood.retrieval.static_vectors import StaticVectors

    return StaticVectors()


def _scoped(memory: Memory, options: argparse.Namespace) -> Memory:
    namespace = tuple(part for part in (options.namespace or "").split("/") if part)
    return memory.scoped(user=options.user, agent=options.agent, conversation=options.conversation, namespace=namespace)


def _add(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    record = memory.save(options.text, kind=options.kind, origin=options.origin)
    console.print(record.id, markup=False)
    return 0


def _found(memory: Memory, options: argparse.Namespace) -> list[MemoryRecord]:
    return memory.search(options.query, k=options.k, kind=options.kind)


def _search(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    return _shown(_found(memory, options), options, console, "nothing was found")


def _why(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    found = _found(memory, options)
    if options.json:
        return _shown(found, options, console, "")
    for record in found:
        console.print(_line(record), markup=False)
        parts = ", ".join(f"{name} {value:.2f}" for name, value in (record.parts or {}).items())
        console.print(f"    {record.reason or 'no reason was given'} ({parts})", markup=False)
    if not found:
        held = memory.stats()
        console.print(f"nothing was found in {held.current} records that may be recalled", markup=False)
    return 0 if found else 1


def _list(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    return _shown(memory.all(kind=options.kind, limit=options.limit), options, console, "there is nothing")


def _history(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    return _shown(memory.history(_whole_id(memory, options.id)), options, console, "there is nothing")


def _confirm(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    done = memory.confirm(_whole_id(memory, options.id))
    console.print("it is recalled from now on" if done else "it is not in quarantine")
    return 0 if done else 1


def _correct(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    record = memory.correct(_whole_id(memory, options.id), options.text)
    if record is None:
        raise ConfigError(f"there is no record {options.id!r} here")
    console.print(record.id, markup=False)
    return 0


def _forget(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    if options.all == bool(options.id):
        raise ConfigError("give the ids of what is to be forgotten, or --all")
    if options.all:
        count = memory.forget_all(kind=options.kind, everything=options.everything)
    else:
        ids = [_whole_id(memory, start) for start in options.id]
        count = sum(memory.forget(id) for id in ids)
    console.print(f"forgot {count} {'record' if count == 1 else 'records'}, and what was derived from them")
    return 0


def _export(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    lines = (msgspec.json.encode(record).decode() + "\n" for record in memory.export())
    if options.file in (None, "-"):
        sys.stdout.writelines(lines)
        return 0
    with Path(options.file).open("w", encoding="utf-8") as file:
        file.writelines(lines)
    return 0


def _import(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    count = memory.load(_lines(options.file))
    console.print(f"added {count} {'record' if count == 1 else 'records'}")
    return 0


def _lines(path: str) -> Iterator[Any]:
    try:
        with Path(path).open(encoding="utf-8-sig") if path != "-" else sys.stdin as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ConfigError(f"line {number} of {path} is no JSON: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _stats(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    found: dict[str, Any] = msgspec.to_builtins(memory.stats())
    if options.json:
        console.print(json.dumps(found), markup=False)
    else:
        for name, value in found.items():
            console.print(f"{name:12} {'none' if value is None else value}", markup=False)
    return 0


def _check(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    problems = memory.check()
    for problem in problems:
        console.print(problem, markup=False)
    console.print(
        f"{len(problems)} problems; `reindex` makes the index anew" if problems else "index and records agree"
    )
    return 1 if problems else 0


def _reindex(memory: Memory, options: argparse.Namespace, console: Console) -> int:
    console.print(f"indexed {memory.reindex()} records")
    return 0


def _whole_id(memory: Memory, start: str) -> str:
    """Return the id that begins so; raises ConfigError where none does, or several do."""
    if memory.get(start) is not None:
        return start
    found = [record["id"] for record in memory.export() if record["id"].startswith(start)]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise ConfigError(f"{len(found)} records have an id that begins with {start!r}; give more of it")
    raise ConfigError(f"there is no record {start!r} here; `sapwood memory list` shows those that are")


def _shown(records: list[MemoryRecord], options: argparse.Namespace, console: Console, nothing: str) -> int:
    if options.json:
        for record in records:
            console.print(msgspec.json.encode(record).decode(), markup=False)
    else:
        for record in records:
            console.print(_line(record), markup=False)
        if not records and nothing:
            console.print(nothing)
    return 0 if records else 1


def _line(record: MemoryRecord) -> str:
    score = f"{record.score:.2f} " if record.score is not None else ""
    marks = [record.kind or "", "" if record.origin == "user" else record.origin]
    marks += ["quarantined"] * record.quarantined + ["superseded"] * (record.superseded_by is not None)
    named = ", ".join(mark for mark in marks if mark)
    return f"{record.id[:ID]} {score}{' '.join(record.text.split())}{f' ({named})' if named else ''}"
