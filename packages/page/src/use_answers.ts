// Owns the answers to calls that wait. They are sent together once each call has its own: a run that gets a part of them
// would begin, stop at the others, and ask anew.

import type { AssistantItem, Decision, LimitNote, ToolPart, UseAssistant } from "@sapwood/react";
import { useCallback, useEffect, useMemo, useState } from "react";
import { getJson, path } from "./api";

interface Answers {
  readonly given: ReadonlySet<string>;
  readonly decide: (id: string, decision: Decision) => void;
  readonly extend: (amounts: Readonly<Record<string, number>>) => void;
  /** The limits at which the run waits, where no call has to be answered first. */
  readonly limits: readonly LimitNote[];
}

type Kept = Readonly<Record<string, Decision>>;

const NO_LIMITS: readonly LimitNote[] = [];

export function useAnswers(assistant: UseAssistant, onSent: () => void): Answers {
  const { status, runId, decide: send } = assistant;
  const [kept, setKept] = useState<Kept>({});
  const limits = useLimits(status === "waiting" && !assistant.interrupted ? runId : null);
  const open = openCalls(assistant.items.at(-1));
  useEffect(() => setKept({}), [runId, status]);
  const decide = useCallback((id: string, decision: Decision) => {
    const now = { ...kept, [id]: decision };
    setKept(now);
    // A limit that waits beside the calls is asked for last, and then all goes out at once.
    if (limits.length > 0 || open.some((tool) => tool.approvalId !== undefined && !(tool.approvalId in now))) return;
    onSent();
    // What fails is told by the store's `error`.
    send(now).catch(() => undefined);
  }, [kept, limits, open, onSent, send]);
  const extend = useCallback((amounts: Readonly<Record<string, number>>) => {
    onSent();
    send(kept, { ...amounts }).catch(() => undefined);
  }, [kept, onSent, send]);
  const given = useMemo(() => new Set(Object.keys(kept)), [kept]);
  const isAnswered = open.every((tool) => tool.approvalId === undefined || given.has(tool.approvalId));
  return { given, decide, extend, limits: isAnswered ? limits : NO_LIMITS };
}

function openCalls(item: AssistantItem | undefined): readonly ToolPart[] {
  if (item?.role !== "assistant") return [];
  return item.parts.filter((part): part is ToolPart => part.type === "tool" && part.state === "waiting");
}

/** Ask the server at which limits a run waits: a message keeps those that were extended as well. */
function useLimits(runId: string | null): readonly LimitNote[] {
  const [found, setFound] = useState<{ readonly runId: string; readonly limits: readonly LimitNote[] }>();
  useEffect(() => {
    if (runId === null) return undefined;
    const abort = new AbortController();
    getJson<{ limits: readonly LimitNote[] }>(path("runs", runId), abort.signal).then(
      (run) => setFound({ runId, limits: run.limits }),
      // Without an answer the calls can still be decided; the server says what is missing.
      () => undefined,
    );
    return () => { abort.abort(); setFound(undefined); };
  }, [runId]);
  return found && found.runId === runId ? found.limits : NO_LIMITS;
}
