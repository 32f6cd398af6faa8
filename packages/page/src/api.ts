// Owns how the page speaks to the server: the token, the routes, and what a refusal says.

const TOKEN = "sapwood.token";

/** What a server refused, in its words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string,
    readonly runId?: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export function readToken(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function keepToken(token: string): void {
  if (token === "") sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, token);
}

export function authHeaders(): Record<string, string> {
  const token = readToken();
  return token === "" ? {} : { authorization: `Bearer ${token}` };
}

// Relative to the document, so that the page works below any mount point.
export const MOUNT = new URL(".", document.baseURI.replace(/[?#].*$/, "")).href.replace(/\/$/, "");
export const API = `${MOUNT}/api`;

export const path = (...parts: readonly string[]): string => [API, ...parts.map(encodeURIComponent)].join("/");

export async function getJson<T>(url: string, signal?: AbortSignal): Promise<T> {
  const response = await call(url, signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function remove(url: string): Promise<void> {
  await call(url, { method: "DELETE" });
}

/** Stop a run; one that has ended already is as good. */
export async function stopRun(runId: string): Promise<void> {
  const init = { method: "POST", body: "{}", headers: { "content-type": "application/json" } };
  await call(path("runs", runId, "stop"), init).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  });
}

/** Ask the server with the token, and throw what it refuses. */
export async function call(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, { ...init, headers: { ...authHeaders(), ...(init.headers as Record<string, string>) } });
  if (response.ok) return response;
  throw await refusal(response);
}

export async function refusal(response: Response): Promise<ApiError> {
  const words = `The server answered ${response.status}.`;
  try {
    const { error } = (await response.json()) as { error: Partial<Record<"code" | "message" | "requestId" | "runId", string>> };
    return new ApiError(response.status, error.code ?? "", error.message ?? words, error.requestId ?? "", error.runId);
  } catch {
    // A proxy in between answers in its own form.
    return new ApiError(response.status, "", words, response.headers.get("x-request-id") ?? "");
  }
}
