// @vitest-environment node
// The programs of the pages are type-checked as they stand.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const pages = ["README.md", "../../docs/react.md"].filter((page) => existsSync(root + page));

const programs = pages.flatMap((page) =>
  [...readFileSync(root + page, "utf8").matchAll(/^```tsx\n([\s\S]*?)^```$/gm)].map(
    (found, nth) => [`${page} ${nth + 1}`, found[1] as string] as const,
  ),
);

test("the pages hold programs", () => expect(programs.length).toBeGreaterThan(0));

test("the programs of the pages are right, as far as their types tell", () => {
  const texts = new Map(programs.map(([, text], at) => [`${root}test/program_${at}.tsx`, text]));
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    jsx: ts.JsxEmit.ReactJSX,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
    types: [],
    paths: { "@sapwood/react": [`${root}src/index.ts`] },
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (name) => texts.has(name) || fileExists(name);
  host.readFile = (name) => texts.get(name) ?? readFile(name);
  host.getSourceFile = (name, ...more) => {
    const text = texts.get(name);
    return text === undefined ? getSourceFile(name, ...more) : ts.createSourceFile(name, text, ts.ScriptTarget.ES2022);
  };
  const found = ts.getPreEmitDiagnostics(ts.createProgram([...texts.keys()], options, host));
  expect(found.map((item) => ts.flattenDiagnosticMessageText(item.messageText, "\n"))).toEqual([]);
});
