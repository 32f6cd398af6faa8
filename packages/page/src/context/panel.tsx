// Owns the context view: the window of each request of a turn, seen from inside.

import type { AssistantItem, ReplyItem } from "@sapwood/react";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { getJson, path } from "../api";
import type { Round, RunContext } from "../contract";
import { Problem } from "../problem";
import { cost, count, percent } from "../format";
import { ledgersOf, mergeRounds, roundBefore, sumOf } from "./rounds";
import { SectionTable } from "./section_table";
import { Timeline } from "./timeline";

interface Props {
  readonly reply: ReplyItem;
  /** The answer of the turn before, to compare the first request with. */
  readonly earlier: AssistantItem | undefined;
  readonly title: string;
  readonly onClose: () => void;
}

export function ContextPanel({ reply, earlier, title, onClose }: Props): ReactNode {
  const runId = reply.metadata?.runId ?? reply.id;
  const notes = ledgersOf(reply);
  const { context, error, retry } = useRunContext(runId, `${notes.length}-${notes.at(-1)?.reportedTokens ?? ""}-${reply.metadata?.stoppedBy ?? ""}`);
  const rounds = useMemo(() => mergeRounds(context, ledgersOf(reply)), [context, reply]);
  const before = useMemo(() => roundBefore(earlier), [earlier]);
  // Undefined follows the newest request while the turn goes on.
  const [chosen, setChosen] = useState<number>();
  const [section, setSection] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  useEffect(() => { setChosen(undefined); setSection(""); }, [runId]);
  const index = rounds.findIndex((round) => round.round === chosen);
  const at = index < 0 ? rounds.length - 1 : index;
  const round = rounds[at];
  return (
    <aside className="panel" aria-labelledby="context-title">
      <header className="panel-head">
        <div>
          <h2 id="context-title" ref={heading} tabIndex={-1}>Context</h2>
          <p className="muted panel-turn" title={title}>{title}</p>
        </div>
        <button type="button" className="quiet" onClick={onClose} aria-label="Close the context view">Close</button>
      </header>
      <div className="panel-body">
        {error !== undefined && <Problem error={error}><button type="button" className="button" onClick={retry}>Try again</button></Problem>}
        {round === undefined
          ? <p className="muted">{error ? "" : "No request was made yet."}</p>
          : (
            <>
              <Together rounds={rounds} />
              <Timeline
                rounds={rounds} before={before} selected={round.round} section={section}
                onSelect={(number, name) => { setChosen(number); if (name !== undefined) setSection(name); }}
              />
              <h3 className="panel-sub">Request {round.round + 1}, piece by piece</h3>
              {context?.complete === false && <p className="muted panel-note">The server keeps the texts of its newest runs. Of this one there is what its record holds.</p>}
              <SectionTable round={round} before={rounds[at - 1] ?? before} open={section} onOpen={setSection} />
            </>
          )}
      </div>
    </aside>
  );
}

function Together({ rounds }: { readonly rounds: readonly Round[] }): ReactNode {
  const sum = sumOf(rounds);
  return (
    <dl className="together">
      <div><dt>{sum.requests === 1 ? "request" : "requests"}</dt><dd>{count(sum.requests)}</dd></div>
      <div><dt>tokens in</dt><dd>{count(sum.tokens)}</dd></div>
      <div><dt>cached</dt><dd>{sum.cached > 0 ? percent(sum.cached, sum.tokens) : "none"}</dd></div>
      <div><dt>cost</dt><dd>{sum.cost === undefined ? "not known" : cost(sum.cost)}</dd></div>
    </dl>
  );
}

/** Read the ledger and the texts of a run; again whenever `version` changes. */
function useRunContext(runId: string, version: string): { readonly context: RunContext | undefined; readonly error: unknown; readonly retry: () => void } {
  const [context, setContext] = useState<RunContext>();
  const [error, setError] = useState<unknown>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    getJson<RunContext>(path("runs", runId, "context"), abort.signal).then(
      (read) => { setContext(read); setError(undefined); },
      (reason: unknown) => { if (!abort.signal.aborted) setError(reason); },
    );
    return () => abort.abort();
  }, [runId, version, tries]);
  return { context: context?.runId === runId ? context : undefined, error, retry: () => setTries((count) => count + 1) };
}
