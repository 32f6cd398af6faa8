"""Pipeline steps: functions that gather, choose and order items for a question.

Laws: a step gets a list of its own, so what it does to it is undone where it fails; what it returns is looked at at
once; what a retriever returns is held to its `top_k` and to its scope, whatever it was told.
Source: guide A, "Pipeline"; the list of faults, "Pipeline" and "rag_skill".
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec

from sapwood.core.context_item import ContextItem, QueryBundle, SourceType
from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.maybe import then
from sapwood.core.require import shown
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import MaybeAwaitable

TOP_K = 10
Items: TypeAlias = list[ContextItem]
StepFn: TypeAlias = Callable[[Items, QueryBundle], MaybeAwaitable[Items]]
"""The items so far and the question -> the items from now on."""
OnStepError: TypeAlias = Literal["raise", "skip"]


class RetrieverLike(Protocol):
    """Anything that finds documents for a question."""

    def retrieve(self, query: Any, top_k: int = TOP_K) -> MaybeAwaitable[Iterable[Any]]:
        """Return the hits, best first."""
        ...


class RerankerLike(Protocol):
    """Anything that puts documents in a better order."""

    def rerank(self, query: Any, items: Items, top_k: int | None = None) -> MaybeAwaitable[Items]:
        """Return the items, best first."""
        ...


Retriever: TypeAlias = RetrieverLike | Callable[..., MaybeAwaitable[Iterable[Any]]]
"""A function of a question, or an object with `retrieve`; plain or async."""
Reranker: TypeAlias = RerankerLike | Callable[..., MaybeAwaitable[Items]]
"""A function of a question and items, or an object with `rerank`; plain or async."""


class PipelineStep(msgspec.Struct, frozen=True):
    """One step. fn: plain or async. on_error: `skip` goes on without it, as if it had never run.

    scoped: it is called with `scope=` as well, the RetrievalScope of who builds, or None.

    >>> PipelineStep("nothing", lambda items, query: []).on_error
    'raise'
    """

    name: str
    fn: Callable[..., MaybeAwaitable[Items]]
    on_error: OnStepError = "raise"
    scoped: bool = False

    def __post_init__(self) -> None:
        if not callable(self.fn):  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
            raise ConfigError(f"the step {self.name!r} needs a function of items and a question, not {shown(self.fn)}")
        if self.on_error not in ("raise", "skip"):
            raise ConfigError(f'on_error of the step {self.name!r} is "raise" or "skip", not {shown(self.on_error)}')

    @property
    def is_async(self) -> bool:
        """It is known to be async before it was called."""
        return inspect.iscoroutinefunction(self.fn)

    def call(
        self, items: Sequence[ContextItem], query: QueryBundle, scope: RetrievalScope | None
    ) -> MaybeAwaitable[Items]:
        """Return what the function makes of copies of these items."""
        more = {"scope": scope} if self.scoped else {}
        own = [item.replace(metadata=_copied(item.metadata)) if item.metadata else item for item in items]
        return self.fn(own, query, **more)


def as_step(step: "PipelineStep | StepFn") -> PipelineStep:
    """Return a step, made of a function where it is none yet."""
    if isinstance(step, PipelineStep):
        return step
    return PipelineStep(name_of(step), step, scoped="scope" in parameters_of(step))


def name_of(fn: object) -> str:
    """Return how a function is called."""
    return str(getattr(fn, "__name__", type(fn).__name__))


def checked(name: str, answer: object) -> tuple[ContextItem, ...] | str:
    """Return what a step returned, or what is wrong with it in words."""
    if not isinstance(answer, list | tuple):
        return f"Step {name!r} returned {type(answer).__name__}, not a list of ContextItems"
    found = cast("Sequence[object]", answer)  # each is looked at
    for place, item in enumerate(found):
        if not isinstance(item, ContextItem):
            return f"Step {name!r} returned a list with {type(item).__name__} at place {place}, not a ContextItem"
    return tuple(item for item in found if isinstance(item, ContextItem))


def retriever_step(
    name: str,
    retriever: Retriever,
    top_k: int = TOP_K,
    *,
    scope: RetrievalScope | None = None,
    on_error: OnStepError = "raise",
) -> PipelineStep:
    """Return a step that adds what a retriever finds, at most `top_k` items.

    retriever: an object with `retrieve`, or a function of the question, plain or async; it gets a QueryBundle, which
    is a text too, and `top_k`, `embedding` and `scope` where it takes them. Hits are ContextItems, texts, dictionaries
    or objects with `content` or `text`. scope: what lies elsewhere is left out, even where the retriever returns it.

    Raises ConfigError for what is no retriever.

    >>> step = retriever_step("search", lambda query: [f"All about {query}."])
    >>> step.call([], QueryBundle("bees"), None)[0].content
    'All about bees.'
    """
    retrieve = _function("retriever_step", retriever, "retrieve")
    _require_top_k(top_k)
    takes = parameters_of(retrieve)

    own = scope

    def search(items: Items, query: QueryBundle, *, scope: RetrievalScope | None = None) -> MaybeAwaitable[Items]:
        allowed = narrowed(scope, own)
        found = retrieve(query, **options_for(takes, top_k=top_k, embedding=query.embedding, scope=allowed))
        return then(found, lambda hits: [*items, *within(hits, top_k, allowed)])

    return PipelineStep(name, search, on_error, scoped=True)


def filter_step(
    name: str, predicate: Callable[[ContextItem], bool], *, on_error: OnStepError = "raise"
) -> PipelineStep:
    """Return a step that keeps the items for which the predicate is true. System prompts are never asked about.

    >>> step = filter_step("good", lambda item: item.score > 0.5)
    >>> step.call([ContextItem(content="a", score=0.9), ContextItem(content="b")], QueryBundle("?"), None)[0].content
    'a'
    """
    if not callable(predicate):  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
        raise ConfigError(f"filter_step takes a function of an item, not {shown(predicate)}")

    def keep(items: Items, query: QueryBundle) -> Items:
        return [item for item in items if _answer(name, predicate(item))]

    return PipelineStep(name, keep, on_error)


def reranker_step(
    name: str, reranker: Reranker, top_k: int | None = None, *, on_error: OnStepError = "raise"
) -> PipelineStep:
    """Return a step that has the retrieved items put in a better order, and keeps at most `top_k` of them.

    reranker: an object with `rerank`, or a function of the question and a list of items, plain or async; it gets
    `top_k` where it takes it, and returns items, best first. Their scores become those of their places, so that the
    order decides what goes in. What was remembered or said stays as it is.

    Raises ConfigError for what is no reranker.

    >>> step = reranker_step("short first", lambda query, items: sorted(items, key=lambda item: len(item.content)), 1)
    >>> items = [ContextItem(content="long", score=0.9), ContextItem(content="b", score=0.1)]
    >>> [(item.content, item.score) for item in step.call(items, QueryBundle("?"), None)]
    [('b', 1.0)]
    """
    rerank = _function("reranker_step", reranker, "rerank")
    if top_k is not None:
        _require_top_k(top_k)
    takes_top_k = "top_k" in parameters_of(rerank)

    def reorder(items: Items, query: QueryBundle) -> MaybeAwaitable[Items]:
        candidates = [item for item in items if item.source == SourceType.RETRIEVAL]
        rest = [item for item in items if item.source != SourceType.RETRIEVAL]
        ranked = rerank(query, candidates, **({"top_k": top_k} if takes_top_k else {}))
        return then(ranked, lambda found: [*rest, *_by_place(name, found, top_k)])

    return PipelineStep(name, reorder, on_error)


def within(hits: Iterable[Any], top_k: int, scope: RetrievalScope | None) -> Items:
    """Return the first hits as items, those outside of a scope left out."""
    found: Items = []
    is_one: bool = isinstance(hits, str) or is_object(hits)  # not its characters or its keys
    listed: Iterable[Any] = [hits] if is_one else hits
    for hit in listed:
        item = to_item(hit)
        if scope is None or scope.matches(item.namespace):
            found.append(item)
            if len(found) == top_k:
                break
    return found


def narrowed(outer: RetrievalScope | None, inner: RetrievalScope | None) -> RetrievalScope | None:
    """Return what both scopes allow; None allows all."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    return outer.intersect(inner)


