"""Ollama's own chat endpoint, which knows windows and thinking that its OpenAI-compatible one does not."""

import logging
from typing import Unpack

from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.codec import Decoder, HttpCall
from sapwood.llm.ollama.decode import OllamaDecoder, Sent
from sapwood.llm.ollama.encode import encode_call, window_of
from sapwood.llm.options import ModelOptions, ProviderOptions
from sapwood.llm.servers import set_up

log = logging.getLogger("sapwood.llm")


class OllamaCodec:
    """Ollama's `/api/chat` as pure functions."""

    name = "ollama"

    def __init__(self, options: ModelOptions | None = None) -> None:
        self._options = options or ModelOptions()

    def encode(self, request: ModelRequest, profile: ModelProfile, *, base_url: str, api_key: str | None) -> HttpCall:
        """Return the HTTP request that asks for a stream."""
        return encode_call(request, profile, self._options, base_url=base_url, api_key=api_key)

    def decoder(self, profile: ModelProfile) -> OllamaDecoder:
        """Return a decoder for one reply."""
        return OllamaDecoder(profile)

    def sent(self, call: HttpCall, profile: ModelProfile) -> Sent:
        """Return what a decoder needs to know of a call that `encode` made.

        >>> OllamaCodec().sent(HttpCall("http://host/api/chat", {}, b"{}"), ModelProfile(context_window=8192))
        Sent(text_bytes=2, window=8192)
        """
        # Pictures take other room in the body than in the prompt, and templates leave out older thinking.
        is_telling = b'"images":[' not in call.body and b'"thinking":"' not in call.body
        return Sent(len(call.body) if is_telling else 0, window_of(profile, self._options))


class OllamaProvider(BaseLLMProvider):
    """A model on an Ollama server, by default the one of this machine.

    The window is that of the profile, where it is known: give it with `profile=`, or as
    `extra_body={"options": {"num_ctx": 16384}}`. options: see `ProviderOptions`.

    >>> OllamaProvider("qwen3").profile.origin
    'ollama/qwen3'
    """

    def __init__(self, model: str, **options: Unpack[ProviderOptions]) -> None:
        setup = set_up(model, "ollama", "ollama", options)
        self._ollama = OllamaCodec(setup.options)
        self._has_warned = False
        super().__init__(self._ollama, setup.profile, setup.endpoint, **setup.connection)

    def _decoder(self, call: HttpCall) -> Decoder:
        if self._has_warned:
            return self._ollama.decoder(self.profile)
        return OllamaDecoder(self.profile, sent=self._ollama.sent(call, self.profile), when_cut=self._warn)

    def _warn(self, evaluated: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s has read only %d tokens of a longer prompt; give it a larger window: "
                "extra_body={'options': {'num_ctx': ...}}",
                self.profile.origin,
                evaluated,
            )
