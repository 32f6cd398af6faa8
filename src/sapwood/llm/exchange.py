"""What is read of one response, and the stream that a provider hands out: no I/O, the same for both ways of asking.

Laws: an error in a response is raised once the chunks before it were passed on; what the network did never hides
what the provider said; what a decoder did not foresee is an LLMError too; no error repeats the key or the prompt.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any

import msgspec

from sapwood.core.errors import AuthenticationError, ConfigError, LLMError, LLMTimeoutError, ServerError
from sapwood.core.messages import Text, Thinking
from sapwood.core.model import ModelProfile, Reply, StreamChunk, TextChunk, ThinkingChunk
from sapwood.llm.addresses import host_of, shown_url
from sapwood.llm.codec import CountingCodec, Decoder, HttpCall
from sapwood.llm.failures import error_of, without_echo
from sapwood.llm.framing import Splitter, splitter_of
from sapwood.llm.shapes import UNREADABLE, decode_json
from sapwood.llm.transport import TransportFailure

UNFORESEEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError)
"""What a decoder raises that did not expect what it was given."""
MAX_ERROR_BYTES = 1_000_000
MAX_WHOLE_BYTES = 64_000_000
_EVENT_STARTS = (b"data", b"event", b"id", b"retry", b":", b"{", b"[")


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


class Exchange:
    """What has been read of one response: the part that sync and async share. It does no I/O.

    withheld: what is said of a key that was not sent, where the answer is that one is missing.
    """

    def __init__(
        self, decoder: Decoder, profile: ModelProfile, call: HttpCall, secret: str, *, withheld: str = ""
    ) -> None:
        self.call = call
        self.is_over = False
        self.is_second = False  # what came before it was refused
        self._has_shown = False
        self._profile = profile
        self._secret = secret
        self._withheld = withheld
        self._decoder = decoder
        self._split: Splitter | None = None
        self._error: LLMError | None = None  # what the provider reported
        self._broken: LLMError | None = None  # what the network did
        self._status = 0
        self._headers: dict[str, str] = {}
        self._whole: list[bytes] | None = None  # the pieces of a body that is no event stream
        self._whole_bytes = 0
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
            if first and self._is_page(data):
                return ()
            if first:
                # Some gateways answer a request for a stream with the whole reply as JSON, after some white space.
                self._split = splitter_of(self._headers.get("content-type", ""), first)
                self._whole = [] if self._split is None else None
        if self._whole is not None:
            self._add_to_whole(data)
            return ()
        if self._split is None:
            return ()
        try:
            events = self._split.feed(data)
        except LLMError as error:
            self._error, self.is_over = error, True
            return ()
        return self._decode(events)

    def _is_page(self, start: bytes) -> bool:
        """Tell whether a response that should be a model's is a page for people; it is an error and ends here then."""
        start = start.removeprefix(b"\xef\xbb\xbf").lstrip()
        kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        # Some servers call any stream text/html, so what it begins with decides.
        if not start.startswith(b"<") and ("html" not in kind or _may_be_events(start)):
            return False
        url = shown_url(self.call.url)
        what = kind if "html" in kind else "a page (it begins with '<')"
        self._error = LLMError(f"{url} answered with {what}, which is no model's reply; check base_url")
        self.is_over = True
        return True

    def _add_to_whole(self, data: bytes) -> None:
        whole = self._whole or []
        is_error = self._status >= 300
        if not whole and not is_error and data and self._is_page(data):
            return
        whole.append(data)
        self._whole = whole
        self._whole_bytes += len(data)
        if self._whole_bytes > (MAX_ERROR_BYTES if is_error else MAX_WHOLE_BYTES):
            self.is_over = True
            if not is_error:
                message = f"the reply is longer than {MAX_WHOLE_BYTES // 1_000_000} MB and was not read to its end"
                self._error = ServerError(message, is_transient=False)

    def _decode(self, events: Sequence[tuple[bytes, bytes]]) -> Sequence[StreamChunk]:
        chunks: list[StreamChunk] = []
        feed, data = self._decoder.feed, b""
        try:
            for event, data in events:
                chunks += feed(event, data)
        except LLMError as error:
            self._error = error  # raised once the chunks before it were passed on
            self.is_over = True
        except UNFORESEEN as error:
            self._error, self.is_over = self._unreadable(data, error), True
        self._has_shown = self._has_shown or bool(chunks)
        return chunks

    def fail(self, failure: TransportFailure) -> None:
        """Note that no response came, or only a part of it."""
        kind = LLMTimeoutError if failure.is_timeout else ServerError if failure.is_transient else LLMError
        self._broken = kind(str(failure))

    def finish(self) -> Iterator[StreamChunk]:
        """Yield what is left and the reply, or raise what went wrong."""
        if self._whole is None and self._error is None:
            yield from self._decode(self._last_events())
        try:
            reply = self._reply()
        except LLMError as error:
            self._error = error
        except UNFORESEEN as error:
            self._error = self._unreadable(b"".join(self._whole or ()), error)
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
            found = self._error or self._broken
            if found is not None:
                raise found
            if not 200 <= self._status < 300:
                raise self._status_error()
            return codec.count_of(b"".join(self._whole or ()))
        except LLMError as error:
            failure = error
        except UNFORESEEN as error:
            failure = self._unreadable(b"".join(self._whole or ()), error)
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
        except (LLMError, *UNFORESEEN):
            raise self._broken from None

    def _unreadable(self, data: bytes, error: Exception) -> ServerError:
        if isinstance(error, ConfigError):  # a ValueError, but one that was foreseen
            raise error
        what = f"{data[:80]!r}" if data else "what came"
        failure = ServerError(
            f"the decoder of {self._profile.origin} could not read {what}: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        return failure

    def _explained(self, error: LLMError) -> LLMError:
        error.provider = error.provider or self._profile.provider
        error.model = error.model or self._profile.model
        if error.status is None and self._status:
            error.status = self._status
        error.request_id = error.request_id or self._request_id()
        error.message = without_echo(error.message, self.call.body, (self._secret,))
        if self._withheld and isinstance(error, AuthenticationError):
            error.message = f"{error.message}; {self._withheld}"
        error.args = (error.message,)
        return error

    def _request_id(self) -> str | None:
        return (
            self._headers.get("request-id")
            or self._headers.get("x-request-id")
            or self._headers.get("x-amzn-requestid")
        )


def _may_be_events(start: bytes) -> bool:
    return any(start.startswith(name) or name.startswith(start) for name in _EVENT_STARTS)


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
