"""Retrievers over documents that are kept in this process: by words, by meaning, or by both.

Laws: each has one plain method, `retrieve`, so that a pipeline, a skill, a source and a program use it alike; a hit is
a chunk, an exact part of its document; whatever is asked, what lies outside of the scope is not returned; words are
searched as a memory is, so that what is found here is found in a store as well.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sapwood.core.context_item import ContextItem, QueryBundle
from sapwood.core.estimate import estimate_tokens
from sapwood.core.ports import Embedder, Vectors
from sapwood.core.scope import RetrievalScope
from sapwood.retrieval.chunk import SIZE, Chunk
from sapwood.retrieval.dense import DenseChunks
from sapwood.retrieval.documents import Chunker, Document, Documents, as_documents, check_question
from sapwood.retrieval.static_vectors import embedder_for
from sapwood.stores.documents import TOP_K, DocumentIndex, titled_with
from sapwood.stores.in_process_runs import InProcessStore


class ChunkRetriever:
    """What retrievers over a memory of their own have in common."""

    def __init__(
        self,
        documents: Documents,
        embedder: Embedder | None,
        *,
        size: int,
        overlap: int,
        count: Callable[[str], int],
        chunker: Chunker | None,
    ) -> None:
        memory = InProcessStore(embedder=embedder).memory
        self._index = DocumentIndex(memory, size=size, overlap=overlap, count=count, chunker=chunker)
        self._documents: dict[str, tuple[Document, int]] = {}
        self.add(documents)

    def __len__(self) -> int:
        """The number of chunks."""
        return sum(chunks for _, chunks in self._documents.copy().values())

    def __contains__(self, document_id: object) -> bool:
        return document_id in self._documents

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents that are here."""
        return tuple(document for document, _ in self._documents.copy().values())

    def add(self, documents: Documents) -> None:
        """Add documents; one of an id that is here already takes its place.

        Raises ConfigError for what is no document; then none of them is added.
        """
        for document in as_documents(documents):
            known = self._documents.get(document.id)
            if known is None or known[0] != document:
                chunks = self._index.chunks_of(document)
                self._index.replace(document, chunks)
                self._noted(document, chunks)
                self._documents[document.id] = (document, len(chunks))

    def _noted(self, document: Document, chunks: Sequence[Chunk]) -> None:
        """Take what is to be found of a document, where that is not the memory's affair."""

    def remove(self, document_id: str) -> bool:
        """Remove a document with its chunks; False where there is none of that id."""
        if self._documents.pop(document_id, None) is None:
            return False
        self._index.remove(document_id)
        return True

    def retrieve(self, query: str, top_k: int = TOP_K, scope: RetrievalScope | None = None) -> list[ContextItem]:
        """Return the best chunks, best first; fewer than top_k where not so many are found.

        query: a text or a QueryBundle. The best score says how much of the question the hit covers, at most 1.
        Hits carry `document`, `position`, `start`, `end`, `title`, `section` as metadata. A hit that says the same as a
        better one is left out.

        Raises ConfigError for what is no question or no number of hits.
        """
        return self._index.retrieve(query, top_k, scope)

    def grow(
        self, items: Iterable[ContextItem], room: int, *, count: Callable[[str], int] | None = None
    ) -> list[ContextItem]:
        """Return hits with the text around them, merged where they touch, in at most `room` tokens.

        items: what `retrieve` returned, or some of it; what else is among them is left out. A small chunk is found
        more surely, a large one says more: so search for small ones, and show them grown. count: text -> tokens.

        >>> by_words = lambda text: len(text.split())
        >>> hive = SparseRetriever(["Bees hum.\\n\\nWasps sting.\\n\\nFlies buzz."], size=2, count=by_words)
        >>> [item.content for item in hive.grow(hive.retrieve("wasps", 1), room=4)]
        ['Bees hum.\\n\\nWasps sting.']
        """
        return self._index.grow(items, room, count=count)


class SparseRetriever(ChunkRetriever):
    """Documents found by their words, in some 25 languages: exact names, numbers and terms, without vectors.

    documents: Documents, texts, or dictionaries with `id` and `text`; more with `add`. size, overlap: tokens of a chunk
    and of what it repeats of the one before. count: text -> tokens. chunker: instead of the one of a document's kind.

    Raises ConfigError for what is no document, or a size that leads nowhere.

    >>> bees, cats = {"id": "bees", "text": "Bees like lavender."}, {"id": "cats", "text": "Cats sleep."}
    >>> retriever = SparseRetriever([bees, cats])
    >>> [(item.content, item.metadata["document"]) for item in retriever.retrieve("What do bees like?")]
    [('Bees like lavender.', 'bees')]
    """

    def __init__(
        self,
        documents: Documents = (),
        *,
        size: int = SIZE,
        overlap: int = 0,
        count: Callable[[str], int] = estimate_tokens,
        chunker: Chunker | None = None,
    ) -> None:
        super().__init__(documents, None, size=size, overlap=overlap, count=count, chunker=chunker)


