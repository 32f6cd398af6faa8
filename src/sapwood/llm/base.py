"""A provider made of a codec and a transport: what all adapters over HTTP share.

Laws: nothing is sent before the first chunk is asked for; whoever stops reading closes the socket; every
error says who was asked and never repeats the key or the prompt; a request is repeated only where its codec
leaves out what was refused, once, and before anything was shown.
"""

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from sapwood.core.errors import AuthenticationError, ConfigError, LLMError, LLMTimeoutError, ServerError
from sapwood.core.messages import File, Image, Text, Thinking
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk, ThinkingChunk
from sapwood.llm.codec import Codec, CountingCodec, Decoder, HttpCall, SecondTryCodec, Timeouts
from sapwood.llm.failures import error_of, without_echo
from sapwood.llm.framing import Splitter, splitter_of
from sapwood.llm.shapes import UNREADABLE, decode_json
from sapwood.llm.transport import Httpx2Transport, Transport, TransportFailure, default_transport, host_of

log = logging.getLogger("sapwood.llm")
MAX_ERROR_BYTES = 1_000_000


class Endpoint(msgspec.Struct, frozen=True):
    """Where a provider lives, and the environment variables that say so.

    base_url_suffix: added to an address of the environment that lacks it. needs_key: its own address refuses
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
        if named and self.base_url_suffix and not named.rstrip("/").endswith(self.base_url_suffix):
            named = named.rstrip("/") + self.base_url_suffix
        return named or self.base_url


class _Encode(Protocol):
    def __call__(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall: ...


class BaseLLMProvider:
    """A provider over HTTP.

    api_key, base_url: None takes the environment's at the first call. At an address other than the
    provider's own, a missing key is no error. transport: None takes one that all providers share.
    auth: an `httpx2.Auth` that signs each request, in place of a key and a transport.
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
    ) -> None:
        if auth is not None and transport is not None:
            raise ConfigError("give auth= to the transport: transport=Httpx2Transport(auth=...)")
        self.profile = profile
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

    def _second_try(self, first: "_Exchange", request: ModelRequest) -> "_Exchange | None":
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

    def _counting(self, request: ModelRequest) -> "tuple[CountingCodec, _Exchange]":
        codec = self._codec
        if not isinstance(codec, CountingCodec):
            raise ConfigError(
                f"{self.profile.provider!r} has no endpoint that counts tokens over {codec.name!r}; "
                "the agent estimates them, or counts with its tokenizer="
            )
        call = self._call(request, codec.count_call)
        return codec, _Exchange(self._decoder(call), self.profile, call, self._secret())

    def _exchange(self, request: ModelRequest) -> "_Exchange":
        call = self._call(request)
        return _Exchange(self._decoder(call), self.profile, call, self._secret())

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
        if not key and endpoint.needs_key and base_url == endpoint.base_url and not self._signs:
            raise self._no_access(f"no key: set {endpoint.key_variable} or pass api_key=")
        if not key.isascii() or not key.isprintable():
            raise self._no_access(f"the key ({endpoint.key_variable} or api_key=) holds characters that no key has")
        if not base_url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"base_url must start with http:// or https://, not {base_url[:40]!r}")
        require_readable(request, self.profile)
        call = (encode or self._codec.encode)(request, self.profile, base_url=base_url, api_key=key or None)
        return call if self._timeouts is None else msgspec.structs.replace(call, timeouts=self._timeouts)

    def _no_access(self, message: str) -> AuthenticationError:
        return AuthenticationError(message, provider=self.profile.provider, model=self.profile.model)

    def _secret(self) -> str:
        """Return the key: the one that was passed, else the environment's.

        The environment's goes to the provider itself and to the address that the environment names, never to
        another one that was passed in code: that may be somebody else's.
        """
        if self._api_key is not None:
            return self._api_key.strip()
        endpoint = self._endpoint
        if self._base_url is not None and self._base_url not in (endpoint.base_url, endpoint.address()):
            return ""
        return endpoint.key()

    def close(self) -> None:
        """Close the connections that belong to this provider alone; shared ones end with the process."""
        if self._owns_transport and isinstance(self._transport, Httpx2Transport):
            self._transport.close()

    async def aclose(self) -> None:
        """Close the connections that belong to this provider alone; shared ones end with their event loop."""
        if self._owns_transport and isinstance(self._transport, Httpx2Transport):
            await self._transport.aclose()


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


class HttpStream:
    """One streamed reply: iterable and async-iterable, once."""

    def __init__(
        self,
        run: Callable[[], Generator[StreamChunk, None, None]],
        async_run: Callable[[], AsyncGenerator[StreamChunk, None]],
    ) -> None:
        self._run = run
        self._async_run = async_run
        self._chunks: Generator[StreamChunk, None, None] | None = None
        self._async_chunks: AsyncGenerator[StreamChunk, None] | None = None

    # The generators themselves are handed out: a layer less for every chunk.
    def __iter__(self) -> Iterator[StreamChunk]:
        if self._chunks is None:
            self._chunks = self._run()
        return self._chunks

    def __next__(self) -> StreamChunk:
        return next(iter(self))

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        if self._async_chunks is None:
            self._async_chunks = self._async_run()
        return self._async_chunks

    async def __anext__(self) -> StreamChunk:
        return await anext(aiter(self))

    def close(self) -> None:
        """Stop reading; the socket is closed when this returns."""
        if self._chunks is not None:
            self._chunks.close()

    async def aclose(self) -> None:
        """Stop reading; the socket is closed when this returns."""
        self.close()
        if self._async_chunks is not None:
            await self._async_chunks.aclose()


