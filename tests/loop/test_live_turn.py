"""What a segment keeps beside the run, against a walk over all messages; and compaction in the loop."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Agent, lazy_tool_source
from sapwood.context.manager import ContextManager
from sapwood.context.meter import Meter, Totals
from sapwood.core.decide import Policy
from sapwood.core.errors import ContextOverflowError
from sapwood.core.events import AgentEvent, CompactionFinished
from sapwood.core.messages import Message, Text, ToolCall, ToolResult
from sapwood.core.model import ModelProfile
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript, loaded_names
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import finished_transcript, start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.sources.lazy_tools import LazyToolSource
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import assert_kept, call, calls, says, scripted
from support.examples import examples
from support.turns import bound, folded, spec, turn

NAMES = ("invoice", "weather", "notes", "mail")


def lazy(loading: Any) -> LazyToolSource:
    tools = [bound(name, lambda **more: "ok") for name in NAMES]
    return lazy_tool_source(tools, k=1, loading=loading)


def checked(live: LiveTurn, setup: TurnSpec) -> None:
    """Compare what is kept with what a walk over the messages gives."""
    run, meter = live.run, setup.meter
    past = tuple(setup.history)[run.dropped :] if run.past is None else run.past
    everything = (*past, *run.messages)

    def walk(messages: Any) -> Totals:
        sizes = [meter.raw_message(message) for message in messages]
        return Totals(sum(size.messages for size in sizes), sum(size.tool_results for size in sizes))

    assert tuple(live.messages(run)) == everything
    assert live.totals(run) == (walk(past), walk(everything))
    assert live.prompt_totals(run) == walk([run.prompt] if run.prompt else [])
    if all(item.state in ("asked", "done") for item in run.calls):
        assert live.loaded(run) == loaded_names(everything)
    if run.prepared:
        assert tuple(live.transcript(run)) == everything


@examples(40, deadline=None)
@given(
    turns=st.lists(st.lists(st.sampled_from(NAMES), max_size=3), min_size=1, max_size=3),
    window=st.sampled_from([0, 600, 1_200]),
    loading=st.sampled_from(["relist", "dispatch"]),
    exact=st.booleans(),
)
def test_what_is_kept_is_what_a_walk_over_the_transcript_gives(
    turns: list[list[str]], window: int, loading: Any, exact: bool
) -> None:
    history = Transcript()
    for number, queries in enumerate(turns):
        replies = [calls(call("search_tools", {"query": query})) for query in queries]
        context = ContextManager(sources=[lazy(loading)], trim_history=True)
        setup = TurnSpec(
            provider=scripted(*replies, says("done")),
            context=context,
            policy=Policy(window=window),
            meter=Meter((lambda text: len(text) // 4) if exact else None),
            history=history,
            window=window,
            tool_loading=loading,
        )
        run = start_run(f"r{number}")
        live = LiveTurn(run, setup)
        prompt = Message.user(f"turn {number} " + "x" * 400)
        try:
            for _ in iterate(run_turn(run, setup, BlockingRuntime(), prompt=prompt, live=live)):
                checked(live, setup)
        except ContextOverflowError:
            assert window  # this turn alone is too long for it
        else:
            assert live.run.phase == "ended"
        history = finished_transcript(history, live.run)


def test_a_turn_without_a_prompt_has_no_prompt_to_count() -> None:
    setup = spec(scripted(says("hi")), history=[Message.user("go")])
    assert LiveTurn(Run(), setup).prompt_totals(Run()) == Totals()


# -- compaction ----------------------------------------------------------------------------------

YES = Message.user("yes")
PAST = [YES, Message.assistant("really?"), Message.user("no"), Message.assistant("as you like")]


def compacted(compact: Any, *, prompt: str = "yes", history: list[Message] = PAST) -> tuple[TurnSpec, list[AgentEvent]]:
    context = ContextManager(sources=[ToolsetSource([])], compact=compact)
    setup = spec(scripted(says("ok")), history=history, context=context, policy=Policy(compact_first=True))
    return setup, turn(setup, prompt)


def requested(setup: TurnSpec) -> list[Message]:
    return list(setup.provider.requests[0].transcript)  # type: ignore[attr-defined]


def test_a_past_message_that_says_the_same_as_the_prompt_stays() -> None:
    setup, _ = compacted(lambda messages, budget: messages)
    assert requested(setup) == [*PAST, YES]


def test_the_prompt_stays_whatever_a_compaction_returns() -> None:
    for kept in ([], PAST[:2], [Message.user("summary")]):
        setup, events = compacted(lambda messages, budget, kept=kept: kept, prompt="and now?")
        assert requested(setup) == [*kept, Message.user("and now?")]
        assert folded(events).messages[0] == Message.user("and now?")


def test_what_a_compaction_returns_is_made_valid() -> None:
    asked, stray = Message.assistant(ToolCall("add", key="k")), Message("tool", (ToolResult("z", "", (Text("?"),)),))
    setup, events = compacted(lambda messages, budget: [stray, asked])
    sent = requested(setup)
    assert [message.role for message in sent] == ["assistant", "tool", "user"]
    assert sent[1].tool_results[0].is_error
    finish = next(event for event in events if isinstance(event, CompactionFinished))
    assert finish.past == tuple(sent[:2])


def test_a_compaction_may_leave_the_history_alone() -> None:
    async def nothing(history: Any, room: int) -> None:
        return None

    class Thinks:
        name = "thinks"
        compact = staticmethod(nothing)

    context = ContextManager(sources=[Thinks()])
    setup = spec(scripted(says("ok")), history=PAST, context=context, policy=Policy(compact_first=True))
    events = turn(setup, "go")
    assert requested(setup) == [*PAST, Message.user("go")]
    finish = next(event for event in events if isinstance(event, CompactionFinished))
    assert (finish.upto, finish.past) == (0, None)
    assert finish.tokens_before == finish.tokens_after > 0


def test_old_exchanges_go_first_and_whole_and_only_as_many_as_needed() -> None:
    add = ToolCall("add", key="k")
    old = [
        Message.user("x" * 4_000),
        Message.assistant(add),
        Message("tool", (ToolResult("k", "add", (Text("y" * 2_000),)),)),
        Message.user("recent"),
        Message.assistant("yes"),
    ]
    setup = spec(scripted(says("ok")), history=old, window=600)
    events = turn(setup, "now")
    assert requested(setup) == [*old[1:], Message.user("now")] or requested(setup) == [*old[3:], Message.user("now")]
    finish = next(event for event in events if isinstance(event, CompactionFinished))
    assert finish.upto == len(old) + 1 - len(requested(setup))
    assert finish.tokens_after <= 600 < finish.tokens_before
    run = folded(events)
    after = finished_transcript(setup.history, run)
    assert list(after) == [*requested(setup), *run.messages[1:]]


def test_history_after_a_turn_that_was_compacted_or_cut_short() -> None:
    history = Transcript.of(PAST)
    ended = Run("r", phase="ended", messages=(YES, Message.assistant("ok")))
    assert list(finished_transcript(history, ended)) == [*PAST, *ended.messages]
    assert list(finished_transcript(history, ended.replace(dropped=2))) == [*PAST[2:], *ended.messages]
    new = (Message.user("summary"),)
    assert list(finished_transcript(history, ended.replace(past=new, dropped=2))) == [*new, *ended.messages]
    cut = Run("r", phase="calling", messages=(YES, Message.assistant(ToolCall("add", key="r0c0"))))
    after = list(finished_transcript(history, cut))
    assert after[-1].tool_results[0].is_error
    assert after[:-1] == [*PAST, *cut.messages]


def test_recalled_text_in_the_system_prompt_counts_in_the_next_request() -> None:
    from sapwood.context.source import ContextSource, Selection, Turn

    class Recalls(ContextSource):
        name = "memory"

        def select(self, turn: Turn, room: int) -> Selection:
            return Selection(text="likes tea " * 40, placement="system")

    setup = spec(scripted(says("ok")), sources=[Recalls()], window=10_000)
    live = LiveTurn(start_run("r"), setup)
    sizes: list[int] = []
    for _ in iterate(run_turn(live.run, setup, BlockingRuntime(), prompt=Message.user("go"), live=live)):
        if live.run.prepared and not live.run.round and live.run.phase == "idle":
            sizes.append(live.next_call_estimate(live.run))
    ledger = live.run.rounds[0].ledger
    assert ledger is not None
    assert_kept(ledger, "memory")
    assert sizes == [ledger.estimated_tokens]


def test_a_turn_that_is_over_yields_nothing_more() -> None:
    ended = Run("r", phase="ended", stopped_by="stop")
    assert turn(spec(scripted()), None, run=ended) == []


def test_a_cancelled_turn_under_asyncio_leaves_a_history_that_can_go_on() -> None:
    async def main() -> Agent:
        started = asyncio.Event()

        async def slow() -> str:
            started.set()
            await asyncio.sleep(30)
            return "never"

        agent = Agent(llm=scripted(calls(call("slow", id="x"))), max_rounds=2).with_tools([bound("slow", slow)])

        async def consume() -> None:
            async for _ in agent.astream("go"):
                pass

        task = asyncio.create_task(consume())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return agent

    messages = list(asyncio.run(main()).last_messages)
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert messages[2].tool_results[0].is_error


def test_a_profile_without_a_window_checks_nothing() -> None:
    model = scripted(says("ok"), profile=ModelProfile("a", "b"))
    setup = spec(model, history=[Message.user("x" * 100_000), Message.assistant("y")])
    assert turn(setup, "go")[-1].type == "turn_finished"
