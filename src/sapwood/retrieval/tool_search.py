"""ToolSearch: a tool index that is made when it is first asked, kept in a cache, and learns.

Laws: nothing is indexed, embedded or read before the first question; a cache is made anew where it does not fit; what
was learnt is laid over the index and never written into a cache; turns in many threads may ask and learn: a change
waits for the next question, and one of them at a time makes the changes.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sapwood.core.ports import IndexCache, PastRequestStore, Vectors
from sapwood.core.tools import ToolSchema
from sapwood.retrieval import index_cache
from sapwood.retrieval.past_requests import PastRequests
from sapwood.retrieval.static_vectors import embedder_for
from sapwood.retrieval.tool_index import ToolIndex


class ToolSearch:
    """The search of a lazy toolset.

    schemas: returns the tools that there are. Raises ProviderNotInstalledError for vectors that are asked for and not
    installed, ConfigError for anything else that is no embedder.

    >>> search = ToolSearch(lambda: [ToolSchema("notes.list", "List the notes")], vectors=False)
    >>> search.search("list my notes", k=5)
    ['notes.list']
    """

    def __init__(
        self,
        schemas: Callable[[], Sequence[ToolSchema]],
        *,
        vectors: Vectors = "auto",
        groups: Mapping[str, str] | None = None,
        cache: IndexCache | None = None,
        store: PastRequestStore | None = None,
    ) -> None:
        self._schemas = schemas
        self._embedder = embedder_for(vectors)
        self._groups = dict(groups or {})
        self._cache = cache
        self._store = store
        self._index: ToolIndex | None = None
        self._past: PastRequests | None = None
        self._changes: deque[Callable[[ToolIndex], object]] = deque()
        self._turn = [True]  # who takes it may change the index; taking and giving back are single steps of a list

    def search(self, query: str, *, k: int, without: Collection[str] = ()) -> list[str]:
        """Return at most k names, best first."""
        return self._ready().search(query, k=k, without=without)

    def scores(self, query: str) -> dict[str, float]:
        """Return the score of each tool that the query finds."""
        return self._ready().scores(query)

    def add(self, schemas: Iterable[ToolSchema]) -> None:
        """Take tools that were added."""
        added = list(schemas)
        self._changes.append(lambda index: index.add(added))
        self._changes.extend(self._past_change(schema.name) for schema in added)

    def remove(self, name: str) -> None:
        """Forget a tool, not what was learnt of it."""
        self._changes.append(lambda index: index.remove(name))

    def learn(self, tools: Iterable[str], text: str, *, run_id: str = "") -> list[str]:
        """Keep a request for the tools that served it; return those for which that was new."""
        new = self._learnt().learn(tools, text, run_id=run_id)
        self._changes.extend(map(self._past_change, new))
        return new

    def prepare(self) -> None:
        """Make or load the index now."""
        self._ready().prepare()

    def to_bytes(self) -> bytes:
        """Return the index as bytes, for `cache=`; what was learnt is not in it."""
        schemas = list(self._schemas())
        index = ToolIndex(embedder=self._embedder, groups=self._groups)
        index.add(schemas)
        return index_cache.to_bytes(index.packed(), self._digest(schemas))

    def _past_change(self, name: str) -> Callable[[ToolIndex], object]:
        return lambda index: index.set_past(name, self._learnt().of(name))

    def _ready(self) -> ToolIndex:
        """Return the index with the changes that wait; as it is while another thread makes them."""
        try:
            self._turn.pop()
        except IndexError:
            return self._made() if self._index is None else self._index
        try:
            if self._index is None:
                self._index = self._made()
            while self._changes:
                self._changes.popleft()(self._index)
            return self._index
        finally:
            self._turn.append(True)

    def _made(self) -> ToolIndex:
        index, past = self._read_or_built(), self._learnt()
        for name in past:
            index.set_past(name, past.of(name))
        return index

    def _read_or_built(self) -> ToolIndex:
        schemas = list(self._schemas())
        index = ToolIndex(embedder=self._embedder, groups=self._groups)
        if self._cache is None:
            index.add(schemas)
            return index
        digest = self._digest(schemas)
        packed = index_cache.from_bytes(index_cache.read(self._cache), digest)
        if packed is not None:
            try:
                index.load(schemas, packed)
            except ValueError:
                packed, index = None, ToolIndex(embedder=self._embedder, groups=self._groups)
        if packed is None:
            index.add(schemas)
            if not isinstance(self._cache, bytes):
                index_cache.write(self._cache, index_cache.to_bytes(index.packed(), digest))
        return index

    def _digest(self, schemas: Sequence[ToolSchema]) -> bytes:
        return index_cache.digest_of(schemas, self._groups, self._embedder.name if self._embedder else "")

    def _learnt(self) -> PastRequests:
        if self._past is None:
            self._past = PastRequests(self._store)
        return self._past
