// Owns the list of threads: read at the start, whenever a turn begins or ends here, and now and then for other windows.

import { useCallback, useEffect, useRef, useState } from "react";
import { API, ApiError, getJson, path, remove as removeAt, stopRun } from "./api";
import type { ThreadLine, ThreadPage } from "./contract";

const PAGE = 40;
const EVERY_MS = 20_000;
const PATIENCE = 40;
const PAUSE_MS = 250;

export interface Threads {
  readonly threads: readonly ThreadLine[];
  readonly hasMore: boolean;
  readonly error: unknown;
  readonly more: () => void;
  readonly reload: () => void;
  /** Delete a thread, and stop the run of this id before. Rejects with what the server refuses. */
  readonly remove: (id: string, runId?: string) => Promise<void>;
}

export function useThreads(enabled: boolean): Threads {
  const [threads, setThreads] = useState<readonly ThreadLine[]>([]);
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [size, setSize] = useState(PAGE);
  const asked = useRef(0);
  const reload = useCallback(() => {
    asked.current += 1;
    const own = asked.current;
    // An answer that was overtaken is old: it may hold a thread that was deleted meanwhile.
    const newest = (take: () => void): void => { if (own === asked.current) take(); };
    getJson<ThreadPage>(`${API}/threads?limit=${size}`).then(
      (page) => newest(() => { setThreads(page.threads); setNext(page.next); setError(undefined); }),
      (reason: unknown) => newest(() => setError(reason)),
    );
  }, [size]);
  useEffect(() => {
    if (!enabled) return undefined;
    reload();
    const timer = setInterval(() => { if (document.visibilityState === "visible") reload(); }, EVERY_MS);
    addEventListener("focus", reload);
    return () => { clearInterval(timer); removeEventListener("focus", reload); };
  }, [enabled, reload]);
  const remove = useCallback(async (id: string, runId?: string) => {
    try {
      if (runId !== undefined) await stopRun(runId);
      await removed(id, runId === undefined ? 0 : PATIENCE);
      setThreads((now) => now.filter((line) => line.id !== id));
    } finally {
      reload();
    }
  }, [reload]);
  const more = useCallback(() => setSize((now) => now + PAGE), []);
  return { threads, hasMore: next !== undefined, error, more, reload, remove };
}

/** Delete a thread. patience: how often to ask again while its run ends, which takes as long as its tools do. */
async function removed(id: string, patience: number): Promise<void> {
  try {
    await removeAt(path("threads", id));
  } catch (error) {
    if (patience === 0 || !(error instanceof ApiError && error.status === 409)) throw error;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    await removed(id, patience - 1);
  }
}
