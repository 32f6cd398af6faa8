// Owns what a screen reader is told of an answer: each paragraph when it is complete, never a token.

import type { AssistantItem } from "@sapwood/react";

/** The paragraphs of a text that another paragraph follows, and where that one begins. */
export interface Split {
  readonly text: string;
  readonly done: readonly string[];
  readonly from: number;
}

/** What is known of the texts of an answer, by their places among its parts. */
export type Heard = Map<number, Split>;

/** Return the paragraphs of an answer that will not change any more. heard: kept from piece to piece, so that only new words are read. */
export function spoken(item: AssistantItem | undefined, live: boolean, heard: Heard = new Map()): readonly string[] {
  if (item?.role !== "assistant") return [];
  return item.parts.flatMap((part, index) => {
    if (part.type !== "text") return [];
    const known = split(heard.get(index), part.text);
    heard.set(index, known);
    const isGrowing = live && index === item.parts.length - 1;
    const last = isGrowing ? "" : part.text.slice(known.from).trim();
    return last === "" ? known.done : [...known.done, last];
  });
}

function split(before: Split | undefined, text: string): Split {
  if (before?.text === text) return before;
  const { done, from } = before !== undefined && text.startsWith(before.text) ? before : { done: [], from: 0 };
  const border = text.lastIndexOf("\n\n");
  if (border < from) return { text, done, from };
  const fresh = text.slice(from, border).split(/\n{2,}/).map((paragraph) => paragraph.trim()).filter(Boolean);
  return { text, done: [...done, ...fresh], from: border + 2 };
}

/** The words of a text that white space follows, and where the rest begins. */
export interface Counted {
  readonly text: string;
  readonly done: number;
  readonly from: number;
}

export const NO_WORDS: Counted = { text: "", done: 0, from: 0 };

/** Count the words of a text that has grown, from where it was counted before. */
export function counted(before: Counted, text: string): Counted {
  const { done, from } = text.startsWith(before.text) ? before : NO_WORDS;
  const rest = text.slice(from);
  const border = rest.search(/\s\S*$/);
  return border < 0 ? { text, done, from } : { text, done: done + words(rest.slice(0, border)), from: from + border };
}

export const total = ({ text, done, from }: Counted): number => done + words(text.slice(from));

const words = (text: string): number => text.split(/\s+/).filter(Boolean).length;
