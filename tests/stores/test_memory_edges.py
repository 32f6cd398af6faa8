"""What a memory does at its edges: rules of the index, damage, limits, ends, chains, loads."""

import random
import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ConfigError, InProcessStore, Memory, MemoryRecord, MemoryScope, NewMemory, create_memory_store
from sapwood.core.errors import StoreError
from sapwood.memory import text
from sapwood.stores.memory_index import RULES_SETTING
from sapwood.stores.memory_values import digest_of, in_ms
from sapwood.stores.sqlite import SqliteStore
from sapwood.stores.sqlite.memory_index import MOST_ENTRIES
from sapwood.stores.sqlite.seal import hashed, sealed


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "memories.db") as store:
        yield store


def set_rules(store: SqliteStore, rules: str) -> None:
    store.write_memory(lambda rows: rows.put_setting(RULES_SETTING, rules))


def test_an_index_of_newer_rules_is_refused_and_left_alone(store: SqliteStore, tmp_path: Path) -> None:
    store.memory.save("likes tea")
    set_rules(store, f"{text.RULES + 1}/x")
    with SqliteStore(tmp_path / "memories.db") as other:
        for call in (lambda: other.memory.search("tea"), lambda: other.memory.save("x"), lambda: other.memory.all()):
            with pytest.raises(StoreError, match="newer version of sapwood"):
                call()
    set_rules(store, text.rules())
    assert store.memory.check() == []


def test_an_index_that_another_process_makes_by_other_rules_is_not_written_to(store: SqliteStore) -> None:
    store.memory.save("likes tea")
    set_rules(store, "1/another version of a package")
    with pytest.raises(StoreError, match="same extras"):
        store.memory.save("likes rain")


def test_an_index_of_older_rules_is_made_anew_at_the_first_use(store: SqliteStore, tmp_path: Path) -> None:
    records = [store.memory.scoped(user=f"u{number % 3}").save(f"fact {number}") for number in range(30)]
    store.memory.scoped(user="u0").correct(records[0].id, "better fact 0")
    store.memory.scoped(user="u0").save("doubtful fact", quarantined=True)
    before = list(store.memory.export())

    def spoil(rows: Any) -> None:
        rows.put_setting(RULES_SETTING, "0/older")
        for space in rows.spaces(None, None):
            rows.add_entries(space.number, {"nonsense": 1 << 32})

    store.write_memory(spoil)
    assert store.memory.check() != []
    with SqliteStore(tmp_path / "memories.db") as other:
        assert other.memory.check() == []
        assert len(other.memory.search("fact", k=100)) >= 5
        assert other.memory.search("nonsense") == []
        assert list(other.memory.export()) == before


def test_check_names_what_does_not_agree(store: SqliteStore, tmp_path: Path) -> None:
    memory = store.memory
    record = memory.save("likes tea", speaker="Ann")
    connection = sqlite3.connect(tmp_path / "memories.db")
    for statement, problem in (
        ("DELETE FROM memory_posting", "entries"),
        ("UPDATE memory_tally SET records = 7", "counts 7"),
        ("UPDATE memory SET is_indexed = 0", "not in the index"),
        ("DELETE FROM memory_speaker", "speakers"),
    ):
        with connection:
            connection.execute(statement)
        assert any(problem in found for found in memory.check())
    connection.close()
    memory.reindex()
    assert [found for found in memory.check() if "speakers" not in found] == []
    assert memory.search("tea")[0].id == record.id


def test_a_damaged_record_is_told_and_never_guessed(store: SqliteStore, tmp_path: Path) -> None:
    record = store.memory.save("likes tea")
    connection = sqlite3.connect(tmp_path / "memories.db")
    for statement in (
        "UPDATE memory_body SET sealed = x'00'",
        "UPDATE memory SET state = 'odd'",
        "UPDATE memory_secret SET secret = zeroblob(16)",
    ):
        with connection:
            connection.execute(statement)
        with pytest.raises(StoreError, match=r"damaged|backup"):
            store.memory.get(record.id)
    connection.close()


