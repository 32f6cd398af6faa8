// The routes of a server, as requests. It holds no state of a conversation.

import { AssistantError, errorOf, streamOf } from "./stream.js";
import type { UseAssistantOptions } from "./options.js";
import type { UIMessage } from "./parts.js";
import type { ApprovalNote, LimitNote } from "./wire.js";

/** A thread as the server keeps it, its newest messages. next: names the older ones. */
export interface StoredThread {
  readonly id: string;
  readonly title: string;
  readonly status: "idle" | "running" | "waiting" | "interrupted";
  readonly runId?: string;
  readonly messages: readonly UIMessage[];
  readonly waiting: readonly ApprovalNote[];
  readonly limits: readonly LimitNote[];
  readonly next?: string;
}

/** An answer that streams. */
export interface Streaming {
  readonly runId: string | undefined;
  readonly body: ReadableStream<Uint8Array>;
}

type Init = { readonly method?: string; readonly json?: unknown; readonly after?: string; readonly signal?: AbortSignal };

export class Connection {
  /** options: asked at each request, as a component may give others each time. */
  constructor(private readonly options: () => UseAssistantOptions) {}

  chat(threadId: string, message: UIMessage, signal: AbortSignal): Promise<Streaming> {
    const json = { id: threadId, messages: [message], trigger: "submit-message" };
    return this.stream("/api/chat", { json, signal });
  }

  /** Return the replay of a thread's run, null where nothing is active. */
  async replay(threadId: string, signal: AbortSignal): Promise<Streaming | null> {
    const response = await this.request(`/api/chat/${encodeURIComponent(threadId)}/stream`, { signal });
    return response.status === 204 ? null : streaming(response);
  }

  /** Return the rest of a run, after the event of this number. */
  follow(runId: string, after: string, signal: AbortSignal): Promise<Streaming> {
    return this.stream(`/api/runs/${encodeURIComponent(runId)}/stream`, { after, signal });
  }

  decide(runId: string, json: unknown, signal: AbortSignal): Promise<Streaming> {
    return this.stream(`/api/runs/${encodeURIComponent(runId)}/decide`, { json, signal });
  }

  resume(runId: string, signal: AbortSignal): Promise<Streaming> {
    return this.stream(`/api/runs/${encodeURIComponent(runId)}/resume`, { json: {}, signal });
  }

  async stop(runId: string): Promise<void> {
    const response = await this.request(`/api/runs/${encodeURIComponent(runId)}/stop`, { json: {} });
    if (!response.ok) throw await errorOf(response);
  }

  /** Return a thread, null where the server knows none of this id. */
  async thread(threadId: string, signal: AbortSignal, before?: string): Promise<StoredThread | null> {
    const query = before === undefined ? "" : `?before=${encodeURIComponent(before)}`;
    const response = await this.request(`/api/threads/${encodeURIComponent(threadId)}${query}`, { signal });
    if (response.status === 404) return null;
    if (!response.ok) throw await errorOf(response);
    return (await response.json()) as StoredThread;
  }

  private async stream(path: string, init: Init): Promise<Streaming> {
    return streaming(await this.request(path, init));
  }

  private async request(path: string, init: Init): Promise<Response> {
    const { url, headers, credentials, fetch: own } = this.options();
    if (url === undefined) {
      throw new AssistantError(`this needs a server: give url, not stream (${path})`, { code: "no_server" });
    }
    const given = typeof headers === "function" ? await headers() : headers;
    const { json, after, signal, method = json === undefined ? "GET" : "POST" } = init;
    try {
      // Called without an object: the browser's fetch refuses to be a method of something else.
      const send = own ?? fetch;
      return await send(url.replace(/\/$/, "") + path, {
        method,
        headers: {
          ...(json === undefined ? {} : { "content-type": "application/json" }),
          ...(after ? { "last-event-id": after } : {}),
          ...given,
        },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
        ...(signal ? { signal } : {}),
        ...(credentials ? { credentials } : {}),
      });
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw new AssistantError("the server cannot be reached", { code: "network", cause });
    }
  }
}

async function streaming(response: Response): Promise<Streaming> {
  const body = await streamOf(response);
  return { runId: response.headers.get("x-sapwood-run-id") ?? undefined, body };
}
