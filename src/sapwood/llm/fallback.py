"""FallbackProvider: a provider made of providers; the next answers where one fails before it showed anything.

Laws: a wrong key or a request that is wrong is never hidden by another model; once a chunk was shown, the
error belongs to the caller.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import cast

from sapwood.core.errors import ConfigError, ContextOverflowError, LLMError, ModelNotFoundError
from sapwood.core.model import LLMProvider, ModelProfile, ModelRequest, Reply, StreamChunk


class FallbackProvider:
    """Asks the first provider, and the next where it does not answer.

    Raises ConfigError without any provider.

    >>> from sapwood.core.errors import ServerError
    >>> from sapwood.core.transcript import Transcript
    >>> from sapwood.llm.scripted import fails, says, scripted
    >>> chain = FallbackProvider([scripted(fails(ServerError("down"))), scripted(says("up"))])
    >>> [chunk.type for chunk in chain.stream(ModelRequest(Transcript()))]
    ['text_chunk', 'reply']
    """

    def __init__(self, providers: Sequence[LLMProvider]) -> None:
        if not providers:
            raise ConfigError("a fallback chain needs at least one provider")
        self._providers = tuple(providers)

    @property
    def profile(self) -> ModelProfile:
        """The first provider's."""
        return self._providers[0].profile

    def stream(self, request: ModelRequest) -> "_Chain":
        """Ask the providers in their order."""
        return _Chain(self._providers, request)


class _Chain:
    def __init__(self, providers: Sequence[LLMProvider], request: ModelRequest) -> None:
        self._providers = providers
        self._request = request

    def __iter__(self) -> Iterator[StreamChunk]:
        for place, provider in enumerate(self._providers):
            shown = False
            try:
                chunks = iter(cast("Iterator[StreamChunk]", provider.stream(self._request)))
                try:
                    for chunk in chunks:
                        shown = True
                        yield _marked(chunk, provider)
                finally:
                    close = getattr(chunks, "close", None)
                    if close is not None:
                        close()
                return
            except LLMError as error:
                if shown or place == len(self._providers) - 1 or not _hands_over(error):
                    raise

    async def __aiter__(self) -> AsyncIterator[StreamChunk]:
        for place, provider in enumerate(self._providers):
            shown = False
            try:
                chunks = aiter(cast("AsyncIterator[StreamChunk]", provider.stream(self._request)))
                async with aclosing(cast("_Closable", chunks)):
                    async for chunk in chunks:
                        shown = True
                        yield _marked(chunk, provider)
                return
            except LLMError as error:
                if shown or place == len(self._providers) - 1 or not _hands_over(error):
                    raise


class _Closable:
    async def aclose(self) -> None: ...


def _marked(chunk: StreamChunk, provider: LLMProvider) -> StreamChunk:
    """Return the chunk; a reply says which provider it comes from, so that its thinking goes back only there."""
    return chunk.replace(origin=chunk.origin or provider.profile.origin) if isinstance(chunk, Reply) else chunk


def _hands_over(error: LLMError) -> bool:
    return error.is_transient or isinstance(error, ModelNotFoundError | ContextOverflowError)
