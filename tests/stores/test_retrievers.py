"""Retrievers: documents found by words, by meaning, by both; and hits grown to a room."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood import (
    Chunk,
    ConfigError,
    ContextItem,
    DenseRetriever,
    Document,
    HybridRetriever,
    ProviderNotInstalledError,
    QueryBundle,
    RetrievalScope,
    SparseRetriever,
)
from sapwood.retrieval import static_vectors
from sapwood.retrieval.documents import as_document
from sapwood.retrieval.grow import Passage, grow

BEES = Document(
    "bees", "# Bees\n\nBees like lavender.\n\n## Legs\n\nThey have six legs.", "All of bees", "markdown", "/insects"
)
CATS = Document("cats", "Cats sleep all day. They have four legs.", namespace="/pets/cats", metadata={"year": 2020})


class Letters:
    """A vector of how often each of a few letters is there."""

    name = "letters/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [[float(text.lower().count(letter)) for letter in "bcz"] for text in texts]


def words(text: str) -> int:
    return len(text.split())


def shown(items: list[ContextItem]) -> list[str]:
    return [item.content for item in items]


def seen(items: list[ContextItem]) -> list[tuple[str, Any, float]]:
    return [(item.content, item.metadata, item.score) for item in items]


def test_a_hit_says_where_it_is_from() -> None:
    (hit,) = SparseRetriever([BEES, CATS]).retrieve("lavender?", top_k=1)
    assert hit == ContextItem(
        content="# Bees\n\nBees like lavender.",
        score=hit.score,
        id=hit.id,
        namespace="/insects",
        metadata={
            "document": "bees", "position": 0, "chunks": 1, "start": 0, "end": 27, "title": "All of bees",
            "section": "Bees",
        },
    )  # fmt: skip
    (cat,) = SparseRetriever([BEES, CATS]).retrieve("sleep", top_k=1)
    assert (cat.metadata["year"], "title" in cat.metadata) == (2020, False)


def test_a_word_of_a_heading_finds_what_is_below_it() -> None:
    page = Document("p", "# Wasps\n\nOne.\n\n" + "Two three four five. " * 20, kind="markdown")
    found = SparseRetriever([page], size=20).retrieve("wasps", top_k=9)
    assert len(found) >= 2


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (None, {"bees", "cats"}),
        (RetrievalScope(include=("/pets",)), {"cats"}),
        (RetrievalScope(exclude=("/pets",)), {"bees"}),
        (RetrievalScope(include=("/plants",)), set()),
    ],
)
def test_what_lies_outside_of_the_scope_is_not_found(scope: RetrievalScope | None, found: set[str]) -> None:
    retriever = SparseRetriever([BEES, CATS])
    assert {item.metadata["document"] for item in retriever.retrieve("how many legs", scope=scope)} == found


@pytest.mark.parametrize("make", [SparseRetriever, lambda: DenseRetriever(embedder=Letters())])
def test_documents_come_and_go(make: Any) -> None:
    retriever = make()
    assert retriever.retrieve("legs") == []
    retriever.add([BEES, CATS])
    assert (len(retriever), "cats" in retriever, retriever.documents) == (3, True, (BEES, CATS))
    retriever.add([CATS.replace(text="Cats have nine lives.")])
    assert shown(retriever.retrieve("cats have", top_k=1)) == ["Cats have nine lives."]
    assert (retriever.remove("cats"), retriever.remove("cats"), len(retriever)) == (True, False, 2)
    assert retriever.retrieve("cats") == []


def test_after_any_changes_it_finds_what_a_new_one_finds() -> None:
    changed = SparseRetriever([BEES, CATS, Document("x", "Legs of chairs.")])
    changed.remove("x")
    changed.add([BEES])
    fresh = SparseRetriever([CATS, BEES])
    assert seen(changed.retrieve("six legs of bees")) == seen(fresh.retrieve("six legs of bees"))


def test_hits_that_say_the_same_are_one_and_neighbours_lend_their_score() -> None:
    copies = [{"id": str(number), "text": "Bees like lavender."} for number in range(4)]
    assert shown(SparseRetriever(copies).retrieve("bees")) == ["Bees like lavender."]
    text = "The hive opens in May.\n\nIt is then inspected.\n\nWasps sting.\n\nCows graze."
    lending = SparseRetriever([text], size=5, count=words)
    assert shown(lending.retrieve("hive"))[:2] == ["The hive opens in May.", "It is then inspected."]
    numbers = ["The fee is 20 in May.", "The fee is 30 in May.", "The fee is not 30 in May."]
    assert sorted(shown(SparseRetriever(numbers).retrieve("fee in May"))) == sorted(numbers)


def test_meaning_lends_to_neighbours_and_shows_copies_once() -> None:
    text = "bbb\n\nzzz\n\nccc\n\nzz\n\nzzzz"
    found = DenseRetriever([text, "bbb"], embedder=Letters(), size=1, count=words).retrieve("bb", top_k=9)
    assert shown(found)[0] == "bbb"
    assert shown(found).count("bbb") == 1
    assert shown(found)[1] == "zzz"


def test_meaning_finds_what_shares_no_word() -> None:
    letters = Letters()
    retriever = DenseRetriever(["bbb", "ccc", "zzz"], embedder=letters)
    assert letters.asked == []
    assert shown(retriever.retrieve("cc", top_k=1)) == ["ccc"]
    assert shown(retriever.retrieve(QueryBundle("cc", embedding=[0, 0, 1]), top_k=1)) == ["zzz"]
    assert letters.asked == ["bbb", "ccc", "zzz", "cc"]


def test_meaning_finds_a_document_that_is_alone() -> None:
    one = DenseRetriever([Document("b", "bbb", namespace="/b")], embedder=Letters())
    assert [(item.content, item.score) for item in one.retrieve("bb")] == [("bbb", 1.0)]
    assert one.retrieve("cc") == []
    one.add([Document("c", "bcc", namespace="/c")])
    found = one.retrieve("bbb", scope=RetrievalScope(include=("/c",)))
    assert [(item.content, item.score) for item in found] == [("bcc", 1.0)]


def test_a_vector_of_another_embedder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a vector of \(2,\) numbers, the documents have vectors of 3"):
        DenseRetriever(["b"], embedder=Letters()).retrieve(QueryBundle("b", embedding=[1, 2]))


def test_words_and_meaning_together() -> None:
    retriever = HybridRetriever(["bbb honey", "ccc honey"], vectors=Letters())
    assert shown(retriever.retrieve("honey bb"))[0] == "bbb honey"
    assert shown(retriever.retrieve("honey cc"))[0] == "ccc honey"
    assert retriever.retrieve("honey bb")[0].score <= 1.0


@pytest.mark.parametrize(
    ("embedding", "first", "embeds"),
    [
        ([0, 1, 0], "ccc honey", False),
        ((0.0, 0.0, 9.0), "zzz honey", False),
        (None, "bbb honey", True),
        ([0, 1], "bbb honey", True),
        ([0, float("nan"), 0], "bbb honey", True),
    ],
)
def test_a_question_that_brings_its_vector_is_not_embedded_where_it_fits(
    embedding: Any, first: str, embeds: bool
) -> None:
    letters = Letters()
    retriever = HybridRetriever(["bbb honey", "ccc honey", "zzz honey"], vectors=letters)
    letters.asked.clear()
    assert shown(retriever.retrieve(QueryBundle("honey of b", embedding=embedding)))[0] == first
    assert bool(letters.asked) is embeds
    assert shown(retriever.retrieve("honey of zz"))[0] == "zzz honey"


def test_a_question_that_brings_its_vector_to_words_alone_is_asked_in_words() -> None:
    retriever = HybridRetriever(["bbb honey", "ccc wax"], vectors=False)
    assert shown(retriever.retrieve(QueryBundle("honey", embedding=[0, 1, 0])))[0] == "bbb honey"


def test_vectors_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_vectors, "installed_folder", lambda: None)
    with pytest.raises(ProviderNotInstalledError, match=r"sapwood\[vectors\]"):
        DenseRetriever(["b"])
    assert shown(HybridRetriever(["bees"]).retrieve("bees")) == ["bees"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SparseRetriever("one text"), "given as a list"),
        (lambda: SparseRetriever([3]), "a Document, a text or a dict with id and text, not 3"),
        (lambda: SparseRetriever([{"id": "a"}]), "a dict with id, text, title"),
        (lambda: SparseRetriever([{"id": "", "text": "x"}]), "needs an id"),
        (lambda: SparseRetriever([{"id": "a", "text": 3}]), "text of a document is a text, not 3"),
        (lambda: SparseRetriever([{"id": "a", "text": "x", "kind": "pdf"}]), "one of text, markdown, code, not 'pdf'"),
        (lambda: SparseRetriever(size=0), "size is a number of tokens"),
        (lambda: SparseRetriever(["x"]).retrieve(3), "a question is a text or a QueryBundle, not 3"),
        (lambda: SparseRetriever(["x"]).retrieve("x", 0), "top_k must be at least 1, not 0"),
        (lambda: HybridRetriever(["x"], vectors=3), "vectors must be"),
        (lambda: SparseRetriever([{"id": "a", "text": "x", "metadata": {"y": object()}}]), "what JSON cannot carry"),
    ],
)
def test_what_cannot_be_is_told_at_once(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


HALF = "\ud800"


@pytest.mark.parametrize("make", [SparseRetriever, HybridRetriever, lambda given: DenseRetriever(given, embedder=Letters())])  # fmt: skip
@pytest.mark.parametrize(
    "document",
    [
        f"Bees {HALF}",
        {"id": HALF, "text": "x"},
        {"id": "a", "text": "x", "title": HALF},
        {"id": "a", "text": "x", "namespace": HALF},
        {"id": "a", "text": "x", "metadata": {"by": [HALF]}},
    ],
)
def test_half_a_character_is_told_and_nothing_is_added(make: Any, document: Any) -> None:
    retriever = make(["Bees hum."])
    with pytest.raises(ConfigError, match=r"\\ud800"):
        retriever.add(["Wasps sting.", document])
    assert len(retriever) == 1
    with pytest.raises(ConfigError, match=r"a question holds half a character \(a lone surrogate, '\\ud800' at 5\)"):
        retriever.retrieve(f"bees {HALF}")
    assert shown(retriever.retrieve("bees")) == ["Bees hum."]
    assert not retriever.remove(HALF)


def test_a_text_as_a_document_is_named_by_what_it_says() -> None:
    assert as_document("Bees").id == as_document("Bees").id != as_document("Cats").id


def test_a_chunker_of_ones_own() -> None:
    def halves(text: str, **_: Any) -> list[Chunk]:
        middle = len(text) // 2
        return [Chunk(text[:middle], 0, middle), Chunk(text[middle:], middle, len(text))] if text else []

    assert shown(SparseRetriever(["aaaa bees"], chunker=halves).retrieve("aaaa", top_k=1)) == ["aaaa"]


TEXT = "\n\n".join(f"Part {number} of it." for number in range(8))


@pytest.mark.parametrize(
    ("room", "found"),
    [
        (3, []),
        (4, ["Part 3 of it."]),
        (8, ["Part 2 of it.\n\nPart 3 of it."]),
        (12, ["Part 2 of it.\n\nPart 3 of it.\n\nPart 4 of it."]),
        (1_000, [TEXT]),
    ],
)
def test_a_hit_grows_to_the_room(room: int, found: list[str]) -> None:
    retriever = SparseRetriever([TEXT], size=4, count=words)
    assert shown(retriever.grow(retriever.retrieve("3", top_k=1), room)) == found


def test_what_was_grown_can_grow_again_and_strangers_are_left_out() -> None:
    retriever = SparseRetriever([TEXT], size=4, count=words)
    (once,) = retriever.grow(retriever.retrieve("3", top_k=1), 8)
    assert once.metadata["chunks"] == 2
    (twice,) = retriever.grow(
        [once, ContextItem(content="x"), ContextItem(content="y", metadata={"document": "?", "position": 0})], 16
    )
    assert (twice.metadata["position"], twice.metadata["chunks"], twice.score) == (1, 4, once.score)
    assert len(retriever.grow([once], 45, count=len)[0].content) <= 45
    assert TEXT[twice.metadata["start"] : twice.metadata["end"]] == twice.content


@given(
    hits=st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.floats(0, 1), max_size=8),
    room=st.integers(0, 60),
)
@settings(deadline=None)
def test_passages_keep_the_laws(hits: dict[tuple[str, int], float], room: int) -> None:
    def tokens(document: str, first: int, last: int) -> int:
        return sum(3 + (number * 7 + ord(document)) % 5 for number in range(first, last + 1))

    found = grow(hits, room, tokens=tokens, length=lambda _: 10)
    assert sum(tokens(item.document, item.first, item.last) for item in found) <= room
    places = [(item.document, number) for item in found for number in range(item.first, item.last + 1)]
    assert len(places) == len(set(places))
    for one in found:
        own = [item for item in found if item.document == one.document]
        assert own == sorted(own, key=lambda item: item.first)
        assert any((one.document, number) in hits for number in range(one.first, one.last + 1))
        assert all(other.last + 1 < one.first or one.last + 1 < other.first for other in own if other is not one)
    fitting = [hit for hit in hits if tokens(hit[0], hit[1], hit[1]) <= room]
    assert bool(found) == bool(fitting)
    assert found == grow(dict(reversed(hits.items())), room, tokens=tokens, length=lambda _: 10)


def test_documents_come_in_the_order_of_their_best_chunk() -> None:
    hits = {("a", 5): 0.2, ("b", 0): 0.9, ("a", 0): 0.5}
    assert grow(hits, 3, tokens=lambda document, first, last: last - first + 1, length=lambda _: 9) == [
        Passage("b", 0, 1, 0.9),
        Passage("a", 0, 0, 0.5),
    ]
