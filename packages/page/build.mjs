// Build the page into the Python package:  node build.mjs
// Beside it: LICENSES.txt, the terms of what is bundled, and SOURCE, a sum over the sources, by which a test without Node
// tells whether the build is current.
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const STATIC = join(ROOT, "src/sapwood/server/static");
const SOURCES = ["packages/page/index.html", "packages/page/package-lock.json", "packages/page/vite.config.ts", "packages/page/src", "packages/react/src"];
const ALLOWED = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "MPL-2.0", "0BSD"]);

const bundled = new Set();
process.chdir(join(ROOT, "packages/page"));
await build({
  logLevel: "warn",
  plugins: [{
    name: "remember-packages",
    generateBundle(_, bundle) {
      for (const chunk of Object.values(bundle)) for (const id of Object.keys(chunk.modules ?? {})) remember(id);
    },
  }],
});
await writeFile(join(STATIC, "LICENSES.txt"), await licenses());
await writeFile(join(STATIC, "SOURCE"), `${await sumOf(SOURCES)}\n`);

function remember(id) {
  const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id.replace(/^\0/, "").split("?")[0]);
  if (found) bundled.add(found[1]);
}

async function licenses() {
  const texts = [];
  for (const folder of [...bundled].sort()) {
    const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    if (!ALLOWED.has(license)) throw new Error(`${name} ${version} is under ${license}, which the wheel does not take; leave it out or ask`);
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${name} ${version} has no license text to ship`);
    texts.push(`${name} ${version} (${license})\n\n${(await readFile(join(folder, file), "utf8")).trim()}\n`);
  }
  return `The page holds these libraries.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

/** The sum of the sums of all files, in the order of their names. tests/architecture has the same in Python. */
async function sumOf(places) {
  const files = (await Promise.all(places.map((place) => filesIn(join(ROOT, place))))).flat();
  const lines = [];
  for (const file of files) {
    const sum = createHash("sha256").update(await readFile(file)).digest("hex");
    lines.push(`${relative(ROOT, file).split(sep).join("/")} ${sum}\n`);
  }
  return createHash("sha256").update(lines.sort().join("")).digest("hex");
}

async function filesIn(place) {
  const entries = await readdir(place, { withFileTypes: true, recursive: true }).catch((error) => {
    if (error.code === "ENOTDIR") return undefined;
    throw error;
  });
  if (entries === undefined) return [place];
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? dirname(place), entry.name));
}
