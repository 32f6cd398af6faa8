"""ContextPipeline: the fluent door to the engine that plans a window; usable without an agent and without a model.

Laws: building changes nothing; the same question and the same answers of memory and steps give the same window; no
step can lose a system prompt or the question; a pipeline in an Agent is a source among its sources.
Source: guide A, "Pipeline"; DESIGN section 1.
"""

from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

import msgspec

from sapwood.context.choose import Chosen, choose, shares_of, source_name
from sapwood.context.formatters import (
    CONTEXT_HEADING,
    SEPARATOR,
    Formatter,
    GenericTextFormatter,
    plain_block,
)
from sapwood.context.gather import (
    Gathered,
    Gathering,
    MemoryProvider,
    PipelineMemory,
    PipelineSettings,
    SelectingSource,
    at_once,
    awaited,
    driven,
    gathering,
)
from sapwood.context.meter import Meter
from sapwood.context.result import ContextResult, ContextWindow
from sapwood.context.source import ContextSource, Contribution, Saved, Selection, Turn
from sapwood.context.steps import OnStepError, PipelineStep, StepFn, as_step, name_of
from sapwood.context.tokenizer import Tokenizer, counter_of
from sapwood.core.budget import TokenBudget
from sapwood.core.context_item import ContextItem, QueryBundle, SourceType
from sapwood.core.errors import BlockingCallError, ConfigError
from sapwood.core.ledger import Section
from sapwood.core.maybe import then
from sapwood.core.messages import Message
from sapwood.core.ports import MemoryStore
from sapwood.core.require import shown
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.recall import HEADING as MEMORY_HEADING
from sapwood.runtime.clock import SystemClock

DEFAULT_TOKENS = 8_192
F = TypeVar("F", bound=Callable[..., Any])


