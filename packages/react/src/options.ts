// What a store is told: the plain function or the address of a server, and what to call.

import type { AssistantItem, AssistantPart } from "./parts.js";
import type { AgentPart, AnyChunk } from "./wire.js";

/** Parts or chunks, as they come. */
export type PartStream = AsyncIterable<AgentPart | AnyChunk> | Iterable<AgentPart | AnyChunk>;

/** How a stream ended. `detached`: this side let go of it; with a server, the run goes on there. */
export type Outcome = "done" | "waiting" | "stopped" | "detached" | "error";

/** What `onDone` is told. spoken: the prompt was given to `send`, and not typed into the box. */
export interface DoneTurn {
  readonly spoken: boolean;
  readonly outcome: Outcome;
  readonly error?: unknown;
}

/** What a person says of a call: yes or no, or the result of a tool that runs outside. */
export type Decision =
  | {
      readonly approved: boolean;
      readonly reason?: string;
      readonly input?: Readonly<Record<string, unknown>>;
      readonly remember?: Readonly<Record<string, unknown>>;
    }
  | { readonly result: unknown; readonly isError?: boolean };

type Headers = Readonly<Record<string, string>>;

/** Give `stream`, or `url`. */
export interface UseAssistantOptions {
  /** Answers a prompt: parts of a turn, as they come. history: the items before this turn. */
  stream?: (prompt: string, history: readonly AssistantItem[]) => PartStream | Promise<PartStream>;
  /** Where a server of sapwood listens, such as `""` (this origin) or `https://agents.example/support`. */
  url?: string;
  /** The thread to load and to rejoin at the start; without one, the first `send` begins a new thread. */
  threadId?: string;
  /** Sent with every request, for example a token; a function is asked each time. */
  headers?: Headers | (() => Headers | Promise<Headers>);
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch;
  /** Of `fetch`: `include` sends cookies to another origin. */
  credentials?: RequestCredentials;
  /** Called for every part, in order, after it was applied. */
  onPart?: (part: AssistantPart) => void;
  /** Called at the end of every stream, whether it succeeded or not. */
  onDone?: (turn: DoneTurn) => void;
  /** What the thread begins with, for example from a page made on a server. */
  initialItems?: readonly AssistantItem[];
  /** Keep the connection when the component goes away. By default it is closed; a server's run goes on. */
  keepAlive?: boolean;
  /** Stop the run when the component goes away. */
  stopOnUnmount?: boolean;
  /** How often a broken connection is taken up again before it counts as an error: 5. */
  maxReconnects?: number;
  /** Milliseconds before the first of them, doubled each time: 500. */
  reconnectDelay?: number;
}
