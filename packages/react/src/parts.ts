// The values that the hook hands out: the items of a thread, and the parts of an answer. Guide D's parts keep their
// names; what only a server can tell is added to them, or is a part of its own. Everything is read-only.

import type {
  AgentMemoryPart,
  AgentTextPart,
  AgentToolPart,
  ApprovalNote,
  CompactionNote,
  LedgerNote,
  LimitNote,
  MemoryRecord,
  MessageMetadata,
  OutputNote,
} from "./wire.js";

/** The text of an answer; pieces that follow one another are joined. */
export type TextPart = AgentTextPart;

/** What the model thought before it answered or called a tool. */
export interface ThinkingPart {
  readonly type: "thinking";
  readonly text: string;
}

/** Where a call stands: `waiting` is for a person, or for a result from outside; `stopped` has ended with its run. */
export type ToolState = "running" | "waiting" | "done" | "denied" | "error" | "stopped";

/**
 * A call of a tool.
 *
 * From a plain `stream` function it is exactly what that gave. From a server it appears when the model made the call,
 * with an `id` and a `state`, and its result comes later.
 *
 * approvalId: what `approve`, `deny` and `answer` take. approval: what is asked. external: its result is given by this
 * side, with `answer`. errorText: why it failed. startedAt: milliseconds since 1970. ms: how long it took.
 */
export interface ToolPart extends AgentToolPart {
  readonly id?: string;
  readonly state?: ToolState;
  readonly title?: string;
  readonly approval?: ApprovalNote;
  readonly external?: boolean;
  readonly errorText?: string;
  readonly startedAt?: number;
  readonly ms?: number;
}

/** A read or write of the memory. */
export type MemoryPart = AgentMemoryPart;

/** A source put something into the context, loaded tools, saved something, or failed. */
export interface ContextPart {
  readonly type: "context";
  readonly source: string;
  readonly op: "recalled" | "loaded" | "saved" | "failed";
  readonly records?: readonly MemoryRecord[];
  readonly tools?: readonly string[];
  readonly skill?: string;
}

/** The turn of another agent that a tool started, with parts of its own. path: the calls that lead to it. */
export interface SubagentPart {
  readonly type: "subagent";
  readonly path: readonly string[];
  readonly agent: string;
  readonly parts: readonly AssistantPart[];
  readonly done: boolean;
  readonly error?: string;
}

/** The history was shortened. */
export interface CompactionPart extends CompactionNote {
  readonly type: "compaction";
}

/** What the request of a round held, in tokens by section. It is set before the request, and again after it. */
export interface LedgerPart extends LedgerNote {
  readonly type: "ledger";
}

/** The structured output so far. */
export interface OutputPart extends OutputNote {
  readonly type: "output";
}

/** A limit was reached. asks: the run waits for `extend`. */
export interface LimitPart extends LimitNote {
  readonly type: "limit";
}

/** A file. url: a `data:` or `https:` address. */
export interface FilePart {
  readonly type: "file";
  readonly url: string;
  readonly mediaType: string;
  readonly filename?: string;
}

export type AssistantPart =
  | TextPart
  | ThinkingPart
  | ToolPart
  | MemoryPart
  | ContextPart
  | SubagentPart
  | CompactionPart
  | LedgerPart
  | OutputPart
  | LimitPart
  | FilePart;

/** What the user said. */
export interface UserItem {
  readonly role: "user";
  readonly id: string;
  readonly text: string;
  readonly files?: readonly FilePart[];
}

/** What the assistant answered. metadata: from a server, whose run it is and how it ended. error: why it failed. */
export interface ReplyItem {
  readonly role: "assistant";
  readonly id: string;
  readonly parts: readonly AssistantPart[];
  readonly metadata?: MessageMetadata;
  readonly error?: string;
}

export type AssistantItem = UserItem | ReplyItem;

/** A message as the server keeps it: the AI SDK's, version 6. */
export interface UIMessage {
  readonly id: string;
  readonly role: "user" | "assistant" | "system";
  readonly parts: readonly UIMessagePart[];
  readonly metadata?: MessageMetadata;
}

/** A part of such a message; `type` tells which of the fields are there. */
export interface UIMessagePart {
  readonly type: string;
  readonly [field: string]: unknown;
}
