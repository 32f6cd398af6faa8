"""What the model calls of one AG-UI stream used, by model.

Law: a run that goes on after a pause reports only what it used itself.
"""

from typing import Any

from sapwood.core.events import AgentEvent, CompactionFinished, MessageAdded, MessageInterrupted, RoundRestarted
from sapwood.core.usage import Usage


class UsageByModel:
    """Sums of tokens by the model that answered, those of subagents included."""

    def __init__(self) -> None:
        self._used: dict[str, Usage] = {}

    def add(self, event: AgentEvent) -> None:
        """Count what an event says was used."""
        match event:
            case MessageAdded(usage=Usage() as usage, message=message):
                origin = message.origin or ""
            case MessageInterrupted(usage=Usage() as usage, message=message):
                origin = message.origin or ""
            case RoundRestarted(usage=Usage() as usage) | CompactionFinished(usage=Usage() as usage):
                origin = ""
            case _:
                return
        self._used[origin] = self._used.get(origin, Usage()) + usage

    def wire(self) -> dict[str, Any]:
        """Return the field that tells it; nothing where no model was called."""
        entries = [_entry(origin, usage) for origin, usage in self._used.items()]
        return {"usage": entries} if entries else {}


def _entry(origin: str, usage: Usage) -> dict[str, Any]:
    provider, _, model = origin.partition("/")
    named = {"provider": provider, "model": model} if model else {}
    parts = {
        "reasoningTokens": usage.thinking_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_creation_tokens,
    }
    return {
        **named,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.completion_tokens,
        "totalTokens": usage.total_tokens,
        **{name: count for name, count in parts.items() if count},
    }
