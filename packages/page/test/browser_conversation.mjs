// What a person does in a conversation, as tests of the page.
import assert from "node:assert/strict";
import { startFixture } from "./fixture_server.mjs";
import { ask, settled, shown } from "./harness.mjs";

const PIXEL = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const waiting = (bench) => [...bench.fixture.state.threads.values()].find((thread) => thread.active?.status === "paused")?.active;
const newestRun = (bench) => [...bench.fixture.state.runs.values()].at(-1);

async function thinkingOpens(page) {
  const text = page.locator(".thinking-text");
  assert.equal(await text.isVisible(), false);
  await page.locator(".thinking summary").click();
  await text.waitFor({ state: "visible" });
  assert.match(await text.textContent(), /memory says that they live in Lisbon/);
}

async function cardsTell(page) {
  const [good, bad] = [page.locator(".tool").nth(0), page.locator(".tool").nth(1)];
  assert.match(await good.locator("summary").textContent(), /get_weather.*Lisbon.*done.*240 ms/);
  await good.locator("summary").click();
  assert.match(await good.getByLabel("Result", { exact: true }).textContent(), /"celsius": 21/);
  assert.equal(await bad.getAttribute("data-state"), "error");
  assert.match(await bad.locator(".tool-error").textContent(), /no such city/);
}