def test_flipped_bits_are_told_or_read_and_crash_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    with SqliteStore(path) as store:
        for number in range(30):
            store.memory.scoped(user=f"u{number % 3}").save(f"fact number {number}", speaker="Ann", conversation="c")
    whole = path.read_bytes()
    for seed in range(60):
        chance = random.Random(seed)
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(broken))
        for beside in path.parent.glob("memories.db-*"):
            beside.unlink()
        try:
            with SqliteStore(path) as store:
                assert len(store.memory.scoped(user="u1").all()) <= 31
                store.memory.scoped(user="u1").search("fact")
        except StoreError:
            continue


def test_postings_stay_in_order_in_any_order_of_changes() -> None:
    with SqliteStore(":memory:") as store:
        memory = store.memory
        chance = random.Random(1)
        texts = [{"text": f"tea {number}"} for number in range(4 * MOST_ENTRIES)]
        ids = [record.id for record in memory.save_many(texts)]
        for id in chance.sample(ids, 3 * MOST_ENTRIES):
            memory.update(id, text=f"coffee {id}")
        for id in chance.sample(ids, 2 * MOST_ENTRIES):
            memory.forget(id)
        left = [record.id for record in memory.all()]
        for id in chance.sample(left, MOST_ENTRIES):
            memory.update(id, text=f"tea again {id}")
        assert memory.check() == []
        assert memory.reindex() == len(left)
        assert memory.check() == []


@pytest.mark.parametrize(
    "changes", [{"meta": {"a": [[[]]] * 2}}, {"importance": 0.1}, {"speaker": "Bob"}, {"speaker": None}]
)
def test_any_field_of_a_record_may_be_updated(store: SqliteStore, changes: dict[str, Any]) -> None:
    record = store.memory.save("likes tea", speaker="Ann", conversation="c", kind="fact")
    changed = store.memory.update(record.id, valid_to=datetime(2100, 1, 1), **changes)
    assert changed == record.replace(valid_to=in_ms("x", datetime(2100, 1, 1)), **changes)
    assert store.memory.check() == []
    assert store.memory.get(record.id) == changed


def test_what_cannot_be_an_id_is_not_found(store: SqliteStore) -> None:
    for id in (None, 7, "\ud800"):
        found: list[Any] = [store.memory.get(id), store.memory.forget(id), store.memory.history(id)]  # type: ignore[arg-type]
        assert found == [None, False, []]


def test_what_is_nested_too_deep_or_made_of_too_much_is_refused(store: SqliteStore) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ConfigError, match="levels"):
        store.memory.save("x", meta={"deep": deep})
    with pytest.raises(ConfigError, match="1,001 records"):
        store.memory.save("x", derived_from=map(str, range(1_001)))
    assert store.memory.all() == []


def test_a_store_that_is_opened_again_in_process_has_its_memories() -> None:
    store = InProcessStore()
    record = store.memory.save("likes tea")
    assert store.reopened().memory.all() == [record]


