"""Thousands of short histories with everything that may go wrong; each is checked as a whole, and replays from its seed."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable.simulation import simulate

SOAK_SECONDS = 120
FIRST = int(os.environ.get("SAPWOOD_SEED", "0"))
"""Where the seeds begin; `SAPWOOD_SEED=4711 pytest tests/durable/test_simulation.py` begins with that one."""
FAILED_ONCE = {
    4201: "a hold that could not be given up",
    7980: "a full disk right after the end of a child",
    14775: "a call was asked, the process died, and the answer came with the resume: it was not counted",
}
"""Seeds that broke something, in the library or in this simulation, and what happens in them."""
HAPPENS = {"Crash", "InjectedError", "zombie", "record", "wrong", "two", "waited", "asked", "late", "compaction"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("sapwood")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # failures are what this is about
    yield
    logger.setLevel(before)


def test_fifty_seeds_in_memory_keep_every_promise() -> None:
    happened = Counter[str]()
    for seed in range(FIRST, FIRST + 50):
        happened.update(simulate(seed).happened)
    assert set(happened) > HAPPENS, "a simulation in which nothing goes wrong proves nothing"


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_what_failed_once_keeps_every_promise(seed: int, tmp_path: Path) -> None:
    simulate(seed, tmp_path if seed % 5 == 0 else None)


def test_some_seeds_on_a_file_keep_every_promise(tmp_path: Path) -> None:
    for seed in range(FIRST, FIRST + 10):
        simulate(seed, tmp_path)


@pytest.mark.parametrize("on_file", [False, True], ids=["in memory", "on a file"])
def test_a_seed_is_a_whole_history(tmp_path: Path, on_file: bool) -> None:
    for seed in range(FIRST + 200, FIRST + (203 if on_file else 212)):
        first, again = tmp_path / f"{seed}a", tmp_path / f"{seed}b"
        first.mkdir(), again.mkdir()
        logs = [simulate(seed, folder if on_file else None).world.log for folder in (first, again)]
        assert logs[0] == logs[1], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS * 3)
def test_two_minutes_of_seeds_keep_every_promise(tmp_path: Path) -> None:
    until = time.monotonic() + SOAK_SECONDS
    seed, happened = FIRST + 1_000, Counter[str]()
    while time.monotonic() < until:
        happened.update(simulate(seed, tmp_path if seed % 5 == 0 else None).happened)
        seed += 1
    print(f"seeds {FIRST + 1_000} to {seed - 1}: {dict(happened)}")
    assert seed > FIRST + 1_300
