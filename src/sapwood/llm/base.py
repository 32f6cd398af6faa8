"""A provider made of a codec and a transport: what all adapters over HTTP share.

Laws: nothing is sent before the first chunk is asked for; whoever stops reading closes the socket; every
error says who was asked and never repeats the key or the prompt; a request is repeated only where its codec
leaves out what was refused, once, and before anything was shown.
"""

import logging
import os
from collections.abc import AsyncGenerator, Generator
from typing import Any, Protocol

import msgspec

from sapwood.core.errors import AuthenticationError, ConfigError
from sapwood.core.messages import File, Image
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.llm.addresses import root_of, shown_url, whole_address
from sapwood.llm.codec import Codec, CountingCodec, Decoder, ForcingCodec, HttpCall, SecondTryCodec, Timeouts
from sapwood.llm.exchange import Exchange, HttpStream
from sapwood.llm.transport import Httpx2Transport, Transport, TransportFailure, default_transport

log = logging.getLogger("sapwood.llm")


class Endpoint(msgspec.Struct, frozen=True):
    """Where a provider lives, and the environment variables that say so.

    base_url_suffix: added to an address that lacks it. needs_key: its own address refuses
    requests without a key.
    """

    base_url: str
    key_variable: str
    base_url_variable: str = ""
    other_key_variables: tuple[str, ...] = ()
    base_url_suffix: str = ""
    needs_key: bool = True

    def key(self) -> str:
        """Return the environment's key, empty where there is none."""
        names = (self.key_variable, *self.other_key_variables)
        return next((value for name in names if (value := os.environ.get(name, "").strip())), "")

    def address(self) -> str:
        """Return the environment's address, else the provider's own."""
        named = os.environ.get(self.base_url_variable, "").strip() if self.base_url_variable else ""
        if not named:
            return self.base_url
        return whole_address(named, own=self.base_url, suffix=self.base_url_suffix, always=True)

    def whole(self, base_url: str) -> str:
        """Return an address that was passed in code with what people leave out of it."""
        return whole_address(base_url, own=self.base_url, suffix=self.base_url_suffix)


