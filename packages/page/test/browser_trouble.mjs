// What goes wrong, as tests of the page: nothing that was written is lost, nothing is asked twice, and one bad part spoils no other.
import assert from "node:assert/strict";
import { ask, settled, shown } from "./harness.mjs";

const composer = (page) => page.locator("[data-composer]");
const newestRun = (bench) => [...bench.fixture.state.runs.values()].at(-1);

/** Count what the page sends of prompts from now on. */
function prompts(page) {
  const sent = [];
  page.on("request", (request) => { if (request.method() === "POST" && request.url().endsWith("/api/chat")) sent.push(request.url()); });
  return sent;
}

/** Answer a request as a server that is not well. */
const unwell = (route) => route.fulfill({ status: 503, contentType: "application/json", body: '{"error":{"code":"unwell","message":"The server is not well.","requestId":"req-0"}}' });

/** Open a conversation whose question another window has answered already. */
async function answeredElsewhere(bench) {
  const one = await bench.page();
  await ask(one, "refund, answered twice");
  await settled(one, "waiting");
  const other = await bench.page({ hash: new URL(one.url()).hash });
  await other.getByRole("button", { name: "Approve" }).waitFor();
  await other.route("**/api/threads?*", () => undefined);
  await one.getByRole("button", { name: "Approve" }).click();
  await settled(one);
  await other.getByRole("button", { name: "Approve" }).click();
  await settled(other, "error");
  return other;
}

/** How often React draws the footers of answers, and the list of threads: what is drawn has new properties. */
const countDrawn = () => {
  const seen = new WeakMap();
  globalThis.drawn = { footers: 0, list: 0 };
  const look = (fiber) => {
    for (let at = fiber; at; at = at.sibling) {
      const className = at.memoizedProps?.className;
      const kind = at.type === "footer" && className === "turn" ? "footers" : at.type === "div" && className === "threads" ? "list" : undefined;
      if (kind && seen.get(at.stateNode) !== at.memoizedProps) { seen.set(at.stateNode, at.memoizedProps); globalThis.drawn[kind] += 1; }
      look(at.child);
    }
  };
  globalThis.__REACT_DEVTOOLS_GLOBAL_HOOK__ = {
    supportsFiber: true, inject: () => 1, onCommitFiberUnmount: () => undefined, onPostCommitFiberRoot: () => undefined, onCommitFiberRoot: (_, root) => look(root.current),
  };
};

