"""Events: everything that can happen in a turn, and the only way in which a Run changes.

Laws: these are the events that the user sees; there is no second log. An event of a subagent carries the
`path` of tool calls that led to it. Deltas are neither folded nor checkpointed.
The promised order is in `sapwood.testing.assert_ordered`.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, ResultPart
from sapwood.core.model import StopReason
from sapwood.core.struct import Data
from sapwood.core.usage import RoundUsage, Usage

Path: TypeAlias = tuple[str, ...]
Placement: TypeAlias = Literal["turn", "system"]


class Event(Data, frozen=True):
    """What all events have: the ids of the tool calls that led to the turn they belong to."""

    path: Path = ()

    @property
    def parent_tool_call_id(self) -> str | None:
        """The call whose subagent this event comes from; None at the top level."""
        return self.path[-1] if self.path else None


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn_started"):
    """A turn began; always the first event."""

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    run_id: str = ""
    prompt: Message | None = None


class TurnResumed(Event, frozen=True, kw_only=True, tag="turn_resumed"):
    """A turn goes on after a crash or a pause; the first event of a later segment."""

    type: ClassVar[Literal["turn_resumed"]] = "turn_resumed"
    run_id: str = ""


class ContextUpdated(Event, frozen=True, kw_only=True, tag="context_updated"):
    """A source put something into the context, loaded tools, saved something, or failed.

    text: what was recalled, as the model will see it; placement says where.
    tools: names of tools that became callable.
    """

    type: ClassVar[Literal["context_updated"]] = "context_updated"
    source: str
    op: Literal["recalled", "loaded", "saved", "failed"]
    records: tuple[MemoryRecord, ...] = ()
    tools: tuple[str, ...] = ()
    text: str = ""
    placement: Placement = "turn"
    error: str | None = None


class ContextPrepared(Event, frozen=True, kw_only=True, tag="context_prepared"):
    """The content of this turn is selected; lines tell what was taken and what was left out."""

    type: ClassVar[Literal["context_prepared"]] = "context_prepared"
    lines: tuple[LedgerLine, ...] = ()


class CompactionStarted(Event, frozen=True, kw_only=True, tag="compaction_started"):
    """The history is being shortened."""

    type: ClassVar[Literal["compaction_started"]] = "compaction_started"


class CompactionFinished(Event, frozen=True, kw_only=True, tag="compaction_finished"):
    """The history was shortened, or found to be short enough.

    past: the past messages from now on, None where they are a tail of what they were.
    upto: how many past messages, from the first, are left out.
    """

    type: ClassVar[Literal["compaction_finished"]] = "compaction_finished"
    tokens_before: int = 0
    tokens_after: int = 0
    upto: int = 0
    past: tuple[Message, ...] | None = None


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started"):
    """A model call begins. round counts from 0; ledger is the estimate of what is sent."""

    type: ClassVar[Literal["round_started"]] = "round_started"
    round: int
    max_rounds: int
    ledger: ContextLedger | None = None


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta", gc=False):
    """A piece of the answer."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    text: str


class ThinkingDelta(Event, frozen=True, kw_only=True, tag="thinking_delta", gc=False):
    """A piece of the model's thinking."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    text: str


class RoundRestarted(Event, frozen=True, kw_only=True, tag="round_restarted"):
    """What was streamed of this round is void; it starts again.

    reason: the error's class. model: `provider/model` that takes over, empty where it is the same.
    usage: what the void attempt had used, where it is known. room: where the provider said that the request is
    too long, the tokens to which the history is shortened before the round starts again; else 0.
    """

    type: ClassVar[Literal["round_restarted"]] = "round_restarted"
    round: int
    reason: str = ""
    model: str = ""
    usage: Usage | None = None
    room: int = 0


class ProviderWaiting(Event, frozen=True, kw_only=True, tag="provider_waiting"):
    """The model did not answer; it is asked again after these seconds.

    reason: what it said. model: `provider/model` that is asked. attempt: which try failed, from 1.
    """

    type: ClassVar[Literal["provider_waiting"]] = "provider_waiting"
    round: int
    seconds: float
    reason: str
    model: str = ""
    attempt: int = 1


class ServerToolStarted(Event, frozen=True, kw_only=True, tag="server_tool_started"):
    """The provider runs a tool of its own, such as a web search. tool_call_id: the provider's id of the call."""

    type: ClassVar[Literal["server_tool_started"]] = "server_tool_started"
    tool_call_id: str
    name: str
    tool_input: dict[str, Any] = {}


