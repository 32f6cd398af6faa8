// Owns how a person answers a limit at which the run waits: more of it, or an end with what there is.

import type { LimitNote } from "@sapwood/react";
import { useId, useState, type ReactNode } from "react";
import { cost, count, duration } from "../format";
import { useActions } from "./actions";

const NAMES: Readonly<Record<LimitNote["kind"], string>> = {
  total_tokens: "tokens", input_tokens: "input tokens", output_tokens: "output tokens", requests: "requests to the model",
  tool_calls: "tool calls", tool: "calls", cost: "cost", seconds: "time",
};

/** Say how much of a limit was used: `5 of 5 tool calls`. */
export function limitWords(limit: LimitNote): string {
  const name = limit.kind === "tool" ? `calls of ${limit.tool ?? limit.name}` : NAMES[limit.kind] ?? limit.kind;
  return `${amount(limit, limit.used)} of ${amount(limit, limit.limit)} ${name}`;
}

function amount(limit: LimitNote, value: number): string {
  if (limit.kind === "cost") return cost(value);
  return limit.kind === "seconds" ? duration(value * 1000) : count(value);
}

export function LimitCard({ limits }: { readonly limits: readonly LimitNote[] }): ReactNode {
  const { extend } = useActions();
  const [amounts, setAmounts] = useState<Readonly<Record<string, string>>>({});
  const id = useId();
  const read = (limit: LimitNote): number => Number(amounts[limit.name] ?? limit.limit);
  const isValid = limits.every((limit) => Number.isFinite(read(limit)) && read(limit) > 0);
  return (
    <form className="approval" aria-label="A limit was reached" onSubmit={(event) => {
      event.preventDefault();
      if (isValid) extend(Object.fromEntries(limits.map((limit) => [limit.name, read(limit)])));
    }}>
      <p className="approval-title">A limit was reached.</p>
      {limits.map((limit) => (
        <div className="limit" key={limit.name}>
          <span>{limitWords(limit)}</span>
          <label htmlFor={`${id}-${limit.name}`}>Allow more{limit.kind === "cost" ? " (USD)" : limit.kind === "seconds" ? " (seconds)" : ""}</label>
          <input
            id={`${id}-${limit.name}`} type="number" min="0" step="any" value={amounts[limit.name] ?? String(limit.limit)}
            onChange={(event) => setAmounts({ ...amounts, [limit.name]: event.target.value })}
          />
        </div>
      ))}
      <div className="row">
        <button type="submit" className="button primary" aria-disabled={!isValid}>Extend</button>
        <button type="button" className="button" onClick={() => extend({})}>Let it finish</button>
      </div>
    </form>
  );
}
