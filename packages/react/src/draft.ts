// The parts of one answer while it comes, and what a chunk does to them. A subagent's lane is a draft of its own.
//
// Laws: nothing is changed in place; a part that a chunk does not touch stays the same object, and so does the draft
// where a chunk changes nothing.

import type {
  AssistantPart,
  LedgerPart,
  LimitPart,
  OutputPart,
  SubagentPart,
  TextPart,
  ThinkingPart,
  ToolPart,
  UIMessagePart,
} from "./parts.js";
import type { AnyChunk, ApprovalNote, SubagentChunk, SubagentNote } from "./wire.js";

/** Where the text of one wire id begins: it may be joined with others into one part, and be taken out again. */
interface Span {
  readonly id: string;
  readonly part: number;
  readonly from: number;
}

export interface Draft {
  readonly parts: readonly AssistantPart[];
  readonly spans: readonly Span[];
  readonly lanes: Readonly<Record<string, Draft>>;
}

type Kind = "text" | "thinking";

const SETTLED = new Set(["done", "denied", "error", "stopped"]);

export const EMPTY_DRAFT: Draft = { parts: [], spans: [], lanes: {} };

/** Return a draft that goes on after these parts. */
export function draftFrom(parts: readonly AssistantPart[]): Draft {
  const lanes: Record<string, Draft> = {};
  for (const part of parts) {
    if (part.type === "subagent") lanes[part.path.join("/")] = draftFrom(part.parts);
  }
  return { parts, spans: [], lanes };
}

/** Return the draft with a part that is complete: text joins the text before it, others are appended as they are. */
export function withPart(draft: Draft, part: AssistantPart): Draft {
  if (part.type === "text") return joined(draft, part.type, part.text);
  return { ...draft, parts: [...draft.parts, part] };
}

/** Return the draft after this chunk; a chunk that has nothing to do with parts leaves it as it is. */
export function withChunk(draft: Draft, chunk: AnyChunk): Draft {
  switch (chunk.type) {
    case "text-delta":
      return withDelta(draft, "text", chunk.id, chunk.delta);
    case "reasoning-delta":
      return withDelta(draft, "thinking", chunk.id, chunk.delta);
    case "file":
      return withPart(draft, chunk);
    case "tool-input-start":
      return withCall(draft, chunk.toolCallId, {
        name: chunk.toolName,
        ...(chunk.title ? { title: chunk.title } : {}),
      });
    case "tool-input-available":
      return withCall(draft, chunk.toolCallId, {
        name: chunk.toolName,
        args: chunk.input as ToolPart["args"],
        ...(chunk.providerExecuted ? { providerExecuted: true } : { external: true }),
      });
    case "tool-approval-request":
      return patched(draft, chunk.toolCallId, (tool) => asked(tool, { approvalId: chunk.approvalId }));
    case "data-approval":
      return withApproval(draft, chunk.data);
    case "tool-output-available":
      return patched(draft, chunk.toolCallId, (tool) => ({ ...tool, result: chunk.output, state: "done" }));
    case "tool-output-error":
      return patched(draft, chunk.toolCallId, (tool) => failed(tool, chunk.errorText));
    case "tool-output-denied":
      return patched(draft, chunk.toolCallId, (tool) => ({ ...tool, isError: true, state: "denied" }));
    case "data-tool-time":
      return patched(draft, chunk.data.toolCallId, (tool) => ({
        ...tool,
        startedAt: chunk.data.startedAt,
        ms: chunk.data.ms,
      }));
    case "data-context":
      return withPart(draft, { type: "context", ...chunk.data });
    case "data-compaction":
      return withPart(draft, { type: "compaction", ...chunk.data });
    case "data-ledger":
      return put(draft, { type: "ledger", ...chunk.data }, (part) => isLedgerOf(part, chunk.data.round));
    case "data-limit":
      return put(draft, { type: "limit", ...chunk.data }, (part) => isLimitNamed(part, chunk.data.name));
    case "data-output":
      return put(draft, { type: "output", ...chunk.data }, (part): part is OutputPart => part.type === "output");
    case "data-void":
      return withoutTexts(draft, new Set(chunk.data.ids));
    case "data-subagent-chunk":
      return withLaneChunk(draft, chunk.data);
    case "data-subagent":
      return withLane(draft, chunk.data);
    case "abort":
      return ended(draft, (tool) => ({ ...tool, result: chunk.reason || "stopped", isError: true, state: "stopped" }));
    case "error":
      return ended(draft, (tool) => failed(tool, chunk.errorText));
    default:
      // Borders of steps and texts, and types of a later server.
      return draft;
  }
}

/** Return the parts of a stored message as a draft. */
export function draftOf(parts: readonly UIMessagePart[]): Draft {
  return parts.reduce(withMessagePart, EMPTY_DRAFT);
}

