"""Vectors of memories: what is found by meaning, what another embedder or a failing one costs, and what is kept in memory."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapwood import ConfigError, InProcessStore, Memory, create_memory_store
from sapwood.stores.embedding import Embedding
from sapwood.stores.memory_corpus import ScopeCorpus
from sapwood.stores.sqlite import SqliteStore

TOPICS = {"tea": 0, "coffee": 0, "espresso": 0, "bike": 1, "bicycle": 1, "cycling": 1, "chess": 2, "checkmate": 2}


class Topics:
    """Vectors of what a text is about."""

    def __init__(self, name: str = "topics/4", width: int = 4) -> None:
        self.name, self.width = name, width
        self.asked: list[str] = []
        self.fails: BaseException | None = None

    def embed(self, texts: Any) -> Any:
        if self.fails is not None:
            raise self.fails
        self.asked += texts
        rows = np.full((len(texts), self.width), 0.01)
        for row, text in zip(rows, texts, strict=True):
            for word, topic in TOPICS.items():
                row[topic] += word in text.lower()
        return rows


Opened = Callable[..., Memory]


@pytest.fixture(params=["in process", "sqlite", "sqlite in memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens a memory with an embedder; a file keeps what it has when it is opened again."""
    stores: list[Any] = []

    def open_one(embedder: Any = None, **options: Any) -> Memory:
        for store in stores:
            store.close()
        if request.param == "in process":
            stores.append(InProcessStore(embedder))
        else:
            name = tmp_path / "memories.db" if request.param == "sqlite" else ":memory:"
            stores.append(SqliteStore(name, embedder=embedder, **options))
        return stores[-1].memory  # type: ignore[no-any-return]

    yield open_one
    for store in stores:
        store.close()


def texts_of(records: Any) -> list[str]:
    return [record.text for record in records]


def cosines(memory: Memory, vector: list[float]) -> dict[int, float]:
    embedding = memory._home.embedding
    found = memory._home.read(lambda rows: ScopeCorpus(rows, memory.scope, embedding).meanings(vector))
    return {} if found is None else dict(zip(found.numbers.tolist(), found.cosines.tolist(), strict=True))


def test_a_record_is_found_by_its_meaning(opened: Opened) -> None:
    memory = opened(Topics())
    memory.save("prefers espresso")
    memory.save("rides a bicycle")
    (hit,) = memory.search("coffee?")
    assert hit.text == "prefers espresso"
    assert 0 < hit.score <= 1  # type: ignore[operator]
    assert memory.stats().vectors == 2


def test_an_embedder_is_asked_outside_of_the_store(opened: Opened) -> None:
    """So an embedder may be slow, or use the store itself."""
    embedder = Topics()
    memory = opened(embedder)
    record = memory.save("prefers espresso")
    inner = embedder.embed
    others: list[int] = []

    def embed(texts: Any) -> Any:
        thread = threading.Thread(target=lambda: others.append(len(memory.all())))
        thread.start()
        thread.join(30)
        return inner(texts)

    embedder.embed = embed  # type: ignore[method-assign]
    memory.save("rides a bicycle")
    assert memory.search("coffee")[0].id == record.id
    assert memory.correct(record.id, "prefers tea") is not None
    assert others == [1, 2, 2]


def test_what_was_added_changed_and_removed_since_is_seen_by_the_next_search(opened: Opened) -> None:
    memory = opened(Topics())
    coffee = [1.0, 0.0, 0.0, 0.0]
    records = [memory.save(text) for text in ("likes tea", "likes chess", "likes coffee")]
    assert [round(value, 1) for value in cosines(memory, coffee).values()] == [1.0, 0.0, 1.0]
    memory.save("an espresso each morning")
    assert [round(value, 1) for value in cosines(memory, coffee).values()] == [1.0, 0.0, 1.0, 1.0]
    memory.update(records[1].id, text="likes checkmate and coffee")
    assert [round(value, 1) for value in cosines(memory, coffee).values()] == [1.0, 0.7, 1.0, 1.0]
    memory.forget(records[2].id)
    assert len(cosines(memory, coffee)) == 3
    memory.correct(records[0].id, "likes cycling")
    assert sorted(round(value, 1) for value in cosines(memory, coffee).values()) == [0.0, 0.7, 1.0]
    memory.update(records[1].id, kind="fact")
    assert sorted(round(value, 1) for value in cosines(memory, coffee).values()) == [0.0, 0.7, 1.0]
    assert texts_of(memory.search("tea", with_superseded=True)) == [
        "likes tea",
        "an espresso each morning",
        "likes checkmate and coffee",
    ]
    assert memory.check() == []


