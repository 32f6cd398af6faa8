// Owns one message of the thread: what a person wrote, or an answer with its parts and the line beneath it.

import type { AssistantItem, ReplyItem, TokenCount, UserItem } from "@sapwood/react";
import { memo, type ReactNode } from "react";
import { Boundary } from "../boundary";
import { Bar } from "../context/bar";
import { figures, ledgersOf } from "../context/rounds";
import { CopyButton } from "../copy_button";
import { cost, count, percent } from "../format";
import { useActions } from "./actions";
import { FileView, PartsView } from "./parts_view";

interface Props {
  readonly item: AssistantItem;
  readonly live: boolean;
  readonly name: string;
  /** What is said beneath the thread of the error of this message. */
  readonly told?: string | undefined;
}

export const MessageView = memo(function MessageView({ item, live, name, told }: Props): ReactNode {
  return (
    <Boundary value={item} instead={<Plain item={item} name={name} />}>
      {item.role === "user" ? <UserMessage item={item} /> : <Reply item={item} live={live} name={name} told={told} />}
    </Boundary>
  );
});

/** A message that cannot be drawn: its words. */
function Plain({ item, name }: { readonly item: AssistantItem; readonly name: string }): ReactNode {
  return (
    <article className="message" aria-label={item.role === "user" ? "You" : name}>
      <p className="problem">This message cannot be drawn. Its words:</p>
      <p className="said" dir="auto">{item.role === "user" ? item.text : wordsOf(item)}</p>
    </article>
  );
}

const wordsOf = (item: ReplyItem): string => item.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");

function UserMessage({ item }: { readonly item: UserItem }): ReactNode {
  return (
    <article className="message user" aria-label="You">
      <h2 className="hidden">You</h2>
      {item.text !== "" && <p className="said" dir="auto">{item.text}</p>}
      {item.files && <div className="files">{item.files.map((file, index) => <FileView key={index} file={file} />)}</div>}
    </article>
  );
}

function Reply({ item, live, name, told }: Omit<Props, "item"> & { readonly item: ReplyItem }): ReactNode {
  const isEmpty = item.parts.every((part) => part.type === "ledger");
  return (
    <article className="message reply" aria-label={name} aria-busy={live}>
      <h2 className="hidden">{name}</h2>
      {isEmpty && live && <p className="pending"><i className="pulse" aria-hidden="true" />Asking the model</p>}
      <PartsView parts={item.parts} live={live} />
      {isFailed(item, live) && item.error !== told && <p className="problem">{item.error}</p>}
      <TurnFooter item={item} live={live} />
    </article>
  );
}

/** Say what a turn used: `6,120 tokens in (69 % cached), 312 out`. What is cached is a part of what went in. */
export function spent({ inputTokens = 0, outputTokens = 0, cachedTokens = 0 }: TokenCount): string {
  const cached = cachedTokens > 0 ? ` (${percent(cachedTokens, inputTokens)} cached)` : "";
  return `${count(inputTokens)} tokens in${cached}, ${count(outputTokens)} out`;
}

/** A run that failed and was then resumed keeps the error of its first part. */
function isFailed(item: ReplyItem, live: boolean): boolean {
  return item.error !== undefined && !live && ["", "error", undefined].includes(item.metadata?.stoppedBy);
}

const ENDS: Readonly<Record<string, string>> = {
  cancelled: "stopped", max_tokens: "cut off at the token limit of an answer", max_rounds: "ended at the limit of requests", usage_limit: "ended at a limit",
  output_missing: "ended without the output", stuck: "ended, as it repeated itself", refusal: "the model refused", error: "failed", approval: "waits for you", limit_ask: "waits for you",
};

function TurnFooter({ item, live }: { readonly item: ReplyItem; readonly live: boolean }): ReactNode {
  const { openContext } = useActions();
  const ledgers = ledgersOf(item);
  const last = ledgers.at(-1);
  const usage = item.metadata?.usage;
  const end = ENDS[item.metadata?.stoppedBy ?? ""];
  if (last === undefined && end === undefined) return null;
  const said = wordsOf(item);
  return (
    <footer className="turn">
      {last !== undefined && (
        <button type="button" className="turn-context" onClick={() => openContext(item.id)} aria-label={`Context of this answer: ${ledgers.length === 1 ? "one request" : `${ledgers.length} requests`}`}>
          <Bar ledger={figures(last)} name="The window" size="small" />
          <span>Context</span>
        </button>
      )}
      <span className="turn-facts">
        {end !== undefined && !live && <span className="turn-end">{end}</span>}
        {ledgers.length > 0 && <span>{ledgers.length === 1 ? "1 request" : `${ledgers.length} requests`}</span>}
        {usage && <span>{spent(usage)}</span>}
        {usage?.costUsd !== undefined && <span>{cost(usage.costUsd)}</span>}
      </span>
      {!live && said !== "" && <CopyButton text={said} label="Copy the answer" />}
    </footer>
  );
}
