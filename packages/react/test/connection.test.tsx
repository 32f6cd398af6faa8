// The hook and the life of its connection: breaks, stops, threads that are loaded, components that go away.

import { act, cleanup } from "@testing-library/react";
import { afterEach, describe, expect, test } from "vitest";

import { answer, asking, delta, done, finish, json, OpenAnswer, Routes, settled, sse, start, text } from "./support/replies.js";
import { begun, CHAT, DECIDE, partsOf, render, REPLAY, stored, THREAD, tool, until } from "./support/render_server.js";

afterEach(cleanup);

describe("a connection that breaks", () => {
  test("is taken up again after the last event, and nothing is told twice", async () => {
    const open = new OpenAnswer();
    const rest = new Response(sse([delta("lo"), finish()], { first: 3 }));
    const routes = new Routes().on(CHAT, open.response).on("GET /api/runs/r1/stream", new TypeError("offline"), rest);
    const { now, parts } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hel")], { isComplete: false })));
    await act(() => open.breakOff());
    await act(() => turn);
    expect(routes.routes()).toEqual([CHAT, "GET /api/runs/r1/stream", "GET /api/runs/r1/stream"]);
    expect(routes.asked[2]?.headers).toEqual({ "last-event-id": "2" });
    expect([partsOf(now().items), parts]).toEqual([[text("Hello")], [text("Hel"), text("lo")]]);
    expect(now().status).toBe("ready");
  });

  test("in the middle of an event, the whole event comes again", async () => {
    const open = new OpenAnswer();
    const half = `data: ${JSON.stringify({ type: "text-delta", id: "1", delta: "twice?" })}\n\n`;
    const rest = new Response(sse([delta("once.", "1"), finish()], { first: 3 }));
    const routes = new Routes().on(CHAT, open.response).on("GET /api/runs/r1/stream", rest);
    const { now } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Said ")], { isComplete: false }) + half));
    await act(() => open.breakOff());
    await act(() => turn);
    expect(routes.asked[1]?.headers).toEqual({ "last-event-id": "2" });
    expect(partsOf(now().items)).toEqual([text("Said once.")]);
  });

  test("the last words of a stream, which have no number, are read", async () => {
    const open = new OpenAnswer();
    const { now } = render(new Routes().on(CHAT, open.response));
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hi")], { isComplete: false })));
    await act(() => open.write(`data: ${JSON.stringify(finish())}\n\n`));
    await act(() => open.write("data: [DONE]\n\n"));
    await act(() => turn);
    expect(now().items.at(-1)).toMatchObject({ metadata: { stoppedBy: "stop" } });
  });

  test("before anything came, what it missed is read from the beginning", async () => {
    const open = new OpenAnswer();
    const routes = new Routes()
      .on(CHAT, open.response)
      .on("GET /api/runs/r1/stream", answer([start(), delta("Hello"), finish()]));
    const { now } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(settled);
    await act(() => open.close());
    await act(() => turn);
    expect(partsOf(now().items)).toEqual([text("Hello")]);
    expect(now().items.map((item) => item.role)).toEqual(["user", "assistant"]);
  });

  test("again and again, it is an error in the end; rejoin goes on where it was", async () => {
    const open = new OpenAnswer();
    const follow = "GET /api/runs/r1/stream";
    const routes = new Routes().on(CHAT, open.response).on(follow, new Response(""), json({}, 503));
    const { now } = render(routes, { maxReconnects: 2 });
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hel")], { isComplete: false })));
    await act(() => open.close());
    await act(() => turn.catch(() => undefined));
    await expect(turn).rejects.toMatchObject({ code: "network", message: "the connection broke" });
    expect([routes.asked.length, now().status]).toEqual([3, "error"]);
    routes.on(follow, new Response(sse([delta("lo"), finish()], { first: 3 })));
    await act(async () => expect(await now().rejoin()).toBe(true));
    await until(() => !now().busy);
    expect([partsOf(now().items), now().status]).toEqual([[text("Hello")], "ready"]);
    expect(routes.asked.at(-1)?.headers).toEqual({ "last-event-id": "2" });
  });

  test("a run that the server has forgotten is not asked for again", async () => {
    const open = new OpenAnswer();
    const gone = json({ error: { code: "unknown", message: "no such run" } }, 404);
    const routes = new Routes().on(CHAT, open.response).on("GET /api/runs/r1/stream", gone);
    const { now } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(settled);
    await act(() => open.close());
    await act(() => turn.catch(() => undefined));
    await expect(turn).rejects.toMatchObject({ code: "unknown", status: 404 });
  });
});

