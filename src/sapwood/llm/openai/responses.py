"""OpenAI's Responses, at OpenAI, Azure, xAI or at any server that speaks them."""

from typing import Unpack

from sapwood.core.errors import LLMError
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import HttpCall
from sapwood.llm.failures import counted, refuses_thinking
from sapwood.llm.openai.responses_decode import ResponsesDecoder
from sapwood.llm.openai.responses_encode import SAMPLING, encode_call, refusals_of, thoughts_in
from sapwood.llm.options import ModelOptions, ProviderOptions
from sapwood.llm.servers import set_up


class ResponsesCodec:
    """Responses as pure functions. key_header: what takes the key in place of `authorization`.

    >>> ResponsesCodec().count_of(b'{"object": "response.input_tokens", "input_tokens": 16}')
    16
    """

    name = "openai.responses"

    def __init__(self, options: ModelOptions | None = None, *, key_header: str = "") -> None:
        self._options = options or ModelOptions()
        self._key_header = key_header

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(
            request, profile, self._options, base_url=base_url, api_key=api_key, key_header=self._key_header
        )

    def decoder(self, profile: ModelProfile) -> ResponsesDecoder:
        """Return a decoder for one reply."""
        return ResponsesDecoder(profile)

    def count_call(
        self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None
    ) -> HttpCall:
        """Return the HTTP request that asks how many tokens the request has."""
        return encode_call(
            request,
            profile,
            self._options,
            base_url=base_url,
            api_key=api_key,
            key_header=self._key_header,
            counts=True,
        )

    def count_of(self, body: bytes) -> int:
        """Return the tokens that the answer tells; raises LLMError where it is an error."""
        return counted(body)

    def second_try(self, error: LLMError, request: ModelRequest, profile: ModelProfile) -> ModelRequest | None:
        """Return the request to send once more, without the reasoning that the server cannot read.

        What it cannot read is bound to another model or account. It is noted beside the transcript, so that later
        requests leave it out too.
        """
        if not refuses_thinking(error):
            return None
        refused = refusals_of(request.transcript, profile)
        if "support" in error.message:  # the model does not think, so none was sent
            is_new, refused.asks = refused.asks, False
            return request if is_new else None
        sent = thoughts_in(request.transcript, profile)
        is_new = not sent <= refused.thoughts
        refused.thoughts |= sent
        return request if is_new else None


class OpenAIResponsesProvider(BaseLLMProvider):
    """A model behind Responses, at OpenAI or at any server that speaks them.

    options: see `ProviderOptions`; top_k, stop and seed are not known to the protocol and are left out with a
    warning.

    >>> OpenAIResponsesProvider("gpt-5").profile.encrypted_thinking
    True
    """

    def __init__(self, model: str, **options: Unpack[ProviderOptions]) -> None:
        setup = set_up(model, "openai", "openai.responses", options, takes=SAMPLING)
        codec = ResponsesCodec(setup.options, key_header=setup.server.key_header)
        super().__init__(codec, setup.profile, setup.endpoint, **setup.connection)