function withMessagePart(draft: Draft, part: UIMessagePart): Draft {
  switch (part.type) {
    case "text":
      return joined(draft, "text", String(part["text"] ?? ""));
    case "reasoning":
      return joined(draft, "thinking", String(part["text"] ?? ""));
    case "data-void":
      // The server has taken them out already, and the ids of texts are not kept.
      return draft;
  }
  if (part.type === "dynamic-tool" || part.type.startsWith("tool-")) {
    return withPart(draft, toolOf(part as unknown as StoredTool));
  }
  return withChunk(draft, part as unknown as AnyChunk);
}

interface StoredTool {
  readonly type: string;
  readonly toolCallId: string;
  readonly toolName?: string;
  readonly state: string;
  readonly title?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly errorText?: string;
  readonly providerExecuted?: boolean;
  readonly approval?: { readonly id: string; readonly approved?: boolean };
}

function toolOf(stored: StoredTool): ToolPart {
  const tool: ToolPart = {
    type: "tool",
    id: stored.toolCallId,
    name: stored.toolName ?? stored.type.slice("tool-".length),
    args: (stored.input ?? {}) as ToolPart["args"],
    state: "running",
    ...(stored.title ? { title: stored.title } : {}),
    ...(stored.providerExecuted ? { providerExecuted: true } : {}),
    ...(!stored.providerExecuted && stored.state !== "input-streaming" ? { external: true } : {}),
    ...(stored.approval ? { approvalId: stored.approval.id } : {}),
  };
  switch (stored.state) {
    case "approval-requested":
      return { ...tool, state: "waiting" };
    case "output-available":
      return { ...tool, result: stored.output, state: "done" };
    case "output-error":
      return failed(tool, stored.errorText ?? "");
    case "output-denied":
      return { ...tool, isError: true, state: "denied" };
    default:
      return tool;
  }
}

// -- texts -----------------------------------------------------------------------------------------

function joined(draft: Draft, kind: Kind, text: string): Draft {
  if (!text) return draft;
  const last = draft.parts.at(-1);
  if (last?.type === kind) return replaced(draft, draft.parts.length - 1, { type: kind, text: last.text + text });
  return { ...draft, parts: [...draft.parts, { type: kind, text }] };
}

function withDelta(draft: Draft, kind: Kind, id: string, delta: string): Draft {
  if (!delta) return draft;
  const at = findLast(draft.spans, (span) => span.id === id);
  if (at < 0) return begun(draft, kind, id, delta);
  const span = draft.spans[at] as Span;
  if (at === draft.spans.length - 1 && span.part === draft.parts.length - 1) return joined(draft, kind, delta);
  return inserted(draft, at, delta);
}

function begun(draft: Draft, kind: Kind, id: string, delta: string): Draft {
  const last = draft.parts.at(-1);
  const span: Span =
    last?.type === kind
      ? { id, part: draft.parts.length - 1, from: last.text.length }
      : { id, part: draft.parts.length, from: 0 };
  return { ...joined(draft, kind, delta), spans: [...draft.spans, span] };
}

/** Text for an id that is not the newest: two texts may be open at once. */
function inserted(draft: Draft, at: number, delta: string): Draft {
  const span = draft.spans[at] as Span;
  const part = draft.parts[span.part] as TextPart | ThinkingPart;
  const next = draft.spans[at + 1];
  const end = next?.part === span.part ? next.from : part.text.length;
  const text = part.text.slice(0, end) + delta + part.text.slice(end);
  const spans = draft.spans.map((other, index) =>
    index > at && other.part === span.part ? { ...other, from: other.from + delta.length } : other,
  );
  return { ...replaced(draft, span.part, { type: part.type, text }), spans };
}

function withoutTexts(draft: Draft, ids: ReadonlySet<string>): Draft {
  if (!draft.spans.some((span) => ids.has(span.id))) return draft;
  let fresh: Draft = { ...EMPTY_DRAFT, lanes: draft.lanes };
  draft.parts.forEach((part, index) => {
    const own = draft.spans.filter((span) => span.part === index);
    if (part.type !== "text" && part.type !== "thinking") {
      fresh = withPart(fresh, part);
    } else if (fresh.parts.at(-1)?.type === part.type || own.some((span) => ids.has(span.id))) {
      fresh = joined(fresh, part.type, part.text.slice(0, own[0]?.from));
      own.forEach((span, nth) => {
        const text = part.text.slice(span.from, own[nth + 1]?.from);
        if (!ids.has(span.id)) fresh = withDelta(fresh, part.type, span.id, text);
      });
    } else {
      const spans = own.map((span) => ({ ...span, part: fresh.parts.length }));
      fresh = { ...fresh, parts: [...fresh.parts, part], spans: [...fresh.spans, ...spans] };
    }
  });
  return fresh;
}

// -- tools -----------------------------------------------------------------------------------------

function withCall(draft: Draft, id: string, fields: Partial<ToolPart>): Draft {
  const at = findTool(draft, id);
  if (at < 0) {
    return withPart(draft, { type: "tool", id, name: "", args: {}, state: "running", ...fields });
  }
  return replaced(draft, at, { ...(draft.parts[at] as ToolPart), ...fields });
}

