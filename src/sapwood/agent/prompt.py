"""What a caller may say to an agent, turned into messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sapwood.core.errors import ConfigError
from sapwood.core.messages import InputPart, Message
from sapwood.core.plain_messages import from_plain
from sapwood.core.transcript import Transcript, is_blank

Prompt: TypeAlias = str | Message | Sequence[str | InputPart]
"""A text, a list of texts, images and files, or a user's message."""
History: TypeAlias = Transcript | Iterable[Message | Mapping[str, Any]]
"""Past messages: a Transcript, our messages, or dictionaries in the form of Anthropic or OpenAI."""


def to_prompt(prompt: Prompt) -> Message:
    """Return the prompt as a user's message.

    Raises ConfigError for an empty prompt or a message of another role.
    """
    if isinstance(prompt, Message):
        if prompt.role != "user":
            raise ConfigError(f"the prompt must be a user's message, not one of role {prompt.role!r}")
        message = prompt
    elif isinstance(prompt, str):
        message = Message.user(prompt)
    else:
        message = Message.user(*prompt)
    if all(is_blank(part) for part in message.content):
        raise ConfigError("the prompt is empty; give a text, an image or a file")
    return message


def to_history(messages: History) -> Transcript:
    """Return past messages as a valid transcript."""
    if isinstance(messages, Transcript):
        return messages
    groups = [(item,) if isinstance(item, Message) else from_plain(item) for item in messages]
    return Transcript.of(message for group in groups for message in group)
