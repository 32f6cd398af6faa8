// Owns the answers to calls that wait. They are sent together once each call has its own: a run that gets a part of them
// would begin, stop at the others, and ask anew.

import type { AssistantItem, Decision, LimitNote, ToolPart, UseAssistant } from "@sapwood/react";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { getJson, path } from "./api";

interface Answers {
  readonly given: ReadonlySet<string>;
  readonly decide: (id: string, decision: Decision) => void;
  readonly extend: (amounts: Readonly<Record<string, number>>) => void;
  /** The limits at which the run waits, where no call has to be answered first. */
  readonly limits: readonly LimitNote[];
}

type Kept = Readonly<Record<string, Decision>>;

const NONE: Kept = {};
const NO_LIMITS: readonly LimitNote[] = [];

export function useAnswers(assistant: UseAssistant, onSent: () => void): Answers {
  const { status, paused, interrupted, runId, decide: send } = assistant;
  const [kept, setKept] = useState<Kept>(NONE);
  const limits = useLimits(paused && !interrupted ? runId : null);
  const open = openCalls(assistant.items.at(-1));
  useEffect(() => setKept(NONE), [runId, status]);
  // The functions never change: they are in the context of all messages, and each piece of an answer would draw all anew.
  const now = useRef({ kept, limits, open, onSent, send });
  useLayoutEffect(() => { now.current = { kept, limits, open, onSent, send }; });
  const decide = useCallback((id: string, decision: Decision) => {
    const before = now.current;
    const given = { ...before.kept, [id]: decision };
    now.current = { ...before, kept: given };
    setKept(given);
    // A limit that waits beside the calls is asked for last, and then all goes out at once.
    if (before.limits.length > 0 || before.open.some((tool) => tool.approvalId !== undefined && !Object.hasOwn(given, tool.approvalId))) return;
    before.onSent();
    // What fails is told by the store's `error`.
    before.send(given).catch(() => undefined);
  }, []);
  const extend = useCallback((amounts: Readonly<Record<string, number>>) => {
    now.current.onSent();
    now.current.send(now.current.kept, { ...amounts }).catch(() => undefined);
  }, []);
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
