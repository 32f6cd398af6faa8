"""What a caller may say to an agent, turned into messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sapwood.core.errors import ConfigError
from sapwood.core.media import media_problem
from sapwood.core.messages import File, Image, InputPart, Message, Text
from sapwood.core.plain_messages import from_plain, is_listing
from sapwood.core.render_result import clean
from sapwood.core.transcript import Transcript, is_blank

Prompt: TypeAlias = str | Message | Sequence[str | InputPart]
"""A text, a list of texts, images and files, or a user's message."""
History: TypeAlias = Transcript | Iterable[Message | Mapping[str, Any]]
"""Past messages: a Transcript, our messages, or dictionaries in the form of Anthropic or OpenAI."""


def to_prompt(prompt: Prompt) -> Message:
    """Return the prompt as a user's message.

    Raises ConfigError for an empty prompt, a message of another role, and an image or a file that nobody could read.
    """
    if isinstance(prompt, Message):
        if prompt.role != "user":
            raise ConfigError(f"the prompt must be a user's message, not one of role {prompt.role!r}")
        message = prompt
    elif isinstance(prompt, str | Image | File | Text):
        message = Message.user(prompt)
    else:
        message = Message.user(*_parts(prompt))
    if all(is_blank(part) for part in message.content):
        raise ConfigError("the prompt is empty; give a text, an image or a file")
    for part in message.content:
        if isinstance(part, Image | File) and (problem := media_problem(part)):
            raise ConfigError(f"the {part.type} in the prompt cannot be sent: {problem}")
    content = tuple(part.replace(text=clean(part.text)) if isinstance(part, Text) else part for part in message.content)
    return message if content == message.content else message.replace(content=content)


def _parts(prompt: Any) -> list[str | InputPart]:
    if not is_listing(prompt):
        raise ConfigError(f"a prompt is a text, a list of texts, images and files, or a Message, not {_kind(prompt)}")
    parts: list[str | InputPart] = []
    for item in prompt:
        if not isinstance(item, str | Text | Image | File):
            raise ConfigError(f"a prompt holds texts, images and files, not {_kind(item)}")
        parts.append(item)
    return parts


def _kind(value: Any) -> str:
    return type(value).__name__


def to_history(messages: History) -> Transcript:
    """Return past messages as a valid transcript."""
    if isinstance(messages, Transcript):
        return messages
    groups = [(item,) if isinstance(item, Message) else from_plain(_mapping(item)) for item in _listed(messages)]
    return Transcript.of(message for group in groups for message in group)


def _listed(messages: Any) -> Iterable[Any]:
    if isinstance(messages, str | bytes) or hasattr(messages, "keys") or not hasattr(messages, "__iter__"):
        raise ConfigError(f"messages is a Transcript or a list of messages, not {_kind(messages)}")
    items: Iterable[Any] = messages
    return items


def _mapping(item: Any) -> Mapping[str, Any]:
    if not hasattr(item, "keys"):
        raise ConfigError(f"a past message is a Message or a dictionary with role and content, not {_kind(item)}")
    found: Mapping[str, Any] = item
    return found
