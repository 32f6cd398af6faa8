"""A process is killed at any instant; what the store and the effects hold afterwards is right, and work goes on.

The law that is checked: the transcript is valid; every effect whose outcome was recorded exists exactly once; no
write ran twice; every turn that was begun comes to its end, and none is lost.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from sapwood.core.events import MessageAdded, ToolFinished, TurnFinished, TurnStarted
from sapwood.core.transcript import pending_calls, repair
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.faults import names
from support.doomed import CONVERSATION, prompt_of

SUPPORT = Path(__file__).parent.parent / "support" / "doomed.py"


def start(folder: Path, seed: int, turns: int, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(SUPPORT), str(folder), str(seed), str(turns), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(folder: Path, seed: int, turns: int) -> None:
    process = start(folder, seed, turns)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, f"seed {seed}: {errors}"


def check(folder: Path, turns: int, seed: int) -> None:
    """Fail unless what is left is right; the seed is said so that it can be done again."""
    effects = folder / "effects"
    lines = effects.read_text().splitlines() if effects.exists() else []
    written = Counter(line.partition("\t")[0] for line in lines)
    with SqliteStore(folder / "agent.db") as store:
        assert {key: n for key, n in written.items() if n > 1} == {}, f"seed {seed}: a write ran twice"
        runs = store.runs.list(limit=10_000, conversation_id=CONVERSATION)
        assert [run.status for run in runs] == ["ended"] * len(runs), f"seed {seed}"
        prompts: list[str] = []
        for summary in runs:
            events = store.runs.events(summary.run_id)
            prompts += [
                event.prompt.text
                for event in events
                if isinstance(event, TurnStarted) and not event.path and event.prompt
            ]
            assert (
                sum(
                    isinstance(event, TurnFinished) and event.stopped_by not in ("approval",) and not event.path
                    for event in events
                )
                == 1
            )
            for event in events:
                if isinstance(event, ToolFinished) and event.result.startswith("wrote "):
                    key = event.result.removeprefix("wrote ")
                    assert written[key] == 1, f"seed {seed}: {key} was recorded, and is there {written[key]} times"
            run = store.runs.load(summary.run_id)
            assert pending_calls(run.messages) == (), f"seed {seed}"
            replies = [event for event in events if isinstance(event, MessageAdded) and not event.path]
            assert len([m for m in run.messages if m.role == "assistant"]) == len(
                [event for event in replies if event.message.role == "assistant"]
            )
        assert sorted(prompts) == sorted(prompt_of(number) for number in range(turns)), f"seed {seed}: a turn is lost"
        messages = store.conversations.load(CONVERSATION).messages
        assert repair(messages) == messages, f"seed {seed}: the transcript is not valid"


def kill_and_go_on(folder: Path, seed: int, kills: int, turns: int) -> int:
    """Kill a process that works `kills` times, each at a random instant; return how often it was still at work."""
    chance = random.Random(seed)
    hit = 0
    for life in range(kills):
        process = start(folder, seed * 1_000 + life, turns)
        time.sleep(0.25 + chance.random() * 0.5)
        hit += process.poll() is None
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (-signal.SIGKILL, 0), f"seed {seed}, life {life}: {errors}"
    finish(folder, seed, turns)
    check(folder, turns, seed)
    return hit


@pytest.mark.parametrize("seed", range(6))
def test_a_process_killed_at_random_instants_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    assert kill_and_go_on(tmp_path, seed, kills=5, turns=18) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 115))
def test_three_hundred_kills_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    assert kill_and_go_on(tmp_path, seed, kills=20, turns=60) > 0


@pytest.mark.parametrize("point", [name for name in names() if not name.startswith("files.")])
@pytest.mark.parametrize("visit", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_a_process_killed_at_any_fault_point_loses_and_repeats_nothing(tmp_path: Path, point: str, visit: int) -> None:
    turns = 6
    process = start(tmp_path, 7, turns, point, str(visit))
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGKILL, 0), errors
    finish(tmp_path, 7, turns)
    check(tmp_path, turns, 7)
