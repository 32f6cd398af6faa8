"""decide, by its table: each row is one line here."""

import pytest

from sapwood.core.decide import (
    Action,
    CallModel,
    CloseRound,
    Compact,
    Finish,
    Policy,
    Prepare,
    RunTools,
    Spent,
    decide,
)
from sapwood.core.limits import Tally
from sapwood.core.messages import ToolCall
from sapwood.core.run import OpenCall, Run
from sapwood.core.usage import Usage

ASKED = OpenCall(ToolCall("a", key="r0c0"))
DONE = OpenCall(ToolCall("a", key="r0c0"), state="done")
RUNNING = OpenCall(ToolCall("b", key="r0c1"), state="running")
REFUSED = OpenCall(ToolCall("c", key="r0c2"), refused=True)
READY = Run("r", phase="idle", prepared=True)
LAST = Policy(max_rounds=3)

TABLE: list[tuple[str, Run, Policy, Spent, Action]] = [
    ("ended", Run(phase="ended", stopped_by="stuck"), Policy(), Spent(), Finish("stuck", over=True)),
    ("ended, no cause", Run(phase="ended"), Policy(), Spent(), Finish("stop", over=True)),
    (
        "open calls",
        Run(phase="replied", calls=(DONE, ASKED, RUNNING)),
        Policy(),
        Spent(),
        RunTools((ASKED, RUNNING), ()),
    ),
    ("refused calls", Run(phase="replied", calls=(REFUSED,)), Policy(), Spent(), RunTools((), (REFUSED,))),
    ("all answered", Run(phase="replied", calls=(DONE,), round=2), Policy(), Spent(), CloseRound(2)),
    ("no calls", Run(phase="replied"), Policy(), Spent(), CloseRound(0)),
    ("pause_turn", READY.replace(stop_reason="pause_turn", round=1), LAST, Spent(), CallModel(1)),
    (
        "pause_turn in the last round",
        READY.replace(stop_reason="pause_turn", round=3),
        LAST,
        Spent(),
        Finish("stop"),
    ),
    ("stop", READY.replace(stop_reason="stop", round=1), Policy(), Spent(), Finish("stop")),
    ("tool_use without calls", READY.replace(stop_reason="tool_use", round=1), Policy(), Spent(), Finish("stop")),
    ("cut", READY.replace(stop_reason="max_tokens", round=1), Policy(), Spent(), Finish("max_tokens")),
    ("window full", READY.replace(stop_reason="context_window"), Policy(), Spent(), Finish("max_tokens")),
    ("refusal", READY.replace(stop_reason="refusal"), Policy(), Spent(), Finish("refusal")),
    ("filtered", READY.replace(stop_reason="content_filter"), Policy(), Spent(), Finish("refusal")),
    (
        "no round left",
        READY.replace(stop_reason="tool_use", had_calls=True, round=3),
        LAST,
        Spent(),
        Finish("max_rounds"),
    ),
    ("compact first", Run(phase="idle"), Policy(compact_first=True), Spent(), Compact()),
    ("compacted once", Run(phase="idle", compacted=0), Policy(compact_first=True), Spent(), Prepare()),
    ("over the window", READY, Policy(window=10), Spent(next_call_estimate=11), Compact()),
    ("exactly at the window", READY, Policy(window=10), Spent(next_call_estimate=10), CallModel(0)),
    (
        "still over after compacting",
        READY.replace(compacted=0),
        Policy(window=10),
        Spent(next_call_estimate=11),
        CallModel(0),
    ),
    (
        "over again in a later round",
        READY.replace(compacted=0, round=1, stop_reason="tool_use", had_calls=True),
        Policy(window=10),
        Spent(next_call_estimate=11),
        Compact(),
    ),
    ("not prepared", Run(phase="idle"), Policy(), Spent(), Prepare()),
    ("first call", READY, Policy(), Spent(), CallModel(0)),
    ("crashed in a call", Run(phase="calling", prepared=True, round=1), Policy(), Spent(), CallModel(1)),
    (
        "last round",
        READY.replace(round=2, stop_reason="tool_use", had_calls=True),
        LAST,
        Spent(),
        CallModel(2, final=True, tool_choice="none"),
    ),
    (
        "last round, guide D",
        READY.replace(round=2, stop_reason="tool_use", had_calls=True),
        Policy(max_rounds=3, final_round=False),
        Spent(),
        CallModel(2),
    ),
    ("only round, no tools", READY, Policy(max_rounds=1, has_tools=False), Spent(), CallModel(0)),
]


@pytest.mark.parametrize(
    ("run", "policy", "spent", "action"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_decide(run: Run, policy: Policy, spent: Spent, action: Action) -> None:
    assert decide(run, policy, spent) == action


def test_what_was_spent_changes_nothing_without_limits() -> None:
    spent = Spent(Tally(Usage(10, 5), 3, {"a": 1}, 2.0, False, 60.0), Tally(requests=9), None, 3, Tally(requests=1))
    assert decide(READY, Policy(), spent) == CallModel(0)
