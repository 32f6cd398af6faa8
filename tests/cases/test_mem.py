"""Public cases on memories (MEM), by id: said twice, forgotten, changed, in scopes, embedded anew, interrupted."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, ConfigError, DiskFullError, Memory, create_memory_store, format_memory_block, memory_source
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import says, scripted
from support.governed import of_type, run

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


class Counting:
    """Vectors of some width that count letters."""

    def __init__(self, width: int) -> None:
        self.width = width

    @property
    def name(self) -> str:
        return f"counting/{self.width}"

    def embed(self, texts: Any) -> Any:
        return [[1 + text.count(letter) for letter in "etaoin"[: self.width]] for text in texts]


@pytest.fixture(params=["in process", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """An empty memory of each kind."""
    if request.param == "in process":
        yield create_memory_store()
        return
    with SqliteStore(tmp_path / "memories.db") as store:
        yield store.memory


def texts_of(records: Any) -> list[str]:
    return [record.text for record in records]


def test_mem_01_the_same_fact_is_kept_once_for_each_user(memory: Memory) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    saved = [ann.save(text) for text in ("prefers metric units", "Prefers  metric units", " prefers METRIC units. ")]
    other = bob.save("prefers metric units")
    assert {record.id for record in saved} == {saved[0].id} != {other.id}
    assert texts_of(ann.all()) == ["prefers metric units"]
    block = format_memory_block(ann.search("which units?", k=5))
    assert block.count("metric units") == 1
    assert texts_of(bob.all()) == ["prefers metric units"]


def test_mem_02_forgetting_one_user_leaves_the_others_and_has_to_name_him(memory: Memory) -> None:
    for number in range(3):
        memory.scoped(user="ann").save(f"ann's fact {number}")
        memory.scoped(user="bob").save(f"bob's fact {number}")
    assert memory.scoped(user="ann").forget_all() == 3
    assert texts_of(memory.all()) == [f"bob's fact {number}" for number in range(3)]
    with pytest.raises(ConfigError, match="everything=True"):
        memory.forget_all()
    assert len(memory.scoped(user="bob").all()) == 3


def test_mem_03_scopes_are_compared_part_by_part(memory: Memory) -> None:
    kept = {
        ("team", "nord"): "red tea",
        ("team", "nord-west"): "blue tea",
        ("x", "y:z"): "hot tea",
        ("x", "y", "z"): "iced tea",
    }
    for namespace, text in kept.items():
        memory.scoped(namespace=namespace).save(text)
    for user in ("u1", "u10"):
        memory.scoped(user=user).save(f"tea of {user}")

    def found(**scope: Any) -> set[str]:
        return set(texts_of(memory.scoped(**scope).search("tea", k=20)))

    assert found(namespace=("team", "nord")) == {"red tea"}
    assert found(user="u1") == {"tea of u1"}
    assert found() == {*kept.values(), "tea of u1", "tea of u10"}
    assert found(namespace=("x", "y:z")) == {"hot tea"}
    assert found(namespace=("x", "y")) == {"iced tea"}
    assert found(namespace=("x:y",)) == set()


def test_mem_05_changing_a_fact_changes_what_is_found(memory: Memory) -> None:
    record = memory.save("Noor lives in Porto")
    for _ in range(3):
        assert memory.update(record.id, text="Noor lives in Turin") is not None
        assert [hit.id for hit in memory.search("Turin")] == [record.id]
        assert memory.search("Porto") == []
        assert len(memory.all()) == 1
    assert memory.check() == []


def test_mem_06_forgotten_facts_take_no_slots_and_are_shown_nowhere(memory: Memory) -> None:
    names = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]
    for name in names:
        memory.save(f"The {name} grows by the lake")
    best = memory.search("grows by the lake", k=8)
    for record in best:
        assert memory.forget(record.id)
    left = memory.search("grows by the lake", k=2)
    assert len(left) == 2
    shown = f"{format_memory_block(left)} {list(memory.export())} {memory.all()}"
    assert not [record.text for record in best if record.text in shown]


def test_mem_06_no_file_of_the_store_has_a_forgotten_text(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "memories.db") as store:
        for name in ("oakxq", "pine"):
            store.memory.save(f"The {name} grows by the lake")
        (oak,) = store.memory.search("oakxq")
        assert store.memory.forget(oak.id)
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"oakxq" not in files
        assert texts_of(store.memory.all()) == ["The pine grows by the lake"]


@RUNTIMES
def test_mem_07_another_embedder_is_told_once_and_nothing_is_lost(
    tmp_path: Path, runtime: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Counting(4)) as store:
        for text in ("likes green tea", "lives in Porto", "plays chess"):
            store.memory.save(text)
        assert store.memory.stats().vectors == 3
    with SqliteStore(path, embedder=Counting(6)) as store:
        with caplog.at_level(logging.WARNING):
            agent = Agent(llm=scripted(says("Tea."))).with_sources([memory_source(store.memory)])
            events = run(agent, runtime, "Which tea do I like?")
            assert texts_of(of_type(events, "context_updated")[0].records)[0] == "likes green tea"
            assert events[-1].stopped_by == "stop"  # type: ignore[union-attr]
            store.memory.save("likes rain")
            store.memory.search("rain")
        (told,) = [record.message for record in caplog.records if "reembed" in record.message]
        assert "'counting/4' with 4 numbers" in told
        assert "'counting/6' with 6 numbers" in told
        assert texts_of(store.memory.all()) == ["likes green tea", "lives in Porto", "plays chess", "likes rain"]
        assert store.memory.stats().vectors == 1, "old vectors are not counted, and not compared"
        assert store.memory.reembed() == 3
        assert store.memory.stats().vectors == 4
        assert store.memory.check() == []
    caplog.clear()
    with SqliteStore(path, embedder=Counting(6)) as store:
        assert texts_of(store.memory.search("tea"))[0] == "likes green tea"
        assert caplog.records == []


def test_mem_08_an_interrupted_write_leaves_the_old_facts_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    texts = [f"fact number {number}" for number in range(100)]
    with SqliteStore(path) as store:
        store.memory.save_many([{"text": text} for text in texts])
        size = path.stat().st_size + Path(f"{path}-wal").stat().st_size
    with SqliteStore(path, max_bytes=size) as full, pytest.raises(DiskFullError, match="Make room"):
        for number in range(100):
            full.memory.save(f"one more, number {number}: " + "x" * 20_000)
    with SqliteStore(path) as store:
        assert store.memory.check() == []
        assert texts_of(store.memory.all())[:100] == texts
        assert store.memory.save("fits again").text == "fits again"
        assert not [
            item
            for item in tmp_path.iterdir()
            if item.name not in ("memories.db", "memories.db-wal", "memories.db-shm")
        ]


def test_mem_09_forget_tells_the_truth(memory: Memory) -> None:
    ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
    mine, yours = ann.save("likes tea"), bob.save("likes tea")
    assert [ann.forget(id) for id in (mine.id, mine.id, "missing", yours.id)] == [True, False, False, False]
    assert (ann.all(), ann.get(mine.id), ann.search("tea")) == ([], None, [])
    assert texts_of(bob.all()) == ["likes tea"]
