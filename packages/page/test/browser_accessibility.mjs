// Use without a mouse, without colours, in the dark and by ear.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { ask, settled } from "./harness.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Return the serious findings of axe, as lines. */
async function findings(page) {
  // As the debugger runs it, the page's policy on scripts stays as it is.
  const session = await page.context().newCDPSession(page);
  const { readFile } = await import("node:fs/promises");
  await session.send("Runtime.evaluate", { expression: await readFile(AXE, "utf8") });
  const { result } = await session.send("Runtime.evaluate", {
    expression: "axe.run(document).then((found) => JSON.stringify(found.violations))", awaitPromise: true,
  });
  return JSON.parse(result.value).flatMap((rule) => rule.nodes.map((node) => ({ impact: rule.impact, line: `${rule.id}: ${node.html.slice(0, 120)} ${node.failureSummary?.slice(0, 200)}` })));
}

/** Look at the page in both colours. */
async function isClean(page, where, counted) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.locator(`html[data-theme=${colorScheme}]`).waitFor();
    const found = await findings(page);
    counted.push(...found);
    assert.deepEqual(found.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ line }) => `${where}, ${colorScheme}: ${line}`), []);
  }
}

export const accessibility = [
  ["axe finds nothing serious, in light and in dark", async (bench) => {
    const page = await bench.page();
    const counted = [];
    await page.locator(".empty").waitFor();
    await isClean(page, "empty", counted);
    await ask(page, "weather");
    await settled(page);
    await page.locator(".tool summary").first().click();
    await page.getByRole("button", { name: /Context of this answer/ }).click();
    await page.locator(".sections button", { hasText: "retrieval" }).click();
    await isClean(page, "answer and context", counted);
    await ask(page, "refund");
    await settled(page, "waiting");
    await isClean(page, "approval", counted);
    await page.getByRole("button", { name: "Edit" }).click();
    await isClean(page, "edit", counted);
    await page.getByRole("button", { name: "Approve with these" }).click();
    await settled(page);
    await ask(page, "fail");
    await settled(page, "error");
    await isClean(page, "error", counted);
    return `moderate and minor findings: ${counted.length}${counted.length ? `\n      ${[...new Set(counted.map(({ line }) => line))].join("\n      ")}` : ""}`;
  }],

  ["the choice of colours is kept", async (bench) => {
    const page = await bench.page({ colorScheme: "light" });
    await page.getByRole("button", { name: "Use dark colours" }).click();
    await page.reload();
    await page.getByRole("button", { name: "Use light colours" }).waitFor();
    assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).color), "rgb(228, 231, 225)");
  }],

  ["all of a turn is done with the keyboard", async (bench) => {
    const page = await bench.page();
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "");
    const tabTo = async (name, key = "Tab") => {
      for (let step = 0; step < 60; step += 1) {
        if ((await focused()).includes(name)) return;
        await page.keyboard.press(key);
      }
      assert.fail(`${name} is not reached by ${key}`);
    };
    // The message box has the focus at the start, and the skip link leads back to it.
    await page.waitForFunction(() => document.activeElement?.hasAttribute("data-composer"));
    await tabTo("To the message box", "Shift+Tab");
    assert.equal(await page.locator(".skip").evaluate((link) => link.matches(":focus-visible")), true);
    await page.keyboard.press("Enter");
    await page.keyboard.type("first line");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("refund, second line");
    await page.keyboard.press("Enter");
    await settled(page, "waiting");
    assert.match(await page.locator(".said").textContent(), /^first line\nrefund, second line$/);
    await tabTo("Approve", "Shift+Tab");
    await page.keyboard.press("Enter");
    await settled(page);
    // The button is gone; the focus is not lost with it.
    await page.waitForFunction(() => document.activeElement?.hasAttribute("data-composer"));
    await tabTo("Context of this answer", "Shift+Tab");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.id === "context-title");
    await tabTo("tools");
    await page.keyboard.press("Enter");
    await page.locator(".lines").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".panel").waitFor({ state: "detached" });
    assert.match(await focused(), /Context of this answer/);
  }],

  ["states are said, and an answer by the paragraph", async (bench) => {
    const page = await bench.page();
    await page.locator("[data-composer]").waitFor();
    await page.evaluate(() => {
      globalThis.heard = [];
      const watch = (node) => new MutationObserver(() => globalThis.heard.push(node.innerText.trim())).observe(node, { childList: true, subtree: true, characterData: true });
      document.querySelectorAll("[role=log]").forEach(watch);
    });
    await ask(page, "weather by ear");
    await settled(page);
    await page.waitForFunction(() => document.querySelector("[role=log]").innerText.includes("handbook"));
    const heard = await page.evaluate(() => globalThis.heard.length);
    assert.equal(await page.locator("[role=status][data-state]").textContent(), "The answer is complete.");
    assert.ok(heard <= 12, `${heard} announcements for an answer of seven paragraphs and 40 pieces`);
  }],
];
