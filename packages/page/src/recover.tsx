// Owns the ways out: what a person can do when a stream broke, a run failed, or the server ended in the middle of one.

import { AssistantError, fromUIMessages, type AssistantItem, type UseAssistant, type UserItem } from "@sapwood/react";
import type { ReactNode } from "react";
import { ApiError, getJson, path } from "./api";
import type { Thread } from "./contract";
import { Problem } from "./problem";

interface Props {
  readonly assistant: UseAssistant;
  /** Put a prompt that could not be sent back where it was written. */
  readonly onUnsent: (text: string) => void;
}

export function Recover({ assistant, onUnsent }: Props): ReactNode {
  const { error, failed, interrupted, busy } = assistant;
  if (busy) return failed === "stop" ? <StopFailed assistant={assistant} /> : null;
  if (isTaken(error)) {
    return (
      <Problem error={error}>
        <button type="button" className="button primary" onClick={() => void giveWay(assistant, onUnsent)}>Show what runs</button>
      </Problem>
    );
  }
  if (error !== null) {
    // Without a run there is nothing to join again.
    const isCut = error instanceof AssistantError && error.code === "network" && assistant.runId !== null && STREAMS.has(failed ?? "");
    return (
      <Problem error={error}>
        {isCut && <button type="button" className="button primary" onClick={() => void rejoin(assistant)}>Rejoin</button>}
        <button type="button" className="button" onClick={() => void retry(assistant, onUnsent)}>Try again</button>
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

const STREAMS = new Set<string>(["send", "decide", "resume", "rejoin"]);

/** The answer goes on although it was to be stopped. */
function StopFailed({ assistant }: { readonly assistant: UseAssistant }): ReactNode {
  return (
    <Problem error={assistant.error}>
      <span>The answer could not be stopped.</span>
      <button type="button" className="button" onClick={() => void quietly(assistant.stop())}>Stop again</button>
    </Problem>
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
  const { failed } = assistant;
  const asked = promptOf(assistant);
  if (assistant.threadId !== null) await quietly(assistant.load(assistant.threadId));
  if (asked !== undefined && failed === "send") onUnsent(asked.text);
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

/**
 * Go on with the run where the server kept it, ask the same again where that is what failed, or else read the thread anew.
 *
 * A prompt is sent again only where sending it failed: it never arrived, or its run is over. Whatever else failed has
 * nothing to do with it.
 */
export async function retry(assistant: UseAssistant, onUnsent: (text: string) => void): Promise<void> {
  const { runId, threadId, failed, error } = assistant;
  if (failed === "loadMore") return quietly(assistant.loadMore());
  if (STREAMS.has(failed ?? "") && runId !== null && (await isInterrupted(runId))) return quietly(assistant.resume());
  if (threadId === null) return;
  const asked = failed === "send" ? promptOf(assistant) : undefined;
  const fate = asked === undefined ? "arrived" : runId === null ? await fateOf(threadId, asked, assistant.items) : fateOfRun(error);
  // As long as the server is out of reach, all stays as it is, so that the next try knows as much as this one.
  if (fate === "unknown") return;
  // What the server knows replaces what this window guessed, so that a prompt is not there twice.
  const isLoaded = await succeeds(assistant.load(threadId));
  if (asked === undefined || fate === "arrived") return;
  if (isLoaded) await sendAgain(assistant, asked);
  else onUnsent(asked.text);
}

type Fate = "arrived" | "lost" | "unknown";

const fateOfRun = (error: unknown): Fate => (error instanceof AssistantError && error.code === "run_failed" ? "lost" : "arrived");

/** Tell whether a prompt reached the server although the answer to it did not reach us. */
async function fateOf(threadId: string, asked: UserItem, items: readonly AssistantItem[]): Promise<Fate> {
  try {
    const { messages } = await getJson<Thread>(`${path("threads", threadId)}?limit=1`);
    const [prompt, reply] = fromUIMessages(messages).slice(-2);
    const isThere = prompt?.role === "user" && prompt.text === asked.text && !items.some((item) => item.id === reply?.id);
    return isThere ? "arrived" : "lost";
  } catch (error) {
    return error instanceof ApiError && error.status === 404 ? "lost" : "unknown";
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

const succeeds = (promise: Promise<unknown>): Promise<boolean> => promise.then(() => true, () => false);
