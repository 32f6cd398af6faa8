"""The chunks of the AI SDK UI message stream that sapwood sends: version 6's set, and data parts of our own.

Laws: an absent field is left out, never null; no type that only a later version knows; names are the wire's, so the
fields are camelCase there. `packages/react/src/wire.ts` is made of this file.
Source: npm `ai` 6, `UIMessageChunk`.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from sapwood.core.approval import WaitKind
from sapwood.core.diagnostics import Cause
from sapwood.core.limits import LimitKind, LimitScope
from sapwood.core.memory import MemoryRecord

FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """A value of the wire: what has its default is left out."""


class Chunk(Wire, frozen=True, kw_only=True):
    """A line of the stream."""


# -- the message -----------------------------------------------------------------------------------


class TokenCount(Wire, frozen=True, kw_only=True):
    """What a turn used, its subagents included. cost_usd: None where a price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


class MessageMetadata(Wire, frozen=True, kw_only=True):
    """What a message says of itself: whose run it is, and at the end why that ended and what it used.

    stopped_by: empty while the run goes on. started_at: milliseconds since 1970.
    """

    run_id: str
    thread_id: str = ""
    stopped_by: Cause | Literal[""] = ""
    usage: TokenCount | None = None
    started_at: int = 0


class Start(Chunk, frozen=True, kw_only=True, tag="start"):
    """The message begins, or goes on where its id is that of the last one."""

    message_id: str
    message_metadata: MessageMetadata | None = None


class StartStep(Chunk, frozen=True, kw_only=True, tag="start-step"):
    """A model call begins."""


class FinishStep(Chunk, frozen=True, kw_only=True, tag="finish-step"):
    """A model call and its tools are over."""


class Finish(Chunk, frozen=True, kw_only=True, tag="finish"):
    """The stream is over."""

    finish_reason: FinishReason
    message_metadata: MessageMetadata | None = None


class Abort(Chunk, frozen=True, kw_only=True, tag="abort"):
    """The run was stopped."""

    reason: str = ""


class Error(Chunk, frozen=True, kw_only=True, tag="error"):
    """The run failed. error_text: generic, with a request id; never what an exception said."""

    error_text: str


# -- text ------------------------------------------------------------------------------------------


class TextStart(Chunk, frozen=True, kw_only=True, tag="text-start"):
    """A text begins. id: unique in the message."""

    id: str


class TextDelta(Chunk, frozen=True, kw_only=True, tag="text-delta"):
    """A piece of a text."""

    id: str
    delta: str


class TextEnd(Chunk, frozen=True, kw_only=True, tag="text-end"):
    """A text is complete."""

    id: str


class ReasoningStart(Chunk, frozen=True, kw_only=True, tag="reasoning-start"):
    """The model begins to think."""

    id: str


class ReasoningDelta(Chunk, frozen=True, kw_only=True, tag="reasoning-delta"):
    """A piece of the model's thinking."""

    id: str
    delta: str


class ReasoningEnd(Chunk, frozen=True, kw_only=True, tag="reasoning-end"):
    """The model has ended to think."""

    id: str


class FilePart(Chunk, frozen=True, kw_only=True, tag="file"):
    """A file that the assistant gives. url: a `data:` or `https:` address."""

    url: str
    media_type: str


# -- tools -----------------------------------------------------------------------------------------


class ToolInputStart(Chunk, frozen=True, kw_only=True, tag="tool-input-start"):
    """The model called a tool; its arguments follow at once."""

    tool_call_id: str
    tool_name: str
    dynamic: bool = False
    title: str = ""


class ToolInputAvailable(Chunk, frozen=True, kw_only=True, tag="tool-input-available"):
    """The arguments of a call. provider_executed: the client is not to run it; false for a tool that runs outside."""

    tool_call_id: str
    tool_name: str
    input: Any
    dynamic: bool = False
    provider_executed: bool = False


class ToolApprovalRequest(Chunk, frozen=True, kw_only=True, tag="tool-approval-request"):
    """A call waits for a yes or no."""

    approval_id: str
    tool_call_id: str


class ToolOutputAvailable(Chunk, frozen=True, kw_only=True, tag="tool-output-available"):
    """What a call returned."""

    tool_call_id: str
    output: Any
    dynamic: bool = False
    provider_executed: bool = False


class ToolOutputError(Chunk, frozen=True, kw_only=True, tag="tool-output-error"):
    """A call failed."""

    tool_call_id: str
    error_text: str
    dynamic: bool = False
    provider_executed: bool = False


class ToolOutputDenied(Chunk, frozen=True, kw_only=True, tag="tool-output-denied"):
    """A person said no to a call."""

    tool_call_id: str


# -- data parts of our own -------------------------------------------------------------------------


class ContextNote(Wire, frozen=True, kw_only=True):
    """A source put something into the context, loaded tools, saved something, or failed."""

    source: str
    op: Literal["recalled", "loaded", "saved", "failed"]
    records: tuple[MemoryRecord, ...] = ()
    tools: tuple[str, ...] = ()
    skill: str = ""


