"""What a thread shows: its items, and the parts of an answer. A front end reads these and nothing else.

Law: the JSON of a part is the one of `packages/react`, name by name. Guide D's parts (`core.parts`) stand among them as
they are; what only a server's stream can tell is here.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.memory import MemoryRecord
from sapwood.core.parts import AgentContextPart, AgentMemoryPart, AgentTextPart, AgentToolPart
from sapwood.core.struct import Data

ToolState: TypeAlias = Literal["running", "waiting", "done", "denied", "error", "stopped"]
"""Where a call stands: `waiting` is for a person, or for a result from outside."""


class ThinkingPart(Data, frozen=True, tag="thinking"):
    """What the model thought before it answered or called a tool."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    text: str


class ToolPart(Data, frozen=True, tag="tool", rename="camel"):
    """A call of a tool, from the moment when the model made it.

    approval_id: what an answer names. approval: what is asked. external: its result is given from outside.
    error_text: why it failed. started_at: milliseconds since 1970. ms: how long it took, in milliseconds.
    """

    type: ClassVar[Literal["tool"]] = "tool"
    id: str
    name: str
    args: dict[str, Any]
    state: ToolState
    result: Any = None
    is_error: bool = False
    approval_id: str | None = None
    provider_executed: bool = False
    title: str = ""
    approval: dict[str, Any] | None = None
    external: bool = False
    error_text: str | None = None
    started_at: int | None = None
    ms: int | None = None


class ContextPart(Data, frozen=True, tag="context"):
    """A source put something into the context, loaded tools, saved something, or failed."""

    type: ClassVar[Literal["context"]] = "context"
    source: str
    op: Literal["recalled", "loaded", "saved", "failed"]
    records: tuple[MemoryRecord, ...] = ()
    tools: tuple[str, ...] = ()
    skill: str = ""


class SubagentPart(Data, frozen=True, tag="subagent"):
    """The turn of another agent that a tool started, with parts of its own. path: the calls that lead to it."""

    type: ClassVar[Literal["subagent"]] = "subagent"
    path: tuple[str, ...]
    agent: str
    parts: tuple["AssistantPart", ...]
    done: bool
    error: str | None = None


class CompactionPart(Data, frozen=True, tag="compaction", rename="camel"):
    """The history was shortened."""

    type: ClassVar[Literal["compaction"]] = "compaction"
    tokens_before: int
    tokens_after: int


class LedgerPart(Data, frozen=True, tag="ledger", rename="camel"):
    """What the request of a round held, in tokens by section; set before the request, and again after it.

    window: what the request may take. reported_tokens, cached_tokens, cost_usd: the provider's, once the round is over.
    """

    type: ClassVar[Literal["ledger"]] = "ledger"
    round: int
    max_rounds: int = 0
    sections: dict[str, int] = {}
    window: int = 0
    estimated_tokens: int = 0
    reported_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class OutputPart(Data, frozen=True, tag="output"):
    """The structured output so far. final: it is checked and complete."""

    type: ClassVar[Literal["output"]] = "output"
    value: Any
    final: bool = False


class LimitPart(Data, frozen=True, tag="limit"):
    """A limit was reached. asks: the run waits for a word on it. kind: what it counts."""

    type: ClassVar[Literal["limit"]] = "limit"
    kind: str
    name: str
    used: float
    limit: float
    scope: str = "run"
    tool: str = ""
    asks: bool = False


class FilePart(Data, frozen=True, tag="file", rename="camel"):
    """A file. url: a `data:` or `https:` address."""

    type: ClassVar[Literal["file"]] = "file"
    url: str
    media_type: str
    filename: str = ""


AssistantPart: TypeAlias = (
    AgentTextPart
    | AgentToolPart
    | AgentMemoryPart
    | AgentContextPart
    | ThinkingPart
    | ToolPart
    | ContextPart
    | SubagentPart
    | CompactionPart
    | LedgerPart
    | OutputPart
    | LimitPart
    | FilePart
)


class UserItem(Data, frozen=True, tag="user", tag_field="role"):
    """What the user said."""

    role: ClassVar[Literal["user"]] = "user"
    id: str
    text: str
    files: tuple[FilePart, ...] = ()


class ReplyItem(Data, frozen=True, tag="assistant", tag_field="role"):
    """What the assistant answered.

    metadata: from a server, whose run it is and how it ended. error: why it failed.
    """

    role: ClassVar[Literal["assistant"]] = "assistant"
    id: str
    parts: tuple[AssistantPart, ...] = ()
    metadata: dict[str, Any] | None = None
    error: str | None = None


AssistantItem: TypeAlias = UserItem | ReplyItem
