"""FallbackProvider: a provider made of providers; the next answers where one does not.

Laws: a request that is wrong is never hidden by another model; each entry is asked with its own key, options
and facts; another model after a wrong key, or after text was shown, is told, never silent.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from sapwood.core.errors import (
    AuthenticationError,
    ConfigError,
    ContextOverflowError,
    LLMError,
    ModelNotFoundError,
)
from sapwood.core.model import LLMProvider, ModelProfile, ModelRequest, Reply, RestartChunk, StreamChunk, UsageChunk
from sapwood.llm.forced_choice import can_force
from sapwood.llm.retry import is_network_error

log = logging.getLogger("sapwood.llm")


class FallbackProvider:
    """Asks the first provider, and the next where it does not answer.

    The next one is asked after a failure that may pass (a loop first tries the same one again), an unknown
    model, a wrong key (on_authentication=False raises it instead), and a request that is too long, where its
    window is larger. Where text was already shown, the reply starts again and says so.

    Raises ConfigError without any provider.

    >>> from sapwood.core.errors import ServerError
    >>> from sapwood.core.transcript import Transcript
    >>> from sapwood.llm.scripted import fails, says, scripted
    >>> chain = FallbackProvider([scripted(fails(ServerError("down"))), scripted(says("up"))])
    >>> [chunk.type for chunk in chain.stream(ModelRequest(Transcript()))]
    ['text_chunk', 'reply']
    """

    def __init__(self, providers: Sequence[LLMProvider], *, on_authentication: bool = True) -> None:
        _require_providers(providers)
        entries = _flat(providers, on_authentication=on_authentication)
        self.providers: tuple[LLMProvider, ...] = tuple(provider for provider, _ in entries)
        self._hides_keys = tuple(hides for _, hides in entries)

    def entries(self) -> list[tuple[LLMProvider, bool]]:
        """Return each provider, and whether the next one answers where its key is wrong."""
        return list(zip(self.providers, self._hides_keys, strict=True))

    @property
    def profile(self) -> ModelProfile:
        """The first provider's."""
        return self.providers[0].profile

    @property
    def forces_tool_choice(self) -> bool:
        """The first provider's; where another one takes over that cannot, its request asks with `auto`."""
        return can_force(self.providers[0])

    def next_place(self, place: int, error: BaseException) -> int | None:
        """Return which provider takes over from the one at this place, None where none may."""
        if not _hands_over(error, on_authentication=self._hides_keys[place]):
            return None
        for other in range(place + 1, len(self.providers)):
            if not isinstance(error, ContextOverflowError) or _is_larger(self.providers, place, other):
                told = log.warning if isinstance(error, AuthenticationError) else log.info
                told("%s takes over: %s", self.providers[other].profile.origin, error)
                return other
        return None

    def stream(self, request: ModelRequest) -> "_Chain":
        """Ask the providers in their order, each once."""
        return _Chain(self, request)


def _require_providers(providers: Any) -> None:
    listed: list[Any] = []
    if isinstance(providers, Sequence):
        listed += (providers,) if isinstance(providers, str) else providers
    for item in listed:
        if isinstance(item, str):
            raise ConfigError(f"a fallback chain is made of providers: create_provider({item!r}), not {item!r}")
        if not hasattr(item, "stream"):
            raise ConfigError(f"a fallback chain is made of providers, not {item!r:.80}")
    if not listed:
        raise ConfigError(f"a fallback chain needs a list of at least one provider, not {providers!r:.80}")


def _flat(providers: Sequence[LLMProvider], *, on_authentication: bool) -> list[tuple[LLMProvider, bool]]:
    """Return the providers with chains among them taken apart, each with what its own chain says of a wrong key."""
    found: list[tuple[LLMProvider, bool]] = []
    for provider in providers:
        if isinstance(provider, FallbackProvider):
            found += provider.entries()
        else:
            found.append((provider, on_authentication))
    return found


class _Chain:
    def __init__(self, chain: FallbackProvider, request: ModelRequest) -> None:
        self._chain = chain
        self._request = request

    def __iter__(self) -> Iterator[StreamChunk]:
        place, shown, failed = 0, False, None
        while True:
            provider = self._chain.providers[place]
            try:
                chunks = iter(cast("Iterator[StreamChunk]", provider.stream(self._request)))
                try:
                    for chunk in chunks:
                        shown = shown or not isinstance(chunk, UsageChunk)
                        yield _marked(chunk, provider)
                finally:
                    close = getattr(chunks, "close", None)
                    if close is not None:
                        close()
                return
            except (LLMError, OSError, ConfigError) as error:
                failed = _taken(error, failed)
                following = self._chain.next_place(place, failed)
                if following is None:
                    raise failed from None
                place, reason = following, type(failed).__name__
            if shown:
                yield RestartChunk(reason, self._chain.providers[place].profile.origin)
                shown = False

    async def __aiter__(self) -> AsyncIterator[StreamChunk]:
        place, shown, failed = 0, False, None
        while True:
            provider = self._chain.providers[place]
            try:
                chunks = aiter(cast("AsyncIterator[StreamChunk]", provider.stream(self._request)))
                async with aclosing(cast("_Closable", chunks)):
                    async for chunk in chunks:
                        shown = shown or not isinstance(chunk, UsageChunk)
                        yield _marked(chunk, provider)
                return
            except (LLMError, OSError, ConfigError) as error:
                failed = _taken(error, failed)
                following = self._chain.next_place(place, failed)
                if following is None:
                    raise failed from None
                place, reason = following, type(failed).__name__
            if shown:
                yield RestartChunk(reason, self._chain.providers[place].profile.origin)
                shown = False


class _Closable:
    async def aclose(self) -> None: ...


def _taken(error: Exception, before: Exception | None) -> Exception:
    """Return the error that counts: a fallback that cannot take the request at all is passed over."""
    if isinstance(error, ConfigError) and before is not None:
        before.add_note(f"a fallback could not take over: {error}")
        return before
    return error


def _marked(chunk: StreamChunk, provider: LLMProvider) -> StreamChunk:
    """Return the chunk; a reply says which provider it comes from, so that its thinking goes back only there."""
    return chunk.replace(origin=chunk.origin or provider.profile.origin) if isinstance(chunk, Reply) else chunk


def _hands_over(error: BaseException, *, on_authentication: bool) -> bool:
    match error:
        case AuthenticationError():
            return on_authentication
        case ModelNotFoundError() | ContextOverflowError():
            return True
        case LLMError():
            return error.is_transient
        case _:
            return is_network_error(error)


def _is_larger(providers: Sequence[LLMProvider], place: int, other: int) -> bool:
    """Tell whether the other window is larger, or may be where one of the two is not known."""
    here, there = providers[place].profile.context_window, providers[other].profile.context_window
    return not here or not there or there > here
