// The state of a conversation, for any framework: what is said, what runs, and what may be done about it.
//
// Laws: at most one stream at a time, told by a field and not by rendered state, so two sends in one tick start one;
// a part is applied before `onPart` hears of it; `onDone` runs once for every stream, after `busy` was reset; options
// are read when they are needed, so the newest callbacks are called.

import { abortable } from "./abortable.js";
import { Connection, type StoredThread, type Streaming } from "./connection.js";
import { follow, type Cut } from "./follow.js";
import { newId } from "./id.js";
import type { Decision, UseAssistantOptions } from "./options.js";
import type { AssistantItem, FilePart, ToolPart, UserItem } from "./parts.js";
import {
  askedIn,
  EMPTY_THREAD,
  fromUIMessages,
  isWaiting,
  itemsOf,
  partOf,
  reduce,
  threadOf,
  withPrompt,
  withReplay,
  withTool,
  type Thread,
} from "./reducer.js";
import type { AssistantOperation, AssistantSnapshot, AssistantStatus } from "./snapshot.js";
import { AssistantError } from "./stream.js";
import { newTurn, type Turn } from "./turn.js";
import type { AgentPart, AnyChunk } from "./wire.js";

type Input = AgentPart | AnyChunk;

/** A thread that the server does not know. */
const UNKNOWN = { title: "", status: "idle", messages: [], waiting: [], limits: [] } as const;

export class AssistantStore {
  private options: UseAssistantOptions;
  private readonly connection = new Connection(() => this.options);
  private readonly listeners = new Set<() => void>();
  private snapshot: AssistantSnapshot | null = null;
  private thread: Thread;
  private input = "";
  private turn: Turn | null = null;
  private error: unknown = null;
  private failed: AssistantOperation | null = null;
  private spoken = false;
  private isPaused = false;
  private isInterrupted = false;
  private threadId: string | null = null;
  private runId: string | null = null;
  private older: string | null = null;
  private cut: (Cut & { readonly threadId: string | null }) | null = null;
  private loading: AbortController | null = null;
  private isOpening = false;
  private opened: string | undefined;
  private isMounted = false;
  private left: "loading" | "streaming" | null = null;

  constructor(options: UseAssistantOptions) {
    this.options = options;
    this.thread = threadOf(options.initialItems ?? []);
  }