class _Encode(Protocol):
    def __call__(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall: ...


class BaseLLMProvider:
    """A provider over HTTP.

    api_key, base_url: None takes the environment's at the first call. At an address other than the
    provider's own, a missing key is no error. transport: None takes one that all providers share.
    auth: an `httpx2.Auth` that signs each request, in place of a key and a transport. max_tokens: the cap on a reply
    that it was given, for an agent to plan with; the codec is what sends it.
    """

    def __init__(
        self,
        codec: Codec,
        profile: ModelProfile,
        endpoint: Endpoint,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        transport: Transport | None = None,
        auth: Any = None,
        timeouts: Timeouts | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if auth is not None and transport is not None:
            raise ConfigError("give auth= to the transport: transport=Httpx2Transport(auth=...)")
        self.profile = profile
        self.max_tokens = max_tokens
        self._codec = codec
        self._endpoint = endpoint
        self._base_url = base_url
        self._api_key = api_key
        self._transport = transport if auth is None else Httpx2Transport(auth=auth)
        self._owns_transport = auth is not None
        self._signs = auth is not None or bool(getattr(transport, "signs", False))
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.profile.model!r})"

    @property
    def forces_tool_choice(self) -> bool:
        """Whether a call of a tool can be demanded with these options; see `can_force`."""
        codec = self._codec
        return codec.can_force(self.profile) if isinstance(codec, ForcingCodec) else self.profile.forced_tool_choice

    def stream(self, request: ModelRequest) -> "HttpStream":
        """Ask the model; the stream works with `for` and with `async for`."""
        return HttpStream(lambda: self._chunks(request), lambda: self._async_chunks(request))

    def _chunks(self, request: ModelRequest) -> Generator[StreamChunk, None, None]:
        exchange = self._exchange(request)
        while True:
            try:
                response = self._used_transport().send(exchange.call)
            except TransportFailure as failure:
                exchange.fail(failure)
            else:
                try:
                    exchange.begin(response.status, response.headers)
                    for data in response.body:
                        yield from exchange.feed(data)
                        if exchange.is_over:
                            break
                except TransportFailure as failure:
                    exchange.fail(failure)
                finally:
                    response.close()
            again = self._second_try(exchange, request)
            if again is None:
                break
            exchange = again
        yield from exchange.finish()

    async def _async_chunks(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        exchange = self._exchange(request)
        while True:
            try:
                response = await self._used_transport().asend(exchange.call)
            except TransportFailure as failure:
                exchange.fail(failure)
            else:
                try:
                    exchange.begin(response.status, response.headers)
                    async for data in response.body:  # closed by the response, below
                        for chunk in exchange.feed(data):
                            yield chunk
                        if exchange.is_over:
                            break
                except TransportFailure as failure:
                    exchange.fail(failure)
                finally:
                    await response.aclose()
            again = self._second_try(exchange, request)
            if again is None:
                break
            exchange = again
        for chunk in exchange.finish():
            yield chunk

    def _second_try(self, first: "Exchange", request: ModelRequest) -> "Exchange | None":
        """Return the exchange that follows a refusal which the codec can avoid, None where there is none."""
        codec = self._codec
        error = None if first.is_second else first.refusal()
        if error is None or not isinstance(codec, SecondTryCodec):
            return None
        again = codec.second_try(error, request, self.profile)
        if again is None:
            return None
        log.warning("%s refused a part of the request; it is asked again without that", self.profile.origin)
        second = self._exchange(again)
        second.is_second = True
        return second

    def count_tokens(self, request: ModelRequest) -> int:
        """Ask the provider how many tokens a request has.

        Raises ConfigError where it has no endpoint for that, and an LLMError as `stream` does.
        """
        codec, exchange = self._counting(request)
        try:
            response = self._used_transport().send(exchange.call)
        except TransportFailure as failure:
            exchange.fail(failure)
        else:
            try:
                exchange.begin(response.status, response.headers, whole=True)
                for data in response.body:
                    exchange.feed(data)
                    if exchange.is_over:
                        break
            except TransportFailure as failure:
                exchange.fail(failure)
            finally:
                response.close()
        return exchange.count(codec)

    async def acount_tokens(self, request: ModelRequest) -> int:
        """Ask the provider how many tokens a request has, as `count_tokens` does."""
        codec, exchange = self._counting(request)
        try:
            response = await self._used_transport().asend(exchange.call)
        except TransportFailure as failure:
            exchange.fail(failure)
        else:
            try:
                exchange.begin(response.status, response.headers, whole=True)
                async for data in response.body:  # closed by the response, below
                    exchange.feed(data)
                    if exchange.is_over:
                        break
            except TransportFailure as failure:
                exchange.fail(failure)
            finally:
                await response.aclose()
        return exchange.count(codec)

    def _counting(self, request: ModelRequest) -> "tuple[CountingCodec, Exchange]":
        codec = self._codec
        if not isinstance(codec, CountingCodec):
            raise ConfigError(
                f"{self.profile.provider!r} has no endpoint that counts tokens over {codec.name!r}; "
                "the agent estimates them, or counts with its tokenizer="
            )
        return codec, self._exchange(request, codec.count_call)

    def _exchange(self, request: ModelRequest, encode: "_Encode | None" = None) -> "Exchange":
        call = self._call(request, encode)
        return Exchange(self._decoder(call), self.profile, call, self._secret(), withheld=self._withheld())

    def _decoder(self, call: HttpCall) -> Decoder:
        """Return what reads the reply to this call."""
        return self._codec.decoder(self.profile)

    def _used_transport(self) -> Transport:
        return self._transport or default_transport()

    def _call(self, request: ModelRequest, encode: "_Encode | None" = None) -> HttpCall:
        endpoint = self._endpoint
        base_url = self._base_url or endpoint.address()
        if not base_url:
            variable = f", or set {endpoint.base_url_variable}" if endpoint.base_url_variable else ""
            raise ConfigError(f"{self.profile.provider!r} has no address of its own: pass base_url={variable}")
        key = self._secret()
        is_own = bool(endpoint.base_url) and _same_address(base_url, endpoint.base_url)
        if not key and endpoint.needs_key and is_own and not self._signs:
            raise self._no_access(f"no key: set {endpoint.key_variable} or pass api_key=")
        if not key.isascii() or not key.isprintable():
            raise self._no_access(f"the key ({endpoint.key_variable} or api_key=) holds characters that no key has")
        if not base_url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"base_url must start with http:// or https://, not {shown_url(base_url)[:40]!r}")
        require_readable(request, self.profile)
        call = (encode or self._codec.encode)(request, self.profile, base_url=base_url, api_key=key or None)
        return call if self._timeouts is None else msgspec.structs.replace(call, timeouts=self._timeouts)

    def _no_access(self, message: str) -> AuthenticationError:
        return AuthenticationError(message, provider=self.profile.provider, model=self.profile.model)

    def _secret(self) -> str:
        """Return the key: the one that was passed, else the environment's.

        The environment's goes to the provider itself and to the address that the environment names, never to
        another one that was passed in code: that may be somebody else's. A provider without an address of its own,
        and a server of one's own, are wherever the code says.
        """
        if self._api_key is not None:
            return self._api_key.strip()
        return "" if self._is_elsewhere() else self._endpoint.key()

    def _is_elsewhere(self) -> bool:
        endpoint = self._endpoint
        if self._base_url is None or not endpoint.base_url or not endpoint.needs_key:
            return False
        return not any(_same_address(self._base_url, known) for known in (endpoint.base_url, endpoint.address()))

    def _withheld(self) -> str:
        """Return the word for a key of the environment that is not sent, empty where there is none."""
        endpoint = self._endpoint
        if self._api_key is not None or not self._is_elsewhere() or not endpoint.key():
            return ""
        return f"{endpoint.key_variable} is set, but goes to the provider's own address only: pass api_key="

    def close(self) -> None:
        """Close the connections that belong to this provider alone; shared ones end with the process."""
        if self._owns_transport and isinstance(self._transport, Httpx2Transport):
            self._transport.close()

    async def aclose(self) -> None:
        """Close the connections that belong to this provider alone; shared ones end with their event loop."""
        if self._owns_transport and isinstance(self._transport, Httpx2Transport):
            await self._transport.aclose()


def _same_address(first: str, second: str) -> bool:
    return root_of(first) == root_of(second)


def require_readable(request: ModelRequest, profile: ModelProfile) -> None:
    """Raise ConfigError where the newest message of a request holds what the model cannot read.

    Earlier messages may stem from another model: their pictures and files are left out with a word in their place.
    """
    newest = request.transcript[-1] if len(request.transcript) else None
    if newest is None or newest.role != "user":
        return
    for kind, reads in ((Image, profile.images), (File, profile.files)):
        count = sum(isinstance(part, kind) for part in newest.content)
        if count and not reads:
            word = "images" if kind is Image else "files"
            raise ConfigError(
                f"{profile.origin} reads no {word}, and the message holds {count}; use a model that does, "
                f"or say that this one does: register_model({profile.origin!r}, {word}=True)"
            )
