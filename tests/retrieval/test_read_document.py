"""Files as text: encodings, HTML, PDF, and what is no text at all."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood import ProviderNotInstalledError
from sapwood.retrieval.chunk import chunk_recursive
from sapwood.retrieval.html_text import html_to_markdown
from sapwood.retrieval.read_document import decoded, is_known, read_document
from sapwood.retrieval.unreadable import UnreadableError
from support.pdfs import encrypted, pdf

LATIN = "read as Latin-1 (Windows-1252), as it is not UTF-8"


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        (b"", "", ""),
        ("Größe".encode(), "Größe", ""),
        ("Größe".encode("utf-8-sig"), "Größe", ""),
        ("Größe".encode("utf-16"), "Größe", ""),
        (b"\xfe\xff" + "Größe".encode("utf-16-be"), "Größe", ""),
        ("Größe".encode("utf-32"), "Größe", ""),
        ("A whole line.".encode("utf-16-le"), "A whole line.", "read as UTF-16-LE, as every second byte is empty"),
        ("A whole line.".encode("utf-16-be"), "A whole line.", "read as UTF-16-BE, as every second byte is empty"),
        ("Größe “x”".encode("cp1252"), "Größe “x”", LATIN),
        (b"caf\xe9 \x81", "café \x81", LATIN),
        (b"\xef\xbb\xbfcaf\xe9", "caf\ufffd", "1 characters could not be read and were replaced"),
        (b"page\x0cbreak\x1b[0m of a log\r\n", "page\x0cbreak\x1b[0m of a log\r\n", ""),
    ],
)
def test_bytes_become_text_and_guesses_are_noted(data: bytes, text: str, note: str) -> None:
    assert decoded(data) == (text, note)


@pytest.mark.parametrize("data", [b"\0", b"text\0text", bytes(range(256)), b"\x01\x02\x03", b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xfe\x00", b"\xff\xfe\0\0\x01\x02", b"\xef\xbb\xbf\xff \xff a", b"\x81\x8d\x90 a\n"])  # fmt: skip
def test_what_is_not_text_is_told(data: bytes) -> None:
    with pytest.raises(UnreadableError, match="it is not text"):
        decoded(data)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for name in ("a.txt", "a.md", "a.html", "a.py", "a"):
        try:
            found = read_document(name, data)
        except UnreadableError:
            continue
        found.text.encode("utf-8")
        assert "\0" not in found.text


@pytest.mark.parametrize(
    ("html", "markdown", "title"),
    [
        ("<p>One<p>Two", "One\n\nTwo", ""),
        ("<h1>A</h1><div>x <b>y</b>\n z</div><h3>B &amp; C</h3>", "# A\n\nx y z\n\n### B & C", ""),
        ("<title> Bees\n of May</title><script>x()</script><style>p{}</style>ok", "ok", "Bees of May"),
        ("<nav><ul><li>Home</ul></nav>text<footer>c</footer>", "text", ""),
        ("<ul><li>a</li><li>b <i>c</i></li></ul>", "- a\n- b c", ""),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1<br>2</td><td><p>3</p></td></tr></table>", "| a | b |\n| 1 2 | 3 |", ""),
        ("<pre>a\n  b &lt;</pre>c", "```\na\n  b <\n```\n\nc", ""),
        ("a<br>b<img alt='a bee'><img>", "a\nb a bee", ""),
        ("<div hidden>x</div><p style='display: none'>y</p><i aria-hidden=true>z</i>shown", "shown", ""),
        ("<div hidden><div>x</div><br>y</div>z", "z", ""),
        ("</p></li>a</script></pre>", "a", ""),
        ("<svg><title>no</title></svg>yes", "yes", ""),
        ("<input hidden>after", "after", ""),
        ("a <unknown>b</unknown> <!-- c --> d", "a b d", ""),
        ("<", "<", ""),
    ],
)  # fmt: skip
def test_a_page_is_what_a_reader_would_read(html: str, markdown: str, title: str) -> None:
    assert html_to_markdown(html) == (markdown, title)


@given(st.lists(st.sampled_from(["<p>", "</p>", "<pre>", "</pre>", "<nav>", "</nav>", "<td>", "</tr>", "<h1>", "x", " ", "<script>", "<!--", "&lt;", "<li hidden>", "\n"]), max_size=30))  # fmt: skip
@settings(deadline=None)
def test_broken_html_never_raises(parts: list[str]) -> None:
    text, _ = html_to_markdown("".join(parts))
    assert "\n\n\n" not in text
    assert "script" not in text


def test_deep_html_is_read() -> None:
    assert html_to_markdown("<nav>" + "<div>" * 100_000 + "</div>" * 100_000 + "</nav>x")[0] in ("", "x")
    assert html_to_markdown("<div>" * 100_000 + "x")[0] == "x"


@pytest.mark.parametrize(
    ("path", "data", "kind", "title"),
    [
        ("a/notes.txt", b"hi", "text", "notes"),
        ("a/README", b"hi", "text", "README"),
        ("b.MD", b"intro\n\n## Sub\n\n# Bees #\n", "markdown", "Bees"),
        ("b.md", b"no heading", "markdown", "b"),
        ("hive.py", b"x = 1", "code", "hive.py"),
        ("p.html", b"<title>T</title><h1>H</h1>", "markdown", "T"),
        ("p.htm", b"<h1>H</h1>", "markdown", "H"),
        ("p.htm", b"x", "markdown", "p"),
    ],
)
def test_a_name_decides_how_a_file_is_read(path: str, data: bytes, kind: str, title: str) -> None:
    found = read_document(path, data)
    assert (found.kind, found.title) == (kind, title)


@pytest.mark.parametrize(
    ("head", "text", "note"),
    [
        (b'<meta charset="iso-8859-2">', "\u0142", "read as iso8859-2, as it is not UTF-8"),
        (b"<meta charset=nonsense>", "³", LATIN),
        (b"<meta charset=hex>", "³", LATIN),
        (b"<meta charset=utf-8>", "³", LATIN),
        (b"", "³", LATIN),
    ],
)
def test_a_page_names_its_encoding(head: bytes, text: str, note: str) -> None:
    found = read_document("p.html", head + b"<p>\xb3")
    assert (found.text, found.note) == (text, note)


def test_a_pdf_is_read_page_by_page() -> None:
    found = read_document("bees.pdf", pdf("Bees like lavender.", "Cats sleep."))
    assert found.text == "Bees like lavender.\n\nCats sleep.\n\n"
    assert (found.kind, found.title, found.pages) == ("text", "bees", (0, 21))
    chunks = found.with_pages(chunk_recursive(found.text, size=4, count=lambda text: len(text.split())))
    assert [(chunk.section, chunk.text) for chunk in chunks] == [
        ("page 1", "Bees like lavender."),
        ("page 2", "Cats sleep."),
    ]
    assert read_document("no-suffix", pdf("Bees.")).text == "Bees.\n\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (encrypted("secret"), "it is encrypted"),
        (b"%PDF-1.4 and nothing", r"no PDF that can be read \(PdfStreamError\)"),
        (b"", "no PDF that can be read"),
        (pdf("text")[:200], "no PDF that can be read"),
        (pdf(""), "it has no text; it may be a scan"),
    ],
)
def test_a_pdf_that_cannot_be_read_says_why(data: bytes, told: str) -> None:
    with pytest.raises(UnreadableError, match=told):
        read_document("a.pdf", data)


def test_an_empty_password_is_tried() -> None:
    assert "Bees" in read_document("a.pdf", encrypted("")).text


def test_a_pdf_of_too_many_pages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.retrieval.pdf_text.MOST_PAGES", 1)
    with pytest.raises(UnreadableError, match="it has 2 pages; 1 are read at most"):
        read_document("a.pdf", pdf("One.", "Two."))


@given(st.binary(min_size=1, max_size=40), st.integers(0, 600))
@settings(max_examples=40, deadline=None)
def test_a_damaged_pdf_is_read_or_refused(damage: bytes, place: int) -> None:
    whole = pdf("Bees like lavender.")
    try:
        read_document("a.pdf", whole[:place] + damage + whole[place + len(damage) :])
    except UnreadableError as error:
        assert str(error)


def test_without_pypdf_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(ProviderNotInstalledError, match=r"sapwood\[documents\]"):
        read_document("a.pdf", pdf("x"))


def test_what_should_be_read_is_known_by_its_name() -> None:
    assert [is_known(name) for name in ("a.PDF", "b.rs", "c.txt", "d.html", "e.png", "README")] == [True] * 4 + [
        False
    ] * 2


def test_reading_a_pdf_leaves_the_log_as_it_was() -> None:
    import logging

    before: Any = logging.getLogger("pypdf").level
    read_document("a.pdf", pdf("x"))
    assert logging.getLogger("pypdf").level == before
