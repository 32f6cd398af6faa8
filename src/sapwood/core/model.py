"""Models behind one protocol: what is asked, what streams back, and what is known of a model.

Laws: a reply is complete only when its provider said so; facts about models are data (a profile), never
an `if` on a name.
"""

from collections.abc import AsyncIterable, Iterable
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

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
ToolChoiceMode: TypeAlias = Literal["auto", "any", "none"]
ThinkingMode: TypeAlias = Literal["none", "budget", "adaptive", "effort", "level", "switch", "any"]
"""How thinking is asked for: by tokens, as the model sees fit, by effort, by level, on or off; or not at all.

`any` takes tokens, an effort or a switch, and passes them on (a gateway).
"""
OutputMode: TypeAlias = Literal["native", "tool", "prompted"]
CacheTtl: TypeAlias = Literal["5m", "1h"]


class ModelProfile(Data, frozen=True, tag="model_profile"):
    """What is known of a model.

    context_window, max_output_tokens: in tokens; 0 means unknown.
    tool_loading: how a tool found in mid-turn becomes callable.
    free_objects: an argument may be an object without declared properties.
    cache_marks: the request says where the cached prefix ends. cache_minimum_tokens: a shorter prefix is not
    cached. cache_key: the request may name the cache it belongs to. cache_ttls: how long it may be kept.
    max_tokens_field: the provider's word for the cap on the reply.
    system_role: the role of the system text where it is a message.
    forced_tool_choice: a call of a tool may be demanded. forced_word: the word for it in Chat Completions.
    named_tool_choice: of one tool, too, where its protocol has a form for that.
    images, files: what the model reads. result_images: also in tool results.
    tool_overhead_tokens: fixed tokens that the provider adds once tools are given.
    thinking: how thinking is asked for. structured_output: how an output of a given shape is best had.
    schema_beside_tools: a shape may be demanded of the answer while tools are offered, and they are still called.
    refused_parameters: sampling parameters that the model does not take, such as `temperature`.
    max_tool_name: characters of a tool's name at most. short_call_ids: ids of calls are nine letters and digits.
    stream_usage: usage must be asked for in a stream, and may be.
    returned_thinking: how a chat server wants its thinking back: the field that every reply must have, or
    `<think>` for tags in the text; empty for what it gave itself. kept_thinking: it is told to read what comes back.
    known: the table names the model, and not only its provider.
    call_signatures: the model demands a signature on the first call of each reply that is sent back to it.
    thinks: it thinks unless it is told not to. always_thinks: it refuses to be told so.
    encrypted_thinking: the server gives its reasoning encrypted where it is asked for that, and wants it back.
    tokens_per_estimate, tokens_per_tool_estimate: how many of its tokens an estimated token of text, and of a
    tool's definition, is. request_overhead_tokens, tool_call_tokens: fixed tokens that the provider adds to each
    request, and to each call with its result. image_tokens: what any picture takes, however small.
    native_tools: tools that the model was taught and that are declared by a word of the provider's alone
    (`ToolSchema.native`), each with the tokens that it adds to a request.
    context_edits: edits of a long context that the provider makes itself, by Anthropic's words for them, each with the
    beta feature that a request has to name, empty for none.
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
    cache_minimum_tokens: int = 0
    cache_key: bool = False
    cache_ttls: tuple[CacheTtl, ...] = ("5m",)
    forced_word: str = "required"
    result_images: bool = True
    thinking: ThinkingMode = "none"
    structured_output: OutputMode = "tool"
    refused_parameters: tuple[str, ...] = ()
    max_tool_name: int = 64
    short_call_ids: bool = False
    stream_usage: bool = True
    returned_thinking: str = ""
    known: bool = True
    kept_thinking: bool = False
    call_signatures: bool = False
    always_thinks: bool = False
    thinks: bool = False
    encrypted_thinking: bool = False
    tokens_per_estimate: float = 1.0
    tokens_per_tool_estimate: float = 1.0
    request_overhead_tokens: int = 0
    tool_call_tokens: int = 12
    image_tokens: int = 0
    named_tool_choice: bool = True
    schema_beside_tools: bool = True
    native_tools: tuple[tuple[str, int], ...] = ()
    context_edits: tuple[tuple[str, str], ...] = ()

    def native_tokens(self, tool: ToolSchema) -> int | None:
        """Return the tokens of a tool that is declared in the provider's own way, None where it is not.

        >>> ModelProfile(native_tools=(("memory_20250818", 1050),)).native_tokens(ToolSchema("memory")) is None
        True
        """
        return next((tokens for word, tokens in self.native_tools if word == tool.native), None)

    def edits(self, kind: str) -> bool:
        """Tell whether the provider makes this edit of a long context itself.

        >>> ModelProfile(context_edits=(("compact_20260112", "compact-2026-01-12"),)).edits("compact_20260112")
        True
        """
        return any(known == kind for known, _ in self.context_edits)

    @property
    def origin(self) -> str:
        """`provider/model`, the mark that messages of this model carry."""
        return f"{self.provider}/{self.model}"


class NamedTool(Data, frozen=True, tag="named_tool"):
    """The one tool that the model must call, by its own name.

    A protocol that cannot name one demands any call; where a call cannot be demanded at all, it is `auto`.

    >>> from sapwood.core.transcript import Transcript
    >>> ModelRequest(Transcript(), tools=(ToolSchema("finish"),), tool_choice=NamedTool("finish")).tool_choice.name
    'finish'
    """

    type: ClassVar[Literal["named_tool"]] = "named_tool"
    name: str


ToolChoice: TypeAlias = ToolChoiceMode | NamedTool
"""Whether a tool is called: as the model sees fit, some tool must, none may, or this one must."""


class CachePlan(Data, frozen=True, tag="cache_plan"):
    """What a request says of the provider's prompt cache.

    ttl: how long the cached prefix is kept. prefix, messages: a mark stands after tools and system text, and
    at the end of the messages. earlier: one may stand where the request before this one ended, too.
    key: names the cache where the provider routes by it; empty for none.
    stable: how many of the system texts do not change from turn to turn; None for all of them.
    """

    type: ClassVar[Literal["cache_plan"]] = "cache_plan"
    ttl: CacheTtl = "5m"
    prefix: bool = True
    messages: bool = True
    key: str = ""
    stable: int | None = None
    earlier: bool = True


class ModelRequest(msgspec.Struct, frozen=True):
    """What a model is asked: stable things first, then the transcript, which only grows.

    system: texts in their order; what changes from turn to turn comes last.
    max_tokens: the reply's cap; None leaves it to the provider where it allows that.
    notice: a last word of the loop to the model, after the transcript and not part of it.
    cache: what is said of the prompt cache; None for nothing. output_schema: the JSON Schema that the answer
    must fit, where the model takes one; None for free text.
    context_edits: what the provider does itself about a long context, in Anthropic's form; a codec sends those that
    the profile has.
    found: tools that are not among `tools`, as their definitions came with results of the transcript; a protocol
    that has a form for it sends them there.
    """

    transcript: Transcript
    system: tuple[str, ...] = ()
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice | None = None
    max_tokens: int | None = None
    notice: str | None = None
    cache: CachePlan | None = CachePlan()
    output_schema: dict[str, Any] | None = None
    context_edits: tuple[dict[str, Any], ...] = ()
    found: tuple[ToolSchema, ...] = ()


class TextChunk(Data, frozen=True, tag="text_chunk", gc=False):
    """A piece of the answer, as it arrived."""

    type: ClassVar[Literal["text_chunk"]] = "text_chunk"
    text: str


class ThinkingChunk(Data, frozen=True, tag="thinking_chunk", gc=False):
    """A piece of the model's thinking, as it arrived."""

    type: ClassVar[Literal["thinking_chunk"]] = "thinking_chunk"
    text: str


