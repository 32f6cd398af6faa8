import type { AssistantItem, AssistantPart, ToolPart } from "@sapwood/react";
import { memo, useState } from "react";

interface Actions {
  readonly onApprove: (id: string, also?: { input?: Record<string, unknown> }) => Promise<void>;
  readonly onDeny: (id: string, reason?: string) => Promise<void>;
}

/** Memoised: an item that did not change is the same object, and is not rendered again. */
export const Item = memo(function Item({ item, ...actions }: { readonly item: AssistantItem } & Actions) {
  if (item.role === "user") return <li data-role="user">{item.text}</li>;
  return (
    <li data-role="assistant">
      {item.parts.map((part, at) => (
        <Part key={at} part={part} {...actions} />
      ))}
      {item.error && <p>{item.error}</p>}
      {item.metadata?.stoppedBy === "cancelled" && <p>Stopped.</p>}
    </li>
  );
});

const Part = memo(function Part({ part, ...actions }: { readonly part: AssistantPart } & Actions) {
  switch (part.type) {
    case "text":
      return <p>{part.text}</p>;
    case "thinking":
      return (
        <details>
          <summary>Thinking</summary>
          {part.text}
        </details>
      );
    case "tool":
      return <Tool tool={part} {...actions} />;
    case "subagent":
      return (
        <section aria-label={part.agent}>
          {part.parts.map((inner, at) => (
            <Part key={at} part={inner} {...actions} />
          ))}
        </section>
      );
    default:
      // What the request held, what was remembered, files and limits: see docs/react.md for the others.
      return null;
  }
});

function Tool({ tool, onApprove, onDeny }: { readonly tool: ToolPart } & Actions) {
  return (
    <section data-tool={tool.name} data-state={tool.state}>
      <b>{tool.name}</b> <code>{JSON.stringify(tool.args)}</code> <i>{tool.state}</i>
      {tool.state === "done" && <output>{JSON.stringify(tool.result)}</output>}
      {tool.state === "waiting" && tool.approvalId !== undefined && (
        <Question id={tool.approvalId} tool={tool} onApprove={onApprove} onDeny={onDeny} />
      )}
    </section>
  );
}

function Question({ id, tool, onApprove, onDeny }: { readonly id: string; readonly tool: ToolPart } & Actions) {
  const asked = JSON.stringify(tool.args);
  const [text, setText] = useState(asked);
  const [reason, setReason] = useState("");
  const input = parsed(text);
  const approve = (): void => {
    if (input) void onApprove(id, text === asked ? {} : { input }).catch(() => undefined);
  };
  return (
    <fieldset>
      <legend>May it do this?</legend>
      <textarea aria-label="Arguments" value={text} onChange={(event) => setText(event.target.value)} />
      <input aria-label="Reason" value={reason} onChange={(event) => setReason(event.target.value)} />
      <button type="button" disabled={!input} onClick={approve}>
        Approve
      </button>
      <button type="button" onClick={() => void onDeny(id, reason).catch(() => undefined)}>
        Deny
      </button>
    </fieldset>
  );
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
