"""Any client object of Anthropic's shape as a provider (guide D's `AnthropicClientLike`).

Laws: the client is only ever used by its shape, never by its class; what its events do not tell is taken
from its final message; its own errors pass unchanged.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Protocol

from sapwood.core.errors import LLMError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import Text, Thinking
from sapwood.core.model import (
    AnyIterable,
    ModelProfile,
    ModelRequest,
    Reply,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from sapwood.llm.anthropic.decode import AnthropicDecoder
from sapwood.llm.anthropic.encode import can_force, encode_body
from sapwood.llm.options import ModelOptions
from sapwood.llm.profiles import profile_of
from sapwood.llm.shapes import decode_json, is_tuple, text_in

_EVENTS = frozenset(
    {
        "message_start",
        "message_delta",
        "message_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "error",
    }
)
_FINAL_MESSAGE = ("get_final_message", "final_message", "finalMessage")


class MessagesLike(Protocol):
    """The part of a client's `messages` that is used."""

    def stream(self, **body: Any) -> Any:
        """Start a streamed reply: a context manager, an awaitable or an iterable, sync or async."""
        ...


class AnthropicClientLike(Protocol):
    """The part of an Anthropic client that is used; any object of this shape fits."""

    @property
    def messages(self) -> Any:
        """What has `stream(**body)`, as MessagesLike describes it."""
        ...


class AnthropicClientProvider:
    """A provider that asks through a client object: `Anthropic()`, `AsyncAnthropic()`, a fake.

    A stream of it works with `for` where the client is synchronous, else with `async for`.
    """

    def __init__(
        self,
        client: AnthropicClientLike,
        model: str,
        *,
        max_tokens: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        profile: ModelProfile | None = None,
    ) -> None:
        known = profile or profile_of("anthropic", model)
        # Such a client takes them on its beta interface alone.
        self.profile = known.replace(context_edits=()) if known.context_edits else known
        self._client = client
        self._options = ModelOptions(max_tokens=max_tokens, extra_body=extra_body or {})

    def __repr__(self) -> str:
        return f"AnthropicClientProvider({self.profile.model!r})"

    @property
    def forces_tool_choice(self) -> bool:
        """Whether a call of a tool can be demanded: not where `extra_body` asks for a budget of thinking."""
        return can_force(self.profile, self._options)

    def stream(self, request: ModelRequest) -> AnyIterable[StreamChunk]:
        """Ask the model through the client."""
        body: dict[str, Any] = decode_json(encode_body(request, self.profile, self._options, stream=False))
        opened = self._client.messages.stream(**body)
        if _is_async(opened):
            return _arun(opened, self.profile)
        return _run(opened, self.profile)


def _is_async(opened: Any) -> bool:
    return (
        inspect.isawaitable(opened)
        or hasattr(opened, "__aenter__")
        or hasattr(opened, "__aiter__")
        or any(inspect.iscoroutinefunction(getattr(opened, name, None)) for name in _FINAL_MESSAGE)
    )


def _run(opened: Any, profile: ModelProfile) -> Generator[StreamChunk, None, None]:
    reading = _Reading(profile)
    with ExitStack() as stack:
        if hasattr(opened, "__enter__"):
            opened = stack.enter_context(opened)
        elif hasattr(opened, "close"):
            stack.callback(opened.close)
        for event in opened:
            yield from reading.take(event)
        final = _ask_final(opened)
    yield from reading.finish(final)


async def _arun(opened: Any, profile: ModelProfile) -> AsyncGenerator[StreamChunk, None]:
    reading = _Reading(profile)
    async with AsyncExitStack() as stack:
        if inspect.isawaitable(opened):
            opened = await opened
        if hasattr(opened, "__aenter__"):
            opened = await stack.enter_async_context(opened)
        elif hasattr(opened, "__enter__"):
            opened = stack.enter_context(opened)
        elif hasattr(opened, "aclose"):
            stack.push_async_callback(opened.aclose)
        async for event in _events(opened):
            for chunk in reading.take(event):
                yield chunk
        final = _ask_final(opened)
        if inspect.isawaitable(final):
            final = await final
    for chunk in reading.finish(final):
        yield chunk


