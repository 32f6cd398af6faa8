// Owns the page as a whole: who is let in, which thread is open, and where the focus goes.

import { useAssistant, type AssistantItem, type FilePart, type UseAssistant } from "@sapwood/react";
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Announcer, stateWords } from "./announcer";
import { API, authHeaders, getJson, MOUNT } from "./api";
import type { Attachment } from "./composer/attachments";
import { Composer, type ComposerHandle } from "./composer/composer";
import { ContextPanel } from "./context/panel";
import type { Info, ThreadLine } from "./contract";
import { count } from "./format";
import { isUnauthorized, Problem, tell } from "./problem";
import { Recover } from "./recover";
import { openThread, useThreadId } from "./route";
import { Sidebar } from "./sidebar";
import { useTheme } from "./theme";
import { ActionsContext } from "./thread/actions";
import { LimitCard } from "./thread/limit_card";
import { ThreadView } from "./thread/thread_view";
import { TokenForm } from "./token_form";
import { useAnswers } from "./use_answers";
import { useThreads } from "./use_threads";

export function App(): ReactNode {
  const [info, setInfo] = useState<Info>();
  const [error, setError] = useState<unknown>();
  const enter = useCallback(() => {
    getJson<Info>(`${API}/info`).then((found) => { setInfo(found); setError(undefined); }, setError);
  }, []);
  useEffect(enter, [enter]);
  if (info) return <Page info={info} onLockedOut={(reason) => { setInfo(undefined); setError(reason); }} />;
  if (isUnauthorized(error)) return <TokenForm key={String(error)} onDone={enter} />;
  if (error === undefined) return <main className="gate" aria-busy="true"><h1 className="hidden">sapwood</h1></main>;
  return <main className="gate"><h1>sapwood</h1><Problem error={error}><button type="button" className="button" onClick={enter}>Try again</button></Problem></main>;
}

