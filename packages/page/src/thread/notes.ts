// Owns how notes on the context are put together: what a source did several times in a row is told once.

import type { AssistantPart, ContextPart } from "@sapwood/react";

/** Return the parts with notes of one source and kind that follow one another joined; other parts stay what they are. */
export function joinNotes(parts: readonly AssistantPart[]): readonly AssistantPart[] {
  const joined: AssistantPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (part.type === "context" && last?.type === "context" && isAlike(last, part)) joined[joined.length - 1] = join(last, part);
    else joined.push(part);
  }
  return joined;
}

const isAlike = (one: ContextPart, other: ContextPart): boolean =>
  one.source === other.source && one.op === other.op && one.skill === other.skill;

const join = (one: ContextPart, other: ContextPart): ContextPart => ({
  ...one,
  records: [...(one.records ?? []), ...(other.records ?? [])],
  tools: [...(one.tools ?? []), ...(other.tools ?? [])],
});
