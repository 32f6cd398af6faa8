import { describe, expect, test } from "vitest";
import { compare } from "../src/context/diff";
import { layOut } from "../src/context/layout";
import { orderSections, sectionName } from "../src/context/sections";
import type { LedgerLine, Round, Verdict } from "../src/contract";

const round = (number: number, sections: Record<string, number>, lines: readonly LedgerLine[] = []): Round => ({
  round: number, texts: [], ledger: { sections, window: 1000, estimatedTokens: 0, lines },
});

const line = (label: string, section: string, tokens: number, verdict: Verdict = "kept"): LedgerLine => ({ source: "s", label, section, tokens, verdict, reason: "" });

describe("the sections of a window", () => {
  test("come in the order of a request, unknown ones last, empty ones not at all", () => {
    expect(orderSections({ prompt: 1, zebra: 2, system: 3, audio: 1, tools: 0 })).toEqual(["system", "prompt", "audio", "zebra"]);
  });

  test("are called by a word", () => {
    expect(["tool_results", "memory", "zebra"].map(sectionName)).toEqual(["results", "memory", "zebra"]);
  });
});

describe("a bar", () => {
  test("gives each section its part of the window, and the rest is free", () => {
    expect(layOut({ sections: { system: 100, prompt: 150 }, window: 1000, estimatedTokens: 250, cachedTokens: 80 })).toEqual({
      segments: [
        { section: "system", tokens: 100, start: 0, width: 0.1 },
        { section: "prompt", tokens: 150, start: 0.1, width: 0.15 },
      ],
      used: 250, free: 750, whole: 1000, cached: 0.08, cachedTokens: 80, over: 0,
    });
  });

  test.each([
    ["a request beyond the window", { sections: { prompt: 1500 }, window: 1000, estimatedTokens: 1500 }, { whole: 1500, free: 0, over: 500, cached: 0 }],
    ["an unknown window", { sections: { prompt: 200 }, window: 0, estimatedTokens: 200 }, { whole: 200, free: 0, over: 0, cached: 0 }],
    ["nothing at all", { sections: {}, window: 0, estimatedTokens: 0 }, { whole: 1, free: 0, over: 0, cached: 0 }],
    ["more cached than estimated", { sections: { prompt: 200 }, window: 400, estimatedTokens: 200, cachedTokens: 210 }, { whole: 400, free: 200, over: 0, cached: 0.5 }],
    ["a null from an old server", { sections: { prompt: 200 }, window: 400, estimatedTokens: 200, cachedTokens: null }, { whole: 400, free: 200, over: 0, cached: 0 }],
  ])("stays within itself for %s", (_, ledger, expected) => {
    const layout = layOut(ledger);
    expect({ whole: layout.whole, free: layout.free, over: layout.over, cached: layout.cached }).toEqual(expected);
    expect(layout.segments.reduce((sum, segment) => sum + segment.width, 0)).toBeLessThanOrEqual(1);
  });

  test("may be drawn to the scale of a larger one", () => {
    expect(layOut({ sections: { prompt: 200 }, window: 400, estimatedTokens: 200 }, 800).segments[0]?.width).toBe(0.25);
  });
});

describe("a round compared with the one before", () => {
  test("the first one added all that it holds", () => {
    const change = compare(undefined, round(0, { system: 10, prompt: 5 }, [line("a", "system", 10), line("b", "tools", 9, "skipped")]));
    expect(change.delta).toBe(15);
    expect(change.sections.map((item) => [item.section, item.delta])).toEqual([["system", 10], ["prompt", 5]]);
    expect(change.lines.map((item) => [item.kind, item.delta])).toEqual([["added", 10], ["skipped", 0]]);
  });

  test("names what came, went, grew, was cleared and was summarised", () => {
    const before = round(0, { history: 300, retrieval: 50, tool_results: 20 }, [
      line("same", "history", 100), line("old", "history", 200), line("doc", "retrieval", 50), line("r", "tool_results", 20), line("never", "tools", 7, "skipped"),
    ]);
    const after = round(1, { history: 100, summary: 40, tool_results: 60 }, [
      line("same", "history", 100), line("12 messages", "summary", 40, "summarised"), line("doc", "retrieval", 50, "cleared"),
      line("r", "tool_results", 20), line("r", "tool_results", 40, "trimmed"), line("never", "tools", 7, "skipped"),
    ]);
    const change = compare(before, after);
    expect(change.sections).toEqual([
      { section: "retrieval", before: 50, after: 0, delta: -50 },
      { section: "summary", before: 0, after: 40, delta: 40 },
      { section: "history", before: 300, after: 100, delta: -200 },
      { section: "tool_results", before: 20, after: 60, delta: 40 },
    ]);
    expect(change.lines.map((item) => [item.kind, item.line.label, item.delta])).toEqual([
      ["summarised", "12 messages", 40], ["cleared", "doc", -50], ["trimmed", "r", 40], ["gone", "old", -200],
    ]);
    expect(change.delta).toBe(-170);
  });

  test("says nothing where nothing changed", () => {
    const same = round(0, { system: 10 }, [line("a", "system", 10)]);
    expect(compare(same, { ...same, round: 1 })).toEqual({ sections: [], lines: [], delta: 0 });
  });

  test("tells growth from shrinking", () => {
    const change = compare(round(0, {}, [line("a", "history", 10), line("b", "history", 10)]), round(1, {}, [line("a", "history", 12), line("b", "history", 4)]));
    expect(change.lines.map((item) => [item.kind, item.delta])).toEqual([["grew", 2], ["shrank", -6]]);
  });
});
