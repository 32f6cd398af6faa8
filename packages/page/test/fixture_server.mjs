// A server with the routes of `sapwood.server`, an agent of a few scripts, and a thread of 2,000 messages. It exists so
// that the page can be worked on and tested without Python:  node test/fixture_server.mjs [port] [token]
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { messageOf } from "./fixture_message.mjs";
import { cachedOf, contextOf, script } from "./fixture_script.mjs";

const STATIC = fileURLToPath(new URL("../../../src/sapwood/server/static/", import.meta.url));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png", ".txt": "text/plain" };
export const POLICY = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'";

class Refused extends Error {
  constructor(status, code, message, more = {}) { super(message); Object.assign(this, { status, code, more }); }
}

export async function startFixture({ port = 0, token = "" } = {}) {
  const state = { threads: new Map(), runs: new Map(), requests: [] };
  fill(state);
  const server = createServer((request, response) => {
    handle(state, request, response, token).catch((error) => refuse(response, error));
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    state, cut: () => server.closeAllConnections(), url: `http://127.0.0.1:${server.address().port}/`,
    close: () => { for (const run of state.runs.values()) run.stopped = true; server.closeAllConnections(); return new Promise((resolve) => server.close(resolve)); },
  };
}

async function handle(state, request, response, token) {
  // The same page, mounted below a path.
  const url = new URL(request.url.replace(/^\/support\//, "/"), "http://x");
  state.requests.push(`${request.method} ${url.pathname}`);
  if (!url.pathname.startsWith("/api")) return sendFile(url.pathname, response);
  if (token && request.headers.authorization !== `Bearer ${token}`) throw new Refused(401, "unauthorized", "A token is needed.");
  const body = request.method === "POST" ? JSON.parse((await text(request)) || "{}") : {};
  const [, , kind, id, verb] = url.pathname.split("/").map(decodeURIComponent);
  const route = `${request.method} ${kind}${id === undefined ? "" : "/:id"}${verb === undefined ? "" : `/${verb}`}`;
  const thread = () => found(state.threads.get(id), "thread");
  const run = () => found(state.runs.get(id), "run");
  switch (route) {
    case "GET info": return json(response, { name: "Shop assistant", model: "scripted", window: 12_000, principal: { id: "local", name: "You" }, agUi: false });
    case "GET threads": return json(response, listThreads(state, url.searchParams));
    case "GET threads/:id": return json(response, readThread(state, thread(), url.searchParams));
    case "DELETE threads/:id":
      if (thread().active?.status === "running") throw new Refused(409, "busy", "The thread is running.");
      state.threads.delete(id); response.writeHead(204); return response.end();
    case "POST chat": return follow(response, postChat(state, body), 0);
    case "GET chat/:id/stream": {
      const active = state.threads.get(id)?.active;
      if (!active || active.status === "ended") { response.writeHead(204); return response.end(); }
      return follow(response, active, 0);
    }
    case "POST chat/:id/stop": return stop(response, found(state.runs.get(body.runId), "run"));
    case "GET runs/:id": return json(response, { runId: id, threadId: run().threadId, status: run().status, waiting: run().waiting, limits: run().limits });
    case "GET runs/:id/stream": return follow(response, run(), Number(url.searchParams.get("after") ?? request.headers["last-event-id"] ?? 0));
    case "POST runs/:id/stop": return stop(response, run());
    case "POST runs/:id/decide": return decide(response, run(), body);
    case "POST runs/:id/resume": { const from = run().events.length; run().tries += 1; start(run()); return follow(response, run(), from); }
    case "GET runs/:id/context": {
      const rounds = Math.max(1, run().events.filter(({ chunk }) => chunk.type === "start-step").length || run().rounds || 1);
      return json(response, { runId: id, rounds: Array.from({ length: rounds }, (_, round) => describeRound(run(), round)) });
    }
    default: throw new Refused(404, "not_found", `There is no ${request.method} ${url.pathname}.`);
  }
}

function postChat(state, body) {
  const message = body.messages.at(-1);
  const thread = state.threads.get(body.id) ?? newThread(state, body.id, titleOf(message));
  const same = thread.runs.find((run) => run.message?.id === message.id);
  if (same) return same;
  if (thread.active && thread.active.status !== "ended")
    throw new Refused(409, thread.active.status === "paused" ? "waiting" : "busy", "The thread is busy with another run.", { runId: thread.active.id });
  const run = newRun(state, thread, message);
  start(run);
  return run;
}

function newThread(state, id, title) {
  const thread = { id, title, startedAt: Date.now(), updatedAt: Date.now(), runs: [], active: undefined };
  state.threads.set(id, thread);
  return thread;
}

function newRun(state, thread, message) {
  const texts = message.parts.filter((part) => part.type === "text").map((part) => part.text);
  const files = message.parts.filter((part) => part.type === "file");
  const history = Math.min(2200, thread.runs.length * 520);
  const run = {
    id: `run-${randomUUID().slice(0, 8)}`, threadId: thread.id, message, prompt: texts.join("\n"), files: files.length, fileNames: files.map((file) => file.filename),
    status: "running", events: [], waiting: [], limits: [], listeners: new Set(), stopped: false, tries: 0, answer: undefined,
    context: (round) => contextOf(round, texts.join("\n"), history),
  };
  run.ask = async function* (waiting, limits, after) {
    yield* after;
    yield { type: "finish", finishReason: "tool-calls", messageMetadata: { runId: run.id, threadId: thread.id, stoppedBy: limits.length > 0 ? "limit_ask" : "approval" } };
    Object.assign(run, { waiting, limits, status: "paused" });
    notify(run);
    const answers = await new Promise((resolve) => { run.answer = resolve; });
    Object.assign(run, { waiting: [], limits: [], status: "running" });
    yield { type: "start", messageId: run.id, messageMetadata: { runId: run.id, threadId: thread.id } };
    return answers;
  };
  thread.runs.push(run);
  thread.active = run;
  thread.updatedAt = Date.now();
  state.runs.set(run.id, run);
  return run;
}

async function start(run) {
  run.status = "running";
  for await (const chunk of script(run)) {
    run.events.push({ number: run.events.length + 1, chunk });
    notify(run);
  }
  run.status = run.events.at(-1).chunk.type === "error" ? "interrupted" : "ended";
  notify(run);
}

function notify(run) { for (const listener of run.listeners) listener(); }

/** Send the events of a run after a number, and those to come, until it ends or pauses. */
function follow(response, run, after) {
  response.writeHead(200, {
    "content-type": "text/event-stream", "cache-control": "no-cache", "x-vercel-ai-ui-message-stream": "v1",
    "x-sapwood-run-id": run.id,
  });
  response.write(": ping\n\n");
  let sent = after;
  const push = () => {
    for (; sent < run.events.length; sent += 1) {
      const { number, chunk } = run.events[sent];
      response.write(`id: ${number}\ndata: ${JSON.stringify(chunk)}\n\n`);
    }
    if (run.status === "running") return;
    run.listeners.delete(push);
    response.end("data: [DONE]\n\n");
  };
  run.listeners.add(push);
  response.on("close", () => run.listeners.delete(push));
  push();
}

function decide(response, run, body) {
  if (run.status !== "paused") throw new Refused(409, "not_waiting", "The run waits for nothing.");
  for (const note of run.waiting) if (!body.decisions[note.id]) throw new Refused(400, "incomplete", `The decisions lack ${note.id}.`);
  run.decided = body;
  run.status = "running";
  const from = run.events.length;
  run.answer(body);
  return follow(response, run, from);
}

function stop(response, run) {
  if (run.status === "ended") throw new Refused(409, "not_active", "That run is not the active one.");
  run.stopped = true;
  if (run.status === "paused") { run.events.push({ number: run.events.length + 1, chunk: { type: "abort" } }); run.status = "ended"; }
  response.writeHead(202, { "content-type": "application/json" });
  response.end("{}");
}

function describeRound(run, round) {
  const { texts, ...ledger } = run.context(round);
  return { round, ledger: { ...ledger, reportedTokens: ledger.estimatedTokens + 13, cachedTokens: cachedOf(ledger, round), costUsd: 0.0031 + round * 0.0009 }, texts };
}

function listThreads(state, query) {
  const all = [...state.threads.values()].sort((one, other) => other.updatedAt - one.updatedAt);
  const at = query.has("before") ? all.findIndex((thread) => thread.id === query.get("before")) + 1 : 0;
  const page = all.slice(at, at + Number(query.get("limit") ?? 50));
  const next = at + page.length < all.length ? page.at(-1).id : undefined;
  return { threads: page.map((thread) => ({
    id: thread.id, title: thread.title, startedAt: thread.startedAt, updatedAt: thread.updatedAt, status: statusOf(thread),
    ...(thread.active && thread.active.status !== "ended" ? { runId: thread.active.id } : {}),
  })), ...(next ? { next } : {}) };
}

function statusOf(thread) {
  return { running: "running", paused: "waiting", interrupted: "interrupted" }[thread.active?.status] ?? "idle";
}

function readThread(state, thread, query) {
  const before = query.get("before");
  const end = before ? thread.runs.findIndex((run) => run.id === before) : thread.runs.length;
  const begin = Math.max(0, end - Number(query.get("limit") ?? 50));
  const messages = thread.runs.slice(begin, end).flatMap((run) => [run.message, run.stored ?? messageOf(run)]);
  return {
    id: thread.id, title: thread.title, status: statusOf(thread), ...(thread.active && thread.active.status !== "ended" ? { runId: thread.active.id } : {}),
    messages, waiting: thread.active?.waiting ?? [], limits: thread.active?.limits ?? [], ...(begin > 0 ? { next: thread.runs[begin].id } : {}),
  };
}

/** A thread of 1,000 turns, of answers of very different heights. */
function fill(state) {
  const thread = newThread(state, "big", "A thread of two thousand messages");
  thread.updatedAt = thread.startedAt = Date.now() - 86_400_000;
  for (let turn = 0; turn < 1000; turn += 1) {
    const id = `big-${turn}`;
    const message = { id: `big-user-${turn}`, role: "user", parts: [{ type: "text", text: `Question ${turn + 1} of this thread` }] };
    const body = [`Answer **${turn + 1}**. ${"Some words of an answer. ".repeat((turn * 7) % 23)}`];
    if (turn % 5 === 0) body.push("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |");
    if (turn % 7 === 0) body.push(`\`\`\`python\n${"value = 1\n".repeat((turn % 11) + 1)}\`\`\``);
    const stored = { id, role: "assistant", metadata: { runId: id, threadId: "big", stoppedBy: "stop", usage: { inputTokens: 900, outputTokens: 60, cachedTokens: 300 } }, parts: [
      { type: "step-start" }, { type: "data-ledger", id: "round-0", data: { round: 0, sections: { system: 420, history: 500, prompt: 12 }, window: 8000, estimatedTokens: 932, reportedTokens: 930, cachedTokens: 420 } },
      { type: "text", text: body.join("\n\n"), state: "done" },
    ] };
    const run = { id, threadId: "big", message, stored, status: "ended", events: [], waiting: [], limits: [], listeners: new Set(), rounds: 1, context: (round) => contextOf(round, "Question", 500) };
    thread.runs.push(run);
    state.runs.set(id, run);
  }
}

function titleOf(message) {
  return (message.parts.find((part) => part.type === "text")?.text ?? "New conversation").slice(0, 60);
}

function found(value, what) {
  if (!value) throw new Refused(404, "not_found", `There is no such ${what}.`);
  return value;
}

function json(response, value) {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}

function refuse(response, error) {
  if (response.headersSent) return response.destroy();
  const status = error instanceof Refused ? error.status : 500;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ error: { code: error.code ?? "internal", message: error.message, requestId: `req-${randomUUID().slice(0, 6)}`, ...error.more } }));
}

async function text(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}

async function sendFile(path, response) {
  const file = normalize(join(STATIC, path === "/" ? "index.html" : path));
  if (!file.startsWith(STATIC)) throw new Refused(404, "not_found", "There is no such file.");
  const content = await readFile(file).catch(() => undefined);
  if (!content) throw new Refused(404, "not_found", "There is no such file.");
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": POLICY });
  response.end(content);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const fixture = await startFixture({ port: Number(process.argv[2] ?? 8377), token: process.argv[3] ?? "" });
  console.log(`fixture: ${fixture.url}`);
}
