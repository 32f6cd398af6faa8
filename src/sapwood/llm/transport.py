"""Bytes to a provider and back: the one place where models meet the network.

Laws: nothing is opened before it is needed; closing a response early closes its socket at once; clients
belong to the event loop that made them and end with it; failures carry neither headers nor bodies.
"""

import functools
import weakref
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from sapwood.core.errors import ConfigError
from sapwood.llm.addresses import host_of, shown_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.compression import ACCEPTED_ENCODINGS, Inflater
from sapwood.llm.trust import Verify, checked_verify, require_proxy, tls_context

if TYPE_CHECKING:
    import asyncio

    import httpx2

C = TypeVar("C")


class TransportFailure(Exception):
    """A request without a complete response.

    is_timeout: nothing came in time. is_transient: another try may succeed.
    """

    def __init__(self, message: str, *, is_timeout: bool = False, is_transient: bool = True) -> None:
        super().__init__(message)
        self.is_timeout = is_timeout
        self.is_transient = is_transient


class Response(Protocol):
    """A response whose head has arrived."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case names."""
        ...

    @property
    def body(self) -> Iterator[bytes]:
        """The body, decompressed, in pieces as they arrive."""
        ...

    def close(self) -> None:
        """Close it; where the body was not read to its end, the socket is closed too."""
        ...


class AsyncResponse(Protocol):
    """As Response, for `async for`."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case names."""
        ...

    @property
    def body(self) -> AsyncIterator[bytes]:
        """The body, decompressed, in pieces as they arrive."""
        ...

    async def aclose(self) -> None:
        """Close it; where the body was not read to its end, the socket is closed too."""
        ...


class Transport(Protocol):
    """Sends HTTP calls; raises TransportFailure, also while a body is read."""

    def send(self, call: HttpCall) -> Response:
        """Send a request and wait for the head of the response."""
        ...

    async def asend(self, call: HttpCall) -> AsyncResponse:
        """Send a request and wait for the head of the response."""
        ...


class Httpx2Transport:
    """The default transport, on httpx2. One object serves all threads and event loops.

    auth: an `httpx2.Auth` that signs each request. proxy: an address that all requests go through; None takes
    the environment's (`HTTPS_PROXY`, `NO_PROXY`). verify: the file or folder of certificates to trust, an
    `ssl.SSLContext`, or False for none at all; True takes those of the system, or of `SSL_CERT_FILE`.
    transport, async_transport: httpx2's own transports, for the two ways of asking.

    >>> transport = Httpx2Transport(proxy="http://proxy.example:3128")
    >>> transport.close()
    """

    def __init__(
        self,
        *,
        auth: "httpx2.Auth | None" = None,
        proxy: str | None = None,
        verify: Verify = True,
        transport: "httpx2.BaseTransport | None" = None,
        async_transport: "httpx2.AsyncBaseTransport | None" = None,
    ) -> None:
        require_proxy(proxy)
        self.signs = auth is not None or transport is not None or async_transport is not None
        self._auth = auth
        self._proxy = proxy
        self._verify = checked_verify(verify)
        self._given = (transport, async_transport)
        self._clients: dict[tuple[int, bool], httpx2.Client] = {}
        self._loops: LoopClients[httpx2.AsyncClient] = LoopClients()

    def send(self, call: HttpCall) -> Response:
        """Send a request and wait for the head of the response."""
        import httpx2

        client = self._client(is_secure(call.url))
        failure: Exception
        try:
            request = _request(call)
            return _Httpx2Response(client.send(request, stream=True, auth=self._auth), call)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            failure = httpx2_failure(error, call)
        # Outside the handler, so that no httpx2 object (with headers in it) hangs on the error.
        raise failure

    async def asend(self, call: HttpCall) -> AsyncResponse:
        """Send a request and wait for the head of the response."""
        import httpx2

        secure = is_secure(call.url)
        client = await self._loops.get(secure, lambda: self._new_async_client(secure), _close_async_client)
        failure: Exception
        try:
            request = _request(call)
            return _AsyncHttpx2Response(await client.send(request, stream=True, auth=self._auth), call)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            failure = httpx2_failure(error, call)
        raise failure

    def close(self) -> None:
        """Close the connections of the synchronous side."""
        while self._clients:
            self._clients.popitem()[1].close()

    async def aclose(self) -> None:
        """Close all connections of this event loop and of the synchronous side."""
        self.close()
        await self._loops.aclose()

    def _client(self, secure: bool) -> "httpx2.Client":
        import os

        import httpx2

        key = (os.getpid(), secure)  # a forked process must not share sockets with its parent
        if (found := self._clients.get(key)) is not None:
            return found
        made = self._made(httpx2.Client, secure, self._given[0])
        kept = self._clients.setdefault(key, made)
        if kept is made:
            weakref.finalize(self, made.close)  # runs at exit too
        else:
            made.close()
        return kept

    def _new_async_client(self, secure: bool) -> "httpx2.AsyncClient":
        import httpx2

        return self._made(httpx2.AsyncClient, secure, self._given[1])

    def _made(self, client: "Callable[..., C]", secure: bool, transport: object) -> C:
        """Return a client of either kind, with what this transport was told."""
        trusted = tls_context(self._verify) if secure else False
        try:
            return client(verify=trusted, limits=_limits(), proxy=self._proxy, transport=transport)
        except (ValueError, ImportError):
            failure = _bad_proxy(self._proxy)
        raise failure  # outside the handler: the error may show a proxy's password


