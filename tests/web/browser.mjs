// A browser of this machine, with nothing of its owner's and no request of its own.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function withPage(executable, work) {
  const folder = await mkdtemp(join(tmpdir(), "sapwood-browser-"));
  const context = await chromium.launchPersistentContext(folder, { executablePath: executable, args: FLAGS });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    return await work(page);
  } finally {
    await context.close();
    await rm(folder, { recursive: true, force: true });
  }
}
