// The thread: what was said before, and the answer that is coming. Pure, and it knows no React.
//
// Laws: nothing is changed in place; what an input does not touch stays the same object; an input costs the same
// however long the thread is, as only the newest answer is open (`itemsOf` is what walks the thread).

import { draftFrom, draftOf, EMPTY_DRAFT, findTool, patched, withChunk, withPart, type Draft } from "./draft.js";
import type { AssistantItem, AssistantPart, FilePart, ReplyItem, ToolPart, UIMessage, UserItem } from "./parts.js";
import type { AgentPart, AnyChunk, MessageMetadata, WaitingNote } from "./wire.js";

/** The newest answer, while it may still change. retry: the model did not answer and is asked again. */
interface OpenReply {
  readonly item: ReplyItem;
  readonly draft: Draft;
  readonly retry?: WaitingNote;
}

export interface Thread {
  readonly past: readonly AssistantItem[];
  readonly open: OpenReply | null;
}

export const EMPTY_THREAD: Thread = { past: [], open: null };

/** Return the thread of these items; the last one may go on. */
export function threadOf(items: readonly AssistantItem[]): Thread {
  const last = items.at(-1);
  if (last?.role !== "assistant") return { past: items, open: null };
  return { past: items.slice(0, -1), open: { item: last, draft: draftFrom(last.parts) } };
}

/** Return the items of the thread, oldest first. */
export function itemsOf(thread: Thread): readonly AssistantItem[] {
  return thread.open ? [...thread.past, thread.open.item] : thread.past;
}

/** Return the thread with what the user said and an empty answer to it. */
export function withPrompt(thread: Thread, user: UserItem, replyId: string): Thread {
  const item: ReplyItem = { role: "assistant", id: replyId, parts: [] };
  return { past: [...itemsOf(thread), user], open: { item, draft: EMPTY_DRAFT } };
}

/** Return the thread with an input applied to the newest answer: a part of a plain stream, or a server's chunk. */
export function reduce(thread: Thread, input: AgentPart | AnyChunk): Thread {
  const { open } = thread;
  if (!open) return thread;
  switch (input.type) {
    case "text":
    case "tool":
    case "memory":
    case "context":
      return withDraft(thread, open, withPart(open.draft, input));
    case "data-waiting":
      return { ...thread, open: { ...open, retry: input.data } };
    case "start": {
      const { error: _, ...item } = open.item; // what went wrong before is over, as the run goes on
      const begun: OpenReply = { ...open, item };
      return withItem(thread, begun, { id: input.messageId, ...metadata(going(item), input.messageMetadata) });
    }
    case "finish":
      return withItem(thread, open, metadata(open.item, input.messageMetadata));
    case "abort":
    case "error": {
      const ended = withDraft(thread, open, withChunk(open.draft, input));
      const change: Partial<ReplyItem> =
        input.type === "error" ? { error: input.errorText } : metadata(open.item, stopped(open.item));
      return ended.open ? withItem(ended, ended.open, change) : ended;
    }
    default:
      return withDraft(thread, open, withChunk(open.draft, input));
  }
}

/**
 * Return the thread ready for a replay of this message from its beginning: the newest answer emptied where it is that
 * message, or a new one.
 */
export function withReplay(thread: Thread, messageId: string): Thread {
  const { open } = thread;
  const isSame = open !== null && (open.item.id === messageId || open.item.metadata === undefined);
  const item: ReplyItem = { role: "assistant", id: messageId, parts: [] };
  return { past: isSame ? thread.past : itemsOf(thread), open: { item, draft: EMPTY_DRAFT } };
}

/** Return the thread with one call of the newest answer changed. */
export function withTool(thread: Thread, approvalId: string, change: (tool: ToolPart) => ToolPart): Thread {
  const { open } = thread;
  const tool = open ? findAsked(open.item.parts, approvalId) : undefined;
  if (!open || tool?.id === undefined) return thread;
  return withDraft(thread, open, patched(open.draft, tool.id, change));
}

/** Return the call of the newest answer that waits under this id. */
export function askedIn(thread: Thread, approvalId: string): ToolPart | undefined {
  return thread.open ? findAsked(thread.open.item.parts, approvalId) : undefined;
}

