// Server-sent events over fetch: the chunks of a stream, whole, however the network cut them.

import type { AnyChunk } from "./wire.js";

/** A request that the server refused, or a run that failed. */
export class AssistantError extends Error {
  override readonly name = "AssistantError";
  /** What went wrong, in a word: the server's, or `network`, `run_failed`, `not_a_stream`. */
  readonly code: string;
  /** Of the answer; 0 where there was none. */
  readonly status: number;
  /** Names the request in the server's log. */
  readonly requestId: string | undefined;
  /** The run that is in the way, where a thread is busy or waits. */
  readonly runId: string | undefined;

  constructor(
    message: string,
    fields: { code: string; status?: number; requestId?: string; runId?: string; cause?: unknown },
  ) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.code = fields.code;
    this.status = fields.status ?? 0;
    this.requestId = fields.requestId;
    this.runId = fields.runId;
  }
}

/** A chunk. id: after which a stream can go on, empty where more of the same event follows. */
export interface Numbered {
  readonly id: string;
  readonly chunk: AnyChunk;
}

/** How a stream ended: with its last line, or cut off. */
export interface Ending {
  complete: boolean;
}

/** Read the chunks of a body. Raises what the body raises; a body that ends without its last line just ends. */
export async function* readChunks(body: ReadableStream<Uint8Array>): AsyncGenerator<AnyChunk, void, undefined> {
  for await (const batch of readBatches(body)) {
    for (const { chunk } of batch) yield chunk;
  }
}

/**
 * Read the chunks of a body, those that arrived together at once. ending: is told whether the last line came. signal: ends
 * it at once, also where the body knows nothing of the signal.
 */
export async function* readBatches(
  body: ReadableStream<Uint8Array>,
  ending: Ending = { complete: false },
  signal?: AbortSignal,
): AsyncGenerator<readonly Numbered[], void, undefined> {
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => undefined);
  signal?.addEventListener("abort", cancel);
  const decoder = new TextDecoder();
  const frames = new FrameReader();
  let finished = false;
  try {
    while (!ending.complete) {
      const { done, value } = await reader.read();
      finished = done;
      const batch = frames.push(done ? decoder.decode() : decoder.decode(value, { stream: true }));
      if (frames.complete) ending.complete = true;
      if (batch.length > 0) yield batch;
      if (done) return;
    }
  } finally {
    signal?.removeEventListener("abort", cancel);
    // What is left of the body is not read; the connection is given back.
    if (!finished) cancel();
  }
}

/** Raise for an answer that is none; return the body of one that streams. */
export async function streamOf(response: Response): Promise<ReadableStream<Uint8Array>> {
  if (!response.ok) throw await errorOf(response);
  if (!response.body) {
    throw new AssistantError("the answer has no body to stream", { code: "not_a_stream", status: response.status });
  }
  return response.body;
}

/** Return what an answer says of its error. */
export async function errorOf(response: Response): Promise<AssistantError> {
  const text = await response.text().catch(() => "");
  const said = parsed(text);
  const requestId = said.requestId ?? response.headers.get("x-request-id") ?? undefined;
  return new AssistantError(said.message ?? `the server answered ${response.status}`, {
    code: said.code ?? `http_${response.status}`,
    status: response.status,
    ...(requestId === undefined ? {} : { requestId }),
    ...(said.runId === undefined ? {} : { runId: said.runId }),
  });
}

interface Said {
  code?: string;
  message?: string;
  requestId?: string;
  runId?: string;
}

function parsed(text: string): Said {
  try {
    const body: unknown = JSON.parse(text);
    const error = (body as { error?: unknown } | null)?.error;
    return typeof error === "object" && error !== null ? (error as Said) : {};
  } catch {
    // A proxy answers in its own words, often HTML: its status says enough.
    return {};
  }
}

const DONE = "[DONE]";

/** Lines to frames, by the rules of server-sent events: `\n`, `\r\n` and `\r` end a line, `:` begins a comment. */
class FrameReader {
  complete = false;
  private rest = "";
  private lines: string[] = [];
  private id = "";
  private isFirst = true;
  private endedInReturn = false;

  push(piece: string): Numbered[] {
    let text = piece;
    if (this.isFirst && text.length > 0) {
      this.isFirst = false;
      if (text.startsWith("\uFEFF")) text = text.slice(1);
    }
    // The second half of a line's end may come in the next piece.
    if (this.endedInReturn && text.startsWith("\n")) text = text.slice(1);
    if (text.length > 0) this.endedInReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\n|\r/);
    const found: Numbered[] = [];
    lines.forEach((line, nth) => {
      const whole = nth === 0 ? this.rest + line : line;
      if (nth < lines.length - 1) this.take(whole, found);
      else this.rest = whole;
    });
    return found;
  }

  private take(line: string, found: Numbered[]): void {
    if (line === "") return this.close(found);
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.lines.push(value);
    if (field === "id") this.id = value;
  }

  private close(found: Numbered[]): void {
    if (this.lines.length === 0) {
      this.id = "";
      return;
    }
    const data = this.lines.join("\n");
    this.lines = [];
    if (data === DONE) {
      this.complete = true;
    } else if (!this.complete) {
      found.push({ id: this.id, chunk: JSON.parse(data) as AnyChunk });
    }
    this.id = "";
  }
}