class LoopClients(Generic[C]):
    """Clients by event loop, held weakly; each is closed when its loop shuts down.

    A client is tied to a suspended async generator. `asyncio.run` and the like close those before they
    close the loop, so connections end inside the loop they belong to, without anybody's help.
    """

    def __init__(self) -> None:
        import threading

        self._lock = threading.Lock()
        self._by_loop: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[bool, tuple[C, AsyncGenerator[None, None]]]
        ] = weakref.WeakKeyDictionary()

    async def get(self, key: bool, make: Callable[[], C], close: Callable[[C], Awaitable[None]]) -> C:
        """Return this loop's client for the key, made on first use."""
        import asyncio

        loop = asyncio.get_running_loop()
        with self._lock:
            kept = self._by_loop.get(loop)
            if kept is None:
                for old in [other for other in self._by_loop if other.is_closed()]:
                    del self._by_loop[old]  # a client may hold its loop alive
                kept = self._by_loop[loop] = {}
        if (found := kept.get(key)) is not None:
            return found[0]
        client = make()
        guard = _close_at_end(client, close, kept, key)
        kept[key] = (client, guard)
        await anext(guard)
        return client

    async def aclose(self) -> None:
        """Close the clients of the running loop."""
        import asyncio

        with self._lock:
            kept = self._by_loop.pop(asyncio.get_running_loop(), {})
        for _, guard in list(kept.values()):
            await guard.aclose()