  /** Take other options from now on, for example newer callbacks. */
  setOptions(options: UseAssistantOptions): void {
    this.options = options;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Return what the conversation looks like; the same object until something changed. */
  readonly getSnapshot = (): AssistantSnapshot => {
    this.snapshot ??= {
      items: itemsOf(this.thread),
      input: this.input,
      busy: this.turn !== null,
      status: this.status(),
      error: this.error,
      failed: this.failed,
      retry: this.thread.open?.retry ?? null,
      loading: this.loading !== null,
      threadId: this.threadId,
      runId: this.runId,
      paused: this.isPaused,
      interrupted: this.isInterrupted,
      reconnecting: this.turn?.isReconnecting ?? false,
      hasMore: this.older !== null,
    };
    return this.snapshot;
  };

  readonly setInput = (input: string | ((before: string) => string)): void => {
    this.input = typeof input === "function" ? input(this.input) : input;
    this.emit();
  };

  /**
   * Send the text of the input box, or another one (`spoken`: a voice transcript, say).
   *
   * Nothing to say, a stream that runs, a server's run that waits for a person, or a thread that is being loaded: no
   * effect at all. It resolves when the stream is over, and rejects with what the stream threw. onTaken: called before
   * `send` returns, where it has an effect.
   */
  readonly send = async (
    override?: string,
    also: { files?: readonly FilePart[]; onTaken?: () => void } = {},
  ): Promise<void> => {
    // A click handler that is given `send` itself hands over its event.
    const spoken = typeof override === "string";
    const text = (spoken ? override : this.input).trim();
    const files = also.files ?? [];
    if ((!text && files.length === 0) || this.turn) return;
    if (this.options.stream === undefined && (this.isPaused || this.isOpening)) return;
    const history = itemsOf(this.thread);
    const user: UserItem = { role: "user", id: newId(), text, ...(files.length > 0 ? { files } : {}) };
    this.input = "";
    this.spoken = spoken;
    this.thread = withPrompt(this.thread, user, newId());
    this.runId = null;
    if (!this.options.stream) this.threadId ??= newId();
    const turn = this.begin("send");
    also.onTaken?.();
    await this.take(turn, this.options.stream ? this.plain(turn, text, history) : this.posted(turn, user));
  };

  /** Empty the thread. What runs goes on unseen; a server's thread stays there, and the next `send` begins another. */
  readonly reset = (): void => {
    if (this.turn) this.turn.ghost ??= this.thread;
    this.clear();
    this.emit();
  };

  /** Stop what runs or waits. Parts that came stay; a server ends the run when it can. */
  readonly stop = async (): Promise<void> => {
    const { turn, runId } = this;
    if (this.options.stream) {
      if (turn) this.release(turn, "stopped");
    } else if (turn && runId === null) {
      turn.wantsStop = true;
    } else if (runId !== null && (turn || this.isPaused || this.isInterrupted)) {
      try {
        await this.stopRun(runId);
      } catch (error) {
        if (this.runId === runId) this.fail(error, "stop");
        throw error;
      }
    }
  };

  /** Go on with the run of this thread, after a reload or a broken connection. False where none runs. */
  readonly rejoin = async (): Promise<boolean> => {
    if (this.turn) return true;
    const { threadId } = this;
    const cut = this.cut?.threadId === threadId ? this.cut : null;
    if (threadId === null && cut === null) return false;
    const turn = this.begin("rejoin", { isReplay: cut === null });
    return new Promise<boolean>((resolve) => {
      const open = async (): Promise<Streaming | null> => {
        const streaming = cut
          ? await this.connection.follow(cut.runId, cut.after, turn.abort.signal)
          : await this.connection.replay(threadId as string, turn.abort.signal);
        resolve(streaming !== null);
        return streaming;
      };
      // What goes wrong is in `error`: nobody awaits the end of a run that was joined.
      this.take(turn, this.chunks(turn, open, cut))
        .catch(() => undefined)
        .finally(() => resolve(false));
    });
  };

  /** Say yes to a call. input: other arguments than those asked for. remember: answer such calls alike from now on. */
  readonly approve = (
    id: string,
    also: { input?: Record<string, unknown>; remember?: Record<string, unknown> } = {},
  ): Promise<void> => this.decide({ [id]: { approved: true, ...also } });

  /** Say no to a call. reason: shown to the model. */
  readonly deny = (id: string, reason?: string): Promise<void> =>
    this.decide({ [id]: { approved: false, ...(reason ? { reason } : {}) } });

  /** Give the result of a tool that runs outside. */
  readonly answer = (id: string, result: unknown, also: { isError?: boolean } = {}): Promise<void> =>
    this.decide({ [id]: { result, ...also } });

  /** Let a run that waits at a limit use so much more, by the limit's name. */
  readonly extend = (limits: Record<string, number>): Promise<void> => this.decide({}, limits);

  /**
   * Answer several calls at once; the run goes on, and this resolves when its stream is over. Where another thread is
   * shown before the answer can be sent, it is not sent.
   */
  readonly decide = async (decisions: Record<string, Decision>, extend?: Record<string, number>): Promise<void> => {
    const before = this.thread;
    const runId = this.run();
    for (const [id, decision] of Object.entries(decisions)) {
      this.thread = withTool(this.thread, id, (tool) => decided(tool, decision));
    }
    this.emit();
    // What is still running, for example the answer to another call, comes first.
    while (this.turn) await this.turn.settled;
    if (this.runId !== runId) return;
    const body = { decisions, ...(extend ? { extend } : {}) };
    const { isPaused, isInterrupted } = this;
    const turn = this.begin("decide");
    try {
      await this.take(turn, this.chunks(turn, () => this.connection.decide(runId, body, turn.abort.signal)));
    } catch (error) {
      if (!turn.hasStarted && this.runId === runId) {
        this.undecide(before, Object.keys(decisions));
        Object.assign(this, { isPaused, isInterrupted });
        this.emit();
      }
      throw error;
    }
  };

  /** Go on with a run that the server broke off. */
  readonly resume = async (): Promise<void> => {
    if (this.turn) return;
    const runId = this.run();
    const turn = this.begin("resume");
    await this.take(turn, this.chunks(turn, () => this.connection.resume(runId, turn.abort.signal)));
  };

  /**
   * Show a thread of the server, and rejoin its run where one is going on; without an id, begin a new one.
   *
   * What ran before is let go of. A thread that the server does not know is empty. Where the thread is here already, it
   * stays as it is until the server has answered.
   */
  readonly load = async (threadId?: string): Promise<void> => {
    if (this.turn) this.drop(this.turn);
    if (threadId === undefined || threadId !== this.threadId) {
      this.clear();
      this.input = "";
    }
    this.opened = threadId;
    if (threadId === undefined) return this.emit();
    this.threadId = threadId;
    this.isOpening = true;
    const found = await this.fetched(
      "load",
      (signal) => this.connection.thread(threadId, signal),
      // An answer to a call that was shown meanwhile has begun a stream: that is newer.
      (thread) => (this.turn ? undefined : this.show(thread ?? { ...UNKNOWN, id: threadId })),
    );
    // Whoever was told of the thread may have let go of it by now.
    if (found?.status === "running" && this.threadId === threadId && !this.loading) void this.rejoin();
  };

  /** Put the older messages of this thread before those that are here. */
  readonly loadMore = async (): Promise<void> => {
    const { threadId, older } = this;
    if (threadId === null || older === null || this.loading) return;
    await this.fetched(
      "loadMore",
      (signal) => this.connection.thread(threadId, signal, older),
      (found) => {
        if (!found || this.threadId !== threadId) return;
        this.thread = { ...this.thread, past: [...fromUIMessages(found.messages), ...this.thread.past] };
        this.older = found.next ?? null;
      },
    );
  };

  // -- life of a component -------------------------------------------------------------------------

  /** A component shows it: go on with what was let go of. */
  mount(): void {
    this.isMounted = true;
    const { left } = this;
    this.left = null;
    if (left === null || this.options.stream) return;
    if (left === "loading") this.load(this.opened).catch(() => undefined);
    else void this.rejoin();
  }

  /** The component goes away. React's StrictMode brings it back in the same tick, and then nothing happened. */
  unmount(): void {
    this.isMounted = false;
    queueMicrotask(() => {
      if (this.isMounted) return;
      const { keepAlive, stopOnUnmount } = this.options;
      if (stopOnUnmount) void this.stop().catch(() => undefined);
      if (keepAlive || stopOnUnmount) return;
      this.left = this.isOpening ? "loading" : this.turn && "streaming";
      this.loading?.abort();
      if (this.turn) this.release(this.turn, "detached");
    });
  }

  /** Load the thread of this id where it is not the one that is here; what goes wrong is in `error`. */
  open(threadId: string | undefined): void {
    if (threadId === undefined || this.options.url === undefined) return;
    // A component may take up the id of the thread that it has just begun.
    if (threadId === this.opened || threadId === this.threadId) return;
    this.load(threadId).catch(() => undefined);
  }

  // -- streams -------------------------------------------------------------------------------------

  private async *plain(turn: Turn, prompt: string, history: readonly AssistantItem[]): AsyncGenerator<readonly Input[]> {
    const source = await this.options.stream?.(prompt, history);
    if (!source) return;
    for await (const part of abortable(source, turn.abort.signal)) yield [part];
  }

  private posted(turn: Turn, user: UserItem): AsyncGenerator<readonly Input[]> {
    const said = user.text ? [{ type: "text", text: user.text }] : [];
    const parts = [...said, ...(user.files ?? []).map((file) => ({ ...file }))];
    const message = { id: user.id, role: "user", parts } as const;
    return this.chunks(turn, () => this.connection.chat(this.threadId as string, message, turn.abort.signal));
  }

  /** The chunks of a run; a connection that breaks is taken up again after the last event that came. */
  private chunks(
    turn: Turn,
    open: () => Promise<Streaming | null>,
    from: Cut | null = null,
  ): AsyncGenerator<readonly Input[]> {
    const { maxReconnects = 5, reconnectDelay = 500 } = this.options;
    return follow(open, turn.abort.signal, {
      from,
      maxReconnects,
      reconnectDelay,
      again: (runId, after) => this.connection.follow(runId, after, turn.abort.signal),
      onRun: (runId) => this.began(turn, runId),
      onCut: (cut) => this.cutOff(turn, cut),
      onBreak: (isBroken) => {
        turn.isReconnecting = isBroken;
        this.emit();
      },
      onReplay: () => (turn.isReplay = true),
    });
  }

  /** Where a stream was cut off counts for its own thread only: another one may be shown by now. */
  private cutOff(turn: Turn, cut: Cut | null): void {
    if (turn.ghost || turn.isDropped || (this.turn !== null && this.turn !== turn)) return;
    this.cut = cut && { ...cut, threadId: this.threadId };
  }

  private begin(operation: AssistantOperation, { isReplay = false }: { isReplay?: boolean } = {}): Turn {
    this.turn = newTurn({ operation, spoken: this.spoken, isReplay });
    this.error = null;
    this.failed = null;
    this.isPaused = false;
    this.isInterrupted = false;
    this.emit();
    return this.turn;
  }

  private async take(turn: Turn, batches: AsyncIterable<readonly Input[]>): Promise<void> {
    let failure: { readonly error: unknown } | null = null;
    try {
      for await (const batch of batches) {
        for (const input of batch) this.apply(turn, input);
        this.emit();
      }
      if (turn.failure) failure = { error: turn.failure };
    } catch (error) {
      // A source that is told to stop may well throw that it was.
      if (!turn.abort.signal.aborted) failure = { error };
    }
    this.end(turn, failure);
    if (failure) throw failure.error;
  }

  private apply(turn: Turn, input: Input): void {
    if (turn.abort.signal.aborted) return;
    turn.hasStarted = true;
    let thread = turn.ghost ?? this.thread;
    if (input.type === "start") {
      if (turn.isReplay) thread = withReplay(thread, input.messageId);
      turn.isReplay = false;
    }
    if (input.type === "abort") turn.outcome = "stopped";
    if (input.type === "error") turn.failure = new AssistantError(input.errorText, { code: "run_failed" });
    thread = reduce(thread, input);
    if (turn.ghost) turn.ghost = thread;
    else this.thread = thread;
    this.snapshot = null;
    const part = partOf(thread, input);
    if (part) this.options.onPart?.(part);
  }

  /** The run of a stream has a name: what was asked of it before can be done now. */
  private began(turn: Turn, runId: string): void {
    if (!turn.ghost && !turn.isDropped) this.runId = runId;
    if (!turn.wantsStop) return;
    turn.wantsStop = false;
    this.stopRun(runId).catch((error: unknown) => this.fail(error, "stop"));
  }

  private end(turn: Turn, failure: { readonly error: unknown } | null): void {
    if (this.turn === turn) {
      this.turn = null;
      if (!turn.ghost) {
        this.isPaused = !failure && isWaiting(this.thread);
        if (failure) Object.assign(this, { error: failure.error, failed: turn.operation });
        // What could not be stopped has ended by itself.
        else if (this.failed === "stop") Object.assign(this, { error: null, failed: null });
      }
    }
    if (failure) turn.outcome = "error";
    else if (turn.outcome === "done" && isWaiting(turn.ghost ?? this.thread)) turn.outcome = "waiting";
    turn.settle();
    this.emit();
    const { spoken, outcome } = turn;
    this.options.onDone?.({ spoken, outcome, ...(failure ? { error: failure.error } : {}) });
  }

  /** Let go of a stream: its connection is closed, and nothing that still comes is applied. */
  private release(turn: Turn, outcome: "stopped" | "detached"): void {
    turn.outcome = outcome;
    if (outcome === "stopped") this.thread = reduce(this.thread, { type: "abort" });
    turn.abort.abort();
  }

  /** Let go of a stream whose thread is no longer shown: nothing of it counts here any more. */
  private drop(turn: Turn): void {
    turn.isDropped = true;
    this.turn = null;
    this.release(turn, "detached");
  }

  private async stopRun(runId: string): Promise<void> {
    try {
      await this.connection.stop(runId);
    } catch (error) {
      // It has ended meanwhile: what was wanted.
      if (!(error instanceof AssistantError && error.status === 409)) throw error;
      return;
    }
    if (this.turn || this.runId !== runId) return;
    this.thread = reduce(this.thread, { type: "abort" });
    this.isPaused = false;
    this.isInterrupted = false;
    this.emit();
  }

  // -- threads -------------------------------------------------------------------------------------

  /** Ask the server; what it answers is taken in before anybody is told that nothing is loading any more. */
  private async fetched(
    operation: "load" | "loadMore",
    ask: (signal: AbortSignal) => Promise<StoredThread | null>,
    take: (found: StoredThread | null) => void,
  ): Promise<StoredThread | null> {
    const loading = new AbortController();
    this.loading?.abort();
    this.loading = loading;
    if (!this.turn) Object.assign(this, { error: null, failed: null });
    this.emit();
    try {
      const found = await ask(loading.signal);
      if (loading.signal.aborted) return null;
      take(found);
      return found;
    } catch (error) {
      if (loading.signal.aborted) return null;
      Object.assign(this, { error, failed: operation });
      throw error;
    } finally {
      if (this.loading === loading) {
        this.loading = null;
        this.isOpening = false;
      }
      this.emit();
    }
  }

  private show(found: StoredThread): void {
    let thread = threadOf(fromUIMessages(found.messages));
    for (const note of found.waiting) thread = reduce(thread, { type: "data-approval", id: note.id, data: note });
    for (const note of found.limits) thread = reduce(thread, { type: "data-limit", id: `limit-${note.name}`, data: note });
    this.thread = thread;
    this.runId = found.runId ?? null;
    this.older = found.next ?? null;
    this.cut = null;
    this.isPaused = found.status === "waiting";
    this.isInterrupted = found.status === "interrupted";
  }

  private clear(): void {
    this.loading?.abort();
    this.loading = null;
    this.isOpening = false;
    this.opened = undefined;
    this.thread = EMPTY_THREAD;
    this.error = null;
    this.failed = null;
    this.isPaused = false;
    this.isInterrupted = false;
    this.threadId = null;
    this.runId = null;
    this.older = null;
    this.cut = null;
  }

  private undecide(before: Thread, ids: readonly string[]): void {
    for (const id of ids) {
      const tool = askedIn(before, id);
      if (tool) this.thread = withTool(this.thread, id, () => tool);
    }
  }

  private run(): string {
    if (this.runId === null) throw new AssistantError("no run of a server is here to go on with", { code: "no_run" });
    return this.runId;
  }

  private status(): AssistantStatus {
    if (this.turn) return this.turn.hasStarted ? "streaming" : "submitted";
    if (this.error !== null) return "error";
    return this.isPaused || this.isInterrupted ? "waiting" : "ready";
  }

  private fail(error: unknown, failed: AssistantOperation): void {
    Object.assign(this, { error, failed });
    this.emit();
  }

  private emit(): void {
    this.snapshot = null;
    for (const listener of [...this.listeners]) listener();
  }
}

function decided(tool: ToolPart, decision: Decision): ToolPart {
  if ("result" in decision) return { ...tool, state: "running" };
  if (!decision.approved) return { ...tool, state: "denied", isError: true };
  return { ...tool, state: "running", ...(decision.input ? { args: decision.input } : {}) };
}
