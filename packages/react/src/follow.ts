// The chunks of a server's run, over as many connections as it takes.

import { pause } from "./abortable.js";
import type { Streaming } from "./connection.js";
import { AssistantError, readBatches, type Numbered } from "./stream.js";
import type { AnyChunk } from "./wire.js";

/** Where a stream was cut off: the run, and the number of the last event that came. */
export interface Cut {
  readonly runId: string;
  readonly after: string;
}

/**
 * from: where an earlier stream was cut off. onRun: the run has a name. onReplay: what comes now begins anew. onCut: where to
 * go on, null once it is over. onBreak: the connection broke, or is there again.
 */
export interface Follower {
  readonly from: Cut | null;
  readonly maxReconnects: number;
  readonly reconnectDelay: number;
  readonly again: (runId: string, after: string) => Promise<Streaming>;
  readonly onRun: (runId: string) => void;
  readonly onReplay: () => void;
  readonly onCut: (cut: Cut | null) => void;
  readonly onBreak: (isBroken: boolean) => void;
}

/** Yield the chunks of a run, those that arrived together at once, and take a broken connection up again. */
export async function* follow(
  open: () => Promise<Streaming | null>,
  signal: AbortSignal,
  follower: Follower,
): AsyncGenerator<readonly AnyChunk[], void, undefined> {
  let streaming = await open();
  let { runId, after } = follower.from ?? { runId: undefined, after: "" };
  let failures = 0;
  const named = (id: string | undefined): void => {
    if (id === undefined || id === runId) return;
    runId = id;
    follower.onRun(id);
  };
  while (streaming && !signal.aborted) {
    named(streaming.runId);
    const ending = { complete: false };
    const held: Numbered[] = [];
    let cause: unknown;
    try {
      for await (const batch of readBatches(streaming.body, ending, signal)) {
        failures = 0;
        for (const { chunk } of batch) if (chunk.type === "start") named(chunk.messageMetadata?.runId);
        // An event is several chunks, of which the last is numbered. Half of one would come again after a break.
        held.push(...batch);
        const numbered = runId === undefined || ending.complete ? held.length : lastNumbered(held) + 1;
        const whole = held.splice(0, numbered);
        after = whole[lastNumbered(whole)]?.id ?? after;
        if (whole.length > 0) yield whole.map((item) => item.chunk);
      }
    } catch (error) {
      // A chunk that is no JSON comes again with every try.
      if (error instanceof SyntaxError) throw error;
      cause = error;
    } finally {
      follower.onCut(!ending.complete && runId !== undefined && after ? { runId, after } : null);
    }
    if (ending.complete && held.length > 0) yield held.map((item) => item.chunk);
    if (ending.complete || signal.aborted) return;
    streaming = null;
    while (!streaming) {
      if (runId === undefined || failures >= follower.maxReconnects) {
        throw new AssistantError("the connection broke", { code: "network", cause });
      }
      follower.onBreak(true);
      await pause(follower.reconnectDelay * 2 ** failures, signal);
      if (signal.aborted) return;
      failures += 1;
      streaming = await reconnected(runId, after, signal, follower);
      if (streaming) follower.onBreak(false);
    }
  }
}

/** Return the rest of the run; null where another try may do better. */
async function reconnected(
  runId: string,
  after: string,
  signal: AbortSignal,
  follower: Follower,
): Promise<Streaming | null> {
  try {
    const streaming = await follower.again(runId, after);
    if (!after) follower.onReplay();
    return streaming;
  } catch (error) {
    const mayPass = error instanceof AssistantError && (error.code === "network" || error.status >= 500);
    if (!mayPass && !signal.aborted) throw error;
    return null;
  }
}

function lastNumbered(batch: readonly Numbered[]): number {
  return batch.findLastIndex((item) => item.id !== "");
}
