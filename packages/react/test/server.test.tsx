// The hook against a server: what it asks, and what it makes of the answers.

import { act, cleanup, renderHook } from "@testing-library/react";
import { afterEach, describe, expect, test } from "vitest";

import { useAssistant, type AssistantError, type ToolPart } from "../src/index.js";
import { answer, asking, delta, done, finish, json, OpenAnswer, Routes, settled, sse, start, text } from "./support/replies.js";
import { begun, CHAT, DECIDE, failing, partsOf, render, tool } from "./support/render_server.js";

afterEach(cleanup);

describe("send", () => {
  test("posts the thread and the newest message alone, and shows what streams", async () => {
    const routes = new Routes().on(
      CHAT,
      answer([start(), delta("Hel"), delta("lo"), finish()]),
      answer([start("r2"), delta("Bye", "1"), finish("stop", "r2")]),
    );
    const { now, turns, parts } = render(routes, { headers: async () => ({ authorization: "Bearer x" }) });
    expect(now().threadId).toBeNull();
    await act(() => now().send("Hi"));
    expect(partsOf(now().items)).toEqual([text("Hello")]);
    expect([now().runId, now().status, turns]).toEqual(["r1", "ready", [{ spoken: true, outcome: "done" }]]);
    expect(parts).toEqual([text("Hel"), text("lo")]);
    await act(() => now().send("Bye"));
    const bodies = routes.asked.map((asked) => asked.body as { id: string; messages: unknown[] });
    expect(bodies[0]).toEqual({
      id: now().threadId,
      messages: [{ id: now().items[0]?.id, role: "user", parts: [{ type: "text", text: "Hi" }] }],
      trigger: "submit-message",
    });
    expect([bodies[1]?.id, bodies[1]?.messages.length]).toEqual([now().threadId, 1]);
    expect(routes.asked[0]?.headers).toEqual({ "content-type": "application/json", authorization: "Bearer x" });
    expect(now().items.map((item) => item.id).filter((id) => id.startsWith("r"))).toEqual(["r1", "r2"]);
  });

  test("two in the same tick are one request and one message", async () => {
    const routes = new Routes().on(CHAT, answer([start(), finish()]));
    const { now } = render(routes, {}, true);
    act(() => now().setInput("Once"));
    const { send } = now();
    const both = [begun(() => send()), begun(() => send())];
    await act(() => Promise.all(both));
    expect([routes.asked.length, now().items.length]).toEqual([1, 2]);
  });

  test("files go with the message, with or without words", async () => {
    const file = { type: "file", url: "data:text/plain,hi", mediaType: "text/plain", filename: "a.txt" } as const;
    const routes = new Routes().on(CHAT, answer([start(), finish()]));
    const { now } = render(routes);
    await act(() => now().send(undefined, { files: [file] }));
    expect(now().items[0]).toMatchObject({ role: "user", text: "", files: [file] });
    expect((routes.asked[0]?.body as { messages: { parts: unknown }[] }).messages[0]?.parts).toEqual([file]);
  });

  test("is refused: the error says what, and the next one may succeed", async () => {
    const error = { code: "busy", message: "a run is going on", requestId: "q1", runId: "r0" };
    const routes = new Routes().on(CHAT, json({ error }, 409), answer([start(), finish()]));
    const { now, turns } = render(routes);
    await expect(failing(() => now().send("Hi"))).rejects.toMatchObject({ code: "busy", status: 409, requestId: "q1" });
    expect([now().status, now().busy, (now().error as AssistantError).runId]).toEqual(["error", false, "r0"]);
    expect(turns).toEqual([{ spoken: true, outcome: "error", error: now().error }]);
    await act(() => now().send("Hi"));
    expect([now().status, now().error]).toEqual(["ready", null]);
  });

  test("cannot reach the server", async () => {
    const { now } = render(new Routes().on(CHAT, new TypeError("fetch failed")));
    await expect(failing(() => now().send("Hi"))).rejects.toMatchObject({ code: "network", status: 0 });
  });

  test("a run that fails rejects, and its parts stay", async () => {
    const failed = answer([start(), delta("Hel"), { type: "error", errorText: "something went wrong (request q1)" }]);
    const { now } = render(new Routes().on(CHAT, failed));
    await expect(failing(() => now().send("Hi"))).rejects.toMatchObject({ code: "run_failed" });
    expect(now().items.at(-1)).toMatchObject({ parts: [text("Hel")], error: "something went wrong (request q1)" });
    expect(now().status).toBe("error");
  });
});