export const trouble = [
  ["a thread that was left while it ran is shown again as its own", async (bench) => {
    const page = await bench.page();
    await ask(page, "endless one, left");
    await shown(page, "An endless answer.");
    await page.getByRole("button", { name: "New conversation" }).click();
    await page.locator(".empty").waitFor();
    await ask(page, "endless two, beside it");
    await shown(page, "An endless answer.");
    await page.getByRole("link", { name: /endless one, left/ }).click();
    await page.locator(".said", { hasText: "endless one, left" }).waitFor();
    await settled(page, "streaming");
    const [one, two] = ["endless one, left", "endless two, beside it"].map((prompt) => [...bench.fixture.state.runs.values()].find((run) => run.prompt === prompt));
    const followed = bench.fixture.state.requests.filter((line) => line === `GET /api/runs/${one.id}/stream` || line === `GET /api/runs/${two.id}/stream`);
    assert.deepEqual(followed, []);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await settled(page);
    assert.deepEqual([one.stopped, two.stopped], [true, false]);
    two.stopped = true;
  }],

  ["older messages that do not come are asked for again, and no prompt is", async (bench) => {
    const page = await bench.page({ hash: "#/t/big" });
    await page.getByText("Answer 1000").waitFor();
    const sent = prompts(page);
    await page.route("**/api/threads/big?before=*", unwell);
    await page.evaluate(() => { document.querySelector(".scroller").scrollTop = 0; });
    await settled(page, "error");
    await page.unroute("**/api/threads/big?before=*");
    await page.getByRole("button", { name: "To the end" }).click();
    await page.getByRole("button", { name: "Try again" }).click();
    await settled(page);
    assert.deepEqual(sent, []);
  }],

  ["an answer that came too late asks nothing again, and what is written meanwhile stays", async (bench) => {
    const page = await answeredElsewhere(bench);
    const sent = prompts(page);
    await composer(page).fill("not to be lost");
    await composer(page).press("Enter");
    assert.equal(await composer(page).inputValue(), "not to be lost");
    await shown(page, "Try again first");
    await page.getByRole("button", { name: "Try again" }).click();
    await shown(page, "80 EUR are on their way");
    await settled(page);
    assert.deepEqual(sent, []);
    await composer(page).press("Enter");
    await shown(page, "You said: not to be lost");
    assert.equal(sent.length, 1);
  }],

  ["without a connection the thread stays, one notice is shown, and the prompt goes out later", async (bench) => {
    const page = await bench.page();
    await ask(page, "said before");
    await settled(page);
    await page.route("**/api/**", (route) => route.abort());
    await ask(page, "said offline");
    await settled(page, "error");
    for (let time = 0; time < 2; time += 1) {
      await Promise.all([page.waitForEvent("requestfailed"), page.getByRole("button", { name: "Try again" }).click()]);
      await settled(page, "error");
      assert.deepEqual(await page.locator(".said").allTextContents(), ["said before", "said offline"]);
    }
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    assert.equal(await page.locator(".notice").count(), 1);
    await page.unroute("**/api/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await shown(page, "You said: said offline");
    assert.deepEqual(await page.locator(".said").allTextContents(), ["said before", "said offline"]);
  }],

  ["an answer that nests without end, and a message that cannot be drawn, leave the page as it is", async (bench) => {
    const page = await bench.page();
    await ask(page, "nested without end");
    await settled(page);
    assert.match(await page.locator(".reply blockquote").first().textContent(), /end/);
    await ask(page, "broken note");
    await shown(page, "This message cannot be drawn");
    await settled(page);
    await shown(page, "These words are shown.");
    await page.reload();
    await shown(page, "These words are shown.");
    assert.equal(await page.locator(".said", { hasText: "nested without end" }).count(), 1);
    await ask(page, "and on it goes");
    await shown(page, "You said: and on it goes");
    // React says of each that it was caught.
    assert.ok(bench.complaints.length > 0 && bench.complaints.every((line) => line.includes("map is not a function")), bench.complaints.join("\n"));
    bench.complaints.length = 0;
  }],

  ["a new conversation is in the list while its first answer runs", async (bench) => {
    const page = await bench.page();
    await ask(page, "endless and listed");
    await page.getByRole("link", { name: /endless and listed.*running/ }).waitFor();
    await settled(page, "streaming");
    await page.keyboard.press("Escape");
    await settled(page);
  }],

  ["a running conversation is not deleted without a word, and can be stopped and deleted", async (bench) => {
    const page = await bench.page();
    await ask(page, "endless, to be deleted");
    await shown(page, "An endless answer.");
    await page.getByRole("button", { name: "Delete endless, to be deleted" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.locator(".thread-row [role=alert]", { hasText: "Not deleted" }).waitFor();
    await page.getByRole("button", { name: "Stop and delete" }).click();
    await page.locator(".empty").waitFor();
    await page.getByRole("link", { name: /endless, to be deleted/ }).waitFor({ state: "detached" });
    assert.equal(newestRun(bench).stopped, true);
  }],

  ["a stop that fails is told, and tried again", async (bench) => {
    const page = await bench.page();
    await ask(page, "endless, hard to stop");
    await shown(page, "An endless answer.");
    await page.route("**/stop", unwell);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByRole("alert").filter({ hasText: "The server is not well." }).waitFor();
    await page.unroute("**/stop");
    await page.getByRole("button", { name: "Stop again" }).click();
    await settled(page);
    assert.equal(await page.locator(".notice").count(), 0);
  }],

  ["a wide table scrolls, and its words stay whole", async (bench) => {
    const page = await bench.page();
    await ask(page, "wide table");
    await settled(page);
    const cells = await page.locator(".reply td").evaluateAll((list) => list.map((cell) => ({ height: cell.offsetHeight, line: parseFloat(getComputedStyle(cell).lineHeight) })));
    assert.equal(cells.length, 40);
    for (const { height, line } of cells) assert.ok(height < line * 3.2, `a cell of ${height} px`);
    assert.equal(await page.locator(".table-scroll").evaluate((box) => box.scrollWidth > box.clientWidth), true);
  }],

  ["a piece of an answer draws neither other footers nor the list anew", async (bench) => {
    const context = await bench.browser.newContext();
    const page = await context.newPage();
    await page.addInitScript(countDrawn);
    await page.goto(bench.fixture.url);
    for (const prompt of ["one", "two", "three"]) { await ask(page, prompt); await shown(page, `You said: ${prompt}`); await settled(page); }
    await ask(page, "endless, and counted");
    await shown(page, "An endless answer. An endless answer.");
    const before = await page.evaluate(() => ({ ...globalThis.drawn }));
    const size = await page.locator(".reply").last().textContent();
    await page.waitForFunction((least) => [...document.querySelectorAll(".reply")].at(-1).textContent.length > least + 600, size.length);
    const after = await page.evaluate(() => ({ ...globalThis.drawn }));
    await page.keyboard.press("Escape");
    await settled(page);
    const pieces = after.footers - before.footers;
    assert.ok(pieces > 3, `${pieces} footers are counted`);
    assert.equal(after.list - before.list <= 3, true, `the list was drawn ${after.list - before.list} times`);
    // 600 letters are some 43 pieces: the footer of the answer itself, and not those of three others with each.
    assert.ok(pieces < 90, `${pieces} footers for some 50 pieces`);
    return `${pieces} footers and ${after.list - before.list} lists for some 50 pieces`;
  }],

  ["Back and Esc leave a form, and the focus is where it came from", async (bench) => {
    const page = await bench.page();
    const focused = () => page.evaluate(() => document.activeElement?.textContent);
    await ask(page, "refund with forms");
    for (const [name, leave] of [["Edit", "Back"], ["Deny", "Back"], ["Edit", "Escape"], ["Deny", "Escape"]]) {
      await page.getByRole("button", { name }).click();
      if (leave === "Back") await page.getByRole("button", { name: "Back" }).click();
      else await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Approve" }).waitFor();
      assert.equal(await focused(), name);
    }
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await settled(page);
    await page.locator(".tool[data-state=stopped]").waitFor();
  }],

  ["each conversation keeps its draft, and a narrow page says why nothing can be sent", async (bench) => {
    const page = await bench.page({ width: 400 });
    await ask(page, "refund with a draft");
    await settled(page, "waiting");
    assert.equal(await page.getByText("Answer the question above first").isVisible(), true);
    await composer(page).fill("a draft of one");
    await page.evaluate(() => { location.hash = "#/"; });
    await page.locator(".empty").waitFor();
    assert.equal(await composer(page).inputValue(), "");
    await composer(page).fill("a draft of none");
    await page.goBack();
    await page.getByRole("button", { name: "Approve" }).click();
    await settled(page);
    assert.equal(await composer(page).inputValue(), "a draft of one");
  }],

  ["a file that falls beside the box does not take the page away", async (bench) => {
    const page = await bench.page();
    await composer(page).waitFor();
    const isKept = await page.evaluate(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(["words"], "a.txt", { type: "text/plain" }));
      return ["dragover", "drop"].map((kind) => !document.querySelector("main").dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true })));
    });
    assert.deepEqual(isKept, [true, true]);
  }],
];
