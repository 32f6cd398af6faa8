// Owns the blocks of a text that grows. Only the last block is parsed again when the text gets longer, so that a long
// answer costs the same at its end as at its beginning. Blocks that did not change keep their identity.

import type { Token } from "marked";
import { lex } from "./lexer";

export interface Block {
  /** Where the block begins in the text: its name among its siblings. */
  readonly start: number;
  readonly token: Token;
}

export interface Grown {
  readonly text: string;
  readonly blocks: readonly Block[];
}

export const EMPTY: Grown = { text: "", blocks: [] };

const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;

/** Return the blocks of a text, using those of an earlier, shorter one where they still hold. */
export function grow(before: Grown, text: string): Grown {
  if (text === before.text) return before;
  // A definition changes links in blocks that stand before it, so nothing may be kept.
  if (!text.startsWith(before.text) || DEFINITION.test(text)) return { text, blocks: parse(text, 0) };
  const kept = before.blocks.slice(0, lastOpen(before.blocks));
  const from = before.blocks[kept.length]?.start ?? 0;
  return { text, blocks: [...kept, ...parse(text.slice(from), from)] };
}

/** Return the index of the newest block that has content: the ones before it can no longer change. */
function lastOpen(blocks: readonly Block[]): number {
  const open = blocks.findLastIndex((block) => block.token.type !== "space");
  return Math.max(0, open);
}

function parse(text: string, offset: number): Block[] {
  let start = offset;
  return lex(text).map((token) => {
    const block = { start, token };
    start += token.raw.length;
    return block;
  });
}