def test_an_expired_record_is_as_if_it_were_not_there_before_it_is_deleted(store: SqliteStore) -> None:
    memory = store.memory.scoped(user="ann")
    old = memory.save("likes tea", expires_at=1, key="k")
    assert (memory.get(old.id), memory.all(), memory.search("tea")) == (None, [], [])
    assert (memory.update(old.id, text="x"), memory.correct(old.id, "x"), memory.confirm(old.id)) == (None, None, False)
    assert memory.stats().records == 1
    new = memory.save("likes tea")
    assert new.id != old.id
    assert memory.stats().records == 1, "a save deletes what is past its end by the way"
    later = memory.save("likes tea", expires_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert (later.id, later.expires_at) == (new.id, None), "what has no end is given none by saying it again"


def test_what_ends_takes_with_it_what_was_made_of_it_but_nothing_of_others(store: SqliteStore) -> None:
    ann, bob = store.memory.scoped(user="ann"), store.memory.scoped(user="bob")
    source = ann.save("a remark", expires_at=1 << 50)
    mine = ann.save("made of the remark", derived_from=[source.id])
    yours = bob.save("made of the remark", derived_from=[source.id])
    assert ann.expire(1 << 50) == 2
    assert (ann.get(mine.id), bob.get(yours.id)) == (None, yours)


def test_a_correction_has_to_be_in_the_scope_of_what_it_corrects(store: SqliteStore) -> None:
    ann = store.memory.scoped(user="ann")
    record = ann.save("lives in Porto", conversation="c1")
    with pytest.raises(ConfigError, match="in exactly this scope"):
        ann.save("lives in Turin", supersedes=record.id)
    with pytest.raises(ConfigError, match="conversation of what it corrects"):
        ann.correct(record.id, "lives in Turin", conversation="c2")
    newer = ann.correct(record.id, "lives in Turin")
    assert newer is not None
    assert (newer.conversation, newer.position) == ("c1", 2)


def test_a_quarantined_duplicate_is_none_of_a_trusted_record(store: SqliteStore) -> None:
    doubtful = store.memory.save("likes tea", quarantined=True)
    assert store.memory.save("likes tea", quarantined=True).id == doubtful.id
    trusted = store.memory.save("likes tea")
    assert trusted.id != doubtful.id
    assert store.memory.save("likes tea", quarantined=True).id == trusted.id


def test_positions_count_on_in_each_conversation_of_each_scope(store: SqliteStore) -> None:
    ann, bob = store.memory.scoped(user="ann"), store.memory.scoped(user="bob")
    positions = [
        memory.save(f"turn {number}", kind="turn", conversation=name).position
        for number, (memory, name) in enumerate([(ann, "c1"), (ann, "c1"), (ann, "c2"), (bob, "c1"), (ann, "c1")])
    ]
    assert positions == [1, 2, 1, 1, 3]
    records = list(ann.scoped(conversation="c1").export())
    for record in records[1:]:
        ann.forget(record["id"])
    ann.save("turn 9", kind="turn", conversation="c1")
    assert ann.load(records) == 2
    assert sorted(record.position for record in ann.scoped(conversation="c1").all()) == [1, 2, 3, 4]
    ann.scoped(conversation="c1").forget_all()
    ann.save("turn 10", kind="turn", conversation="c1")
    assert ann.load(records) == 3, "what has a place that is taken by now comes last"
    assert [record.position for record in ann.scoped(conversation="c1").all()] == [1, 2, 3, 4]
    assert store.memory.check() == []


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({}, "is no exported record"),
        ({"id": "", "text": "x", "createdAt": 1}, "id of a record"),
        ({"id": "a", "text": " ", "createdAt": 1}, "not blank"),
        ({"id": "a", "text": "x", "createdAt": "now"}, "is no exported record"),
        ({"id": "a", "text": "x", "createdAt": 1, "origin": "god"}, "is no exported record"),
        ("x", "an exported record"),
    ],
)
def test_what_is_no_exported_record_is_refused(record: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        create_memory_store().load([record])


def test_save_many_takes_values_and_dictionaries() -> None:
    memory = create_memory_store()
    saved = memory.save_many([NewMemory(text="likes tea", kind="fact"), {"text": "likes rain", "importance": 1}])
    assert [(record.text, record.importance) for record in saved] == [("likes tea", 0.5), ("likes rain", 1.0)]
    for wrong in (["text"], [{"kind": "fact"}], [{"text": "x", "colour": "red"}]):
        with pytest.raises(ConfigError):
            memory.save_many(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="list of texts"):
        memory.scoped(namespace="team")


def test_a_big_scope_is_exported_and_forgotten_in_pages(store: SqliteStore) -> None:
    ann = store.memory.scoped(user="ann")
    ann.save_many([{"text": f"fact {number}", "conversation": f"c{number % 2}"} for number in range(1_250)])
    bob = store.memory.scoped(user="bob").save("stays")
    assert len(list(ann.export())) == len(ann.all()) == 1_250
    assert len(ann.all(limit=3)) == 3
    assert len(list(ann.scoped(conversation="c1").export())) == 625
    assert ann.scoped(conversation="c1").forget_all() == 625
    assert ann.forget_all() == 625
    assert store.memory.all() == [bob]
    assert store.memory.check() == []


def test_the_newest_records_and_the_numbers_are_told_without_reading_the_others(
    store: SqliteStore, tmp_path: Path
) -> None:
    ann = store.memory.scoped(user="ann")
    ids = [ann.save(f"fact {number}", conversation="c").id for number in range(5)]
    connection = sqlite3.connect(tmp_path / "memories.db")
    connection.execute("UPDATE memory_body SET sealed = x'00' WHERE n = 1")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="cannot be read"):
        ann.all()
    for memory in (store.memory, ann, ann.scoped(conversation="c")):
        assert [record.id for record in memory.all(limit=2)] == ids[3:]
        assert memory.stats().records == memory.stats().current == 5