class HybridRetriever(ChunkRetriever):
    """Documents found by their words and by their meaning, both at once; the one to begin with.

    vectors: `"auto"` takes those of the extra `vectors` where it is installed, and words alone where it is not; True
    insists on them; or an embedder of your own. The embedding of a QueryBundle is used where it has one that is as
    wide as those of the documents. The other options are those of SparseRetriever.

    >>> retriever = HybridRetriever(["Bees like lavender."], vectors=False)
    >>> [item.content for item in retriever.retrieve("lavender", top_k=1)]
    ['Bees like lavender.']
    """

    def __init__(
        self,
        documents: Documents = (),
        *,
        vectors: Vectors = "auto",
        size: int = SIZE,
        overlap: int = 0,
        count: Callable[[str], int] = estimate_tokens,
        chunker: Chunker | None = None,
    ) -> None:
        embedder = embedder_for(vectors)
        self._asked = None if embedder is None else _AskedVector(embedder)
        super().__init__(documents, self._asked, size=size, overlap=overlap, count=count, chunker=chunker)

    def retrieve(self, query: str, top_k: int = TOP_K, scope: RetrievalScope | None = None) -> list[ContextItem]:
        """Return the best chunks, best first, as the other retrievers do."""
        vector = query.embedding if isinstance(query, QueryBundle) else None
        if self._asked is None or vector is None:
            return super().retrieve(query, top_k, scope)
        with self._asked.given(vector):
            return super().retrieve(query, top_k, scope)


_GIVEN: ContextVar[Sequence[float] | None] = ContextVar("given", default=None)
"""The vector that the question of this thread or task has brought."""


class _AskedVector:
    """An embedder that, while a question is asked that brings its vector, gives that one for the question.

    A search embeds nothing but its question, and each thread and task has a question of its own.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._width: int | None = None

    @property
    def name(self) -> str:
        return self._embedder.name

    @contextmanager
    def given(self, vector: Sequence[float]) -> Generator[None, None, None]:
        token = _GIVEN.set(vector)
        try:
            yield
        finally:
            _GIVEN.reset(token)

    def embed(self, texts: Sequence[str]) -> Any:
        given = _GIVEN.get()
        if given is not None and len(given) == self._width and all(map(math.isfinite, given)):
            return [given] * len(texts)
        rows: Any = self._embedder.embed(texts)
        if len(rows):
            self._width = len(rows[0])
        return rows


class DenseRetriever(ChunkRetriever):
    """Documents found by their meaning alone, through an embedder.

    embedder: None takes the vectors of the extra `vectors`. The embedding of a QueryBundle is used where it has one.
    The options are those of SparseRetriever.

    Raises ProviderNotInstalledError without an embedder where that extra is missing.

    >>> class Letters:
    ...     name = "letters/1"
    ...     def embed(self, texts):
    ...         return [[text.lower().count("b"), text.lower().count("c")] for text in texts]
    >>> DenseRetriever(["Cats!", "Bees!"], embedder=Letters()).retrieve("bumblebee")[0].content
    'Bees!'
    """

    def __init__(
        self,
        documents: Documents = (),
        *,
        embedder: Embedder | None = None,
        size: int = SIZE,
        overlap: int = 0,
        count: Callable[[str], int] = estimate_tokens,
        chunker: Chunker | None = None,
    ) -> None:
        found = embedder_for(True if embedder is None else embedder)
        assert found is not None, "True never means none"
        self._meanings = DenseChunks(found)
        super().__init__(documents, None, size=size, overlap=overlap, count=count, chunker=chunker)

    def _noted(self, document: Document, chunks: Sequence[Chunk]) -> None:
        titled = ((titled_with(document.title, chunk.section), chunk.text) for chunk in chunks)
        self._meanings.put(document.id, [f"{title}. {text}" if title else text for title, text in titled])

    def remove(self, document_id: str) -> bool:
        """Remove a document with its chunks; False where there is none of that id."""
        self._meanings.remove(document_id)
        return super().remove(document_id)

    def retrieve(self, query: str, top_k: int = TOP_K, scope: RetrievalScope | None = None) -> list[ContextItem]:
        """Return the best chunks, best first, as the other retrievers do; scores compare hits of one question only."""
        check_question(query, top_k)
        vector = query.embedding if isinstance(query, QueryBundle) else None

        def allowed(document_id: str) -> bool:
            known = self._documents.get(document_id)
            return known is not None and (scope is None or scope.matches(known[0].namespace))

        return self._index.items(self._meanings.search(str(query), top_k, allowed, vector=vector))