describe("stop", () => {
  test("is said to the server, which ends the run", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response).on("POST /api/runs/r1/stop", json({}, 202));
    const { now, turns } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hel"), ...asking()], { isComplete: false })));
    await act(() => now().stop());
    expect(now().busy).toBe(true);
    await act(() => open.write(sse([{ type: "abort" }], { first: 6 })));
    await act(() => turn);
    expect([now().status, turns[0]?.outcome, tool(now().items).state]).toEqual(["ready", "stopped", "stopped"]);
  });

  test("before the run has a name, it is stopped as soon as it has one", async () => {
    const open = new OpenAnswer();
    let respond: (response: Response) => void = () => undefined;
    const routes = new Routes().on("POST /api/runs/r1/stop", json({}, 202));
    const slow: typeof fetch = (url, init) =>
      String(url) === "/api/chat" ? new Promise((resolve) => (respond = resolve)) : routes.fetch(url as string, init);
    const { now } = render(routes, { fetch: slow });
    const turn = begun(() => now().send("Hi"));
    await act(() => now().stop());
    expect(routes.asked).toEqual([]);
    await act(async () => respond(open.response));
    await until(() => routes.asked.length > 0);
    expect(routes.routes()).toEqual(["POST /api/runs/r1/stop"]);
    await act(() => open.write(sse([start(), { type: "abort" }])));
    await act(() => turn);
  });

  test("ends a run that waits, and one that has ended already is no error", async () => {
    const routes = new Routes()
      .on(CHAT, answer([start(), ...asking(), finish("approval")]))
      .on("POST /api/runs/r1/stop", json({ error: { code: "ended" } }, 409), json({}, 202));
    const { now } = render(routes);
    await act(() => now().stop());
    await act(() => now().send("Pay 5"));
    await act(() => now().stop());
    expect(now().status).toBe("waiting");
    await act(() => now().stop());
    expect([now().status, tool(now().items).state, routes.asked.length]).toEqual(["ready", "stopped", 3]);
  });
});

describe("a component that goes away", () => {
  test("closes its connection, while the run goes on at the server", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response);
    const { hook, now, turns } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hel")], { isComplete: false })));
    hook.unmount();
    await turn;
    expect([routes.asked[0]?.signal?.aborted, open.isCancelled, routes.routes()]).toEqual([true, true, [CHAT]]);
    expect(turns).toEqual([{ spoken: true, outcome: "detached" }]);
  });

  test("keeps it with keepAlive", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response);
    const { hook, now, turns } = render(routes, { keepAlive: true });
    const turn = begun(() => now().send("Hi"));
    hook.unmount();
    await settled();
    await open.write(sse([start(), delta("Hel"), finish()]));
    await turn;
    expect([routes.asked[0]?.signal?.aborted, turns]).toEqual([false, [{ spoken: true, outcome: "done" }]]);
  });

  test("stops the run with stopOnUnmount", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response).on("POST /api/runs/r1/stop", json({}, 202));
    const { hook, now, turns } = render(routes, { stopOnUnmount: true });
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start()], { isComplete: false })));
    hook.unmount();
    await settled();
    expect(routes.routes()).toEqual([CHAT, "POST /api/runs/r1/stop"]);
    await open.write(sse([{ type: "abort" }], { first: 2 }));
    await turn;
    expect(turns).toEqual([{ spoken: true, outcome: "stopped" }]);
  });

  test("comes back in the same tick in StrictMode, and nothing happened", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response);
    const { now } = render(routes, {}, true);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hi"), finish()])));
    await act(() => turn);
    expect([partsOf(now().items), routes.asked.length]).toEqual([[text("Hi")], 1]);
  });
});

