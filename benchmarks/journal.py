"""What it costs to keep a run: one durable append, many at once, and the bytes that a long conversation writes."""

import asyncio
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, median
from sapwood import Message, MessageAdded, TurnFinished, TurnStarted
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.run import Run
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.saving import SavingRuntime
from sapwood.stores.sqlite import SqliteStore

TEXT = "word " * 400
EVENT = MessageAdded(message=Message.assistant(TEXT))
PROMPT = Message.user("What is next?")
APPENDS = 300
PRODUCERS, EACH = 50, 60
TURNS = (10, 100, 1_000)
BAR_MS_OVER_FSYNC, BAR_A_SECOND, BAR_GROWTH = 1.0, 3_000, 1.2


def begun(store: SqliteStore, run_id: str) -> tuple[int, int]:
    """Begin a run; return its fence and version."""
    fence = store.runs.begin(run_id, None, 0, PROMPT)
    return fence, store.runs.append(run_id, [TurnStarted(run_id=run_id, prompt=PROMPT)], after=0, fence=fence)


def fsyncs(folder: Path, count: int) -> list[float]:
    """Return the milliseconds that a bare write of as many bytes takes until it is on the disk."""
    times: list[float] = []
    with (folder / "bare").open("ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(TEXT.encode())
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return times


def one_by_one(folder: Path) -> Row:
    """Append from one thread, in turns with the bare writes, so that both meet the same disk."""
    ours: list[float] = []
    bare: list[float] = []
    with SqliteStore(folder / "one.db") as store:
        fence, version = begun(store, "r")
        for _ in range(APPENDS):
            bare += fsyncs(folder, 1)
            began = time.perf_counter()
            version = store.runs.append("r", [EVENT], after=version, fence=fence)
            ours.append((time.perf_counter() - began) * 1e3)
    over = median(ours) - median(bare)
    return Row(
        "one durable append of 2 kB",
        f"{median(ours):.2f} ms",
        f"≤ write and fsync + {BAR_MS_OVER_FSYNC:.0f} ms",
        f"write and fsync {median(bare):.2f} ms",
        over <= BAR_MS_OVER_FSYNC,
        f"{over:+.2f} ms; slowest of 100: {sorted(ours)[int(APPENDS * 0.99)]:.1f} ms, bare {sorted(bare)[int(APPENDS * 0.99)]:.1f} ms",
    )


def from_threads(folder: Path) -> Row:
    """Append from many threads, each to a run of its own."""
    with SqliteStore(folder / "many.db") as store:
        runs = {f"r{number}": begun(store, f"r{number}") for number in range(PRODUCERS)}
        gate = threading.Barrier(PRODUCERS + 1)

        def produce(run_id: str) -> None:
            fence, version = runs[run_id]
            gate.wait()
            for _ in range(EACH):
                version = store.runs.append(run_id, [EVENT], after=version, fence=fence)

        threads = [threading.Thread(target=produce, args=(run_id,)) for run_id in runs]
        for thread in threads:
            thread.start()
        gate.wait()
        began, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.join()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    rate = PRODUCERS * EACH / seconds
    remark = f"{cpu / PRODUCERS / EACH * 1e6:.0f} µs of CPU an append"
    return Row(
        f"durable appends, {PRODUCERS} threads",
        f"{rate:,.0f}/s",
        f"≥ {BAR_A_SECOND:,}/s",
        "",
        rate >= BAR_A_SECOND,
        remark,
    )


def from_turns(folder: Path) -> Row:
    """Append from many turns on one event loop."""
    with SqliteStore(folder / "turns.db") as store:
        delays: list[float] = []

        async def produce(number: int) -> None:
            run = Run(f"r{number}")
            saving = SavingRuntime(AsyncioRuntime(), store.runs, run_id=run.run_id)
            await saving.checkpoint(run, TurnStarted(run_id=run.run_id, prompt=PROMPT))
            for _ in range(EACH):
                await saving.checkpoint(run, EVENT)

        async def ticking() -> None:
            while True:
                began = time.perf_counter()
                await asyncio.sleep(0.001)
                delays.append((time.perf_counter() - began - 0.001) * 1e3)

        async def main() -> tuple[float, float]:
            ticks = asyncio.create_task(ticking())
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(produce(number) for number in range(PRODUCERS)))
            ticks.cancel()
            return time.perf_counter() - began, time.process_time() - cpu

        seconds, cpu = asyncio.run(main())
    count = PRODUCERS * (EACH + 2)
    late = sorted(delays)[int(len(delays) * 0.99)] if delays else 0.0
    return Row(
        f"durable appends, {PRODUCERS} turns on one event loop",
        f"{count / seconds:,.0f}/s",
        remark=f"{cpu / count * 1e6:.0f} µs of CPU an append; the loop was late by {late:.1f} ms in one of 100 ticks",
    )


def written() -> int:
    """Return the bytes that this process has handed to the system to write."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("wchar")).split()[1])


def conversation(path: Path, turns: int, *, kept: bool) -> int:
    """Return the bytes written for a conversation of so many turns. kept: in a conversation; else as each run's past."""
    before = written()
    history: list[Message] = []
    version = 0
    with SqliteStore(path) as store:
        for number in range(turns):
            run_id, prompt, reply = (
                f"r{number}",
                Message.user(f"{number} {TEXT}"),
                Message.assistant(f"{number} {TEXT}"),
            )
            name = "c" if kept else None
            fence = store.runs.begin(run_id, name, version, prompt, past=() if kept else history)
            after = store.runs.append(run_id, [TurnStarted(run_id=run_id, prompt=prompt)], after=0, fence=fence)
            after = store.runs.append(run_id, [MessageAdded(message=reply)], after=after, fence=fence)
            if kept:
                version = store.conversations.append("c", [prompt, reply], after=version, run_id=run_id, fence=fence)
            history += [prompt, reply]
            end = TurnFinished(text=reply.text, diagnostics=TurnDiagnostics())
            store.runs.append(run_id, [end], after=after, fence=fence)
    return written() - before


def growth(folder: Path, *, kept: bool) -> Row:
    """Compare the bytes of a turn in short and in long conversations."""
    what = "in a conversation" if kept else "as the past of each run"
    turns = TURNS if kept else TURNS[:2]
    sizes = [conversation(folder / f"{count}-{kept}.db", count, kept=kept) / count / 1024 for count in turns]
    ratio = sizes[-1] / sizes[-2] if kept else sizes[-1] / sizes[0]
    return Row(
        f"written for a turn of 4 kB, {' / '.join(f'{count:,}' for count in turns)} turns, {what}",
        f"{' / '.join(f'{size:.0f}' for size in sizes)} kB",
        f"≤ {BAR_GROWTH}× from the shorter to the longest",
        "",
        ratio <= BAR_GROWTH,
        f"{ratio:.2f}×",
    )


def run() -> list[Row]:
    """Measure in a folder that is removed afterwards, on the disk of the temporary folder."""
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as name:
        folder = Path(name)
        rows: list[Any] = [one_by_one(folder), from_threads(folder), from_turns(folder)]
        if Path("/proc/self/io").exists():
            rows += [growth(folder, kept=True), growth(folder, kept=False)]
    return rows
