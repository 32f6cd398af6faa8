// Owns the list of threads.

import { memo, useEffect, useRef, useState, type ReactNode } from "react";
import { ApiError } from "./api";
import type { ThreadLine } from "./contract";
import { since } from "./format";
import { tell } from "./problem";
import { openThread } from "./route";

const STATES: Readonly<Record<ThreadLine["status"], string>> = { idle: "", running: "running", waiting: "waits for you", interrupted: "interrupted" };

interface Props {
  readonly threads: readonly ThreadLine[];
  readonly current: string;
  readonly hasMore: boolean;
  readonly onMore: () => void;
  readonly onNew: () => void;
  /** Delete a thread, and stop its run of this id before. */
  readonly onRemove: (id: string, runId?: string) => Promise<void>;
}

export const Sidebar = memo(function Sidebar({ threads, current, hasMore, onMore, onNew, onRemove }: Props): ReactNode {
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
});

interface RowProps {
  readonly thread: ThreadLine;
  readonly isCurrent: boolean;
  readonly onRemove: Props["onRemove"];
}

function ThreadRow({ thread, isCurrent, onRemove }: RowProps): ReactNode {
  const [asks, setAsks] = useState(false);
  const [problem, setProblem] = useState<unknown>();
  const [isRemoving, setRemoving] = useState(false);
  const yes = useRef<HTMLButtonElement>(null);
  useEffect(() => { if (asks) yes.current?.focus(); }, [asks]);
  const state = STATES[thread.status];
  const title = thread.title || "Untitled";
  const keep = (): void => { setAsks(false); setProblem(undefined); };
  const remove = async (runId?: string): Promise<void> => {
    setRemoving(true);
    setProblem(undefined);
    try {
      await onRemove(thread.id, runId);
      setAsks(false);
    } catch (error) {
      setProblem(error);
    }
    setRemoving(false);
  };
  if (asks) {
    const running = problem instanceof ApiError && problem.status === 409 ? problem.runId ?? thread.runId : undefined;
    return (
      <li className="thread-row asks" role="group" aria-label={`Delete ${title}?`} onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); keep(); } }}>
        {problem === undefined ? <span>{isRemoving ? "Deleting" : "Delete for good?"}</span> : <p role="alert">Not deleted: {tell(problem).words}</p>}
        <button type="button" className="quiet danger" ref={yes} disabled={isRemoving} onClick={() => void remove(running)}>{running === undefined ? "Delete" : "Stop and delete"}</button>
        <button type="button" className="quiet" onClick={keep}>Keep</button>
      </li>
    );
  }
  return (
    <li className="thread-row" data-status={thread.status}>
      <a href={`#/t/${encodeURIComponent(thread.id)}`} aria-current={isCurrent ? "page" : undefined} onClick={(event) => { event.preventDefault(); openThread(thread.id); }}>
        <span className="thread-title" dir="auto">{title}</span>
        <span className="thread-when">{state || since(thread.updatedAt, Date.now())}</span>
      </a>
      <button type="button" className="quiet remove" aria-label={`Delete ${title}`} title="Delete" onClick={() => setAsks(true)}>×</button>
    </li>
  );
}