test("parts that did not change are the same objects, and an item of the past too", async () => {
  const open = new OpenAnswer();
  const { now } = render(new Routes().on(CHAT, answer([start("r0"), delta("Hi"), finish("stop", "r0")]), open.response));
  await act(() => now().send("One"));
  const turn = begun(() => now().send("Two"));
  await act(() => open.write(sse([start(), ...asking(), done(), delta("So")], { isComplete: false })));
  const before = now().items;
  await act(() => open.write(sse([delta("up.")], { first: 9, isComplete: false })));
  const after = now().items;
  expect(after.map((item, at) => item === before[at])).toEqual([true, true, true, false]);
  expect(partsOf(after).map((part, at) => part === partsOf(before)[at])).toEqual([true, false]);
  await act(() => open.write(sse([finish()], { first: 10 })));
  await act(() => turn);
});

test("chunks that arrive together are one render", async () => {
  let renders = 0;
  const routes = new Routes().on(CHAT, answer([start(), ...Array.from({ length: 500 }, () => delta("x")), finish()]));
  const hook = renderHook(() => {
    renders += 1;
    return useAssistant({ url: "", fetch: routes.fetch });
  });
  await act(() => hook.result.current.send("Hi"));
  expect(partsOf(hook.result.current.items)).toEqual([text("x".repeat(500))]);
  expect(renders).toBeLessThan(10);
});

