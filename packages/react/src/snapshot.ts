// What a store shows of a conversation.

import type { AssistantItem } from "./parts.js";
import type { WaitingNote } from "./wire.js";

/** `submitted`: sent, and nothing came yet. `waiting`: for a person, or for a result from outside. */
export type AssistantStatus = "ready" | "submitted" | "streaming" | "waiting" | "error";

/** What a conversation looks like at one moment. */
export interface AssistantSnapshot {
  /** What was said, oldest first. What did not change is the same object as before. */
  readonly items: readonly AssistantItem[];
  /** The text of the input box. */
  readonly input: string;
  /** A stream runs: `send` has no effect. */
  readonly busy: boolean;
  readonly status: AssistantStatus;
  /** What the last stream ended with; null again with the next one. */
  readonly error: unknown;
  /** The model did not answer and is asked again in some seconds. */
  readonly retry: WaitingNote | null;
  /** A thread is being loaded. */
  readonly loading: boolean;
  /** Of the server; null before the first `send` of a new thread. */
  readonly threadId: string | null;
  /** Of the newest answer. */
  readonly runId: string | null;
  /** The server broke off in the middle of the newest answer; `resume` goes on with it. */
  readonly interrupted: boolean;
  /** There are older messages; `loadMore` fetches them. */
  readonly hasMore: boolean;
}
