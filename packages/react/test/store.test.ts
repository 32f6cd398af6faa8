// @vitest-environment node
// The store without a component: what the hook cannot be seen to do.

import { describe, expect, test, vi } from "vitest";

import { newId } from "../src/id.js";
import { AssistantStore, type ReplyItem, type UseAssistantOptions } from "../src/index.js";
import { answer, asking, delta, finish, json, OpenAnswer, Routes, settled, sse, start, text } from "./support/replies.js";

function storeOf(routes: Routes, options: Partial<UseAssistantOptions> = {}): AssistantStore {
  const store = new AssistantStore({ url: "https://agents.example/", fetch: routes.fetch, ...options });
  store.mount();
  return store;
}

const AT = "https://agents.example/api";
const partsOf = (store: AssistantStore): unknown => (store.getSnapshot().items.at(-1) as ReplyItem).parts;
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await settled();
};

test("a snapshot is the same object until something changed, and a listener hears of it", () => {
  const store = storeOf(new Routes());
  const heard = vi.fn();
  const leave = store.subscribe(heard);
  const before = store.getSnapshot();
  expect(store.getSnapshot()).toBe(before);
  store.setInput((input) => `${input}Hi`);
  expect([store.getSnapshot().input, heard.mock.calls.length]).toEqual(["Hi", 1]);
  leave();
  store.setInput("");
  expect(heard.mock.calls.length).toBe(1);
});

test("in onPart the part is there already", async () => {
  const seen: unknown[] = [];
  const routes = new Routes().on(`POST ${AT}/chat`, answer([start(), delta("Hel"), delta("lo"), finish()]));
  const store = storeOf(routes, { onPart: () => seen.push(partsOf(store)) });
  await store.send("Hi");
  expect(seen).toEqual([[text("Hel")], [text("Hello")]]);
});

test("a component that was hidden and is shown again goes on where it was", async () => {
  const open = new OpenAnswer();
  const rest = new Response(sse([delta("lo"), finish()], { first: 3 }));
  const routes = new Routes().on(`POST ${AT}/chat`, open.response).on(`GET ${AT}/runs/r1/stream`, rest);
  const store = storeOf(routes);
  const turn = store.send("Hi");
  await settled();
  await open.write(sse([start(), delta("Hel")], { isComplete: false }));
  store.unmount();
  await turn;
  expect(store.getSnapshot().busy).toBe(false);
  store.mount();
  await until(() => !store.getSnapshot().busy);
  expect(partsOf(store)).toEqual([text("Hello")]);
  expect(routes.asked.at(-1)?.headers).toEqual({ "last-event-id": "2" });
});

test("a thread whose loading was cut short is loaded when the component is back", async () => {
  const thread = { id: "t1", title: "", status: "idle", messages: [], waiting: [], limits: [] };
  let respond: (response: Response) => void = () => undefined;
  const asked: string[] = [];
  const slow: typeof fetch = (url) => {
    asked.push(String(url));
    return new Promise((resolve) => (respond = resolve));
  };
  const store = new AssistantStore({ url: "", fetch: slow, threadId: "t1" });
  store.mount();
  store.open("t1");
  store.unmount();
  await settled();
  respond(json(thread));
  await until(() => !store.getSnapshot().loading);
  store.mount();
  expect([asked.length, store.getSnapshot().loading]).toEqual([2, true]);
  respond(json(thread));
  await until(() => !store.getSnapshot().loading);
  expect(store.getSnapshot().threadId).toBe("t1");
});

test("a stop that was wanted early and is refused is told as an error", async () => {
  const open = new OpenAnswer();
  const routes = new Routes()
    .on(`POST ${AT}/chat`, open.response)
    .on(`POST ${AT}/runs/r1/stop`, json({ error: { code: "rate_limit", message: "too often" } }, 429));
  const store = storeOf(routes);
  const turn = store.send("Hi");
  await store.stop();
  await until(() => store.getSnapshot().error !== null);
  expect(store.getSnapshot().error).toMatchObject({ code: "rate_limit", status: 429 });
  await open.write(sse([start(), finish()]));
  await turn;
});

test("a run that goes on elsewhere cannot be resumed while one streams here", async () => {
  const open = new OpenAnswer();
  const routes = new Routes().on(`POST ${AT}/chat`, open.response);
  const store = storeOf(routes);
  const turn = store.send("Hi");
  await settled();
  await store.resume();
  expect(await store.rejoin()).toBe(true);
  expect(routes.asked.length).toBe(1);
  await open.write(sse([start(), finish()]));
  await turn;
});

test("an id is new each time, also where the browser makes none", () => {
  const own = Array.from({ length: 50 }, newId);
  vi.stubGlobal("crypto", undefined);
  const plain = Array.from({ length: 50 }, newId);
  vi.unstubAllGlobals();
  expect(new Set([...own, ...plain]).size).toBe(100);
  expect(plain.every((id) => /^[a-z0-9]{8}(-[a-z0-9]{8}){3}$/.test(id))).toBe(true);
});