class ServerToolFinished(Event, frozen=True, kw_only=True, tag="server_tool_finished"):
    """A tool of the provider's own has ended. value: what it returned, as JSON; absent above 64 kB."""

    type: ClassVar[Literal["server_tool_finished"]] = "server_tool_finished"
    tool_call_id: str
    name: str
    value: Any = None
    is_error: bool = False


class MessageInterrupted(Event, frozen=True, kw_only=True, tag="message_interrupted"):
    """A reply was cut short: its text, without calls and thinking, marked partial.

    usage: what it had used, where the provider had told that.
    """

    type: ClassVar[Literal["message_interrupted"]] = "message_interrupted"
    message: Message
    reason: str = ""
    usage: Usage | None = None


class MessageAdded(Event, frozen=True, kw_only=True, tag="message_added"):
    """A message entered the transcript: a reply with its usage, or a word of the loop to the model."""

    type: ClassVar[Literal["message_added"]] = "message_added"
    message: Message
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    refuse_calls: bool = False


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started"):
    """The model called a tool; checks, hooks and approval follow.

    key: ours, unique in a run. tool_call_id: the provider's id where it is unique in the run, else the key.
    tool_input: what the model asked for, before anything changed it.
    """

    type: ClassVar[Literal["tool_started"]] = "tool_started"
    key: str
    tool_call_id: str
    name: str
    tool_input: dict[str, Any]


class ToolRunning(Event, frozen=True, kw_only=True, tag="tool_running"):
    """The function is about to be called; without a ToolFinished its outcome is unknown.

    digest: of the final input. attempt: 1 for the first.
    """

    type: ClassVar[Literal["tool_running"]] = "tool_running"
    key: str
    digest: str = ""
    attempt: int = 1


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool_finished"):
    """A call is answered. Finishes come in the order in which the tools end.

    result: the text that the model sees. value: the JSON form of what the tool returned, for parts and
    user interfaces, absent above 64 kB. content: parts beside the text (images, files), None without.
    details: for a user interface; never shown to the model.
    """

    type: ClassVar[Literal["tool_finished"]] = "tool_finished"
    key: str
    tool_call_id: str
    name: str
    result: str
    is_error: bool = False
    value: Any = None
    content: tuple[ResultPart, ...] | None = None
    details: Any = None
    loaded: tuple[str, ...] = ()


class RoundFinished(Event, frozen=True, kw_only=True, tag="round_finished"):
    """A round is over: its reply is in and every call is answered."""

    type: ClassVar[Literal["round_finished"]] = "round_finished"
    round: int
    usage: RoundUsage

    @property
    def ledger(self) -> ContextLedger | None:
        """What the request of the round held, with the provider's report."""
        return self.usage.ledger


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn_finished"):
    """The turn is over; the last event.

    text: the text of all rounds, joined. output: the JSON text of a structured output.
    """

    type: ClassVar[Literal["turn_finished"]] = "turn_finished"
    text: str
    diagnostics: TurnDiagnostics
    output: str | None = None

    @property
    def stopped_by(self) -> Cause:
        """Why the turn ended."""
        return self.diagnostics.stopped_by


AgentEvent: TypeAlias = (
    TurnStarted
    | TurnResumed
    | ContextUpdated
    | ContextPrepared
    | CompactionStarted
    | CompactionFinished
    | RoundStarted
    | TextDelta
    | ThinkingDelta
    | RoundRestarted
    | ProviderWaiting
    | ServerToolStarted
    | ServerToolFinished
    | MessageInterrupted
    | MessageAdded
    | ToolStarted
    | ToolRunning
    | ToolFinished
    | RoundFinished
    | TurnFinished
)
