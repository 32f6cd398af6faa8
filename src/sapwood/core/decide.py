"""decide: what to do next. Every rule of the loop is one row here, in this order.

Laws: pure; each row is one `if`; an action carries all that performing it needs. The table in
docs/architecture.md is drawn from the comments of the rows, and a test checks that it is current.
"""

from typing import ClassVar, Literal, TypeAlias

from sapwood.core.diagnostics import Cause
from sapwood.core.limits import LimitBreach, Tally, UsageLimits, crossed, would_cross
from sapwood.core.model import NamedTool, OutputMode, StopReason, ToolChoice
from sapwood.core.run import OpenCall, Run, most_repeated
from sapwood.core.struct import Data
from sapwood.core.tools import FINAL_RESULT

STUCK_AFTER = 4
"""Rounds in a row with the same call and the same result, after which the model is told; of errors one less."""


class Policy(Data, frozen=True, tag="policy"):
    """What the loop is allowed to do.

    max_rounds: model calls in a turn. final_round: the last of them is told so and gets no tools, where the
    agent has any; otherwise (guide D) the calls of the last round still run.
    has_tools: the model was offered a tool. window: tokens that a request may take, 0 for no check.
    compact_first: the history is offered to a compaction before each turn. compact_at: tokens of a request from
    which on the sources are asked to shorten it while it still fits; 0 for not before it is over the window.
    limits: of this turn alone; those of the whole tree come with Spent. notices_stuck: calls that repeat themselves
    are noticed. output: how the structured output that is owed is asked for, None where none is.
    max_output_retries: tries after the first. forces_output: a call may be demanded of this model.
    """

    type: ClassVar[Literal["policy"]] = "policy"
    max_rounds: int = 10
    final_round: bool = True
    has_tools: bool = True
    window: int = 0
    compact_first: bool = False
    limits: UsageLimits | None = None
    notices_stuck: bool = False
    output: OutputMode | None = None
    max_output_retries: int = 1
    forces_output: bool = True
    compact_at: int = 0


class Spent(Data, frozen=True, tag="spent"):
    """What was spent so far, taken by the loop from runtime, pool and meter.

    next_call_estimate: tokens that the next request would take. next_call: what it would use in all.
    tally: what this turn used up to now. pool, pool_limits: the same of the whole tree, and what it may use;
    None where it has no limits.
    """

    type: ClassVar[Literal["spent"]] = "spent"
    tally: Tally = Tally()
    pool: Tally = Tally()
    pool_limits: UsageLimits | None = None
    next_call_estimate: int = 0
    next_call: Tally = Tally()


class Prepare(Data, frozen=True, tag="prepare"):
    """Select this turn's content."""

    type: ClassVar[Literal["prepare"]] = "prepare"


class Compact(Data, frozen=True, tag="compact"):
    """Shorten the history."""

    type: ClassVar[Literal["compact"]] = "compact"


class CallModel(Data, frozen=True, tag="call_model"):
    """Call the model.

    final: tell it that this is the last round. wrap_up: why, where it comes before the rounds are used up.
    output: how the output that is owed is asked for; None where none is.
    """

    type: ClassVar[Literal["call_model"]] = "call_model"
    round: int = 0
    final: bool = False
    tool_choice: ToolChoice | None = None
    wrap_up: Cause | None = None
    output: OutputMode | None = None


class CheckOutput(Data, frozen=True, tag="check_output"):
    """Read the reply's text as the output that is owed. is_cut: it may have gone on."""

    type: ClassVar[Literal["check_output"]] = "check_output"
    text: str = ""
    is_cut: bool = False


class Nudge(Data, frozen=True, tag="nudge"):
    """Say a word to the model.

    kind: its calls repeat themselves, or the output is still owed. tool, count: what it called, in how many rounds.
    error: why its output was refused; output: how it is asked for.
    """

    type: ClassVar[Literal["nudge"]] = "nudge"
    kind: Literal["stuck", "output"]
    tool: str = ""
    count: int = 0
    error: str = ""
    output: OutputMode | None = None


class ReportLimits(Data, frozen=True, tag="report_limits"):
    """Tell of limits that were reached."""

    type: ClassVar[Literal["report_limits"]] = "report_limits"
    breaches: tuple[LimitBreach, ...]


