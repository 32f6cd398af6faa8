// This page in Chromium, against `sapwood serve`: node e2e.mjs
//
// PYTHON names the interpreter (else ../../.venv/bin/python), SAPWOOD_CHROMIUM the browser (else /usr/bin/chromium). No step waits
// for a time, only for what the page shows.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { build, preview } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const python = process.env.PYTHON ?? join(root, ".venv/bin/python");
const executablePath = process.env.SAPWOOD_CHROMIUM ?? "/usr/bin/chromium";
for (const path of [python, executablePath]) {
  if (!existsSync(path)) {
    console.log(`skipped: there is no ${path}`);
    process.exit(0);
  }
}

const folder = mkdtempSync(join(tmpdir(), "react-chat-"));
const port = await freePort();
const closing = [() => rmSync(folder, { recursive: true, force: true })];
let server = await serve();
closing.push(() => ended(server));

try {
  process.env.SAPWOOD_URL = `http://127.0.0.1:${port}`;
  await build({ root: here, logLevel: "error" });
  const front = await preview({ root: here, logLevel: "error", preview: { port: await freePort(), host: "127.0.0.1" } });
  closing.push(() => front.close());
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-quic"] });
  closing.push(() => browser.close());
  const [address] = front.resolvedUrls.local;
  for (const [name, step] of Object.entries(steps())) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(address);
    await step(page, context);
    assert.deepEqual(problems, [], name);
    await context.close();
    console.log(`ok  ${name}`);
  }
} finally {
  for (const close of closing.reverse()) await close();
}

function steps() {
  return {
    "a question is answered in words, with the thinking folded": async (page) => {
      await say(page, "What can you do?");
      await shows(page, "I can refund an order and brew tea. Say: refund 25, or: brew 5.");
      assert.equal(await page.getByText("Thinking").count(), 1);
      await status(page, "ready");
    },
    "two quick Enters are one message": async (page) => {
      await page.getByLabel("Message").fill("Hello");
      await page.evaluate(() => {
        const form = document.querySelector("form");
        form.requestSubmit();
        form.requestSubmit();
      });
      await shows(page, "I can refund an order");
      assert.equal(await page.locator("[data-role=user]").count(), 1);
    },
    "a call waits for a yes, and goes on in the same answer": async (page) => {
      await say(page, "refund 25");
      await status(page, "waiting");
      await page.getByRole("button", { name: "Approve" }).click();
      await shows(page, "It is done: 25 euros went back for order 7.");
      assert.equal(await page.locator("[data-role=assistant]").count(), 1);
      await tool(page, "done");
      await status(page, "ready");
    },
    "a call is approved with other arguments": async (page) => {
      await say(page, "refund 25");
      await page.getByLabel("Arguments").fill('{"order": 7, "amount": 5');
      assert.equal(await page.getByRole("button", { name: "Approve" }).isDisabled(), true);
      await page.getByLabel("Arguments").fill('{"order": 7, "amount": 5}');
      await page.getByRole("button", { name: "Approve" }).click();
      await shows(page, "It is done: 5 euros went back for order 7.");
    },
    "a call is denied with a reason": async (page) => {
      await say(page, "refund 25");
      await page.getByLabel("Reason").fill("too late");
      await page.getByRole("button", { name: "Deny" }).click();
      await tool(page, "denied");
      await shows(page, "too late");
      await status(page, "ready");
    },
    "a question is still there after a reload, and in another browser": async (page, context) => {
      await say(page, "refund 25");
      await status(page, "waiting");
      await page.reload();
      await status(page, "waiting");
      const other = await (await context.browser().newContext()).newPage();
      await other.goto(page.url());
      await other.getByRole("button", { name: "Approve" }).click();
      await shows(other, "It is done: 25 euros went back for order 7.");
      await page.reload();
      await shows(page, "It is done: 25 euros went back for order 7.");
      await other.context().close();
    },
    "a question is still there after the server began anew": async (page) => {
      await say(page, "refund 25");
      await status(page, "waiting");
      await ended(server);
      server = await serve();
      await page.reload();
      await page.getByRole("button", { name: "Approve" }).click();
      await shows(page, "It is done: 25 euros went back for order 7.");
    },
    "a run goes on without its page, is rejoined after a reload, and stopped": async (page) => {
      await say(page, "brew 600");
      await tool(page, "running");
      await page.reload();
      await status(page, "streaming");
      await tool(page, "running");
      await page.getByRole("button", { name: "Stop" }).click();
      await shows(page, "Stopped.");
      await status(page, "ready");
      await say(page, "And now?");
      await shows(page, "I can refund an order");
    },
    "a new chat is empty, and the old one is found at its address": async (page) => {
      await say(page, "Hello");
      await shows(page, "I can refund an order");
      const old = page.url();
      await page.getByRole("button", { name: "New chat" }).click();
      assert.equal(await page.locator("li").count(), 0);
      await page.goto(old);
      await page.reload();
      await shows(page, "I can refund an order");
    },
  };
}

async function say(page, text) {
  await page.getByLabel("Message").fill(text);
  await page.getByLabel("Message").press("Enter");
}

function shows(page, text) {
  return page.getByText(text).last().waitFor();
}

function status(page, text) {
  return page.locator(`[data-testid=status]:text-is("${text}")`).waitFor();
}

function tool(page, state) {
  return page.locator(`[data-tool][data-state=${state}]`).waitFor();
}


/** Start the agent, and wait until it answers. */
async function serve() {
  const database = join(folder, "chat.db");
  const options = ["serve", "examples.react_chat.agent:agent", "--port", String(port), "--db", database, "--no-page"];
  const { MODEL: _model, ...env } = process.env;
  const child = spawn(python, ["-m", "sapwood", ...options], {
    cwd: root,
    env: { ...env, PYTHONPATH: join(root, "src") },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  await new Promise((resolve, reject) => {
    child.stderr.on("data", (piece) => {
      said += piece;
      if (said.includes("Ctrl-C ends")) resolve();
    });
    child.on("exit", () => reject(new Error(`the server ended: ${said}`)));
  });
  return child;
}

function ended(child) {
  if (child.exitCode !== null) return undefined;
  const gone = new Promise((resolve) => child.on("exit", resolve));
  child.kill("SIGKILL");
  return gone;
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port: found } = probe.address();
      probe.close(() => resolve(found));
    });
  });
}
