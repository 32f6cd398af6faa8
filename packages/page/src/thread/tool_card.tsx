// Owns how a call is shown: folded to a line with its name, arguments and state; open with all that is known of it.

import type { ToolPart, ToolState } from "@sapwood/react";
import { memo, type ReactNode } from "react";
import { CopyButton } from "../copy_button";
import { duration, json } from "../format";
import { ApprovalCard } from "./approval_card";

const WORDS: Readonly<Record<ToolState, string>> = {
  running: "running", waiting: "waits for you", done: "done", denied: "denied", error: "failed",
};

interface Props {
  readonly tool: ToolPart;
  readonly live: boolean;
  /** Lanes of the subagents that this call started. */
  readonly children?: ReactNode;
}

export const ToolCard = memo(function ToolCard({ tool, live, children }: Props): ReactNode {
  const state: ToolState = tool.state ?? (tool.isError ? "error" : "done");
  const waiting = state === "waiting" && tool.approval !== undefined;
  return (
    <div className="tool" role="group" data-state={state} aria-label={`Tool ${tool.name}`}>
      <details>
        <summary>
          <span className="tool-name">{tool.title || tool.name}</span>
          <span className="tool-peek">{peek(tool.args)}</span>
          <span className="tool-state">{state === "running" && !live ? "not finished" : WORDS[state]}</span>
          {tool.ms !== undefined && <span className="tool-time">{duration(tool.ms)}</span>}
        </summary>
        <Shown label="Arguments" value={tool.args} />
        {tool.result !== undefined && state !== "error" && <Shown label="Result" value={tool.result} />}
        {state === "error" && <Shown label="Error" value={tool.errorText ?? tool.result} />}
        {state === "denied" && <p className="muted">A person said no{tool.approval?.reason ? ` (asked because: ${tool.approval.reason})` : ""}.</p>}
      </details>
      {state === "error" && <p className="tool-error">{tool.errorText ?? json(tool.result)}</p>}
      {waiting && tool.approval && <ApprovalCard note={tool.approval} />}
      {children}
    </div>
  );
});

function Shown({ label, value }: { readonly label: string; readonly value: unknown }): ReactNode {
  const text = json(value);
  return (
    <div className="shown">
      <div className="shown-head"><span>{label}</span><CopyButton text={text} label={`Copy ${label.toLowerCase()}`} /></div>
      <pre tabIndex={0} aria-label={label}>{text}</pre>
    </div>
  );
}

/** Write arguments in a line: `city: "Lisbon", days: 3`. */
export function peek(args: unknown): string {
  if (typeof args !== "object" || args === null) return args === undefined ? "" : JSON.stringify(args);
  return Object.entries(args).map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(", ");
}