class Raise(Data, frozen=True, tag="raise"):
    """End the turn with UsageLimitError."""

    type: ClassVar[Literal["raise"]] = "raise"
    breach: LimitBreach


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


Action: TypeAlias = (
    Prepare | Compact | CallModel | CheckOutput | Nudge | RunTools | CloseRound | ReportLimits | Raise | Finish | Pause
)

_CAUSES: dict[StopReason, Cause] = {
    "max_tokens": "max_tokens",
    "context_window": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}


def decide(run: Run, policy: Policy, spent: Spent) -> Action:
    """Return what to do next, by the first row that applies.

    >>> decide(Run(phase="idle", prepared=True), Policy(), Spent())
    CallModel(round=0, final=False, tool_choice=None, wrap_up=None, output=None)
    """
    # it has ended | Finish
    if run.phase == "ended":
        return Finish(run.stopped_by or "stop", over=True)
    # a reply is in, or a call of it has no result | RunTools(allowed, refused), Pause or CloseRound
    if run.phase == "replied":
        return _answer_calls(run)
    # a limit was crossed that was not told of | ReportLimits
    is_limited = policy.limits is not None or spent.pool_limits is not None
    if is_limited and (new := _new_breaches(run, policy, spent)):
        return ReportLimits(new)
    # the output is there | Finish(stop, or why the last round was early)
    if policy.output is not None and run.output is not None:
        return Finish(run.wrapping or "stop")
    # output is owed, and the reply is text that was not looked at, and no refusal | CheckOutput(text)
    if policy.output is not None and not run.output_read and (end := _end_of_text(run)) in ("stop", "max_tokens"):
        return CheckOutput(run.texts[-1] if run.texts else "", is_cut=end == "max_tokens")
    # the last round, decided early, is over | Finish(why it was early)
    if run.wrapping is not None and run.wrapped:
        return Finish(run.wrapping)
    # the reply ended with pause_turn and rounds are left | CallModel with the same messages
    if run.stop_reason == "pause_turn" and not run.had_calls and run.round < policy.max_rounds:
        return _call(run, policy)
    # output is owed, and the last try failed | Finish(output_missing), or Nudge(output) after a text
    if policy.output is not None and (owed := _output_owed(run, policy)) is not None:
        return owed
    # a reply without calls | Finish(cause of its stop reason)
    if run.stop_reason is not None and not run.had_calls:
        return Finish(_CAUSES.get(run.stop_reason, "stop"))
    # a limit was reached | by its policy: CallModel(wrap_up=usage_limit), Finish(usage_limit), Pause(limit_ask), Raise
    if run.limits and run.wrapping is None:
        return _at_limit(run, policy, spent)
    # no round is left | Finish(max_rounds)
    if run.round >= policy.max_rounds and run.wrapping is None:
        return Finish("max_rounds")
    # the same call with the same result in 4 rounds (error: 3) | Nudge(stuck); again: CallModel(wrap_up=stuck)
    if policy.notices_stuck and run.wrapping is None and (word := _stuck(run, policy)) is not None:
        return word
    # between rounds, and the context must be compacted first, is over its threshold or its window | Compact
    window = min(policy.window or run.room, run.room or policy.window)
    over = window > 0 and spent.next_call_estimate > window
    over = over or (policy.compact_at > 0 and spent.next_call_estimate > _next_compaction(run, policy))
    if run.compacted < run.round and (over or (policy.compact_first and run.compacted < 0 and not run.prepared)):
        return Compact()
    # this turn's content is not selected yet | Prepare
    if not run.prepared:
        return Prepare()
    # the next call would cross a limit, or leave nothing for a last round | ReportLimits
    if is_limited and run.wrapping is None and (ahead := _breaches_ahead(run, policy, spent)):
        return ReportLimits(ahead)
    # otherwise | CallModel(round, final, tool_choice)
    return _call(run, policy)


