// Owns the shape of a bar: which part of the window each section takes. Pure, so that a table says the same as a bar.

import type { Ledger } from "../contract";
import { orderSections } from "./sections";

export type Figures = Pick<Ledger, "sections" | "window" | "estimatedTokens" | "cachedTokens">;

export interface Segment {
  readonly section: string;
  readonly tokens: number;
  /** From where, and how much of the whole bar, 0 to 1. */
  readonly start: number;
  readonly width: number;
}

export interface Layout {
  readonly segments: readonly Segment[];
  readonly used: number;
  readonly free: number;
  /** What the whole bar stands for: the window, or the request where that is larger or no window is known. */
  readonly whole: number;
  /** How much of the bar was served from the provider's cache: always its beginning. */
  readonly cached: number;
  readonly cachedTokens: number;
  readonly over: number;
}

/** Below this share of the window, a request drawn to the window's scale is too thin to tell its sections apart. */
const THIN = 0.15;

/** Tell whether requests are better drawn to their own scale than to that of their window. */
export function isThin(ledgers: readonly Figures[]): boolean {
  return ledgers.every((ledger) => ledger.estimatedTokens < THIN * ledger.window);
}

/** scale: what the whole bar stands for, where that is not the window. */
export function layOut(ledger: Figures, scale = 0): Layout {
  const names = orderSections(ledger.sections);
  const used = names.reduce((sum, name) => sum + (ledger.sections[name] ?? 0), 0);
  const whole = Math.max(scale || ledger.window, used, 1);
  let start = 0;
  const segments = names.map((section) => {
    const tokens = ledger.sections[section] ?? 0;
    const segment = { section, tokens, start, width: tokens / whole };
    start += segment.width;
    return segment;
  });
  const cachedTokens = ledger.cachedTokens ?? 0;
  return {
    segments, used, whole, cachedTokens,
    free: Math.max(0, ledger.window - used),
    // The provider counts in its own way, so its figure may exceed our estimate of the whole request.
    cached: Math.min(cachedTokens, used) / whole,
    over: ledger.window > 0 ? Math.max(0, used - ledger.window) : 0,
  };
}
