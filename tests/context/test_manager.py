"""The manager: it asks the sources in order, under one budget, and loses no turn by one that fails."""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.context.manager import (
    ContextManager,
    ContextManagerOptions,
    HistoryOptions,
    create_context_manager,
)
from sapwood.context.meter import Meter
from sapwood.context.plan import Demand, plan
from sapwood.context.source import ContextSource, Contribution, Loaded, Saved, Selection, Turn
from sapwood.core.budget import Allocation, Budget, TokenBudget
from sapwood.core.errors import ConfigError
from sapwood.core.events import AgentEvent, ContextPrepared, ContextUpdated
from sapwood.core.ledger import LedgerLine
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, Text, ToolCall, ToolResult
from sapwood.core.tools import ToolSchema

RECORD = MemoryRecord("m1", "likes tea", 0)
METER = Meter(len)


class Selects(ContextSource):
    """Selects a text, and notes the room that it was given."""

    def __init__(self, name: str, text: str | None, **more: Any) -> None:
        self.name = name
        self.selection = Selection(text=text, **more) if text is not None else None
        self.rooms: list[int] = []

    async def select(self, turn: Turn, room: int) -> Selection | None:
        self.rooms.append(room)
        return self.selection


class Fails(ContextSource):
    name = "broken"

    def select(self, turn: Turn, room: int) -> Selection | None:
        raise OSError("disk at /secret/path")

    def commit(self, turn: Turn) -> Saved | None:
        raise KeyError("x")


def collected(events: AsyncGenerator[AgentEvent, None]) -> list[AgentEvent]:
    async def main() -> list[AgentEvent]:
        return [event async for event in events]

    return asyncio.run(main())


def selected(manager: ContextManager, room: int) -> list[AgentEvent]:
    return collected(manager.select(Turn(room=room), METER))


def texts(events: list[AgentEvent]) -> list[tuple[str, str]]:
    return [(event.source, event.text) for event in events if isinstance(event, ContextUpdated)]


def lines(events: list[AgentEvent]) -> tuple[LedgerLine, ...]:
    last = events[-1]
    assert isinstance(last, ContextPrepared)
    return last.lines


# -- select --------------------------------------------------------------------------------------

SOURCES = ("a", "b", "c")


@given(
    wanted=st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(1, 40)), max_size=7),
    room=st.integers(-5, 120),
    shares=st.dictionaries(st.sampled_from(SOURCES), st.integers(1, 60), max_size=3),
)
def test_it_takes_what_the_plan_takes(wanted: list[tuple[str, int]], room: int, shares: dict[str, int]) -> None:
    allocations = {name: Allocation(name, tokens) for name, tokens in shares.items()}
    sources = [Selects(name, "x" * size) for name, size in wanted]
    budget = TokenBudget(1_000, allocations=tuple(allocations.values()))
    events = selected(ContextManager(sources=sources, budget=budget), room)

    made = plan([Demand(name, name, "memory", size) for name, size in wanted], room, allocations)
    kept = [(name, "x" * size) for (name, size), taken in zip(wanted, made.taken, strict=True) if taken]
    assert texts(events) == kept
    assert lines(events) == made.lines
    assert sum(len(text) for _, text in kept) <= max(0, room)


def test_a_source_is_told_the_room_that_is_left_for_it() -> None:
    first, second, third = Selects("a", "x" * 30), Selects("b", "x" * 50), Selects("c", None)
    budget = TokenBudget(1_000, allocations=(Allocation("b", 40),))
    selected(ContextManager(sources=[first, second, third], budget=budget), 100)
    assert [source.rooms for source in (first, second, third)] == [[100], [40], [70]]


def test_a_text_over_its_share_is_cut_where_the_budget_says_so() -> None:
    budget = TokenBudget(1_000, allocations=(Allocation("docs", 10, "truncate"),))
    manager = ContextManager(
        sources=[Selects("docs", "0123456789abcdef", section="retrieval", label="2 pages", placement="turn")],
        budget=budget,
    )
    assert selected(manager, 100) == [
        ContextUpdated(source="docs", op="recalled", text="0123456789", placement="turn"),
        ContextPrepared(lines=(LedgerLine("docs", "2 pages", "retrieval", 10, "trimmed", "cut from 16 tokens to 10"),)),
    ]
    assert texts(selected(manager, 4)) == [("docs", "0123")]
    assert texts(selected(manager, 0)) == []
    assert lines(selected(manager, 0))[0].verdict == "skipped"


def test_what_says_nothing_is_not_in_the_ledger() -> None:
    events = selected(ContextManager(sources=[Selects("a", None), Selects("b", ""), ContextSource()]), 10)
    assert events == [ContextPrepared()]


