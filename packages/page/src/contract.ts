// What the server's routes answer, beside the stream, whose types are in @sapwood/react.

import type { ApprovalNote, LimitNote, UIMessage } from "@sapwood/react";

export interface Info {
  readonly name: string;
  readonly model: string;
  readonly window: number;
  readonly principal: { readonly id: string; readonly name?: string };
  readonly agUi: boolean;
}

export interface ThreadLine {
  readonly id: string;
  readonly title: string;
  readonly startedAt: number;
  readonly updatedAt: number;
  readonly status: "idle" | "running" | "waiting" | "interrupted";
  readonly runId?: string;
}

export interface ThreadPage {
  readonly threads: readonly ThreadLine[];
  readonly next?: string;
}

export interface Thread {
  readonly id: string;
  readonly title: string;
  readonly status: ThreadLine["status"];
  readonly runId?: string;
  readonly messages: readonly UIMessage[];
  readonly waiting: readonly ApprovalNote[];
  readonly limits: readonly LimitNote[];
  readonly next?: string;
}

export type Verdict = "kept" | "trimmed" | "skipped" | "summarised" | "cleared" | "failed";

export interface LedgerLine {
  readonly source: string;
  readonly label: string;
  readonly section: string;
  readonly tokens: number;
  /** Left out by the server where a line was kept. */
  readonly verdict?: Verdict;
  readonly reason?: string;
}

export interface Ledger {
  readonly sections: Readonly<Record<string, number>>;
  readonly window: number;
  readonly estimatedTokens: number;
  readonly reportedTokens?: number | null;
  readonly cachedTokens?: number | null;
  readonly costUsd?: number | null;
  readonly lines: readonly LedgerLine[];
}

export interface Piece {
  readonly section: string;
  readonly label: string;
  readonly text: string;
}

export interface Round {
  readonly round: number;
  readonly ledger: Ledger;
  readonly texts: readonly Piece[];
}

export interface RunContext {
  readonly runId: string;
  /** False where the texts of the requests are kept no more. */
  readonly complete?: boolean;
  readonly rounds: readonly Round[];
}