function Page({ info, onLockedOut }: { readonly info: Info; readonly onLockedOut: (error: unknown) => void }): ReactNode {
  const routeId = useThreadId();
  const list = useThreads(true);
  const { reload } = list;
  const assistant = useAssistant({ url: MOUNT, headers: authHeaders, onDone: reload, ...(routeId === "" ? {} : { threadId: routeId }) });
  useRoute(assistant, routeId, reload);
  const composer = useRef<ComposerHandle>(null);
  const focusComposer = useCallback(() => composer.current?.focus(), []);
  const restore = useCallback((text: string) => composer.current?.write(text), []);
  const answers = useAnswers(assistant, focusComposer);
  const panel = useContextPanel(assistant.items);
  const [isListOpen, setListOpen] = useState(false);
  const [theme, toggleTheme] = useTheme();
  const { given, decide, extend } = answers;
  const { open: openContext } = panel;
  const actions = useMemo(() => ({ given, decide, extend, openContext }), [given, decide, extend, openContext]);
  useEscape(assistant, panel.close, isListOpen ? () => setListOpen(false) : undefined);
  useEffect(focusComposer, [routeId, focusComposer]);
  useEffect(() => setListOpen(false), [routeId]);
  const refused = [assistant.error, list.error].find(isUnauthorized);
  useEffect(() => { if (refused !== undefined) onLockedOut(refused); }, [refused, onLockedOut]);

  const thread = list.threads.find((item) => item.id === assistant.threadId);
  useOtherWindows(assistant, thread);
  const title = thread?.title || (assistant.items.length > 0 ? "Conversation" : "New conversation");
  useEffect(() => { document.title = assistant.items.length > 0 ? `${title} – ${info.name}` : info.name; }, [title, info.name, assistant.items.length]);
  const { load, threadId } = assistant;
  const { remove } = list;
  const startNew = useCallback(() => { void load(); openThread(""); focusComposer(); }, [load, focusComposer]);
  const removeThread = useCallback(async (id: string, runId?: string): Promise<void> => {
    await remove(id, runId);
    if (id === threadId) startNew();
  }, [remove, threadId, startNew]);
  const send = (text: string, files: readonly Attachment[]): boolean => {
    let isTaken = false;
    assistant.send(text, { files: files.map(asPart), onTaken: () => { isTaken = true; } }).catch(() => undefined);
    return isTaken;
  };
  // A refusal of the same server is not told at both sides.
  const listError = assistant.error === null ? list.error : undefined;
  const isOpen = panel.reply !== undefined;
  return (
    <ActionsContext value={actions}>
      <div className="app" data-panel={isOpen || undefined} data-list={isListOpen || undefined}>
        <a className="skip" href="#message" onClick={(event) => { event.preventDefault(); focusComposer(); }}>To the message box</a>
        <nav className="side" id="threads" aria-label="Conversations">
          <p className="brand"><Mark />{info.name}</p>
          <Sidebar threads={list.threads} current={assistant.threadId ?? ""} hasMore={list.hasMore} onMore={list.more} onNew={startNew} onRemove={removeThread} />
          {listError !== undefined && <Problem error={listError}><button type="button" className="button" onClick={reload}>Try again</button></Problem>}
          <p className="side-foot muted"><span>{info.model}</span>{info.window > 0 && <span>{count(info.window)} tokens</span>}</p>
        </nav>
        <main className="center">
          <header className="top">
            <button type="button" className="quiet list-toggle" aria-expanded={isListOpen} aria-controls="threads" onClick={() => setListOpen(!isListOpen)}>Conversations</button>
            <h1 title={title} dir="auto">{title}</h1>
            <span className="state" aria-hidden="true" data-status={assistant.status}>{shownState(assistant)}</span>
            <button type="button" className="quiet" aria-pressed={isOpen} disabled={!panel.canOpen} onClick={isOpen ? panel.close : panel.openLast}>Context</button>
            <button type="button" className="quiet" onClick={toggleTheme} aria-label={theme === "dark" ? "Use light colours" : "Use dark colours"}>{theme === "dark" ? "Light" : "Dark"}</button>
          </header>
          <Announcer assistant={assistant} />
          {assistant.items.length === 0
            ? <Empty info={info} loading={assistant.loading}><Recover assistant={assistant} onUnsent={restore} /></Empty>
            : (
              <ThreadView key={assistant.threadId ?? ""} items={assistant.items} live={assistant.busy} name={info.name} hasOlder={assistant.hasMore} loadOlder={assistant.loadMore} told={assistant.error === null || assistant.busy ? undefined : tell(assistant.error).words}>
                {answers.limits.length > 0 && <LimitCard limits={answers.limits} />}
                {assistant.retry && <p className="pending"><i className="pulse" aria-hidden="true" />{stateWords(assistant)}</p>}
                <Recover assistant={assistant} onUnsent={restore} />
              </ThreadView>
            )}
          <Composer ref={composer} running={assistant.busy} canStop={assistant.busy || (assistant.paused && !assistant.interrupted)} blocked={blockedBy(assistant)} place={assistant.threadId ?? ""} onSend={send} onStop={() => void assistant.stop().catch(() => undefined)} />
        </main>
        {panel.reply && <ContextPanel reply={panel.reply} earlier={panel.earlier} title={panel.title} onClose={panel.close} />}
      </div>
    </ActionsContext>
  );
}

const asPart = (file: Attachment): FilePart => ({ type: "file", url: file.url, mediaType: file.mediaType, filename: file.filename });

function blockedBy({ interrupted, loading, paused, error }: UseAssistant): string {
  if (loading) return "The conversation is being loaded";
  if (interrupted) return "Go on with the answer, or leave it, first";
  if (paused && error !== null) return "Try again first, as the question above is open";
  return paused ? "Answer the question above first" : "";
}

function shownState({ status, interrupted, reconnecting }: UseAssistant): string {
  if (reconnecting) return "reconnecting";
  if (interrupted) return "interrupted";
  return { ready: "", submitted: "sent", streaming: "answering", waiting: "waits for you", error: "" }[status];
}

