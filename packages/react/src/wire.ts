// Drawn by scripts/draw_types.py from the Python side; do not edit. A test checks that it is current.

/** A line of the stream. */
export type AnyChunk =
  | Start
  | StartStep
  | FinishStep
  | Finish
  | Abort
  | ErrorChunk
  | TextStart
  | TextDelta
  | TextEnd
  | ReasoningStart
  | ReasoningDelta
  | ReasoningEnd
  | FileChunk
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
  | DataSubagent;

/** A part of a turn, as `run_agent` and an agent's parts give it. */
export type AgentPart =
  | AgentTextPart
  | AgentToolPart
  | AgentMemoryPart
  | AgentContextPart;

/** The run was stopped. */
export interface Abort {
  readonly type: "abort";
  readonly reason?: string;
}

/**
 * An event of a context manager: records recalled or saved, or names of tools that became callable.
 *
 * skill: the name of the skill that made them so, None where it was a search.
 */
export interface AgentContextPart {
  readonly type: "context";
  readonly source: string;
  readonly op: "loaded" | "recalled" | "saved";
  readonly records?: readonly MemoryRecord[];
  readonly tools?: readonly string[];
  readonly skill?: string;
}

/** A read or write of the memory option, without a context manager. */
export interface AgentMemoryPart {
  readonly type: "memory";
  readonly op: "recalled" | "saved";
  readonly records: readonly MemoryRecord[];
}

/** A piece of the answer, as it arrived. */
export interface AgentTextPart {
  readonly type: "text";
  readonly text: string;
}

/**
 * A tool call with its result.
 *
 * args: the arguments, as the model gave them. result: what the tool returned, as a JSON value.
 * approval_id: set where the tool answered that it waits for an approval. provider_executed: the model's provider
 * ran it, not this program (a web search, say).
 */
export interface AgentToolPart {
  readonly type: "tool";
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly isError?: boolean;
  readonly approvalId?: string;
  readonly providerExecuted?: boolean;
}

/**
 * What a person is asked.
 *
 * id: names it in an answer. kind: `approval` for a yes or no; `external` for a result from outside; `unknown` for a
 * word on a call whose outcome a crash hid. input: what the function will get. expires_at: milliseconds since 1970.
 */
export interface ApprovalNote {
  readonly id: string;
  readonly toolCallId: string;
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly kind: "approval" | "external" | "unknown";
  readonly reason?: string;
  readonly expiresAt?: number;
  readonly path?: readonly string[];
}

/** The history was shortened. */
export interface CompactionNote {
  readonly tokensBefore: number;
  readonly tokensAfter: number;
}

/** A source put something into the context, loaded tools, saved something, or failed. */
export interface ContextNote {
  readonly source: string;
  readonly op: "failed" | "loaded" | "recalled" | "saved";
  readonly records?: readonly MemoryRecord[];
  readonly tools?: readonly string[];
  readonly skill?: string;
}

/** What a person is asked, beside `tool-approval-request`. id: of the request. */
export interface DataApproval {
  readonly type: "data-approval";
  readonly id: string;
  readonly data: ApprovalNote;
}

/** The history was shortened. */
export interface DataCompaction {
  readonly type: "data-compaction";
  readonly data: CompactionNote;
}

/** A change of the context. */
export interface DataContext {
  readonly type: "data-context";
  readonly data: ContextNote;
}

/** The ledger of a round, twice: before the request, and with the provider's report. id: `round-<n>`. */
export interface DataLedger {
  readonly type: "data-ledger";
  readonly id: string;
  readonly data: LedgerNote;
}

/** A limit was reached. id: `limit-<name>`. */
export interface DataLimit {
  readonly type: "data-limit";
  readonly id: string;
  readonly data: LimitNote;
}

/** The structured output. id: `output`. transient: it still grows, and is not a part of the message yet. */
export interface DataOutput {
  readonly type: "data-output";
  readonly id: string;
  readonly data: OutputNote;
  readonly transient?: boolean;
}

/** A subagent's turn that has ended. id: the calls that lead to it, joined by `/`. */
export interface DataSubagent {
  readonly type: "data-subagent";
  readonly id: string;
  readonly data: SubagentNote;
}

