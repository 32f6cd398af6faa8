import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// `@sapwood/react` is read from its sources, with this package's React: a second copy would break every hook.
export default defineConfig({
  base: "./",
  resolve: {
    alias: { "@sapwood/react": here("../react/src/index.ts") },
    dedupe: ["react", "react-dom"],
  },
  build: {
    outDir: here("../../src/sapwood/server/static"),
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": process.env["SAPWOOD_SERVER"] ?? "http://127.0.0.1:8377" } },
  test: { include: ["test/**/*.test.ts", "test/**/*.test.tsx"] },
});
