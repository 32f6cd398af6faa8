// Owns the table of one request: its sections in numbers, and below each the lines of the ledger with reasons and texts.

import { Fragment, useId, type ReactNode } from "react";
import type { LedgerLine, Round } from "../contract";
import { count, percent, signed } from "../format";
import { verdictOf } from "./diff";
import { entriesOf, sectionsToTell, type Entry } from "./pieces";
import { sectionName } from "./sections";

interface Props {
  readonly round: Round;
  readonly before: Round | undefined;
  readonly open: string;
  readonly onOpen: (section: string) => void;
}

export function SectionTable({ round, before, open, onOpen }: Props): ReactNode {
  const id = useId();
  const names = sectionsToTell(round, before);
  const { window, estimatedTokens } = round.ledger;
  const whole = window || estimatedTokens;
  return (
    <table className="sections">
      <caption className="hidden">Request {round.round + 1}: tokens by section</caption>
      <thead>
        <tr><th scope="col">Section</th><th scope="col">Tokens</th><th scope="col">{window ? "Of the window" : "Share"}</th><th scope="col">Change</th></tr>
      </thead>
      <tbody>
        {names.map((name) => {
          const tokens = round.ledger.sections[name] ?? 0;
          const isOpen = name === open;
          return (
            <Fragment key={name}>
              <tr data-open={isOpen || undefined}>
                <th scope="row">
                  <button type="button" aria-expanded={isOpen} aria-controls={`${id}-${name}`} onClick={() => onOpen(isOpen ? "" : name)}>
                    <i className="swatch" data-section={name} aria-hidden="true" />{sectionName(name)}
                  </button>
                </th>
                <td>{count(tokens)}</td>
                <td>{tokens > 0 ? percent(tokens, whole) : ""}</td>
                <td>{before ? changeOf(before, name, tokens) : ""}</td>
              </tr>
              {isOpen && <tr className="lines"><td colSpan={4} id={`${id}-${name}`}><Lines entries={entriesOf(round, name)} /></td></tr>}
            </Fragment>
          );
        })}
        {window > 0 && (
          <tr className="free-row">
            <th scope="row"><span><i className="swatch free" aria-hidden="true" />free</span></th>
            <td>{count(Math.max(0, window - estimatedTokens))}</td><td>{percent(Math.max(0, window - estimatedTokens), whole)}</td><td />
          </tr>
        )}
      </tbody>
    </table>
  );
}

function changeOf(before: Round, name: string, tokens: number): string {
  const delta = tokens - (before.ledger.sections[name] ?? 0);
  return delta === 0 ? "" : signed(delta);
}

function Lines({ entries }: { readonly entries: readonly Entry[] }): ReactNode {
  if (entries.length === 0) return <p className="muted">The server keeps no lines for this section.</p>;
  return <ul className="ledger">{entries.map((entry, index) => <EntryView key={index} entry={entry} />)}</ul>;
}

function EntryView({ entry }: { readonly entry: Entry }): ReactNode {
  const head = (
    <>
      <span className="entry-label">{entry.label}</span>
      {entry.line && <span className="entry-tokens">{count(entry.line.tokens)}</span>}
      {entry.line ? <Why line={entry.line} /> : <span className="entry-why entry-peek">{entry.text?.slice(0, 160)}</span>}
    </>
  );
  if (entry.text === undefined) return <li className="entry" data-verdict={entry.line?.verdict}><div className="entry-head">{head}</div></li>;
  return (
    <li className="entry" data-verdict={entry.line?.verdict}>
      <details>
        <summary className="entry-head">{head}</summary>
        <pre tabIndex={0} aria-label={`Text of ${entry.label}`}>{entry.text}</pre>
      </details>
    </li>
  );
}

function Why({ line }: { readonly line: LedgerLine }): ReactNode {
  return (
    <span className="entry-why">
      <span className="verdict" data-verdict={verdictOf(line)}>{verdictOf(line)}</span> from {line.source}{line.reason ? `: ${line.reason}` : ""}
    </span>
  );
}
