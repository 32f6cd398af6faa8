// Owns what a person writes: the text, its attachments, and how both are sent.

import { useEffect, useImperativeHandle, useLayoutEffect, useRef, useState, type ClipboardEvent, type DragEvent, type KeyboardEvent, type ReactNode, type Ref } from "react";
import { bytes } from "../format";
import { ACCEPTED, readFile, refuse, type Attachment } from "./attachments";

export interface ComposerHandle {
  focus(): void;
  /** Put a text before what is there. */
  write(text: string): void;
}

interface Props {
  readonly running: boolean;
  /** The run can be ended: it goes on, or it waits for a person. */
  readonly canStop: boolean;
  /** Why nothing can be sent now, in words for a person; empty where it can. */
  readonly blocked: string;
  /** The thread that is written to: each has a draft of its own. */
  readonly place: string;
  /** Tell whether the message was taken: else it stays in the box. */
  readonly onSend: (text: string, files: readonly Attachment[]) => boolean;
  readonly onStop: () => void;
  readonly ref?: Ref<ComposerHandle>;
}

export function Composer({ running, canStop, blocked, place, onSend, onStop, ref }: Props): ReactNode {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const [problem, setProblem] = useState("");
  const [over, setOver] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useImperativeHandle(ref, () => ({
    focus: () => area.current?.focus(),
    write: (given) => { setText((now) => (now === "" ? given : `${given}\n${now}`)); area.current?.focus(); },
  }), []);
  useEffect(() => grow(area.current), [text]);
  useDrafts(place, { text, files }, (draft) => { setText(draft.text); setFiles(draft.files); setProblem(""); });
  useEffect(keepPage, []);

  const ready = !running && blocked === "" && (text.trim() !== "" || files.length > 0);
  const send = (): void => {
    if (!ready || !onSend(text.trim(), files)) return;
    setText("");
    setFiles([]);
    setProblem("");
    area.current?.focus();
  };
  const attach = async (list: readonly File[]): Promise<void> => {
    let held = files.reduce((sum, file) => sum + file.size, 0);
    const refused: string[] = [];
    const taken: Attachment[] = [];
    for (const file of list) {
      const reason = refuse(file, held);
      if (reason !== undefined) { refused.push(reason); continue; }
      held += file.size;
      taken.push(await readFile(file));
    }
    setFiles((before) => [...before, ...taken]);
    setProblem(refused.join(" "));
    area.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // An Enter that ends the writing of a Chinese or Japanese word is not meant for us.
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent): void => {
    const list = [...event.clipboardData.files];
    if (list.length === 0) return;
    event.preventDefault();
    void attach(list);
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    void attach([...event.dataTransfer.files]);
  };
  return (
    <form
      className="composer" aria-label="Your message" data-over={over || undefined}
      onSubmit={(event) => { event.preventDefault(); send(); }}
      onDragOver={(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <Chips files={files} onRemove={(index) => { setFiles(files.filter((_, at) => at !== index)); area.current?.focus(); }} />
      <textarea
        ref={area} id="message" rows={1} dir="auto" value={text} aria-label="Message" placeholder="Write a message" aria-describedby="composer-hint" data-composer
        onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} onPaste={onPaste}
      />
      <div className="composer-row">
        <button type="button" className="quiet" onClick={() => picker.current?.click()}>Attach</button>
        <input
          ref={picker} type="file" multiple accept={ACCEPTED} hidden aria-label="Files to attach"
          onChange={(event) => { void attach([...(event.target.files ?? [])]); event.target.value = ""; }}
        />
        <p id="composer-hint" className="hint" data-keys={blocked === "" || undefined}>{blocked || (running ? "Esc stops" : "Enter sends, Shift + Enter is a new line")}</p>
        {canStop
          ? <button type="button" className="button" onClick={onStop}>Stop</button>
          : <button type="submit" className="button primary" aria-disabled={!ready}>Send</button>}
      </div>
      <p role="alert" className="problem">{problem}</p>
    </form>
  );
}

function Chips({ files, onRemove }: { readonly files: readonly Attachment[]; readonly onRemove: (index: number) => void }): ReactNode {
  if (files.length === 0) return null;
  return (
    <ul className="chips" aria-label="Attachments">
      {files.map((file, index) => (
        <li key={index}>
          {file.mediaType.startsWith("image/") && <img src={file.url} alt="" />}
          <span className="chip-name" dir="auto">{file.filename}</span>
          <span className="muted chip-size">{bytes(file.size)}</span>
          <button type="button" className="quiet" aria-label={`Remove ${file.filename}`} onClick={() => onRemove(index)}>×</button>
        </li>
      ))}
    </ul>
  );
}

interface Draft {
  readonly text: string;
  readonly files: readonly Attachment[];
}

/** Put the draft of a thread away when another one is shown, and back when it is shown again. */
function useDrafts(place: string, draft: Draft, show: (draft: Draft) => void): void {
  const kept = useRef(new Map<string, Draft>());
  const at = useRef(place);
  useLayoutEffect(() => {
    if (at.current === place) return;
    kept.current.set(at.current, draft);
    at.current = place;
    show(kept.current.get(place) ?? { text: "", files: [] });
    // Only the way from one thread to another counts; what is written meanwhile is read when that happens.
  }, [place]);
}

/** A file that falls beside the box would make the browser show it instead of the page. */
function keepPage(): () => void {
  const keep = (event: globalThis.DragEvent): void => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); };
  addEventListener("dragover", keep);
  addEventListener("drop", keep);
  return () => { removeEventListener("dragover", keep); removeEventListener("drop", keep); };
}

function grow(area: HTMLTextAreaElement | null): void {
  if (!area) return;
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight, 220)}px`;
}