function withApproval(draft: Draft, note: ApprovalNote): Draft {
  // A subagent's call stands at the top under the whole path to it, which is the id of the request.
  const id = [note.id, note.toolCallId].find((name) => findTool(draft, name) >= 0);
  const known = id === undefined ? withCall(draft, note.id, { name: note.name, args: note.input }) : draft;
  return patched(known, id ?? note.id, (tool) => asked(tool, { approvalId: note.id, approval: note }));
}

function asked(tool: ToolPart, fields: Partial<ToolPart>): ToolPart {
  return { ...tool, ...fields, state: tool.state && SETTLED.has(tool.state) ? tool.state : "waiting" };
}

function failed(tool: ToolPart, errorText: string): ToolPart {
  return { ...tool, result: errorText, isError: true, errorText, state: "error" };
}

function ended(draft: Draft, end: (tool: ToolPart) => ToolPart): Draft {
  if (!draft.parts.some(isOpen)) return draft;
  return { ...draft, parts: draft.parts.map((part) => (isOpen(part) ? end(part) : part)) };
}

function isOpen(part: AssistantPart): part is ToolPart {
  return part.type === "tool" && (part.state === "running" || part.state === "waiting");
}

/** Return the draft with one call changed; a call that is not known changes nothing. */
export function patched(draft: Draft, id: string, change: (tool: ToolPart) => ToolPart): Draft {
  const at = findTool(draft, id);
  return at < 0 ? draft : replaced(draft, at, change(draft.parts[at] as ToolPart));
}

/** Return the place of a call, -1 where it is not known. */
export function findTool(draft: Draft, id: string): number {
  return findLast(draft.parts, (part) => part.type === "tool" && part.id === id);
}

// -- subagents -------------------------------------------------------------------------------------

function withLaneChunk(draft: Draft, { path, agent, chunk }: SubagentChunk): Draft {
  const key = path.join("/");
  // An id of a model may be any word, also one that each object knows.
  const isKnown = Object.hasOwn(draft.lanes, key);
  const before = (isKnown && draft.lanes[key]) || EMPTY_DRAFT;
  const lane = withChunk(before, chunk);
  const done = chunk.type === "finish" || chunk.type === "abort" || chunk.type === "error";
  if (isKnown && lane === before && !done) return draft;
  const part: SubagentPart = {
    type: "subagent",
    path,
    agent,
    parts: lane.parts,
    done,
    ...(chunk.type === "error" ? { error: chunk.errorText } : {}),
  };
  return withLanePart({ ...draft, lanes: { ...draft.lanes, [key]: lane } }, key, part);
}

function withLane(draft: Draft, { path, agent, parts }: SubagentNote): Draft {
  const key = path.join("/");
  const lane = draftOf((parts ?? []) as readonly UIMessagePart[]);
  const part: SubagentPart = { type: "subagent", path, agent, parts: lane.parts, done: true };
  return withLanePart({ ...draft, lanes: { ...draft.lanes, [key]: lane } }, key, part);
}

function withLanePart(draft: Draft, key: string, part: SubagentPart): Draft {
  const at = findLast(draft.parts, (other) => isLaneOf(other, key));
  if (at >= 0) return replaced(draft, at, part);
  const call = findTool(draft, key);
  if (call < 0) return withPart(draft, part);
  // After the call that began it: a stream tells of a lane at once, a stored message only when it has ended.
  const parts = [...draft.parts.slice(0, call + 1), part, ...draft.parts.slice(call + 1)];
  const spans = draft.spans.map((span) => (span.part > call ? { ...span, part: span.part + 1 } : span));
  return { ...draft, parts, spans };
}

// -- places ----------------------------------------------------------------------------------------

/** Return the draft with the newest part that matches replaced, or else with the part appended. */
function put(draft: Draft, part: AssistantPart, matches: (part: AssistantPart) => boolean): Draft {
  const at = findLast(draft.parts, matches);
  return at < 0 ? withPart(draft, part) : replaced(draft, at, part);
}

function isLaneOf(part: AssistantPart, key: string): part is SubagentPart {
  return part.type === "subagent" && part.path.join("/") === key;
}

function isLedgerOf(part: AssistantPart, round: number): part is LedgerPart {
  return part.type === "ledger" && part.round === round;
}

function isLimitNamed(part: AssistantPart, name: string): part is LimitPart {
  return part.type === "limit" && part.name === name;
}

function replaced(draft: Draft, at: number, part: AssistantPart): Draft {
  const parts = draft.parts.slice();
  parts[at] = part;
  return { ...draft, parts };
}

function findLast<T>(values: readonly T[], matches: (value: T) => boolean): number {
  for (let at = values.length - 1; at >= 0; at -= 1) {
    if (matches(values[at] as T)) return at;
  }
  return -1;
}
