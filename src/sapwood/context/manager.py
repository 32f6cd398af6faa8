"""ContextManager: the engine that asks the sources, in order, under one budget.

Laws: order a turn is gather, compact, select, handle…, commit; a source that fails never loses a turn
unless `on_error="raise"`; the manager keeps no state of a turn.
Source: guide D, "Context manager"; decision "a source that fails".
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from sapwood.context.meter import Meter
from sapwood.context.offered import Offered, offer
from sapwood.context.plan import Demand, Planner, judge, ranked, truncated
from sapwood.context.source import (
    ContextSource,
    Contribution,
    Exchange,
    History,
    Loaded,
    Saved,
    Selection,
    Shortened,
    SourceLike,
    Turn,
)
from sapwood.core.budget import Allocation, Budget, TokenBudget
from sapwood.core.errors import ConfigError
from sapwood.core.events import AgentEvent, ContextPrepared, ContextUpdated
from sapwood.core.ledger import LedgerLine
from sapwood.core.messages import Message, ToolCall
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.transcript import exchanges
from sapwood.core.usage import Usage

_log = logging.getLogger(__name__)

T = TypeVar("T")
OnError: TypeAlias = Literal["report", "raise"]
Compactor: TypeAlias = Callable[[list[Message], Budget], MaybeAwaitable[Sequence[Message]]]
"""Guide D's `history.compact`: all messages and the budget -> the messages to use instead."""


class Leaf:
    """How a source's method is called; the loop passes its runtime's `call` here."""

    async def __call__(self, step: str, fn: Callable[..., Any], *args: Any, **how: Any) -> Any:
        """Call it in place and await what it returns where that is needed; how: for a runtime, which this is not."""
        result = fn(*args)
        return await result if isawaitable(result) else result


LeafCall: TypeAlias = Callable[..., Awaitable[Any]]
Background: TypeAlias = Callable[[str, Callable[[], Any]], None]


class PreparedContext(msgspec.Struct, frozen=True):
    """What `prepare` returns to a loop: the tools to send, the system text and the events so far (guide D)."""

    offered: Offered
    system: tuple[str, ...]
    events: tuple[AgentEvent, ...]


