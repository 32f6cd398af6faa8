"""DocumentIndex: documents in a memory store, as records of the kind `chunk`.

Laws: a document is one conversation of the store, and its chunks are that conversation's records, in order; what stands
in a document is imported data (origin `import`); its folder is its namespace, so that a scope holds for documents as
for all else; a document that has not changed is not touched.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sapwood.core.context_item import ContextItem
from sapwood.core.errors import ConfigError
from sapwood.core.estimate import estimate_tokens
from sapwood.core.memory import MemoryRecord
from sapwood.core.require import shown
from sapwood.core.scope import RetrievalScope, as_path
from sapwood.retrieval.chunk import SIZE, Chunk
from sapwood.retrieval.documents import CHUNKERS, Chunker, Document, Documents, as_documents, check_question
from sapwood.retrieval.grow import Place, grow

KIND = "chunk"
TOP_K = 5


class ChunkStore(Protocol):
    """What is asked of a memory store: `SqliteStore(...).memory`, `InProcessStore().memory`, or one like them."""

    def scoped(self, *, conversation: str | None = None, namespace: Sequence[str] = ()) -> "ChunkStore":
        """Return a handle on a part of this store."""
        ...

    def replace_all(self, records: Iterable[Mapping[str, Any]], *, kind: str | None = None) -> Sequence[MemoryRecord]:
        """Keep these in place of all records of this handle that are of a kind, in one step."""
        ...

    def search(
        self, query: str, *, k: int = 5, kind: str | None = None, within: RetrievalScope | None = None
    ) -> Sequence[MemoryRecord]:
        """Return the best records, best first, of the namespaces that a scope allows."""
        ...

    def all(self, *, kind: str | None = None) -> Sequence[MemoryRecord]:
        """Return all records, oldest first."""
        ...

    def forget_all(self, *, kind: str | None = None) -> int:
        """Remove all records of this handle, and return how many."""
        ...


class StoredDocument(msgspec.Struct, frozen=True):
    """A document that is in the store. digest: of its text and of how it was cut. meta: what was kept beside it."""

    id: str
    namespace: str
    digest: str
    chunks: int
    meta: Mapping[str, Any]


class DocumentIndex:
    """Documents that outlive the process, searched like any retriever.

    store: a memory. size, overlap, count, chunker: of the chunks; other ones than before cut a document anew when it is
    added again.

    >>> from sapwood import create_memory_store
    >>> index = DocumentIndex(create_memory_store())
    >>> index.add([Document("bees.md", "# Bees\\n\\nBees like lavender.", kind="markdown")])
    ['bees.md']
    >>> [(item.metadata["document"], item.metadata["section"]) for item in index.retrieve("lavender?")]
    [('bees.md', 'Bees')]
    """

    def __init__(
        self,
        store: ChunkStore,
        *,
        size: int = SIZE,
        overlap: int = 0,
        count: Callable[[str], int] = estimate_tokens,
        chunker: Chunker | None = None,
    ) -> None:
        given: object = store
        if not all(callable(getattr(given, name, None)) for name in ("scoped", "replace_all", "search", "all")):
            raise ConfigError(f"documents are kept in a memory, such as SqliteStore(...).memory; not in {shown(given)}")
        self._chunker = chunker
        (chunker or CHUNKERS["text"])("", size=size, overlap=overlap, count=count)  # so that a wrong size is told here
        self._store = store
        self._size = size
        self._overlap = overlap
        self._count = count

    @property
    def waits(self) -> bool:
        """A search waits for a disk, so an async turn asks beside its event loop."""
        return bool(getattr(self._store, "waits", False))

    def documents(self) -> list[StoredDocument]:
        """Return the documents that are in the store, in the order of their ids."""
        first: dict[str, MemoryRecord] = {}
        counted: dict[str, int] = {}
        for record in self._store.all(kind=KIND):
            id = record.conversation or ""
            counted[id] = counted.get(id, 0) + 1
            first.setdefault(id, record)
        found: list[StoredDocument] = []
        for id, record in sorted(first.items(), key=lambda item: item[0]):
            meta = record.meta or {}
            found.append(StoredDocument(id, _namespace(record), str(meta.get("digest", "")), counted[id], meta))
        return found

    def add(self, documents: Documents) -> list[str]:
        """Add documents, or replace those of the same id; return the ids of those that were written.

        One that is the same as in the store is not touched.
        """
        known = {item.id: item.digest for item in self.documents()}
        written: list[str] = []
        for document in as_documents(documents):
            if known.get(document.id) != self.digest_of(document):
                self.replace(document, self.chunks_of(document))
                written.append(document.id)
        return written

    def remove(self, document_id: str) -> bool:
        """Remove a document; False where there is none of that id."""
        return self._store.scoped(conversation=document_id).forget_all(kind=KIND) > 0

    def digest_of(self, document: Document) -> str:
        """Return what a document and the way it is cut depend on."""
        of_document = (document.text, document.title, document.kind, document.namespace, document.metadata)
        chunker = getattr(self._chunker, "__qualname__", "")
        made_of = (*of_document, self._size, self._overlap, chunker, _CUT)
        return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()[:32]

    def chunks_of(self, document: Document) -> list[Chunk]:
        """Return a document in chunks."""
        cut = self._chunker or CHUNKERS[document.kind]
        return list(cut(document.text, size=self._size, overlap=self._overlap, count=self._count))

    def replace(self, document: Document, chunks: Sequence[Chunk]) -> None:
        """Keep these chunks of a document in place of all that is there of it."""
        digest, end = self.digest_of(document), 0
        records: list[dict[str, Any]] = []
        for number, chunk in enumerate(chunks):
            about = {"number": number, "start": chunk.start, "end": chunk.end, "digest": digest}
            named = {"section": chunk.section, "title": document.title, "before": document.text[end : chunk.start]}
            meta = {**document.metadata, **about, **{name: text for name, text in named.items() if text}}
            title = titled_with(document.title, chunk.section) or None
            records.append({"text": chunk.text, "kind": KIND, "origin": "import", "title": title, "meta": meta})
            end = max(end, chunk.end)
        own = self._store.scoped(conversation=document.id)
        if any(_namespace(record) != document.namespace for record in own.all(kind=KIND)):
            own.forget_all(kind=KIND)  # it has moved
        self._store.scoped(conversation=document.id, namespace=_parts(document.namespace)).replace_all(
            records, kind=KIND
        )

    def retrieve(self, query: str, top_k: int = TOP_K, scope: RetrievalScope | None = None) -> list[ContextItem]:
        """Return the best chunks within the scope, best first; as the other retrievers do."""
        check_question(query, top_k)
        found = self._store.search(str(query), k=top_k, kind=KIND, within=scope)
        return [_item([record], record.score or 0.0) for record in found]

    def items(self, places: Iterable[tuple[Place, float]]) -> list[ContextItem]:
        """Return the chunks at these places, a document and a number each, as hits with these scores."""
        records: dict[str, dict[int, MemoryRecord]] = {}
        found: list[ContextItem] = []
        for (document, number), score in places:
            if document not in records:
                own = self._store.scoped(conversation=document).all(kind=KIND)
                records[document] = {_number(record): record for record in own}
            if number in records[document]:
                found.append(_item([records[document][number]], score))
        return found

    def grow(
        self, items: Iterable[ContextItem], room: int, *, count: Callable[[str], int] | None = None
    ) -> list[ContextItem]:
        """Return hits with the text around them, merged where they touch, in at most `room` tokens."""
        counted = count or self._count
        hits: dict[Place, float] = {}
        records: dict[str, list[MemoryRecord]] = {}
        for item in items:
            document, first = item.metadata.get("document"), item.metadata.get("position")
            if not isinstance(document, str) or not isinstance(first, int):
                continue
            if document not in records:
                found = self._store.scoped(conversation=document).all(kind=KIND)
                records[document] = sorted(found, key=_number)
            places = {_number(record): place for place, record in enumerate(records[document])}
            for number in range(first, first + int(item.metadata.get("chunks", 1))):
                if (place := places.get(number)) is not None:
                    hits[document, place] = max(item.score, hits.get((document, place), 0.0))
        passages = grow(
            hits,
            room,
            tokens=lambda document, first, last: counted(_joined(records[document][first : last + 1])),
            length=lambda document: len(records[document]),
        )
        return [_item(records[found.document][found.first : found.last + 1], found.score) for found in passages]


_CUT = 1
"""Stands for the way in which documents are cut; another number, and each is cut anew when it is added again."""


def _parts(namespace: str) -> tuple[str, ...]:
    return tuple(part for part in namespace.split("/") if part)


def _namespace(record: MemoryRecord) -> str:
    return as_path("/".join(record.scope.namespace))


def _number(record: MemoryRecord) -> int:
    return int((record.meta or {}).get("number", record.position))


def titled_with(title: str, section: str) -> str:
    """Return the title of a chunk: its document's, and the headings above it.

    >>> titled_with("Bees", "Food"), titled_with("Bees", "Bees > Food")
    ('Bees > Food', 'Bees > Food')
    """
    if not title or section == title or section.startswith(f"{title} > "):
        return section
    return f"{title} > {section}" if section else title


def _joined(records: Sequence[MemoryRecord]) -> str:
    """Return chunks that follow one another as the text that they are of."""
    text, end = "", None
    for record in records:
        about = record.meta or {}
        start = int(about.get("start", 0))
        text += record.text if end is None else f"{about.get('before', '')}{record.text[max(0, end - start) :]}"
        end = int(about.get("end", start + len(record.text)))
    return text


_OWN = frozenset(("number", "digest", "before", "start", "end"))


def _item(records: Sequence[MemoryRecord], score: float) -> ContextItem:
    first, last = records[0], records[-1]
    about, after = first.meta or {}, last.meta or {}
    document = first.conversation or ""
    place = {"document": document, "position": _number(first), "chunks": _number(last) - _number(first) + 1}
    span = {"start": about.get("start", 0), "end": after.get("end", 0)}
    return ContextItem(
        content=_joined(records),
        score=score,
        metadata={**{name: value for name, value in about.items() if name not in _OWN}, **place, **span},
        id=first.id if len(records) == 1 else f"{first.id}-{last.id}",
        namespace=_namespace(first),
    )
