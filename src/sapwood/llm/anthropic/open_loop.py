"""What a conversation leaves open for Anthropic: calls of its own tools without a result, and a tool loop.

Laws: a call of Anthropic's own tools whose result can come no more is left out, for it is refused without one, and
so is a result whose call is gone; a budget for thinking is asked for only where the open tool loop began with thinking
of this model, for it is refused elsewhere, as after another model's calls.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sapwood.core.messages import Message, Opaque, Thinking
from sapwood.core.model import ModelProfile
from sapwood.core.transcript import Running, Transcript, is_blank
from sapwood.llm.shapes import own_data, text_in

_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


class OpenLoop(msgspec.Struct, frozen=True):
    """What is open after some messages.

    waiting: ids of Anthropic's own calls whose results may still come. lost: those of calls and results that go out
    no more. began_thinking: whether the open tool loop began so; None where none is open. answers: the last message
    holds results of tools, so that what the user says next does not end the loop.

    >>> OpenLoop().began_thinking is None
    True
    """

    waiting: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    began_thinking: bool | None = None
    answers: bool = False


def open_loop(transcript: Transcript, profile: ModelProfile) -> OpenLoop:
    """Return what a transcript leaves open for this model; each message is looked at once.

    >>> search = Opaque("server_tool_use", {"anthropic": {"type": "server_tool_use", "id": "s1"}})
    >>> past = [Message.user("news?"), Message.assistant(search), Message.user("never mind")]
    >>> sorted(open_loop(Transcript.of(past), ModelProfile("anthropic", "some")).lost)
    ['s1']
    """

    def step(state: OpenLoop, message: Message) -> OpenLoop:
        return _after(state, message, profile)

    return transcript.derived(("anthropic.open", profile), lambda: Running(OpenLoop(), step)).upto(transcript)


def is_lost(block: Mapping[str, Any], lost: frozenset[str]) -> bool:
    """Tell whether a block of Anthropic's own tools goes out no more.

    >>> is_lost({"type": "server_tool_use", "id": "s1"}, frozenset({"s1"}))
    True
    """
    kind = text_in(block, "type")
    if kind in _CALLS:
        return text_in(block, "id") in lost
    return kind.endswith("_tool_result") and text_in(block, "tool_use_id") in lost


def _after(state: OpenLoop, message: Message, profile: ModelProfile) -> OpenLoop:
    if all(is_blank(part) for part in message.content):
        return state
    match message.role:
        case "assistant":
            return _after_reply(state, message, profile)
        case "tool":
            return msgspec.structs.replace(state, answers=True)
        case _:
            began = state.began_thinking if state.answers else None
            return OpenLoop(lost=state.lost | state.waiting, began_thinking=began, answers=state.answers)


def _after_reply(state: OpenLoop, message: Message, profile: ModelProfile) -> OpenLoop:
    waiting, lost = set(state.waiting), set(state.lost)
    for part in message.content:
        block = own_data(part.provider_data, profile.provider) if isinstance(part, Opaque) else {}
        kind = text_in(block, "type")
        if kind in _CALLS:
            waiting.add(text_in(block, "id"))
        elif kind.endswith("_tool_result"):
            answered = text_in(block, "tool_use_id")
            if answered in waiting:
                waiting.remove(answered)
            else:
                lost.add(answered)
    began = _begins_thinking(message, profile) if state.began_thinking is None else state.began_thinking
    return OpenLoop(frozenset(waiting), frozenset(lost), began)


def _begins_thinking(message: Message, profile: ModelProfile) -> bool:
    """Tell whether the first block of a reply is thinking that may go back."""
    if message.origin not in (profile.origin, f"{profile.provider}/"):
        return False
    first = next((part for part in message.content if not is_blank(part)), None)
    match first:
        case Thinking(provider_data=data):
            return bool(own_data(data, profile.provider).get("signature"))
        case Opaque(kind="redacted_thinking"):
            return True
        case _:
            return False
