// What guide D says of the hook, statement by statement.

import { act, cleanup, renderHook } from "@testing-library/react";
import { StrictMode, version } from "react";
import { afterEach, describe, expect, test, vi } from "vitest";

import {
  useAssistant,
  type AssistantItem,
  type AssistantPart,
  type DoneTurn,
  type ReplyItem,
  type UseAssistantOptions,
} from "../src/index.js";
import { Feed, settled, text } from "./support/replies.js";

afterEach(cleanup);

const TOOL = { type: "tool", name: "menu", args: { day: "Monday" }, result: ["soup"] } as const;
const MEMORY = { type: "memory", op: "recalled", records: [] } as const;
const CONTEXT = { type: "context", source: "tools", op: "loaded", tools: ["menu"] } as const;

interface Told {
  readonly parts: AssistantPart[];
  readonly turns: DoneTurn[];
}

function render(options: Partial<UseAssistantOptions> = {}, isStrict = false) {
  const feed = new Feed();
  const stream = vi.fn((_prompt: string, _history: readonly AssistantItem[]) => feed);
  const told: Told = { parts: [], turns: [] };
  const given: UseAssistantOptions = {
    stream,
    onPart: (part) => told.parts.push(part),
    onDone: (turn) => told.turns.push(turn),
    ...options,
  };
  const hook = renderHook(() => useAssistant(given), isStrict ? { wrapper: StrictMode } : {});
  return { feed, stream, told, hook, now: () => hook.result.current };
}

function plain(items: readonly AssistantItem[]): unknown[] {
  return items.map(({ id: _id, ...item }) => item);
}

function partsOf(items: readonly AssistantItem[]): readonly AssistantPart[] {
  return (items.at(-1) as ReplyItem).parts;
}

/** Begin to send, in the same tick; what it rejects with is looked at by whoever awaits it. */
function sent(send: () => Promise<void>): Promise<void> {
  let promise: Promise<void> = Promise.resolve();
  act(() => {
    promise = send();
    promise.catch(() => undefined);
  });
  return promise;
}

test("the tests run on the React that they say", () => {
  expect(version.split(".")[0]).toBe(process.env["REACT"]);
});

