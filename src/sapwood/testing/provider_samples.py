"""What a codec's author gives to the conformance kit: answers in the protocol's own bytes, and what they mean.

Law: a sample says what must come out, never how; a field that is None says that the protocol has no such thing.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sapwood.core.errors import ConfigError, LLMError
from sapwood.core.messages import Problem
from sapwood.core.model import ModelProfile, StopReason
from sapwood.core.usage import Usage
from sapwood.llm.codec import Codec
from sapwood.testing.prefix import prompt_bytes

PICTURE = "iVBORw0KGgoAAAANSUhEUg=="


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a provider as bytes, and what must come of it; None expects nothing in particular.

    text, thinking: all of it, joined. calls: names and arguments in their order. problem: of the last call's
    arguments. error: what must be raised; text is then what is passed on before. returned: pieces of a body that
    a later request to the same model must hold byte for byte, and one to any other model must not.

    >>> Sample(body=b'data: {"say": "Hi"}', text="Hi").status
    200
    """

    body: bytes
    status: int = 200
    content_type: str = "text/event-stream"
    text: str | None = None
    thinking: str | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] | None = None
    problem: Problem | None = None
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    error: type[LLMError] | None = None
    returned: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not self.body.strip():
            raise ConfigError("a sample without a body proves nothing; leave it out")


class ProviderSamples(msgspec.Struct, frozen=True, kw_only=True):
    """A codec and answers in its protocol, one for each thing that the protocol can express.

    profile: of the model that answers. text: a streamed answer of some words, with its usage. unicode: with U+2028,
    U+0085 and emoji as raw characters. broken_arguments: arguments that are no JSON. cut_arguments: the reply ended
    in the middle of them. thinking: with all that must go back, and a call where the protocol sends it back only
    then. overflow, refused_key: whole answers with their status. whole: the reply as one JSON body, not streamed.
    unknown_event: with events that nobody knows between the known ones. prompt: a body -> the prompt in it, in the
    order in which the provider caches it, left open at its end. picture: base64 of a picture that is sent.

    >>> from sapwood.llm.ollama import OllamaCodec
    >>> body = b'{"message": {"content": "Hi"}, "done": true, "done_reason": "stop"}'
    >>> text = Sample(body=body, content_type="application/x-ndjson", text="Hi")
    >>> ProviderSamples(codec=OllamaCodec(), profile=ModelProfile("ollama", "some"), text=text).refusal is None
    True
    """

    codec: Codec
    profile: ModelProfile
    text: Sample
    unicode: Sample | None = None
    empty: Sample | None = None
    tools: Sample | None = None
    parallel_tools: Sample | None = None
    no_argument_tools: Sample | None = None
    broken_arguments: Sample | None = None
    cut_arguments: Sample | None = None
    thinking: Sample | None = None
    refusal: Sample | None = None
    max_tokens: Sample | None = None
    overflow: Sample | None = None
    refused_key: Sample | None = None
    error_first: Sample | None = None
    error_later: Sample | None = None
    unknown_event: Sample | None = None
    whole: Sample | None = None
    prompt: Callable[[bytes], bytes] = prompt_bytes
    picture: str | None = PICTURE

    def streamed(self) -> dict[str, Sample]:
        """Return the samples that are streams of a reply, by name."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            name: sample
            for name, sample in found.items()
            if isinstance(sample, Sample) and sample.status == 200 and sample.error is None and name != "whole"
        }
