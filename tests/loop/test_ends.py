"""How a segment ends, and what a source and the trimming do to a history together."""

from typing import Any

import msgspec
import pytest

from sapwood import Agent, ContextManager, ContextSource, Message
from sapwood.context.source import History
from sapwood.core.decide import Pause, Policy
from sapwood.core.run import Run
from sapwood.loop.spec import LiveTurn
from sapwood.loop.turn import perform
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing import fold, says, scripted
from support.turns import long_history, spec, turn


def test_a_pause_ends_the_segment_and_the_run_waits() -> None:
    given = spec(scripted())
    run = Run("r", phase="idle", texts=("so far",))
    (event,) = iterate(perform(Pause("approval"), run, LiveTurn(run, given), BlockingRuntime()))
    assert event.type == "turn_finished"
    assert (event.text, event.diagnostics.stopped_by) == ("so far", "approval")
    assert fold([event], run).phase == "paused"


def test_what_a_source_leaves_of_the_history_is_trimmed_where_it_still_does_not_fit() -> None:
    class Halves(ContextSource):
        name = "halves"

        def compact(self, history: History, room: int) -> History:
            return history[len(history) // 2 :]

    past = long_history()
    model = scripted(says("ok"))
    agent = Agent(llm=model, max_tokens=1_500, max_response_tokens=500).with_sources([Halves()])
    list(agent.chat("now", messages=past))
    sent = model.requests[0].transcript
    assert sent[-1].text == "now"
    assert sent[-2].text.startswith("answer 59")
    assert 2 < len(sent) < 60


@pytest.mark.parametrize("answer", [ValueError("no"), 5, [None], "text"])
@pytest.mark.parametrize("place", ["source", "history"])
def test_a_compaction_that_fails_leaves_the_history_as_it_was(answer: Any, place: str) -> None:
    def shorten(*arguments: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Odd(ContextSource):
        name = "odd"

        def compact(self, history: History, room: int) -> Any:
            return shorten()

    manager = ContextManager(
        sources=[Odd()] if place == "source" else [], compact=shorten if place == "history" else None
    )
    given = spec(scripted(says("ok")), history=[Message.user("a"), Message.assistant("b")])
    given = msgspec.structs.replace(given, context=manager, policy=Policy(compact_first=True))
    events = turn(given, "c")
    assert events[-1].text == "ok"  # type: ignore[union-attr]
    assert [(event.source, event.op) for event in events if event.type == "context_updated"] == [
        ("odd" if place == "source" else "history", "failed")
    ]
    assert [message.text for message in given.provider.requests[0].transcript] == ["a", "b", "c"]  # type: ignore[attr-defined]
