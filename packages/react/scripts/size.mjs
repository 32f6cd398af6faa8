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
    target: "es2022",
    lib: { entry: `${root}src/index.ts`, formats: ["es"], fileName: "index" },
    rollupOptions: { external: ["react"] },
  },
});
const [{ output }] = [built].flat();
const code = output.map((chunk) => chunk.code ?? "").join("");
const kb = (bytes) => (bytes / 1000).toFixed(1);
console.log(`@sapwood/react: ${kb(Buffer.byteLength(code))} kB minified, ${kb(gzipSync(code).length)} kB gzipped`);
