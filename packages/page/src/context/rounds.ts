// Owns the rounds that the context view shows: those the server described, and the newest ones, known from the stream.

import type { AssistantItem, LedgerNote } from "@sapwood/react";
import type { Ledger, Round, RunContext } from "../contract";

/** Return the ledgers that a message carries, by round. */
export function ledgersOf(item: AssistantItem | undefined): readonly LedgerNote[] {
  if (item?.role !== "assistant") return [];
  return item.parts.filter((part) => part.type === "ledger");
}

/** Return all rounds, with the lines and texts of those that the server described. */
export function mergeRounds(context: RunContext | undefined, notes: readonly LedgerNote[]): readonly Round[] {
  const rounds = new Map<number, Round>();
  for (const note of notes) rounds.set(note.round, { round: note.round, ledger: { ...figures(note), lines: [] }, texts: [] });
  for (const round of context?.rounds ?? []) {
    const live = rounds.get(round.round)?.ledger;
    // The description may be older than the stream, which brings the provider's report.
    rounds.set(round.round, { ...round, ledger: live ? { ...round.ledger, ...reported(live) } : round.ledger });
  }
  return [...rounds.values()].sort((one, other) => one.round - other.round);
}

export interface Sum {
  readonly requests: number;
  readonly tokens: number;
  readonly cached: number;
  /** Undefined where the price of a request is not known. */
  readonly cost: number | undefined;
}

/** Return what the requests of a turn were together. */
export function sumOf(rounds: readonly Round[]): Sum {
  const ledgers = rounds.map((round) => round.ledger);
  const costs = ledgers.map((ledger) => ledger.costUsd).filter((cost) => cost != null);
  return {
    requests: ledgers.length,
    tokens: ledgers.reduce((sum, ledger) => sum + (ledger.reportedTokens ?? ledger.estimatedTokens), 0),
    cached: ledgers.reduce((sum, ledger) => sum + (ledger.cachedTokens ?? 0), 0),
    cost: costs.length < ledgers.length ? undefined : costs.reduce((sum, cost) => sum + cost, 0),
  };
}

/** Return a round of which only figures are known: the last one of the turn before, to compare with. */
export function roundBefore(item: AssistantItem | undefined): Round | undefined {
  const note = ledgersOf(item).at(-1);
  return note && { round: -1, ledger: { ...figures(note), lines: [] }, texts: [] };
}

export function figures(note: LedgerNote): Omit<Ledger, "lines"> {
  return { sections: note.sections ?? {}, window: note.window ?? 0, estimatedTokens: note.estimatedTokens ?? 0, ...reported(note) };
}

function reported(note: Partial<Pick<Ledger, "reportedTokens" | "cachedTokens" | "costUsd">>): Partial<Ledger> {
  const { reportedTokens, cachedTokens, costUsd } = note;
  return {
    ...(reportedTokens == null ? {} : { reportedTokens }),
    ...(cachedTokens == null ? {} : { cachedTokens }),
    ...(costUsd == null ? {} : { costUsd }),
  };
}
