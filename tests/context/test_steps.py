"""Steps of a pipeline: what they hand over, what they take back, what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from sapwood import (
    ConfigError,
    ContextItem,
    PipelineStep,
    QueryBundle,
    RetrievalScope,
    SourceType,
    filter_step,
    reranker_step,
    retriever_step,
)
from sapwood.context.steps import as_step, parameters_of, to_item

QUERY = QueryBundle("bees", embedding=[0.5])
LAW = RetrievalScope(include=("/law",))


def texts(found: Any) -> list[str]:
    return [item.content for item in found]


class Searcher:
    """A retriever that notes what it was asked."""

    def __init__(self, hits: list[Any]) -> None:
        self.hits = hits
        self.asked: list[dict[str, Any]] = []

    def retrieve(self, query: QueryBundle, top_k: int = 10, *, scope: RetrievalScope | None = None) -> list[Any]:
        self.asked.append({"query": query.query_str, "top_k": top_k, "scope": scope})
        return self.hits


def test_a_retriever_gets_what_it_takes_and_is_held_to_it() -> None:
    hits = [ContextItem(content=name, namespace=space) for name, space in [("a", "/law"), ("b", "/art"), ("c", "/law")]]
    searcher = Searcher(hits)
    step = retriever_step("search", searcher, top_k=2)
    assert texts(step.call([], QUERY, None)) == ["a", "b"]
    assert texts(step.call([], QUERY, LAW)) == ["a", "c"]
    narrow = retriever_step("search", searcher, top_k=1, scope=LAW)
    assert texts(narrow.call([ContextItem(content="before")], QUERY, None)) == ["before", "a"]
    nothing = RetrievalScope(exclude=("/",))
    assert texts(narrow.call([], QUERY, nothing)) == []
    assert [asked["top_k"] for asked in searcher.asked] == [2, 2, 1, 1]
    assert [asked["scope"] for asked in searcher.asked[:3]] == [None, LAW, LAW]


@pytest.mark.parametrize(
    ("retriever", "found"),
    [
        (lambda query: [f"{query.upper()} {query.embedding}"], ["BEES [0.5]"]),
        (lambda query, embedding: [str(embedding)], ["[0.5]"]),
        (lambda query, **more: [str(sorted(more))], ["['embedding', 'top_k']"]),
        (lambda query: "one text", ["one text"]),
        (lambda query: {"text": "one dictionary"}, ["one dictionary"]),
        (lambda query: ({"content": str(number)} for number in range(99)), [str(number) for number in range(10)]),
    ],
)
def test_a_retriever_may_be_a_function_and_its_hits_texts_or_dictionaries(
    retriever: Callable[..., Any], found: list[str]
) -> None:
    assert texts(retriever_step("search", retriever).call([], QUERY, None)) == found


class Hit:
    """A hit of somebody's own search."""

    content = "text"
    score = 1
    id = 7
    metadata = {"page": 3}
    section = "garden"


def test_a_hit_of_any_kind_becomes_an_item() -> None:
    item = to_item(Hit())
    assert (item.content, item.score, item.id, item.metadata) == ("text", 1.0, "7", {"page": 3, "section": "garden"})
    assert to_item({"text": "t", "namespace": "law"}).namespace == "/law"
    assert to_item(3).content == "3"
    assert to_item(item) is item


def test_a_filter_keeps_what_its_predicate_says() -> None:
    items = [ContextItem(content="a", score=0.9), ContextItem(content="b", score=0.1)]
    assert texts(filter_step("good", lambda item: item.score > 0.5).call(items, QUERY, None)) == ["a"]


def test_a_filter_that_is_async_is_refused_where_it_would_let_everything_through() -> None:
    async def later(item: ContextItem) -> bool:
        return False

    class Awaitable:
        def __await__(self) -> Any:
            yield

    for predicate in (later, lambda item: Awaitable()):
        with pytest.raises(TypeError, match="the predicate of 'good' is async"):
            filter_step("good", predicate).call([ContextItem(content="a")], QUERY, None)  # type: ignore[arg-type]


class Ranker:
    """A reranker that turns the order round."""

    def rerank(self, query: QueryBundle, items: list[ContextItem], top_k: int | None = None) -> list[ContextItem]:
        return items[::-1][:top_k]


def test_a_reranker_orders_what_was_retrieved_and_touches_nothing_else() -> None:
    fact = ContextItem(content="fact", source=SourceType.MEMORY, score=0.3)
    items = [ContextItem(content="a", score=0.9), fact, ContextItem(content="b", score=0.2)]
    found: Any = reranker_step("turn", Ranker()).call(items, QUERY, None)
    assert [(item.content, item.score) for item in found] == [("fact", 0.3), ("b", 1.0), ("a", 0.5)]
    assert texts(reranker_step("turn", Ranker(), top_k=1).call(items, QUERY, None)) == ["fact", "b"]
    ignoring = reranker_step("turn", lambda query, items: items, top_k=1)
    assert texts(ignoring.call(items, QUERY, None)) == ["fact", "a"]
    with pytest.raises(TypeError, match="Step 'turn' returned int, not a list of ContextItems"):
        reranker_step("turn", lambda query, items: 5).call(items, QUERY, None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: retriever_step("s", 5), "retriever_step takes a function or an object with retrieve"),  # type: ignore[arg-type]
        (lambda: retriever_step("s", list, top_k=0), "top_k must be at least 1, not 0"),
        (lambda: retriever_step("s", list, top_k=True), "top_k must be at least 1, not True"),
        (lambda: reranker_step("s", 5), "reranker_step takes a function or an object with rerank"),  # type: ignore[arg-type]
        (lambda: reranker_step("s", list, top_k=1.5), "top_k must be at least 1, not 1.5"),  # type: ignore[arg-type]
        (lambda: filter_step("s", 5), "filter_step takes a function of an item, not 5"),  # type: ignore[arg-type]
        (lambda: PipelineStep("s", 5), "the step 's' needs a function"),  # type: ignore[arg-type]
        (lambda: PipelineStep("s", list, "ignore"), "on_error of the step 's' is"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_step_is_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()


def test_a_function_becomes_a_step_by_its_name_and_gets_the_scope_where_it_takes_it() -> None:
    seen: list[Any] = []

    def look(items: list[ContextItem], query: QueryBundle, scope: RetrievalScope | None) -> list[ContextItem]:
        seen.append(scope)
        return items

    step = as_step(look)
    assert (step.name, step.is_async, as_step(step)) == ("look", False, step)
    step.call([], QUERY, LAW)
    assert seen == [LAW]
    assert parameters_of(5) == frozenset()


def test_a_step_works_on_copies() -> None:
    item = ContextItem(content="a", metadata={"tags": [{"deep": ["x"]}]})

    def spoil(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        items[0].metadata["tags"][0]["deep"].append("y")
        items.clear()
        return items

    given = [item]
    assert PipelineStep("spoil", spoil).call(given, QUERY, None) == []
    assert given == [ContextItem(content="a", metadata={"tags": [{"deep": ["x"]}]})]
