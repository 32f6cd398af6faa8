// Owns which addresses a link may have. The text comes from a model: anything else is shown as words.

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/** Return the address where it may be opened, undefined where it may not. */
export function safeLink(address: string): string | undefined {
  try {
    return ALLOWED.has(new URL(address.trim()).protocol) ? address.trim() : undefined;
  } catch {
    return undefined;
  }
}
