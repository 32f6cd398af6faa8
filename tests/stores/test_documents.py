"""Documents in a memory: kept, found, grown, changed and gone, in process and in a file."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood import (
    ConfigError,
    ContextItem,
    Document,
    DocumentIndex,
    InProcessStore,
    QueryBundle,
    RetrievalScope,
    SqliteStore,
    create_memory_store,
)

BEES = Document(
    "bees.md", "# Bees\n\nBees like lavender.\n\n## Legs\n\nThey have six legs.", "Bees", "markdown", "/insects"
)
CATS = Document("cats", "Cats sleep all day. They have four legs.", namespace="/pets/cats", metadata={"year": 2020})


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(params=["process", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "process":
        yield InProcessStore().memory
        return
    with SqliteStore(tmp_path / "app.db") as store:
        yield store.memory


def test_a_hit_says_where_it_is_from(memory: Any) -> None:
    index = DocumentIndex(memory)
    assert index.add([BEES, CATS]) == ["bees.md", "cats"]
    (hit,) = index.retrieve("lavender?", top_k=1)
    assert (hit.content, hit.namespace) == ("# Bees\n\nBees like lavender.", "/insects")
    assert hit.metadata == {
        "document": "bees.md", "position": 0, "chunks": 1, "start": 0, "end": 27, "title": "Bees", "section": "Bees",
    }  # fmt: skip
    (cat,) = index.retrieve(QueryBundle("sleep"), top_k=1)
    assert cat.metadata["year"] == 2020
    records = memory.scoped(conversation="bees.md").all()
    assert [(item.kind, item.origin, item.title, item.position) for item in records] == [
        ("chunk", "import", "Bees", 1),
        ("chunk", "import", "Bees > Legs", 2),
    ]


def test_what_has_not_changed_is_not_touched(memory: Any) -> None:
    index = DocumentIndex(memory)
    index.add([BEES, CATS])
    before = memory.all()
    assert index.add([BEES, CATS]) == []
    assert memory.all() == before
    assert index.add([BEES, CATS.replace(text="Cats purr.")]) == ["cats"]
    assert [item.content for item in index.retrieve("cats", top_k=9)] == ["Cats purr."]
    assert DocumentIndex(memory, size=3, count=words).add([BEES]) == ["bees.md"]


def test_a_document_that_moves_is_in_one_place(memory: Any) -> None:
    index = DocumentIndex(memory)
    index.add([CATS])
    index.add([CATS.replace(namespace="/animals")])
    assert [(item.id, item.namespace, item.chunks) for item in index.documents()] == [("cats", "/animals", 1)]
    assert (index.remove("cats"), index.remove("cats"), memory.all()) == (True, False, [])


def test_other_memories_are_left_alone(memory: Any) -> None:
    note = memory.save("Cats sleep at night, says Ann.", conversation="cats")
    index = DocumentIndex(memory)
    index.add([CATS])
    index.add([CATS.replace(text="Cats purr.")])
    assert [item.metadata["document"] for item in index.retrieve("cats sleep", top_k=9)] == ["cats"]
    index.remove("cats")
    assert memory.all() == [note]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (None, {"bees.md", "cats"}),
        (RetrievalScope(include=("/pets",)), {"cats"}),
        (RetrievalScope(include=("/pets", "/insects")), {"bees.md", "cats"}),
        (RetrievalScope(exclude=("/pets",)), {"bees.md"}),
        (RetrievalScope(include=("/pets",), exclude=("/pets/cats",)), set()),
        (RetrievalScope(include=("/plants",)), set()),
    ],
)
def test_what_lies_outside_of_the_scope_is_not_found(
    memory: Any, scope: RetrievalScope | None, found: set[str]
) -> None:
    index = DocumentIndex(memory)
    index.add([BEES, CATS])
    assert {item.metadata["document"] for item in index.retrieve("how many legs", scope=scope)} == found


def test_a_copy_outside_of_the_scope_does_not_hide_the_one_within(memory: Any) -> None:
    index = DocumentIndex(memory)
    index.add([Document(name, "Bees hum in May.", namespace=f"/{name}") for name in ("drafts", "final", "old")])
    for name in ("drafts", "final", "old"):
        others = RetrievalScope(exclude=tuple(f"/{other}" for other in ("drafts", "final", "old") if other != name))
        assert [item.namespace for item in index.retrieve("bees", scope=others)] == [f"/{name}"]


def test_the_best_within_a_scope_are_found_behind_many_better_ones(memory: Any) -> None:
    index = DocumentIndex(memory)
    index.add([Document(str(number), f"Legs of bee {'x' * number}.", namespace="/bees") for number in range(12)])
    index.add([Document("cat", "A cat sleeps, and has four long and soft legs to walk on.", namespace="/cats")])
    scope = RetrievalScope(exclude=("/bees",))
    assert [item.metadata["document"] for item in index.retrieve("legs", top_k=1, scope=scope)] == ["cat"]


TEXT = "  \n".join(f"Part {number} of it." for number in range(8))


@pytest.mark.parametrize("overlap", [0, 2])
def test_a_hit_grows_into_the_exact_text_around_it(memory: Any, overlap: int) -> None:
    index = DocumentIndex(memory, size=5, overlap=overlap, count=words)
    index.add([Document("d", TEXT)])
    hit = next(item for item in index.retrieve("Part 3", top_k=9) if "3" in item.content)
    (grown,) = index.grow([hit, ContextItem(content="stranger")], 12)
    assert words(grown.content) <= 12
    assert "Part 3 of it." in grown.content
    assert grown.content == TEXT[grown.metadata["start"] : grown.metadata["end"]]
    (whole,) = index.grow([grown], 1_000)
    assert whole.content == TEXT
    assert index.grow([hit.replace(metadata={**hit.metadata, "document": "gone"})], 100) == []


def test_a_store_in_a_file_outlives_the_process(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "app.db") as store:
        DocumentIndex(store.memory).add([BEES])
    with SqliteStore(tmp_path / "app.db") as store:
        index = DocumentIndex(store.memory)
        assert index.add([BEES]) == []
        assert index.retrieve("lavender", top_k=1)[0].metadata["document"] == "bees.md"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda index: DocumentIndex(3), "documents are kept in a memory"),
        (lambda index: DocumentIndex(create_memory_store(), size=0), "size is a number of tokens"),
        (lambda index: index.add([3]), "a Document, a text or a dict"),
        (lambda index: index.retrieve(3), "a question is a text"),
        (lambda index: index.retrieve("x", 0), "top_k must be at least 1"),
    ],
)
def test_what_cannot_be_is_told_at_once(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make(DocumentIndex(create_memory_store()))


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["", "Bees hum.", "Bees hum.\n\nWasps hum.", "Cats."]), st.sampled_from(["/", "/x"])),
    max_size=12,
)  # fmt: skip


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_after_any_changes_it_holds_what_a_new_one_holds(steps: list[tuple[str, str, str]]) -> None:
    changed, last = DocumentIndex(create_memory_store(), size=4), dict[str, Document]()
    for id, text, namespace in steps:
        changed.add([Document(id, text, namespace=namespace)])
        last[id] = Document(id, text, namespace=namespace)
        if not text:
            assert not changed.remove(id)
            del last[id]
    fresh = DocumentIndex(create_memory_store(), size=4)
    fresh.add(last.values())
    assert changed.documents() == fresh.documents()

    def found(index: DocumentIndex) -> list[str]:
        return sorted(item.content for item in index.retrieve("bees hum", top_k=50))

    assert found(changed) == found(fresh)


def test_all_records_of_a_scope_are_replaced_in_one_step(memory: Any) -> None:
    other = memory.save("Stays.", kind="fact")
    ann = memory.scoped(user="ann")
    note = ann.save("Also stays.", kind="fact")
    ann.replace_all([{"text": "Bees.", "kind": "chunk"}, {"text": "Cats.", "kind": "chunk"}], kind="chunk")
    with pytest.raises(ConfigError):
        ann.replace_all([{"text": " ", "kind": "chunk"}], kind="chunk")
    assert [item.text for item in ann.all(kind="chunk")] == ["Bees.", "Cats."]
    ann.replace_all([{"text": "Wasps.", "kind": "chunk"}], kind="chunk")
    assert [item.text for item in ann.all()] == ["Also stays.", "Wasps."]
    assert [item.text for item in ann.search("bees wasps")] == ["Wasps."]
    assert (memory.get(other.id), ann.get(note.id)) == (other, note)
    assert memory.check() == []
    with pytest.raises(ConfigError, match="names no user"):
        memory.replace_all([])
