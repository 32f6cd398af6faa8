"""What it costs to keep and to find memories: in a large store, in a large scope, at opening, and for one durable save.

SAPWOOD_BENCH_FULL=1 adds a store of a million records, which takes long to fill.
"""

import gc
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from benchmarks.journal import fsyncs
from benchmarks.rows import Row, cpu_of, median
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.memory import Memory
from sapwood.stores.sqlite import SqliteStore

USERS, IN_SCOPE, RECORDS = 10_000, 1_000, 100_000
QUERIES, SAVES, WIDTH = 200, 200, 256
BAR_MS = {"in process": 2.0, "SQLite": 5.0}
BAR_WORDS_MS, BAR_VECTORS_MS, BAR_TEN_MS, BAR_OPEN_MS, BAR_OVER_FSYNC_MS = 20.0, 60.0, 30.0, 100.0, 1.0
PARTS = ("ba", "ko", "li", "mu", "re", "sa", "ti", "vo", "ne", "du", "fa", "go", "hy", "je", "ka", "lo", "mi")
WORDS = ["".join((a, b, c, d)) for a in PARTS for b in PARTS for c in PARTS for d in ("n", "l", "r", "t")]
# How often words are said: as in the content words of a language, the first in about one text of ten.
WEIGHTS = list(accumulate(1 / (rank + 20) for rank in range(len(WORDS))))


