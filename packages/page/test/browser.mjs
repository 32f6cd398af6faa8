// The page in a real browser:  node test/browser.mjs [part of a test's name]
// It needs Chromium (SAPWOOD_CHROMIUM, or /usr/bin/chromium) and a build (npm run build).
import assert from "node:assert/strict";
import { Bench } from "./harness.mjs";
import { accessibility } from "./browser_accessibility.mjs";
import { conversation } from "./browser_conversation.mjs";
import { long } from "./browser_long.mjs";
import { trouble } from "./browser_trouble.mjs";
import { partOf } from "./part.mjs";

const wanted = process.argv[2] ?? "";
const bench = await Bench.open();
const began = performance.now();
let failures = 0;
const last = ["no request leaves the origin, and nothing is complained of", async () => {
  assert.deepEqual(bench.foreign, []);
  assert.deepEqual(bench.complaints, []);
}];

for (const [name, test] of [...partOf([...conversation, ...accessibility, ...long, ...trouble]), last]) {
  if (!name.includes(wanted)) continue;
  const start = performance.now();
  try {
    const report = await test(bench);
    console.log(`ok    ${name} (${Math.round(performance.now() - start)} ms)${report ? `\n      ${report}` : ""}`);
  } catch (error) {
    failures += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
  for (const context of bench.browser.contexts()) await context.close();
}
await bench.close();
console.log(`${failures === 0 ? "all passed" : `${failures} failed`} in ${((performance.now() - began) / 1000).toFixed(1)} s`);
process.exitCode = failures === 0 ? 0 : 1;
