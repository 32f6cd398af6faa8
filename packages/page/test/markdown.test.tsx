import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";
import { EMPTY, grow } from "../src/markdown/grow";
import { safeLink } from "../src/markdown/links";
import { decode, Markdown } from "../src/markdown/markdown";

const LONG = `# Title

A paragraph with **bold**, *words* and \`code\`.
It goes on here.

Setext
======

- one
- two
  - nested

  and a paragraph of two
- three

1. first
2. second

> quoted
still quoted

| a | b |
|---|:-:|
| 1 | 2 |

\`\`\`python
x = 1

y = 2
\`\`\`

    indented

    more of it

***

<div>html</div>

The [end](https://example.org).`;

const html = (text: string): string => renderToStaticMarkup(<Markdown text={text} />).replaceAll(' dir="auto"', "");

describe("a text that grows", () => {
  test.each([1, 3, 7, 50])("has the blocks of the whole text, in steps of %i", (step) => {
    let grown = EMPTY;
    for (let end = step; end < LONG.length + step; end += step) {
      const text = LONG.slice(0, end);
      grown = grow(grown, text);
      expect(grown.blocks).toEqual(grow(EMPTY, text).blocks);
    }
  });

  test("keeps the blocks that are complete", () => {
    const before = grow(EMPTY, "one\n\ntwo\n\nthr");
    const after = grow(before, "one\n\ntwo\n\nthree");
    expect(after.blocks.slice(0, -1)).toEqual(before.blocks.slice(0, -1));
    expect(after.blocks[0]).toBe(before.blocks[0]);
  });

  test("is parsed anew where a definition changes a link before it", () => {
    const before = grow(EMPTY, "see [it][x]\n\nmore\n\n");
    const after = grow(before, "see [it][x]\n\nmore\n\n[x]: https://example.org\n");
    expect(after.blocks).toEqual(grow(EMPTY, after.text).blocks);
  });

  test("is parsed anew where the text before it changed", () => {
    expect(grow(grow(EMPTY, "one\n\ntwo"), "# one").blocks).toEqual(grow(EMPTY, "# one").blocks);
  });
});

describe("a text that nests without end", () => {
  const indented = Array.from({ length: 1500 }, (_, depth) => `${"  ".repeat(depth)}- ${depth}`).join("\n");

  test.each([
    ["quotes", `${"> ".repeat(6000)}end`],
    ["quotes without room between", `${">".repeat(6000)}end`],
    ["lists in a line", `${"- ".repeat(3000)}end`],
    ["numbers in a line", `${"1. ".repeat(3000)}end`],
    ["lists in quotes", `${"> - ".repeat(2000)}end`],
    ["a list that goes on to the right", indented],
    ["emphasis", `${"**a *b ".repeat(2000)}end${"* c**".repeat(2000)}`],
    ["brackets", `${"[".repeat(5000)}end${"](https://example.org)".repeat(500)}`],
  ])("of %s is shown with all its words", (_, text) => {
    const shown = html(`before\n\n${text}\n\nafter`);
    expect(shown).toContain("before");
    expect(shown).toMatch(/end|1499/);
    expect(shown).toContain("after");
  }, 60_000);

  test("is Markdown as deep as a person reads it", () => {
    expect(html(`${"> ".repeat(12)}deep`).split("<blockquote>").length).toBe(13);
    expect(html(Array.from({ length: 12 }, (_, depth) => `${"  ".repeat(depth)}- ${depth}`).join("\n")).split("<ul>").length).toBe(13);
  });
});

test("the side at which a block begins is that of its words", () => {
  const shown = renderToStaticMarkup(<Markdown text={"# שלום\n\nשלום\n\n- אחד\n\n> ציטוט\n\n| א |\n|---|\n| ב |"} />);
  for (const tag of ["h3", "p", "ul", "li", "blockquote", "th", "td"]) expect(shown).toMatch(new RegExp(`<${tag}[^>]* dir="auto"`));
});

describe("markdown", () => {
  test.each([
    ["<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"],
    ["a <img src=x onerror=alert(1)> b", "&lt;img src=x onerror=alert(1)&gt;"],
    ["[x](javascript:alert(1))", "<p>x</p>"],
    ["[x](data:text/html,hello)", "<p>x</p>"],
    ["[x](vbscript:y)", "<p>x</p>"],
    ["[x](/etc/passwd)", "<p>x</p>"],
    ["![steal](https://example.org/p.png)", '<a href="https://example.org/p.png" target="_blank" rel="noopener noreferrer nofollow">steal</a>'],
    ["[x](https://example.org)", '<a href="https://example.org" target="_blank" rel="noopener noreferrer nofollow">x</a>'],
    ["a &amp; b &lt;c&gt;", "a &amp; b &lt;c&gt;"],
    ["`&amp;`", "<code>&amp;amp;</code>"],
  ])("shows %s without letting it act", (text, expected) => {
    const shown = html(text);
    expect(shown).toContain(expected);
    expect(shown).not.toMatch(/<(script|img|iframe|style)/);
  });

  test("has tables, lists, tasks and code", () => {
    const shown = html("| a |\n|--:|\n| 1 |\n\n3. c\n4. d\n\n- [x] done\n\n```py\n<b>\n```");
    expect(shown).toContain('<td data-align="right">1</td>');
    expect(shown).toContain('<ol start="3">');
    expect(shown).toContain('checked=""');
    expect(shown).toContain("<code>&lt;b&gt;</code>");
  });
});

test.each([
  ["https://example.org", "https://example.org"],
  ["mailto:a@example.org", "mailto:a@example.org"],
  [" JavaScript:alert(1)", undefined],
  ["java\nscript:alert(1)", undefined],
  ["file:///etc/passwd", undefined],
  ["#part", undefined],
])("the address %j may be opened: %j", (address, expected) => {
  expect(safeLink(address)).toBe(expected);
});

test.each([
  ["&lt;b&gt; &#65;&#x42; &unknown; &#0;", "<b> AB &unknown; &#0;"],
  ["&amp;lt;", "&lt;"],
  ["&constructor; &toString; &valueOf;", "&constructor; &toString; &valueOf;"],
])("the references of %j become characters", (text, expected) => {
  expect(decode(text)).toBe(expected);
});
