// A browser, the fixture's server, and a few words to drive the page with. No test waits for a time, only for a state.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { startFixture } from "./fixture_server.mjs";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const PATIENCE_MS = 30_000;

export class Bench {
  static async open() {
    const bench = new Bench();
    bench.profile = await mkdtemp(join(tmpdir(), "sapwood-page-"));
    bench.browser = await chromium.launch({
      executablePath: process.env.SAPWOOD_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS, env: { ...process.env, HOME: bench.profile },
    });
    bench.fixture = await startFixture();
    bench.foreign = [];
    bench.complaints = [];
    return bench;
  }

  /** Open the page in a browser context of its own: nothing that one test kept reaches another. */
  async page({ hash = "", url = this.fixture.url, colorScheme = "light", width = 1280, height = 860 } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.on("request", (request) => {
      const address = request.url();
      if (!address.startsWith(url) && !/^(data|blob):/.test(address)) this.foreign.push(address);
    });
    page.on("pageerror", (error) => this.complaints.push(error.message));
    page.on("console", (message) => {
      // The browser itself reports each answer of 4xx, which some tests are about.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) this.complaints.push(message.text());
    });
    await page.goto(url + hash);
    return page;
  }

  async close() {
    await this.browser.close();
    await this.fixture.close();
    await rm(this.profile, { recursive: true, force: true });
  }
}

export async function ask(page, text) {
  await page.locator("[data-composer]").fill(text);
  await page.locator("[data-composer]").press("Enter");
}

/** Wait until the page says of itself that it is in this state. */
export async function settled(page, state = "ready") {
  await page.locator(`[role=status][data-state="${state}"]`).waitFor({ state: "attached" });
}

export const shown = (page, text) => page.getByText(text).first().waitFor();
