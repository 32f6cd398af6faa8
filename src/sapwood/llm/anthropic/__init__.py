"""Anthropic's Messages API, over HTTP or through any client object of its shape."""

from typing import Unpack

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.anthropic.decode import AnthropicDecoder
from sapwood.llm.anthropic.encode import SAMPLING, can_force, encode_call, encode_count
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import HttpCall
from sapwood.llm.failures import counted
from sapwood.llm.options import ModelOptions, ProviderOptions, with_thinking
from sapwood.llm.servers import set_up


class AnthropicCodec:
    """The Messages API as pure functions. platform: a cloud whose form of address and body is used."""

    name = "anthropic"

    def __init__(self, options: ModelOptions | None = None, *, platform: str = "") -> None:
        self._options = options or ModelOptions()
        self._platform = platform

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(request, profile, self._options, base_url=base_url, api_key=api_key, platform=self._platform)

    def can_force(self, profile: ModelProfile) -> bool:
        """Tell whether a forced `tool_choice` is taken with these options: not beside a budget for thinking."""
        return can_force(profile, self._options)

    def decoder(self, profile: ModelProfile) -> AnthropicDecoder:
        """Return a decoder for one reply."""
        return AnthropicDecoder(profile)

    def count_call(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall:
        """Return the HTTP request that asks how many tokens the request has.

        Raises ConfigError for the clouds, which have no such endpoint of this form.
        """
        if self._platform:
            raise ConfigError(f"{profile.provider!r} has no endpoint that counts tokens of the form used here")
        return encode_count(request, profile, self._options, base_url=base_url, api_key=api_key)

    def count_of(self, body: bytes) -> int:
        """Return the tokens that the answer tells; raises LLMError where it is an error."""
        return counted(body)


class AnthropicProvider(BaseLLMProvider):
    """A Claude model, or one behind a server that speaks the same protocol.

    The key is `ANTHROPIC_API_KEY` unless given. options: see `ProviderOptions`.

    >>> AnthropicProvider("claude-sonnet-4-5").profile.context_window
    200000
    """

    def __init__(self, model: str, **options: Unpack[ProviderOptions]) -> None:
        setup = set_up(model, "anthropic", "anthropic", options, takes=(*SAMPLING, "betas"))
        codec = AnthropicCodec(with_thinking(setup.options, setup.profile), platform=setup.server.platform)
        super().__init__(codec, setup.profile, setup.endpoint, **setup.connection)
