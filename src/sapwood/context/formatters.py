"""Formatters: what a pipeline chose -> the body of a request, for whoever sends it without an Agent.

Laws: system texts stand aside; documents come first, under a heading; what was said follows in its order; the
question is always there, and last; what a tool said is never the user's word.
Source: guide A, "Formatters".
"""

from collections.abc import Iterable
from typing import Any, Protocol

from sapwood.context.result import ContextWindow
from sapwood.core.context_item import ContextItem, SourceType
from sapwood.memory.recall import HEADING as MEMORY_HEADING

CONTEXT_HEADING = "Here is relevant context:"
SEPARATOR = "\n\n---\n\n"
_SPOKEN = (SourceType.CONVERSATION, SourceType.USER)


class Formatter(Protocol):
    """Makes something of a window: a text, or the body of a request."""

    @property
    def format_type(self) -> str:
        """A word for what it makes."""
        ...

    def format(self, window: ContextWindow) -> Any:
        """Return what is made of the window."""
        ...


class GenericTextFormatter:
    """One text, in sections.

    >>> GenericTextFormatter().format(ContextWindow(question="Why?"))
    '=== QUESTION ===\\nWhy?'
    """

    format_type = "generic"

    def format(self, window: ContextWindow) -> str:
        """Return the sections that are not empty: SYSTEM, MEMORY, CONTEXT, CONVERSATION, QUESTION."""
        spoken = _spoken(window)
        if window.question and spoken and spoken[-1] == ("user", window.question):
            spoken.pop()
        sections = {
            "SYSTEM": _contents(window.of(SourceType.SYSTEM)),
            "MEMORY": _contents(window.of(SourceType.MEMORY)),
            "CONTEXT": _contents(_documents(window)),
            "CONVERSATION": [f"{role}: {text}" for role, text in spoken],
            "QUESTION": [window.question] if window.question else [],
        }
        return "\n\n".join("\n".join((f"=== {name} ===", *texts)) for name, texts in sections.items() if texts)


class AnthropicFormatter:
    """The body of a request to Anthropic's Messages API: `{"system": [...], "messages": [...]}`.

    enable_caching: mark the end of the system texts, up to which the provider then keeps its cache.

    >>> AnthropicFormatter().format(ContextWindow(question="Why?"))["messages"]
    [{'role': 'user', 'content': 'Why?'}]
    """

    format_type = "anthropic"

    def __init__(self, *, enable_caching: bool = False) -> None:
        self._enable_caching = enable_caching

    def format(self, window: ContextWindow) -> dict[str, Any]:
        """Return system texts and messages."""
        system: list[dict[str, Any]] = [
            {"type": "text", "text": text} for text in _contents(window.of(SourceType.SYSTEM))
        ]
        if system and self._enable_caching:
            system[-1]["cache_control"] = {"type": "ephemeral"}
        return {"system": system, "messages": _messages(window)}


class OpenAIFormatter:
    """The body of a request to OpenAI's Chat Completions: `{"messages": [...]}`.

    >>> OpenAIFormatter().format(ContextWindow(question="Why?"))["messages"]
    [{'role': 'user', 'content': 'Why?'}]
    """

    format_type = "openai"

    def format(self, window: ContextWindow) -> dict[str, Any]:
        """Return the messages, the system texts as the first of them."""
        system = "\n\n".join(_contents(window.of(SourceType.SYSTEM)))
        first = [{"role": "system", "content": system}] if system else []
        return {"messages": [*first, *_messages(window)]}


def context_text(items: Iterable[ContextItem], *, memory: Iterable[ContextItem] = ()) -> str:
    """Return documents, and before them what was remembered, as one block of text; empty for nothing.

    >>> context_text([ContextItem(content="Bees like lavender.")])
    'Here is relevant context:\\n\\nBees like lavender.'
    """
    documents = [item.content for item in items]
    facts = [f"- {' '.join(item.content.split())}" for item in memory]
    blocks = ["\n".join((MEMORY_HEADING, *facts))] if facts else []
    if documents:
        blocks.append(f"{CONTEXT_HEADING}\n\n{SEPARATOR.join(documents)}")
    return "\n\n".join(blocks)


def plain_block(window: ContextWindow) -> str:
    """Return all items of a window as one block of text, as it stands beside a prompt."""
    spoken = [ContextItem(content=f"{role}: {text}") for role, text in _spoken(window)]
    system = window.of(SourceType.SYSTEM)
    return context_text((*system, *_documents(window), *spoken), memory=window.of(SourceType.MEMORY))


def _messages(window: ContextWindow) -> list[dict[str, Any]]:
    block = context_text(_documents(window), memory=window.of(SourceType.MEMORY))
    turns = [("user", block)] if block else []
    spoken = _spoken(window)
    if window.question and (not spoken or spoken[-1] != ("user", window.question)):
        spoken.append(("user", window.question))
    merged: list[dict[str, Any]] = []
    for role, text in (*turns, *spoken):
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += f"\n\n{text}"
        else:
            merged.append({"role": role, "content": text})
    return merged


def _contents(items: Iterable[ContextItem]) -> list[str]:
    return [item.content for item in items]


def is_spoken(item: ContextItem) -> bool:
    """Tell whether an item is a word of the user or of the assistant; results of tools are not."""
    return item.source in _SPOKEN and item.metadata.get("role", "user") in ("user", "assistant")


def _spoken(window: ContextWindow) -> list[tuple[str, str]]:
    return [(str(item.metadata.get("role", "user")), item.content) for item in window.items if is_spoken(item)]


def _documents(window: ContextWindow) -> tuple[ContextItem, ...]:
    """Return all that is neither system text, nor remembered, nor said by the user or the assistant."""
    aside = (SourceType.SYSTEM, SourceType.MEMORY)
    return tuple(item for item in window.items if item.source not in aside and not is_spoken(item))