def test_records_come_with_the_text() -> None:
    events = selected(ContextManager(sources=[Selects("memory", "likes tea", records=(RECORD,))]), 10)
    assert events == [
        ContextUpdated(source="memory", op="recalled", records=(RECORD,), text="likes tea", placement="system"),
        ContextPrepared(lines=(LedgerLine("memory", "memory", "memory", 9),)),
    ]


# -- a source that fails -------------------------------------------------------------------------


def test_a_failing_source_is_reported_and_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    manager = ContextManager(sources=[Fails(), Selects("b", "text")])
    events = selected(manager, 10)
    assert events[0] == ContextUpdated(source="broken", op="failed", error="OSError")
    assert texts(events)[1:] == [("b", "text")]
    assert collected(manager.commit(Turn())) == [ContextUpdated(source="broken", op="failed", error="KeyError")]
    assert [record.getMessage() for record in caplog.records] == [
        "context source 'broken' failed: OSError",
        "context source 'broken' failed: KeyError",
    ]


def test_a_failing_source_raises_where_that_was_asked_for() -> None:
    manager = ContextManager(sources=[Fails()], on_error="raise")
    with pytest.raises(OSError, match="disk"):
        selected(manager, 10)
    with pytest.raises(KeyError):
        collected(manager.commit(Turn()))


def test_a_failing_source_does_not_swallow_the_end_of_the_program() -> None:
    class Stops(ContextSource):
        name = "stops"

        def select(self, turn: Turn, room: int) -> Selection | None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        selected(ContextManager(sources=[Stops()]), 10)


# -- gather, handle, compact, commit -------------------------------------------------------------


def test_gather_refuses_what_is_no_contribution() -> None:
    class Wrong:
        name = "wrong"

        def contribute(self, turn: Turn) -> Any:
            return ["tool"]

    with pytest.raises(ConfigError, match=re.escape("wrong.contribute returned list, not a Contribution")):
        asyncio.run(ContextManager(sources=[Wrong()]).gather(Turn()))


def test_handle_returns_the_first_answer_with_the_name_of_its_source() -> None:
    class Answers:
        def __init__(self, name: str, answer: Loaded | None) -> None:
            self.name = name
            self.answer = answer

        def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
            return self.answer

    call = ToolCall("search_tools")
    sources = [ContextSource(), Answers("a", None), Answers("b", Loaded(result=1)), Answers("c", Loaded(result=2))]
    assert asyncio.run(ContextManager(sources=sources).handle(call, Turn())) == Loaded(result=1, source="b")
    assert asyncio.run(ContextManager(sources=sources[:2]).handle(call, Turn())) is None


ASKED = Message.assistant(ToolCall("add", key="r0c0"))
ANSWERED = Message("tool", (ToolResult("r0c0", "add", (Text("3"),)),))
HISTORY = (Message.user("a"), ASKED, ANSWERED, Message.user("b"))


def test_compaction_gets_whole_exchanges_and_the_first_source_that_answers_decides() -> None:
    seen: list[Any] = []

    class Shortens:
        def __init__(self, name: str, keep: int | None) -> None:
            self.name = name
            self.keep = keep

        async def compact(self, history: Any, room: int) -> Any:
            seen.append((self.name, list(history), room))
            return None if self.keep is None else history[-self.keep :]

    manager = ContextManager(sources=[ContextSource(), Shortens("a", None), Shortens("b", 2), Shortens("c", 1)])
    assert asyncio.run(manager.compact(HISTORY, room=50)) == HISTORY[1:]
    groups = [(HISTORY[0],), (ASKED, ANSWERED), (HISTORY[3],)]
    assert seen == [("a", groups, 50), ("b", groups, 50)]


def test_the_history_option_gets_messages_and_the_budget() -> None:
    seen: list[Any] = []

    async def shorten(messages: list[Message], budget: Budget) -> list[Message]:
        seen.append((list(messages), budget.max_tokens))
        return messages.pop() and messages[-1:]

    budget = Budget(100)
    with_budget = ContextManager(compact=shorten, budget=budget)
    without = ContextManager(compact=shorten, budget=TokenBudget(900))
    assert (with_budget.compacts, ContextManager().compacts) == (True, False)
    assert asyncio.run(with_budget.compact(HISTORY, room=50)) == (ANSWERED,)
    assert asyncio.run(without.compact(HISTORY, room=50)) == (ANSWERED,)
    assert asyncio.run(without.compact(HISTORY)) == (ANSWERED,)
    assert seen == [(list(HISTORY), 100), (list(HISTORY), 50), (list(HISTORY), 1)]
    assert asyncio.run(ContextManager().compact(HISTORY)) is None