describe("a call that needs a yes", () => {
  const paused = (): Response => answer([start(), ...asking(), finish("approval")]);

  test("waits, and goes on in the same message", async () => {
    const routes = new Routes().on(CHAT, paused()).on(DECIDE, answer([start(), done(), delta("Paid.", "1"), finish()]));
    const { now, turns } = render(routes);
    await act(() => now().send("Pay 5"));
    expect([now().status, now().busy, tool(now().items).state]).toEqual(["waiting", false, "waiting"]);
    await act(() => now().approve("c1"));
    expect(routes.asked[1]?.body).toEqual({ decisions: { c1: { approved: true } } });
    expect([now().status, now().items.length, now().items.at(-1)?.id]).toEqual(["ready", 2, "r1"]);
    expect(partsOf(now().items)).toMatchObject([{ state: "done", result: "paid" }, text("Paid.")]);
    expect(turns.map((turn) => turn.outcome)).toEqual(["waiting", "done"]);
  });

  test("may be given other arguments, and remembered", async () => {
    const routes = new Routes().on(CHAT, paused(), paused()).on(DECIDE, answer([start(), done(), finish()]));
    const { now } = render(routes);
    await act(() => now().send("Pay 5"));
    await act(() => now().approve("c1", { input: { sum: 3 }, remember: {} }));
    expect(routes.asked[1]?.body).toEqual({ decisions: { c1: { approved: true, input: { sum: 3 }, remember: {} } } });
    expect(tool(now().items).args).toEqual({ sum: 3 });
  });

  test("may be denied, with a reason", async () => {
    const denied = answer([start(), { type: "tool-output-denied", toolCallId: "c1" }, delta("No.", "1"), finish()]);
    const routes = new Routes().on(CHAT, paused()).on(DECIDE, denied);
    const { now } = render(routes);
    await act(() => now().send("Pay 5"));
    await act(() => now().deny("c1", "too much"));
    expect(routes.asked[1]?.body).toEqual({ decisions: { c1: { approved: false, reason: "too much" } } });
    expect([tool(now().items).state, now().status]).toEqual(["denied", "ready"]);
  });

  test("two answers one after the other are two requests, never at once", async () => {
    const first = new OpenAnswer();
    const chat = answer([start(), ...asking("c1"), ...asking("c2"), finish("approval")]);
    const routes = new Routes().on(CHAT, chat).on(DECIDE, first.response, answer([start(), done("c2"), finish()]));
    const { now } = render(routes);
    await act(() => now().send("Pay"));
    const both = [begun(() => now().approve("c1")), begun(() => now().approve("c2"))];
    await act(settled);
    expect(routes.routes()).toEqual([CHAT, DECIDE]);
    await act(() => first.write(sse([start(), done("c1"), finish("approval")])));
    await act(() => Promise.all(both));
    expect(routes.asked.slice(1).map((asked) => asked.body)).toEqual([
      { decisions: { c1: { approved: true } } },
      { decisions: { c2: { approved: true } } },
    ]);
    expect([now().status, partsOf(now().items).map((part) => (part as ToolPart).state)]).toEqual([
      "ready",
      ["done", "done"],
    ]);
  });

  test("an answer that is refused leaves the call waiting", async () => {
    const routes = new Routes()
      .on(CHAT, paused())
      .on(DECIDE, json({ error: { code: "stale", message: "no such call" } }, 409), answer([start(), done(), finish()]));
    const { now } = render(routes);
    await act(() => now().send("Pay 5"));
    await expect(failing(() => now().approve("c1", { input: { sum: 1 } }))).rejects.toMatchObject({ code: "stale" });
    expect([tool(now().items).state, tool(now().items).args, now().status]).toEqual(["waiting", { sum: 5 }, "error"]);
    await act(() => now().approve("c1"));
    expect(now().status).toBe("ready");
  });

  test("while it waits, send has no effect", async () => {
    const routes = new Routes().on(CHAT, paused());
    const { now } = render(routes);
    await act(() => now().send("Pay 5"));
    act(() => now().setInput("And?"));
    await act(() => now().send());
    expect([routes.asked.length, now().input, now().items.length]).toEqual([1, "And?", 2]);
  });

  test("a tool that runs outside takes its result from here", async () => {
    const chat = answer([start(), ...asking("c1", "external"), finish("approval")]);
    const routes = new Routes().on(CHAT, chat).on(DECIDE, answer([start(), done("c1", 2.5), finish()]));
    const { now } = render(routes);
    await act(() => now().send("Measure"));
    expect(tool(now().items)).toMatchObject({ external: true, state: "waiting", approval: { kind: "external" } });
    await act(() => now().answer("c1", 2.5));
    expect(routes.asked[1]?.body).toEqual({ decisions: { c1: { result: 2.5 } } });
    expect(tool(now().items)).toMatchObject({ state: "done", result: 2.5 });
  });

  test("a limit that asks is extended by its name", async () => {
    const limit = { kind: "requests", name: "requests", used: 2, limit: 2, asks: true } as const;
    const chat = answer([start(), { type: "data-limit", id: "limit-requests", data: limit }, finish("limit_ask")]);
    const routes = new Routes().on(CHAT, chat).on(DECIDE, answer([start(), delta("On."), finish()]));
    const { now } = render(routes);
    await act(() => now().send("Hi"));
    expect(now().status).toBe("waiting");
    await act(() => now().extend({ requests: 3 }));
    expect(routes.asked[1]?.body).toEqual({ decisions: {}, extend: { requests: 3 } });
    expect(now().status).toBe("ready");
  });

  test("without a server there is nothing to answer to", async () => {
    const hook = renderHook(() => useAssistant({ stream: () => [text("Hi")] }));
    await act(() => hook.result.current.send("Hi"));
    await expect(failing(() => hook.result.current.approve("c1"))).rejects.toMatchObject({ code: "no_run" });
  });
});
