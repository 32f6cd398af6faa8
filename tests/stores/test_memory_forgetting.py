"""What is forgotten is gone from every file of the store: no byte of a word, of a name, of a vector, of a secret."""

import random
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapwood.stores.memory import Memory
from sapwood.stores.sqlite import SqliteStore
from sapwood.stores.sqlite.connect import Options, connect
from sapwood.stores.sqlite.memory import SqliteMemoryRows

MARKS = ("text", "title", "meta", "speaker", "conversation", "key", "user", "agent", "space", "id", "turn")


class Random:
    """Vectors of 16 random numbers, the same for the same text."""

    name = "random/16"

    def embed(self, texts: Any) -> Any:
        return np.stack([np.random.default_rng(list(text.encode())).standard_normal(16) for text in texts])


def filled(store: SqliteStore, count: int, seed: int) -> dict[str, Memory]:
    """Save records of three users in turns, and change, correct and forget some of the first one's."""
    chance = random.Random(seed)
    users = {
        name: store.memory.scoped(user=f"{name}-user", agent=f"{name}-agent", namespace=(f"{name}-space",))
        for name in ("annxq", "bobxq", "evexq")
    }
    ids: list[str] = []
    for number in range(count):
        for name, memory in users.items():
            text = " ".join(f"{name}text{chance.randrange(count):x}" for _ in range(chance.randint(3, 40)))
            saved = memory.save(
                text,
                kind="fact",
                title=f"{name}title{number}",
                meta={f"{name}meta": number},
                speaker=f"{name}speaker{number % 5}",
                conversation=f"{name}conversation{number % 3}",
                key=f"{name}key{number}",
                turn=f"{name}turn",
                derived_from=[chance.choice(ids)] if ids and name == "annxq" and chance.random() < 0.1 else (),
            )
            if name != "annxq":
                continue
            ids.append(saved.id)
            if chance.random() < 0.2:
                memory.update(chance.choice(ids), text=f"{text} annxqtext")
            if chance.random() < 0.1 and (newer := memory.correct(chance.choice(ids), f"annxqtext {text}")):
                ids.append(newer.id)
            if chance.random() < 0.1:
                memory.forget(chance.choice(ids))
    return users


def secrets_of(path: Path, of_user: Memory) -> tuple[set[bytes], set[bytes]]:
    """Return the secrets of a user's records and vectors, and the vectors as they are stored."""
    count = of_user.stats().records
    connection = sqlite3.connect(path)
    found_space = SqliteMemoryRows(connection, lambda: None).space_of(of_user.scope)
    assert found_space is not None
    space = found_space.number
    wanted = (
        "SELECT secret FROM memory WHERE space = :n UNION ALL SELECT secret FROM memory_speaker WHERE space = :n "
        "UNION ALL SELECT secret FROM memory_vector WHERE place IN (:n, -:n) "
        "UNION ALL SELECT secret FROM memory_space WHERE n = :n"
    )
    found = connection.execute(f"SELECT secret FROM memory_secret WHERE n IN ({wanted})", {"n": space}).fetchall()
    vectors = connection.execute("SELECT sealed FROM memory_vector WHERE place IN (:n, -:n)", {"n": space}).fetchall()
    connection.close()
    assert len(found) >= 2 * count
    return {secret for (secret,) in found}, {raw for (raw,) in vectors}


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize(("seed", "one_by_one"), [(1, False), (2, True)])
def test_no_byte_of_what_a_user_said_is_left_in_any_file(tmp_path: Path, seed: int, one_by_one: bool) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Random()) as store:
        users = filled(store, 60, seed)
        kept = {name: list(memory.export()) for name, memory in users.items()}
        secrets, _ = secrets_of(path, users["annxq"])
        ann = users["annxq"]
        if one_by_one:
            for record in kept["annxq"]:
                ann.forget(record["id"])
        else:
            assert ann.forget_all() == len(kept["annxq"])
        raw = bytes_of(path)
        assert Path(f"{path}-wal").stat().st_size == 0
        for mark in MARKS:
            assert f"annxq{mark}".encode() not in raw
        assert b"annxq" not in raw
        for record in kept["annxq"]:
            assert record["id"].encode() not in raw
            assert bytes.fromhex(record["id"]) not in raw
        assert sum(secret in raw for secret in secrets) == 0
        assert [list(users[name].export()) for name in ("bobxq", "evexq")] == [kept["bobxq"], kept["evexq"]]
        assert store.memory.check() == []
        assert len(users["bobxq"].search("bobxqtext1", k=3)) > 0


def test_what_is_kept_is_not_written_in_words_either(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Random()) as store:
        filled(store, 10, 3)
        assert b"xqtext" not in bytes_of(path)


def test_every_secret_of_a_forgotten_record_is_overwritten_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path, embedder=Random()) as store:
        ann = store.memory.scoped(user="ann")
        ids = [ann.save(f"annxq fact number {number}").id for number in range(300)]
        other = store.memory.scoped(user="bob").save("bob stays")
        secrets, vectors = secrets_of(path, ann)
        for id in random.Random(1).sample(ids, 200):
            assert ann.forget(id)
        raw = bytes_of(path)
        assert sum(secret in raw for secret in secrets) == 201, "those of a hundred records, their vectors, the space"
        ann.forget_all()
        raw = bytes_of(path)
        assert sum(secret in raw for secret in secrets) == 0
        assert vectors
        assert store.memory.get(other.id) == other


def test_an_updated_text_is_gone_and_a_quarantined_one_too(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path) as store:
        record = store.memory.save("Noor lives in Portoxq")
        doubtful = store.memory.save("Noor lives in Turinxq", quarantined=True)
        old = connect(Options(str(path), 1.0, None), writes=False)
        (secret,) = old.execute("SELECT s.secret FROM memory m JOIN memory_secret s ON s.n = m.secret").fetchone()
        old.close()
        store.memory.update(record.id, text="Noor lives in Rome")
        assert secret not in bytes_of(path)
        assert store.memory.forget(doubtful.id)
        assert b"xq" not in bytes_of(path)


def test_a_reader_that_holds_the_log_delays_its_emptying_to_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path) as store:
        record = store.memory.save("likes tea")
        reader = connect(Options(str(path), 1.0, None), writes=False)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM memory").fetchone() == (1,)
        assert store.memory.forget(record.id), "it is forgotten all the same"
        assert Path(f"{path}-wal").stat().st_size > 0
        assert reader.execute("SELECT count(*) FROM memory").fetchone() == (1,)
        reader.execute("COMMIT")
        store.memory.save("likes rain")
        assert Path(f"{path}-wal").stat().st_size == 0
        reader.close()
