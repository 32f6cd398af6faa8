// Owns how Markdown looks. Tokens become React elements; no text is ever taken as HTML, so there is nothing to sanitise.

import type { Token, Tokens } from "marked";
import { Fragment, memo, useRef, type ReactNode } from "react";
import { CopyButton } from "../copy_button";
import { EMPTY, grow, type Block, type Grown } from "./grow";
import { safeLink } from "./links";

export function Markdown({ text }: { readonly text: string }): ReactNode {
  const grown = useRef<Grown>(EMPTY);
  grown.current = grow(grown.current, text);
  return (
    <div className="markdown">
      {grouped(grown.current.blocks).map((group, index) => <Group key={index} blocks={group} />)}
    </div>
  );
}

const GROUP = 24;

function grouped(list: readonly Block[]): readonly (readonly Block[])[] {
  return Array.from({ length: Math.ceil(list.length / GROUP) }, (_, index) => list.slice(index * GROUP, (index + 1) * GROUP));
}

// React walks all children of what it draws; groups that did not change are one step each.
const Group = memo(
  function Group({ blocks: list }: { readonly blocks: readonly Block[] }): ReactNode {
    return list.map((block) => <BlockView key={block.start} token={block.token} />);
  },
  (before, after) => before.blocks.length === after.blocks.length && before.blocks.every((block, index) => block === after.blocks[index]),
);

const BlockView = memo(function BlockView({ token }: { readonly token: Token }): ReactNode {
  return renderBlock(token as Tokens.Generic);
});

function renderBlock(token: Tokens.Generic): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return <Heading depth={(token as Tokens.Heading).depth}>{inline(token.tokens)}</Heading>;
    case "paragraph":
      return <p dir="auto">{inline(token.tokens)}</p>;
    case "text":
      return <>{token.tokens ? inline(token.tokens) : decode(token["text"] as string)}</>;
    case "code":
      return <CodeBlock code={token as Tokens.Code} />;
    case "blockquote":
      return <blockquote dir="auto">{blocks(token.tokens)}</blockquote>;
    case "list":
      return <List list={token as Tokens.List} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    default:
      return <p dir="auto">{token.raw.trim()}</p>;
  }
}

function blocks(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{renderBlock(token as Tokens.Generic)}</Fragment>);
}

// The page has an h1 and each message an h2, so a heading of an answer begins at the third level.
function Heading({ depth, children }: { readonly depth: number; readonly children: ReactNode }): ReactNode {
  const Tag = (["h3", "h4", "h5", "h6", "h6", "h6"] as const)[depth - 1] ?? "h6";
  return <Tag data-depth={depth} dir="auto">{children}</Tag>;
}

function CodeBlock({ code }: { readonly code: Tokens.Code }): ReactNode {
  const language = code.lang?.match(/^\S+/)?.[0] ?? "";
  return (
    <figure className="code-block">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={code.text} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} aria-label={`Code${language ? `, ${language}` : ""}`}>
        <code>{code.text}</code>
      </pre>
    </figure>
  );
}

function List({ list }: { readonly list: Tokens.List }): ReactNode {
  const items = list.items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined} dir="auto">
      {item.task && <input type="checkbox" checked={item.checked === true} readOnly disabled aria-label={item.checked ? "done" : "to do"} />}
      {blocks(item.tokens.filter((token) => token.type !== "checkbox"))}
    </li>
  ));
  return list.ordered ? <ol start={list.start === "" ? 1 : list.start} dir="auto">{items}</ol> : <ul dir="auto">{items}</ul>;
}

function Table({ table }: { readonly table: Tokens.Table }): ReactNode {
  return (
    <div className="table-scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} scope="col" dir="auto" data-align={cell.align ?? undefined}>{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} dir="auto" data-align={cell.align ?? undefined}>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Fragment key={index}>{renderInline(token as Tokens.Generic)}</Fragment>);
}

function renderInline(token: Tokens.Generic): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{token["text"] as string}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link link={token as Tokens.Link} />;
    case "image":
      return <Picture image={token as Tokens.Image} />;
    case "text":
      return token.tokens ? inline(token.tokens) : decode(token["text"] as string);
    case "escape":
      return decode(token["text"] as string);
    default:
      return token.raw;
  }
}

function Link({ link }: { readonly link: Tokens.Link }): ReactNode {
  const address = safeLink(link.href);
  if (address === undefined) return <>{inline(link.tokens)}</>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer nofollow" title={link.title ?? undefined}>{inline(link.tokens)}</a>
  );
}

// An address in an answer would be fetched the moment it is shown: a way to carry words out. So only data is shown.
function Picture({ image }: { readonly image: Tokens.Image }): ReactNode {
  if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(image.href)) return <img src={image.href} alt={image.text} />;
  const address = safeLink(image.href);
  if (address === undefined) return <>{image.text}</>;
  return <a href={address} target="_blank" rel="noopener noreferrer nofollow">{image.text || address}</a>;
}

const ENTITIES = new Map(Object.entries({ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–", copy: "©", rarr: "→", times: "×", deg: "°", euro: "€" }));

/** Turn character references into the characters they stand for; an unknown one stays as it is. */
export function decode(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return ENTITIES.get(name.toLowerCase()) ?? whole;
    const code = decimal === undefined ? parseInt(hex ?? "", 16) : parseInt(decimal, 10);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
