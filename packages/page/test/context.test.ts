import { describe, expect, test } from "vitest";
import { compare } from "../src/context/diff";
import { entriesOf, sectionsToTell } from "../src/context/pieces";
import { mergeRounds, roundBefore, sumOf } from "../src/context/rounds";
import { isThin, layOut } from "../src/context/layout";
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

  test("may be drawn to the scale of a larger request, or of its own", () => {
    const ledger = { sections: { prompt: 200 }, window: 4000, estimatedTokens: 200 };
    expect(layOut(ledger, 800).segments[0]?.width).toBe(0.25);
    expect(layOut(ledger, 100).segments[0]?.width).toBe(1);
  });

  test.each([
    [[100, 400], true], [[100, 700], false], [[], true],
  ])("requests of %j tokens in a window of 4,000 are thin: %s", (sizes, expected) => {
    expect(isThin(sizes.map((estimatedTokens) => ({ sections: {}, window: 4000, estimatedTokens })))).toBe(expected);
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

  test("takes a line without a verdict as kept", () => {
    const { verdict: _, ...bare } = line("a", "history", 10);
    expect(compare(undefined, round(0, {}, [bare])).lines.map((item) => [item.kind, item.delta])).toEqual([["added", 10]]);
    expect(compare(round(0, {}, [bare]), round(1, {}, [line("a", "history", 10)])).lines).toEqual([]);
  });

  test("tells growth from shrinking", () => {
    const change = compare(round(0, {}, [line("a", "history", 10), line("b", "history", 10)]), round(1, {}, [line("a", "history", 12), line("b", "history", 4)]));
    expect(change.lines.map((item) => [item.kind, item.delta])).toEqual([["grew", 2], ["shrank", -6]]);
  });
});

describe("the pieces of a section", () => {
  const held = (texts: Round["texts"]): Round => ({ ...round(1, { tool_results: 60, memory: 0 }, [line("r", "tool_results", 20), line("r", "tool_results", 40), line("gone", "memory", 9, "skipped")]), texts });

  test("meet their texts by label, in order, and texts without a line come last", () => {
    const texts = [
      { section: "tool_results", label: "r", text: "one" }, { section: "prompt", label: "r", text: "no" },
      { section: "tool_results", label: "r", text: "two" }, { section: "tool_results", label: "extra", text: "three" },
    ];
    expect(entriesOf(held(texts), "tool_results").map((entry) => [entry.label, entry.line?.tokens, entry.text])).toEqual([
      ["r", 20, "one"], ["r", 40, "two"], ["extra", undefined, "three"],
    ]);
  });

  test("are told where there are tokens now, or were, or lines of what was left out", () => {
    expect(sectionsToTell(held([]), round(0, { history: 5, summary: 0, audio: 3 }))).toEqual(["memory", "history", "tool_results", "audio"]);
  });
});

describe("the rounds of a turn", () => {
  const note = { round: 0, sections: { prompt: 10 }, window: 100, estimatedTokens: 10 };
  const described = { runId: "r", rounds: [round(0, { prompt: 10 }, [line("p", "prompt", 10)])] };

  test("are those that the server described, with what the stream knows beyond", () => {
    const rounds = mergeRounds(described, [{ ...note, reportedTokens: 12, cachedTokens: 0, costUsd: 0.5 }, { ...note, round: 1 }]);
    expect(rounds.map((item) => [item.round, item.ledger.lines.length, item.ledger.reportedTokens, item.ledger.costUsd])).toEqual([[0, 1, 12, 0.5], [1, 0, undefined, undefined]]);
    expect(sumOf(rounds)).toEqual({ requests: 2, tokens: 22, cached: 0, cost: undefined });
  });

  test("have a cost together where each has one", () => {
    expect(sumOf(mergeRounds(undefined, [{ ...note, costUsd: 0.25 }, { ...note, round: 1, costUsd: 0.5, cachedTokens: 4 }]))).toEqual({ requests: 2, tokens: 20, cached: 4, cost: 0.75 });
  });

  test("are compared with the last one of the turn before", () => {
    const reply = { role: "assistant" as const, id: "a", parts: [{ type: "ledger" as const, ...note }, { type: "ledger" as const, ...note, round: 1, sections: { prompt: 20 } }] };
    expect(roundBefore(reply)?.ledger.sections).toEqual({ prompt: 20 });
    expect(roundBefore({ role: "user", id: "u", text: "x" })).toBeUndefined();
  });
});
