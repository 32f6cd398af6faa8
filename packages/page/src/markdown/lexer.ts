// Owns how deep a text may nest. A model that loses itself writes thousands of ">" or "-" in a row; each level is a call of
// the lexer and of what draws its tokens, and reads all that is below it once more.

import { Lexer, type MarkedToken, type Token, type TokensList } from "marked";

/** Levels of lists and quotes, and of emphasis and links: what lies deeper is shown as it was written. */
const MOST_BLOCKS = 24;
const MOST_INLINE = 48;

class ShallowLexer extends Lexer {
  private blockDepth = 0;
  private inlineDepth = 0;

  override blockTokens(src: string, tokens: Token[] = [], lastParagraphClipped?: boolean): TokensList {
    this.blockDepth += 1;
    try {
      if (this.blockDepth <= MOST_BLOCKS) return super.blockTokens(src, tokens, lastParagraphClipped) as TokensList;
      if (src !== "") tokens.push(asWritten(src));
      return tokens as TokensList;
    } finally {
      this.blockDepth -= 1;
    }
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    this.inlineDepth += 1;
    try {
      if (this.inlineDepth <= MOST_INLINE) return super.inlineTokens(src, tokens);
      if (src !== "") tokens.push(words(src));
      return tokens;
    } finally {
      this.inlineDepth -= 1;
    }
  }
}

/** Return the blocks of a text; one that cannot be read as Markdown is a paragraph of its own words. */
export function lex(text: string): readonly Token[] {
  try {
    return new ShallowLexer({ gfm: true }).lex(text);
  } catch {
    // Words that are shown plainly are worth more than an answer that is not shown at all.
    return [asWritten(text)];
  }
}

const words = (text: string): MarkedToken => ({ type: "text", raw: text, text, escaped: false });

const asWritten = (text: string): MarkedToken => ({ type: "paragraph", raw: text, text, tokens: [words(text)] });
