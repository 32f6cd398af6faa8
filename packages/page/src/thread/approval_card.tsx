// Owns how a person answers a call that waits: yes, yes with other arguments, no with a reason, or a result from outside.

import type { ApprovalNote } from "@sapwood/react";
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { json } from "../format";
import { useActions } from "./actions";

type Mode = "ask" | "edit" | "deny";

export function ApprovalCard({ note }: { readonly note: ApprovalNote }): ReactNode {
  const { given } = useActions();
  if (given.has(note.id)) return <p className="approval muted" role="status">Your answer is kept until the other calls have theirs.</p>;
  return note.kind === "external" ? <ExternalCard note={note} /> : <YesOrNo note={note} />;
}

function YesOrNo({ note }: { readonly note: ApprovalNote }): ReactNode {
  const { decide } = useActions();
  const [mode, setMode] = useState<Mode>("ask");
  const opened = useRef<Mode>("ask");
  const [edit, deny] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)];
  // The button that opened a form has the focus again when the form is gone.
  useEffect(() => {
    if (mode === "ask") ({ ask: null, edit, deny })[opened.current]?.current?.focus();
    opened.current = mode;
  }, [mode]);
  const isUnknown = note.kind === "unknown";
  return (
    <div className="approval" role="group" aria-label={`Your word on ${note.name}`}>
      <p className="approval-title">
        {isUnknown ? <>It is not known whether <code>{note.name}</code> ran. Run it again?</> : <>May <code>{note.name}</code> run?</>}
      </p>
      {note.reason ? <p className="approval-reason">{note.reason}</p> : null}
      <Expiry at={note.expiresAt} />
      {mode === "ask" && (
        <>
          <Arguments input={note.input} />
          <div className="row">
            <button type="button" className="button primary" onClick={() => decide(note.id, { approved: true })}>{isUnknown ? "Run again" : "Approve"}</button>
            <button type="button" className="button" ref={edit} onClick={() => setMode("edit")}>Edit</button>
            <button type="button" className="button danger" ref={deny} onClick={() => setMode("deny")}>{isUnknown ? "Leave it" : "Deny"}</button>
          </div>
        </>
      )}
      {mode === "edit" && <Edit note={note} onBack={() => setMode("ask")} />}
      {mode === "deny" && <Deny note={note} onBack={() => setMode("ask")} />}
    </div>
  );
}

function Arguments({ input }: { readonly input: ApprovalNote["input"] }): ReactNode {
  const entries = Object.entries(input);
  if (entries.length === 0) return <p className="muted">without arguments</p>;
  return (
    <dl className="arguments">
      {entries.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{json(value)}</dd></div>
      ))}
    </dl>
  );
}

function Expiry({ at }: { readonly at: number | undefined }): ReactNode {
  if (at === undefined) return null;
  return <p className="muted">The question stands until {new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })}.</p>;
}

function Edit({ note, onBack }: { readonly note: ApprovalNote; readonly onBack: () => void }): ReactNode {
  const { decide } = useActions();
  const [text, setText] = useState(() => JSON.stringify(note.input, null, 2));
  const parsed = parseArguments(text);
  const id = useId();
  const area = useFocus<HTMLTextAreaElement>();
  return (
    <form onKeyDown={onEscape(onBack)} onSubmit={(event) => { event.preventDefault(); if (parsed.input) decide(note.id, { approved: true, input: parsed.input }); }}>
      <label htmlFor={id}>Arguments, as JSON</label>
      <textarea
        ref={area} id={id} className="code" rows={Math.min(14, text.split("\n").length + 1)} value={text} spellCheck={false}
        aria-invalid={parsed.problem !== ""} aria-describedby={`${id}-problem`} onChange={(event) => setText(event.target.value)}
      />
      <p id={`${id}-problem`} className="problem" role="alert">{parsed.problem}</p>
      <div className="row">
        <button type="submit" className="button primary" aria-disabled={!parsed.input}>Approve with these</button>
        <button type="button" className="button" onClick={onBack}>Back</button>
      </div>
    </form>
  );
}

function Deny({ note, onBack }: { readonly note: ApprovalNote; readonly onBack: () => void }): ReactNode {
  const { decide } = useActions();
  const [reason, setReason] = useState("");
  const id = useId();
  const field = useFocus<HTMLInputElement>();
  return (
    <form onKeyDown={onEscape(onBack)} onSubmit={(event) => { event.preventDefault(); decide(note.id, { approved: false, ...(reason.trim() ? { reason: reason.trim() } : {}) }); }}>
      <label htmlFor={id}>Why not? The model reads it. <span className="muted">May be left empty.</span></label>
      <input ref={field} id={id} dir="auto" value={reason} onChange={(event) => setReason(event.target.value)} />
      <div className="row">
        <button type="submit" className="button danger">Deny</button>
        <button type="button" className="button" onClick={onBack}>Back</button>
      </div>
    </form>
  );
}

function ExternalCard({ note }: { readonly note: ApprovalNote }): ReactNode {
  const { decide } = useActions();
  const [text, setText] = useState("");
  const [isError, setIsError] = useState(false);
  const id = useId();
  const send = (): void => { if (text.trim()) decide(note.id, { result: parseResult(text), ...(isError ? { isError } : {}) }); };
  return (
    <form className="approval" aria-label={`The result of ${note.name}`} onSubmit={(event) => { event.preventDefault(); send(); }}>
      <p className="approval-title"><code>{note.name}</code> runs outside. What did it give?</p>
      {note.reason ? <p className="approval-reason">{note.reason}</p> : null}
      <Arguments input={note.input} />
      <label htmlFor={id}>Result <span className="muted">JSON where it is JSON, else text</span></label>
      <textarea id={id} className="code" rows={2} value={text} onChange={(event) => setText(event.target.value)} />
      <label className="check"><input type="checkbox" checked={isError} onChange={(event) => setIsError(event.target.checked)} /> It failed</label>
      <div className="row">
        <button type="submit" className="button primary" aria-disabled={!text.trim()}>Give the result</button>
        <button type="button" className="button danger" onClick={() => decide(note.id, { approved: false })}>There is none</button>
      </div>
    </form>
  );
}

/** Read edited arguments: they must be an object, as a tool takes names. */
export function parseArguments(text: string): { readonly input?: Record<string, unknown>; readonly problem: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { input: value as Record<string, unknown>, problem: "" };
    return { problem: "The arguments are an object: {\"name\": value}." };
  } catch (error) {
    return { problem: `This is not JSON: ${(error as Error).message}` };
  }
}

export function parseResult(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Esc leaves a form, and does no more than that. */
const onEscape = (leave: () => void) => (event: KeyboardEvent): void => {
  if (event.key !== "Escape" || event.nativeEvent.isComposing) return;
  event.stopPropagation();
  leave();
};

function useFocus<T extends HTMLElement>(): React.RefObject<T | null> {
  const field = useRef<T>(null);
  useEffect(() => field.current?.focus(), []);
  return field;
}
