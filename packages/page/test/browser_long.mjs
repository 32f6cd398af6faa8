// Size and speed: a thread of two thousand messages, an answer that grows, the first paint, the bundle.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { ask, settled, shown } from "./harness.mjs";

const STATIC = fileURLToPath(new URL("../../../src/sapwood/server/static/", import.meta.url));

/** Where the first row in sight is: its words, and its distance from the top. */
const place = () => {
  const scroller = document.querySelector(".scroller");
  const top = scroller.getBoundingClientRect().top;
  const row = [...document.querySelectorAll(".row-holder")].map((node) => ({ node, at: node.getBoundingClientRect() }))
    .filter(({ at }) => at.bottom > top).sort((one, other) => one.at.top - other.at.top)[0];
  return { text: row.node.innerText.slice(0, 30), at: Math.round(row.at.top - top) };
};

/** Scroll up to the very beginning, a part of the window in each frame, and measure the frames. */
const climb = async () => {
  const scroller = document.querySelector(".scroller");
  const frames = [];
  let most = 0;
  let before = performance.now();
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  while (document.querySelector(".older") || scroller.scrollTop > 0) {
    scroller.scrollTop -= 1600;
    await frame();
    const now = performance.now();
    frames.push(now - before);
    before = now;
    most = Math.max(most, document.getElementsByTagName("*").length);
    if (frames.length > 20_000) throw new Error("the beginning is not reached");
  }
  frames.sort((one, other) => one - other);
  const at = (share) => Math.round(frames[Math.floor(share * (frames.length - 1))] * 10) / 10;
  return { frames: frames.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1), most };
};

export const long = [
  ["a thread of 2,000 messages scrolls to its beginning, with few nodes", async (bench) => {
    const page = await bench.page({ hash: "#/t/big" });
    await page.getByText("Question 1000 of this thread").waitFor();
    await page.getByText("Answer 1000").waitFor();
    const found = await page.evaluate(climb);
    await page.getByText("Question 1 of this thread").waitFor();
    assert.ok(found.most < 2500, `${found.most} elements`);
    await page.getByRole("button", { name: "To the end" }).click();
    await page.getByText("Answer 1000").waitFor();
    await page.getByRole("button", { name: "To the end" }).waitFor({ state: "detached" });
    return `${found.frames} frames: median ${found.p50} ms, p95 ${found.p95} ms, p99 ${found.p99} ms, longest ${found.max} ms; at most ${found.most} elements in the document`;
  }],

  ["older messages come without moving what is read", async (bench) => {
    const page = await bench.page({ hash: "#/t/big" });
    await page.getByText("Answer 1000").waitFor();
    let answer;
    const asked = new Promise((resolve) => { answer = resolve; });
    await page.route("**/api/threads/big?before=*", async (route) => { await asked; await route.continue(); });
    await page.evaluate(() => { document.querySelector(".scroller").scrollTop = 600; });
    await page.waitForFunction(() => new Promise((resolve) => {
      const height = document.querySelector(".rows").offsetHeight;
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(height === document.querySelector(".rows").offsetHeight)));
    }));
    const before = await page.evaluate(place);
    const height = await page.locator(".rows").evaluate((rows) => rows.offsetHeight);
    answer();
    await page.waitForFunction((least) => document.querySelector(".rows").offsetHeight > least + 2000, height);
    const after = await page.evaluate(place);
    assert.equal(after.text, before.text);
    assert.ok(Math.abs(after.at - before.at) <= 4, `${before.at} became ${after.at}`);
    return `${before.text}: at ${before.at} px before, at ${after.at} px after`;
  }],

  ["the end is kept in sight while an answer grows, unless the reader left it", async (bench) => {
    const page = await bench.page({ width: 640, height: 420 });
    const atEnd = () => { const node = document.querySelector(".scroller"); return node.scrollHeight - node.clientHeight - node.scrollTop < 80; };
    await ask(page, "long and growing");
    await page.waitForFunction(() => { const node = document.querySelector(".scroller"); return node && node.scrollHeight > node.clientHeight + 300; });
    await page.waitForFunction(atEnd);
    await page.locator(".scroller").hover();
    await page.mouse.wheel(0, -2000);
    await page.getByRole("button", { name: "To the end" }).waitFor();
    const size = await page.locator(".rows").evaluate((rows) => rows.offsetHeight);
    await page.waitForFunction((least) => document.querySelector(".rows").offsetHeight > least + 100, size);
    assert.equal(await page.locator(".scroller").evaluate((node) => node.scrollTop), 0);
    await page.getByRole("button", { name: "To the end" }).click();
    await page.waitForFunction(atEnd);
    await page.keyboard.press("Escape");
    await settled(page);
  }],

  ["a long answer costs at its end what it cost at its beginning", async (bench) => {
    const page = await bench.page();
    await page.locator("[data-composer]").waitFor();
    await page.evaluate(() => {
      globalThis.frames = [];
      let before = performance.now();
      const frame = (now) => { globalThis.frames.push({ ms: now - before, size: document.querySelector(".reply .markdown")?.childElementCount ?? 0 }); before = now; requestAnimationFrame(frame); };
      requestAnimationFrame(frame);
    });
    await ask(page, "epic");
    await settled(page);
    const { first, last, letters } = await page.evaluate(() => {
      const seen = globalThis.frames.filter(({ size }) => size > 0);
      const most = Math.max(...seen.map(({ size }) => size));
      const median = (list) => list.map(({ ms }) => ms).sort((one, other) => one - other)[Math.floor(list.length / 2)];
      return { first: median(seen.filter(({ size }) => size < most / 4)), last: median(seen.filter(({ size }) => size > (most * 3) / 4 && size < most)), letters: document.querySelector(".reply .markdown").innerText.length };
    });
    assert.equal(await page.locator(".reply .markdown h5").count(), 120);
    return `${letters.toLocaleString("en")} letters: median frame ${first.toFixed(1)} ms in the first quarter, ${last.toFixed(1)} ms in the last`;
  }],

  ["the first paint is soon", async (bench) => {
    const page = await bench.page();
    await page.locator("[data-composer]").waitFor();
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
    // A busy machine is no reason to fail; the figure itself is what counts.
    assert.ok(paint < 15_000, `${paint} ms`);
    return `first contentful paint after ${Math.round(paint)} ms`;
  }],

  ["the bundle is small, and holds no address to load from", async () => {
    const lines = [];
    for (const name of await readdir(`${STATIC}assets`)) {
      const content = await readFile(`${STATIC}assets/${name}`);
      lines.push(`${name} ${content.length.toLocaleString("en")} B, ${gzipSync(content).length.toLocaleString("en")} B gzip`);
      if (name.endsWith(".js")) assert.ok(content.length < 500_000, name);
    }
    const html = await readFile(`${STATIC}index.html`, "utf8");
    assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\bstyle=|https?:/);
    return lines.join("; ");
  }],
];
