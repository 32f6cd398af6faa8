"""Anthropic's Messages API, over HTTP or through any client object of its shape."""

from collections.abc import Mapping, Sequence
from typing import Any

from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.anthropic.decode import AnthropicDecoder
from sapwood.llm.anthropic.encode import DEFAULT_BASE_URL, RequestOptions, encode_call
from sapwood.llm.base import BaseLLMProvider, Endpoint
from sapwood.llm.codec import HttpCall
from sapwood.llm.profiles import profile_of
from sapwood.llm.transport import Transport


class AnthropicCodec:
    """The Messages API as pure functions."""

    name = "anthropic"

    def __init__(self, options: RequestOptions | None = None) -> None:
        self._options = options or RequestOptions()

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(request, profile, self._options, base_url=base_url, api_key=api_key)

    def decoder(self, profile: ModelProfile) -> AnthropicDecoder:
        """Return a decoder for one reply."""
        return AnthropicDecoder(profile)


class AnthropicProvider(BaseLLMProvider):
    """A Claude model, or one behind a server that speaks the same protocol.

    The key is `ANTHROPIC_API_KEY` unless given. max_tokens: the reply's cap where a request names none.
    betas: names for the `anthropic-beta` header. extra_body: further fields of each request.
    profile: replaces what the packaged table says of the model.

    >>> AnthropicProvider("claude-sonnet-4-5").profile.context_window
    200000
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        transport: Transport | None = None,
        max_tokens: int | None = None,
        betas: Sequence[str] = (),
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        provider: str = "anthropic",
        profile: ModelProfile | None = None,
    ) -> None:
        options = RequestOptions(max_tokens, tuple(betas), extra_body or {}, extra_headers or {})
        super().__init__(
            AnthropicCodec(options),
            profile or profile_of(provider, model),
            Endpoint(DEFAULT_BASE_URL, f"{provider.upper()}_API_KEY", f"{provider.upper()}_BASE_URL"),
            base_url=base_url,
            api_key=api_key,
            transport=transport,
        )
