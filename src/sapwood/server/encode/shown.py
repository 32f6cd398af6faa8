"""What a user interface shows of an event; never what the inside of the program said.

Source: decision 4: streams to servers and user interfaces get the generic text of an exception that is no ToolError.
"""

from typing import Any

from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.events import ServerToolFinished, ToolFinished
from sapwood.core.limits import LimitBreach
from sapwood.server.encode.chunks import FinishReason, LimitNote, TokenCount

_FINISH: dict[Cause, FinishReason] = {
    "stop": "stop",
    "max_tokens": "length",
    "max_rounds": "length",
    "usage_limit": "length",
    "refusal": "content-filter",
    "approval": "tool-calls",
    "error": "error",
}


PROVIDER_FAILED = "The provider's tool failed."


def shown_error(event: ToolFinished | ServerToolFinished) -> str:
    """Return the text of a call that failed: its result, or the generic text where that tells of the inside.

    >>> shown_error(ToolFinished(key="k", tool_call_id="c", name="f", result="OSError: x", shown="Internal error"))
    'Internal error'
    """
    if isinstance(event, ServerToolFinished):
        return PROVIDER_FAILED
    return event.shown if event.shown is not None else event.result


def shown_output(event: ToolFinished) -> Any:
    """Return what a call returned, as JSON; the text that the model saw where it is too large to be kept as a value."""
    return event.value if event.value is not None else event.result


def finish_reason(cause: Cause) -> FinishReason:
    """Return the wire's word for why a turn ended."""
    return _FINISH.get(cause, "other")


def used(diagnostics: TurnDiagnostics) -> TokenCount:
    """Return what a turn used, its subagents included."""
    rounds, lost = diagnostics.rounds, diagnostics.broken_off
    below = [used(child.diagnostics) for child in diagnostics.children]
    written = sum(item.prompt_tokens + item.cache_creation_tokens + item.cache_read_tokens for item in rounds)
    cached = lost.cache_read_tokens + sum(item.cache_read_tokens for item in rounds)
    return TokenCount(
        input_tokens=lost.input_tokens + written + sum(item.input_tokens for item in below),
        output_tokens=diagnostics.total_completion_tokens + sum(item.output_tokens for item in below),
        cached_tokens=cached + sum(item.cached_tokens for item in below),
        cost_usd=diagnostics.run_total_cost_usd,
    )


def limit_note(breach: LimitBreach, *, asks: bool = False) -> LimitNote:
    """Return a limit that was reached, as clients see it."""
    return LimitNote(
        kind=breach.kind,
        name=breach.name,
        used=breach.used,
        limit=breach.limit,
        scope=breach.scope,
        tool=breach.tool,
        asks=asks,
    )
