import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

const shared = { environment: "jsdom", pool: "threads", testTimeout: 120_000 } as const;

// Of the two builds of the library only this one has imports, which can be led to React 18.
const TESTING_LIBRARY = "node_modules/@testing-library/react/dist/@testing-library/react.esm.js";

// What needs React runs twice: on the one that is installed here, and on React 18.
export default defineConfig({
  test: {
    projects: [
      { test: { ...shared, include: ["test/*.test.{ts,tsx}"], name: "react-19", env: { REACT: "19" } } },
      {
        resolve: {
          alias: [
            { find: /^react$/, replacement: at("test/react-18/node_modules/react") },
            { find: /^react\/(.*)$/, replacement: at("test/react-18/node_modules/react/$1") },
            { find: /^react-dom$/, replacement: at("test/react-18/node_modules/react-dom") },
            { find: /^@testing-library\/react$/, replacement: at(TESTING_LIBRARY) },
            { find: /^react-dom\/(.*)$/, replacement: at("test/react-18/node_modules/react-dom/$1") },
          ],
        },
        test: { ...shared, include: ["test/*.test.tsx"], name: "react-18", env: { REACT: "18" }, server: { deps: { inline: [/@testing-library\/react/] } } },
      },
    ],
  },
});