class _Exchange:
    """What has been read of one response: the part that sync and async share. It does no I/O."""

    def __init__(self, decoder: Decoder, profile: ModelProfile, call: HttpCall, secret: str) -> None:
        self.call = call
        self.is_over = False
        self.is_second = False  # what came before it was refused
        self._has_shown = False
        self._profile = profile
        self._secret = secret
        self._decoder = decoder
        self._split: Splitter | None = None
        self._error: LLMError | None = None  # what the provider reported
        self._broken: LLMError | None = None  # what the network did
        self._status = 0
        self._headers: dict[str, str] = {}
        self._whole: list[bytes] | None = None  # the pieces of a body that is no event stream
        self._lead: bytes | None = b""  # what came before the first byte that is no white space

    def begin(self, status: int, headers: Any, *, whole: bool = False) -> None:
        """Note the head of the response. whole: its body is read at its end."""
        self._status = status
        self._headers = dict(headers)
        if whole or not 200 <= status < 300:
            self._whole = []

    def feed(self, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks that these bytes complete; an error in them ends the response."""
        if self._lead is not None and self._whole is None:
            data = self._lead + data
            first = data.lstrip()[:1]
            self._lead = None if first else data
            if first:
                # Some gateways answer a request for a stream with the whole reply as JSON, after some white space.
                self._split = splitter_of(self._headers.get("content-type", ""), first)
                self._whole = [] if self._split is None else None
        if self._whole is not None:
            self._whole.append(data)
            self.is_over = self._status >= 300 and sum(map(len, self._whole)) > MAX_ERROR_BYTES
            return ()
        if self._split is None:
            return ()
        try:
            events = self._split.feed(data)
        except LLMError as error:
            self._error, self.is_over = error, True
            return ()
        return self._decode(events)

    def _decode(self, events: Sequence[tuple[bytes, bytes]]) -> Sequence[StreamChunk]:
        chunks: list[StreamChunk] = []
        feed = self._decoder.feed
        try:
            for event, data in events:
                chunks += feed(event, data)
        except LLMError as error:
            self._error = error  # raised once the chunks before it were passed on
            self.is_over = True
        self._has_shown = self._has_shown or bool(chunks)
        return chunks

    def fail(self, failure: TransportFailure) -> None:
        """Note that no response came, or only a part of it."""
        kind = LLMTimeoutError if failure.is_timeout or not failure.is_connected else ServerError
        self._broken = kind(str(failure))

    def finish(self) -> Iterator[StreamChunk]:
        """Yield what is left and the reply, or raise what went wrong."""
        if self._whole is None and self._error is None:
            yield from self._decode(self._last_events())
        try:
            reply = self._reply()
        except LLMError as error:
            self._error = error
        else:
            if self._whole is not None:
                yield from _chunks_of(reply)
            yield reply.replace(request_id=reply.request_id or self._request_id())
            return
        raise self._explained(self._error)  # outside the handler, so that nothing hangs on the error

    def refusal(self) -> LLMError | None:
        """Return the error with which the provider answered before it showed anything, None where it did not."""
        if self._has_shown or self._broken is not None:
            return None
        if self._error is not None or 200 <= self._status < 300:
            return self._error
        return self._status_error()

    def count(self, codec: CountingCodec) -> int:
        """Return the tokens that the provider counted, or raise what went wrong."""
        try:
            if self._broken is not None:
                raise self._broken
            if not 200 <= self._status < 300:
                raise self._status_error()
            return codec.count_of(b"".join(self._whole or ()))
        except LLMError as error:
            failure = error
        raise self._explained(failure)

    def _status_error(self) -> LLMError:
        body = b"".join(self._whole or ())
        return error_of(body, status=self._status, headers=self._headers, where=host_of(self.call.url))

    def _last_events(self) -> list[tuple[bytes, bytes]]:
        # An event without its blank line may be whole or cut off; a cut one is no reason to complain of JSON.
        return [] if self._split is None else [(name, data) for name, data in self._split.finish() if _is_whole(data)]

    def _reply(self) -> Reply:
        if self._error is not None:
            raise self._error
        if self._status and not 200 <= self._status < 300:
            raise self._status_error()
        if self._whole is not None and self._broken is None:
            return self._decoder.whole(b"".join(self._whole))
        if self._broken is None:
            return self._decoder.finish()
        try:
            return self._decoder.finish()  # a break after the reply's stated end has lost nothing
        except LLMError:
            raise self._broken from None

    def _explained(self, error: LLMError) -> LLMError:
        error.provider = error.provider or self._profile.provider
        error.model = error.model or self._profile.model
        if error.status is None and self._status:
            error.status = self._status
        error.request_id = error.request_id or self._request_id()
        error.message = without_echo(error.message, self.call.body, (self._secret,))
        error.args = (error.message,)
        return error

    def _request_id(self) -> str | None:
        return self._headers.get("request-id") or self._headers.get("x-request-id")


def _is_whole(data: bytes) -> bool:
    if data.strip() == b"[DONE]":
        return True
    try:
        decode_json(data)
    except UNREADABLE:
        return False
    return True


def _chunks_of(reply: Reply) -> Iterator[StreamChunk]:
    for part in reply.content:
        match part:
            case Text(text=text) if text:
                yield TextChunk(text)
            case Thinking(text=text) if text:
                yield ThinkingChunk(text)
            case _:
                pass
