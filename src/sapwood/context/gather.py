"""gather: what a pipeline's memory and steps bring for a question, plain or async by one and the same code.

Laws: the order is memory, the enricher of the question, then the steps in theirs; where nothing is async, nothing is
awaited; a step that fails and may be skipped leaves no trace but its name.
Source: guide A, "Pipeline".
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from inspect import isawaitable
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec

from sapwood.context.source import Selection, Turn
from sapwood.context.steps import PipelineStep, checked, parameters_of
from sapwood.core.budget import TokenBudget
from sapwood.core.context_item import CONVERSATION_PRIORITY, FACT_PRIORITY, ContextItem, QueryBundle, SourceType
from sapwood.core.errors import BlockingCallError, PipelineExecutionError, StepResultError
from sapwood.core.memory import MemoryRecord, RecallOptions
from sapwood.core.ports import MemoryStore
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.recall import Recall, recalled

_log = logging.getLogger(__name__)

T = TypeVar("T")


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory that gives its items itself, such as a conversation with what was learnt in it.

    It gets `query=` as well, where it takes that.
    """

    def get_context_items(self, priority: int = CONVERSATION_PRIORITY) -> MaybeAwaitable[Sequence[ContextItem]]:
        """Return the items; plain or async."""
        ...


@runtime_checkable
class SelectingSource(Protocol):
    """A context source that chooses text for a prompt, such as `memory_source(store)`."""

    @property
    def name(self) -> str:
        """The source's name."""
        ...

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Return what this prompt calls for."""
        ...


PipelineMemory: TypeAlias = MemoryProvider | SelectingSource | MemoryStore
Enrich: TypeAlias = Callable[[str, list[ContextItem]], MaybeAwaitable[str]]
"""The question's words and what was remembered -> the words to search with."""


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a pipeline was told, frozen."""

    max_tokens: int | None = None
    count: Callable[[str], int] | None = None
    budget: TokenBudget | None = None
    prompt: str | None = None
    prompts: tuple[tuple[int, str], ...] = ()
    memory: PipelineMemory | None = None
    enrich: Enrich | None = None
    steps: tuple[PipelineStep, ...] = ()
    formatter: Any = None

    @property
    def system(self) -> tuple[ContextItem, ...]:
        """The system prompts, those of a higher priority first."""
        own = () if self.prompt is None else ((10, self.prompt),)
        texts = sorted((*own, *self.prompts), key=lambda pair: -pair[0])
        return tuple(
            ContextItem(content=text, source=SourceType.SYSTEM, score=1.0, priority=priority)
            for priority, text in texts
            if text.strip()
        )


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """What was gathered, in its order, and what is to be told of how that went."""

    items: tuple[ContextItem, ...]
    details: dict[str, Any]


class Ask(msgspec.Struct, frozen=True):
    """A value that may have to be awaited. what: who gave it, in words."""

    what: str
    value: Any


Gathering: TypeAlias = Generator[Ask, Any, T]


def gathering(
    settings: PipelineSettings,
    query: QueryBundle,
    *,
    turn: Turn,
    clock: Callable[[], float],
    scope: RetrievalScope | None = None,
) -> Gathering[Gathered]:
    """Ask the memory, the enricher and the steps; whoever drives this awaits what has to be awaited.

    turn: for a memory that is a source. Raises PipelineExecutionError where a step fails that may not be skipped,
    StepResultError where one returns something else than items.
    """
    details: dict[str, Any] = {"steps": []}
    items: tuple[ContextItem, ...] = ()
    if settings.memory is not None:
        found = yield Ask("the memory", _asked(settings.memory, query, turn))
        items = _remembered(found)
        details["memory_items"] = len(items)
    if settings.enrich is not None:
        words = yield Ask("the query enricher", settings.enrich(query.query_str, list(items)))
        if not isinstance(words, str):
            raise TypeError(f"a query enricher returns the words to search with, not {type(words).__name__}")
        query = query.changed(words)
        details["query_enriched"] = True
    for step in settings.steps:
        started = clock()
        try:
            answer = yield Ask(f"step {step.name!r}", step.call(items, query, scope))
        except Exception as error:
            if step.on_error != "skip":
                raise PipelineExecutionError(
                    f"Step {step.name!r} failed during execution: {type(error).__name__}",
                    step=step.name,
                    diagnostics={**details, "failed_step": step.name},
                ) from error
            _log.warning("step %r failed and is skipped: %s", step.name, type(error).__name__, exc_info=error)
            details.setdefault("skipped_steps", []).append(step.name)
            continue
        given = checked(step.name, answer)
        if isinstance(given, str):
            raise StepResultError(given, step=step.name, diagnostics={**details, "failed_step": step.name})
        items = given
        spent = round((clock() - started) * 1_000, 2)
        details["steps"].append({"name": step.name, "items_after": len(items), "time_ms": spent})
    return Gathered(items=items, details=details)


def at_once(steps: Gathering[T]) -> T:
    """Drive it to its end without awaiting anything; raises BlockingCallError where something is async."""
    value: Any = None
    while True:
        try:
            asked = steps.send(value)
        except StopIteration as done:
            return cast("T", done.value)  # what a generator returns has no other way out
        if isawaitable(asked.value):
            refuse(asked.value)
            steps.close()
            raise BlockingCallError(f"{asked.what} is async, so build() cannot wait for it; use `await abuild(...)`")
        value = asked.value


async def awaited(steps: Gathering[T], first: Ask | None = None) -> T:
    """Drive it to its end, awaiting what has to be awaited. first: what it asked last, where it was begun."""
    try:
        asked = next(steps) if first is None else first
        while True:
            try:
                value = await asked.value if isawaitable(asked.value) else asked.value
            except BaseException as error:  # noqa: BLE001 - it is raised again there, unless the step may be skipped
                asked = steps.throw(error)
            else:
                asked = steps.send(value)
    except StopIteration as done:
        return cast("T", done.value)  # what a generator returns has no other way out


def driven(steps: Gathering[T]) -> MaybeAwaitable[T]:
    """Drive it as far as that goes without awaiting; return what comes, or something to await."""
    value: Any = None
    while True:
        try:
            asked = steps.send(value)
        except StopIteration as done:
            return cast("T", done.value)  # what a generator returns has no other way out
        if isawaitable(asked.value):
            return awaited(steps, asked)
        value = asked.value


def refuse(value: Awaitable[Any]) -> None:
    """Close a coroutine that nobody will await, so that nothing warns of it."""
    close = getattr(value, "close", None)
    if close is not None:
        close()


def _asked(memory: PipelineMemory, query: QueryBundle, turn: Turn) -> Any:
    if isinstance(memory, MemoryProvider):
        more = {"query": query} if "query" in parameters_of(memory.get_context_items) else {}
        return memory.get_context_items(priority=CONVERSATION_PRIORITY, **more)
    if isinstance(memory, SelectingSource):
        return memory.select(turn, turn.room)
    return recalled(memory, query.query_str, RecallOptions())


def _remembered(found: object) -> tuple[ContextItem, ...]:
    if found is None:
        return ()
    if isinstance(found, Recall | Selection):
        if found.records or isinstance(found, Recall):
            return tuple(map(_of_record, found.records))
        return (
            (ContextItem(content=found.text, source=SourceType.MEMORY, priority=FACT_PRIORITY),) if found.text else ()
        )
    items = checked("with_memory", found)
    if isinstance(items, str):
        raise StepResultError(items.replace("Step 'with_memory'", "the memory"), step="memory")
    return items


def _of_record(record: MemoryRecord) -> ContextItem:
    return ContextItem(
        content=record.text,
        source=SourceType.MEMORY,
        score=record.score or 0.0,
        priority=FACT_PRIORITY,
        id=record.id,
        metadata=dict(record.meta or {}),
    )
