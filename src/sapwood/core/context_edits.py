"""Edits of a long context that a provider makes itself: their names, and what a reply tells of those that were made.

Laws: what was made is told by the provider, never guessed; the transcript stays whole, as the edit is made on the way
to the model.
"""

from typing import Any

from sapwood.core.json_object import is_list, is_object
from sapwood.core.ledger import LedgerLine
from sapwood.core.messages import Message, Opaque
from sapwood.core.transcript import COMPACTION

CLEAR_TOOL_USES = "clear_tool_uses_20250919"
CLEAR_THINKING = "clear_thinking_20251015"
COMPACT = "compact_20260112"
MADE = "context_management"
"""The kind of the part in which a reply keeps what was made; it is never sent back."""


def is_edited(message: Message) -> bool:
    """Tell whether the provider edited the context of a reply, so that it counted other tokens than were sent.

    >>> is_edited(Message.assistant("Hello"))
    False
    """
    return any(isinstance(part, Opaque) and part.kind in (MADE, COMPACTION) for part in message.content)


def is_summarised(message: Message) -> bool:
    """Tell whether a message holds a provider's own summary of all that came before it.

    >>> is_summarised(Message("assistant", (Opaque("compaction", {"anthropic": {"content": "They met."}}),)))
    True
    """
    return any(isinstance(part, Opaque) and part.kind == COMPACTION for part in message.content)


def made_edits(message: Message) -> tuple[LedgerLine, ...]:
    """Return what the provider did to the context before this reply, as lines of a ledger.

    >>> made = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2}]}
    >>> [line.label for line in made_edits(Message("assistant", (Opaque(MADE, {"anthropic": made}),)))]
    ['2 tool results']
    """
    lines: list[LedgerLine] = []
    for part in message.content:
        if not isinstance(part, Opaque):
            continue
        for provider, raw in part.provider_data.items():
            if part.kind == COMPACTION:
                why = f"{provider} summarised them; its summary stands in their place"
                lines.append(LedgerLine(provider, "all earlier messages", "summary", 0, "summarised", why))
            elif part.kind == MADE and is_object(raw):
                applied: Any = raw.get("applied_edits")
                lines += [_line(provider, edit) for edit in applied if is_object(edit)] if is_list(applied) else []
    return tuple(lines)


def _line(provider: str, edit: dict[str, Any]) -> LedgerLine:
    tokens = _count(edit, "cleared_input_tokens")
    reason = f"{provider} cleared it before the model read it"
    if count := _count(edit, "cleared_tool_uses"):
        return LedgerLine(provider, f"{count} tool results", "tool_results", tokens, "cleared", reason)
    if count := _count(edit, "cleared_thinking_turns"):
        return LedgerLine(provider, f"thinking of {count} turns", "history", tokens, "cleared", reason)
    return LedgerLine(provider, str(edit.get("type", "an edit")), "history", tokens, "cleared", reason)


def _count(edit: dict[str, Any], name: str) -> int:
    found = edit.get(name)
    return found if isinstance(found, int) and found > 0 else 0