function Mark(): ReactNode {
  return <svg className="mark" viewBox="0 0 32 32" aria-hidden="true"><circle cx="16" cy="16" r="13" /><circle cx="15.4" cy="16.4" r="8.4" /><circle cx="14.8" cy="16.8" r="3.8" /></svg>;
}

function Empty({ info, loading, children }: { readonly info: Info; readonly loading: boolean; readonly children: ReactNode }): ReactNode {
  if (loading) return <div className="empty"><p className="muted">Loading the conversation</p></div>;
  return (
    <div className="empty">
      <p className="empty-name">{info.name}</p>
      <p className="muted">
        {info.model}{info.window > 0 && <>, with a window of {count(info.window)} tokens</>}. Under each answer stands what the model was sent for it, piece by piece.
      </p>
      {children}
    </div>
  );
}

/** Keep the address and the open thread the same, whichever of them changes. */
function useRoute(assistant: UseAssistant, routeId: string, onBegun: () => void): void {
  const { threadId, runId, load } = assistant;
  const route = useRef(routeId);
  const isFirst = useRef(true);
  useEffect(() => {
    route.current = routeId;
    if (routeId === "" && !isFirst.current) void load();
    isFirst.current = false;
  }, [routeId, load]);
  useEffect(() => {
    if (threadId === null || threadId === route.current) return;
    openThread(threadId);
  }, [threadId]);
  // The server knows of a new thread once it has a run.
  useEffect(() => { if (runId !== null) onBegun(); }, [runId, onBegun]);
}

/** Show the run that another window has begun on the open thread, as soon as the list tells of it. */
function useOtherWindows(assistant: UseAssistant, line: ThreadLine | undefined): void {
  const now = useRef(assistant);
  useEffect(() => { now.current = assistant; });
  // Only news of the list count, and what is here is compared with them once it is settled: a thread that was fetched
  // this moment has no run yet.
  useEffect(() => {
    const timer = setTimeout(() => {
      const { status, loading, runId, threadId, load } = now.current;
      if (line?.runId === undefined || line.id !== threadId || line.runId === runId || status !== "ready" || loading) return;
      void load(threadId).catch(() => undefined);
    });
    return () => clearTimeout(timer);
  }, [line]);
}

interface PanelState {
  readonly reply: Extract<AssistantItem, { role: "assistant" }> | undefined;
  readonly earlier: AssistantItem | undefined;
  readonly title: string;
  readonly canOpen: boolean;
  readonly open: (id: string) => void;
  readonly openLast: () => void;
  readonly close: () => void;
}

/** Which answer's context is shown. `last` follows the newest one; the focus goes back to what opened it. */
function useContextPanel(items: readonly AssistantItem[]): PanelState {
  const [shown, setShown] = useState("");
  const opener = useRef<HTMLElement>(null);
  const remember = (): void => { opener.current = document.activeElement as HTMLElement | null; };
  const open = useCallback((id: string) => { remember(); setShown(id); }, []);
  const openLast = useCallback(() => { remember(); setShown("last"); }, []);
  const close = useCallback(() => { setShown(""); opener.current?.focus(); }, []);
  const last = items.findLastIndex((item) => item.role === "assistant");
  const found = shown === "last" ? last : items.findIndex((item) => item.id === shown && item.role === "assistant");
  const item = shown === "" ? undefined : items[found];
  const reply = item?.role === "assistant" ? item : undefined;
  const asked = items[found - 1];
  const earlier = items.slice(0, Math.max(0, found)).findLast((other) => other.role === "assistant");
  return { reply, earlier, title: asked?.role === "user" ? asked.text || "attachments" : "", canOpen: last >= 0, open, openLast, close };
}

/** Esc closes what lies on top, and else stops the answer. */
function useEscape(assistant: UseAssistant, closePanel: () => void, closeList: (() => void) | undefined): void {
  const { busy, stop } = assistant;
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
      const inPanel = document.activeElement?.closest(".panel") != null;
      if (inPanel) closePanel();
      else if (closeList) closeList();
      else if (busy) void stop().catch(() => undefined);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [busy, stop, closePanel, closeList]);
}
