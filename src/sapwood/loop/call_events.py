"""call_events: what is told of a tool call, and what it came to before hooks and the cap have seen it.

Laws: consumers get copies of the arguments; a fingerprint is of the call as it was asked for with its whole answer.
"""

import hashlib
from typing import Any

from sapwood.core.events import ToolFinished, ToolStarted
from sapwood.core.messages import ToolCall
from sapwood.core.render_result import RenderedResult
from sapwood.core.run import OpenCall
from sapwood.core.tools import copy_arguments
from sapwood.loop.gate import digest


def started(item: OpenCall, call: ToolCall) -> ToolStarted:
    """Return the event of a call that begins."""
    return ToolStarted(
        key=item.call.key,
        tool_call_id=item.public_id,
        name=call.name,
        tool_input=copy_arguments(call.arguments),
    )


def finished(item: OpenCall, call: ToolCall, text: str, *, is_error: bool = False, **more: Any) -> ToolFinished:
    """Return the event of a call that is answered without having run."""
    more.setdefault("value", text)
    return ToolFinished(
        key=item.call.key,
        tool_call_id=item.public_id,
        name=call.name,
        result=text,
        is_error=is_error,
        fingerprint=fingerprint(digest(call.name, call.arguments), text, is_error=is_error),
        **more,
    )


def fingerprint(asked: str, text: str, *, is_error: bool) -> str:
    """Return what tells a call with its whole answer from others; it begins with `e` for an error.

    asked: the digest of the call as it was asked for.
    """
    shown = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{'e' if is_error else 'r'}{asked}{shown}"


class Outcome:
    """What the function, the subagent, a source or a refusal came to.

    rendered: None where there is only a text. cuts: the cap on results holds. loaded: tools that it made callable.
    output: the JSON text of a structured output that is recorded. skill: the one whose instructions this is.
    shown: what a user interface shows in place of the text.
    """

    __slots__ = ("cuts", "is_error", "loaded", "output", "rendered", "shown", "skill", "text")

    def __init__(
        self,
        text: str,
        *,
        is_error: bool,
        rendered: RenderedResult | None = None,
        cuts: bool = True,
        loaded: tuple[str, ...] = (),
        output: str | None = None,
        skill: str = "",
        shown: str | None = None,
    ) -> None:
        self.text = text
        self.is_error = is_error
        self.rendered = rendered
        self.cuts = cuts
        self.loaded = loaded
        self.output = output
        self.skill = skill
        self.shown = shown
