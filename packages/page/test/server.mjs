// The page in a real browser, against the real server:  node test/server.mjs [part of a test's name]
// SAPWOOD_PYTHON names a Python that has sapwood's dependencies; without it, the one of the project's .venv is taken.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Bench, ask, settled, shown } from "./harness.mjs";
import { partOf } from "./part.mjs";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const OWN = join(ROOT, ".venv/bin/python");
const PYTHON = process.env.SAPWOOD_PYTHON ?? (existsSync(OWN) ? OWN : "python3");
const TOKEN = "a-token-for-the-test";

/** Start `sapwood serve` and return its process and address. */
async function serve(...options) {
  const child = spawn(PYTHON, ["-m", "sapwood", "serve", "agent:agent", ...options], {
    cwd: fileURLToPath(new URL(".", import.meta.url)),
    env: { ...process.env, PYTHONPATH: `${join(ROOT, "src")}:${fileURLToPath(new URL(".", import.meta.url))}`, PAGE_TOKEN: TOKEN },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.on("data", (piece) => {
      said += piece;
      const found = /(http:\/\/\S+?)[,\s]/.exec(said);
      if (found) resolve(`${found[1]}/`);
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
  return { url, child, end: (signal = "SIGTERM") => new Promise((resolve) => { child.on("exit", resolve); child.kill(signal); }) };
}

const tests = [
  ["an answer streams, and what a tool said of its failure is not shown", async (bench, url) => {
    const page = await bench.page({ url });
    await ask(page, "weather please");
    await settled(page);
    await page.locator(".tool[data-state=error]").waitFor();
    assert.equal(await page.locator(".tool[data-state=done]").count(), 1);
    await page.locator(".thinking").waitFor();
    assert.match(await page.locator(".reply .markdown").textContent(), /^It is done/);
  }],

  ["a call is approved, approved with other arguments, and denied after a reload", async (bench, url) => {
    const page = await bench.page({ url });
    const newest = page.locator(".reply .markdown").last();
    await ask(page, "refund one");
    await page.getByRole("button", { name: "Approve" }).click();
    await settled(page);
    assert.match(await newest.textContent(), /"refunded":80/);
    await ask(page, "refund two");
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Arguments, as JSON").fill('{"order": "B", "amount": 3}');
    await page.getByRole("button", { name: "Approve with these" }).click();
    await settled(page);
    assert.match(await newest.textContent(), /"refunded":3/);
    await ask(page, "refund three");
    await settled(page, "waiting");
    await page.reload();
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByLabel("Why not?").fill("too much");
    await page.getByLabel("Why not?").press("Enter");
    await settled(page);
    assert.match(await newest.textContent(), /too much/);
    assert.equal(await page.locator(".tool[data-state=denied]").count(), 1);
  }],

  ["the result of an external tool is given, and a limit extended or left", async (bench, url) => {
    const page = await bench.page({ url });
    await ask(page, "external please");
    await page.locator("form.approval textarea").fill("31");
    await page.getByRole("button", { name: "Give the result" }).click();
    await settled(page);
    await ask(page, "limit, and more");
    await page.getByLabel("Allow more").fill("9");
    await page.getByRole("button", { name: "Extend" }).click();
    await settled(page);
    assert.equal(await page.locator(".reply").last().locator(".turn-end").count(), 0);
    await ask(page, "limit, and an end");
    await settled(page, "waiting");
    await page.reload();
    await page.getByRole("button", { name: "Let it finish" }).click();
    await settled(page);
    await shown(page, "ended at a limit");
  }],

  ["a subagent has its lane, and the context view its pieces", async (bench, url) => {
    const page = await bench.page({ url });
    await ask(page, "research it");
    await settled(page);
    assert.match(await page.locator(".tool .lane").textContent(), /reader.*done.*You said: read the log/s);
    await page.getByRole("button", { name: /Context of this answer/ }).click();
    await page.locator(".round").nth(1).waitFor();
    await page.locator(".sections button", { hasText: "tools" }).click();
    await page.locator(".entry summary", { hasText: "get_weather" }).first().click();
    await page.locator(".entry pre", { hasText: "Tell the weather of a city." }).first().waitFor();
    assert.equal(await page.locator(".entry .verdict[data-verdict=kept]").count() > 0, true);
    await page.locator(".sections button", { hasText: "results" }).waitFor();
  }],

  ["what a subagent asks is answered at the top", async (bench, url) => {
    const page = await bench.page({ url });
    await ask(page, "deep down");
    await settled(page, "waiting");
    assert.equal(await page.locator(".approval").count(), 1);
    await page.getByRole("button", { name: "Approve" }).click();
    await settled(page);
    assert.match(await page.locator(".reply > .markdown").textContent(), /It is done.*refunded/s);
    await page.reload();
    await page.locator(".reply > .markdown").waitFor();
    assert.equal(await page.locator(".approval").count(), 0);
  }],

  ["a running answer is rejoined after a reload, and another one is stopped", async (bench, url) => {
    const page = await bench.page({ url });
    await ask(page, "slow");
    await page.locator(".tool[data-state=running]").waitFor();
    await page.reload();
    await settled(page, "streaming");
    await settled(page);
    assert.match(await page.locator(".reply .markdown").textContent(), /waited/);
    await ask(page, "slow, and stopped");
    await page.locator(".reply").last().locator(".tool[data-state=running]").waitFor();
    await page.keyboard.press("Escape");
    await settled(page);
    await shown(page, "stopped");
  }],

  ["attachments reach the server, and conversations are listed and deleted", async (bench, url) => {
    const page = await bench.page({ url });
    await page.locator("input[type=file]").setInputFiles({ name: "notes.md", mimeType: "", buffer: Buffer.from("# hello") });
    await page.locator(".chips li").waitFor();
    await ask(page, "read this");
    await settled(page);
    await page.reload();
    await page.locator(".message.user .file").waitFor();
    await page.getByRole("button", { name: "Delete read this" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.locator(".empty").waitFor();
    await page.getByRole("link", { name: /read this/ }).waitFor({ state: "detached" });
  }],
];

async function guarded(bench) {
  const server = await serve("--port", "0", "--token-env", "PAGE_TOKEN");
  try {
    const page = await bench.page({ url: server.url });
    await page.getByLabel("Bearer token").fill(TOKEN);
    await page.getByLabel("Bearer token").press("Enter");
    await ask(page, "let me in");
    await shown(page, "You said: let me in");
  } finally {
    await server.end();
  }
}

async function killed(bench) {
  const db = ["--db", join(bench.profile, "killed.sqlite")];
  const first = await serve("--port", "0", ...db);
  const page = await bench.page({ url: first.url });
  await ask(page, "slow, and killed");
  await page.locator(".tool[data-state=running]").waitFor();
  await first.end("SIGKILL");
  const second = await serve("--port", new URL(first.url).port, ...db);
  try {
    await page.reload();
    await settled(page);
    await page.locator(".reply .markdown", { hasText: "It is done" }).waitFor();
  } finally {
    await second.end();
  }
}

const bench = await Bench.open();
const server = await serve("--port", "0", "--db", join(bench.profile, "page.sqlite"));
const began = performance.now();
const wanted = process.argv[2] ?? "";
const guards = [["a token is asked for, and sent", guarded], ["a server that was killed goes on with its run, and the page with it", killed]];
const all = [
  ...partOf([...tests, ...guards]),
  ["no request leaves the origin, and nothing is complained of", async () => assert.deepEqual([...bench.foreign, ...bench.complaints], [])],
];
for (const [name, test] of all.filter(([title]) => title.includes(wanted))) {
  try {
    await test(bench, server.url);
    console.log(`ok    ${name}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
  for (const context of bench.browser.contexts()) await context.close();
}
await server.end();
await bench.close();
console.log(`${process.exitCode ? "not all passed" : "all passed"} in ${((performance.now() - began) / 1000).toFixed(1)} s`);
