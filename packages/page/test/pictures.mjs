// Draw the pictures of the documentation:  node test/pictures.mjs
import { fileURLToPath } from "node:url";
import { Bench, ask, settled } from "./harness.mjs";

const FOLDER = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const bench = await Bench.open();
const picture = (page, name) => page.screenshot({ path: `${FOLDER}${name}.png`, animations: "disabled" });

for (const [title, hours] of [["Opening hours over the holidays", 3], ["Two orders, one parcel", 20], ["A gift card that does not work", 44]]) {
  bench.fixture.state.threads.set(title, { id: title, title, startedAt: 0, updatedAt: Date.now() - hours * 3_600_000, runs: [], active: undefined });
}
bench.fixture.state.threads.delete("big");

async function story(colorScheme) {
  const page = await bench.page({ width: 1280, height: 800, colorScheme });
  await ask(page, "Where is the parcel of my order?");
  await settled(page);
  return page;
}

const light = await story("light");
await picture(light, "page_light");
await light.setViewportSize({ width: 1280, height: 900 });
await light.getByRole("button", { name: /Context of this answer/ }).click();
await light.locator(".round").nth(3).waitFor();
await picture(light, "page_context");
await light.locator(".sections button", { hasText: "retrieval" }).click();
await light.getByText("returns.md, part 3").click();
await light.locator(".panel-body").evaluate((body) => { body.scrollTop = body.scrollHeight; });
await picture(light, "page_pieces");
await light.setViewportSize({ width: 1280, height: 800 });
await light.locator(".panel-head button").click();
await ask(light, "Then refund it, please.");
await settled(light, "waiting");
await light.getByRole("button", { name: "Edit" }).click();
await picture(light, "page_approval");
await light.context().close();
bench.fixture.state.threads.delete([...bench.fixture.state.threads.keys()].at(-1));
const dark = await story("dark");
await picture(dark, "page_dark");
await bench.close();
