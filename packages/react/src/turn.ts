// One stream of a conversation, from its request to its end.

import type { Outcome } from "./options.js";
import type { Thread } from "./reducer.js";
import type { AssistantOperation } from "./snapshot.js";
import type { AssistantError } from "./stream.js";

/**
 * One stream.
 *
 * operation: what it was begun by. ghost: the thread that it goes on filling, unseen, once `reset` emptied the one that is
 * shown. isDropped: `load` has let go of it. wantsStop: asked to stop before its run had a name.
 */
export interface Turn {
  readonly operation: AssistantOperation;
  readonly spoken: boolean;
  readonly abort: AbortController;
  readonly settled: Promise<void>;
  readonly settle: () => void;
  isReplay: boolean;
  hasStarted: boolean;
  isDropped: boolean;
  isReconnecting: boolean;
  wantsStop: boolean;
  outcome: Outcome;
  ghost: Thread | null;
  failure: AssistantError | null;
}

export function newTurn(fields: Pick<Turn, "operation" | "spoken" | "isReplay">): Turn {
  let settle: () => void = () => undefined;
  const settled = new Promise<void>((resolve) => (settle = resolve));
  return {
    ...fields,
    abort: new AbortController(),
    settled,
    settle,
    hasStarted: false,
    isDropped: false,
    isReconnecting: false,
    wantsStop: false,
    outcome: "done",
    ghost: null,
    failure: null,
  };
}
