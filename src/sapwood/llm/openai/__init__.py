"""OpenAI's two protocols, at OpenAI or at any server that speaks them."""

from typing import Unpack

from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import HttpCall
from sapwood.llm.openai.chat_decode import ChatDecoder
from sapwood.llm.openai.chat_encode import SAMPLING, encode_call
from sapwood.llm.options import ModelOptions, ProviderOptions
from sapwood.llm.servers import set_up


class ChatCodec:
    """Chat Completions as pure functions. key_header: what takes the key in place of `authorization`."""

    name = "openai.chat"

    def __init__(self, options: ModelOptions | None = None, *, key_header: str = "") -> None:
        self._options = options or ModelOptions()
        self._key_header = key_header

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(
            request, profile, self._options, base_url=base_url, api_key=api_key, key_header=self._key_header
        )

    def decoder(self, profile: ModelProfile) -> ChatDecoder:
        """Return a decoder for one reply."""
        return ChatDecoder(profile)


class OpenAIChatProvider(BaseLLMProvider):
    """A model behind Chat Completions, at OpenAI or at any server that speaks them.

    provider: who answers, for facts, for `origin` and for the environment variables; one that the packaged
    table of servers does not have reads `<PROVIDER>_API_KEY` and needs a base_url. options: see `ProviderOptions`.

    >>> OpenAIChatProvider("gpt-4o").profile.system_role
    'system'
    """

    def __init__(self, model: str, **options: Unpack[ProviderOptions]) -> None:
        setup = set_up(model, "openai", "openai.chat", options, takes=SAMPLING)
        codec = ChatCodec(setup.options, key_header=setup.server.key_header)
        profile = setup.profile
        if profile.context_edits:  # this protocol has no place for them, whatever the model has elsewhere
            profile = profile.replace(context_edits=())
        super().__init__(codec, profile, setup.endpoint, **setup.connection)
