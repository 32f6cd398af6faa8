"""OpenAI's Chat Completions, at OpenAI or at any server that speaks them."""

from collections.abc import Mapping
from typing import Any

from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.base import BaseLLMProvider, Endpoint
from sapwood.llm.codec import HttpCall
from sapwood.llm.openai.chat_decode import ChatDecoder
from sapwood.llm.openai.chat_encode import DEFAULT_BASE_URL, ChatOptions, encode_call
from sapwood.llm.profiles import profile_of
from sapwood.llm.transport import Transport


class ChatCodec:
    """Chat Completions as pure functions."""

    name = "openai.chat"

    def __init__(self, options: ChatOptions | None = None) -> None:
        self._options = options or ChatOptions()

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(request, profile, self._options, base_url=base_url, api_key=api_key)

    def decoder(self, profile: ModelProfile) -> ChatDecoder:
        """Return a decoder for one reply."""
        return ChatDecoder(profile)


class OpenAIChatProvider(BaseLLMProvider):
    """A model behind Chat Completions.

    provider: who answers, for `origin` and for the environment variables (`<PROVIDER>_API_KEY`); a
    provider other than `openai` needs a base_url. extra_body: further fields of each request; None takes
    one of ours away. profile: replaces what the packaged table says of the model.

    >>> OpenAIChatProvider("gpt-4o").profile.system_role
    'system'
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "openai",
        transport: Transport | None = None,
        max_tokens: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
        profile: ModelProfile | None = None,
    ) -> None:
        own_server = base_url is not None and base_url.rstrip("/") != DEFAULT_BASE_URL
        word = provider.upper().replace("-", "_")
        super().__init__(
            ChatCodec(ChatOptions(max_tokens, extra_body or {}, extra_headers or {})),
            profile or profile_of(provider, model, own_server=own_server),
            Endpoint(DEFAULT_BASE_URL if provider == "openai" else "", f"{word}_API_KEY", f"{word}_BASE_URL"),
            base_url=base_url,
            api_key=api_key,
            transport=transport,
        )
