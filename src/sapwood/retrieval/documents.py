"""Document: a text that is to be found, and how it is cut.

Law: what is no document is refused where it is given, with the way out.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_object
from sapwood.core.require import shown
from sapwood.core.scope import as_path
from sapwood.core.struct import Data
from sapwood.retrieval.chunk import Chunk, chunk_recursive
from sapwood.retrieval.chunk_code import chunk_code
from sapwood.retrieval.chunk_markdown import chunk_markdown

DocumentKind: TypeAlias = Literal["text", "markdown", "code"]
Chunker: TypeAlias = Callable[..., Sequence[Chunk]]
"""A text -> its chunks; it takes `size`, `overlap` and `count` by name, as `chunk_recursive` does."""
CHUNKERS: Mapping[str, Chunker] = {"text": chunk_recursive, "markdown": chunk_markdown, "code": chunk_code}

Documents: TypeAlias = "Iterable[Document | Mapping[str, Any] | str]"
"""Documents, dictionaries of their fields, or texts."""


class Document(Data, frozen=True, tag="document"):
    """A text that is to be found.

    id: names it; a document of the same id takes its place. kind: how it is cut: `markdown` by its headings, `code` by
    its definitions. namespace: where it lies, for RetrievalScope. metadata: put into each of its hits as well.

    >>> Document("bees.md", "# Bees\\n\\nThey hum.", kind="markdown").namespace
    '/'
    """

    type: ClassVar[Literal["document"]] = "document"
    id: str
    text: str
    title: str = ""
    kind: DocumentKind = "text"
    namespace: str = "/"
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in ("id", "text", "title", "namespace"):
            value: Any = getattr(self, name)
            if not isinstance(value, str):
                raise ConfigError(f"{name} of a document is a text, not {shown(value)}")
            _require_whole(f"{name} of a document", value)
        if not self.id:
            raise ConfigError("a document needs an id, such as the path of its file")
        if self.kind not in CHUNKERS:
            raise ConfigError(f"kind of a document is one of {', '.join(CHUNKERS)}, not {shown(self.kind)}")
        try:
            msgspec.json.encode(self.metadata)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ConfigError(f"metadata of document {shown(self.id)} holds what JSON cannot carry: {error}") from None
        msgspec.structs.force_setattr(self, "namespace", as_path(self.namespace))  # it was only just made


def _require_whole(name: str, text: str) -> None:
    """Raise ConfigError for a text with half a character, which has no bytes in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"half a character (a lone surrogate, {text[error.start]!r} at {error.start})"
        raise ConfigError(f"{name} holds {half}; text.encode('utf-8', 'replace').decode() replaces it") from None


def as_document(given: object) -> Document:
    """Return a document: of a text, whose id is then made from it, or of a dictionary of its fields.

    Raises ConfigError for anything else.

    >>> as_document({"id": "a", "text": "Bees hum."}).title
    ''
    """
    if isinstance(given, Document):
        return given
    if isinstance(given, str):
        return Document(hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:16], given)
    if not is_object(given):
        raise ConfigError(f"a document is a Document, a text or a dict with id and text, not {shown(given)}")
    try:
        return Document(**given)
    except TypeError as error:
        raise ConfigError(f"a document is a dict with id, text, title, kind, namespace, metadata: {error}") from None


def as_documents(given: object) -> list[Document]:
    """Return a list of documents; raises ConfigError where it is none, or one of them is no document."""
    told = f"documents are given as a list, also a single one; not {shown(given)}"
    if isinstance(given, str | Document) or is_object(given) or not isinstance(given, Iterable):
        raise ConfigError(told)
    return [as_document(item) for item in cast("Iterable[object]", given)]  # each is looked at


def check_question(query: object, top_k: object) -> None:
    """Raise ConfigError for what is no question, or no number of hits."""
    if not isinstance(query, str):
        raise ConfigError(f"a question is a text or a QueryBundle, not {shown(query)}")
    _require_whole("a question", query)
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {shown(top_k)}")