def to_item(hit: Any) -> ContextItem:
    """Return a hit of a retriever as an item: a text, a dictionary, or an object with `content` or `text`.

    >>> to_item({"text": "Bees.", "score": 0.5, "section": "garden"}).metadata
    {'section': 'garden'}
    """
    if isinstance(hit, ContextItem):
        return hit
    kinds: dict[str, Callable[[Any], Any]] = {"score": float, "namespace": str, "id": str}
    known = {name: kind(found) for name, kind in kinds.items() if (found := field_of(hit, name)) is not None}
    metadata = field_of(hit, "metadata")
    section = field_of(hit, "section")
    more = {**(metadata if is_object(metadata) else {}), **({} if section is None else {"section": section})}
    return ContextItem(content=text_of(hit), metadata=more, **known)


def text_of(hit: Any) -> str:
    """Return the text of a hit."""
    if isinstance(hit, str):
        return hit
    found = next((text for name in ("content", "text") if (text := field_of(hit, name)) is not None), None)
    return str(hit) if found is None else str(found)


def field_of(hit: Any, name: str) -> Any:
    """Return a field of a dictionary or of an object; None where it has none."""
    return hit.get(name) if is_object(hit) else getattr(hit, name, None)


def options_for(takes: frozenset[str], **options: Any) -> dict[str, Any]:
    """Return which of the options to hand over: those that are taken, and known.

    >>> options_for(frozenset(("top_k", "scope")), top_k=5, embedding=[0.1], scope=None)
    {'top_k': 5}
    """
    return {name: value for name, value in options.items() if name in takes and value is not None}


def parameters_of(fn: object) -> frozenset[str]:
    """Return which of the options of a retriever, a reranker or a step a function takes by name."""
    options = frozenset(("top_k", "embedding", "scope", "query"))
    try:
        parameters = tuple(inspect.signature(fn).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no function, or one of C that does not tell
        return frozenset()
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters):
        return options
    return options & {item.name for item in parameters}


def _by_place(name: str, found: object, top_k: int | None) -> Items:
    items = checked(name, found)
    if isinstance(items, str):
        raise TypeError(items)
    items = items[:top_k]
    return [item.replace(score=1.0 - place / len(items)) for place, item in enumerate(items)]


def _answer(name: str, answer: object) -> bool:
    if isawaitable(answer):
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        raise TypeError(f"the predicate of {name!r} is async; filter in an async step of your own (@pipeline.step)")
    return bool(answer)


def _function(who: str, given: object, method: str) -> Callable[..., Any]:
    found: Any = getattr(given, method, given)
    if not callable(found):
        raise ConfigError(f"{who} takes a function or an object with {method}(), not {shown(given)}")
    function: Callable[..., Any] = found
    return function


def _require_top_k(top_k: object) -> None:
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {shown(top_k)}")


def _copied(value: Any) -> Any:
    """Return a copy of lists and dictionaries, down to what is in them."""
    if is_object(value):
        return {key: _copied(item) for key, item in value.items()}
    if is_list(value):
        return [_copied(item) for item in value]
    return value
