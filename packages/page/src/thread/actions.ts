// What a card deep in a thread may ask for. A context, so that no message is drawn anew when another one changes.

import type { Decision } from "@sapwood/react";
import { createContext, useContext } from "react";

export interface Actions {
  /** Answers that are given already, and sent once no other call waits. */
  readonly given: ReadonlySet<string>;
  readonly decide: (id: string, decision: Decision) => void;
  readonly extend: (amounts: Readonly<Record<string, number>>) => void;
  readonly openContext: (replyId: string) => void;
}

const nothing = (): void => undefined;

export const ActionsContext = createContext<Actions>({ given: new Set(), decide: nothing, extend: nothing, openContext: nothing });

export const useActions = (): Actions => useContext(ActionsContext);
