"""choose: which of a pipeline's items go into the window. Pure.

Laws: system texts and the question come first and are never cut; then the items by priority and score, each taken
where it fits; a conversation has no gaps: what is older than a message that did not fit stays out, too.
Source: guide A, "Pipeline"; the list of faults, "Pipeline" and "The current user message can vanish".
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sapwood.context.plan import Demand, Plan, plan, require_fit, truncated
from sapwood.context.result import ContextWindow
from sapwood.core.budget import Allocation, TokenBudget
from sapwood.core.context_item import ContextItem, SourceType
from sapwood.core.ledger import ContextLedger, LedgerLine, Section

Count = Callable[[str], int]

_SECTIONS: dict[SourceType, Section] = {
    SourceType.SYSTEM: "system",
    SourceType.MEMORY: "memory",
    SourceType.RETRIEVAL: "retrieval",
    SourceType.TOOL: "tool_results",
    SourceType.USER: "history",
    SourceType.CONVERSATION: "history",
}
_LABEL_CHARACTERS = 40
_HISTORY = "history"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What went in, what did not (the most important first), and the ledger of both."""

    window: ContextWindow
    overflow: tuple[ContextItem, ...]
    ledger: ContextLedger


class _Candidate(msgspec.Struct):
    """An item on its way in. place: among all that were considered."""

    item: ContextItem
    place: int
    line: LedgerLine

    @property
    def is_in(self) -> bool:
        return self.line.verdict in ("kept", "trimmed")


def choose(
    items: Sequence[ContextItem],
    room: int,
    count: Count,
    *,
    question: str = "",
    system: Sequence[ContextItem] = (),
    allocations: Mapping[str, Allocation] | None = None,
    each: int = 0,
) -> Chosen:
    """Return what of the items goes into a room of so many tokens, beside system texts and the question.

    allocations: by the name of a source. each: tokens that an item takes beside its text.

    Raises ContextOverflowError, naming the sizes, where system texts and question alone are too long.

    >>> chosen = choose([ContextItem(content="a b"), ContextItem(content="c")], 1, lambda text: len(text.split()))
    >>> [item.content for item in chosen.window.items], [item.content for item in chosen.overflow]
    (['c'], ['a b'])
    """
    fixed = [item.replace(token_count=count(item.content)) for item in system]
    asked = count(question) if question else 0
    sizes = {"system": sum(item.token_count for item in fixed), "prompt": asked}
    require_fit(sizes, max(room, 1))
    left = room - sum(sizes.values())
    shares = allocations or {}
    candidates = _ranked(items, count, each)
    result = plan([_demand(one) for one in candidates], left, shares)
    for one, line in zip(candidates, result.lines, strict=True):
        one.line = line
    _close_gaps(candidates)
    _cut(candidates, left, shares, count, each)
    lines = [LedgerLine("system", _label(item), "system", item.token_count) for item in fixed]
    if asked:
        lines.append(LedgerLine("prompt", "the question", "prompt", asked))
    lines += [one.line for one in sorted(candidates, key=lambda one: one.place)]
    taken = [one for one in candidates if one.is_in]
    said = sorted((one for one in taken if _is_said(one)), key=lambda one: one.place)
    rest = [one for one in taken if not _is_said(one)]
    used = sum(sizes.values()) + sum(one.line.tokens for one in taken)
    window = ContextWindow(
        items=(*fixed, *(one.item for one in (*rest, *said))), question=question, max_tokens=room, used_tokens=used
    )
    overflow = tuple(one.item for one in candidates if not one.is_in)
    return Chosen(window=window, overflow=overflow, ledger=_ledger(lines, room))


def shares_of(budget: TokenBudget | None) -> dict[str, Allocation]:
    """Return the allocations of a budget by source; `conversation` is another word for `history`.

    >>> shares_of(TokenBudget(100, allocations=(Allocation("conversation", 20),)))["history"].max_tokens
    20
    """
    allocations = budget.allocations if budget is not None else ()
    return {source_name(item.source): item for item in allocations}


def source_name(source: str) -> str:
    """Return the name under which the items of a kind are budgeted."""
    return _HISTORY if source in (SourceType.CONVERSATION, SourceType.USER) else str(source)


def _ranked(items: Sequence[ContextItem], count: Count, each: int) -> list[_Candidate]:
    found: list[_Candidate] = []
    for place, given in enumerate(items):
        item = given.replace(token_count=count(given.content))  # what it says of itself may be wrong
        line = LedgerLine(source_name(item.source), _label(item), _SECTIONS[item.source], item.token_count + each)
        found.append(_Candidate(item, place, line))
    return sorted(found, key=lambda one: (-one.item.priority, -one.item.score))


def _demand(one: _Candidate, tokens: int | None = None) -> Demand:
    line = one.line
    return Demand(line.source, line.label, line.section, line.tokens if tokens is None else tokens)


def _is_said(one: _Candidate) -> bool:
    return one.line.section == _HISTORY


def _close_gaps(candidates: Sequence[_Candidate]) -> None:
    """Leave out what is older than a message that did not fit, and a reply whose question did not."""
    said = sorted((one for one in candidates if _is_said(one)), key=lambda one: one.place)
    missing = [place for place, one in enumerate(said) if not one.is_in]
    if not missing:
        return
    newer = said[missing[-1] + 1 :]
    for one in said[: missing[-1]]:
        _leave_out(one, "a newer message did not fit")
    for one in newer:
        if one.item.metadata.get("role") != "assistant":
            break
        _leave_out(one, "the message that it answers did not fit")


def _leave_out(one: _Candidate, reason: str) -> None:
    if one.is_in:
        one.line = one.line.replace(verdict="skipped", reason=reason)


def _cut(
    candidates: Sequence[_Candidate], room: int, shares: Mapping[str, Allocation], count: Count, each: int
) -> None:
    """Keep the beginning of the first item that did not fit, for each source whose share says so."""
    for source, share in shares.items():
        out = [one for one in candidates if one.line.source == source and not one.is_in and not _is_said(one)]
        if share.overflow != "truncate" or not out:
            continue
        one = out[0]
        kept = [_demand(other) for other in candidates if other.is_in]
        size = _largest(one, kept, room, shares) - each
        text = truncated(one.item.content, size, count) if size > 0 else ""
        if text:
            tokens, whole = count(text), one.item.token_count
            one.item = one.item.replace(content=text, token_count=tokens)
            reason = f"cut from {whole} tokens to {tokens}"
            one.line = one.line.replace(tokens=tokens + each, verdict="trimmed", reason=reason)


def _largest(one: _Candidate, kept: Sequence[Demand], room: int, shares: Mapping[str, Allocation]) -> int:
    """Return how many tokens of an item fit beside what was kept, found by halving."""

    def fits(tokens: int) -> bool:
        found: Plan = plan([*kept, _demand(one, tokens)], room, shares)
        return all(found.taken)

    low, high = 0, one.line.tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _label(item: ContextItem) -> str:
    named = item.metadata.get("title") or item.metadata.get("section")
    text = " ".join(str(named or item.content[: 4 * _LABEL_CHARACTERS]).split())
    return text if len(text) <= _LABEL_CHARACTERS else f"{text[: _LABEL_CHARACTERS - 1]}…"


def _ledger(lines: Sequence[LedgerLine], room: int) -> ContextLedger:
    sections: dict[str, int] = {}
    for line in lines:
        if line.verdict in ("kept", "trimmed"):
            sections[line.section] = sections.get(line.section, 0) + line.tokens
    return ContextLedger(sections, tuple(lines), window=max(0, room))
