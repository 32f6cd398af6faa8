"""What a turn that outlives its process costs: a governed call, going on with a long run, and each turn of a conversation."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.journal import written
from benchmarks.rows import Row, median
from sapwood import Agent, HookResult, UsageLimits, tool
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.llm.scripted import call, calls, says
from sapwood.stores.sqlite import SqliteStore

ROUNDS = (10, 100, 1_000)
TURNS = (10, 100, 1_000)
CALLS = 200
RUNS = 7
REPEATS = 15
BAR_CALL_US, BAR_RESUME_US, BAR_GROWTH = 1_500.0, 150.0, 1.2


class Model:
    """Calls a tool so often in each turn, one call in each reply, and then says something."""

    profile = ModelProfile("scripted", "scripted", context_window=10_000_000, max_output_tokens=8_192)

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.left = rounds

    def stream(self, request: ModelRequest) -> "list[StreamChunk]":
        self.left -= 1
        if self.left < 0:
            self.left = self.rounds
            return list(says("word " * 40).chunks())
        return list(calls(call("add", {"a": self.left, "b": 3})).chunks())


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent_of(rounds: int) -> Agent:
    """Return an agent whose window is never the limit."""
    return Agent(llm=Model(rounds), max_tokens=9_000_000, max_rounds=rounds + 10).with_tools([add])


def allow(name: str, arguments: dict[str, Any]) -> HookResult | None:
    """Let every call pass."""
    return None


def cpu_of_calls(agent: Agent) -> float:
    """Return the CPU microseconds of a call, its round included."""
    began = time.process_time()
    for _ in agent.stream("go"):
        pass
    return (time.process_time() - began) / CALLS * 1e6


def governed(folder: Path) -> Row:
    """Compare a call with limits, a hook and the journal with a bare one; each meets the other's noise."""
    bare, ours = list[float](), list[float]()
    limits = UsageLimits(total_tokens_limit=10**9, tool_calls_limit=10**6, requests_limit=10**6)
    with SqliteStore(folder / "governed.db") as store:
        plain = agent_of(CALLS)
        kept = agent_of(CALLS).with_usage_limits(limits).with_hooks(pre_tool_use=allow).with_run_store(store)
        for _ in range(RUNS):
            bare.append(cpu_of_calls(plain))
            ours.append(cpu_of_calls(kept))
    over = median(ours) - median(bare)
    return Row(
        "one tool round with limits, a hook and the journal",
        f"{median(ours):.0f} µs of CPU",
        f"≤ a bare one + {BAR_CALL_US:.0f} µs",
        f"bare {median(bare):.0f} µs",
        over <= BAR_CALL_US,
        f"{over:+.0f} µs, {median(ours) / median(bare):.1f}×",
    )


def resumed(folder: Path) -> list[Row]:
    """Take the time until a run of so many exchanges asks the model again."""
    rows: list[Row] = []
    times: list[float] = []
    for rounds in ROUNDS:
        path = folder / f"resume-{rounds}.db"
        with SqliteStore(path) as store:
            turn = agent_of(rounds).with_conversation(store, "c").stream("go")
            for event in turn:
                if event.type == "round_started" and event.round == rounds:
                    turn.close()  # before the last reply
                    break
            (run,) = store.runs.waiting()
        with SqliteStore(path) as store:
            times.append(median([_until_asked(store, run.run_id, rounds) for _ in range(REPEATS)]))
            kept = sum(len(text) for _, text in store.read(lambda rows, _, id=run.run_id: rows.events(id, 0)))
        each = times[-1] / rounds * 1e6
        rows.append(
            Row(
                f"going on with a run of {rounds:,} exchanges",
                f"{times[-1] * 1e3:.1f} ms of CPU",
                f"≤ {BAR_RESUME_US:.0f} µs an exchange, and 5 ms" if rounds == ROUNDS[-1] else "",
                "",
                times[-1] <= BAR_RESUME_US * 1e-6 * rounds + 0.005 if rounds == ROUNDS[-1] else None,
                f"{each:.0f} µs an exchange; the journal has {kept / rounds / 1024:.1f} kB for each",
            )
        )
    return rows


def _until_asked(store: SqliteStore, run_id: str, rounds: int) -> float:
    agent = agent_of(rounds).with_conversation(store, "c")
    began = time.process_time()
    turn = agent.resume(run_id)
    for event in turn:
        if event.type == "round_started":
            break
    taken = time.process_time() - began
    turn.close()
    return taken


def conversation(folder: Path, turns: int) -> tuple[float, float, float]:
    """Return kB written, ms and ms of CPU of a turn, over the last ten of a conversation of so many."""
    with SqliteStore(folder / f"turns-{turns}.db") as store:
        agent = agent_of(1).with_conversation(store, "c")

        def turn() -> None:
            for _ in agent.stream("What is next? " + "word " * 40):
                pass

        for _ in range(turns - 10):
            turn()
        before, began, cpu = written() if _counts() else 0, time.perf_counter(), time.process_time()
        for _ in range(10):
            turn()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        size = (written() - before) / 10 / 1024 if _counts() else 0.0
    return size, seconds * 100, cpu * 100


def saved(folder: Path) -> list[Row]:
    """Compare the turns of short and of long conversations."""
    found = [conversation(folder, turns) for turns in TURNS]
    named = f"a turn with a tool call, as turn {' / '.join(f'{turns:,}' for turns in TURNS)} of a conversation"
    growth = found[-1][0] / found[0][0] if found[0][0] else 1.0
    return [
        Row(
            named,
            f"{' / '.join(f'{milliseconds:.1f}' for _, milliseconds, _ in found)} ms",
            remark=f"of CPU {' / '.join(f'{cpu:.1f}' for _, _, cpu in found)} ms; the past is loaded for each turn",
        ),
        Row(
            "… written",
            f"{' / '.join(f'{size:.0f}' for size, _, _ in found)} kB",
            f"≤ {BAR_GROWTH}× from the shortest to the longest",
            "",
            growth <= BAR_GROWTH,
            f"{growth:.2f}×",
        ),
    ]


def _counts() -> bool:
    return Path("/proc/self/io").exists()


def run() -> list[Row]:
    """Measure in a folder that is removed afterwards."""
    parts: list[Callable[[Path], Any]] = [resumed, saved]
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as name:
        return [governed(Path(name)), *(row for part in parts for row in part(Path(name)))]
