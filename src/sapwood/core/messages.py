"""Messages and their parts: what a conversation is made of, in no provider's words.

Laws: a part holds no provider words. What a provider must get back (signatures, encrypted
reasoning, item ids) sits in `provider_data`, keyed by provider, and is dropped when the next
request goes to another one. Values are frozen; dictionaries inside them are never changed.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.struct import Data

ProviderData: TypeAlias = dict[str, Any]
"""Opaque state by provider name, for example `{"anthropic": {"signature": "..."}}`."""

Role: TypeAlias = Literal["user", "assistant", "tool"]

Problem: TypeAlias = Literal["incomplete", "malformed", "not_an_object"]
"""Why the arguments of a call could not be read: cut off, not JSON, or JSON of another kind."""


class Text(Data, frozen=True, tag="text"):
    """A piece of text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    provider_data: ProviderData | None = None


class Thinking(Data, frozen=True, tag="thinking"):
    """What a model thought before it answered; the text may be empty where only a signature is given."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    text: str
    provider_data: ProviderData | None = None


class Image(Data, frozen=True, tag="image"):
    """A picture, by `url` or as base64 `data` with its `media_type` (for example `image/png`)."""

    type: ClassVar[Literal["image"]] = "image"
    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None
    provider_data: ProviderData | None = None


class File(Data, frozen=True, tag="file"):
    """A document, by `url` or as base64 `data` with its `media_type` (for example `application/pdf`)."""

    type: ClassVar[Literal["file"]] = "file"
    data: str | None = None
    media_type: str = "application/pdf"
    url: str | None = None
    name: str | None = None
    provider_data: ProviderData | None = None


class Recalled(Data, frozen=True, tag="recalled"):
    """Text that a source placed beside the user's prompt, kept so that later requests repeat it.

    loaded: names of lazily loaded tools that the text made callable.
    """

    type: ClassVar[Literal["recalled"]] = "recalled"
    text: str
    source: str = ""
    loaded: tuple[str, ...] = ()


class ToolCall(Data, frozen=True, tag="tool_call"):
    """A request of the model to run a tool.

    name: the tool's own name, as its author wrote it.
    arguments: the parsed arguments; empty where `problem` says that they could not be read.
    key: ours, `r<round>c<index>`, unique in a run; empty until the reply is complete.
    id: the provider's id, which only ever goes back on the wire; may be empty or repeated.
    raw: the argument text as it came, kept only where it could not be read.
    """

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    name: str
    arguments: dict[str, Any] = {}
    key: str = ""
    id: str = ""
    raw: str | None = None
    problem: Problem | None = None
    provider_data: ProviderData | None = None


ResultPart: TypeAlias = Text | Image | File


class ToolResult(Data, frozen=True, tag="tool_result"):
    """The answer to one tool call.

    key: the key of the call that it answers.
    content: what the model sees; never empty.
    loaded: names of tools that became callable with this result.
    details: for a UI only; never shown to the model.
    whole: what the model saw before a compaction put a shorter text in its place; None where nothing did. It is
    kept so that it can be read again, and never sent by itself.
    skill: the name of the skill whose instructions this result carries; what is active is read from here.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    key: str
    name: str
    content: tuple[ResultPart, ...]
    is_error: bool = False
    loaded: tuple[str, ...] = ()
    details: Any = None
    whole: tuple[ResultPart, ...] | None = None
    skill: str = ""

    @property
    def text(self) -> str:
        """The text of the result, images and files left out."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


class Summary(Data, frozen=True, tag="summary"):
    """What stands for messages that a compaction took out.

    loaded: names of lazily loaded tools that the replaced messages had made callable.
    """

    type: ClassVar[Literal["summary"]] = "summary"
    text: str
    loaded: tuple[str, ...] = ()
    provider_data: ProviderData | None = None


class Opaque(Data, frozen=True, tag="opaque"):
    """A block that only its provider understands (a server-side tool, a citation set).

    kind: the provider's own word for it. The block itself is in `provider_data`.
    text: what any other model may read in its place, such as a summary; empty where nothing is lost without it.
    loaded: names, as the provider has them, of tools that its own search made callable.
    """

    type: ClassVar[Literal["opaque"]] = "opaque"
    kind: str
    provider_data: ProviderData
    text: str = ""
    loaded: tuple[str, ...] = ()


Part: TypeAlias = Text | Thinking | Image | File | Recalled | ToolCall | ToolResult | Summary | Opaque
InputPart: TypeAlias = Text | Image | File
"""What a caller may put into a prompt."""


class Message(Data, frozen=True, tag="message"):
    """One message of a conversation.

    origin: `provider/model` of the model that wrote it; thinking goes back only there.
    partial: the reply was cut short; it holds the text that had arrived and nothing else.
    pinned: no compaction takes it out of the context.
    """

    type: ClassVar[Literal["message"]] = "message"
    role: Role
    content: tuple[Part, ...]
    origin: str | None = None
    partial: bool = False
    pinned: bool = False

    @classmethod
    def user(cls, *content: str | InputPart, pinned: bool = False) -> "Message":
        """Return a user's message made of texts, images and files; a pinned one stays in the context for good.

        >>> Message.user("hello").text
        'hello'
        """
        return cls("user", tuple(Text(part) if isinstance(part, str) else part for part in content), pinned=pinned)

    @classmethod
    def assistant(cls, *content: str | Part) -> "Message":
        """Return an assistant's message made of texts and other parts.

        >>> Message.assistant("hi").role
        'assistant'
        """
        return cls("assistant", tuple(Text(part) if isinstance(part, str) else part for part in content))

    @property
    def text(self) -> str:
        """The text parts, joined; thinking, recalled text and results are left out."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order in which the model made them."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results, in call order."""
        return tuple(part for part in self.content if isinstance(part, ToolResult))
