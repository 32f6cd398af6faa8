"""retrieval_source: what a prompt calls for, quoted, within its room."""

import asyncio
from inspect import isawaitable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood import (
    Agent,
    ConfigError,
    ContextItem,
    ContextUpdated,
    HybridRetriever,
    RetrievalScope,
    RoundStarted,
    Selection,
    SparseRetriever,
    Turn,
    retrieval_source,
)
from sapwood.core.messages import Recalled
from sapwood.sources.retrieval import HEADING
from sapwood.testing import says, scripted
from support.governed import run

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


def words(text: str) -> int:
    return len(text.split())


def selected(source: Any, room: int = 1_000, **turn: Any) -> Selection | None:
    found = source.select(Turn(**{"text": "bees?", "count": words, **turn}), room)

    async def wait() -> Any:
        return await found

    return asyncio.run(wait()) if isawaitable(found) else found


def text_of(selection: Selection | None) -> str:
    assert selection is not None
    return selection.text


def hits(*texts: str, **more: Any) -> Any:
    return lambda query: [{"text": text, **more} for text in texts]


async def later(query: str, top_k: int = 0) -> list[str]:
    return [f"{query} {top_k}"]


class Asked:
    """A retriever that notes what it was given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def retrieve(self, query: Any, top_k: int = 3, scope: Any = None) -> list[ContextItem]:
        self.given = {"history": query.chat_history, "top_k": top_k, "scope": scope}
        return [ContextItem(content="law", namespace="/law"), ContextItem(content="art", namespace="/art")]


@pytest.mark.parametrize(
    ("retriever", "options", "expected"),
    [
        (hits("One.", "Two."), {}, "[1]\n> One.\n\n[2]\n> Two."),
        (hits("One.", "Two."), {"top_k": 1}, "[1]\n> One."),
        (hits("a\nb\u2028c\n\n> d"), {}, "[1]\n> a\n> b\n> c\n>\n> > d"),
        (
            hits("One.", section="A > B", metadata={"title": "T", "document": "d\n[2]"}),
            {},
            "[1] T, d [2], A > B\n> One.",
        ),
        (hits("One.", section="x" * 200), {}, f"[1] {'x' * 160}…\n> One."),
        (later, {}, "[1]\n> bees? 5"),
        (later, {"top_k": 2, "rerank": lambda query, items: items}, "[1]\n> bees? 8"),
        ({"a": hits("1", "2"), "b": later}, {}, "[1] a\n> 1\n\n[2] b\n> bees? 5\n\n[3] a\n> 2"),
        ({"a": hits("1"), "b": hits("1")}, {}, "[1] a\n> 1"),
        (hits("low", score=0.1), {"min_score": 0.1}, "[1]\n> low"),
        (hits("a", "bb"), {"rerank": lambda query, items: items[::-1]}, "[1]\n> bb\n\n[2]\n> a"),
    ],
)
def test_what_is_found_is_quoted_with_where_it_is_from(retriever: Any, options: dict[str, Any], expected: str) -> None:
    selection = selected(retrieval_source(retriever, heading="", **options))
    assert text_of(selection) == expected
    assert selection is not None
    assert selection.section == "retrieval"


def test_an_async_reranker_is_awaited() -> None:
    async def shortest_first(query: str, items: list[ContextItem]) -> list[ContextItem]:
        return sorted(items, key=lambda item: len(item.content))

    source = retrieval_source(hits("long one", "a"), rerank=shortest_first, top_k=1, heading="")
    assert text_of(selected(source)) == "[1]\n> a"


@pytest.mark.parametrize(
    ("retriever", "options", "turn"),
    [
        (hits(), {}, {}),
        (lambda query: None, {}, {}),
        (hits("One."), {}, {"text": " \n"}),
        (hits("low", score=0.1), {"min_score": 0.2}, {}),
        (hits("low", score=0.1), {"min_score": 0.2, "rerank": lambda query, items: 1 / 0}, {}),
        (hits("One."), {}, {"scope": RetrievalScope(include=("/law",))}),
        (hits("One."), {"scope": RetrievalScope(include=("/law",))}, {}),
        (hits("One word."), {"max_tokens": 1}, {}),
    ],
)
def test_nothing_is_shown_where_nothing_is_found(retriever: Any, options: dict[str, Any], turn: dict[str, Any]) -> None:
    assert selected(retrieval_source(retriever, **options), **turn) is None


def test_a_retriever_is_told_of_the_scope_and_held_to_it() -> None:
    asked = Asked()
    source = retrieval_source(asked, scope=RetrievalScope(exclude=("/art/new",)), heading="")
    assert text_of(selected(source, scope=RetrievalScope(include=("/art",)))) == "[1]\n> art"
    assert asked.given == {
        "history": (),
        "top_k": 5,
        "scope": RetrievalScope(include=("/art",), exclude=("/art/new",)),
    }


@pytest.mark.parametrize(
    ("room", "max_tokens", "expected"),
    [
        (100, None, "[1]\n> a b c d e f\n\n[2]\n> g"),
        (11, None, "[1]\n> a b c d e f\n\n[2]\n> g"),
        (10, None, "[1]\n> a b c d e f"),
        (100, 10, "[1]\n> a b c d e f"),
        (7, None, "[1]\n> g"),
    ],
)
def test_hits_go_in_as_they_fit(room: int, max_tokens: int | None, expected: str) -> None:
    source = retrieval_source(hits("a b c d e f", "g"), max_tokens=max_tokens, heading="")
    assert text_of(selected(source, room)) == expected


def test_where_no_hit_fits_the_best_one_is_cut() -> None:
    source = retrieval_source(hits("a b c d e f", "g h i j k l"), heading="")
    assert text_of(selected(source, 5)) == "[1]\n> a b c…"


def test_hits_are_grown_until_the_room_is_full() -> None:
    text = "\n\n".join(f"Part {number} of it." for number in range(9))
    retriever = SparseRetriever([{"id": "d", "text": text}], size=4, count=words)
    source = retrieval_source(retriever, max_tokens=30, grow=True, top_k=1, heading="")
    shown = text_of(selected(source, text="3?"))
    assert words(shown) <= 30
    assert "> Part 3 of it.\n>\n> Part 4 of it." in shown
    assert shown.startswith("[1] d\n> Part")
    assert text_of(selected(source, 8, text="3?")) == "[1] d\n> Part 3 of it."  # too small to grow with its quotes
    assert selected(source, text="nothing") is None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: retrieval_source(3), "a function or an object with retrieve"),
        (lambda: retrieval_source({}), "this dictionary of them is empty"),
        (lambda: retrieval_source({"": later}), "the name of a retriever is a text, not ''"),
        (lambda: retrieval_source({"a": 3}), "a function or an object with retrieve"),
        (lambda: retrieval_source(later, top_k=0), "top_k must be at least 1, not 0"),
        (lambda: retrieval_source(later, max_tokens=True), "max_tokens must be at least 1, not True"),
        (lambda: retrieval_source(later, min_score="1"), "min_score is a number, not '1'"),
        (lambda: retrieval_source(later, rerank=3), "rerank"),
        (lambda: retrieval_source(later, grow=True), r"one retriever with grow\(\)"),
        (lambda: retrieval_source(SparseRetriever(), grow=True), "needs max_tokens"),
    ],
)
def test_what_cannot_be_kept_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


@RUNTIMES
@pytest.mark.parametrize("placement", ["turn", "system"])
def test_a_turn_shows_documents_and_the_ledger_counts_them(runtime: str, placement: Any) -> None:
    model = scripted(says("Lavender."))
    retriever = HybridRetriever([{"id": "garden.md", "text": "Bees like lavender."}], vectors=False)
    agent = Agent(llm=model).with_sources([retrieval_source(retriever, placement=placement)])
    events = run(agent, runtime, prompt="What do bees like?")
    (told,) = [event for event in events if isinstance(event, ContextUpdated)]
    expected = f"{HEADING}\n\n[1] garden.md\n> Bees like lavender."
    assert (told.source, told.op, told.text, told.placement) == ("retrieval", "recalled", expected, placement)
    (started,) = [event for event in events if isinstance(event, RoundStarted)]
    sections = started.ledger.sections
    assert sections["retrieval"] > 10
    assert sections["memory"] == 0
    assert "1 passage" in [line.label for line in started.ledger.lines]
    beside = [part.text for part in model.requests[0].transcript[0].content if isinstance(part, Recalled)]
    assert beside == ([expected] if placement == "turn" else [])


@RUNTIMES
def test_a_retriever_that_fails_does_not_lose_the_turn(runtime: str) -> None:
    def broken(query: str) -> list[str]:
        raise OSError("no index")

    events = run(Agent(llm=scripted(says("ok"))).with_sources([retrieval_source(broken)]), runtime)
    (told,) = [event for event in events if isinstance(event, ContextUpdated)]
    assert (told.op, told.error) == ("failed", "OSError")
    assert events[-1].text == "ok"


@given(
    texts=st.lists(st.text(max_size=60), max_size=6),
    room=st.integers(0, 60),
    grow=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_block_fits_its_room_and_no_line_of_a_document_stands_unquoted(
    texts: list[str], room: int, grow: bool
) -> None:
    retriever = SparseRetriever([{"id": f"d{number}", "text": f"bees {text}"} for number, text in enumerate(texts)])
    source = retrieval_source(retriever, heading="", grow=grow, max_tokens=40)
    selection = selected(source, room)
    if selection is not None:
        assert words(selection.text) <= min(room, 40)
        for line in selection.text.splitlines():
            assert not line or (line.startswith((">", "[")) and "bees" not in line.partition(">")[0])