describe.each([false, true])("StrictMode: %s", (isStrict) => {
  describe("85. send() uses the text of the input box, trimmed", () => {
    test("and calls the stream with it", async () => {
      const { feed, stream, now } = render({}, isStrict);
      act(() => now().setInput("  What is for lunch? \n"));
      sent(now().send);
      expect(stream.mock.calls).toEqual([["What is for lunch?", []]]);
      await act(() => feed.end());
    });

    test.each(["", "   \n"])("an empty box has no effect at all: %j", async (input) => {
      const { stream, told, now } = render({}, isStrict);
      act(() => now().setInput(input));
      await act(() => now().send());
      expect(stream).not.toHaveBeenCalled();
      expect([now().items, now().input, now().busy, told.turns]).toEqual([[], input, false, []]);
    });

    test("while it is busy it has no effect at all", async () => {
      const { feed, stream, told, now } = render({}, isStrict);
      sent(() => now().send("One"));
      act(() => now().setInput("Two"));
      const before = now();
      await act(() => now().send());
      expect(now()).toBe(before);
      expect([stream.mock.calls.length, now().input, told.turns]).toEqual([1, "Two", []]);
      await act(() => feed.end());
    });

    test("two sends in the same tick start one turn", async () => {
      const { feed, stream, told, now } = render({}, isStrict);
      act(() => now().setInput("Once"));
      const { send } = now();
      const both = [sent(send), sent(send), sent(() => send("Twice"))];
      await act(() => feed.end());
      await Promise.all(both);
      expect([stream.mock.calls.length, now().items.length, told.turns.length]).toEqual([1, 2, 1]);
    });

    test("a click handler may be send itself", async () => {
      const { feed, stream, told, now } = render({}, isStrict);
      act(() => now().setInput("From the box"));
      sent(() => (now().send as (event: unknown) => Promise<void>)({ type: "click" }));
      await act(() => feed.end());
      expect([stream.mock.calls[0]?.[0], told.turns]).toEqual(["From the box", [{ spoken: false, outcome: "done" }]]);
    });
  });

  describe("86. send(override) uses the override and marks the turn as spoken", () => {
    test("the override, not the box", async () => {
      const { feed, stream, told, now } = render({}, isStrict);
      act(() => now().setInput("typed"));
      sent(() => now().send("said aloud"));
      await act(() => feed.end());
      expect(stream.mock.calls[0]?.[0]).toBe("said aloud");
      expect(told.turns).toEqual([{ spoken: true, outcome: "done" }]);
    });

    test("the box marks false", async () => {
      const { feed, told, now } = render({}, isStrict);
      act(() => now().setInput("typed"));
      sent(now().send);
      await act(() => feed.end());
      expect(told.turns).toEqual([{ spoken: false, outcome: "done" }]);
    });

    test("an empty override has no effect, even with text in the box", async () => {
      const { stream, now } = render({}, isStrict);
      act(() => now().setInput("typed"));
      await act(() => now().send("  "));
      expect([stream.mock.calls.length, now().input]).toEqual([0, "typed"]);
    });
  });

  test("87. on send the input is cleared, two items are appended, and busy becomes true", async () => {
    const { feed, now } = render({}, isStrict);
    act(() => now().setInput("Hi"));
    expect(now().status).toBe("ready");
    sent(now().send);
    expect([now().input, now().busy, now().status]).toEqual(["", true, "submitted"]);
    expect(plain(now().items)).toEqual([
      { role: "user", text: "Hi" },
      { role: "assistant", parts: [] },
    ]);
    await act(() => feed.end());
  });

  test("88. consecutive texts are joined into one; a tool part between two texts keeps three parts", async () => {
    const { feed, now } = render({}, isStrict);
    sent(() => now().send("Hi"));
    await act(() => feed.give(text("Let me "), text("see. "), TOOL, text("So"), text("up.")));
    expect(partsOf(now().items)).toEqual([text("Let me see. "), TOOL, text("Soup.")]);
    expect(now().status).toBe("streaming");
    await act(() => feed.end());
  });

  test("89. tool, memory and context parts are appended as they are", async () => {
    const { feed, now } = render({}, isStrict);
    sent(() => now().send("Hi"));
    await act(() => feed.give(MEMORY, CONTEXT, TOOL, TOOL));
    const parts = partsOf(now().items);
    expect(parts.map((part, at) => part === [MEMORY, CONTEXT, TOOL, TOOL][at])).toEqual([true, true, true, true]);
    await act(() => feed.end());
  });

  test("90. onPart is called for every part, in order, after it was applied", async () => {
    const seen: string[] = [];
    const { feed, now } = render(
      {
        onPart: (part) => seen.push(`${part.type} ${part.type === "text" ? part.text : ""}`),
      },
      isStrict,
    );
    sent(() => now().send("Hi"));
    await act(() => feed.give(text("a"), text("b"), TOOL, MEMORY, text("c")));
    expect(seen).toEqual(["text a", "text b", "tool ", "memory ", "text c"]);
    await act(() => feed.end());
  });

  describe("91. busy resets at the end, and onDone runs", () => {
    test("on success", async () => {
      const { feed, told, now } = render({}, isStrict);
      const turn = sent(() => now().send("Hi"));
      await act(() => feed.give(text("Hello")));
      expect([now().busy, told.turns]).toEqual([true, []]);
      await act(() => feed.end());
      await turn;
      expect([now().busy, now().status, told.turns]).toEqual([
        false,
        "ready",
        [{ spoken: true, outcome: "done" }],
      ]);
    });

    test("on an error", async () => {
      const { feed, told, now } = render({}, isStrict);
      const error = new Error("no model");
      const turn = sent(() => now().send("Hi"));
      await act(() => feed.fail(error));
      await expect(turn).rejects.toBe(error);
      expect([now().busy, now().status, told.turns]).toEqual([
        false,
        "error",
        [{ spoken: true, outcome: "error", error }],
      ]);
    });
  });

  describe("92. where stream throws, send rejects after busy was reset and onDone ran", () => {
    test("in the middle: the parts that came stay", async () => {
      const order: string[] = [];
      const { feed, now } = render({ onDone: () => order.push("done") }, isStrict);
      const turn = sent(() => now().send("Hi")).catch(() => order.push("rejected"));
      await act(() => feed.give(text("Hel"), TOOL));
      await act(() => feed.fail(new Error("gone")));
      await turn;
      expect(order).toEqual(["done", "rejected"]);
      expect(partsOf(now().items)).toEqual([text("Hel"), TOOL]);
      expect([now().busy, (now().error as Error).message]).toEqual([false, "gone"]);
    });

    test.each([
      ["at once", () => { throw new Error("refused"); }],
      ["as a promise", () => Promise.reject(new Error("refused"))],
    ])("%s, before there is a stream", async (_, stream) => {
      const { told, now } = render({ stream }, isStrict);
      let turn: Promise<void> = Promise.resolve();
      await act(async () => {
        turn = now().send("Hi");
        await turn.catch(() => undefined);
      });
      await expect(turn).rejects.toThrow("refused");
      expect([now().busy, now().items.length, told.turns.length]).toEqual([false, 2, 1]);
    });

    test("and the next send begins afresh", async () => {
      const { feed, now } = render({}, isStrict);
      sent(() => now().send("One"));
      await act(() => feed.fail(new Error("gone")));
      sent(() => now().send("Two"));
      expect([now().error, now().busy, now().items.length]).toEqual([null, true, 4]);
      await act(() => feed.end());
    });
  });

  describe("93. reset() empties the thread and does not stop a turn that runs", () => {
    test("what comes later neither crashes nor brings the old thread back", async () => {
      const { feed, told, now } = render({}, isStrict);
      const turn = sent(() => now().send("Hi"));
      await act(() => feed.give(text("Hel")));
      act(() => now().reset());
      expect([now().items, now().busy]).toEqual([[], true]);
      await act(() => feed.give(text("lo"), TOOL));
      expect(now().items).toEqual([]);
      expect(feed.isClosed).toBe(false);
      await act(() => feed.end());
      await turn;
      expect([now().items, now().busy, told.parts.length, told.turns.length]).toEqual([[], false, 3, 1]);
    });

    test("a new turn has no history", async () => {
      const { feed, stream, now } = render({}, isStrict);
      sent(() => now().send("One"));
      await act(() => feed.end());
      act(() => now().reset());
      sent(() => now().send("Two"));
      await act(() => feed.end());
      expect(stream.mock.calls).toEqual([
        ["One", []],
        ["Two", []],
      ]);
    });

    test("an error that comes later is no longer shown", async () => {
      const { feed, now } = render({}, isStrict);
      const turn = sent(() => now().send("Hi"));
      act(() => now().reset());
      await act(() => feed.fail(new Error("late")));
      await expect(turn).rejects.toThrow("late");
      expect([now().error, now().status]).toEqual([null, "ready"]);
    });
  });

  test("94. stream is called with the prompt and the history before this turn", async () => {
    const { feed, stream, now } = render({}, isStrict);
    sent(() => now().send("One"));
    await act(() => feed.give(text("1")));
    await act(() => feed.end());
    const before = now().items;
    sent(() => now().send("Two"));
    await act(() => feed.end());
    const [prompt, history] = stream.mock.calls[1] as unknown as [string, readonly AssistantItem[]];
    expect([prompt, plain(history)]).toEqual([
      "Two",
      [
        { role: "user", text: "One" },
        { role: "assistant", parts: [text("1")] },
      ],
    ]);
    expect(history).toEqual(before);
    expect(stream.mock.calls.map((call) => call.length)).toEqual([2, 2]);
  });
});