def _next_compaction(run: Run, policy: Policy) -> int:
    """Return the size from which on a compaction is due: one that brought little is not tried again at once."""
    return max(policy.compact_at, run.size_after + policy.compact_at // 8)


def _answer_calls(run: Run) -> Action:
    open_calls = [item for item in run.calls if item.state != "done"]
    free = [item for item in open_calls if not run.is_held(item)]
    if free:
        return RunTools(tuple(item for item in free if not item.refused), tuple(item for item in free if item.refused))
    if open_calls:
        asks = any(item.state == "waiting" for _, item in run.open_calls())
        return Pause("approval" if asks else "limit_ask")
    return CloseRound(run.round)


def _new_breaches(run: Run, policy: Policy, spent: Spent) -> tuple[LimitBreach, ...]:
    found = (
        *crossed(_own(run, policy), spent.tally, "turn"),
        *crossed(spent.pool_limits, spent.pool, "run"),
        *run.refused_by,
    )
    told = {(breach.scope, breach.name) for breach in run.limits}
    unique = {(breach.scope, breach.name): breach for breach in reversed(found)}
    return tuple(breach for place, breach in reversed(unique.items()) if place not in told)


def _breaches_ahead(run: Run, policy: Policy, spent: Spent) -> tuple[LimitBreach, ...]:
    return (
        *would_cross(_own(run, policy), spent.tally, spent.next_call, "turn", keeps_last=policy.has_tools),
        *would_cross(spent.pool_limits, spent.pool, spent.next_call, "run", keeps_last=policy.has_tools),
    )


def _own(run: Run, policy: Policy) -> UsageLimits | None:
    return policy.limits.extended(run.extra("turn")) if policy.limits is not None else None


def _at_limit(run: Run, policy: Policy, spent: Spent) -> Action:
    """Return what the strictest policy of the limits that were reached says."""
    ranked: dict[str, LimitBreach] = {}
    for breach in run.limits:
        limits = policy.limits if breach.scope == "turn" else spent.pool_limits
        rule = limits.policy_of(breach.kind) if limits is not None else "finish"
        if rule == "ask" and f"{breach.scope}/{breach.name}" in run.declined:
            rule = "finish"  # it was asked, and the limit stands
        ranked.setdefault(rule, breach)
    if "raise" in ranked:
        return Raise(ranked["raise"])
    if "stop" in ranked:
        return Finish("usage_limit")
    if run.round >= policy.max_rounds:
        return Finish("usage_limit")  # a limit grants no round beyond those, and more of it would bring none
    if "finish" in ranked:
        return _wrap_up(run, policy, "usage_limit")
    return Pause("limit_ask")


def _stuck(run: Run, policy: Policy) -> Action | None:
    if run.stuck:
        return _wrap_up(run, policy, "stuck")
    if max(run.repeats.values(), default=0) < STUCK_AFTER - 1:
        return None
    mark, count = most_repeated(run)
    if not mark or run.nudged or count + mark.startswith("e") < STUCK_AFTER:
        return None
    tool = next(item.call.name for item in run.calls if item.fingerprint == mark)
    return Nudge("stuck", tool, count)


def _end_of_text(run: Run) -> Cause | None:
    """Return the cause that a reply without calls ends the turn with; None where there is none, or it goes on."""
    if run.had_calls or run.stop_reason in (None, "pause_turn"):
        return None
    return _CAUSES.get(run.stop_reason, "stop")


def _output_owed(run: Run, policy: Policy) -> Action | None:
    if run.output_failures > policy.max_output_retries:
        return Finish("output_missing")
    if _end_of_text(run) != "stop":
        return None
    if run.round >= policy.max_rounds:
        return Finish("output_missing")
    return Nudge("output", error=run.output_error or "", output=policy.output)


def _call(run: Run, policy: Policy) -> CallModel:
    if run.wrapping is not None:  # it broke off, and starts again
        return _wrap_up(run, policy, run.wrapping)
    final = policy.final_round and policy.has_tools and run.round >= policy.max_rounds - 1
    return CallModel(run.round, final, _tool_choice(policy, final=final), output=policy.output)


def _wrap_up(run: Run, policy: Policy, cause: Cause) -> CallModel:
    return CallModel(run.round, True, _tool_choice(policy, final=True), cause, policy.output)


def _tool_choice(policy: Policy, *, final: bool) -> ToolChoice | None:
    if policy.output == "tool":
        if not policy.forces_output:
            return None
        return NamedTool(FINAL_RESULT) if final else "any"
    return "none" if final and policy.has_tools else None
