import type { AssistantItem, AssistantPart } from "@sapwood/react";
import { describe, expect, test } from "vitest";
import { stateWords } from "../src/announcer";
import { MAX_ALL_BYTES, MAX_FILE_BYTES, mediaTypeOf, refuse } from "../src/composer/attachments";
import { bytes, cost, count, duration, percent, short, signed, since } from "../src/format";
import { parseArguments, parseResult } from "../src/thread/approval_card";
import { limitWords } from "../src/thread/limit_card";
import { joinNotes } from "../src/thread/notes";
import { spent } from "../src/thread/message_view";
import { counted, NO_WORDS, spoken, total, type Heard } from "../src/thread/spoken";
import { peek } from "../src/thread/tool_card";

test.each([
  [count(12345.4), "12,345"], [short(940), "940"], [short(3210), "3.2k"], [short(128_000), "128k"],
  [percent(1, 3), "33 %"], [percent(1, 1000), "<1 %"], [percent(0, 10), "0 %"], [percent(1, 0), ""],
  [signed(330), "+330"], [signed(-310), "−310"], [signed(0), "0"],
  [cost(0), "$0"], [cost(0.0031), "$0.0031"], [cost(0.004), "$0.004"], [cost(12.5), "$12.50"], [cost(0.5), "$0.50"], [cost(0.00000123), "$0.0000012"],
  [duration(31), "31 ms"], [duration(1310), "1.3 s"], [duration(125_000), "2 min 5 s"],
  [since(0, 30_000), "now"], [since(0, 300_000), "5 min"], [since(0, 7_200_000), "2 h"],
  [bytes(12), "12 B"], [bytes(2048), "2 kB"], [bytes(1_572_864), "1.5 MB"],
])("a figure reads %s", (written, expected) => {
  expect(written).toBe(expected);
});

test("what a turn used is told", () => {
  expect(spent({ inputTokens: 6120, cachedTokens: 4210, outputTokens: 312 })).toBe("6,120 tokens in (69 % cached), 312 out");
  expect(spent({ inputTokens: 5 })).toBe("5 tokens in, 0 out");
});

describe("a file", () => {
  const file = (name: string, type: string, size = 10) => ({ name, type, size });

  test.each([
    [file("a.png", "image/png"), "image/png"], [file("a.pdf", "application/pdf"), "application/pdf"], [file("a.csv", "text/csv"), "text/plain"],
    [file("a.toml", ""), "text/plain"], [file("a.svg", "image/svg+xml"), undefined], [file("a.zip", "application/zip"), undefined], [file("a.exe", ""), undefined],
  ])("%j goes as %s", (given, expected) => {
    expect(mediaTypeOf(given)).toBe(expected);
  });

  test.each([
    [file("a.png", "image/png"), 0, undefined],
    [file("a.zip", "application/zip"), 0, /images .* PDF and text/],
    [file("a.txt", "text/plain", 0), 0, /empty/],
    [file("a.png", "image/png", MAX_FILE_BYTES + 1), 0, /a file may have 4 MB/],
    [file("a.png", "image/png", 10), MAX_ALL_BYTES - 5, /a message may carry 6 MB/],
  ])("%j with %i bytes held is refused in words: %s", (given, held, expected) => {
    if (expected === undefined) expect(refuse(given, held)).toBeUndefined();
    else expect(refuse(given, held)).toMatch(expected);
  });
});

test.each([
  ['{"a": 1}', { input: { a: 1 }, problem: "" }],
  ["[1]", { problem: 'The arguments are an object: {"name": value}.' }],
  ["null", { problem: 'The arguments are an object: {"name": value}.' }],
])("edited arguments %s are read", (text, expected) => {
  expect(parseArguments(text)).toEqual(expected);
});

test("edited arguments that are not JSON are told so", () => {
  expect(parseArguments("{a: 1}").problem).toMatch(/^This is not JSON/);
});

test.each([["21", 21], ['{"a":1}', { a: 1 }], ["warm", "warm"]])("the result %s is JSON where it can be", (text, expected) => {
  expect(parseResult(text)).toEqual(expected);
});

test.each([
  [{ city: "Lisbon", days: 3 }, 'city: "Lisbon", days: 3'], [{}, ""], [undefined, ""], ["raw", '"raw"'],
])("the arguments %j are peeked at in a line", (args, expected) => {
  expect(peek(args)).toBe(expected);
});

