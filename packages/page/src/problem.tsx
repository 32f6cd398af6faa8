// Owns how an error is told: what the server said, the id to look it up with, and a way out.

import { AssistantError } from "@sapwood/react";
import type { ReactNode } from "react";
import { ApiError } from "./api";

export interface Told {
  readonly words: string;
  readonly requestId: string;
}

export function tell(error: unknown): Told {
  if (error instanceof ApiError || error instanceof AssistantError) return { words: error.message, requestId: error.requestId ?? "" };
  if (error instanceof TypeError) return { words: "The server cannot be reached.", requestId: "" };
  return { words: error instanceof Error ? error.message : String(error), requestId: "" };
}

export function isUnauthorized(error: unknown): boolean {
  return (error instanceof ApiError || error instanceof AssistantError) && error.status === 401;
}

export function Problem({ error, children }: { readonly error: unknown; readonly children?: ReactNode }): ReactNode {
  const { words, requestId } = tell(error);
  return (
    <div className="notice" role="alert">
      <p>{words}{requestId !== "" && !words.includes(requestId) && <span className="muted"> Request <code>{requestId}</code></span>}</p>
      <div className="row">{children}</div>
    </div>
  );
}