def test_what_another_process_wrote_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Topics()) as one, SqliteStore(path, embedder=Topics()) as other:
        record = one.memory.save("likes tea")
        assert len(cosines(other.memory, [1.0, 0.0, 0.0, 0.0])) == 1
        one.memory.save("likes coffee")
        assert len(cosines(other.memory, [1.0, 0.0, 0.0, 0.0])) == 2
        one.memory.forget(record.id)
        assert len(cosines(other.memory, [1.0, 0.0, 0.0, 0.0])) == 1


def test_scopes_and_conversations_have_vectors_of_their_own(opened: Opened) -> None:
    memory = opened(Topics())
    for user in ("ann", "bob"):
        for conversation in ("c1", "c2"):
            memory.scoped(user=user, conversation=conversation).save("prefers espresso")
    coffee = [1.0, 0.0, 0.0, 0.0]
    assert len(cosines(memory, coffee)) == 4
    assert list(cosines(memory, coffee)) == sorted(cosines(memory, coffee))
    assert len(cosines(memory.scoped(user="ann"), coffee)) == 2
    assert len(cosines(memory.scoped(user="ann", conversation="c2"), coffee)) == 1
    assert cosines(memory.scoped(user="eve"), coffee) == {}


def test_few_vectors_in_memory_find_the_same(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "memories.db", embedder=Topics(), vector_cache_bytes=100) as store:
        for number in range(20):
            store.memory.scoped(user=f"u{number % 4}").save(f"likes tea number {number}")
        for _ in range(2):
            for user in range(4):
                assert len(cosines(store.memory.scoped(user=f"u{user}"), [1.0, 0.0, 0.0, 0.0])) == 5
        assert len(cosines(store.memory, [1.0, 0.0, 0.0, 0.0])) == 20


@pytest.mark.parametrize(
    "failure",
    [RuntimeError("no quota"), OSError("no network"), ConfigError("no key")],
    ids=lambda error: type(error).__name__,
)
def test_a_failing_embedder_costs_the_meaning_and_not_the_record(
    opened: Opened, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Topics()
    memory = opened(embedder)
    memory.save("likes tea")
    embedder.fails = failure
    with caplog.at_level(logging.WARNING):
        record = memory.save("rides a bicycle")
        assert texts_of(memory.search("bicycle")) == ["rides a bicycle"]
    assert len(caplog.records) == 1
    assert str(failure) in caplog.text
    with pytest.raises(ConfigError, match="fails"):
        memory.reembed()
    embedder.fails = None
    assert memory.stats().vectors == 1
    assert memory.reembed() == 1
    assert [hit.id for hit in memory.search("cycling")] == [record.id]
    assert memory.check() == []


@pytest.mark.parametrize("made", [[], [[]], [[1.0], [2.0]], [[float("nan")] * 4], "text", None])
def test_an_embedder_that_gives_something_else_counts_as_failing(made: Any) -> None:
    embedder = Topics()
    embedder.embed = lambda texts: made  # type: ignore[method-assign]
    memory = create_memory_store(embedder=embedder)
    memory.save("likes tea")
    assert texts_of(memory.search("tea")) == ["likes tea"]
    assert memory.stats().vectors == 0


def test_what_is_no_embedder_is_refused() -> None:
    with pytest.raises(ConfigError, match="Embedder"):
        Embedding("openai")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="without an embedder"):
        create_memory_store().reembed()


def test_vectors_of_another_embedder_stay_until_all_are_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Topics()) as store:
        store.memory.scoped(user="ann").save("prefers espresso")
        store.memory.scoped(user="bob").save("rides a bicycle")
    with SqliteStore(path) as store:
        assert texts_of(store.memory.search("bicycle")) == ["rides a bicycle"]
        store.memory.save("plays chess")
    with SqliteStore(path, embedder=Topics("wide/6", 6)) as store:
        assert store.memory.search("coffee") == []
        assert "'topics/4' with 4 numbers" in caplog.text
        assert store.memory.scoped(user="ann").reembed() == 1
    with SqliteStore(path, embedder=Topics()) as store:
        assert texts_of(store.memory.search("cycling")) == ["rides a bicycle"], "the old ones are still there"
    with SqliteStore(path, embedder=Topics("wide/6", 6)) as store:
        assert store.memory.reembed() == 2
        assert texts_of(store.memory.search("cycling")) == ["rides a bicycle"]
        assert store.memory.stats().vectors == 3
    with SqliteStore(path, embedder=Topics()) as store:
        assert store.memory.stats().vectors == 0