class DataContext(Chunk, frozen=True, kw_only=True, tag="data-context"):
    """A change of the context."""

    data: ContextNote


class LedgerNote(Wire, frozen=True, kw_only=True):
    """What the request of a round held, in tokens by section; the lines are at `/api/runs/{id}/context`.

    window: what the request may take. reported_tokens, cached_tokens, cost_usd: the provider's, once the round is over.
    """

    round: int
    max_rounds: int = 0
    sections: dict[str, int] = {}
    window: int = 0
    estimated_tokens: int = 0
    reported_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class DataLedger(Chunk, frozen=True, kw_only=True, tag="data-ledger"):
    """The ledger of a round, twice: before the request, and with the provider's report. id: `round-<n>`."""

    id: str
    data: LedgerNote


class CompactionNote(Wire, frozen=True, kw_only=True):
    """The history was shortened."""

    tokens_before: int
    tokens_after: int


class DataCompaction(Chunk, frozen=True, kw_only=True, tag="data-compaction"):
    """The history was shortened."""

    data: CompactionNote


class ApprovalNote(Wire, frozen=True, kw_only=True):
    """What a person is asked.

    id: names it in an answer. kind: `approval` for a yes or no; `external` for a result from outside; `unknown` for a
    word on a call whose outcome a crash hid. input: what the function will get. expires_at: milliseconds since 1970.
    """

    id: str
    tool_call_id: str
    name: str
    input: dict[str, Any]
    kind: WaitKind
    reason: str = ""
    expires_at: int | None = None
    path: tuple[str, ...] = ()


class DataApproval(Chunk, frozen=True, kw_only=True, tag="data-approval"):
    """What a person is asked, beside `tool-approval-request`. id: of the request."""

    id: str
    data: ApprovalNote


class LimitNote(Wire, frozen=True, kw_only=True):
    """A limit was reached. name: what `extend` calls it. asks: the run waits for a word on it."""

    kind: LimitKind
    name: str
    used: float
    limit: float
    scope: LimitScope = "run"
    tool: str = ""
    asks: bool = False


class DataLimit(Chunk, frozen=True, kw_only=True, tag="data-limit"):
    """A limit was reached. id: `limit-<name>`."""

    id: str
    data: LimitNote


class OutputNote(Wire, frozen=True, kw_only=True):
    """The structured output so far. final: it is checked and complete."""

    value: Any
    final: bool = False


class DataOutput(Chunk, frozen=True, kw_only=True, tag="data-output"):
    """The structured output. id: `output`. transient: it still grows, and is not a part of the message yet."""

    id: str
    data: OutputNote
    transient: bool = False


class ToolTime(Wire, frozen=True, kw_only=True):
    """How long a call took, the time that a person took to answer included.

    started_at: milliseconds since 1970. ms: milliseconds.
    """

    tool_call_id: str
    started_at: int
    ms: int


class DataToolTime(Chunk, frozen=True, kw_only=True, tag="data-tool-time"):
    """How long a call took. id: `time-<call>`."""

    id: str
    data: ToolTime


class VoidNote(Wire, frozen=True, kw_only=True):
    """Texts that no longer count, as the model's reply broke off and began anew. ids: of text and reasoning parts."""

    ids: tuple[str, ...]


class DataVoid(Chunk, frozen=True, kw_only=True, tag="data-void"):
    """A reply began anew: take out what it had streamed."""

    data: VoidNote


class WaitingNote(Wire, frozen=True, kw_only=True):
    """The model did not answer and is asked again. attempt: which try failed, from 1."""

    round: int
    seconds: float
    attempt: int


class DataWaiting(Chunk, frozen=True, kw_only=True, tag="data-waiting"):
    """The model is asked again in some seconds; not a part of the message."""

    data: WaitingNote
    transient: Literal[True]


class SubagentChunk(Wire, frozen=True, kw_only=True):
    """A chunk of a subagent's turn. path: the calls that lead to it."""

    path: tuple[str, ...]
    agent: str
    chunk: "AnyChunk"


class DataSubagentChunk(Chunk, frozen=True, kw_only=True, tag="data-subagent-chunk"):
    """A chunk of a subagent's turn, as it comes; not a part of the message."""

    data: SubagentChunk
    transient: Literal[True]


class SubagentNote(Wire, frozen=True, kw_only=True):
    """A subagent's turn, as the parts of a message."""

    path: tuple[str, ...]
    agent: str
    parts: list[dict[str, Any]] = []


class DataSubagent(Chunk, frozen=True, kw_only=True, tag="data-subagent"):
    """A subagent's turn that has ended. id: the calls that lead to it, joined by `/`."""

    id: str
    data: SubagentNote


AnyChunk: TypeAlias = (
    Start
    | StartStep
    | FinishStep
    | Finish
    | Abort
    | Error
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | FilePart
    | ToolInputStart
    | ToolInputAvailable
    | ToolApprovalRequest
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | DataContext
    | DataLedger
    | DataCompaction
    | DataApproval
    | DataLimit
    | DataOutput
    | DataToolTime
    | DataVoid
    | DataWaiting
    | DataSubagentChunk
    | DataSubagent
)
