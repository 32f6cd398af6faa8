"""ContextResult: what the context of a turn was built of, for a person to look at."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import Message


class ContextResult(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a turn's first model call.

    system: the texts of the system prompt. messages: past messages and the prompt.
    ledger: what was kept and what was left out, in tokens. diagnostics: the same as counts by name.
    """

    system: tuple[str, ...] = ()
    messages: Sequence[Message] = ()
    ledger: ContextLedger | None = None

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
        }
