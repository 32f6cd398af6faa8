"""Models behind one protocol: what is asked, what streams back, and what is known of a model.

Laws: a reply is complete only when its provider said so; facts about models are data (a profile), never
an `if` on a name.
"""

from collections.abc import AsyncIterable, Iterable
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from sapwood.core.messages import Part
from sapwood.core.struct import Data
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage

T = TypeVar("T")
AnyIterable: TypeAlias = Iterable[T] | AsyncIterable[T]

StopReason: TypeAlias = Literal[
    "stop",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "content_filter",
    "context_window",
]
ToolLoading: TypeAlias = Literal["deferred", "inline", "dispatch", "relist"]
ToolChoice: TypeAlias = Literal["auto", "any", "none"]


class ModelProfile(Data, frozen=True, tag="model_profile"):
    """What is known of a model.

    context_window, max_output_tokens: in tokens; 0 means unknown.
    tool_loading: how a tool found in mid-turn becomes callable.
    free_objects: an argument may be an object without declared properties.
    cache_marks: the request says where the cached prefix ends.
    max_tokens_field: the provider's word for the cap on the reply.
    system_role: the role of the system text where it is a message.
    forced_tool_choice: a call of a tool may be demanded.
    tool_overhead_tokens: fixed tokens that the provider adds once tools are given.
    """

    type: ClassVar[Literal["model_profile"]] = "model_profile"
    provider: str = ""
    model: str = ""
    context_window: int = 0
    max_output_tokens: int = 0
    tool_loading: ToolLoading = "dispatch"
    free_objects: bool = True
    cache_marks: bool = False
    max_tokens_field: str = "max_tokens"
    system_role: str = "system"
    forced_tool_choice: bool = True
    images: bool = True
    files: bool = True
    tool_overhead_tokens: int = 0

    @property
    def origin(self) -> str:
        """`provider/model`, the mark that messages of this model carry."""
        return f"{self.provider}/{self.model}"


class ModelRequest(msgspec.Struct, frozen=True):
    """What a model is asked: stable things first, then the transcript, which only grows.

    system: texts in their order; what changes from turn to turn comes last.
    max_tokens: the reply's cap; None leaves it to the provider where it allows that.
    notice: a last word of the loop to the model, after the transcript and not part of it.
    """

    transcript: Transcript
    system: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice | None = None
    max_tokens: int | None = None
    notice: str | None = None


class TextChunk(Data, frozen=True, tag="text_chunk", gc=False):
    """A piece of the answer, as it arrived."""

    type: ClassVar[Literal["text_chunk"]] = "text_chunk"
    text: str


class ThinkingChunk(Data, frozen=True, tag="thinking_chunk", gc=False):
    """A piece of the model's thinking, as it arrived."""

    type: ClassVar[Literal["thinking_chunk"]] = "thinking_chunk"
    text: str


class Reply(Data, frozen=True, tag="reply"):
    """The whole reply; the last chunk of a stream. A stream without it has broken off.

    Tool calls carry the names that the model used and no keys yet.
    usage: None where the provider reports nothing.
    model: the model that answered, where it says so. origin: `provider/model` of the profile that was asked,
    where that is not the provider's own (a chain of providers); empty otherwise.
    """

    type: ClassVar[Literal["reply"]] = "reply"
    content: tuple[Part, ...] = ()
    stop_reason: StopReason = "stop"
    usage: Usage | None = None
    model: str = ""
    request_id: str | None = None
    origin: str = ""


StreamChunk: TypeAlias = TextChunk | ThinkingChunk | Reply


@runtime_checkable
class LLMProvider(Protocol):
    """A model that can be asked.

    `stream` returns chunks, iterable, async-iterable or both; the last is a `Reply`. It raises an
    `LLMError`. Nothing is sent before the first chunk is asked for.
    """

    @property
    def profile(self) -> ModelProfile:
        """What is known of the model."""
        ...

    def stream(self, request: ModelRequest) -> AnyIterable[StreamChunk]:
        """Ask the model."""
        ...