class ContextPipeline:
    """System prompts, a memory and steps, planned into one window for a question.

    max_tokens: the window; None takes the budget's, or 8,192. tokenizer: an exact counter; None estimates.
    budget: as `with_budget`. Methods that configure return the pipeline itself.

    Raises ConfigError for a value that cannot work.

    >>> pipeline = ContextPipeline(max_tokens=1_000).add_system_prompt("Be brief.")
    >>> pipeline.build("What do bees like?").formatted_output
    '=== SYSTEM ===\\nBe brief.\\n\\n=== QUESTION ===\\nWhat do bees like?'
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        budget: TokenBudget | None = None,
    ) -> None:
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ConfigError(f"max_tokens must be a whole number above 0, not {shown(max_tokens)}")
        count = counter_of(tokenizer)
        if count is not None and not callable(count):  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
            raise ConfigError(
                f"tokenizer must be a function of a text, or have count_tokens(text), not {type(tokenizer).__name__}"
            )
        self._settings = PipelineSettings(max_tokens=max_tokens, count=count)
        self._monotonic = SystemClock().monotonic
        if budget is not None:
            self.with_budget(budget)

    # -- configure -------------------------------------------------------------------------------

    def with_system_prompt(self, prompt: str) -> Self:
        """Set the system prompt; the last one counts. Those of `add_system_prompt` stay."""
        return self._set(prompt=_text("with_system_prompt", prompt))

    def add_system_prompt(self, content: str, priority: int = 10) -> Self:
        """Add a system prompt; one with a higher priority stands before the others. All of them are always whole."""
        return self._set(prompts=(*self._settings.prompts, (priority, _text("add_system_prompt", content))))

    def with_memory(self, memory: PipelineMemory) -> Self:
        """Set the memory that is asked first; the last one counts.

        memory: a store (`create_memory_store()`), a source over one (`memory_source(store)`), or anything with
        `get_context_items(priority=7)` that returns ContextItems; each plain or async. Building saves nothing.

        Raises ConfigError for what is no memory.
        """
        if not isinstance(memory, MemoryProvider | SelectingSource | MemoryStore):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(
                "with_memory takes a memory store, memory_source(store), or an object with get_context_items(), not "
                f"{type(memory).__name__}"
            )
        return self._set(memory=memory)

    def with_budget(self, budget: TokenBudget) -> Self:
        """Set the window, the reserve for the reply and the shares of the kinds of items, by their SourceType.

        Of its total_tokens and a max_tokens of the pipeline the smaller counts.
        Raises ConfigError where the reserve leaves nothing of it.
        """
        if not isinstance(budget, TokenBudget):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"with_budget takes a TokenBudget, not {type(budget).__name__}")
        window = _window(self._settings.max_tokens, budget)
        if budget.reserve_tokens >= window:
            raise ConfigError(
                f"reserve_tokens ({budget.reserve_tokens}) must be smaller than the window of {window} tokens"
            )
        return self._set(budget=budget)

    def with_formatter(self, formatter: Formatter | Callable[[ContextWindow], Any]) -> Self:
        """Set what makes `formatted_output`: a formatter, or a function of the window. The default makes a text.

        Raises ConfigError for what cannot format.
        """
        if not callable(getattr(formatter, "format", formatter)):
            raise ConfigError(f"with_formatter takes an object with format(window), not {shown(formatter)}")
        return self._set(formatter=formatter)

    def with_query_enricher(self, enricher: Any) -> Self:
        """Have the question made into better words to search with, from what the memory holds.

        enricher: a function of (words, items of the memory) that returns words, or an object with such an `enrich`;
        plain or async. The steps get these words; what the user asked stands in the window as it was.

        Raises ConfigError for what cannot be called.
        """
        enrich = getattr(enricher, "enrich", enricher)
        if not callable(enrich):
            raise ConfigError(f"with_query_enricher takes a function or an object with enrich(), not {shown(enricher)}")
        return self._set(enrich=enrich)

    def add_step(self, step: PipelineStep | StepFn) -> Self:
        """Add a step: one of `retriever_step` and its kind, or a function of (items, query) that returns items.

        A function may take `scope` as well: the RetrievalScope of the Agent that asks, or None.
        Raises ConfigError for what cannot be called.
        """
        return self._set(steps=(*self._settings.steps, as_step(step)))

    @overload
    def step(self, fn: F, /) -> F: ...
    @overload
    def step(self, /, *, name: str | None = None, on_error: OnStepError = "raise") -> Callable[[F], F]: ...
    def step(
        self, fn: Callable[..., Any] | None = None, /, *, name: str | None = None, on_error: OnStepError = "raise"
    ) -> Any:
        """Add the decorated function, plain or async, as a step; it stays a function.

        on_error: `skip` goes on without the step where it fails.

        >>> pipeline = ContextPipeline()
        >>> @pipeline.step
        ... def bees(items: list[ContextItem], query: QueryBundle) -> list[ContextItem]:
        ...     return [*items, ContextItem(content="Bees like lavender.")]
        >>> pipeline.build("What do bees like?").diagnostics["steps"][0]["name"]
        'bees'
        """

        def add(function: F) -> F:
            made = as_step(function)
            self.add_step(msgspec.structs.replace(made, name=name or name_of(function), on_error=on_error))
            return function

        return add if fn is None else add(fn)

    # -- read ------------------------------------------------------------------------------------

    @property
    def max_tokens(self) -> int:
        """The window in tokens, the reserve for the reply among them."""
        return _window(self._settings.max_tokens, self._settings.budget)

    @property
    def budget(self) -> TokenBudget | None:
        """The budget, None where there is none."""
        return self._settings.budget

    @property
    def formatter(self) -> Any:
        """What makes `formatted_output`."""
        return self._settings.formatter or GenericTextFormatter()

    @property
    def steps(self) -> tuple[PipelineStep, ...]:
        """The steps, in their order."""
        return self._settings.steps

    @property
    def system_items(self) -> tuple[ContextItem, ...]:
        """The system prompts as items, in the order in which they stand."""
        return self._settings.system

    @property
    def is_empty(self) -> bool:
        """It adds nothing to any context."""
        settings = self._settings
        return not (settings.system or settings.steps or settings.memory is not None)

    # -- build -----------------------------------------------------------------------------------

    def build(self, query: str | QueryBundle) -> ContextResult:
        """Return the context for a question; no event loop is needed or used.

        Raises PipelineExecutionError where a step fails, ContextOverflowError where system prompts and question alone
        are too long, TypeError where a step or the memory is async: `abuild` waits for those.
        """
        for step in self._settings.steps:
            if step.is_async:
                raise BlockingCallError(
                    f"step {step.name!r} is async, so build() cannot wait for it; use `await abuild(...)`"
                )
        return at_once(self._building(query))

    async def abuild(self, query: str | QueryBundle) -> ContextResult:
        """Return the context for a question, as `build` does; steps and memory may be plain or async."""
        return await awaited(self._building(query))

    def as_source(self) -> "PipelineSource":
        """Return the pipeline as it is now as a context source, for `with_sources` or `create_context_manager`."""
        return PipelineSource(self._settings, clock=self._monotonic)

    def _building(self, query: str | QueryBundle) -> Gathering[ContextResult]:
        settings, started = self._settings, self._monotonic()
        query = query if isinstance(query, QueryBundle) else QueryBundle(query)
        room = self.max_tokens - (settings.budget.reserve_tokens if settings.budget is not None else 0)
        count = Meter(settings.count).text
        turn = Turn(text=query.query_str, messages=query.chat_history, room=room, count=count)
        gathered = yield from gathering(settings, query, turn=turn, clock=self._monotonic)
        system = (*settings.system, *(item for item in gathered.items if item.source == SourceType.SYSTEM))
        chosen = choose(
            [item for item in gathered.items if item.source != SourceType.SYSTEM],
            room,
            count,
            question=query.query_str if query.strip() else "",
            system=system,
            allocations=shares_of(settings.budget),
        )
        format_window = getattr(self.formatter, "format", self.formatter)
        output = format_window(chosen.window)
        spent = round((self._monotonic() - started) * 1_000, 2)
        return ContextResult(
            system=tuple(item.content for item in chosen.window.of(SourceType.SYSTEM)),
            messages=(*query.chat_history, Message.user(query.query_str)) if query.strip() else query.chat_history,
            ledger=chosen.ledger,
            window=chosen.window,
            formatted_output=output,
            format_type=str(getattr(self.formatter, "format_type", name_of(self.formatter))),
            overflow_items=chosen.overflow,
            details=_details(gathered, chosen, settings.budget),
            build_time_ms=spent,
        )

    def _set(self, **changes: Any) -> Self:
        self._settings = msgspec.structs.replace(self._settings, **changes)
        return self


class PipelineSource(ContextSource):
    """A pipeline in a turn: its system prompts are system text, what it gathers is selected for the prompt.

    >>> source = ContextPipeline().add_system_prompt("Be brief.").as_source()
    >>> source.name, source.contribute(Turn()).system
    ('pipeline', 'Be brief.')
    """

    name = "pipeline"

    def __init__(self, settings: PipelineSettings, *, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock

    def contribute(self, turn: Turn) -> Contribution:
        """Return the system prompts."""
        return Contribution(system="\n\n".join(item.content for item in self._settings.system))

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Return what memory and steps bring for the prompt, as much of it as fits."""
        settings = self._settings
        if settings.memory is None and not settings.steps:
            return None
        query = QueryBundle(turn.text, chat_history=turn.messages)
        steps = gathering(settings, query, turn=turn, clock=self._clock, scope=turn.scope)
        return then(driven(steps), lambda gathered: self._selection(gathered, turn, self._room(room)))

    def commit(self, turn: Turn) -> MaybeAwaitable[Saved | None]:
        """Have the memory keep what should last, where it is a source that does."""
        commit: Any = getattr(self._settings.memory, "commit", None)
        found: MaybeAwaitable[Saved | None] = None if commit is None else commit(turn)
        return found

    def _room(self, room: int) -> int:
        """Return the room, within the window that the pipeline itself was given."""
        settings = self._settings
        if settings.max_tokens is None and settings.budget is None:
            return room
        reserve = settings.budget.reserve_tokens if settings.budget is not None else 0
        return min(room, _window(settings.max_tokens, settings.budget) - reserve)

    def _selection(self, gathered: Gathered, turn: Turn, room: int) -> Selection | None:
        items = gathered.items
        if not items:
            return None
        frame = turn.count(f"{MEMORY_HEADING}\n\n\n{CONTEXT_HEADING}\n\n")
        shares = shares_of(self._settings.budget)
        chosen = choose(items, max(0, room - frame), turn.count, allocations=shares, each=turn.count(SEPARATOR))
        window = chosen.window
        while len(window.items) > 1 and turn.count(plain_block(window)) > room:  # a counter need not add up
            least = min(window.items, key=lambda item: (item.priority, item.score))
            window = msgspec.structs.replace(window, items=tuple(item for item in window.items if item is not least))
        if not window.items:  # the ledger is to say what was too long, or a share may cut it
            window = msgspec.structs.replace(window, items=chosen.overflow[:1])
        count, left = len(window.items), len(items) - len(window.items)
        label = f"{count} {'item' if count == 1 else 'items'}" + (f", {left} left out" if left else "")
        is_memory = all(item.source == SourceType.MEMORY for item in window.items)
        section: Section = "memory" if is_memory else "retrieval"
        return Selection(text=plain_block(window), label=label, section=section, placement=turn.placement)


