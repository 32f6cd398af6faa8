// Owns what a screen reader hears while nothing has the focus: states at once, an answer by the paragraph.

import type { AssistantItem, UseAssistant } from "@sapwood/react";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { spoken, type Heard } from "./thread/spoken";

/** Paragraphs that stay in the document: those before them were said. */
const KEPT = 12;

export function Announcer({ assistant }: { readonly assistant: UseAssistant }): ReactNode {
  const { busy, items } = assistant;
  const last = items.at(-1);
  const fresh = useFresh(last, busy);
  return (
    <div className="hidden">
      <p role="status" data-state={assistant.status}>{stateWords(assistant)}</p>
      <div role="log" aria-live="polite" aria-label="The answer, by the paragraph">
        {fresh.slice(-KEPT).map((text, index) => <p key={Math.max(0, fresh.length - KEPT) + index}>{text}</p>)}
      </div>
    </div>
  );
}

/** Return the paragraphs of an answer that came while this page looked on: a thread that is opened is not read out. */
function useFresh(item: AssistantItem | undefined, busy: boolean): readonly string[] {
  const [heard, setHeard] = useState(false);
  const id = useRef<string>(undefined);
  useEffect(() => {
    if (busy) { setHeard(true); id.current = item?.id; }
    else if (item?.id !== id.current) setHeard(false);
  }, [busy, item?.id]);
  const kept = useRef<Heard>(new Map());
  return heard ? spoken(item, busy, kept.current) : [];
}

type State = Pick<UseAssistant, "status" | "items" | "retry" | "interrupted" | "reconnecting">;

export function stateWords({ status, items, retry, interrupted, reconnecting }: State): string {
  const last = items.at(-1);
  if (reconnecting) return "The connection broke; it is being taken up again.";
  if (retry) return `The model did not answer; it is asked again in ${Math.ceil(retry.seconds)} seconds.`;
  if (interrupted) return "The answer was interrupted.";
  switch (status) {
    case "submitted": return "Sent.";
    case "streaming": return "The answer is coming.";
    case "error": return "";
    case "waiting": {
      const names = last?.role === "assistant" ? last.parts.flatMap((part) => (part.type === "tool" && part.state === "waiting" ? [part.name] : [])) : [];
      return names.length > 0 ? `Waiting for your word on ${names.join(" and ")}.` : "Waiting for your word on a limit.";
    }
    case "ready":
      if (last?.role !== "assistant") return "";
      return last.metadata?.stoppedBy === "cancelled" ? "Stopped." : "The answer is complete.";
  }
}