class Hashed:
    """Vectors of 256 numbers, the same for the same text in every process; what they mean does not matter here."""

    name = "hashed/256"

    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self._words: dict[str, Any] = {}

    def _word(self, word: str) -> Any:
        if word not in self._words:
            self._words[word] = self._numpy.random.default_rng(list(word.encode())).standard_normal(
                WIDTH, dtype="float32"
            )
        return self._words[word]

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the sum of the vectors of the words."""
        return self._numpy.stack(
            [sum(map(self._word, text.split()), self._numpy.zeros(WIDTH, "float32")) for text in texts]
        )


def text(chance: random.Random) -> str:
    """Return a text of 12 words, of which a few are common and most are rare."""
    return " ".join(chance.choices(WORDS, cum_weights=WEIGHTS, k=12))


def fill(memory: Memory, count: int, chance: random.Random, user: str | None = None) -> None:
    """Save many records: of one user, or of ten thousand."""
    batch = 1_000
    for start in range(0, count, batch):
        if user is not None:
            memory.scoped(user=user).save_many([record(chance, start + number) for number in range(batch)])
        else:
            for number in range(0, batch, 10):
                owner = f"u{(start + number) // 10 % USERS}"
                memory.scoped(user=owner).save_many([record(chance, start + number + more) for more in range(10)])


def record(chance: random.Random, number: int) -> dict[str, Any]:
    """Return a record that is like no other."""
    return {"text": f"{text(chance)} n{number}", "kind": "fact"}


def recalls(memory: Memory, count: int = QUERIES, seed: int = 7) -> list[float]:
    """Return the CPU milliseconds of recalls, of three to five words each."""
    chance = random.Random(seed)
    times: list[float] = []
    for _ in range(count):
        words = text(chance).split()[: chance.randint(3, 5)]
        began = time.process_time()
        memory.search(" ".join(words), k=10)
        times.append((time.process_time() - began) * 1e3)
    return times


def shown(times: list[float]) -> tuple[str, float]:
    """Return the median and the 95th percentile in words, and the median."""
    return f"{median(times):.2f} / {sorted(times)[int(len(times) * 0.95)]:.2f} ms of CPU", median(times)


def row(what: str, times: list[float], bar: float | None, remark: str = "") -> Row:
    """Return a row of recalls."""
    ours, middle = shown(times)
    p95 = sorted(times)[int(len(times) * 0.95)]
    holds = None if bar is None else p95 <= bar
    return Row(
        what,
        ours,
        f"p95 ≤ {bar:.0f} ms" if bar is not None else "",
        "",
        holds,
        remark,
        figures={"p50": middle, "p95": p95},
    )


def stores(folder: Path, embedder: Any = None) -> Iterator[tuple[str, Any, Any]]:
    """Yield each kind of store, with a function that opens the same once more."""
    memory = InProcessStore(embedder)
    yield "in process", memory, None
    path = folder / "memories.db"
    with SqliteStore(path, embedder=embedder) as store:
        yield "SQLite", store, lambda: SqliteStore(path, embedder=embedder)


def many_users(folder: Path) -> Iterator[Row]:
    """Recall in one scope of a store of many."""
    for name, store, opened in stores(folder):
        chance = random.Random(1)
        began = time.process_time()
        fill(store.memory, RECORDS, chance)
        took = time.process_time() - began
        fill(store.memory, IN_SCOPE, chance, "ann")
        ann = store.memory.scoped(user="ann")
        remark = f"filled at {RECORDS / took:,.0f} records a CPU second"
        gc.collect()
        yield row(
            f"recall among {IN_SCOPE:,} of one user in {RECORDS:,} of {USERS:,}, {name}, p50 / p95",
            recalls(ann),
            BAR_MS[name],
            remark,
        )
        if opened is not None:
            yield opening(folder / "memories.db")
        del ann, store


def opening(path: Path) -> Row:
    """Open a filled file, in a process of its own, and say what that adds to importing."""
    load = "from sapwood.stores.sqlite import SqliteStore; "
    bare = cpu_of(load)
    with_open = cpu_of(f"{load}SqliteStore({str(path)!r}).memory.scoped(user='u1').get('x')")
    ms = max(0.0, with_open - bare) * 1e3
    size = path.stat().st_size / 1024 / 1024
    return Row(
        f"open a file of {RECORDS:,} records, first look",
        f"{ms:.0f} ms of CPU",
        f"≤ {BAR_OPEN_MS:.0f} ms",
        "",
        ms <= BAR_OPEN_MS,
        f"{size:,.0f} MB",
    )


def one_scope(folder: Path, count: int, bars: tuple[float | None, float]) -> Iterator[Row]:
    """Recall where all records are those of one user, by words, then with vectors, cold and warm."""
    for name, store, opened in stores(folder, Hashed()):
        fill(store.memory, count, random.Random(2), "ann")
        yield from _one_scope(name, store, count, bars, opened)
        del store


def _one_scope(name: str, store: Any, count: int, bars: tuple[float | None, float], opened: Any) -> Iterator[Row]:
    where = f"recall among {count:,} of one user, {name}"
    gc.collect()
    if opened is None:
        words = Memory(type(store.memory._home)(store._memories))
        yield row(f"{where}, words, p50 / p95", recalls(words.scoped(user="ann"), 50), bars[0])
    else:
        with SqliteStore(store.path) as plain:
            yield row(f"{where}, words, p50 / p95", recalls(plain.memory.scoped(user="ann"), 50), bars[0])
    ann = store.memory.scoped(user="ann")
    began = time.process_time()
    ann.search("badan", k=10)
    cold = (time.process_time() - began) * 1e3
    yield row(f"{where}, with vectors, p50 / p95", recalls(ann, 50), bars[1], f"cold {cold:.0f} ms")


def saves(folder: Path) -> Row:
    """Save one by one, in turns with bare writes, so that both meet the same disk."""
    ours: list[float] = []
    bare: list[float] = []
    chance = random.Random(3)
    with SqliteStore(folder / "saves.db") as store:
        ann = store.memory.scoped(user="ann")
        fill(store.memory, 1_000, chance, "ann")
        cpu = 0.0
        for number in range(SAVES):
            bare += fsyncs(folder, 1)
            item = f"{text(chance)} m{number}"
            began, before = time.perf_counter(), time.process_time()
            ann.save(item)
            ours.append((time.perf_counter() - began) * 1e3)
            cpu += (time.process_time() - before) * 1e3 / SAVES
    over = median(ours) - median(bare)
    return Row(
        "one durable save",
        f"{median(ours):.2f} ms",
        f"≤ write and fsync + {BAR_OVER_FSYNC_MS:.0f} ms",
        f"write and fsync {median(bare):.2f} ms",
        over <= BAR_OVER_FSYNC_MS,
        f"{over:+.2f} ms",
    )


def million(folder: Path) -> Iterator[Row]:
    """Recall in one scope of a store of a million."""
    with SqliteStore(folder / "million.db") as store:
        fill(store.memory, 1_000_000, random.Random(4))
        fill(store.memory, IN_SCOPE, random.Random(5), "ann")
        size = (folder / "million.db").stat().st_size / 1024 / 1024
        yield row(
            f"recall among {IN_SCOPE:,} of one user in 1,000,000 of {USERS:,}, SQLite, p50 / p95",
            recalls(store.memory.scoped(user="ann")),
            None,
            f"{size:,.0f} MB",
        )


def run() -> list[Row]:
    """Measure in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as name:
        folders = [Path(name) / part for part in ("users", "ten", "hundred", "saves", "million")]
        for folder in folders:
            folder.mkdir()
        rows = [*many_users(folders[0])]
        rows += one_scope(folders[1], 10_000, (None, BAR_TEN_MS))
        rows += one_scope(folders[2], 100_000, (BAR_WORDS_MS, BAR_VECTORS_MS))
        rows.append(saves(folders[3]))
        if os.environ.get("SAPWOOD_BENCH_FULL"):
            rows += million(folders[4])
    return rows
