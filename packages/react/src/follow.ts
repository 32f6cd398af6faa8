// The chunks of a server's run, over as many connections as it takes.

import { pause } from "./abortable.js";
import type { Streaming } from "./connection.js";
import { AssistantError, readBatches } from "./stream.js";
import type { AnyChunk } from "./wire.js";

/** Where a stream was cut off: the run, and the number of the last event that came. */
export interface Cut {
  readonly runId: string;
  readonly after: string;
}

/**
 * from: where an earlier stream was cut off. onRun: the run has a name. onReplay: what comes now begins anew. onCut: where to
 * go on, null once it is over.
 */
export interface Follower {
  readonly from: Cut | null;
  readonly maxReconnects: number;
  readonly reconnectDelay: number;
  readonly again: (runId: string, after: string) => Promise<Streaming>;
  readonly onRun: (runId: string) => void;
  readonly onReplay: () => void;
  readonly onCut: (cut: Cut | null) => void;
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
    let cause: unknown;
    try {
      for await (const batch of readBatches(streaming.body, ending, signal)) {
        failures = 0;
        after = batch.at(-1)?.id || after;
        const chunks = batch.map((item) => item.chunk);
        for (const chunk of chunks) if (chunk.type === "start") named(chunk.messageMetadata?.runId);
        yield chunks;
      }
    } catch (error) {
      // A chunk that is no JSON comes again with every try.
      if (error instanceof SyntaxError) throw error;
      cause = error;
    } finally {
      follower.onCut(!ending.complete && runId !== undefined && after ? { runId, after } : null);
    }
    if (ending.complete || signal.aborted) return;
    streaming = null;
    while (!streaming) {
      if (runId === undefined || failures >= follower.maxReconnects) {
        throw new AssistantError("the connection broke", { code: "network", cause });
      }
      await pause(follower.reconnectDelay * 2 ** failures, signal);
      if (signal.aborted) return;
      failures += 1;
      streaming = await reconnected(runId, after, signal, follower);
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
