// Prints what the hook adds to a page: bundled and minified, React left out.
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const built = await build({
  root,
  configFile: false,
  logLevel: "error",
  build: {
    write: false,
    minify: true,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      input: `${root}src/index.ts`,
      external: ["react"],
      // The library mode of Vite leaves the blanks in, for a bundler that comes after it.
      preserveEntrySignatures: "strict",
    },
  },
});
const [{ output }] = [built].flat();
const code = output.map((chunk) => chunk.code ?? "").join("");
const kb = (bytes) => (bytes / 1000).toFixed(1);
console.log(`@sapwood/react: ${kb(Buffer.byteLength(code))} kB minified, ${kb(gzipSync(code).length)} kB gzipped`);