@given(st.text(), st.text())
def test_what_differs_in_more_than_case_and_blanks_is_not_the_same(one: str, other: str) -> None:
    first, second = MemoryRecord("1", one, 0), MemoryRecord("2", other, 9)
    if digest_of(first) == digest_of(second):
        assert _letters(one) == _letters(other)
    if len(one.split()) > 1 and not any(word.isupper() for word in re.findall(r"[^\W\d_]+", one)):
        assert (
            digest_of(first) == digest_of(first.replace(text=f"  {one.upper()} "))
            or one.upper().casefold() != one.casefold()
        )


def _letters(text: str) -> str:
    import unicodedata

    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter for letter in folded if letter.isalnum())


@given(st.binary(max_size=2_000), st.binary(min_size=16, max_size=16))
def test_what_is_sealed_comes_back_and_differs_by_secret(plain: bytes, secret: bytes) -> None:
    assert sealed(sealed(plain, secret), secret) == plain
    assert hashed(plain, secret, b"term") != hashed(plain + b"x", secret, b"term")


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_a_time_without_a_zone_is_utc(when: datetime) -> None:
    assert in_ms("at", when) == in_ms("at", when.replace(tzinfo=UTC))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ann", "an", "%", "_", "", "a\x00", "\u00c5", "A\u030a", "' OR 1=1 --"]),
            st.lists(st.sampled_from(["a", "b", "/", "a/b", ""]), max_size=3),
            st.sampled_from(["c", "%", None]),
        ),
        min_size=1,
        max_size=6,
        unique_by=str,
    )
)
def test_no_handle_ever_meets_what_lies_outside_of_its_scope(scopes: list[Any]) -> None:
    with SqliteStore(":memory:") as sqlite:
        for memory in (sqlite.memory, create_memory_store()):
            handles = [
                memory.scoped(user=user, namespace=tuple(parts), conversation=name) for user, parts, name in scopes
            ]
            records = [handle.save(f"tea {number}") for number, handle in enumerate(handles)]
            for handle in handles:
                within = {record.id for record in records if handle.scope.covers(record.scope)}
                assert {record.id for record in handle.all()} == within
                assert {hit.id for hit in handle.search("tea", k=20)} <= within
                assert {item["id"] for item in handle.export()} == within
                for record in records:
                    assert (handle.get(record.id) is not None) == (record.id in within)
            victim = handles[0]
            outside = {record.id for record in records if not victim.scope.covers(record.scope)}
            victim.forget_all()
            assert {record.id for record in memory.all()} == outside
            assert memory.check() == []


def test_a_scope_says_what_it_reaches() -> None:
    memory: Memory = create_memory_store()
    assert memory.scoped(user="ann").scoped(agent="a").scope == MemoryScope("ann", "a")
