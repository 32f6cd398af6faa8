"""ContextResult: what a context was built of, for a person to look at and for a request to be made of."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sapwood.core.context_item import ContextItem, SourceType
from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import Message


class ContextWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline chose for a question.

    items: system texts first, then what else went in, the most important first; what was said in a conversation comes
    last, in its own order. question: the words of the user; it stands at the end and is among used_tokens.
    max_tokens: what all of it may take, the reserve for the reply taken off.

    >>> ContextWindow(question="Why?", max_tokens=100, used_tokens=25).utilization
    0.25
    """

    items: tuple[ContextItem, ...] = ()
    question: str = ""
    max_tokens: int = 0
    used_tokens: int = 0

    @property
    def remaining_tokens(self) -> int:
        """Tokens that are left."""
        return max(0, self.max_tokens - self.used_tokens)

    @property
    def utilization(self) -> float:
        """How full it is, 0 to 1."""
        return round(self.used_tokens / self.max_tokens, 4) if self.max_tokens else 0.0

    def of(self, *sources: SourceType) -> tuple[ContextItem, ...]:
        """Return the items of these kinds, in their order."""
        return tuple(item for item in self.items if item.source in sources)


class ContextResult(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a turn's first model call, or what a pipeline built.

    system: the texts of the system prompt. messages: past messages and the prompt.
    ledger: what was kept and what was left out, in tokens. diagnostics: the same as counts by name.
    Of a pipeline alone: window, what it chose; formatted_output, what its formatter made of that, and format_type, of
    which kind it is; overflow_items, what did not fit, the most important first; details, the counts by name that only
    a pipeline has; build_time_ms.
    """

    system: tuple[str, ...] = ()
    messages: Sequence[Message] = ()
    ledger: ContextLedger | None = None
    window: ContextWindow = ContextWindow()
    formatted_output: Any = ""
    format_type: str = ""
    overflow_items: tuple[ContextItem, ...] = ()
    details: Mapping[str, Any] = {}
    build_time_ms: float = 0.0

    @property
    def diagnostics(self) -> dict[str, Any]:
        """Counts of what was considered, and how full the window is (0 to 1)."""
        ledger = self.ledger or ContextLedger({})
        included = sum(line.verdict in ("kept", "trimmed") for line in ledger.lines)
        return {
            "total_items_considered": len(ledger.lines),
            "items_included": included,
            "items_overflow": len(ledger.lines) - included,
            "token_utilization": round(ledger.estimated_tokens / ledger.window, 4) if ledger.window else 0.0,
            "token_usage_by_section": dict(ledger.sections),
            **self.details,
        }
