// Owns the list of threads.

import { useEffect, useRef, useState, type ReactNode } from "react";
import type { ThreadLine } from "./contract";
import { since } from "./format";
import { openThread } from "./route";

const STATES: Readonly<Record<ThreadLine["status"], string>> = { idle: "", running: "running", waiting: "waits for you", interrupted: "interrupted" };

interface Props {
  readonly threads: readonly ThreadLine[];
  readonly current: string;
  readonly hasMore: boolean;
  readonly onMore: () => void;
  readonly onNew: () => void;
  readonly onRemove: (id: string) => Promise<void>;
}

export function Sidebar({ threads, current, hasMore, onMore, onNew, onRemove }: Props): ReactNode {
  return (
    <div className="threads">
      <button type="button" className="button new" onClick={onNew}>New conversation</button>
      <ul>
        {threads.map((thread) => <ThreadRow key={thread.id} thread={thread} isCurrent={thread.id === current} onRemove={onRemove} />)}
      </ul>
      {threads.length === 0 && <p className="muted nothing">No conversation yet.</p>}
      {hasMore && <button type="button" className="quiet" onClick={onMore}>Show older</button>}
    </div>
  );
}

function ThreadRow({ thread, isCurrent, onRemove }: { readonly thread: ThreadLine; readonly isCurrent: boolean; readonly onRemove: (id: string) => Promise<void> }): ReactNode {
  const [asks, setAsks] = useState(false);
  const yes = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (asks) yes.current?.focus(); }, [asks]);
  const state = STATES[thread.status];
  const title = thread.title || "Untitled";
  if (asks) {
    return (
      <li className="thread-row asks" role="group" aria-label={`Delete ${title}?`} onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); setAsks(false); } }}>
        <span>Delete for good?</span>
        <button type="button" className="quiet danger" ref={yes} onClick={() => { void onRemove(thread.id).finally(() => setAsks(false)); }}>Delete</button>
        <button type="button" className="quiet" onClick={() => setAsks(false)}>Keep</button>
      </li>
    );
  }
  return (
    <li className="thread-row" data-status={thread.status}>
      <a href={`#/t/${encodeURIComponent(thread.id)}`} aria-current={isCurrent ? "page" : undefined} onClick={(event) => { event.preventDefault(); openThread(thread.id); }}>
        <span className="thread-title">{title}</span>
        <span className="thread-when">{state || since(thread.updatedAt, Date.now())}</span>
      </a>
      <button type="button" className="quiet remove" aria-label={`Delete ${title}`} title="Delete" onClick={() => setAsks(true)}>×</button>
    </li>
  );
}
