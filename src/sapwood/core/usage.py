"""Tokens and money: what a reply, a round and a turn have used.

Law: every adapter normalises once, so that `total = prompt + completion + cache_creation + cache_read`
holds for all providers and no token is counted twice.
"""

from typing import ClassVar, Literal

from sapwood.core.ledger import ContextLedger
from sapwood.core.struct import Data


class Usage(Data, frozen=True, tag="usage"):
    """What one or several replies used, in tokens.

    prompt_tokens: input that was neither read from nor written to the provider's cache.
    completion_tokens: output, thinking included.
    cache_creation_tokens, cache_read_tokens: input written to and read from the cache.
    thinking_tokens: the part of the output that was thinking, 0 where it is not told.
    cost_usd: what it cost: as the provider billed it, or by the table of prices; None where nothing is known.
    estimated: the provider reported nothing; the figures are ours.
    long_cache_tokens: the part of cache_creation_tokens that is kept for an hour, which costs more.
    """

    type: ClassVar[Literal["usage"]] = "usage"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    thinking_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    long_cache_tokens: int = 0

    @property
    def input_tokens(self) -> int:
        """All input, cached or not."""
        return self.prompt_tokens + self.cache_creation_tokens + self.cache_read_tokens

    @property
    def total_tokens(self) -> int:
        """All input and all output."""
        return self.input_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.thinking_tokens + other.thinking_tokens,
            _cost(self, other),
            self.estimated or other.estimated,
            self.long_cache_tokens + other.long_cache_tokens,
        )


def _cost(first: Usage, second: Usage) -> float | None:
    """Return what both cost: nothing is known of the sum where one of them used tokens at an unknown price."""
    if first.cost_usd is None or second.cost_usd is None:
        known, other = (first, second) if second.cost_usd is None else (second, first)
        return None if other.total_tokens else known.cost_usd
    return first.cost_usd + second.cost_usd


class RoundUsage(Data, frozen=True, tag="round_usage"):
    """What one round used: its model call and the results of its tool calls.

    tool_schema_tokens, tool_result_tokens: estimates; the provider reports neither apart.
    cost_usd: None where the price is not known, which is not the same as free.
    ledger: what the request of the round held. model: `provider/model` that answered.
    tool_calls: answered calls, as limits count them: failed and denied ones too, not those that a limit refused.
    seconds: how long the round took, without the time that a person took to answer.
    """

    type: ClassVar[Literal["round_usage"]] = "round_usage"
    round: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tool_schema_tokens: int = 0
    tool_result_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    tool_calls: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    ledger: ContextLedger | None = None
    model: str = ""
    seconds: float = 0.0

    @property
    def total_tokens(self) -> int:
        """All input and all output of the model call."""
        return self.prompt_tokens + self.completion_tokens + self.cache_creation_tokens + self.cache_read_tokens
