// Owns the sections of a window: their order, which is the order in a request, and what people call them.

export const SECTIONS = ["system", "tools", "skills", "memory", "retrieval", "summary", "history", "tool_results", "prompt", "files"] as const;

export type Section = (typeof SECTIONS)[number];

const NAMES: Readonly<Record<string, string>> = { tool_results: "results" };

export const sectionName = (section: string): string => NAMES[section] ?? section;

/** Return the sections that a ledger has, ours in their order, then those of a newer server. */
export function orderSections(sections: Readonly<Record<string, number>>): readonly string[] {
  const known: readonly string[] = SECTIONS;
  const unknown = Object.keys(sections).filter((section) => !known.includes(section)).sort();
  return [...known.filter((section) => (sections[section] ?? 0) > 0), ...unknown];
}
