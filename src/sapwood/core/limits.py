"""Limits: what a turn, and the tree of turns below it, may use; and the pure questions asked of them.

Laws: a limit is crossed by more than it allows, never by exactly that; what is not known (a price) never reads
as free; nothing here is changed: the pool that children share is `loop/pool.py`.
Source: guide A, "Usage Limits"; the reservation before each call, and the policies, are ours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.errors import ConfigError
from sapwood.core.require import MOST, is_number, require_bool, require_mapping, shown
from sapwood.core.struct import Data
from sapwood.core.usage import Usage

LimitKind: TypeAlias = Literal[
    "total_tokens", "input_tokens", "output_tokens", "requests", "tool_calls", "tool", "cost", "seconds"
]
"""What a limit counts; `tool` is the limit of one tool by its name."""
LimitPolicy: TypeAlias = Literal["finish", "stop", "ask", "raise"]
"""What happens at a limit: one last round for an answer; an end at once; a pause for a person; an exception."""
LimitScope: TypeAlias = Literal["run", "turn"]

POLICIES: tuple[LimitPolicy, ...] = ("finish", "stop", "ask", "raise")
KINDS: tuple[LimitKind, ...] = (
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "requests",
    "tool_calls",
    "tool",
    "cost",
    "seconds",
)
WRAP_UP_TOKENS = 256
"""Output that is set aside for the last round of a turn that a limit ends."""


class UsageLimits(Data, frozen=True, tag="usage_limits", kw_only=True):
    """What may be used; None is no limit. Equal to a limit is allowed, more is not.

    total_tokens_limit: input (cached too) and output. input_tokens_limit, output_tokens_limit: each alone.
    requests_limit: model calls; the last one allowed is the one that has no tools.
    tool_calls_limit: calls of any tool. tool_limits: calls of single tools, by name.
    cost_limit: US dollars. strict_cost: refuse a model whose price is not known, instead of a warning; where one
    answers all the same, the limit counts as reached.
    seconds_limit: wall-clock time, without the time that a person takes to answer.
    on_limit: what happens at a limit: `finish` (one last round without tools), `stop`, `ask` (the turn pauses and
    a person may extend it), `raise` (UsageLimitError). policies: the same for single kinds.

    Raises ConfigError for a value that cannot be a limit, TypeError for a keyword that does not exist.

    >>> UsageLimits(total_tokens_limit=50_000, tool_calls_limit=20, cost_limit=2.50).on_limit
    'finish'
    """

    type: ClassVar[Literal["usage_limits"]] = "usage_limits"
    total_tokens_limit: int | None = None
    tool_calls_limit: int | None = None
    cost_limit: float | None = None
    input_tokens_limit: int | None = None
    output_tokens_limit: int | None = None
    requests_limit: int | None = None
    tool_limits: dict[str, int] = {}
    seconds_limit: float | None = None
    strict_cost: bool = False
    on_limit: LimitPolicy = "finish"
    policies: dict[LimitKind, LimitPolicy] = {}

    def __post_init__(self) -> None:
        for name in ("total_tokens_limit", "input_tokens_limit", "output_tokens_limit", "requests_limit"):
            _require(name, getattr(self, name), least=1)
        _require("tool_calls_limit", self.tool_calls_limit, least=0)
        for name in ("cost_limit", "seconds_limit"):
            _require(name, getattr(self, name), least=None)
        require_bool("strict_cost", self.strict_cost)
        require_mapping("tool_limits", self.tool_limits, "how many calls, by the name of a tool")
        for tool, limit in self.tool_limits.items():
            if limit is None:  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
                raise ConfigError(f"tool_limits[{tool!r}] is None; leave {tool!r} out for no limit")
            _require(f"tool_limits[{tool!r}]", limit, least=0)
        require_mapping("policies", self.policies, "what happens, by the kind of a limit")
        for kind, policy in [("on_limit", self.on_limit), *self.policies.items()]:
            if policy not in POLICIES:
                raise ConfigError(f"{kind}: a policy is one of {', '.join(POLICIES)}, not {policy!r}")
        for kind in self.policies:
            if kind not in KINDS:
                raise ConfigError(f"policies: {kind!r} is no kind of limit; they are {', '.join(KINDS)}")

    def policy_of(self, kind: LimitKind) -> LimitPolicy:
        """Return what happens at a limit of this kind."""
        return self.policies.get(kind, self.on_limit)

    def items(self) -> Iterator[tuple[LimitKind, str, float]]:
        """Yield (kind, tool, limit) of those that are set; tool is empty but for the limit of one tool."""
        limits: tuple[tuple[LimitKind, float | None], ...] = (
            ("total_tokens", self.total_tokens_limit),
            ("tool_calls", self.tool_calls_limit),
            ("cost", self.cost_limit),
            ("input_tokens", self.input_tokens_limit),
            ("output_tokens", self.output_tokens_limit),
            ("requests", self.requests_limit),
            ("seconds", self.seconds_limit),
        )
        for kind, limit in limits:
            if limit is not None:
                yield kind, "", limit
        for tool, allowed in self.tool_limits.items():
            yield "tool", tool, allowed

    def narrowed(self, other: "UsageLimits | None") -> "UsageLimits":
        """Return the smaller of each two limits; what happens at them stays as it is here.

        >>> UsageLimits(requests_limit=5).narrowed(UsageLimits(requests_limit=3, cost_limit=1.0)).requests_limit
        3
        """
        if other is None:
            return self
        changes: dict[str, Any] = {}
        for kind, tool, limit in other.items():
            own = None if tool else getattr(self, f"{kind}_limit")
            if not tool and (own is None or limit < own):
                changes[f"{kind}_limit"] = limit
        tools = dict(self.tool_limits)
        for name, limit in other.tool_limits.items():
            tools[name] = min(limit, tools.get(name, limit))
        return self.replace(**changes, tool_limits=tools, strict_cost=self.strict_cost or other.strict_cost)

    def extended(self, extra: Mapping[str, float]) -> "UsageLimits":
        """Return these limits raised by so much, by the name of a kind or `tool:<name>`; those not set stay so."""
        if not extra:
            return self
        changes: dict[str, float] = {}
        for kind, tool, limit in self.items():
            if not tool and extra.get(kind):
                raised = limit + (extra[kind] if kind in _FLOATS else int(extra[kind]))
                changes[f"{kind}_limit"] = min(MOST, raised)
        tools = {name: min(MOST, limit + int(extra.get(f"tool:{name}", 0))) for name, limit in self.tool_limits.items()}
        return self.replace(**changes, tool_limits=tools)


class Tally(Data, frozen=True, tag="tally"):
    """What was used so far.

    cost_usd: the part whose price is known. unpriced: some of it has no known price.
    calls: answered tool calls by name. seconds: time that passed without waiting for a person.
    """

    type: ClassVar[Literal["tally"]] = "tally"
    usage: Usage = Usage()
    requests: int = 0
    calls: dict[str, int] = {}
    cost_usd: float = 0.0
    unpriced: bool = False
    seconds: float = 0.0

    @property
    def tool_calls(self) -> int:
        """Answered calls of all tools."""
        return sum(self.calls.values())

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.usage + other.usage,
            self.requests + other.requests,
            {name: self.calls.get(name, 0) + other.calls.get(name, 0) for name in {**self.calls, **other.calls}},
            self.cost_usd + other.cost_usd,
            self.unpriced or other.unpriced,
            self.seconds + other.seconds,
        )

    def with_reply(self, usage: Usage, *, requests: int = 1) -> "Tally":
        """Return the tally after a model call that used this."""
        known = usage.cost_usd or 0.0
        lost = usage.cost_usd is None and usage.total_tokens > 0
        return self.replace(
            usage=self.usage + usage,
            requests=self.requests + requests,
            cost_usd=self.cost_usd + known,
            unpriced=self.unpriced or lost,
        )

    def with_call(self, name: str) -> "Tally":
        """Return the tally after a call of this tool was answered."""
        return self.replace(calls={**self.calls, name: self.calls.get(name, 0) + 1})

    def of(self, kind: LimitKind, tool: str = "") -> float:
        """Return how much of a kind was used."""
        match kind:
            case "total_tokens":
                return self.usage.total_tokens
            case "input_tokens":
                return self.usage.input_tokens
            case "output_tokens":
                return self.usage.completion_tokens
            case "requests":
                return self.requests
            case "tool_calls":
                return self.tool_calls
            case "tool":
                return self.calls.get(tool, 0)
            case "cost":
                return self.cost_usd
            case "seconds":
                return self.seconds


class LimitBreach(Data, frozen=True, tag="limit_breach"):
    """A limit that was reached: how much was used (or would be by the next call), and how much is allowed.

    scope: `run` for the pool that a whole tree of agents shares, `turn` for an agent's own limit.
    tool: for the limit of one tool, its name.
    """

    type: ClassVar[Literal["limit_breach"]] = "limit_breach"
    kind: LimitKind
    used: float
    limit: float
    scope: LimitScope = "run"
    tool: str = ""

    @property
    def name(self) -> str:
        """The kind, and for the limit of one tool its name: `tool:<name>`."""
        return f"tool:{self.tool}" if self.tool else self.kind

    def __str__(self) -> str:
        whose = f"calls of {self.tool}" if self.tool else self.kind.replace("_", " ")
        return f"the limit of {self.limit:g} {whose} ({self.used:g} used)"


def crossed(limits: UsageLimits | None, tally: Tally, scope: LimitScope) -> tuple[LimitBreach, ...]:
    """Return the limits of which more was used than they allow."""
    if limits is None:
        return ()
    hidden = limits.strict_cost and tally.unpriced  # what it cost is not known, so it may have been any amount
    return tuple(
        LimitBreach(kind, used, limit, scope, tool)
        for kind, tool, limit in limits.items()
        if (used := tally.of(kind, tool)) > limit or (hidden and kind == "cost")
    )


def would_cross(
    limits: UsageLimits | None, tally: Tally, next_call: Tally, scope: LimitScope, *, keeps_last: bool = True
) -> tuple[LimitBreach, ...]:
    """Return the limits that the next model call would cross, or after which no last round would fit any more.

    next_call: what that call is thought to use. As much again is kept for the last round, but never more than a
    quarter of a limit, so that a small limit is not spent on caution alone. keeps_last: False where a last round
    would be like any other, as there are no tools to take away.
    """
    if limits is None:
        return ()
    found: list[LimitBreach] = []
    for kind, tool, limit in limits.items():
        needed = next_call.of(kind, tool)
        if not needed:
            continue
        # Of requests exactly one is kept: the last that is allowed is the one without tools.
        spare = 1.0 if kind == "requests" else min(needed, limit / 4)
        if tally.of(kind, tool) + needed + (spare if keeps_last else 0) > limit:
            found.append(LimitBreach(kind, tally.of(kind, tool) + needed, limit, scope, tool))
    return tuple(found)


def refuses_call(limits: UsageLimits | None, tally: Tally, tool: str, scope: LimitScope) -> LimitBreach | None:
    """Return the limit that one more call of this tool would cross, None where it may run."""
    if limits is None:
        return None
    after = tally.with_call(tool)
    counted = ("tool_calls", "tool")
    return next((breach for breach in crossed(limits, after, scope) if breach.kind in counted), None)


_FLOATS = ("cost", "seconds")


def _require(name: str, value: object, *, least: int | None) -> None:
    """Raise ConfigError unless the value is a number that may be a limit; least None: any number above 0."""
    if value is None:
        return
    is_kind = is_number(value) and (least is None or isinstance(value, int))
    # `not ... >`, as nothing is above what is no number.
    if not is_kind or not isinstance(value, int | float) or not (value > 0 if least is None else value >= least):
        rule = "a number above 0" if least is None else f"a whole number of at least {least}"
        raise ConfigError(f"{name} must be {rule}, or None for no limit; not {shown(value)}")
    if value > MOST:
        raise ConfigError(f"{name} must be at most {MOST:,}, or None for no limit; not {shown(value)}")
