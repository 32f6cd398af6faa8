"""The aiohttp transport: less CPU for each piece of a stream and many streams at once (extra `aiohttp`).

Law: synchronous calls go through httpx2, for aiohttp has none.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.llm.addresses import host_of, shown_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.compression import ACCEPTED_ENCODINGS
from sapwood.llm.transport import (
    AsyncResponse,
    Httpx2Transport,
    LoopClients,
    Response,
    TransportFailure,
    distrusted,
    inflater,
    is_secure,
)
from sapwood.llm.trust import Trust, Verify, checked_verify, tls_context

if TYPE_CHECKING:
    import aiohttp


class AiohttpTransport:
    """A transport whose asynchronous side is aiohttp. One object serves all event loops.

    proxy, verify: as for `Httpx2Transport`.

    >>> transport = AiohttpTransport()
    >>> transport.close()
    """

    def __init__(self, *, proxy: str | None = None, verify: Verify = True) -> None:
        try:
            import aiohttp  # pyright: ignore[reportUnusedImport]
        except ImportError as error:
            raise ProviderNotInstalledError("AiohttpTransport needs aiohttp: pip install 'sapwood[aiohttp]'") from error
        self._sync = Httpx2Transport(proxy=proxy, verify=verify)
        if proxy is not None and not proxy.lower().startswith("http"):
            raise ConfigError(f"aiohttp goes through no proxy such as {shown_url(proxy)!r}; use Httpx2Transport")
        self._proxy = proxy
        self._verify = checked_verify(verify)
        self._loops: LoopClients[aiohttp.ClientSession] = LoopClients()

    def send(self, call: HttpCall) -> Response:
        """Send a request through httpx2."""
        return self._sync.send(call)

    async def asend(self, call: HttpCall) -> AsyncResponse:
        """Send a request and wait for the head of the response."""
        import aiohttp

        secure = is_secure(call.url)
        session = await self._loops.get(secure, lambda: _new_session(secure, self._verify), _close_session)
        waits = call.timeouts
        failure: Exception
        try:
            response = await session.request(
                call.method,
                call.url,
                data=call.body,
                headers={"user-agent": "sapwood", "accept-encoding": ACCEPTED_ENCODINGS, **call.headers},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=waits.connect, sock_read=waits.between_bytes),
                allow_redirects=False,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            failure = _failure(error, call)
        else:
            return _AiohttpResponse(response, call)
        # Outside the handler, so that no aiohttp object (with headers in it) hangs on the error.
        raise failure

    def close(self) -> None:
        """Close the connections of the synchronous side."""
        self._sync.close()

    async def aclose(self) -> None:
        """Close all connections of this event loop and of the synchronous side."""
        self._sync.close()
        await self._loops.aclose()


class _AiohttpResponse:
    def __init__(self, response: "aiohttp.ClientResponse", call: HttpCall) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self.body = self._read(call)

    async def _read(self, call: HttpCall) -> AsyncGenerator[bytes, None]:
        import zlib

        import aiohttp

        failure: Exception
        inflate = inflater(self.headers)
        read = self._response.content.readany
        try:
            while data := await read():
                if inflate is not None:
                    data = inflate(data)
                if data:
                    yield data
            return
        except (aiohttp.ClientError, TimeoutError, OSError, zlib.error) as error:
            failure = _failure(error, call)
        raise failure

    async def aclose(self) -> None:
        import asyncio

        await self.body.aclose()
        if not self._response.closed and not self._response.content.at_eof():
            self._response.close()
            await asyncio.sleep(0)  # the socket is closed by a callback of the loop
        else:
            self._response.release()


def _new_session(secure: bool, verify: Trust) -> "aiohttp.ClientSession":
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls_context(verify) if secure else False),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=True,
    )


async def _close_session(session: "aiohttp.ClientSession") -> None:
    import asyncio

    await session.close()
    await asyncio.sleep(0)


def _failure(error: Exception, call: HttpCall) -> Exception:
    import zlib

    import aiohttp

    host = host_of(call.url)
    match error:
        case aiohttp.ConnectionTimeoutError():
            message = f"no connection to {host} in {call.timeouts.connect:g} s"
            return TransportFailure(message, is_timeout=True)
        case TimeoutError():
            return TransportFailure(f"{host} sent nothing for {call.timeouts.between_bytes:g} s", is_timeout=True)
        case aiohttp.ClientConnectorCertificateError():
            return distrusted(host, error.certificate_error) or TransportFailure(f"no connection to {host}")
        case aiohttp.ClientConnectorError():
            return TransportFailure(f"no connection to {host}: {error.os_error}"[:300])
        case aiohttp.InvalidURL() | ValueError():
            shown = shown_url(call.url)
            return ConfigError(f"the request cannot be sent to {shown!r}: check base_url, key and headers")
        case zlib.error():
            return TransportFailure(f"the compressed answer of {host} is damaged")
        case _:
            return TransportFailure(f"the connection to {host} broke: {type(error).__name__}")
