// Owns what a round changed in the window, compared with the round before it.

import type { LedgerLine, Round, Verdict } from "../contract";
import { orderSections } from "./sections";

export type ChangeKind = "added" | "grew" | "shrank" | "gone" | "cleared" | "summarised" | "trimmed" | "skipped" | "failed";

export interface SectionChange {
  readonly section: string;
  readonly before: number;
  readonly after: number;
  readonly delta: number;
}

export interface LineChange {
  readonly kind: ChangeKind;
  readonly line: LedgerLine;
  /** Tokens more or fewer than in the round before. */
  readonly delta: number;
}

export interface RoundChange {
  readonly sections: readonly SectionChange[];
  readonly lines: readonly LineChange[];
  readonly delta: number;
}

const HELD = new Set<Verdict>(["kept", "trimmed", "summarised"]);

export const verdictOf = (line: LedgerLine): Verdict => line.verdict ?? "kept";

/** Return what a round changed; without one before it, everything that it holds was added. */
export function compare(before: Round | undefined, after: Round): RoundChange {
  const old = before?.ledger.sections ?? {};
  const now = after.ledger.sections;
  const sections = orderSections({ ...old, ...now, ...merged(old, now) })
    .map((section) => change(section, old[section] ?? 0, now[section] ?? 0))
    .filter((item) => item.delta !== 0);
  return {
    sections,
    lines: compareLines(before?.ledger.lines ?? [], after.ledger.lines),
    delta: sections.reduce((sum, item) => sum + item.delta, 0),
  };
}

// `orderSections` leaves out what is empty; a section that has just become empty is a change as well.
function merged(old: Readonly<Record<string, number>>, now: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries([...Object.keys(old), ...Object.keys(now)].map((key) => [key, Math.max(old[key] ?? 0, now[key] ?? 0)]));
}

const change = (section: string, before: number, after: number): SectionChange => ({ section, before, after, delta: after - before });

const nameOf = (line: LedgerLine): string => JSON.stringify([line.section, line.source, line.label]);

function compareLines(old: readonly LedgerLine[], now: readonly LedgerLine[]): readonly LineChange[] {
  const before = grouped(old);
  const changes: LineChange[] = [];
  for (const line of now) {
    const earlier = before.get(nameOf(line))?.shift();
    const kind = kindOf(earlier, line);
    if (kind !== undefined) changes.push({ kind, line, delta: held(line) - (earlier ? held(earlier) : 0) });
  }
  for (const line of [...before.values()].flat()) {
    if (HELD.has(verdictOf(line))) changes.push({ kind: "gone", line, delta: -held(line) });
  }
  return changes;
}

// Two pieces may have one label (two results of one tool), so each name keeps its pieces in order.
function grouped(lines: readonly LedgerLine[]): Map<string, LedgerLine[]> {
  const groups = new Map<string, LedgerLine[]>();
  for (const line of lines) groups.set(nameOf(line), [...(groups.get(nameOf(line)) ?? []), line]);
  return groups;
}

const held = (line: LedgerLine): number => (HELD.has(verdictOf(line)) ? line.tokens : 0);

function kindOf(before: LedgerLine | undefined, line: LedgerLine): ChangeKind | undefined {
  const verdict = verdictOf(line);
  if (before && verdictOf(before) === verdict) {
    if (!HELD.has(verdict) || before.tokens === line.tokens) return undefined;
    return line.tokens > before.tokens ? "grew" : "shrank";
  }
  return verdict === "kept" ? "added" : verdict;
}