test("a stream may be a promise of one, an array, or a plain generator", async () => {
  const streams: UseAssistantOptions["stream"][] = [
    async () => [text("a"), text("b")],
    () => [text("a"), text("b")],
    function* () {
      yield text("a");
      yield text("b");
    },
    async function* () {
      yield text("a");
      yield text("b");
    },
  ];
  for (const stream of streams) {
    const { now } = render(stream ? { stream } : {});
    await act(() => now().send("Hi"));
    expect(partsOf(now().items)).toEqual([text("ab")]);
    cleanup();
  }
});

test("the newest callbacks and the newest stream are called, not those of the first render", async () => {
  const calls: string[] = [];
  const feed = new Feed();
  const hook = renderHook(
    ({ name }) =>
      useAssistant({
        stream: () => {
          calls.push(`stream ${name}`);
          return feed;
        },
        onPart: () => calls.push(`part ${name}`),
        onDone: () => calls.push(`done ${name}`),
      }),
    { initialProps: { name: "a" } },
  );
  const { send } = hook.result.current;
  hook.rerender({ name: "b" });
  sent(() => send("Hi"));
  await act(() => feed.give(text("x")));
  hook.rerender({ name: "c" });
  await act(() => feed.give(text("y")));
  await act(() => feed.end());
  expect(calls).toEqual(["stream b", "part b", "part c", "done c"]);
});

test("the functions never change", async () => {
  const { feed, now } = render();
  const { items: _items, input: _input, busy: _busy, ...first } = now();
  const before = Object.entries(first).filter(([, value]) => typeof value === "function");
  sent(() => now().send("Hi"));
  await act(() => feed.give(text("x")));
  await act(() => feed.end());
  const after = now() as unknown as Record<string, unknown>;
  expect(before.length).toBeGreaterThan(8);
  for (const [name, value] of before) expect(after[name]).toBe(value);
});

test("stop ends a plain stream at once, whatever it waits for", async () => {
  const { feed, told, now } = render();
  const turn = sent(() => now().send("Hi"));
  await act(() => feed.give(text("Hel")));
  await act(() => now().stop());
  await act(() => turn);
  expect([now().busy, now().status, feed.isClosed]).toEqual([false, "ready", true]);
  expect([partsOf(now().items), told.turns]).toEqual([[text("Hel")], [{ spoken: true, outcome: "stopped" }]]);
  await act(settled);
});

test("a component that goes away closes its stream, and its promise does not hang", async () => {
  const { feed, told, hook, now } = render();
  const turn = sent(() => now().send("Hi"));
  await act(() => feed.give(text("Hel")));
  hook.unmount();
  await turn;
  expect([feed.isClosed, told.turns]).toEqual([true, [{ spoken: true, outcome: "detached" }]]);
});

test("with keepAlive the stream of a component that went away goes on", async () => {
  const { feed, told, hook, now } = render({ keepAlive: true });
  const turn = sent(() => now().send("Hi"));
  hook.unmount();
  await feed.give(text("Hel"));
  await feed.end();
  await turn;
  expect([feed.isClosed, told.parts, told.turns]).toEqual([
    false,
    [text("Hel")],
    [{ spoken: true, outcome: "done" }],
  ]);
});
