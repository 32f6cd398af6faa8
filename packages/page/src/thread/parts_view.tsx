// Owns how the parts of an answer are shown, the top level's and, with the same code, those of a subagent.

import type { AssistantPart, CompactionPart, ContextPart, FilePart, LimitPart, MemoryPart, OutputPart, SubagentPart, ToolPart } from "@sapwood/react";
import { memo, useMemo, useRef, type ReactNode } from "react";
import { count, json } from "../format";
import { safeLink } from "../markdown/links";
import { Markdown } from "../markdown/markdown";
import { limitWords } from "./limit_card";
import { joinNotes } from "./notes";
import { counted, NO_WORDS, total } from "./spoken";
import { ToolCard } from "./tool_card";

interface Props {
  readonly parts: readonly AssistantPart[];
  /** The calls that lead here; empty at the top level. */
  readonly path?: readonly string[];
  readonly live: boolean;
}

const TOP: readonly string[] = [];

export function PartsView({ parts, path = TOP, live }: Props): ReactNode {
  const shown = useMemo(() => joinNotes(parts), [parts]);
  const lanes = useMemo(() => parts.filter((part) => part.type === "subagent"), [parts]);
  return shown.map((part, index) => {
    const isLast = index === shown.length - 1;
    if (part.type === "tool") return <ToolView key={`tool-${part.id ?? index}`} tool={part} lanes={lanesOf(lanes, part, path)} live={live} asks={path.length === 0} />;
    if (part.type === "subagent") return hasCall(parts, part) ? null : <Lane key={`lane-${part.path.join("/")}`} lane={part} live={live} />;
    return <PartView key={`${part.type}-${index}`} part={part} live={live && isLast} />;
  });
}

const NONE: readonly SubagentPart[] = [];

/** Return the lanes that a call started, those below them included. */
function lanesOf(lanes: readonly SubagentPart[], tool: ToolPart, path: readonly string[]): readonly SubagentPart[] {
  const here = [...path, tool.id ?? ""];
  const found = lanes.filter((lane) => here.every((id, at) => lane.path[at] === id) || lane.path.join("/") === tool.id);
  return found.length === 0 ? NONE : found;
}

const hasCall = (parts: readonly AssistantPart[], lane: SubagentPart): boolean =>
  parts.some((part) => part.type === "tool" && part.id !== undefined && (lane.path.includes(part.id) || lane.path.join("/") === part.id));

interface ToolViewProps {
  readonly tool: ToolPart;
  readonly lanes: readonly SubagentPart[];
  readonly live: boolean;
  /** What a subagent asks stands at the top as well, and is answered there. */
  readonly asks: boolean;
}

function ToolView({ tool, lanes, live, asks }: ToolViewProps): ReactNode {
  return (
    <ToolCard tool={tool} live={live} asks={asks}>
      {lanes.map((lane) => <Lane key={lane.path.join("/")} lane={lane} live={live} />)}
    </ToolCard>
  );
}

const Lane = memo(function Lane({ lane, live }: { readonly lane: SubagentPart; readonly live: boolean }): ReactNode {
  return (
    <details className="lane" open={!lane.done || undefined} data-depth={lane.path.length}>
      <summary>
        <span className="lane-name">{lane.agent || "subagent"}</span>
        <span className="muted">{lane.error ? "failed" : lane.done ? "done" : "at work"}</span>
      </summary>
      <div className="lane-body">
        <PartsView parts={lane.parts} path={lane.path} live={live && !lane.done} />
        {lane.error !== undefined && <p className="problem">{lane.error}</p>}
      </div>
    </details>
  );
});

const PartView = memo(function PartView({ part, live }: { readonly part: Exclude<AssistantPart, ToolPart | SubagentPart>; readonly live: boolean }): ReactNode {
  switch (part.type) {
    case "text":
      return <Markdown text={part.text} />;
    case "thinking":
      return <Thinking text={part.text} live={live} />;
    case "context":
    case "memory":
      return <ContextLine part={part} />;
    case "compaction":
      return <Compaction part={part} />;
    case "output":
      return <Output part={part} />;
    case "limit":
      return <LimitLine part={part} />;
    case "file":
      return <FileView file={part} />;
    case "ledger":
      return null;
  }
});

function Thinking({ text, live }: { readonly text: string; readonly live: boolean }): ReactNode {
  const words = useRef(NO_WORDS);
  words.current = counted(words.current, text);
  return (
    <details className="thinking">
      <summary>{live ? "Thinking…" : "Thinking"} <span className="muted">{count(total(words.current))} words</span></summary>
      <div className="thinking-text">{text}</div>
    </details>
  );
}

function ContextLine({ part }: { readonly part: ContextPart | MemoryPart }): ReactNode {
  const source = part.type === "context" ? part.source : "memory";
  const tools = part.type === "context" ? part.tools ?? [] : [];
  const skill = part.type === "context" ? part.skill ?? "" : "";
  const records = part.records ?? [];
  const what = [
    records.length > 0 && `${count(records.length)} ${records.length === 1 ? "record" : "records"}`,
    tools.length > 0 && tools.join(", "),
    skill !== "" && `by ${skill}`,
  ].filter(Boolean).join(", ");
  const words = <><span className="note-source">{source}</span> {part.op} {what}</>;
  if (records.length === 0) return <p className="note" data-op={part.op}>{words}</p>;
  return (
    <details className="note" data-op={part.op}>
      <summary>{words}</summary>
      <ul>{records.map((record) => <li key={record.id}>{record.text}{record.reason ? <span className="muted"> — {record.reason}</span> : null}</li>)}</ul>
    </details>
  );
}

function Compaction({ part }: { readonly part: CompactionPart }): ReactNode {
  return <p className="note">history shortened from {count(part.tokensBefore)} to {count(part.tokensAfter)} tokens</p>;
}

function Output({ part }: { readonly part: OutputPart }): ReactNode {
  return (
    <figure className="code-block">
      <figcaption><span>Output{part.final ? "" : ", so far"}</span></figcaption>
      <pre tabIndex={0} aria-label="Structured output"><code>{json(part.value)}</code></pre>
    </figure>
  );
}

function LimitLine({ part }: { readonly part: LimitPart }): ReactNode {
  return <p className="note" data-op="failed">limit reached: {limitWords(part)}</p>;
}

export function FileView({ file }: { readonly file: FilePart }): ReactNode {
  const name = file.filename ?? file.mediaType;
  if (file.mediaType.startsWith("image/") && file.url.startsWith("data:")) return <img className="attached" src={file.url} alt={name} />;
  const kind = <span className="file-kind">{file.mediaType.startsWith("text/") ? "text" : file.mediaType.split("/").at(-1)}</span>;
  const address = safeLink(file.url);
  if (address !== undefined) return <p className="file">{kind} <a href={address} target="_blank" rel="noopener noreferrer nofollow">{name}</a></p>;
  // A download, never a view: what the file says must not run as a page.
  return <p className="file">{kind} {file.url.startsWith("data:") ? <a href={file.url} download={name}>{name}</a> : name}</p>;
}
