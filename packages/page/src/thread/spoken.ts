// Owns what a screen reader is told of an answer: each paragraph when it is complete, never a token.

import type { AssistantItem } from "@sapwood/react";

/** Return the paragraphs of an answer that will not change any more. */
export function spoken(item: AssistantItem | undefined, live: boolean): readonly string[] {
  if (item?.role !== "assistant") return [];
  return item.parts.flatMap((part, index) => {
    if (part.type !== "text") return [];
    const paragraphs = part.text.split(/\n{2,}/).map((text) => text.trim());
    const isGrowing = live && index === item.parts.length - 1;
    return (isGrowing ? paragraphs.slice(0, -1) : paragraphs).filter(Boolean);
  });
}