describe("a thread of the server", () => {
  test.each([false, true])("is loaded at the start, once; StrictMode: %s", async (isStrict) => {
    const routes = new Routes().on(THREAD, stored());
    const { now } = render(routes, { threadId: "t1" }, isStrict);
    expect(now().loading).toBe(true);
    await until(() => !now().loading);
    expect(now().items).toEqual([
      { role: "user", id: "u1", text: "Pay 5" },
      { role: "assistant", id: "r1", parts: [text("Pay")], metadata: { runId: "r1", threadId: "t1" } },
    ]);
    expect([routes.routes(), now().status, now().threadId]).toEqual([[THREAD], "ready", "t1"]);
  });

  test("whose run goes on is rejoined, and nothing is there twice", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(THREAD, stored({ status: "running", runId: "r1" })).on(REPLAY, open.response);
    const { now } = render(routes, { threadId: "t1" }, true);
    await until(() => now().busy);
    await act(() => open.write(sse([start(), delta("Paid "), delta("five.")], { isComplete: false })));
    expect([now().items.length, partsOf(now().items), now().runId]).toEqual([2, [text("Paid five.")], "r1"]);
    await act(() => open.write(sse([finish()], { first: 4 })));
    await until(() => !now().busy);
    expect([now().status, routes.routes()]).toEqual(["ready", [THREAD, REPLAY]]);
  });

  test("that waits for a person shows what is asked, and is answered", async () => {
    const call = { type: "dynamic-tool", toolName: "pay", toolCallId: "c1", state: "approval-requested", input: {} };
    const messages = [{ id: "r1", role: "assistant", parts: [{ ...call, providerExecuted: true }] }];
    const note = { id: "c1", toolCallId: "c1", name: "pay", input: { sum: 5 }, kind: "approval" };
    const limit = { kind: "requests", name: "requests", used: 2, limit: 2, asks: true };
    const fields = { status: "waiting", runId: "r1", messages, waiting: [note], limits: [limit] };
    const routes = new Routes().on(THREAD, stored(fields)).on(DECIDE, answer([start(), done(), finish()]));
    const { now } = render(routes, { threadId: "t1" });
    await until(() => !now().loading);
    expect([now().status, now().busy, now().runId]).toEqual(["waiting", false, "r1"]);
    expect(partsOf(now().items)).toMatchObject([{ approval: note, state: "waiting" }, { type: "limit", asks: true }]);
    await act(() => now().approve("c1"));
    expect([tool(now().items).state, now().status]).toEqual(["done", "ready"]);
  });

  test("whose run broke off is resumed", async () => {
    const routes = new Routes()
      .on(THREAD, stored({ status: "interrupted", runId: "r1" }))
      .on("POST /api/runs/r1/resume", answer([start(), delta(" again."), finish()]));
    const { now } = render(routes, { threadId: "t1" });
    await until(() => !now().loading);
    expect([now().interrupted, now().status]).toEqual([true, "waiting"]);
    await act(() => now().resume());
    expect([partsOf(now().items), now().interrupted, now().status]).toEqual([[text("Pay again.")], false, "ready"]);
  });

  test("that nobody knows is empty, and may be begun", async () => {
    const routes = new Routes().on(THREAD, json({}, 404)).on(CHAT, answer([start(), finish()]));
    const { now } = render(routes, { threadId: "t1" });
    await until(() => !now().loading);
    expect([now().items, now().status]).toEqual([[], "ready"]);
    await act(() => now().send("Hi"));
    expect((routes.asked[1]?.body as { id: string }).id).toBe("t1");
  });

  test("that cannot be read says so", async () => {
    const routes = new Routes().on(THREAD, json({ error: { code: "forbidden", message: "no" } }, 403));
    const { now } = render(routes, { threadId: "t1" });
    await until(() => now().status === "error");
    expect(now().error).toMatchObject({ code: "forbidden", status: 403 });
    expect(now().loading).toBe(false);
  });

  test("shows its older messages when they are asked for", async () => {
    const older = [{ id: "u0", role: "user", parts: [{ type: "text", text: "Before" }] }];
    const routes = new Routes().on(THREAD, stored({ next: "r1" })).on(`${THREAD}?before=r1`, stored({ messages: older }));
    const { now } = render(routes, { threadId: "t1" });
    await until(() => !now().loading);
    expect(now().hasMore).toBe(true);
    const kept = now().items;
    await act(() => now().loadMore());
    expect(now().items.map((item) => item.id)).toEqual(["u0", "u1", "r1"]);
    expect([now().items[1] === kept[0], now().hasMore]).toEqual([true, false]);
    await act(() => now().loadMore());
    expect(routes.asked.length).toBe(2);
  });

  test("gives way to another one: what ran is let go of, and its late words are not shown", async () => {
    const open = new OpenAnswer();
    const other = "GET /api/threads/t2";
    const routes = new Routes().on(CHAT, open.response).on(other, stored({ id: "t2" }));
    const { hook, now, turns } = render(routes);
    const turn = begun(() => now().send("Hi"));
    await act(() => open.write(sse([start(), delta("Hel")], { isComplete: false })));
    hook.rerender({ more: { threadId: "t2" } });
    await act(() => turn);
    await until(() => !now().loading);
    expect([now().threadId, now().items[0]?.id, now().status]).toEqual(["t2", "u1", "ready"]);
    expect([open.isCancelled, turns[0]?.outcome]).toEqual([true, "detached"]);
  });

  test("that was just begun may become the component's own without being loaded", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(CHAT, open.response);
    const { hook, now } = render(routes);
    const turn = begun(() => now().send("Hi"));
    hook.rerender({ more: { threadId: now().threadId as string } });
    await act(() => open.write(sse([start(), delta("Hi"), finish()])));
    await act(() => turn);
    expect([routes.routes(), partsOf(now().items)]).toEqual([[CHAT], [text("Hi")]]);
  });

  test("is left for a new one by load() and by reset()", async () => {
    const routes = new Routes().on(THREAD, stored(), stored()).on(CHAT, answer([start(), finish()]));
    const { now } = render(routes);
    await act(() => now().load("t1"));
    await act(() => now().load());
    expect([now().items, now().threadId, now().runId]).toEqual([[], null, null]);
    await act(() => now().load("t1"));
    act(() => now().reset());
    expect([now().items, now().threadId]).toEqual([[], null]);
    await act(() => now().send("Hi"));
    expect((routes.asked.at(-1)?.body as { id: string }).id).not.toBe("t1");
  });
});

describe("rejoin", () => {
  test("tells that nothing runs", async () => {
    const routes = new Routes().on(THREAD, stored()).on(REPLAY, new Response(null, { status: 204 }));
    const { now } = render(routes);
    expect(await now().rejoin()).toBe(false);
    await act(() => now().load("t1"));
    await act(async () => expect(await now().rejoin()).toBe(false));
    expect([now().status, now().items.length]).toEqual(["ready", 2]);
  });

  test("shows a run that another browser began", async () => {
    const routes = new Routes()
      .on(THREAD, stored())
      .on(REPLAY, answer([start("r2"), delta("New."), finish("stop", "r2")], "r2"));
    const { now } = render(routes);
    await act(() => now().load("t1"));
    await act(() => now().rejoin());
    await until(() => !now().busy);
    expect(now().items.map((item) => item.id)).toEqual(["u1", "r1", "r2"]);
    expect(now().runId).toBe("r2");
  });
});
