"""Memories in one file and several processes: crashes at any moment, many at once, forks."""

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sapwood.memory import text
from sapwood.stores.memory_index import BATCH, RULES_SETTING
from sapwood.stores.sqlite import SqliteStore
from support.child_process import child_of, line

CHILDREN = Path(__file__).parent / "memory_children.py"
child = partial(child_of, CHILDREN)


class Letters:
    """Vectors that count letters, as those of the children do."""

    def __init__(self, name: str = "letters/4") -> None:
        self.name = name

    def embed(self, texts: Any) -> Any:
        return [[1 + item.count(letter) for letter in "aeio"] for item in texts]


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "memories.db"
    SqliteStore(path).close()
    said: list[list[str]] = []
    with child("add", path, "a") as first, child("add", path, "b") as second:
        assert line(first)
        time.sleep(random.Random(seed).uniform(0.05, 0.6))
        first.kill()
        second.kill()
        for process in (first, second):
            out, _ = process.communicate()
            said += [words.split() for words in out.splitlines()]
    with SqliteStore(path, embedder=Letters()) as store:
        assert store.memory.check() == []
        kept = {record["id"]: record for record in store.memory.export()}
        gone = {words[1] for words in said if words[0] == "gone"}
        going = {words[1] for words in said if words[0] == "going"}  # whether it went, nobody was told
        for _, *ids in said:
            assert all(id in kept or id in going for id in ids)
        assert not gone & kept.keys()
        for record in kept.values():
            if "supersededBy" in record:
                assert kept[record["supersededBy"]]["supersedes"] == record["id"], "both, or neither"
        assert store.memory.save("work goes on")


@pytest.mark.parametrize("point", ["store.before_commit", "store.committed", "memory.saved"])
def test_a_crash_while_saving_keeps_what_was_acknowledged(tmp_path: Path, point: str) -> None:
    path = tmp_path / "memories.db"
    with child("crash_saving", path, point) as process:
        out, _ = process.communicate(timeout=60)
    assert "not crashed" not in out
    with SqliteStore(path) as store:
        assert store.memory.check() == []
        assert set(out.split()) <= {record.id for record in store.memory.all()}


@pytest.mark.parametrize(
    ("point", "visit"),
    [("memory.indexed", 1), ("memory.indexed", 2), ("memory.embedded", 1), ("store.before_commit", 4)],
)
def test_an_index_that_was_half_made_anew_is_finished_by_the_next_process(
    tmp_path: Path, point: str, visit: int
) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Letters()) as store:
        texts = [f"fact {number} of ann" for number in range(2 * BATCH + 50)]
        store.memory.scoped(user="ann").save_many([{"text": item} for item in texts])
        store.write_memory(lambda rows: rows.put_setting(RULES_SETTING, "0/older"))
    with child("crash", path, point, visit) as process:
        out, _ = process.communicate(timeout=60)
    assert "not crashed" not in out
    with SqliteStore(path, embedder=Letters("other/4")) as store:
        assert store.memory.search("fact 7", k=1)
        assert store.memory.check() == []
        assert store.read_memory(lambda rows: rows.setting(RULES_SETTING)) == text.rules()
        store.memory.reembed()
        stats = store.memory.stats()
        assert (stats.records, stats.vectors) == (len(texts), len(texts))
        assert [record.text for record in store.memory.all()] == texts


def test_parent_and_children_use_memories_after_a_fork(tmp_path: Path) -> None:
    with child("fork", tmp_path / "memories.db") as process:
        out, _ = process.communicate(timeout=60)
    assert out.splitlines() == ["[0, 0, 0]", "7 []"]


def eight_processes(path: Path, seconds: float) -> None:
    SqliteStore(path).close()
    names = [f"p{number}" for number in range(8)]
    running = [child("use", path, name, seconds) for name in names]
    processes = [each.__enter__() for each in running]
    try:
        outcomes = [process.communicate(timeout=seconds + 120) for process in processes]
        assert [process.returncode for process in processes] == [0] * 8
        counts = [len(out.splitlines()) for out, _ in outcomes]
    finally:
        for each in running:
            each.__exit__(None, None, None)
    with SqliteStore(path) as store:
        assert store.memory.check() == []
        for name, count in zip(names, counts, strict=True):
            own = store.memory.scoped(user=name).all()
            assert [record.text for record in own] == [f"fact {number + 1} of {name}" for number in range(count)]
        shared = [record.text for record in store.memory.scoped(user="all").all()]
        assert sorted(shared) == sorted(f"shared fact {number + 1}" for number in range(max(counts)))


def test_eight_processes_save_and_search_in_one_file(tmp_path: Path) -> None:
    eight_processes(tmp_path / "memories.db", 5)


@pytest.mark.soak
def test_eight_processes_save_and_search_in_one_file_for_a_minute(tmp_path: Path) -> None:
    eight_processes(tmp_path / "memories.db", 60)
