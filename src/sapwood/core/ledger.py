"""The context ledger: what the request of a model call held, and why.

Laws: it is data, so a test, a terminal and a web page read the same; the estimate is made before the
request is sent and the report of the provider is set beside it, never over it.
"""

from typing import ClassVar, Literal, TypeAlias

from sapwood.core.struct import Data

Section: TypeAlias = Literal[
    "system",
    "tools",
    "skills",
    "memory",
    "retrieval",
    "summary",
    "history",
    "tool_results",
    "prompt",
    "files",
]
Verdict: TypeAlias = Literal["kept", "trimmed", "skipped", "summarised", "cleared", "failed"]


class LedgerLine(Data, frozen=True, tag="ledger_line"):
    """One thing that was considered for the context, or that changed since the last call.

    source: the name of the source that offered it. label: what it is, for a person.
    tokens: its estimated size. reason: why it was not kept whole, empty where it was.
    """

    type: ClassVar[Literal["ledger_line"]] = "ledger_line"
    source: str
    label: str
    section: Section
    tokens: int
    verdict: Verdict = "kept"
    reason: str = ""


class ContextLedger(Data, frozen=True, tag="context_ledger"):
    """What one request held, in tokens by section, and what was left out.

    sections: estimated tokens by section. window: tokens that the request may take, the reserve for the
    reply taken off; 0 where it is unknown.
    reported_tokens, cached_tokens: the provider's own figures, None until it answered.
    cost_usd: what the call cost, None where the price is not known.
    """

    type: ClassVar[Literal["context_ledger"]] = "context_ledger"
    sections: dict[str, int]
    lines: tuple[LedgerLine, ...] = ()
    window: int = 0
    reported_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def estimated_tokens(self) -> int:
        """The sum of all sections."""
        return sum(self.sections.values())

    def of(self, verdict: Verdict) -> tuple[LedgerLine, ...]:
        """Return the lines with this verdict."""
        return tuple(line for line in self.lines if line.verdict == verdict)
