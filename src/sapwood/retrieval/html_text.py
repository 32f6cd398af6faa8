"""HTML as Markdown: what a reader would read, with its headings, lists, tables and code.

Laws: what is not shown to a reader (scripts, styles, menus) is left out; nothing is fetched and nothing is run; broken
HTML is read as far as it goes, and never raises.
"""

import re
from html.parser import HTMLParser

_LEFT_OUT = frozenset(
    (
        *("script", "style", "noscript", "template", "nav", "aside", "footer", "form", "button", "select", "svg"),
        *("math", "iframe", "object", "canvas", "dialog"),
    )
)
_BLOCKS = frozenset(
    (
        *("p", "div", "section", "article", "main", "header", "figure", "figcaption", "blockquote", "ul", "ol", "dl"),
        *("dt", "dd", "table", "address", "details", "summary", "body", "hr", "fieldset"),
    )
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_MANY_LINES = re.compile(r"\n{3,}")
_DEEPEST = 400


def html_to_markdown(html: str) -> tuple[str, str]:
    """Return the text of a page as Markdown, and its title.

    >>> html_to_markdown("<title>Bees</title><nav>Home</nav><h2>Food</h2><p>They like <b>lavender</b>.")
    ('## Food\\n\\nThey like lavender.', 'Bees')
    """
    parser = _Reader()
    parser.feed(html)
    parser.close()
    return parser.text(), _BLANKS.sub(" ", "".join(parser.title)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self._out: list[str] = []
        self._open: list[str] = []  # of the elements that are left out, the innermost last
        self._in_title = False
        self._code = 0
        self._cells = 0

    def text(self) -> str:
        lines = [line if "```" in line else line.rstrip() for line in "".join(self._out).split("\n")]
        return _MANY_LINES.sub("\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._open:
            if tag not in _VOID and len(self._open) < _DEEPEST:
                self._open.append(tag)
        elif tag in _LEFT_OUT or _is_hidden(attrs):
            if tag not in _VOID:
                self._open.append(tag)
        elif tag == "title":
            self._in_title = True
        else:
            self._begin(tag, dict(attrs))

    def _begin(self, tag: str, attrs: dict[str, str | None]) -> None:
        if tag in _HEADINGS:
            self._break(2)
            self._out.append(f"{_HEADINGS[tag]} ")
        elif tag == "pre":
            self._break(2)
            self._out.append("```\n")
            self._code += 1
        elif tag == "li":
            self._break(1)
            self._out.append("- ")
        elif tag == "tr":
            self._break(1)
            self._cells = 0
        elif tag in ("td", "th"):
            self._out.append("| " if not self._cells else "| " if self._out[-1].endswith(" ") else " | ")
            self._cells += 1
        elif tag == "br":
            self._out.append(" " if self._cells else "\n")
        elif tag == "img" and attrs.get("alt"):
            self._out.append(f" {attrs['alt']} ")
        elif tag in _BLOCKS:
            self._break(1 if self._cells else 2)

    def handle_endtag(self, tag: str) -> None:
        if self._open:
            if tag in self._open:
                while self._open.pop() != tag:
                    pass
            return
        if tag == "title":
            self._in_title = False
        elif tag == "pre" and self._code:
            self._code -= 1
            self._break(1)
            self._out.append("```\n\n")
        elif tag == "tr" and self._cells:
            self._out.append("|\n" if self._out[-1].endswith(" ") else " |\n")
            self._cells = 0
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._break(1 if self._cells else 2)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._open:
            if self._code:
                self._out.append(data)
                return
            text = _BLANKS.sub(" ", data)
            if text == " " and (not self._out or self._out[-1].endswith(("\n", " "))):
                return
            if self._out and self._out[-1].endswith(("\n", " ")):
                text = text.lstrip(" ")
            self._out.append(text)

    def _break(self, lines: int) -> None:
        """End the line, and leave a blank one for two; within a cell, a blank."""
        if self._code or not self._out:
            return
        tail = "".join(self._out[-3:])
        if not self._cells:
            self._out.append("\n" * (lines - len(tail) + len(tail.rstrip("\n"))))
        elif not tail.endswith(" "):
            self._out.append(" ")


def _is_hidden(attrs: list[tuple[str, str | None]]) -> bool:
    found = dict(attrs)
    style = (found.get("style") or "").replace(" ", "").lower()
    return "hidden" in found or found.get("aria-hidden") == "true" or "display:none" in style
