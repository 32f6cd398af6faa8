// Owns the scrolling thread: of thousands of messages only those in sight are in the document. It stays at the end while
// an answer grows, unless the reader scrolled away, and keeps its place when older messages are put above.

import { useVirtualizer } from "@tanstack/react-virtual";
import type { AssistantItem } from "@sapwood/react";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { MessageView } from "./message_view";

interface Props {
  readonly items: readonly AssistantItem[];
  readonly live: boolean;
  readonly name: string;
  readonly hasOlder: boolean;
  readonly loadOlder: () => Promise<void>;
  /** What `children` say of an error: it is not said twice. */
  readonly told?: string | undefined;
  /** What stands below the newest message: a limit, an error, an offer to go on. */
  readonly children?: ReactNode;
}

const NEAR_END = 80;
const NEAR_TOP = 1200;
const TOP_ROOM = 40;

export function ThreadView({ items, live, name, hasOlder, loadOlder, told, children }: Props): ReactNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [isAway, setAway] = useState(false);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.role === "user" ? 84 : 220),
    getItemKey: (index) => items[index]?.id ?? index,
    overscan: 4,
    paddingStart: TOP_ROOM,
    paddingEnd: 24,
    anchorTo: "end",
    followOnAppend: true,
    scrollEndThreshold: NEAR_END,
    // The resize observer may run within a frame; then a streamed answer grows without a frame of delay.
    useAnimationFrameWithResizeObserver: false,
  });
  const toEnd = useCallback(() => rows.scrollToEnd(), [rows]);
  // A thread opens at its end, and what a person has just sent is always shown.
  const newest = items.findLast((item) => item.role === "user")?.id;
  useLayoutEffect(toEnd, [newest, toEnd]);
  useOlder(scroller, hasOlder, loadOlder, items.length);
  const look = useCallback(() => setAway(distanceFromEnd(scroller.current) > NEAR_END), []);
  useEffect(look, [look, rows.getTotalSize()]);
  // A scroll to the end goes on while the answer grows; a hand on the thread takes it over at once.
  const takeOver = rows.cancelScroll;
  return (
    <section className="thread" aria-label="Conversation">
      <div className="scroller" ref={scroller} onScroll={look} onWheel={takeOver} onPointerDown={takeOver} onTouchMove={takeOver} onKeyDown={takeOver} tabIndex={0} role="region" aria-label="Messages">
        <div className="rows" style={{ height: `${rows.getTotalSize()}px` }}>
          {hasOlder && <p className="older muted">Older messages come as you scroll up</p>}
          {rows.getVirtualItems().map((row) => {
            const item = items[row.index];
            const isLast = row.index === items.length - 1;
            return item && (
              <div key={row.key} className="row-holder" data-index={row.index} ref={rows.measureElement} style={{ transform: `translateY(${row.start}px)` }}>
                <div className="measure">
                  <MessageView item={item} live={live && isLast} name={name} told={isLast ? told : undefined} />
                  {isLast && children}
                </div>
              </div>
            );
          })}
        </div>
      </div>
      {isAway && <button type="button" className="button to-end" onClick={toEnd}>To the end</button>}
    </section>
  );
}

function distanceFromEnd(element: HTMLElement | null): number {
  return element ? element.scrollHeight - element.clientHeight - element.scrollTop : 0;
}

/** Load older messages when the reader comes near the top, one page at a time. */
function useOlder(scroller: React.RefObject<HTMLDivElement | null>, hasOlder: boolean, loadOlder: () => Promise<void>, length: number): void {
  const loading = useRef(false);
  const check = useCallback(() => {
    const element = scroller.current;
    if (!element || !hasOlder || loading.current || element.scrollTop > NEAR_TOP || length === 0) return;
    loading.current = true;
    // What fails is told by the store's `error`.
    void loadOlder().catch(() => undefined).finally(() => { loading.current = false; });
  }, [scroller, hasOlder, loadOlder, length]);
  useEffect(() => {
    const element = scroller.current;
    element?.addEventListener("scroll", check, { passive: true });
    return () => element?.removeEventListener("scroll", check);
  }, [scroller, check]);
}
