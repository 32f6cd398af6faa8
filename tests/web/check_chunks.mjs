// Reads chunks, one JSON a line, and holds each to the schema that `ai` 6 parses streams with.
// Prints {checked, problems: [{line, problem}]}.
import { createInterface } from "node:readline";
import { uiMessageChunkSchema } from "ai";

const schema = uiMessageChunkSchema();
const problems = [];
let checked = 0;
for await (const text of createInterface({ input: process.stdin })) {
  if (text.trim() === "") continue;
  checked += 1;
  const result = await schema.validate(JSON.parse(text));
  if (!result.success) problems.push({ line: checked, problem: String(result.error).slice(0, 500) });
}
console.log(JSON.stringify({ checked, problems }));