def _events(opened: Any) -> AsyncIterator[Any]:
    return aiter(opened) if hasattr(opened, "__aiter__") else _each(opened)


async def _each(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _ask_final(opened: Any) -> Any:
    for name in _FINAL_MESSAGE:
        if callable(ask := getattr(opened, name, None)):
            return ask()
    return None


class _Reading:
    """Feeds a client's events to the decoder and compares them with its final message."""

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._decoder = AnthropicDecoder(profile)
        self._shown = False
        self._seen: set[str] = set()

    def take(self, event: Any) -> Iterator[StreamChunk]:
        """Yield the chunks of one event; the client's own helper events give none."""
        kind = _kind(event)
        if kind not in _EVENTS:
            return
        self._seen.add(kind)
        plain = _delta(event) if kind == "content_block_delta" else _plain(event)
        try:
            chunks = self._decoder.take(plain)
        except LLMError as error:
            raise self._explained(error)  # noqa: B904 - the same error, with more in it
        self._shown = self._shown or any(not isinstance(chunk, UsageChunk) for chunk in chunks)
        yield from chunks

    def finish(self, final: Any) -> Iterator[StreamChunk]:
        """Yield the reply: of the events where they told all of it, else of the final message."""
        message = _plain(final)
        # A client may hand over a cut stream as complete; its message then has no stop reason.
        is_cut = "message_start" in self._seen and not text_in(message, "stop_reason")
        told_all = {"message_start", "message_delta"} <= self._seen
        try:
            if told_all or is_cut or not is_object(message) or "content" not in message:
                reply = self._decoder.finish()
            else:
                reply = AnthropicDecoder(self._profile).whole_message(message)
        except LLMError as error:
            raise self._explained(error)  # noqa: B904 - the same error, with more in it
        if not self._shown:
            yield from _chunks_of(reply)
        yield reply.replace(request_id=text_in(message, "_request_id") or None)

    def _explained(self, error: LLMError) -> LLMError:
        error.provider, error.model = self._profile.provider, self._profile.model
        return error


def _chunks_of(reply: Reply) -> Iterator[StreamChunk]:
    for part in reply.content:
        if isinstance(part, Text):
            yield TextChunk(part.text)
        elif isinstance(part, Thinking) and part.text:
            yield ThinkingChunk(part.text)


def _kind(event: Any) -> str:
    return text_in(event, "type") if is_object(event) else str(getattr(event, "type", ""))


def _delta(event: Any) -> Any:
    """Make a plain event of a delta without converting all of the client's object."""
    if is_object(event):
        return _plain(event)
    delta: Any = getattr(event, "delta", None)
    kind = getattr(delta, "type", "")
    if kind == "text_delta":
        plain: Any = {"type": kind, "text": delta.text}
    elif kind == "input_json_delta":
        plain = {"type": kind, "partial_json": delta.partial_json}
    else:
        plain = _plain(delta)
    return {"type": "content_block_delta", "index": getattr(event, "index", -1), "delta": plain}


def _plain(value: Any) -> Any:
    """Return plain dicts and lists for an SDK's object, a dict, or a fake with attributes."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if is_object(value):
        return {key: _plain(item) for key, item in value.items()}
    if is_list(value) or is_tuple(value):
        return [_plain(item) for item in value]
    if callable(to_dict := getattr(value, "to_dict", None)):
        return to_dict()
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    names: Any = getattr(value, "__struct_fields__", None) or getattr(value, "__slots__", None)
    if names is None:
        names = [name for name in dir(value) if name[0] != "_" and not callable(getattr(value, name))]
    return {name: _plain(getattr(value, name, None)) for name in names}
