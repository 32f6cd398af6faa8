// Builds dist: ES modules and their types. What is the same stays untouched, so that a build beside a reader of dist
// disturbs it only where something changed.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const fresh = mkdtempSync(join(tmpdir(), "sapwood-react-"));

try {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [tsc, "-p", join(root, "tsconfig.json"), "--outDir", fresh], { stdio: "inherit" });
  mkdirSync(dist, { recursive: true });
  const names = readdirSync(fresh);
  for (const name of names) {
    const [from, to] = [join(fresh, name), join(dist, name)];
    if (existsSync(to) && readFileSync(from).equals(readFileSync(to))) continue;
    cpSync(from, `${to}.${process.pid}`);
    renameSync(`${to}.${process.pid}`, to);
  }
  for (const name of readdirSync(dist)) {
    if (!names.some((kept) => name.startsWith(kept))) rmSync(join(dist, name), { force: true });
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
