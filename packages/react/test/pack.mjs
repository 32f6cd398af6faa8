// What `npm pack` makes, in a fresh Vite project: installed, type-checked, built. It takes half a minute: npm run test:pack

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "sapwood-pack-"));
const run = (cwd, command, ...options) =>
  execFileSync(command, options, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

const MAIN = `import { useAssistant, AssistantError, AssistantStore, type AgentPart, type ToolPart } from "@sapwood/react";
import { createRoot } from "react-dom/client";

async function* stream(prompt: string): AsyncGenerator<AgentPart> {
  yield { type: "text", text: prompt };
}

function Chat() {
  const { items, input, setInput, busy, send, status, error } = useAssistant({ stream, onDone: ({ spoken }) => console.log(spoken) });
  const last = items.at(-1);
  const tools = last?.role === "assistant" ? last.parts.filter((part): part is ToolPart => part.type === "tool") : [];
  return (
    <form onSubmit={() => void send()}>
      <input value={input} onChange={(event) => setInput(event.target.value)} disabled={busy} />
      {status} {tools.length} {error instanceof AssistantError ? error.requestId : null}
    </form>
  );
}

new AssistantStore({ url: "" }).getSnapshot();
// @ts-expect-error a stream of numbers is none
useAssistant.name === "" && useAssistant({ stream: () => [1] });
createRoot(document.body).render(<Chat />);
`;

const CONFIG = (module, moduleResolution) => ({
  compilerOptions: {
    target: "ES2022",
    lib: ["ES2022", "DOM", "DOM.Iterable"],
    module,
    moduleResolution,
    jsx: "react-jsx",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    skipLibCheck: false,
    types: [],
  },
  include: ["src"],
});

try {
  const [packed] = JSON.parse(run(root, "npm", "pack", "--json", "--pack-destination", folder));
  const names = packed.files.map((file) => file.path);
  const strange = names.filter((name) => !/^(dist\/\w+\.(js|d\.ts)|README\.md|LICENSE|package\.json)$/.test(name));
  assert.deepEqual(strange, [], "nothing but the build is packed");
  assert.ok(names.includes("dist/index.js") && names.includes("dist/index.d.ts"));

  const files = {
    "package.json": {
      name: "fresh",
      private: true,
      type: "module",
      dependencies: { "@sapwood/react": `file:${packed.filename}`, react: "^19.1.0", "react-dom": "^19.1.0" },
      devDependencies: {
        "@types/react": devDependencies["@types/react"],
        "@types/react-dom": devDependencies["@types/react-dom"],
        typescript: devDependencies.typescript,
        vite: devDependencies.vite,
      },
    },
    "tsconfig.json": CONFIG("ESNext", "Bundler"),
    "tsconfig.node.json": CONFIG("NodeNext", "NodeNext"),
    "index.html": '<script type="module" src="/src/main.tsx"></script>',
    "src/main.tsx": MAIN,
  };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  run(folder, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline");
  run(folder, "npx", "tsc", "-p", "tsconfig.json");
  run(folder, "npx", "tsc", "-p", "tsconfig.node.json");
  run(folder, "npx", "vite", "build", "--logLevel", "error");
  console.log(`ok  ${packed.filename}: ${names.length} files, ${packed.size} bytes, installed, type-checked twice, built`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
