"""Events: everything that can happen in a turn, and the only way in which a Run changes.

Laws: these are the events that the user sees; there is no second log. An event of a subagent carries the
`path` of tool calls that led to it. Deltas are neither folded nor checkpointed.
The promised order is in `sapwood.testing.assert_ordered`.
"""

from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.approval import ApprovalRequest, WaitKind
from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.limits import LimitBreach, LimitKind, LimitScope
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
    """A turn began; always the first event. agent: the name of the subagent whose turn it is."""

    type: ClassVar[Literal["turn_started"]] = "turn_started"
    run_id: str = ""
    prompt: Message | None = None
    agent: str = ""


class TurnResumed(Event, frozen=True, kw_only=True, tag="turn_resumed"):
    """A turn goes on after a crash or a pause; the first event of a later segment.

    asks_again: there is somebody to ask now, so the approvals that were waited for are asked for once more.
    """

    type: ClassVar[Literal["turn_resumed"]] = "turn_resumed"
    run_id: str = ""
    asks_again: bool = False


class ContextUpdated(Event, frozen=True, kw_only=True, tag="context_updated"):
    """A source put something into the context, loaded tools, saved something, or failed.

    text: what was recalled, as the model will see it; placement says where.
    tools: names of tools that became callable, also by a text beside the prompt. skill: the name of the skill that was
    activated by it.
    """

    type: ClassVar[Literal["context_updated"]] = "context_updated"
    source: str
    op: Literal["recalled", "loaded", "saved", "failed"]
    records: tuple[MemoryRecord, ...] = ()
    tools: tuple[str, ...] = ()
    text: str = ""
    placement: Placement = "turn"
    error: str | None = None
    skill: str = ""


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
    results: by the key of a call of this turn, what the model sees from now on in place of its result.
    own_upto: how many messages of this turn, from the first after the prompt, are left out.
    lines: what was done, for the ledger of the next call. usage: what a model used that wrote the summary.
    """

    type: ClassVar[Literal["compaction_finished"]] = "compaction_finished"
    tokens_before: int = 0
    tokens_after: int = 0
    upto: int = 0
    past: tuple[Message, ...] | None = None
    results: dict[str, str] = {}
    own_upto: int = 0
    lines: tuple[LedgerLine, ...] = ()
    usage: Usage | None = None


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started"):
    """A model call begins. round counts from 0; ledger is the estimate of what is sent.

    wrap_up: why this is the last round, whatever comes of it, where that was decided before its time.
    """

    type: ClassVar[Literal["round_started"]] = "round_started"
    round: int
    max_rounds: int
    ledger: ContextLedger | None = None
    wrap_up: Cause | None = None


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
    """A message entered the transcript: a reply with its usage, or a word of the loop to the model.

    nudge: what the loop's word is about: calls that repeat themselves, or the output that is still owed.
    refuse_calls: the reply was the last one, so its calls are not run; takes_output: but that of `final_result` is.
    """

    type: ClassVar[Literal["message_added"]] = "message_added"
    message: Message
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    refuse_calls: bool = False
    takes_output: bool = False
    nudge: Literal["stuck", "output"] | None = None


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


class ApprovalRequested(Event, frozen=True, kw_only=True, tag="approval_requested"):
    """A call waits for a person, or for a result from outside.

    tool_input: what the function will get, as JSON. raw_input: what it is made of again, None where it is the same.
    digest: of tool and input; tool_version: of the tool's definition. Both must still hold when it is answered.
    expires_at: after that, the call counts as denied.
    """

    type: ClassVar[Literal["approval_requested"]] = "approval_requested"
    key: str
    tool_call_id: str
    name: str
    tool_input: dict[str, Any]
    raw_input: dict[str, Any] | None = None
    digest: str = ""
    tool_version: str = ""
    kind: WaitKind = "approval"
    reason: str | None = None
    expires_at: datetime | None = None

    def request(self, run_id: str) -> ApprovalRequest:
        """Return what is shown to the person who answers."""
        return ApprovalRequest(
            self.tool_call_id,
            self.name,
            self.tool_input,
            path=self.path,
            key=self.key,
            kind=self.kind,
            reason=self.reason,
            expires_at=self.expires_at,
            run_id=run_id,
        )


class ApprovalResolved(Event, frozen=True, kw_only=True, tag="approval_resolved"):
    """A call that waited was answered.

    digest: of the request that was answered. updated_input: the arguments to use instead. by: who answered.
    value, is_error: the result of a tool that runs outside.
    """

    type: ClassVar[Literal["approval_resolved"]] = "approval_resolved"
    key: str
    tool_call_id: str
    name: str
    approved: bool
    reason: str | None = None
    updated_input: dict[str, Any] | None = None
    digest: str = ""
    by: str | None = None
    value: Any = None
    is_error: bool = False


class ToolRunning(Event, frozen=True, kw_only=True, tag="tool_running"):
    """The function is about to be called; without a ToolFinished its outcome is unknown.

    digest: of tool and final input. attempt: 1 for the first. changed_input: what the input is made of, where a hook
    or a person changed what the model asked for; None otherwise.
    """

    type: ClassVar[Literal["tool_running"]] = "tool_running"
    key: str
    digest: str = ""
    attempt: int = 1
    changed_input: dict[str, Any] | None = None


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool_finished"):
    """A call is answered. Finishes come in the order in which the tools end.

    result: the text that the model sees. value: the JSON form of what the tool returned, for parts and
    user interfaces, absent above 64 kB. content: parts beside the text (images, files), None without.
    details: for a user interface; never shown to the model.
    fingerprint: of the whole result, before it was cut. limit: the limit that refused the call, None otherwise.
    output: the JSON text of a structured output that was recorded. output_error: why it was refused.
    skill: the name of the skill whose instructions the result carries. shown: of an error that tells of the program's
    inside, what a user interface shows in place of the result; None where the result itself may be shown.
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
    fingerprint: str = ""
    limit: LimitBreach | None = None
    output: str | None = None
    output_error: str | None = None
    skill: str = ""
    shown: str | None = None


