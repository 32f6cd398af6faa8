"""A file's bytes as a document: Markdown, HTML, PDF, code or text, in whatever encoding it is.

Laws: what is read is data, never an instruction; what is not text is told and never guessed at; where characters had to
be guessed or replaced, that is noted.
"""

import codecs
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from sapwood.core.render_result import clean
from sapwood.retrieval.chunk import Chunk
from sapwood.retrieval.documents import DocumentKind
from sapwood.retrieval.html_text import html_to_markdown
from sapwood.retrieval.pdf_text import pdf_pages
from sapwood.retrieval.unreadable import UnreadableError

_MARKDOWN = frozenset((".md", ".markdown", ".mdx", ".mkd"))
_HTML = frozenset((".html", ".htm", ".xhtml"))
_TEXT = frozenset((".txt", ".text", ".rst", ".org", ".adoc", ".log", ".csv", ".tsv", ".tex", ".srt", ".vtt"))
_CODE = frozenset(
    (
        *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".kts", ".scala", ".go", ".rs"),
        *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".swift", ".rb", ".php", ".pl", ".lua", ".sh", ".bash", ".zsh"),
        *(".sql", ".r", ".jl", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".zig", ".toml", ".yaml", ".yml"),
        *(".ini", ".cfg", ".json", ".xml", ".css", ".scss", ".proto", ".graphql", ".tf"),
    )
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_FIRST_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_UNREADABLE = re.compile("[\ufffd\x80-\x84\x86-\x9f]")
"""What stands for bytes that are no characters of the encoding they were read in."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


class ReadDocument(msgspec.Struct, frozen=True):
    """The text of a file. kind: how it is cut. pages: where each page begins in the text. note: what was guessed."""

    text: str
    kind: DocumentKind
    title: str
    note: str = ""
    pages: tuple[int, ...] = ()

    def with_pages(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the chunks, each with its page as its section where the file has pages."""
        if not self.pages:
            return list(chunks)
        found: list[Chunk] = []
        for chunk in chunks:
            page = sum(start <= chunk.start for start in self.pages)
            found.append(msgspec.structs.replace(chunk, section=f"page {page}"))
        return found


def is_known(path: str) -> bool:
    """Tell whether a file of this name is one that should be read: of another, only what turns out to be text is.

    >>> is_known("notes.MD"), is_known("photo.jpg")
    (True, False)
    """
    suffix = PurePosixPath(path).suffix.lower()
    return suffix == ".pdf" or suffix in _MARKDOWN | _HTML | _TEXT | _CODE


def read_document(path: str, data: bytes) -> ReadDocument:
    """Return the text of a file; path: its name decides how it is read.

    Raises UnreadableError with the reason, ProviderNotInstalledError for a PDF without pypdf.

    >>> read_document("bees.md", b"# Bees\\n\\nThey hum.").title
    'Bees'
    """
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if suffix == ".pdf" or data[:5] == b"%PDF-":
        return _pdf(name, data)
    text, note = decoded(data, declared=_declared(data) if suffix in _HTML else None)
    if suffix in _HTML:
        text, title = html_to_markdown(text)
        return ReadDocument(text, "markdown", title or _heading(text) or name.stem, note)
    if suffix in _MARKDOWN:
        return ReadDocument(text, "markdown", _heading(text) or name.stem, note)
    return ReadDocument(text, "code" if suffix in _CODE else "text", name.name if suffix in _CODE else name.stem, note)


def decoded(data: bytes, *, declared: str | None = None) -> tuple[str, str]:
    """Return bytes as text, and a note where that took a guess.

    declared: an encoding that the file itself names. Raises UnreadableError for what is not text.

    >>> decoded("Größe".encode("latin-1"))
    ('Größe', 'read as Latin-1 (Windows-1252), as it is not UTF-8')
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            return _checked(text), _replaced(text)
    if bare := _without_mark(data):
        return _checked(data.decode(bare, "replace")), f"read as {bare.upper()}, as every second byte is empty"
    try:
        return _checked(data.decode("utf-8")), ""
    except UnicodeDecodeError:
        return _checked(_other(data, declared)), f"read as {_shown(declared)}, as it is not UTF-8"


def _other(data: bytes, declared: str | None) -> str:
    if declared is not None:
        return data.decode(declared, "replace")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _shown(declared: str | None) -> str:
    return declared or "Latin-1 (Windows-1252)"


def _checked(text: str) -> str:
    controls = len(_CONTROLS.findall(text))
    unreadable = len(_UNREADABLE.findall(text))
    is_noise = unreadable and unreadable * 2 > sum(map(len, text.split()))
    if "\0" in text or controls * 20 > len(text) or is_noise:
        raise UnreadableError("it is not text")
    return text


def _replaced(text: str) -> str:
    count = text.count("\ufffd")
    return f"{count} characters could not be read and were replaced" if count else ""


def _without_mark(data: bytes) -> str | None:
    """Return UTF-16 where a file without a mark looks like it: its other bytes are empty."""
    head = data[:4_000]
    if len(head) < 4 or len(data) % 2:
        return None
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.6 * half and even < 0.05 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.6 * half and odd < 0.05 * half else None


def _declared(data: bytes) -> str | None:
    found = _CHARSET.search(data[:2_000])
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
        b"x".decode(name, "replace")  # refuses what is no encoding of text
    except LookupError:
        return None
    return None if name.startswith(("utf", "idna", "punycode", "unicode", "raw")) else name


def _heading(text: str) -> str:
    found = _FIRST_HEADING.search(text)
    return found[1] if found else ""


def _pdf(name: PurePosixPath, data: bytes) -> ReadDocument:
    pages, title = pdf_pages(data)
    text = ""
    starts: list[int] = []
    for page in pages:
        starts.append(len(text))
        text += f"{_CONTROLS.sub(' ', clean(page)).strip()}\n\n"
    return ReadDocument(text, "text", " ".join(clean(title).split()) or name.stem, "", tuple(starts))