/** A chunk of a subagent's turn, as it comes; not a part of the message. */
export interface DataSubagentChunk {
  readonly type: "data-subagent-chunk";
  readonly data: SubagentChunk;
  readonly transient: true;
}

/** How long a call took. id: `time-<call>`. */
export interface DataToolTime {
  readonly type: "data-tool-time";
  readonly id: string;
  readonly data: ToolTime;
}

/** A reply began anew: take out what it had streamed. */
export interface DataVoid {
  readonly type: "data-void";
  readonly data: VoidNote;
}

/** The model is asked again in some seconds; not a part of the message. */
export interface DataWaiting {
  readonly type: "data-waiting";
  readonly data: WaitingNote;
  readonly transient: true;
}

/** The run failed. error_text: generic, with a request id; never what an exception said. */
export interface ErrorChunk {
  readonly type: "error";
  readonly errorText: string;
}

/** A file that the assistant gives. url: a `data:` or `https:` address. */
export interface FileChunk {
  readonly type: "file";
  readonly url: string;
  readonly mediaType: string;
}

/** The stream is over. */
export interface Finish {
  readonly type: "finish";
  readonly finishReason: "content-filter" | "error" | "length" | "other" | "stop" | "tool-calls";
  readonly messageMetadata?: MessageMetadata;
}

/** A model call and its tools are over. */
export interface FinishStep {
  readonly type: "finish-step";
}

/**
 * What the request of a round held, in tokens by section; the lines are at `/api/runs/{id}/context`.
 *
 * window: what the request may take. reported_tokens, cached_tokens, cost_usd: the provider's, once the round is over.
 */
export interface LedgerNote {
  readonly round: number;
  readonly maxRounds?: number;
  readonly sections?: Readonly<Record<string, number>>;
  readonly window?: number;
  readonly estimatedTokens?: number;
  readonly reportedTokens?: number;
  readonly cachedTokens?: number;
  readonly costUsd?: number;
}

/** A limit was reached. name: what `extend` calls it. asks: the run waits for a word on it. */
export interface LimitNote {
  readonly kind: "cost" | "input_tokens" | "output_tokens" | "requests" | "seconds" | "tool" | "tool_calls" | "total_tokens";
  readonly name: string;
  readonly used: number;
  readonly limit: number;
  readonly scope?: "run" | "turn";
  readonly tool?: string;
  readonly asks?: boolean;
}

/**
 * One remembered item.
 *
 * created_at: when it was said, or kept where nothing else is known. score: set by a search: 0 to 1, higher is more
 * relevant. scope: whose it is. origin: who said it. conversation, position: of a turn of a conversation, which one,
 * and its place there from 1. turn: the run that it comes from. speaker: who said it, by name. title: a heading or
 * caption, searched as well. valid_from, valid_to: when it is true; outside of that it is not recalled. expires_at:
 * when it is deleted. supersedes: the record that this one corrects. superseded_by: the one that corrects this one,
 * which is not recalled any more. derived_from: the records that it was made of; it is forgotten with them.
 * importance: 0 to 1. quarantined: not recalled until a person confirms it. reason, parts: why a search found it,
 * in words and as the parts of its score.
 */
export interface MemoryRecord {
  readonly type: "memory_record";
  readonly id: string;
  readonly text: string;
  readonly createdAt: number;
  readonly kind?: string;
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly score?: number;
  readonly scope?: MemoryScope;
  readonly origin?: "import" | "model" | "tool" | "user" | "web";
  readonly conversation?: string;
  readonly position?: number;
  readonly turn?: string;
  readonly speaker?: string;
  readonly title?: string;
  readonly validFrom?: number;
  readonly validTo?: number;
  readonly expiresAt?: number;
  readonly supersedes?: string;
  readonly supersededBy?: string;
  readonly derivedFrom?: readonly string[];
  readonly importance?: number;
  readonly quarantined?: boolean;
  readonly reason?: string;
  readonly parts?: Readonly<Record<string, number>>;
}

/**
 * Whose memory it is. None names nobody: as the scope of a search, it stands for all.
 *
 * user, agent, conversation: ids, compared whole; an empty text is an id like any other. namespace: parts of a path;
 * a search under one finds what lies in it and below it, part by part.
 */
export interface MemoryScope {
  readonly type: "memory_scope";
  readonly user?: string;
  readonly agent?: string;
  readonly conversation?: string;
  readonly namespace?: readonly string[];
}