/** Tell whether the newest answer waits for a word: on a call, or on a limit. */
export function isWaiting(thread: Thread): boolean {
  const item = thread.open?.item;
  if (!item || item.error !== undefined) return false;
  const cause = item.metadata?.stoppedBy;
  if (cause) return asks(cause);
  return item.parts.some((part) => part.type === "tool" && part.state === "waiting");
}

/** Return a server's messages as items; what a system message says is not shown. */
export function fromUIMessages(messages: readonly UIMessage[]): readonly AssistantItem[] {
  return messages.flatMap((message): AssistantItem[] => {
    if (message.role === "user") return [userItem(message)];
    if (message.role !== "assistant") return [];
    return [replyItem(message)];
  });
}

/**
 * Return what this input adds, as a part: a piece of text or thinking, a call with its result, and the others whole.
 * Null where it adds none, such as the border of a step.
 */
export function partOf(thread: Thread, input: AgentPart | AnyChunk): AssistantPart | null {
  switch (input.type) {
    case "text":
    case "tool":
    case "memory":
    case "context":
      return input;
    case "text-delta":
      return input.delta ? { type: "text", text: input.delta } : null;
    case "reasoning-delta":
      return input.delta ? { type: "thinking", text: input.delta } : null;
    case "tool-output-available":
    case "tool-output-error":
    case "tool-output-denied":
    case "tool-approval-request": {
      const at = thread.open ? findTool(thread.open.draft, input.toolCallId) : -1;
      return thread.open?.draft.parts[at] ?? null;
    }
    case "data-subagent":
      return find(thread, (part) => part.type === "subagent" && part.path.join("/") === input.data.path.join("/"));
    case "data-ledger":
      return { type: "ledger", ...input.data };
    case "data-limit":
      return { type: "limit", ...input.data };
    case "data-output":
      return { type: "output", ...input.data };
    case "data-context":
      return { type: "context", ...input.data };
    case "data-compaction":
      return { type: "compaction", ...input.data };
    case "file":
      return input;
    default:
      return null;
  }
}

function find(thread: Thread, matches: (part: AssistantPart) => boolean): AssistantPart | null {
  return thread.open?.draft.parts.find(matches) ?? null;
}

function findAsked(parts: readonly AssistantPart[], approvalId: string): ToolPart | undefined {
  return parts.find((part): part is ToolPart => part.type === "tool" && part.approvalId === approvalId);
}

function withDraft(thread: Thread, open: OpenReply, draft: Draft): Thread {
  if (draft === open.draft && open.retry === undefined) return thread;
  const item = draft.parts === open.item.parts ? open.item : { ...open.item, parts: draft.parts };
  return { ...thread, open: { item, draft } };
}

function withItem(thread: Thread, open: OpenReply, change: Partial<ReplyItem>): Thread {
  return { ...thread, open: { item: { ...open.item, ...change }, draft: open.draft } };
}

function metadata(item: ReplyItem, said: MessageMetadata | undefined): Partial<ReplyItem> {
  return said ? { metadata: { ...item.metadata, ...said } } : {};
}

function stopped(item: ReplyItem): MessageMetadata | undefined {
  return item.metadata ? { ...item.metadata, stoppedBy: "cancelled" } : undefined;
}

/** A run that goes on has not ended any more. */
function going(item: ReplyItem): ReplyItem {
  if (!item.metadata?.stoppedBy) return item;
  return { ...item, metadata: { ...item.metadata, stoppedBy: "" } };
}

function replyItem({ id, parts, metadata: said }: UIMessage): ReplyItem {
  const draft = draftOf(parts);
  // Of a run that has ended nothing runs any more, whatever its last words were.
  const isOver = said?.stoppedBy && !asks(said.stoppedBy);
  const { parts: shown } = isOver ? withChunk(draft, { type: "abort" }) : draft;
  return { role: "assistant", id, parts: shown, ...(said ? { metadata: said } : {}) };
}

function asks(cause: MessageMetadata["stoppedBy"]): boolean {
  return cause === "approval" || cause === "limit_ask";
}

function userItem(message: UIMessage): UserItem {
  const text = message.parts.filter((part) => part.type === "text").map((part) => String(part["text"]));
  const files = message.parts.filter((part) => part.type === "file") as unknown as readonly FilePart[];
  return { role: "user", id: message.id, text: text.join("\n"), ...(files.length ? { files } : {}) };
}
