// Builders for tests: a stream that is fed by hand, and a server that is a function.

import type { AgentPart, AnyChunk } from "../../src/index.js";

/** A stream that gives what it is told to, when it is told to. */
export class Feed implements AsyncIterable<AgentPart | AnyChunk> {
  isClosed = false;
  private readonly waiting: Waiting[] = [];

  [Symbol.asyncIterator](): AsyncIterator<AgentPart | AnyChunk> {
    return {
      next: () => new Promise((resolve, reject) => this.waiting.push({ resolve, reject })),
      return: async () => {
        this.isClosed = true;
        return { done: true, value: undefined };
      },
    };
  }

  async give(...parts: readonly (AgentPart | AnyChunk)[]): Promise<void> {
    for (const value of parts) {
      (await this.next()).resolve({ done: false, value });
      await settled();
    }
  }

  async end(): Promise<void> {
    (await this.next()).resolve({ done: true, value: undefined });
    await settled();
  }

  async fail(error: unknown): Promise<void> {
    (await this.next()).reject(error);
    await settled();
  }

  private async next(): Promise<Waiting> {
    for (;;) {
      const waiting = this.waiting.shift();
      if (waiting) return waiting;
      await settled();
    }
  }
}

interface Waiting {
  readonly resolve: (step: IteratorResult<AgentPart | AnyChunk>) => void;
  readonly reject: (error: unknown) => void;
}

/** Let everything that is ready run: a task of the event loop, after all that was promised. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

export const text = (value: string): AgentPart => ({ type: "text", text: value });

const encoder = new TextEncoder();

/** The bytes of a stream of chunks, numbered from `first`. */
export function sse(chunks: readonly AnyChunk[], { first = 1, isComplete = true } = {}): string {
  const frames = chunks.map((chunk, at) => `id: ${first + at}\ndata: ${JSON.stringify(chunk)}\n\n`);
  return frames.join("") + (isComplete ? "data: [DONE]\n\n" : "");
}

/** An answer whose body is written by hand. */
export class OpenAnswer {
  readonly response: Response;
  isCancelled = false;
  private controller: ReadableStreamDefaultController<Uint8Array> | null = null;

  constructor(runId = "r1") {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller;
      },
      cancel: () => {
        this.isCancelled = true;
      },
    });
    this.response = new Response(body, { headers: { "x-sapwood-run-id": runId } });
  }

  async write(bytes: string): Promise<void> {
    this.controller?.enqueue(encoder.encode(bytes));
    await settled();
  }

  async close(): Promise<void> {
    this.controller?.close();
    await settled();
  }

  async breakOff(): Promise<void> {
    this.controller?.error(new TypeError("network error"));
    await settled();
  }
}

/** A request as a server sees it. */
export interface Asked {
  readonly route: string;
  readonly body: unknown;
  readonly headers: Record<string, string>;
  readonly signal: AbortSignal | null;
}

/** A server: each route answers from its list, in turn. What was asked is kept. */
export class Routes {
  readonly asked: Asked[] = [];
  private readonly answers = new Map<string, (Response | Error)[]>();

  on(route: string, ...answers: readonly (Response | Error)[]): this {
    this.answers.set(route, [...(this.answers.get(route) ?? []), ...answers]);
    return this;
  }

  readonly fetch = async (url: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const route = `${init.method ?? "GET"} ${String(url)}`;
    const body: unknown = typeof init.body === "string" ? JSON.parse(init.body) : null;
    const headers = init.headers as Record<string, string>;
    this.asked.push({ route, body, headers, signal: init.signal ?? null });
    const answer = this.answers.get(route)?.shift();
    if (!answer) throw new Error(`nobody expected ${route}`);
    if (answer instanceof Error) throw answer;
    return answer;
  };

  routes(): string[] {
    return this.asked.map((asked) => asked.route);
  }
}

export function answer(chunks: readonly AnyChunk[], runId = "r1"): Response {
  return new Response(sse(chunks), { headers: { "x-sapwood-run-id": runId } });
}

export function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status });
}

export const start = (runId = "r1"): AnyChunk => ({
  type: "start",
  messageId: runId,
  messageMetadata: { runId, threadId: "t1" },
});

export const delta = (value: string, id = "0"): AnyChunk => ({ type: "text-delta", id, delta: value });

export const finish = (stoppedBy: "stop" | "approval" | "limit_ask" = "stop", runId = "r1"): AnyChunk => ({
  type: "finish",
  finishReason: stoppedBy === "stop" ? "stop" : "tool-calls",
  messageMetadata: { runId, threadId: "t1", stoppedBy },
});

/** A call that waits for a yes. */
export const asking = (id = "c1", kind: "approval" | "external" = "approval"): AnyChunk[] => [
  {
    type: "tool-input-available",
    toolCallId: id,
    toolName: "pay",
    input: { sum: 5 },
    dynamic: true,
    ...(kind === "approval" ? { providerExecuted: true } : {}),
  },
  { type: "data-approval", id, data: { id, toolCallId: id, name: "pay", input: { sum: 5 }, kind } },
  { type: "tool-approval-request", approvalId: id, toolCallId: id },
];

export const done = (id = "c1", output: unknown = "paid"): AnyChunk => ({
  type: "tool-output-available",
  toolCallId: id,
  output,
  dynamic: true,
  providerExecuted: true,
});