class ContextManager:
    """Memory, lazy tools and history under one token budget.

    budget: None takes the model's window. sources: asked in this order. compact: called with the messages
    before each turn. count_tools: tool definitions count against the budget (guide D leaves them out).
    trim_history: past exchanges that do not fit are left out, oldest first, and the ledger says so.
    on_error: what a failing source does to the turn: `report` lets it go on.
    """

    def __init__(
        self,
        *,
        sources: Sequence[ContextSource | SourceLike] = (),
        budget: Budget | TokenBudget | None = None,
        compact: Compactor | None = None,
        count_tools: bool = True,
        trim_history: bool = False,
        on_error: OnError = "report",
    ) -> None:
        self.sources = tuple(sources)
        self.budget = budget
        self.compactor = compact
        self.count_tools = count_tools
        self.trim_history = trim_history
        self.on_error: OnError = on_error
        allocations = budget.allocations if isinstance(budget, TokenBudget) else ()
        self._allocations = {item.source: item for item in allocations}

    def with_sources(self, more: Sequence[ContextSource | SourceLike]) -> "ContextManager":
        """Return this manager with more sources at the end."""
        return ContextManager(
            sources=(*self.sources, *more),
            budget=self.budget,
            compact=self.compactor,
            count_tools=self.count_tools,
            trim_history=self.trim_history,
            on_error=self.on_error,
        )

    def stays(self, exchange: Exchange, place: int) -> bool:
        """Tell whether a source says of a past exchange that it goes last. place: counted from the oldest."""
        return any(method(exchange, place) for _, method in self._having("stays"))

    def compact_at(self, window: int) -> int:
        """Return the tokens of a request from which on a source wants to shorten it; 0 where none does."""
        asked = [float(getattr(source, "compact_at", 0)) for source, _ in self._having("compact")]
        found = [int(at * window) if at <= 1 else int(at) for at in asked if at > 0]
        return min((at for at in found if at), default=0)

    @property
    def compacts(self) -> bool:
        """There is something to ask before each turn whether the history should be shortened."""
        return self.compactor is not None

    @property
    def shortens(self) -> bool:
        """A history that is too long can be made shorter: by trimming, by the history option or by a source."""
        return self.trim_history or self.compacts or any(True for _ in self._having("compact"))

    def wanted_room(self, window: int) -> int:
        """Return the tokens of a window that history should leave to the sources that select.

        A source with a share counts with it, any other with a tenth of the window; together at most a third.
        Where history is not trimmed here, it is 0: there is nothing to give way.
        """
        if not self.trim_history:
            return 0
        wanted = 0
        for name in dict.fromkeys(source.name for source, _ in self._having("select")):
            own = self._allocations.get(name)
            is_limited = own is not None and (own.max_tokens is not None or own.share is not None)
            most = own.limit(window) if own is not None and is_limited else window // 10
            wanted += max(most, own.min_tokens if own is not None else 0)
        floor = self.history_floor
        return max(0, min(wanted, window // 3 if not floor else window - floor))

    @property
    def history_floor(self) -> int:
        """The tokens that past messages have for themselves."""
        own = self._allocations.get("history")
        return own.min_tokens if own is not None else 0

    def history_limit(self, window: int) -> int:
        """Return the tokens that past messages may take of a window."""
        own = self._allocations.get("history")
        return own.limit(window) if own is not None else window

    def unknown_allocations(self, more: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the names in the budget that no source has; more: other names that are known."""
        known = {"history", *more, *(source.name for source in self.sources)}
        return tuple(name for name in self._allocations if name not in known)

    async def gather(self, turn: Turn, *, call: LeafCall | None = None) -> Offered:
        """Return everything that the sources contribute, merged.

        Raises ToolNameCollision where two tools become one, ConfigError for a contribution of another kind.
        """
        call = call or Leaf()
        parts: list[tuple[SourceLike, Contribution]] = []
        for source, method in self._having("contribute"):
            part = await call(f"{source.name}.contribute", method, turn)
            if not isinstance(part, Contribution):
                raise ConfigError(f"{source.name}.contribute returned {type(part).__name__}, not a Contribution")
            parts.append((source, part))
        return offer(parts)

    async def select(
        self, turn: Turn, meter: Meter, *, call: LeafCall | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield what each source selects for this prompt, then ContextPrepared with the ledger's lines.

        turn.room: tokens that are left for all of them.
        """
        call = call or Leaf()
        lines: list[LedgerLine] = []
        selecting = ranked(self._having("select"), lambda item: item[0].name, self._allocations)
        names = [source.name for source, _ in selecting]
        planner = Planner(turn.room, {name: item for name, item in self._allocations.items() if name in names})
        for place, (source, method) in enumerate(selecting):
            # Sources of one name draw from one share.
            name, room = source.name, planner.room_for(source.name)
            own = planner.share_of(name)
            try:
                answer = await call(f"{name}.select", method, turn, max(0, min(room, own)), **_waiting(source, "waits"))
                selected = _expected(answer, Selection)
            except Exception as error:  # noqa: BLE001 - a source that fails never loses a turn
                yield self._failed(name, error)
                selected = None
            if selected is not None and selected.text:
                selected, line = _placed(name, selected, room, own, meter, cuts=_cuts(self._allocations.get(name)))
                lines.append(line)
                if line.verdict in ("kept", "trimmed"):
                    planner.take(name, line.tokens)
                    yield ContextUpdated(
                        source=name,
                        op="recalled",
                        records=selected.records,
                        text=selected.text,
                        placement=selected.placement,
                        tools=selected.tools,
                    )
            if name not in names[place + 1 :]:
                planner.done(name)
        yield ContextPrepared(lines=tuple(lines))

    async def handle(self, call: ToolCall, turn: Turn, *, leaf: LeafCall | None = None) -> Loaded | None:
        """Return the first source's answer to a call of a meta-tool, None where none has one."""
        leaf = leaf or Leaf()
        for source, method in self._having("handle"):
            answer = _expected(await leaf(f"{source.name}.handle", method, call, turn), Loaded)
            if answer is not None:
                return msgspec.structs.replace(answer, source=source.name)
        return None

    async def compact(
        self,
        messages: Sequence[Message],
        *,
        room: int = 0,
        history: History | None = None,
        call: LeafCall | None = None,
        failed: Callable[[ContextUpdated], None] | None = None,
        used: Callable[[Usage], None] | None = None,
        with_option: bool = True,
    ) -> tuple[Message, ...] | None:
        """Return the messages that a source or the history option makes of these, None if none does.

        What comes back is not repaired here; whoever sends it must do that. history: the same messages, measured.
        failed: told of each failure, after which the history is as it was. used: told of what a model used.
        with_option: the history option is asked, too.
        """
        call = call or Leaf()
        for source, method in self._having("compact"):
            try:
                given = history if history is not None else History(exchanges(messages))
                answer: object = await call(f"{source.name}.compact", method, given, room)
                if isinstance(answer, Shortened):
                    if used is not None and answer.usage is not None:
                        used(answer.usage)
                    answer = answer.history
                if answer is not None:
                    return _all_messages(message for group in _groups(source.name, answer) for message in group)
            except Exception as error:  # noqa: BLE001 - a source that fails never loses a turn
                _tell(failed, self._failed(source.name, error))
        if self.compactor is None or not with_option:
            return None
        budget = self.budget if isinstance(self.budget, Budget) else Budget(max(room, 1))
        try:
            return _all_messages(await call("history.compact", self.compactor, list(messages), budget))
        except Exception as error:  # noqa: BLE001 - nor does a summary that fails
            _tell(failed, self._failed("history", error))
            return None

    async def commit(
        self, turn: Turn, *, call: LeafCall | None = None, background: Background | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield what each source kept after the turn. background: starts what is left for later; None does it here."""
        call = call or Leaf()
        later: list[tuple[str, Callable[[], Any]]] = []
        for source, method in self._having("commit"):
            try:
                kept = await call(f"{source.name}.commit", method, turn, **_waiting(source, "shielded"))
                saved = _expected(kept, Saved)
            except Exception as error:  # noqa: BLE001 - a source that fails never loses a turn
                yield self._failed(source.name, error)
                continue
            for record in saved.records if saved else ():
                yield ContextUpdated(source=source.name, op="saved", records=(record,))
            if saved is not None and saved.later is not None:
                later.append((source.name, saved.later))
        for name, work in later:
            if background is not None:
                background(f"{name}.later", work)
                continue
            try:
                await call(f"{name}.later", work)
            except Exception as error:  # noqa: BLE001 - a source that fails never loses a turn
                yield self._failed(name, error)

    async def prepare(self, turn: Turn, *, meter: Meter | None = None) -> PreparedContext:
        """Gather and select in one step, for those who drive the manager from a loop of their own."""
        meter = meter or Meter(self.budget.count if isinstance(self.budget, Budget) else None)
        offered = await self.gather(turn)
        events: list[AgentEvent] = [event async for event in self.select(turn, meter)]
        recalled = tuple(event.text for event in events if isinstance(event, ContextUpdated) and event.text)
        return PreparedContext(offered, (*offered.system_texts, *recalled), tuple(events))

    def _having(self, name: str) -> Iterator[tuple[SourceLike, Callable[..., Any]]]:
        for source in self.sources:
            method = _method(source, name)
            if method is not None:
                yield source, method

    def _failed(self, source: str, error: Exception) -> ContextUpdated:
        if self.on_error == "raise":
            raise error
        _log.error("context source %r failed: %s", source, type(error).__name__, exc_info=error)
        return ContextUpdated(source=source, op="failed", error=type(error).__name__)


def _cuts(share: Allocation | None) -> bool:
    return share is not None and share.overflow == "truncate"


def _placed(
    source: str, selected: Selection, room: int, own: int, meter: Meter, *, cuts: bool
) -> tuple[Selection, LedgerLine]:
    """Return the selection as far as it may go in, and the line that tells of it."""
    size = meter.text(selected.text)
    line = judge(Demand(source, selected.label or source, selected.section, size), room, own)
    if line.verdict == "kept" or not cuts or selected.tools:
        return selected, line
    text = truncated(selected.text, min(room, own), meter.text)
    if not text:
        return selected, line
    kept = meter.text(text)
    selected = msgspec.structs.replace(selected, text=text)
    return selected, line.replace(tokens=kept, verdict="trimmed", reason=f"cut from {size} tokens to {kept}")


class HistoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the history before each turn.

    compact: called with all messages and the budget; returns the messages to use instead, plain or async.
    """

    compact: Compactor | None = None


class ContextManagerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `create_context_manager`, as one value."""

    budget: Budget | TokenBudget
    sources: Sequence[ContextSource | SourceLike] = ()
    history: HistoryOptions | None = None
    count_tools: bool = True
    on_error: OnError = "report"


def create_context_manager(
    options: ContextManagerOptions | None = None,
    *,
    budget: Budget | TokenBudget | None = None,
    sources: Sequence[ContextSource | SourceLike] = (),
    history: HistoryOptions | None = None,
    count_tools: bool = True,
    on_error: OnError = "report",
) -> ContextManager:
    """Return a manager that puts recall, lazy tools and history compaction under one budget (guide D).

    Give either options or keywords. count_tools: tool definitions count against the budget; guide D leaves
    them out, which `False` gives.

    Raises ConfigError without a budget.

    >>> create_context_manager(budget=Budget(100_000)).sources
    ()
    """
    if options is None:
        if budget is None:
            raise ConfigError("a context manager needs a budget, for example budget=Budget(100_000)")
        options = ContextManagerOptions(
            budget=budget, sources=sources, history=history, count_tools=count_tools, on_error=on_error
        )
    return ContextManager(
        sources=options.sources,
        budget=options.budget,
        compact=options.history.compact if options.history else None,
        count_tools=options.count_tools,
        on_error=options.on_error,
    )


def _all_messages(items: Iterable[object]) -> tuple[Message, ...]:
    messages = tuple(items)
    for item in messages:
        if not isinstance(item, Message):
            raise ConfigError(f"a shortened history holds messages, not {type(item).__name__}")
    return tuple(item for item in messages if isinstance(item, Message))


def _groups(source: str, answer: Any) -> Iterable[Iterable[object]]:
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        raise ConfigError(f"{source}.compact returned {type(answer).__name__}, not a list of exchanges")
    return cast("Sequence[Iterable[object]]", answer)  # what is in it is looked at by whoever takes it


def _tell(listener: Callable[[ContextUpdated], None] | None, event: ContextUpdated) -> None:
    if listener is not None:
        listener(event)


def _expected(value: object, kind: type[T]) -> T | None:
    """Return what a source answered; raises ConfigError where it is of another kind."""
    if value is None or isinstance(value, kind):
        return value
    raise ConfigError(f"a source returned {type(value).__name__}, not {kind.__name__} or None")


def _waiting(source: SourceLike, how: str) -> dict[str, bool]:
    """Return how to call a source that waits for a disk or a network: beside the event loop."""
    return {how: True} if getattr(source, "waits", False) else {}


def _method(source: SourceLike, name: str) -> Callable[..., Any] | None:
    """Return a source's method, None where it has none or only the default that does nothing."""
    found = getattr(type(source), name, None)
    if found is not None and found is getattr(ContextSource, name, None):
        return None
    method: Callable[..., Any] | None = getattr(source, name, None)
    return method if callable(method) else None