class ToolDeltaChunk(Data, frozen=True, tag="tool_delta_chunk", gc=False):
    """A piece of the argument text of a tool call, as it arrived; the call itself comes whole, in the reply.

    index: which call of the reply, counted from 0. name: what the model called, on the first chunk of a call, which
    may have no text yet; empty on later ones. Protocols that give calls whole (Gemini, Ollama) send none, and so does
    a reply that was not streamed.
    """

    type: ClassVar[Literal["tool_delta_chunk"]] = "tool_delta_chunk"
    index: int
    name: str = ""
    text: str = ""


class ServerCallChunk(Data, frozen=True, tag="server_call_chunk"):
    """The provider runs a tool of its own (a web search, code): its call. id joins it to its result."""

    type: ClassVar[Literal["server_call_chunk"]] = "server_call_chunk"
    id: str
    name: str
    arguments: dict[str, Any] = {}


class ServerResultChunk(Data, frozen=True, tag="server_result_chunk"):
    """What a tool of the provider's own returned, as the provider tells it."""

    type: ClassVar[Literal["server_result_chunk"]] = "server_result_chunk"
    id: str
    name: str
    result: Any = None
    is_error: bool = False


class UsageChunk(Data, frozen=True, tag="usage_chunk"):
    """What the reply has used so far; it counts where the reply never becomes complete."""

    type: ClassVar[Literal["usage_chunk"]] = "usage_chunk"
    usage: Usage


class RestartChunk(Data, frozen=True, tag="restart_chunk"):
    """What was streamed is void: another provider starts the reply again. origin: its `provider/model`."""

    type: ClassVar[Literal["restart_chunk"]] = "restart_chunk"
    reason: str
    origin: str


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


StreamChunk: TypeAlias = (
    TextChunk | ThinkingChunk | ToolDeltaChunk | ServerCallChunk | ServerResultChunk | UsageChunk | RestartChunk | Reply
)


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
