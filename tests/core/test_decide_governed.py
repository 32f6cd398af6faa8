"""decide where something governs the turn, by its table: calls that wait, limits, repeats."""

import pytest

from sapwood.core.decide import (
    Action,
    CallModel,
    CloseRound,
    Finish,
    Nudge,
    Pause,
    Policy,
    Prepare,
    Raise,
    ReportLimits,
    RunTools,
    Spent,
    decide,
)
from sapwood.core.events import ApprovalRequested
from sapwood.core.limits import LimitBreach, LimitPolicy, Tally, UsageLimits
from sapwood.core.messages import ToolCall
from sapwood.core.run import Child, OpenCall, Run
from sapwood.core.usage import Usage

REQUEST = ApprovalRequested(key="r0c0", tool_call_id="c0", name="a", tool_input={})
WAITING = OpenCall(ToolCall("a", key="r0c0"), "c0", "waiting", request=REQUEST)
DECIDED = WAITING.replace(state="decided")
ASKED = OpenCall(ToolCall("b", key="r0c1"), "c1")
TASK = OpenCall(ToolCall("task", key="r0c2"), "c2", "running")
DONE = OpenCall(ToolCall("a", key="r0c0"), "c0", "done", fingerprint="rX")
REPLIED = Run("r", phase="replied")
READY = Run("r", phase="idle", prepared=True)
NEXT = READY.replace(stop_reason="tool_use", had_calls=True, round=1)
USED = Tally(Usage(90, 20), 1, {"a": 3})
CALL = Tally(Usage(40, 10), 1)
TOKENS = LimitBreach("total_tokens", 110, 100)
OWN = LimitBreach("tool_calls", 3, 2, "turn")


def held(child: Run) -> Run:
    return REPLIED.replace(calls=(TASK,), children={"c2": Child("x", child)})


def pool(policy: LimitPolicy = "finish", **more: object) -> Spent:
    return Spent(pool=USED, pool_limits=UsageLimits(total_tokens_limit=100, on_limit=policy), **more)  # type: ignore[arg-type]


TABLE: list[tuple[str, Run, Policy, Spent, Action]] = [
    ("a call waits, another is free", REPLIED.replace(calls=(WAITING, ASKED)), Policy(), Spent(), RunTools((ASKED,))),
    ("only calls that wait", REPLIED.replace(calls=(WAITING, DONE)), Policy(), Spent(), Pause("approval")),
    ("an answer is in", REPLIED.replace(calls=(DECIDED,)), Policy(), Spent(), RunTools((DECIDED,))),
    ("a child waits", held(Run(phase="paused", calls=(WAITING,))), Policy(), Spent(), Pause("approval")),
    ("a child was answered", held(Run(phase="paused", calls=(DECIDED,))), Policy(), Spent(), RunTools((TASK,))),
    ("a child crashed", held(Run(phase="calling")), Policy(), Spent(), RunTools((TASK,))),
    ("a child waits for a limit", held(Run(phase="paused", asks=True)), Policy(), Spent(), Pause("limit_ask")),
    ("its limit was raised", held(Run(phase="paused")), Policy(), Spent(), RunTools((TASK,))),
    ("all answered, whatever was crossed", REPLIED.replace(calls=(DONE,)), Policy(), pool(), CloseRound(0)),
    ("the pool is crossed", NEXT, Policy(), pool(), ReportLimits((TOKENS,))),
    (
        "the own limit first",
        NEXT,
        Policy(limits=UsageLimits(tool_calls_limit=2)),
        pool(tally=USED),
        ReportLimits((OWN, TOKENS)),
    ),
    ("crossed in the last round", READY.replace(stop_reason="stop"), Policy(), pool(), ReportLimits((TOKENS,))),
    ("told of, and ended by itself", READY.replace(stop_reason="stop", limits=(TOKENS,)), Policy(), pool("raise"), Finish("stop")),
    ("told of: a last round", NEXT.replace(limits=(TOKENS,)), Policy(), pool(), CallModel(1, True, "none", "usage_limit")),
    ("told of: the end", NEXT.replace(limits=(TOKENS,)), Policy(), pool("stop"), Finish("usage_limit")),
    ("told of: a pause", NEXT.replace(limits=(TOKENS,)), Policy(), pool("ask"), Pause("limit_ask")),
    ("told of: an error", NEXT.replace(limits=(TOKENS,)), Policy(), pool("raise"), Raise(TOKENS)),
    (
        "asked, and it stands",
        NEXT.replace(limits=(TOKENS,), declined=("run/total_tokens",)),
        Policy(),
        pool("ask"),
        CallModel(1, True, "none", "usage_limit"),
    ),
    ("told of, and no round is left", NEXT.replace(limits=(TOKENS,)), Policy(max_rounds=1), pool(), Finish("usage_limit")),
    ("the last round is over", NEXT.replace(limits=(TOKENS,), wrapping="usage_limit", wrapped=True), Policy(), pool(), Finish("usage_limit")),
    ("the last round broke off", NEXT.replace(limits=(TOKENS,), wrapping="usage_limit"), Policy(), pool(), CallModel(1, True, "none", "usage_limit")),
    ("a limit before anything is chosen", READY.replace(prepared=False), Policy(), Spent(pool_limits=UsageLimits(total_tokens_limit=60), next_call=CALL), Prepare()),
    (
        "the next call would leave nothing",
        READY,
        Policy(),
        Spent(pool_limits=UsageLimits(total_tokens_limit=60), next_call=CALL),
        ReportLimits((LimitBreach("total_tokens", 50, 60),)),
    ),
    ("a limit raised by a person", NEXT.replace(extended={"turn/tool_calls": 1.0}), Policy(limits=UsageLimits(tool_calls_limit=2)), Spent(tally=USED), CallModel(1)),
    ("four times the same", NEXT.replace(repeats={"rX": 4}, calls=(DONE,)), Policy(notices_stuck=True), Spent(), Nudge("stuck", "a", 4)),
    ("three times the same", NEXT.replace(repeats={"rX": 3}, calls=(DONE,)), Policy(notices_stuck=True), Spent(), CallModel(1)),
    ("three times the same error", NEXT.replace(repeats={"eX": 3}, calls=(DONE.replace(fingerprint="eX"),)), Policy(notices_stuck=True), Spent(), Nudge("stuck", "a", 3)),
    ("told of it before", NEXT.replace(repeats={"rX": 4}, calls=(DONE,), nudged="rX"), Policy(notices_stuck=True), Spent(), CallModel(1)),
    ("and again", NEXT.replace(repeats={"rX": 5}, stuck=True), Policy(notices_stuck=True), Spent(), CallModel(1, True, "none", "stuck")),
    ("nobody looks", NEXT.replace(repeats={"rX": 9}, stuck=True), Policy(), Spent(), CallModel(1)),
    ("stuck, and no round is left", NEXT.replace(stuck=True), Policy(max_rounds=1, notices_stuck=True), Spent(), Finish("max_rounds")),
    ("a limit counts before being stuck", NEXT.replace(stuck=True, limits=(TOKENS,)), Policy(notices_stuck=True), pool(), CallModel(1, True, "none", "usage_limit")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "policy", "spent", "action"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_decide(run: Run, policy: Policy, spent: Spent, action: Action) -> None:
    assert decide(run, policy, spent) == action
