// @vitest-environment node
// The store without a component: what the hook cannot be seen to do.

import { expect, test, vi } from "vitest";

import { newId } from "../src/id.js";
import { AssistantStore, type ReplyItem, type UseAssistantOptions } from "../src/index.js";
import { answer, delta, finish, json, OpenAnswer, Routes, settled, sse, start, text } from "./support/replies.js";

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
