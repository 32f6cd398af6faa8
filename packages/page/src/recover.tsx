// Owns the ways out: what a person can do when a stream broke, a run failed, or the server ended in the middle of one.

import { AssistantError, fromUIMessages, type AssistantItem, type UseAssistant, type UserItem } from "@sapwood/react";
import type { ReactNode } from "react";
import { getJson, path } from "./api";
import type { Thread } from "./contract";
import { Problem } from "./problem";

interface Props {
  readonly assistant: UseAssistant;
  /** Put a prompt that could not be sent back where it was written. */
  readonly onUnsent: (text: string) => void;
}

export function Recover({ assistant, onUnsent }: Props): ReactNode {
  const { error, interrupted, busy } = assistant;
  if (busy) return null;
  if (isTaken(error)) {
    return (
      <Problem error={error}>
        <button type="button" className="button primary" onClick={() => void giveWay(assistant, onUnsent)}>Show what runs</button>
      </Problem>
    );
  }
  if (error !== null) {
    // Without a run there is nothing to join again.
    const isCut = error instanceof AssistantError && error.code === "network" && assistant.runId !== null;
    return (
      <Problem error={error}>
        {isCut && <button type="button" className="button primary" onClick={() => void rejoin(assistant)}>Rejoin</button>}
        <button type="button" className="button" onClick={() => void retry(assistant)}>Try again</button>
      </Problem>
    );
  }
  if (!interrupted) return <AskAgain assistant={assistant} />;
  return (
    <div className="notice" role="status">
      <p>The server ended in the middle of this answer. What was done is kept.</p>
      <div className="row">
        <button type="button" className="button primary" onClick={() => void quietly(assistant.resume())}>Go on</button>
        <button type="button" className="button" onClick={() => void quietly(assistant.stop())}>Leave it</button>
      </div>
    </div>
  );
}

/** Offer to ask the same again where the newest answer was stopped or failed. */
function AskAgain({ assistant }: { readonly assistant: UseAssistant }): ReactNode {
  const last = assistant.items.at(-1);
  const asked = promptOf(assistant);
  const end = last?.role === "assistant" ? last.metadata?.stoppedBy : undefined;
  if (asked === undefined || assistant.status !== "ready" || (end !== "cancelled" && end !== "error")) return null;
  return <button type="button" className="button again" onClick={() => void sendAgain(assistant, asked)}>Ask again</button>;
}

/** Another window has begun a run of this thread. */
function isTaken(error: unknown): boolean {
  return error instanceof AssistantError && error.status === 409 && (error.code === "busy" || error.code === "waiting");
}

async function giveWay(assistant: UseAssistant, onUnsent: (text: string) => void): Promise<void> {
  const asked = promptOf(assistant);
  if (assistant.threadId !== null) await quietly(assistant.load(assistant.threadId));
  if (asked !== undefined) onUnsent(asked.text);
}

const promptOf = (assistant: UseAssistant): UserItem | undefined =>
  assistant.items.findLast((item): item is UserItem => item.role === "user");

const sendAgain = (assistant: UseAssistant, asked: UserItem): Promise<void> =>
  quietly(assistant.send(asked.text, asked.files ? { files: asked.files } : {}));

async function rejoin(assistant: UseAssistant): Promise<void> {
  const found = await assistant.rejoin();
  // The run ended meanwhile: what it said is in the thread.
  if (!found && assistant.threadId !== null) await quietly(assistant.load(assistant.threadId));
}

/** Go on with the run where the server kept it, or else ask the same again. */
export async function retry(assistant: UseAssistant): Promise<void> {
  const { runId, threadId, items } = assistant;
  if (runId !== null && (await isInterrupted(runId))) return quietly(assistant.resume());
  const asked = promptOf(assistant);
  const hasArrived = threadId !== null && asked !== undefined && runId === null && (await isKnown(threadId, asked, items));
  // What the server knows replaces what this window guessed, so that a prompt is not there twice.
  if (threadId !== null) await quietly(assistant.load(threadId));
  if (asked === undefined || hasArrived) return;
  await sendAgain(assistant, asked);
}

/** Tell whether a prompt reached the server although the answer to it did not reach us. */
async function isKnown(threadId: string, asked: UserItem, items: readonly AssistantItem[]): Promise<boolean> {
  try {
    const { messages } = await getJson<Thread>(`${path("threads", threadId)}?limit=1`);
    const [prompt, reply] = fromUIMessages(messages).slice(-2);
    return prompt?.role === "user" && prompt.text === asked.text && !items.some((item) => item.id === reply?.id);
  } catch {
    return false;
  }
}

async function isInterrupted(runId: string): Promise<boolean> {
  try {
    return (await getJson<{ status: string }>(path("runs", runId))).status === "interrupted";
  } catch {
    return false;
  }
}

// The store tells of a failure by its `error`, which is shown.
async function quietly(promise: Promise<unknown>): Promise<void> {
  await promise.catch(() => undefined);
}
