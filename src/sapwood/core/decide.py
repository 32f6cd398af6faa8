"""decide: what to do next. Every rule of the loop is one row here, in this order.

Laws: pure; each row is one `if`; an action carries all that performing it needs. The table in
docs/architecture.md is drawn from the comments of the rows, and a test checks that it is current.
"""

from typing import ClassVar, Literal, TypeAlias

from sapwood.core.diagnostics import Cause
from sapwood.core.model import StopReason, ToolChoice
from sapwood.core.run import OpenCall, Run
from sapwood.core.struct import Data
from sapwood.core.usage import Usage


class Policy(Data, frozen=True, tag="policy"):
    """What the loop is allowed to do.

    max_rounds: model calls in a turn. final_round: the last of them is told so and gets no tools, where the
    agent has any; otherwise (guide D) the calls of the last round still run.
    has_tools: the model was offered a tool. window: tokens that a request may take, 0 for no check.
    compact_first: the history is offered to a compaction before each turn.
    """

    type: ClassVar[Literal["policy"]] = "policy"
    max_rounds: int = 10
    final_round: bool = True
    has_tools: bool = True
    window: int = 0
    compact_first: bool = False


class Spent(Data, frozen=True, tag="spent"):
    """What was spent so far, taken by the loop from runtime, pool and meter.

    next_call_estimate: tokens that the next request would take.
    """

    type: ClassVar[Literal["spent"]] = "spent"
    usage: Usage = Usage()
    elapsed_seconds: float = 0.0
    waited_seconds: float = 0.0
    calls_by_tool: dict[str, int] = {}
    next_call_estimate: int = 0


class Prepare(Data, frozen=True, tag="prepare"):
    """Select this turn's content."""

    type: ClassVar[Literal["prepare"]] = "prepare"


class Compact(Data, frozen=True, tag="compact"):
    """Shorten the history."""

    type: ClassVar[Literal["compact"]] = "compact"


class CallModel(Data, frozen=True, tag="call_model"):
    """Call the model. final: tell it that this is the last round."""

    type: ClassVar[Literal["call_model"]] = "call_model"
    round: int = 0
    final: bool = False
    tool_choice: ToolChoice | None = None


class RunTools(Data, frozen=True, tag="run_tools"):
    """Answer these calls: run what is allowed, say no to what is refused."""

    type: ClassVar[Literal["run_tools"]] = "run_tools"
    allowed: tuple[OpenCall, ...] = ()
    refused: tuple[OpenCall, ...] = ()


class CloseRound(Data, frozen=True, tag="close_round"):
    """Report the round that is complete."""

    type: ClassVar[Literal["close_round"]] = "close_round"
    round: int = 0


class Finish(Data, frozen=True, tag="finish"):
    """End the turn for this cause. over: it had ended before, nothing is left to do."""

    type: ClassVar[Literal["finish"]] = "finish"
    cause: Cause = "stop"
    over: bool = False


class Pause(Data, frozen=True, tag="pause"):
    """End this segment; a person must answer first."""

    type: ClassVar[Literal["pause"]] = "pause"
    cause: Cause = "approval"


Action: TypeAlias = Prepare | Compact | CallModel | RunTools | CloseRound | Finish | Pause

_CAUSES: dict[StopReason, Cause] = {
    "max_tokens": "max_tokens",
    "context_window": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}


def decide(run: Run, policy: Policy, spent: Spent) -> Action:
    """Return what to do next, by the first row that applies.

    >>> decide(Run(phase="idle", prepared=True), Policy(), Spent())
    CallModel(round=0, final=False, tool_choice=None)
    """
    # it has ended | Finish
    if run.phase == "ended":
        return Finish(run.stopped_by or "stop", over=True)
    # tool calls without a result | RunTools(allowed, refused)
    open_calls = tuple(item for item in run.calls if item.state != "done")
    if run.phase == "replied" and open_calls:
        return RunTools(
            tuple(item for item in open_calls if not item.refused),
            tuple(item for item in open_calls if item.refused),
        )
    # the reply is in and every call is answered | CloseRound
    if run.phase == "replied":
        return CloseRound(run.round)
    # the reply ended with pause_turn and rounds are left | CallModel with the same messages
    if run.stop_reason == "pause_turn" and not run.had_calls and run.round < policy.max_rounds:
        return _call(run, policy)
    # a reply without calls | Finish(cause of its stop reason)
    if run.stop_reason is not None and not run.had_calls:
        return Finish(_CAUSES.get(run.stop_reason, "stop"))
    # no round is left | Finish(max_rounds)
    if run.round >= policy.max_rounds:
        return Finish("max_rounds")
    # between rounds, and the context must be compacted first, is over its window, or was too long once | Compact
    window = min(policy.window or run.room, run.room or policy.window)
    over = window > 0 and spent.next_call_estimate > window
    if run.compacted < run.round and (over or (policy.compact_first and run.compacted < 0 and not run.prepared)):
        return Compact()
    # this turn's content is not selected yet | Prepare
    if not run.prepared:
        return Prepare()
    # otherwise | CallModel(round, final, tool_choice)
    return _call(run, policy)


def _call(run: Run, policy: Policy) -> CallModel:
    final = policy.final_round and policy.has_tools and run.round >= policy.max_rounds - 1
    return CallModel(run.round, final, "none" if final else None)
