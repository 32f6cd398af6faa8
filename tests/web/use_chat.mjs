// `useChat` in a real browser: prompt, approval, reload, answer, result, text; each step as the page shows it.
//
// Arguments: the address of the server, the path of the browser, the id of the thread, and a JSON of options:
//   prompt; answer: "yes" or "no"; reload: reload while the call waits (default true).
// Prints {steps: {<name>: {status, error, messages}}, shown, requests, problems}.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";
import { withPage } from "./browser.mjs";
import { servePage } from "./page_server.mjs";

const [, , target, executable, thread, given = "{}"] = process.argv;
const options = { prompt: "go", answer: "yes", reload: true, ...JSON.parse(given) };
const out = await mkdtemp(join(tmpdir(), "sapwood-use-chat-"));
await build({
  root: join(import.meta.dirname, "use_chat"),
  logLevel: "error",
  configFile: false,
  build: { outDir: out, emptyOutDir: true, target: "esnext" },
});
const served = await servePage(out, target);
const steps = {};
const requests = [];
const problems = [];

const shown = await withPage(executable, async (page) => {
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith("/api/")) requests.push(`${request.method()} ${pathname}`);
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  const note = async (name) => {
    steps[name] = await page.evaluate(() => window.chat);
  };
  const open = async () => {
    await page.goto(`${served.url}/?thread=${encodeURIComponent(thread)}`);
    await page.waitForSelector("input");
  };
  await open();
  await page.fill("input", options.prompt);
  await page.press("input", "Enter");
  await page.waitForSelector('[data-state="approval-requested"]');
  await page.waitForSelector('[data-status="ready"]');
  await note("asked");
  if (options.reload) {
    await open();
    await page.waitForSelector('[data-state="approval-requested"]');
    await page.waitForSelector('[data-status="ready"]');
    await note("reloaded");
  }
  await page.click(`[data-answer="${options.answer}"]`);
  await page.waitForSelector('[data-state="output-available"], [data-state="output-denied"], [data-state="output-error"]');
  await page.waitForFunction(() => window.chat.status !== "submitted" && window.chat.status !== "streaming");
  await note("answered");
  await open();
  await page.waitForSelector('[data-role="assistant"]');
  await page.waitForFunction(() => window.chat.status === "ready");
  await note("again");
  return page.innerText("main");
});
served.close();
await rm(out, { recursive: true, force: true });
console.log(JSON.stringify({ steps, shown, requests, problems }));
process.exit(0);