test("whoever hears that nothing is loading any more has the thread already", async () => {
  const thread = {
    id: "t1",
    title: "",
    status: "idle",
    messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    waiting: [],
    limits: [],
  };
  const store = storeOf(new Routes().on(`GET ${AT}/threads/t1`, json(thread)));
  const seen: [boolean, number][] = [];
  store.subscribe(() => seen.push([store.getSnapshot().loading, store.getSnapshot().items.length]));
  await store.load("t1");
  expect(seen.filter(([loading]) => !loading)).toEqual([[false, 1]]);
});

const thread = (id: string, fields: object = {}): Response =>
  json({ id, title: "", status: "idle", messages: [], waiting: [], limits: [], ...fields });

describe("a thread that is left while it streams", () => {
  const prompt = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] };

  test.each(["load", "reset"] as const)("by %s is not joined from another one", async (how) => {
    const [first, second] = [new OpenAnswer("r1"), new OpenAnswer("r2")];
    const routes = new Routes()
      .on(`POST ${AT}/chat`, first.response, second.response)
      .on(`GET ${AT}/threads/other`, thread("other", { status: "running", runId: "r3", messages: [prompt] }))
      .on(`GET ${AT}/chat/other/stream`, answer([start("r3"), delta("Its own."), finish("stop", "r3")], "r3"));
    const store = storeOf(routes);
    const turn = store.send("one");
    await settled();
    await first.write(sse([start("r1"), delta("Hel")], { isComplete: false }));
    if (how === "load") await store.load();
    else {
      store.reset();
      await first.write(sse([finish("stop", "r1")], { first: 3 }));
    }
    await turn;
    const next = store.send("two");
    await settled();
    await second.write(sse([start("r2"), delta("Wor")], { isComplete: false }));
    await store.load("other");
    await next;
    await until(() => !store.getSnapshot().busy);
    expect(routes.routes().filter((route) => route.includes("/stream"))).toEqual([`GET ${AT}/chat/other/stream`]);
    expect([partsOf(store), store.getSnapshot().runId]).toEqual([[text("Its own.")], "r3"]);
  });

  test("by reset, its cut connection does not come back in the next one", async () => {
    const open = new OpenAnswer("r1");
    const routes = new Routes().on(`POST ${AT}/chat`, open.response);
    const store = storeOf(routes, { maxReconnects: 0 });
    const turn = store.send("one");
    await settled();
    await open.write(sse([start("r1"), delta("Hel")], { isComplete: false }));
    store.reset();
    turn.catch(() => undefined);
    await open.breakOff();
    await expect(turn).rejects.toMatchObject({ code: "network" });
    expect([await store.rejoin(), routes.asked.length]).toEqual([false, 1]);
  });

  test("is let go of at once: what is sent in the same tick is sent", async () => {
    const open = new OpenAnswer("r1");
    const routes = new Routes().on(`POST ${AT}/chat`, open.response, answer([start("r2"), delta("Yes"), finish("stop", "r2")], "r2"));
    const store = storeOf(routes);
    const turn = store.send("one");
    await settled();
    await open.write(sse([start("r1"), delta("Hel")], { isComplete: false }));
    void store.load();
    await store.send("two");
    await turn;
    expect([partsOf(store), store.getSnapshot().items.length]).toEqual([[text("Yes")], 2]);
  });
});

describe("what failed", () => {
  const gone = (): Response => json({ error: { code: "not_waiting", message: "answered already" } }, 409);
  const waits = { status: "waiting", runId: "r1", waiting: [] };

  test("is told with its error: to send, to answer, to load, to stop", async () => {
    const routes = new Routes()
      .on(`POST ${AT}/chat`, new TypeError("offline"))
      .on(`GET ${AT}/threads/t1`, json({}, 503), thread("t1", { ...waits, next: "r0" }))
      .on(`GET ${AT}/threads/t1?before=r0`, json({}, 503))
      .on(`POST ${AT}/runs/r1/decide`, gone())
      .on(`POST ${AT}/runs/r1/stop`, json({}, 503));
    const store = storeOf(routes);
    const failed = async (begin: () => Promise<unknown>): Promise<unknown> => {
      await begin().catch(() => undefined);
      return store.getSnapshot().failed;
    };
    expect(await failed(() => store.send("Hi"))).toBe("send");
    expect(await failed(() => store.load("t1"))).toBe("load");
    expect(await failed(() => store.load("t1"))).toBe(null);
    expect(await failed(() => store.loadMore())).toBe("loadMore");
    expect(await failed(() => store.approve("c1"))).toBe("decide");
    expect(await failed(() => store.stop())).toBe("stop");
    expect(store.getSnapshot().error).toMatchObject({ status: 503 });
  });

  test("to answer leaves the run waiting, and a message is not taken", async () => {
    const routes = new Routes().on(`GET ${AT}/threads/t1`, thread("t1", waits)).on(`POST ${AT}/runs/r1/decide`, gone());
    const store = storeOf(routes);
    const taken = vi.fn();
    await store.load("t1");
    await store.approve("c1").catch(() => undefined);
    await store.send("Hello", { onTaken: taken });
    expect([store.getSnapshot().status, store.getSnapshot().paused, taken.mock.calls.length]).toEqual(["error", true, 0]);
    expect(routes.asked.length).toBe(2);
  });

  test("to stop is forgotten once the run has ended by itself", async () => {
    const open = new OpenAnswer();
    const routes = new Routes().on(`POST ${AT}/chat`, open.response).on(`POST ${AT}/runs/r1/stop`, json({}, 503));
    const store = storeOf(routes);
    const turn = store.send("Hi");
    await settled();
    await open.write(sse([start(), delta("Hi")], { isComplete: false }));
    await expect(store.stop()).rejects.toMatchObject({ status: 503 });
    expect([store.getSnapshot().failed, store.getSnapshot().status]).toEqual(["stop", "streaming"]);
    await open.write(sse([finish()], { first: 3 }));
    await turn;
    expect([store.getSnapshot().error, store.getSnapshot().status]).toEqual([null, "ready"]);
  });
});

