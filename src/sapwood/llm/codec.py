"""What a codec is: pure functions between a ModelRequest and HTTP, and between HTTP and StreamChunks.

Laws: a codec does no I/O and knows no clock; a decoder yields its Reply only when the provider said that
the reply is complete; neither key nor body shows in a repr.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from sapwood.core.errors import LLMError
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk
from sapwood.llm.addresses import shown_url


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds to wait for a connection and between two pieces of a reply; there is none in total."""

    connect: float = 5.0
    between_bytes: float = 120.0


class HttpCall(msgspec.Struct, frozen=True):
    """One HTTP request. Its repr shows where it goes and nothing else."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        return f"HttpCall({self.method} {shown_url(self.url)}, {len(self.body)} bytes)"


class Decoder(Protocol):
    """Reads one reply."""

    def feed(self, event: bytes, data: bytes) -> Sequence[StreamChunk]:
        """Return the chunks of one event; raises LLMError where the event is an error."""
        ...

    def finish(self) -> Reply:
        """Return the reply; raises ServerError where the provider never said that it is complete."""
        ...

    def whole(self, body: bytes) -> Reply:
        """Return the reply from a body that was not streamed; raises LLMError where it is an error."""
        ...


class Codec(Protocol):
    """One wire protocol. name: keeps what it encoded apart from what other codecs did."""

    @property
    def name(self) -> str:
        """The protocol's name."""
        ...

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        ...

    def decoder(self, profile: ModelProfile) -> Decoder:
        """Return a decoder for one reply."""
        ...


@runtime_checkable
class CountingCodec(Protocol):
    """A codec whose protocol has an endpoint that counts the tokens of a request."""

    def count_call(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall:
        """Return the HTTP request that asks how many tokens the request has."""
        ...

    def count_of(self, body: bytes) -> int:
        """Return the tokens that the answer tells; raises LLMError where it is an error."""
        ...


@runtime_checkable
class SecondTryCodec(Protocol):
    """A codec that can leave out what a server refused."""

    def second_try(self, error: LLMError, request: ModelRequest, profile: ModelProfile) -> ModelRequest | None:
        """Return the request to send once more after this error, None where it would fail again."""
        ...


@runtime_checkable
class ForcingCodec(Protocol):
    """A codec whose options decide whether a call of a tool can be demanded, beside the model."""

    def can_force(self, profile: ModelProfile) -> bool:
        """Tell whether a forced `tool_choice` is taken with these options."""
        ...
