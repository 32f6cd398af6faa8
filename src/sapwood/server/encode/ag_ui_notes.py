"""What the protocol has no event for, as its `CUSTOM` events; the values are those of the data parts in `chunks`."""

from collections.abc import Iterator
from typing import Any, assert_never

import msgspec

from sapwood.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    LimitExtended,
    OutputChecked,
    OutputDelta,
    ProviderWaiting,
    RoundFinished,
    RoundStarted,
    ToolRunning,
    UsageLimitReached,
)
from sapwood.core.ledger import ContextLedger
from sapwood.server.encode.chunks import (
    CompactionNote,
    ContextNote,
    LedgerNote,
    LimitNote,
    OutputNote,
    WaitingNote,
    Wire,
)

Noted = (
    ApprovalRequested
    | ApprovalResolved
    | CompactionFinished
    | CompactionStarted
    | ContextPrepared
    | ContextUpdated
    | LimitExtended
    | OutputChecked
    | OutputDelta
    | ProviderWaiting
    | ToolRunning
    | UsageLimitReached
)


def note(event: Noted) -> Iterator[dict[str, Any]]:
    """Yield the custom event of this one, if it has any."""
    match event:
        case ContextUpdated():
            told = ContextNote(
                source=event.source, op=event.op, records=event.records, tools=event.tools, skill=event.skill
            )
            yield custom("context", told)
        case CompactionFinished():
            yield custom(
                "compaction", CompactionNote(tokens_before=event.tokens_before, tokens_after=event.tokens_after)
            )
        case ProviderWaiting():
            yield custom("waiting", WaitingNote(round=event.round, seconds=event.seconds, attempt=event.attempt))
        case OutputDelta():
            yield custom("output", OutputNote(value=event.value))
        case OutputChecked():
            if event.output is not None:
                yield output(event.output)
        case UsageLimitReached():
            name = f"tool:{event.tool}" if event.tool else event.kind
            told_limit = LimitNote(
                kind=event.kind, name=name, used=event.used, limit=event.limit, scope=event.scope, tool=event.tool
            )
            yield custom("limit", told_limit)
        case (
            ApprovalRequested()
            | ApprovalResolved()
            | CompactionStarted()
            | ContextPrepared()
            | LimitExtended()
            | ToolRunning()
        ):
            return
        case _:
            assert_never(event)


def ledger(event: RoundStarted | RoundFinished) -> Iterator[dict[str, Any]]:
    """Yield what the request of a round holds, and at its end what the provider reported."""
    held: ContextLedger | None = event.ledger
    if held is None:
        return
    told = LedgerNote(
        round=event.round,
        max_rounds=event.max_rounds if isinstance(event, RoundStarted) else 0,
        sections=held.sections,
        window=held.window,
        estimated_tokens=held.estimated_tokens,
        reported_tokens=held.reported_tokens,
        cached_tokens=held.cached_tokens,
        cost_usd=held.cost_usd,
    )
    yield custom("ledger", told)


def output(text: str) -> dict[str, Any]:
    """Return the structured output that is complete. text: its JSON."""
    return custom("output", OutputNote(value=msgspec.json.decode(text), final=True))


def custom(name: str, value: Wire) -> dict[str, Any]:
    """Return an event of our own."""
    return {"type": "CUSTOM", "name": f"sapwood:{name}", "value": value}