async def _close_at_end(
    client: C, close: Callable[[C], Awaitable[None]], kept: dict[bool, Any], key: bool
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        kept.pop(key, None)
        await close(client)


class _Httpx2Response:
    def __init__(self, response: "httpx2.Response", call: HttpCall) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = _headers(response)
        self.body = self._read(call)

    def _read(self, call: HttpCall) -> Generator[bytes, None, None]:
        import httpx2

        failure: Exception
        # `response.stream` is what `iter_raw` reads; going there directly saves two layers a piece.
        stream = cast("httpx2.SyncByteStream", self._response.stream)
        inflate = inflater(self.headers)
        try:
            for data in stream:
                if inflate is not None:
                    data = inflate(data)
                if data:
                    yield data
            return
        except (httpx2.HTTPError, zlib.error) as error:
            failure = httpx2_failure(error, call)
        raise failure

    def close(self) -> None:
        self.body.close()
        self._response.close()


class _AsyncHttpx2Response:
    def __init__(self, response: "httpx2.Response", call: HttpCall) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = _headers(response)
        self.body = self._read(call)

    async def _read(self, call: HttpCall) -> AsyncGenerator[bytes, None]:
        import httpx2

        failure: Exception
        stream = cast("httpx2.AsyncByteStream", self._response.stream)
        inflate = inflater(self.headers)
        try:
            async for data in stream:
                if inflate is not None:
                    data = inflate(data)
                if data:
                    yield data
            return
        except (httpx2.HTTPError, zlib.error) as error:
            failure = httpx2_failure(error, call)
        raise failure

    async def aclose(self) -> None:
        await self.body.aclose()
        await self._response.aclose()


async def _close_async_client(client: "httpx2.AsyncClient") -> None:
    await client.aclose()


def _request(call: HttpCall) -> "httpx2.Request":
    """Return the request. Made directly: a client's own way merges cookies and parameters that are never used here."""
    import httpx2

    waits = call.timeouts
    head = {"user-agent": "sapwood", "accept": "*/*", "accept-encoding": ACCEPTED_ENCODINGS, **call.headers}
    timeout = httpx2.Timeout(waits.between_bytes, connect=waits.connect, pool=None)
    headers = [(name.encode("ascii"), value.encode("utf-8")) for name, value in head.items()]
    return httpx2.Request(
        call.method, _url(call.url), headers=headers, content=call.body, extensions={"timeout": timeout.as_dict()}
    )


@lru_cache(maxsize=64)
def _url(url: str) -> "httpx2.URL":
    import httpx2

    return httpx2.URL(url)


def _headers(response: "httpx2.Response") -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers.raw}


def _bad_proxy(proxy: str | None) -> ConfigError:
    named = f"proxy={shown_url(proxy)!r}" if proxy else "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
    return ConfigError(f"the proxy cannot be used: check {named}; socks5:// needs pip install 'httpx2[socks]'")


def _limits() -> "httpx2.Limits":
    import httpx2

    return httpx2.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=30)


def httpx2_failure(error: Exception, call: HttpCall) -> Exception:
    """Return what went wrong, in words that hold no header and no body."""
    import httpx2

    host = host_of(call.url)
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            waited = call.timeouts.connect
            return TransportFailure(f"no connection to {host} in {waited:g} s", is_timeout=True)
        case httpx2.TimeoutException():
            return TransportFailure(f"{host} sent nothing for {call.timeouts.between_bytes:g} s", is_timeout=True)
        case httpx2.ConnectError() | httpx2.ProxyError():
            distrust = distrusted(host, error)
            return distrust or TransportFailure(f"no connection to {host}: {error}"[:300])
        case httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError() | httpx2.InvalidURL() | ValueError():
            return ConfigError(
                f"the request cannot be sent to {shown_url(call.url)!r}: check base_url, key and headers"
            )
        case zlib.error():
            return TransportFailure(f"the compressed answer of {host} is damaged")
        case _:
            return TransportFailure(f"the connection to {host} broke: {error}"[:300])


def distrusted(host: str, error: BaseException) -> TransportFailure | None:
    """Return the failure where a server's certificate is not trusted, None where something else went wrong."""
    import ssl

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            reason = getattr(seen, "verify_message", "") or "it cannot be verified"
            return TransportFailure(
                f"the certificate of {host} is not trusted: {reason}; name the certificates to trust: "
                "transport=Httpx2Transport(verify='certificates.pem')",
                is_transient=False,
            )
        seen = seen.__cause__ or seen.__context__
    return None


def is_secure(url: str) -> bool:
    """Tell whether an address needs TLS."""
    return not url.lower().startswith("http://")


def inflater(headers: Mapping[str, str]) -> Callable[[bytes], bytes] | None:
    """Return what decompresses a body piece by piece, None where it is not compressed."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise TransportFailure(f"the answer came in a coding that was not asked for: {coding[:40]!r}")
    return Inflater(coding)


@functools.cache
def default_transport() -> Transport:
    """Return the transport that all providers without one of their own share."""
    return Httpx2Transport()
