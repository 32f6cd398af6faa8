"""Google's Gemini API, at Google or on Vertex."""

from typing import Unpack

from sapwood.core.errors import ServerError
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import HttpCall
from sapwood.llm.failures import complaint, error_from
from sapwood.llm.gemini.decode import GeminiDecoder
from sapwood.llm.gemini.encode import count_call, encode_call
from sapwood.llm.options import ModelOptions, ProviderOptions
from sapwood.llm.servers import set_up
from sapwood.llm.shapes import UNREADABLE, decode_json


class GeminiCodec:
    """The Gemini API as pure functions. platform: `vertex` for the form of address and key of Google's cloud."""

    name = "gemini"

    def __init__(self, options: ModelOptions | None = None, *, platform: str = "") -> None:
        self._options = options or ModelOptions()
        self._platform = platform

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(request, profile, self._options, base_url=base_url, api_key=api_key, platform=self._platform)

    def decoder(self, profile: ModelProfile) -> GeminiDecoder:
        """Return a decoder for one reply."""
        return GeminiDecoder(profile)

    def count_call(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall:
        """Return the HTTP request that asks how many tokens the request would take."""
        return count_call(request, profile, self._options, base_url=base_url, api_key=api_key, platform=self._platform)

    def count_of(self, body: bytes) -> int:
        """Return the tokens that the answer to `count_call` tells.

        >>> GeminiCodec().count_of(b'{"totalTokens": 8}')
        8
        """
        try:
            value = decode_json(body)
        except UNREADABLE:
            raise ServerError("the provider's answer cannot be read") from None
        match value:
            case {"totalTokens": int(tokens)}:
                return tokens
            case _ if (said := complaint(value)) is not None:
                raise error_from(said)
            case _:
                raise ServerError("the provider's answer holds no count of tokens")


class GeminiProvider(BaseLLMProvider):
    """A Gemini model, at Google or, with `provider="vertex"`, on Vertex.

    The key is `GEMINI_API_KEY` or `GOOGLE_API_KEY` unless given; on Vertex it is an access token, and base_url
    names project and region: `https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION`.
    options: see `ProviderOptions`.

    >>> GeminiProvider("gemini-3-flash-preview").profile.thinking
    'level'
    """

    def __init__(self, model: str, **options: Unpack[ProviderOptions]) -> None:
        setup = set_up(model, "gemini", "gemini", options)
        codec = GeminiCodec(setup.options, platform=setup.server.platform)
        super().__init__(codec, setup.profile, setup.endpoint, **setup.connection)