test.each([
  [{ kind: "tool_calls", name: "tool_calls", used: 5, limit: 5 } as const, "5 of 5 tool calls"],
  [{ kind: "tool", name: "tool:search", tool: "search", used: 2, limit: 2 } as const, "2 of 2 calls of search"],
  [{ kind: "cost", name: "cost", used: 0.5, limit: 0.4 } as const, "$0.50 of $0.40 cost"],
  [{ kind: "seconds", name: "seconds", used: 61, limit: 60 } as const, "1 min 1 s of 1 min 0 s time"],
])("the limit %j is told", (limit, expected) => {
  expect(limitWords(limit)).toBe(expected);
});

const reply = (text: string, stoppedBy?: "cancelled" | "stop"): AssistantItem => ({
  role: "assistant", id: "a", parts: [{ type: "text", text }], ...(stoppedBy ? { metadata: { runId: "a", stoppedBy } } : {}),
});

test("notes of one source that follow one another are told once", () => {
  const saved = (id: string): AssistantPart => ({ type: "context", source: "memory", op: "saved", records: [{ type: "memory_record", id, text: id, createdAt: 1 }] });
  const loaded: AssistantPart = { type: "context", source: "tools", op: "loaded", tools: ["a"] };
  const text: AssistantPart = { type: "text", text: "x" };
  const joined = joinNotes([saved("1"), saved("2"), loaded, text, saved("3")]);
  expect(joined.map((part) => (part.type === "context" ? [part.source, part.records?.length ?? 0, part.tools ?? []] : part))).toEqual([
    ["memory", 2, []], ["tools", 0, ["a"]], text, ["memory", 1, []],
  ]);
});

describe("what a screen reader hears", () => {
  test("an answer comes by the paragraph, and the growing one not yet", () => {
    expect(spoken(reply("One.\n\nTwo is not"), true)).toEqual(["One."]);
    expect(spoken(reply("One.\n\nTwo is not"), false)).toEqual(["One.", "Two is not"]);
    expect(spoken({ role: "user", id: "u", text: "x" }, false)).toEqual([]);
  });

  test("is the same, whatever the pieces in which the answer came", () => {
    const text = "One.\n\n\n  Two is\nlonger.\n\n\n\n- three\n\n";
    for (const step of [1, 2, 3, 7]) {
      const heard: Heard = new Map();
      for (let end = 0; end <= text.length; end += step) {
        const item = reply(text.slice(0, end));
        expect(spoken(item, true, heard)).toEqual(spoken(item, true));
      }
      expect(spoken(reply(text), false, heard)).toEqual(["One.", "Two is\nlonger.", "- three"]);
      expect(spoken(reply("Another.\n\none"), false, heard)).toEqual(["Another.", "one"]);
    }
  });

  test("a text is read once, however many pieces it comes in", () => {
    const read: number[] = [];
    const watched = (text: string): string => Object.assign(Object(text) as string, { slice: (from: number, to?: number) => { read.push((to ?? text.length) - from); return text.slice(from, to); } });
    const heard: Heard = new Map();
    const paragraph = `${"word ".repeat(100)}\n\n`;
    for (let count = 1; count <= 50; count += 1) spoken(reply(watched(paragraph.repeat(count))), true, heard);
    expect(read.length).toBeGreaterThan(49);
    expect(Math.max(...read)).toBeLessThan(2 * paragraph.length);
  });

  test.each(["", "one", "  one two  ", "a\n\nb  c\td "])("the words of %j are counted as they come", (text) => {
    let known = NO_WORDS;
    for (let end = 0; end <= text.length; end += 1) known = counted(known, text.slice(0, end));
    expect(total(known)).toBe(text.split(/\s+/).filter(Boolean).length);
  });

  test.each([
    ["streaming", [reply("x")], "The answer is coming."],
    ["ready", [reply("x", "stop")], "The answer is complete."],
    ["ready", [reply("x", "cancelled")], "Stopped."],
    ["ready", [], ""],
    ["waiting", [{ role: "assistant", id: "a", parts: [{ type: "tool", name: "refund", args: {}, state: "waiting" }] }], "Waiting for your word on refund."],
    ["waiting", [reply("x")], "Waiting for your word on a limit."],
  ] as const)("%s is said in words", (status, items, expected) => {
    expect(stateWords({ status, items, retry: null, interrupted: false, reconnecting: false })).toBe(expected);
  });

  test("a connection that is taken up again is told of", () => {
    expect(stateWords({ status: "streaming", items: [], retry: null, interrupted: false, reconnecting: true })).toContain("connection broke");
  });

  test("a model that does not answer is told of", () => {
    expect(stateWords({ status: "streaming", items: [], retry: { round: 0, seconds: 1.2, attempt: 1 }, interrupted: false, reconnecting: false })).toContain("again in 2 seconds");
  });
});
