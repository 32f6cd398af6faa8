// Owns the list of threads: read at the start, whenever a turn begins or ends here, and now and then for other windows.

import { useCallback, useEffect, useState } from "react";
import { API, getJson, path, remove as removeAt } from "./api";
import type { ThreadLine, ThreadPage } from "./contract";

const PAGE = 40;
const EVERY_MS = 20_000;

export interface Threads {
  readonly threads: readonly ThreadLine[];
  readonly hasMore: boolean;
  readonly error: unknown;
  readonly more: () => void;
  readonly reload: () => void;
  readonly remove: (id: string) => Promise<void>;
}

export function useThreads(enabled: boolean): Threads {
  const [threads, setThreads] = useState<readonly ThreadLine[]>([]);
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [size, setSize] = useState(PAGE);
  const reload = useCallback(() => {
    getJson<ThreadPage>(`${API}/threads?limit=${size}`).then(
      (page) => { setThreads(page.threads); setNext(page.next); setError(undefined); },
      (reason: unknown) => setError(reason),
    );
  }, [size]);
  useEffect(() => {
    if (!enabled) return undefined;
    reload();
    const timer = setInterval(() => { if (document.visibilityState === "visible") reload(); }, EVERY_MS);
    addEventListener("focus", reload);
    return () => { clearInterval(timer); removeEventListener("focus", reload); };
  }, [enabled, reload]);
  const remove = useCallback(async (id: string) => {
    try {
      await removeAt(path("threads", id));
    } catch (reason) {
      setError(reason);
    }
    reload();
  }, [reload]);
  return { threads, hasMore: next !== undefined, error, more: () => setSize((now) => now + PAGE), reload, remove };
}
