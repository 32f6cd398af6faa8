// Owns the address: `#/t/<thread>` names the open thread, so that a reload and a link find it again.

import { useEffect, useState } from "react";

const read = (): string => {
  const match = /^#\/t\/(.+)$/.exec(location.hash);
  try {
    return match?.[1] === undefined ? "" : decodeURIComponent(match[1]);
  } catch {
    return "";
  }
};

export function openThread(id: string): void {
  const hash = id === "" ? "#/" : `#/t/${encodeURIComponent(id)}`;
  if (location.hash !== hash) location.hash = hash;
}

/** Return the thread of the address; empty for a new one. */
export function useThreadId(): string {
  const [id, setId] = useState(read);
  useEffect(() => {
    const follow = (): void => setId(read());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return id;
}
