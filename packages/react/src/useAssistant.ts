import { useEffect, useLayoutEffect, useMemo, useState, useSyncExternalStore } from "react";

import type { UseAssistantOptions } from "./options.js";
import type { AssistantSnapshot } from "./snapshot.js";
import { AssistantStore } from "./store.js";

// On a server there is no layout, and React 18 says so in a warning.
const useLatestEffect = typeof window === "undefined" ? useEffect : useLayoutEffect;

type Actions = Pick<
  AssistantStore,
  | "setInput"
  | "send"
  | "reset"
  | "stop"
  | "rejoin"
  | "approve"
  | "deny"
  | "answer"
  | "extend"
  | "decide"
  | "resume"
  | "load"
  | "loadMore"
>;

/** What `useAssistant` gives: the conversation as it is, and what may be done. The functions never change. */
export type UseAssistant = AssistantSnapshot & Actions;

/**
 * A conversation with an agent, as the state of a component.
 *
 * When the component goes away its connection is closed. A plain `stream` ends with it; a server's run goes on, and is
 * rejoined when the component is back (`keepAlive`, `stopOnUnmount` say otherwise).
 */
export function useAssistant(options: UseAssistantOptions): UseAssistant {
  const [store] = useState(() => new AssistantStore(options));
  useLatestEffect(() => store.setOptions(options));
  useEffect(() => {
    store.mount();
    return () => store.unmount();
  }, [store]);
  const { threadId } = options;
  useEffect(() => store.open(threadId), [store, threadId]);
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
  const actions = useMemo(() => actionsOf(store), [store]);
  return useMemo(() => ({ ...snapshot, ...actions }), [snapshot, actions]);
}

function actionsOf(store: AssistantStore): Actions {
  const { setInput, send, reset, stop, rejoin, approve, deny, answer, extend, decide, resume, load, loadMore } = store;
  return { setInput, send, reset, stop, rejoin, approve, deny, answer, extend, decide, resume, load, loadMore };
}