class OutputDelta(Event, frozen=True, kw_only=True, tag="output_delta", gc=False):
    """The structured output so far, while the model still writes it.

    value: as JSON; what is complete in it fits its type, what does not fit is left out.
    """

    type: ClassVar[Literal["output_delta"]] = "output_delta"
    value: Any = None


class OutputChecked(Event, frozen=True, kw_only=True, tag="output_checked"):
    """The text of a reply was read as the structured output.

    output: its JSON text where it fits; error: why it does not.
    """

    type: ClassVar[Literal["output_checked"]] = "output_checked"
    output: str | None = None
    error: str | None = None


class UsageLimitReached(Event, frozen=True, kw_only=True, tag="usage_limit_reached"):
    """A usage limit was reached; it comes after the round that crossed it, or before the call that would have.

    used: what was used, or would be by the next call. scope: `run` for the pool of a tree of agents, `turn` for an
    agent's own limit. tool: for the limit of one tool, its name.
    """

    type: ClassVar[Literal["usage_limit_reached"]] = "usage_limit_reached"
    kind: LimitKind
    used: float
    limit: float
    scope: LimitScope = "run"
    tool: str = ""


class LimitExtended(Event, frozen=True, kw_only=True, tag="limit_extended"):
    """A person raised a limit, or said (with an amount of 0) that it stands.

    kind: the kind of limit, or `tool:<name>`. by: who did it.
    """

    type: ClassVar[Literal["limit_extended"]] = "limit_extended"
    kind: str
    amount: float
    scope: LimitScope = "run"
    by: str | None = None


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
    | ApprovalRequested
    | ApprovalResolved
    | ToolRunning
    | ToolFinished
    | OutputDelta
    | OutputChecked
    | UsageLimitReached
    | LimitExtended
    | RoundFinished
    | TurnFinished
)
