// The hook against a server that is a list of answers.

import { act, renderHook } from "@testing-library/react";
import { StrictMode } from "react";

import {
  useAssistant,
  type AssistantItem,
  type AssistantPart,
  type DoneTurn,
  type ReplyItem,
  type ToolPart,
  type UseAssistantOptions,
} from "../../src/index.js";
import { json, settled, type Routes } from "./replies.js";

export const CHAT = "POST /api/chat";
export const DECIDE = "POST /api/runs/r1/decide";
export const REPLAY = "GET /api/chat/t1/stream";
export const THREAD = "GET /api/threads/t1";

export function render(routes: Routes, options: Partial<UseAssistantOptions> = {}, isStrict = false) {
  const turns: DoneTurn[] = [];
  const parts: AssistantPart[] = [];
  const given: UseAssistantOptions = {
    url: "",
    fetch: routes.fetch,
    reconnectDelay: 1,
    onDone: (turn) => turns.push(turn),
    onPart: (part) => parts.push(part),
    ...options,
  };
  const hook = renderHook(({ more }) => useAssistant({ ...given, ...more }), {
    initialProps: { more: {} as Partial<UseAssistantOptions> },
    ...(isStrict ? { wrapper: StrictMode } : {}),
  });
  return { hook, turns, parts, now: () => hook.result.current };
}

export function partsOf(items: readonly AssistantItem[]): readonly AssistantPart[] {
  return (items.at(-1) as ReplyItem).parts;
}

export function tool(items: readonly AssistantItem[]): ToolPart {
  return partsOf(items).find((part) => part.type === "tool") as ToolPart;
}

/** Begin, in the same tick; what it rejects with is looked at by whoever awaits it. */
export function begun(begin: () => Promise<unknown>): Promise<unknown> {
  let promise: Promise<unknown> = Promise.resolve();
  act(() => {
    promise = begin();
    promise.catch(() => undefined);
  });
  return promise;
}

export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await act(settled);
};

export function stored(fields: object = {}): Response {
  const messages = [
    { id: "u1", role: "user", parts: [{ type: "text", text: "Pay 5" }] },
    { id: "r1", role: "assistant", parts: [{ type: "text", text: "Pay" }], metadata: { runId: "r1", threadId: "t1" } },
  ];
  return json({ id: "t1", title: "Pay", status: "idle", messages, waiting: [], limits: [], ...fields });
}

/** Begin what will be rejected, and wait for all that comes of it: React 18 does not, after a rejection. */
export async function failing(begin: () => Promise<unknown>): Promise<unknown> {
  const promise = begun(begin);
  await act(() => promise.then(() => undefined, () => undefined));
  return promise;
}