def test_commit_yields_one_event_for_each_record() -> None:
    class Keeps:
        def __init__(self, name: str, *ids: str) -> None:
            self.name = name
            self.ids = ids

        def commit(self, turn: Turn) -> Saved | None:
            return Saved(records=tuple(MemoryRecord(id, turn.reply, 0) for id in self.ids)) if self.ids else None

    manager = ContextManager(sources=[Keeps("a", "1", "2"), ContextSource(), Keeps("b"), Keeps("c", "3")])
    events = collected(manager.commit(Turn(reply="yes")))
    assert events == [
        ContextUpdated(source=name, op="saved", records=(MemoryRecord(id, "yes", 0),))
        for name, id in (("a", "1"), ("a", "2"), ("c", "3"))
    ]


def test_what_is_left_for_later_is_done_in_the_background_or_here() -> None:
    done: list[str] = []

    class Later(ContextSource):
        name = "later"

        def __init__(self, work: Any) -> None:
            self.work = work

        def commit(self, turn: Turn) -> Saved | None:
            return Saved(later=self.work)

    async def well() -> None:
        done.append("here")

    def badly() -> None:
        raise ValueError("no disk")

    manager = ContextManager(sources=[Later(badly), Later(well), Later(None)])
    (failed,) = collected(manager.commit(Turn()))
    assert isinstance(failed, ContextUpdated)
    assert (failed.op, failed.source, done) == ("failed", "later", ["here"])
    started: list[tuple[str, Any]] = []
    assert collected(manager.commit(Turn(), background=lambda name, work: started.append((name, work)))) == []
    assert started == [("later.later", badly), ("later.later", well)]


def test_a_source_that_waits_is_called_beside_the_event_loop() -> None:
    hows: list[tuple[str, dict[str, Any]]] = []

    async def call(step: str, fn: Any, *args: Any, **how: Any) -> Any:
        hows.append((step, how))
        return fn(*args)

    class Plain(ContextSource):
        name = "plain"

        def select(self, turn: Turn, room: int) -> Selection | None:
            return None

        def commit(self, turn: Turn) -> Saved | None:
            return None

    class Disk(Plain):
        name = "disk"
        waits = True

    manager = ContextManager(sources=[Plain(), Disk()])
    collected(manager.select(Turn(), METER, call=call))
    collected(manager.commit(Turn(), call=call))
    assert hows == [
        ("plain.select", {}),
        ("disk.select", {"waits": True}),
        ("plain.commit", {}),
        ("disk.commit", {"shielded": True}),
    ]


def test_a_step_has_the_name_of_its_source_and_method() -> None:
    steps: list[str] = []

    async def call(step: str, fn: Any, *args: Any) -> Any:
        steps.append(step)
        result = fn(*args)
        return await result if asyncio.iscoroutine(result) else result

    async def main() -> None:
        manager = ContextManager(sources=[Selects("a", "x"), Fails()], compact=lambda messages, budget: messages)
        await manager.gather(Turn(), call=call)
        _ = [event async for event in manager.select(Turn(room=5), METER, call=call)]
        _ = [event async for event in manager.commit(Turn(), call=call)]
        await manager.compact(HISTORY, call=call)

    asyncio.run(main())
    assert steps == ["a.select", "broken.select", "broken.commit", "history.compact"]


def test_prepare_gathers_and_selects_for_a_loop_of_ones_own() -> None:
    class Offers(ContextSource):
        name = "offers"

        def contribute(self, turn: Turn) -> Contribution:
            return Contribution(tools=[ToolSchema("add")], system="Be brief.")

    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    manager = create_context_manager(budget=Budget(100, count=count), sources=[Offers(), Selects("m", "likes tea")])
    prepared = asyncio.run(manager.prepare(Turn(text="hi", room=20)))
    assert prepared.system == ("Be brief.", "likes tea")
    assert [schema.name for schema in prepared.offered.sent] == ["add"]
    assert [event.type for event in prepared.events] == ["context_updated", "context_prepared"]
    assert counted == ["likes tea"]


# -- how it is made ------------------------------------------------------------------------------


def test_options_and_keywords_make_the_same_manager() -> None:
    def shorten(messages: list[Message], budget: Budget) -> list[Message]:
        return messages

    sources, budget, history = [Fails()], Budget(100), HistoryOptions(compact=shorten)
    options = ContextManagerOptions(
        budget=budget, sources=sources, history=history, count_tools=False, on_error="raise"
    )
    for manager in (
        create_context_manager(options),
        create_context_manager(budget=budget, sources=sources, history=history, count_tools=False, on_error="raise"),
    ):
        assert manager.sources == tuple(sources)
        assert (manager.budget, manager.compactor, manager.count_tools) == (budget, shorten, False)
        assert (manager.on_error, manager.trim_history) == ("raise", False)
    with pytest.raises(ConfigError, match="needs a budget"):
        create_context_manager()


def test_the_defaults_of_a_source_do_nothing() -> None:
    source = ContextSource()
    assert source.contribute(Turn()) == Contribution()
    assert source.select(Turn(), 10) is None
    assert source.handle(ToolCall("a"), Turn()) is None
    assert source.compact([], 10) is None
    assert source.commit(Turn()) is None
