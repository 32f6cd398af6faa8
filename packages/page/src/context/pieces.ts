// Owns how the ledger's lines meet the texts of the pieces: both name a piece by its section and label.

import type { LedgerLine, Piece, Round } from "../contract";
import { SECTIONS } from "./sections";

export interface Entry {
  readonly line?: LedgerLine;
  readonly label: string;
  readonly text?: string;
}

/** Return what a section holds and what was left out of it, each with its text where that is kept. */
export function entriesOf(round: Round, section: string): readonly Entry[] {
  const texts = round.texts.filter((piece) => piece.section === section);
  const taken = new Set<Piece>();
  const entries = round.ledger.lines.filter((line) => line.section === section).map((line): Entry => {
    const piece = texts.find((other) => other.label === line.label && !taken.has(other));
    if (piece === undefined) return { line, label: line.label };
    taken.add(piece);
    return { line, label: line.label, text: piece.text };
  });
  const rest = texts.filter((piece) => !taken.has(piece)).map((piece): Entry => ({ label: piece.label, text: piece.text }));
  return [...entries, ...rest];
}

/** Return the sections that have something to say: tokens, now or before, or lines of what was left out. */
export function sectionsToTell(round: Round, before: Round | undefined): readonly string[] {
  const known: readonly string[] = SECTIONS;
  const told = new Set(round.ledger.lines.map((line) => line.section));
  for (const sections of [round.ledger.sections, before?.ledger.sections ?? {}]) {
    for (const [name, tokens] of Object.entries(sections)) if (tokens > 0) told.add(name);
  }
  return [...known.filter((name) => told.has(name)), ...[...told].filter((name) => !known.includes(name)).sort()];
}
