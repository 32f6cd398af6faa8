// @vitest-environment node
// The reducer, on the fixtures that the Python side runs as well (tests/core/test_assistant.py).

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { isWaiting } from "../src/reducer.js";
import {
  fromUIMessages,
  itemsOf,
  partOf,
  reduce,
  threadOf,
  withPrompt,
  withReplay,
  EMPTY_THREAD,
  type AgentPart,
  type AnyChunk,
  type AssistantItem,
  type AssistantPart,
  type ReplyItem,
  type Thread,
  type UIMessage,
} from "../src/index.js";

type Given = AgentPart | AnyChunk;

interface Case {
  readonly name: string;
  readonly inputs: readonly Given[];
  readonly parts: readonly AssistantPart[];
  readonly after?: Record<string, readonly AssistantPart[]>;
  readonly told?: readonly AssistantPart[];
  readonly waits?: Record<string, boolean>;
  readonly retries?: Record<string, unknown>;
  readonly item?: Record<string, unknown>;
}

interface Stored {
  readonly name: string;
  readonly messages: readonly UIMessage[];
  readonly items: readonly AssistantItem[];
}

const folder = new URL("../fixtures/", import.meta.url);
const read = (file: string): unknown => JSON.parse(readFileSync(new URL(file, folder), "utf8"));
const files = readdirSync(folder).filter((file) => file !== "messages.json");
const asked = (): Thread => withPrompt(EMPTY_THREAD, { role: "user", id: "u1", text: "Hi" }, "pending");
const text = (value: string): AgentPart => ({ type: "text", text: value });

/** JSON again: what is not there and what is undefined are the same on the wire. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null));

describe.each(files)("inputs become parts: %s", (file) => {
  test.each((read(file) as Case[]).map((item) => [item.name, item] as const))("%s", (_, item) => {
    let thread = asked();
    const told: AssistantPart[] = [];
    const seen: Thread[] = [thread];
    for (const given of item.inputs) {
      thread = reduce(thread, given);
      seen.push(thread);
      const part = partOf(thread, given);
      if (part) told.push(part);
    }
    const after = { ...item.after, [item.inputs.length]: item.parts };
    for (const [number, parts] of Object.entries(after)) {
      expect(plain(seen[Number(number)]?.open?.item.parts)).toEqual(parts);
    }
    for (const [number, waits] of Object.entries(item.waits ?? {})) {
      expect(isWaiting(seen[Number(number)] as Thread)).toBe(waits);
    }
    for (const [number, retry] of Object.entries(item.retries ?? {})) {
      expect(seen[Number(number)]?.open?.retry ?? null).toEqual(retry);
    }
    if (item.told) expect(plain(told)).toEqual(item.told);
    if (item.item) {
      const { role: _role, parts: _parts, ...rest } = itemsOf(thread).at(-1) as ReplyItem;
      expect(plain(rest)).toEqual(item.item);
    }
  });
});

test.each((read("messages.json") as Stored[]).map((item) => [item.name, item] as const))(
  "a stored thread becomes items: %s",
  (_, item) => expect(plain(fromUIMessages(item.messages))).toEqual(item.items),
);

test("what an input does not touch stays the same object", () => {
  const before = [text("One. "), { type: "tool", name: "a", args: {} } as const, text("Two")].reduce(reduce, asked());
  const after = reduce(before, text("."));
  expect(after.past).toBe(before.past);
  const kept = after.open?.item.parts.map((part, at) => part === before.open?.item.parts[at]);
  expect(kept).toEqual([true, true, false]);
  for (const border of [{ type: "finish-step" }, { type: "text-start", id: "9" }, text("")] as Given[]) {
    expect(reduce(before, border)).toBe(before);
  }
});

test("an input costs the same however long the thread is", () => {
  const items = Array.from({ length: 2_000 }, (_, at) => ({ role: "user", id: String(at), text: "Hi" }) as const);
  const thread = withPrompt(threadOf(items), { role: "user", id: "u", text: "Hi" }, "r");
  expect(reduce(thread, text("x")).past).toBe(thread.past);
});

test("a thread without an open answer takes nothing", () => {
  const thread = threadOf([{ role: "user", id: "u1", text: "Hi" }]);
  expect(reduce(thread, text("late"))).toBe(thread);
  expect(partOf(thread, { type: "text-delta", id: "0", delta: "late" })).toEqual(text("late"));
  expect(partOf(thread, { type: "tool-output-available", toolCallId: "c", output: 1 })).toBeNull();
  expect(partOf(thread, { type: "data-subagent", id: "c", data: { path: ["c"], agent: "a" } })).toBeNull();
  expect(isWaiting(thread)).toBe(false);
});

test("a thread that was read goes on in its last answer", () => {
  const lane = { type: "data-subagent", id: "c", data: { path: ["c"], agent: "cook", parts: [] } };
  const [item] = fromUIMessages([{ id: "r1", role: "assistant", parts: [lane, { type: "text", text: "One. " }] }]);
  const nested: Given = {
    type: "data-subagent-chunk",
    data: { path: ["c"], agent: "cook", chunk: { type: "start-step" } },
    transient: true,
  };
  const inputs: Given[] = [nested, { type: "text-delta", id: "5", delta: "Two." }];
  expect(itemsOf(inputs.reduce(reduce, threadOf([item as ReplyItem])))).toEqual([
    {
      role: "assistant",
      id: "r1",
      parts: [
        { type: "subagent", path: ["c"], agent: "cook", parts: [], done: true },
        { type: "text", text: "One. Two." },
      ],
    },
  ]);
});

test("a replay fills the same answer anew, and another run begins one", () => {
  const inputs: Given[] = [
    { type: "start", messageId: "r1", messageMetadata: { runId: "r1" } },
    { type: "text-delta", id: "0", delta: "Hi" },
  ];
  const thread = inputs.reduce(reduce, asked());
  expect(inputs.reduce(reduce, withReplay(thread, "r1"))).toEqual(thread);
  const ids = (of: Thread): string[] => itemsOf(of).map((item) => item.id);
  expect(ids(withReplay(thread, "r2"))).toEqual(["u1", "r1", "r2"]);
  expect(ids(withReplay(asked(), "r1"))).toEqual(["u1", "r1"]);
  expect(ids(withReplay(EMPTY_THREAD, "r1"))).toEqual(["r1"]);
});