def _details(gathered: Gathered, chosen: Chosen, budget: TokenBudget | None) -> dict[str, Any]:
    window, overflow = chosen.window, chosen.overflow
    details = {
        **gathered.details,
        "total_items_considered": len(window.items) + len(overflow),
        "items_included": len(window.items),
        "items_overflow": len(overflow),
        "token_utilization": window.utilization,
    }
    if budget is None:
        return details
    shares = shares_of(budget)
    by_source: dict[str, int] = {}
    out_by_source: dict[str, int] = {}
    for item in window.items:
        by_source[item.source.value] = by_source.get(item.source.value, 0) + item.token_count
    for item in overflow:
        out_by_source[item.source.value] = out_by_source.get(item.source.value, 0) + 1
    details["token_usage_by_source"] = by_source
    details["shared_pool_usage"] = sum(size for name, size in by_source.items() if source_name(name) not in shares)
    if out_by_source:
        details["budget_overflow_by_source"] = out_by_source
    return details


def _window(max_tokens: int | None, budget: TokenBudget | None) -> int:
    asked = [size for size in (max_tokens, budget.total_tokens if budget is not None else None) if size is not None]
    return min(asked, default=DEFAULT_TOKENS)


def _text(who: str, text: object) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"{who} takes a text, not {shown(text)}")
    return text