describe("an answer to a call that is no longer here", () => {
  test("is refused, and what comes next can be sent", async () => {
    const routes = new Routes().on(`POST ${AT}/chat`, answer([start(), delta("Yes"), finish()]));
    const store = storeOf(routes);
    await expect(store.approve("old")).rejects.toMatchObject({ code: "no_run" });
    const taken = vi.fn();
    await store.send("Hi", { onTaken: taken });
    expect([taken.mock.calls.length, partsOf(store)]).toEqual([1, [text("Yes")]]);
  });

  test("is not sent where it waited for its turn and another thread is shown by then", async () => {
    const open = new OpenAnswer();
    const routes = new Routes()
      .on(`POST ${AT}/chat`, answer([start(), ...asking("c1"), ...asking("c2"), finish("approval")]))
      .on(`POST ${AT}/runs/r1/decide`, open.response)
      .on(`GET ${AT}/threads/other`, thread("other"));
    const store = storeOf(routes);
    await store.send("Pay");
    const answers = [store.approve("c1"), store.approve("c2")];
    await settled();
    await store.load("other");
    await Promise.all(answers);
    expect(routes.routes().filter((route) => route.endsWith("/decide")).length).toBe(1);
    expect([store.getSnapshot().error, store.getSnapshot().paused, store.getSnapshot().status]).toEqual([null, false, "ready"]);
  });
});

describe("the thread that is here", () => {
  const prompt = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] };

  test("stays as it is when it cannot be read again, and gives way where it can", async () => {
    const routes = new Routes()
      .on(`GET ${AT}/threads/t1`, thread("t1", { messages: [prompt] }), new TypeError("offline"), json({}, 404));
    const store = storeOf(routes);
    await store.load("t1");
    const { items } = store.getSnapshot();
    const again = store.load("t1");
    expect([store.getSnapshot().items, store.getSnapshot().loading]).toEqual([items, true]);
    await expect(again).rejects.toMatchObject({ code: "network" });
    expect([store.getSnapshot().items, store.getSnapshot().failed]).toEqual([items, "load"]);
    await store.load("t1");
    expect([store.getSnapshot().items, store.getSnapshot().threadId, store.getSnapshot().error]).toEqual([[], "t1", null]);
  });

  test("is loaded again for a component that names it after a reset", async () => {
    const routes = new Routes().on(`GET ${AT}/threads/t1`, thread("t1"), thread("t1"));
    const store = storeOf(routes);
    store.open("t1");
    await until(() => !store.getSnapshot().loading);
    store.reset();
    store.open(undefined);
    store.open("t1");
    await until(() => !store.getSnapshot().loading);
    expect([routes.asked.length, store.getSnapshot().threadId]).toEqual([2, "t1"]);
  });
});

test("a connection that is being taken up again is told of", async () => {
  const open = new OpenAnswer();
  const routes = new Routes()
    .on(`POST ${AT}/chat`, open.response)
    .on(`GET ${AT}/runs/r1/stream`, json({}, 503), new Response(sse([delta("lo"), finish()], { first: 3 })));
  const store = storeOf(routes, { reconnectDelay: 1 });
  const seen: boolean[] = [];
  store.subscribe(() => {
    const { reconnecting } = store.getSnapshot();
    if (seen.at(-1) !== reconnecting) seen.push(reconnecting);
  });
  const turn = store.send("Hi");
  await settled();
  await open.write(sse([start(), delta("Hel")], { isComplete: false }));
  await open.close();
  await turn;
  expect([seen, partsOf(store)]).toEqual([[false, true, false], [text("Hello")]]);
});
