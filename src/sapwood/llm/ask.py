"""ask: one request to a model, outside of any turn.

Law: where the provider's stream is plain, nothing becomes async.
"""

from collections.abc import AsyncIterable, Iterable
from typing import Any, cast

from sapwood.core.errors import LLMError
from sapwood.core.messages import Text
from sapwood.core.model import LLMProvider, ModelRequest, Reply
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.usage import Usage
from sapwood.llm.pricing import cost_of


def ask(provider: LLMProvider, request: ModelRequest) -> MaybeAwaitable[Reply]:
    """Return the whole reply; something to await where the provider's streams are async only.

    Raises what the provider raises, and LLMError where the reply broke off.

    >>> from sapwood.core.messages import Message
    >>> from sapwood.core.transcript import Transcript
    >>> from sapwood.testing import says, scripted
    >>> text_of(ask(scripted(says("Yes.")), ModelRequest(Transcript.of([Message.user("Really?")]))))
    'Yes.'
    """
    stream = provider.stream(request)
    if isinstance(stream, Iterable):
        return _last(provider, [chunk for chunk in cast("Iterable[Any]", stream) if isinstance(chunk, Reply)])
    return _awaited(provider, cast("AsyncIterable[Any]", stream))


async def _awaited(provider: LLMProvider, stream: AsyncIterable[Any]) -> Reply:
    return _last(provider, [chunk async for chunk in stream if isinstance(chunk, Reply)])


def _last(provider: LLMProvider, replies: list[Reply]) -> Reply:
    if not replies:
        raise LLMError(f"the reply of {provider.profile.origin} broke off")
    return replies[-1]


def text_of(reply: Reply) -> str:
    """Return the text of a reply."""
    return "".join(part.text for part in reply.content if isinstance(part, Text))


def usage_of(reply: Reply, provider: LLMProvider) -> Usage | None:
    """Return what a reply used, with its cost where the price of the model is known."""
    usage = reply.usage
    if usage is None or usage.cost_usd is not None:
        return usage
    name, _, model = (reply.origin or provider.profile.origin).partition("/")
    return usage.replace(cost_usd=cost_of(usage, name, model))
