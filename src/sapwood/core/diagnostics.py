"""What a turn reports about itself when it is over."""

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from sapwood.core.approval import ApprovalRequest
from sapwood.core.limits import LimitBreach
from sapwood.core.struct import Data
from sapwood.core.usage import RoundUsage, Usage

Cause: TypeAlias = Literal[
    "stop",
    "max_tokens",
    "max_rounds",
    "usage_limit",
    "output_missing",
    "stuck",
    "approval",
    "limit_ask",
    "refusal",
    "error",
    "cancelled",
]
"""Why a turn ended."""


class TurnDiagnostics(Data, frozen=True, tag="turn_diagnostics"):
    """The rounds of a turn and why it ended.

    error: for `error` and `cancelled`, the kind of the exception and its message. broken_off: what replies used that
    belong to no finished round, as they never became complete or the turn ended there; the totals hold it too.
    children: the turns of subagents, however they ended. limits: the limits that were reached, also by a turn that
    ended by itself. waiting: what a paused turn waits for, in the whole tree. output_error: why there is no output.
    """

    type: ClassVar[Literal["turn_diagnostics"]] = "turn_diagnostics"
    rounds: tuple[RoundUsage, ...] = ()
    stopped_by: Cause = "stop"
    children: tuple["ChildTurn", ...] = ()
    error: str | None = None
    broken_off: Usage = Usage()
    limits: tuple[LimitBreach, ...] = ()
    waiting: tuple[ApprovalRequest, ...] = ()
    output_error: str | None = None

    @property
    def total_prompt_tokens(self) -> int:
        """Uncached input of this turn's own rounds."""
        return self.broken_off.prompt_tokens + sum(item.prompt_tokens for item in self.rounds)

    @property
    def total_completion_tokens(self) -> int:
        """Output of this turn's own rounds."""
        return self.broken_off.completion_tokens + sum(item.completion_tokens for item in self.rounds)

    @property
    def total_tool_result_tokens(self) -> int:
        """Estimated tokens of this turn's own tool results."""
        return sum(item.tool_result_tokens for item in self.rounds)

    @property
    def total_tokens(self) -> int:
        """Input and output, cached input included, of this turn's own rounds."""
        return self.broken_off.total_tokens + sum(item.total_tokens for item in self.rounds)

    @property
    def total_tool_calls(self) -> int:
        """Answered tool calls of this turn's own rounds, as limits count them: without those that a limit refused."""
        return sum(item.tool_calls for item in self.rounds)

    @property
    def total_cost_usd(self) -> float | None:
        """Cost of this turn's own rounds; None where that of one is not known."""
        lost = (self.broken_off.cost_usd,) if self.broken_off.total_tokens else ()
        return _total((*lost, *(item.cost_usd for item in self.rounds)))

    @property
    def run_total_tokens(self) -> int:
        """Tokens of this turn and of all turns below it."""
        return self.total_tokens + sum(child.diagnostics.run_total_tokens for child in self.children)

    @property
    def run_total_tool_calls(self) -> int:
        """Tool calls of this turn and of all turns below it."""
        return self.total_tool_calls + sum(child.diagnostics.run_total_tool_calls for child in self.children)

    @property
    def run_total_cost_usd(self) -> float | None:
        """Cost of this turn and of all turns below it; None where a part of it is not known."""
        below = (child.diagnostics.run_total_cost_usd for child in self.children)
        return _total((self.total_cost_usd, *below))


class ChildTurn(Data, frozen=True, tag="child_turn"):
    """A turn that ran inside a tool call of this one."""

    type: ClassVar[Literal["child_turn"]] = "child_turn"
    tool_call_id: str
    name: str
    diagnostics: TurnDiagnostics


def _total(costs: Iterable[float | None]) -> float | None:
    """Return the sum; a part that is not known must not read as free."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
