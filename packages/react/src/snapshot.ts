// What a store shows of a conversation.

import type { AssistantItem } from "./parts.js";
import type { WaitingNote } from "./wire.js";

/** `submitted`: sent, and nothing came yet. `waiting`: for a person, or for a result from outside. */
export type AssistantStatus = "ready" | "submitted" | "streaming" | "waiting" | "error";

/** What was asked of the store. An answer to a call, whichever function gave it, is `decide`. */
export type AssistantOperation = "send" | "decide" | "resume" | "rejoin" | "stop" | "load" | "loadMore";

/** What a conversation looks like at one moment. */
export interface AssistantSnapshot {
  /** What was said, oldest first. What did not change is the same object as before. */
  readonly items: readonly AssistantItem[];
  /** The text of the input box. */
  readonly input: string;
  /** A stream runs: `send` has no effect. */
  readonly busy: boolean;
  readonly status: AssistantStatus;
  /** What went wrong last; null again with the next stream, and when a thread is read. */
  readonly error: unknown;
  /** What was asked for when `error` came of it. */
  readonly failed: AssistantOperation | null;
  /** The model did not answer and is asked again in some seconds. */
  readonly retry: WaitingNote | null;
  /** A thread is being loaded. */
  readonly loading: boolean;
  /** Of the server; null before the first `send` of a new thread. */
  readonly threadId: string | null;
  /** Of the newest answer. */
  readonly runId: string | null;
  /** The newest run waits for a person, also where an answer to it was refused: `send` has no effect. */
  readonly paused: boolean;
  /** The connection broke, and is being taken up again. */
  readonly reconnecting: boolean;
  /** The server broke off in the middle of the newest answer; `resume` goes on with it. */
  readonly interrupted: boolean;
  /** There are older messages; `loadMore` fetches them. */
  readonly hasMore: boolean;
}
