// Owns how a call is shown: folded to a line with its name, arguments and state; open with all that is known of it.

import type { ToolPart, ToolState } from "@sapwood/react";
import { memo, useMemo, useState, type ReactNode } from "react";
import { CopyButton } from "../copy_button";
import { count, duration, json } from "../format";
import { ApprovalCard } from "./approval_card";

const WORDS: Readonly<Record<ToolState, string>> = {
  running: "running", waiting: "waits for you", done: "done", denied: "denied", error: "failed", stopped: "stopped",
};

interface Props {
  readonly tool: ToolPart;
  readonly live: boolean;
  /** A person is asked here; false where the same question stands elsewhere. */
  readonly asks: boolean;
  /** Lanes of the subagents that this call started. */
  readonly children?: ReactNode;
}

export const ToolCard = memo(function ToolCard({ tool, live, asks, children }: Props): ReactNode {
  const state: ToolState = tool.state ?? (tool.isError ? "error" : "done");
  // A result may be a million letters long: what is folded is not in the document.
  const [isOpen, setOpen] = useState(false);
  const waiting = asks && state === "waiting" && tool.approval !== undefined;
  return (
    <div className="tool" role="group" data-state={state} aria-label={`Tool ${tool.name}`}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span className="tool-name">{tool.title || tool.name}</span>
          <span className="tool-peek">{peek(tool.args)}</span>
          <span className="tool-state">{state === "running" && !live ? "not finished" : WORDS[state]}</span>
          {tool.ms !== undefined && <span className="tool-time">{duration(tool.ms)}</span>}
        </summary>
        {isOpen && <Shown label="Arguments" value={tool.args} />}
        {isOpen && tool.result !== undefined && state !== "error" && state !== "stopped" && <Shown label="Result" value={tool.result} />}
        {isOpen && state === "error" && <Shown label="Error" value={tool.errorText ?? tool.result} />}
        {isOpen && state === "denied" && <p className="muted">A person said no{tool.approval?.reason ? ` (asked because: ${tool.approval.reason})` : ""}.</p>}
      </details>
      {state === "error" && <p className="tool-error">{tool.errorText ?? json(tool.result)}</p>}
      {waiting && tool.approval && <ApprovalCard note={tool.approval} />}
      {children}
    </div>
  );
});

/** Letters of a value that are shown at first. */
const MOST = 20_000;

function Shown({ label, value }: { readonly label: string; readonly value: unknown }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const text = useMemo(() => json(value), [value]);
  const isLong = !isWhole && text.length > MOST;
  return (
    <div className="shown">
      <div className="shown-head"><span>{label}</span><CopyButton text={text} label={`Copy ${label.toLowerCase()}`} /></div>
      <pre tabIndex={0} aria-label={label}>{isLong ? text.slice(0, MOST) : text}</pre>
      {isLong && <button type="button" className="quiet" onClick={() => setWhole(true)}>Show all {count(text.length)} letters</button>}
    </div>
  );
}

/** Write arguments in a line: `city: "Lisbon", days: 3`. */
export function peek(args: unknown): string {
  if (typeof args !== "object" || args === null) return args === undefined ? "" : JSON.stringify(args);
  return Object.entries(args).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ");
}