export const conversation = [
  ["a message is sent; the answer streams as Markdown, thinking folded, tools told", async (bench) => {
    const page = await bench.page();
    await ask(page, "How is the weather?");
    await settled(page);
    assert.equal(await page.locator(".reply table tbody tr").count(), 3);
    assert.equal(await page.locator(".reply ol li").count(), 2);
    assert.match(await page.locator(".reply pre code").textContent(), /get_weather\("Lisbon"\)/);
    const link = page.getByRole("link", { name: "handbook" });
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer nofollow");
    assert.equal(await page.locator(".reply script").count(), 0);
    assert.match(await page.locator(".reply").textContent(), /<script>alert/);
    assert.match(page.url(), /#\/t\/.+/);
    assert.equal(await page.locator(".thread-row a[aria-current=page]").count(), 1);
    await thinkingOpens(page);
    await cardsTell(page);
  }],

  ["a subagent has a lane under its call", async (bench) => {
    const page = await bench.page();
    await ask(page, "research it");
    await page.locator(".tool .lane[open]").waitFor();
    await settled(page);
    const lane = page.locator(".tool .lane");
    await lane.locator("> summary").click();
    assert.match(await lane.textContent(), /researcher.*done.*opening hours.*search_orders/s);
    assert.equal(await page.locator(".tool").count(), 2);
  }],

  ["a call is approved, approved with other arguments that must be JSON, and denied with a reason", async (bench) => {
    const page = await bench.page();
    await ask(page, "refund it");
    await settled(page, "waiting");
    assert.match(await page.locator(".approval").textContent(), /refunds over 50 EUR/);
    await page.getByRole("button", { name: "Approve" }).click();
    await shown(page, "80 EUR are on their way");
    await settled(page);
    assert.equal(await page.locator(".approval").count(), 0);
    await settled(page);
    await ask(page, "refund less");
    await page.getByRole("button", { name: "Edit" }).click();
    const field = page.getByLabel("Arguments, as JSON");
    await field.fill('{"order": "A-1042", amount: 20}');
    await shown(page, "This is not JSON");
    await page.getByRole("button", { name: "Approve with these" }).click({ force: true });
    assert.equal(waiting(bench)?.decided, undefined);
    await field.fill('{"order": "A-1042", "amount": 20}');
    await page.getByRole("button", { name: "Approve with these" }).click();
    await shown(page, "20 EUR are on their way");
    await settled(page);
    await ask(page, "refund nothing");
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByLabel("Why not?").fill("wrong order");
    await page.getByLabel("Why not?").press("Enter");
    await shown(page, "You said: wrong order.");
    assert.deepEqual(await page.locator(".tool").evaluateAll((tools) => tools.map((tool) => tool.dataset.state)), ["done", "done", "denied"]);
  }],

  ["answers to several calls go out together", async (bench) => {
    const page = await bench.page();
    await ask(page, "both of them");
    await settled(page, "waiting");
    await page.getByRole("button", { name: "Approve" }).first().click();
    await shown(page, "kept until the other calls have theirs");
    assert.equal(waiting(bench)?.decided, undefined);
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByRole("button", { name: "Deny" }).click();
    await shown(page, "Both are answered.");
    assert.deepEqual(Object.keys(newestRun(bench).decided.decisions), ["d1", "d2"]);
    assert.equal(await page.locator(".tool[data-state=denied]").count(), 1);
  }],

  ["a prompt that did not get through is sent again, and one that did is not", async (bench) => {
    const page = await bench.page();
    await page.route("**/api/chat", (route) => route.abort());
    await ask(page, "is it through");
    await shown(page, "cannot be reached");
    await page.unroute("**/api/chat");
    await page.getByRole("button", { name: "Try again" }).click();
    await shown(page, "You said: is it through");
    await page.route("**/api/chat", async (route) => { await route.fetch(); await route.abort(); });
    await ask(page, "and now");
    await shown(page, "cannot be reached");
    await page.unroute("**/api/chat");
    await page.getByRole("button", { name: "Try again" }).click();
    await shown(page, "You said: and now");
    await settled(page);
    assert.equal(await page.locator(".message.user").count(), 2);
  }],

  ["the result of an external tool is given", async (bench) => {
    const page = await bench.page();
    await ask(page, "external please");
    await page.getByLabel(/^Result/).fill('{"celsius": 31}');
    await page.getByRole("button", { name: "Give the result" }).click();
    await shown(page, 'The attic says {"celsius":31}');
  }],

  ["a limit is extended, or the run may finish", async (bench) => {
    const page = await bench.page();
    await ask(page, "limit one");
    await page.getByLabel("Allow more").fill("7");
    await page.getByRole("button", { name: "Extend" }).click();
    await shown(page, "Thank you for 7 more.");
    await settled(page);
    await ask(page, "limit two");
    await page.getByRole("button", { name: "Let it finish" }).click();
    await shown(page, "This is what I have.");
  }],

  ["an answer is stopped with Esc", async (bench) => {
    const page = await bench.page();
    await ask(page, "long one");
    await shown(page, "A long answer.");
    await page.keyboard.press("Escape");
    await settled(page);
    assert.equal(newestRun(bench).stopped, true);
    assert.match(await page.locator(".turn-end").textContent(), /stopped/);
  }],

  ["a run that failed tells its request and is tried again", async (bench) => {
    const page = await bench.page();
    await ask(page, "fail first");
    await settled(page, "error");
    assert.match(await page.getByRole("alert").first().textContent(), /Request req-5f3a/);
    await page.getByRole("button", { name: "Try again" }).click();
    await shown(page, "The second try worked.");
    await settled(page);
    assert.equal(await page.getByText("The run failed").count(), 0);
  }],

  ["an answer that was stopped is asked for again", async (bench) => {
    const page = await bench.page();
    await ask(page, "long, then again");
    await shown(page, "A long answer.");
    await page.keyboard.press("Escape");
    await settled(page);
    await page.getByRole("button", { name: "Ask again" }).click();
    await page.locator(".message.user").nth(1).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await settled(page);
  }],

  ["a run that the server broke off goes on after a reload", async (bench) => {
    const page = await bench.page();
    await ask(page, "fail, and reload");
    await settled(page, "error");
    await page.reload();
    await shown(page, "The server ended in the middle of this answer.");
    await page.getByRole("button", { name: "Go on" }).click();
    await shown(page, "The second try worked.");
    await settled(page);
  }],

  ["a thread that another window has taken is shown, and the prompt is kept", async (bench) => {
    const one = await bench.page();
    await ask(one, "hello first");
    await settled(one);
    const other = await bench.page({ hash: new URL(one.url()).hash });
    await shown(other, "You said: hello first");
    // Without its list the other window learns of nothing until it sends.
    await other.route("**/api/threads?*", () => undefined);
    await ask(one, "refund by one");
    await settled(one, "waiting");
    await ask(other, "and what of this");
    await other.getByRole("button", { name: "Show what runs" }).click();
    await other.getByRole("button", { name: "Approve" }).waitFor();
    assert.equal(await other.locator("[data-composer]").inputValue(), "and what of this");
  }],

  ["the page works below a path", async (bench) => {
    const page = await bench.page({ hash: "support/" });
    await ask(page, "from below");
    await shown(page, "You said: from below");
    assert.ok(bench.fixture.state.requests.includes("POST /api/chat"));
    assert.match(page.url(), /\/support\/#\/t\//);
  }],

  ["a running answer is rejoined after a reload, and is whole", async (bench) => {
    const page = await bench.page();
    await ask(page, "long, and reload");
    await shown(page, "A long answer.");
    await page.reload();
    await shown(page, "A long answer.");
    await page.getByRole("button", { name: "Stop" }).click();
    await settled(page);
    const text = await page.locator(".reply .markdown").textContent();
    const sent = newestRun(bench).events.filter(({ chunk }) => chunk.type === "text-delta").map(({ chunk }) => chunk.delta).join("");
    assert.equal(text.trim(), sent.trim());
  }],

  ["a connection that breaks is taken up where it broke", async (bench) => {
    const page = await bench.page();
    await ask(page, "weather, and a break");
    await page.locator(".tool").first().waitFor();
    bench.fixture.cut();
    await settled(page);
    await shown(page, "More in the");
    assert.equal(await page.locator(".tool").count(), 2);
    assert.equal(await page.locator(".reply table tbody tr").count(), 3);
  }],

  ["a run that waits is stopped", async (bench) => {
    const page = await bench.page();
    await ask(page, "refund, or rather not");
    await settled(page, "waiting");
    await page.getByRole("button", { name: "Stop" }).click();
    await settled(page);
    await ask(page, "something else");
    await shown(page, "You said: something else");
  }],

  ["a question is answered from another browser", async (bench) => {
    const one = await bench.page();
    await ask(one, "refund from elsewhere");
    await settled(one, "waiting");
    const other = await bench.page({ hash: new URL(one.url()).hash });
    await other.getByRole("button", { name: "Approve" }).click();
    await shown(other, "80 EUR are on their way");
  }],

  ["files are attached by choice, paste and drop, and refused in words", async (bench) => {
    const page = await bench.page();
    const picker = page.locator("input[type=file]");
    await picker.setInputFiles([{ name: "dot.png", mimeType: "image/png", buffer: PIXEL }, { name: "notes.md", mimeType: "", buffer: Buffer.from("# hello") }]);
    await page.locator(".chips li").nth(1).waitFor();
    for (const kind of ["paste", "drop"]) {
      await page.evaluate((kind) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File(["words"], `${kind}.txt`, { type: "text/plain" }));
        const event = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true }) : new DragEvent("drop", { dataTransfer: transfer, bubbles: true });
        document.querySelector("[data-composer]").dispatchEvent(event);
      }, kind);
      await page.getByText(`${kind}.txt`).waitFor();
    }
    await picker.setInputFiles({ name: "big.zip", mimeType: "application/zip", buffer: Buffer.from("zip") });
    await shown(page, "big.zip is not attached");
    await page.getByRole("button", { name: "Remove drop.txt" }).click();
    await ask(page, "what is it");
    await shown(page, "I see 3 attachment(s): dot.png, notes.md, paste.txt.");
    const parts = newestRun(bench).message.parts.filter((part) => part.type === "file");
    assert.deepEqual(parts.map((part) => [part.mediaType, part.url.slice(0, 22)]), [
      ["image/png", "data:image/png;base64,"], ["text/plain", "data:text/plain;base64"], ["text/plain", "data:text/plain;base64"],
    ]);
  }],

  ["conversations are listed, opened, begun and deleted", async (bench) => {
    const page = await bench.page();
    await ask(page, "first of two");
    await settled(page);
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.locator(".empty").waitFor();
    await ask(page, "second of two");
    await settled(page);
    await page.getByRole("link", { name: /first of two/ }).click();
    await shown(page, "You said: first of two");
    await page.goBack();
    await shown(page, "You said: second of two");
    await page.getByRole("button", { name: "Delete second of two" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.locator(".empty").waitFor();
    await page.getByRole("link", { name: /second of two/ }).waitFor({ state: "detached" });
  }],

  ["the context view tells sections, reasons, texts and changes", async (bench) => {
    const page = await bench.page();
    await ask(page, "weather for the context");
    await settled(page);
    await page.getByRole("button", { name: /Context of this answer/ }).click();
    const panel = page.getByRole("complementary", { name: "Context" });
    assert.equal(await panel.locator(".round").count(), 2);
    assert.match(await panel.getByRole("img").nth(1).getAttribute("aria-label"), /^Request 2: system 420, tools 960, .*results 640, .*free [\d,]+, of these [\d,]+ cached tokens$/);
    assert.match(await panel.locator(".changes").nth(1).textContent(), /\+330 since the last request:.*retrieval −310.*results \+640.*cleared shipping.md.*not used in the last round/s);
    await panel.locator(".round").nth(0).locator(".segment[data-section=retrieval]").click();
    await panel.getByRole("heading", { name: "Request 1, piece by piece" }).waitFor();
    assert.match(await panel.locator(".lines").textContent(), /returns-2019.md, part 7.*480.*skipped from handbook: score 0.21 is below 0.3/s);
    await panel.getByText("refunds.md, part 2").click();
    await panel.getByText("A refund over 50 EUR needs the word of a person.").waitFor();
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    assert.match(await page.evaluate(() => document.activeElement.className), /turn-context/);
  }],

  ["a server that asks for a token gets it, and a wrong one is told", async (bench) => {
    const guarded = await startFixture({ token: "secret" });
    try {
      const page = await bench.page({ url: guarded.url });
      await page.getByLabel("Bearer token").fill("wrong");
      await page.getByLabel("Bearer token").press("Enter");
      await shown(page, "did not accept the token");
      await page.getByLabel("Bearer token").fill("secret");
      await page.getByRole("button", { name: "Go on" }).click();
      await ask(page, "let me in");
      await shown(page, "You said: let me in");
    } finally {
      await guarded.close();
    }
  }],
];
