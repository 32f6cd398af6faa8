// Owns the timeline of a turn: a bar for each request, and beneath it what it changed in comparison with the one before.

import { useState, type ReactNode } from "react";
import type { Round } from "../contract";
import { cost, count, percent, signed } from "../format";
import { Bar } from "./bar";
import { compare, type ChangeKind, type LineChange, type RoundChange } from "./diff";
import { isThin } from "./layout";
import { sectionName } from "./sections";

interface Props {
  readonly rounds: readonly Round[];
  readonly before: Round | undefined;
  readonly selected: number;
  readonly section: string;
  readonly onSelect: (round: number, section?: string) => void;
}

export function Timeline({ rounds, before, selected, section, onSelect }: Props): ReactNode {
  const [zoomed, setZoomed] = useState<boolean>();
  const isZoomed = zoomed ?? isThin(rounds.map((round) => round.ledger));
  const scale = isZoomed ? Math.max(...rounds.map((round) => round.ledger.estimatedTokens)) : 0;
  return (
    <>
      <div className="scale" role="group" aria-label="Scale of the bars">
        <span className="muted">Bars show</span>
        <button type="button" className="quiet" aria-pressed={!isZoomed} onClick={() => setZoomed(false)}>the whole window</button>
        <button type="button" className="quiet" aria-pressed={isZoomed} onClick={() => setZoomed(true)}>what is sent</button>
      </div>
      <ol className="timeline" aria-label="Requests of this turn">
        {rounds.map((round, index) => {
          const isSelected = round.round === selected;
          return (
            <li key={round.round} className="round" data-selected={isSelected || undefined}>
              <div className="round-head">
                <button type="button" className="round-name" aria-current={isSelected ? "true" : undefined} onClick={() => onSelect(round.round)}>Request {round.round + 1}</button>
                <Spent round={round} />
              </div>
              <Bar
                ledger={round.ledger} name={`Request ${round.round + 1}`} scale={scale} selected={section} onSelect={(name) => onSelect(round.round, name)}
              />
              <Beneath round={round} />
              <Changes change={compare(rounds[index - 1] ?? before, round)} isFirst={index === 0} hasBefore={index > 0 || before !== undefined} />
            </li>
          );
        })}
      </ol>
    </>
  );
}

function Spent({ round }: { readonly round: Round }): ReactNode {
  const { estimatedTokens, window } = round.ledger;
  return (
    <span className="round-spent">
      <b>{count(estimatedTokens)}</b>{window > 0 && <> of {count(window)} tokens, {percent(estimatedTokens, window)}</>}
    </span>
  );
}

function Beneath({ round }: { readonly round: Round }): ReactNode {
  const { reportedTokens, cachedTokens, costUsd } = round.ledger;
  if (reportedTokens == null) return <p className="beneath">estimated; the provider reported nothing</p>;
  return (
    <p className="beneath">
      <span>{costUsd == null ? "cost not known" : cost(costUsd)}</span>
      <span>{count(reportedTokens)} reported</span>
      <span>{cachedTokens ? <><i className="hatch" aria-hidden="true" />{count(cachedTokens)} cached, {percent(cachedTokens, reportedTokens)}</> : "none cached"}</span>
    </p>
  );
}

const TOLD: readonly ChangeKind[] = ["summarised", "cleared", "trimmed", "failed", "added", "gone", "grew", "shrank"];
const MOST = 5;
const VERBS: Readonly<Record<ChangeKind, string>> = {
  added: "added", grew: "grew", shrank: "shrank", gone: "gone", cleared: "cleared", summarised: "summarised", trimmed: "trimmed", skipped: "left out", failed: "failed",
};

function Changes({ change, isFirst, hasBefore }: { readonly change: RoundChange; readonly isFirst: boolean; readonly hasBefore: boolean }): ReactNode {
  if (!hasBefore) return <p className="changes muted">the first request</p>;
  if (change.sections.length === 0) return <p className="changes muted">{isFirst ? "as the turn before left it" : "nothing changed"}</p>;
  // Without the lines of the turn before, all of ours would seem new.
  const lines = isFirst ? [] : TOLD.flatMap((kind) => change.lines.filter((line) => line.kind === kind));
  return (
    <div className="changes">
      <p>
        <b>{signed(change.delta)}</b> {isFirst ? "since the turn before:" : "since the last request:"}{" "}
        {change.sections.map((item) => (
          <span key={item.section} className="delta" data-section={item.section}>{sectionName(item.section)} {signed(item.delta)}</span>
        ))}
      </p>
      {lines.length > 0 && (
        <ul>
          {lines.slice(0, MOST).map((line, index) => <Change key={index} change={line} />)}
          {lines.length > MOST && <li className="muted">and {lines.length - MOST} more</li>}
        </ul>
      )}
    </div>
  );
}

function Change({ change }: { readonly change: LineChange }): ReactNode {
  return (
    <li>
      <span className="verdict" data-verdict={change.kind}>{VERBS[change.kind]}</span> {change.line.label}
      {change.delta !== 0 && <span className="muted"> {signed(change.delta)}</span>}
      {change.line.reason ? <span className="muted"> — {change.line.reason}</span> : null}
    </li>
  );
}