/**
 * What a message says of itself: whose run it is, and at the end why that ended and what it used.
 *
 * stopped_by: empty while the run goes on. started_at: milliseconds since 1970.
 */
export interface MessageMetadata {
  readonly runId: string;
  readonly threadId?: string;
  readonly stoppedBy?: "approval" | "cancelled" | "error" | "limit_ask" | "max_rounds" | "max_tokens" | "output_missing" | "refusal" | "stop" | "stuck" | "usage_limit" | "";
  readonly usage?: TokenCount;
  readonly startedAt?: number;
}

/** The structured output so far. final: it is checked and complete. */
export interface OutputNote {
  readonly value: unknown;
  readonly final?: boolean;
}

/** A piece of the model's thinking. */
export interface ReasoningDelta {
  readonly type: "reasoning-delta";
  readonly id: string;
  readonly delta: string;
}

/** The model has ended to think. */
export interface ReasoningEnd {
  readonly type: "reasoning-end";
  readonly id: string;
}

/** The model begins to think. */
export interface ReasoningStart {
  readonly type: "reasoning-start";
  readonly id: string;
}

/** The message begins, or goes on where its id is that of the last one. */
export interface Start {
  readonly type: "start";
  readonly messageId: string;
  readonly messageMetadata?: MessageMetadata;
}

/** A model call begins. */
export interface StartStep {
  readonly type: "start-step";
}

/** A chunk of a subagent's turn. path: the calls that lead to it. */
export interface SubagentChunk {
  readonly path: readonly string[];
  readonly agent: string;
  readonly chunk: AnyChunk;
}

/** A subagent's turn, as the parts of a message. */
export interface SubagentNote {
  readonly path: readonly string[];
  readonly agent: string;
  readonly parts?: readonly (Readonly<Record<string, unknown>>)[];
}

/** A piece of a text. */
export interface TextDelta {
  readonly type: "text-delta";
  readonly id: string;
  readonly delta: string;
}

/** A text is complete. */
export interface TextEnd {
  readonly type: "text-end";
  readonly id: string;
}

/** A text begins. id: unique in the message. */
export interface TextStart {
  readonly type: "text-start";
  readonly id: string;
}

/** What a turn used, its subagents included. cost_usd: None where a price is not known. */
export interface TokenCount {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cachedTokens?: number;
  readonly costUsd?: number;
}

/** A call waits for a yes or no. */
export interface ToolApprovalRequest {
  readonly type: "tool-approval-request";
  readonly approvalId: string;
  readonly toolCallId: string;
}

/** The arguments of a call. provider_executed: the client is not to run it; false for a tool that runs outside. */
export interface ToolInputAvailable {
  readonly type: "tool-input-available";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
  readonly dynamic?: boolean;
  readonly providerExecuted?: boolean;
}

/** The model called a tool; its arguments follow at once. */
export interface ToolInputStart {
  readonly type: "tool-input-start";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly dynamic?: boolean;
  readonly title?: string;
}

/** What a call returned. */
export interface ToolOutputAvailable {
  readonly type: "tool-output-available";
  readonly toolCallId: string;
  readonly output: unknown;
  readonly dynamic?: boolean;
  readonly providerExecuted?: boolean;
}

/** A person said no to a call. */
export interface ToolOutputDenied {
  readonly type: "tool-output-denied";
  readonly toolCallId: string;
}

/** A call failed. */
export interface ToolOutputError {
  readonly type: "tool-output-error";
  readonly toolCallId: string;
  readonly errorText: string;
  readonly dynamic?: boolean;
  readonly providerExecuted?: boolean;
}

/**
 * How long a call took, the time that a person took to answer included.
 *
 * started_at: milliseconds since 1970. ms: milliseconds.
 */
export interface ToolTime {
  readonly toolCallId: string;
  readonly startedAt: number;
  readonly ms: number;
}

/** Texts that no longer count, as the model's reply broke off and began anew. ids: of text and reasoning parts. */
export interface VoidNote {
  readonly ids: readonly string[];
}

/** The model did not answer and is asked again. attempt: which try failed, from 1. */
export interface WaitingNote {
  readonly round: number;
  readonly seconds: number;
  readonly attempt: number;
}
