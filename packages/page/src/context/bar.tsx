// Owns the drawing of a window: its sections in the order of a request, the cached beginning hatched, the rest free.

import type { ReactNode } from "react";
import { count, percent } from "../format";
import { layOut, type Figures, type Layout } from "./layout";
import { sectionName } from "./sections";

interface Props {
  readonly ledger: Figures;
  readonly name: string;
  readonly selected?: string;
  readonly onSelect?: (section: string) => void;
  readonly scale?: number;
  readonly size?: "small" | "large";
}

// How many letters a bar has room for, about; words that would be cut are left to the table.
const LETTERS = 68;
const fits = (name: string, width: number): boolean => width * LETTERS >= name.length + 1;

export function Bar({ ledger, name, selected, onSelect, scale = 0, size = "large" }: Props): ReactNode {
  const layout = layOut(ledger, scale);
  return (
    <div className="bar" data-size={size} role="img" aria-label={`${name}: ${spoken(layout)}`}>
      {layout.segments.map((segment) => (
        <div
          key={segment.section} className="segment" data-section={segment.section} data-selected={segment.section === selected || undefined}
          style={{ width: `${segment.width * 100}%` }} title={`${sectionName(segment.section)}: ${count(segment.tokens)} tokens, ${percent(segment.tokens, layout.whole)}`}
          onClick={onSelect && (() => onSelect(segment.section))}
        >
          {size === "large" && fits(sectionName(segment.section), segment.width) && <span>{sectionName(segment.section)}<b>{count(segment.tokens)}</b></span>}
        </div>
      ))}
      {scale === 0 && layout.free > 0 && (
        <div className="segment free" title={`free: ${count(layout.free)} tokens, ${percent(layout.free, layout.whole)}`}>
          {size === "large" && fits("free", layout.free / layout.whole) && <span>free<b>{count(layout.free)}</b></span>}
        </div>
      )}
      {layout.cached > 0 && <div className="cached" style={{ width: `${layout.cached * 100}%` }} title={`cached: ${count(layout.cachedTokens)} tokens`} />}
    </div>
  );
}

function spoken(layout: Layout): string {
  const parts = layout.segments.map((segment) => `${sectionName(segment.section)} ${count(segment.tokens)}`);
  if (layout.free > 0) parts.push(`free ${count(layout.free)}`);
  if (layout.cachedTokens > 0) parts.push(`of these ${count(layout.cachedTokens)} cached`);
  if (layout.over > 0) parts.push(`${count(layout.over)} beyond the window`);
  return `${parts.join(", ")} tokens`;
}
