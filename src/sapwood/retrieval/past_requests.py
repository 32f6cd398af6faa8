"""PastRequests: what each tool was used for before, bounded.

Laws: a run is learnt from once; a tool keeps the newest of its requests, each cut short, and no text twice.
"""

from collections.abc import Iterable, Iterator

from sapwood.core.past_request import PastRequest
from sapwood.core.ports import PastRequestStore

KEEP_REQUESTS = 20
KEEP_CHARACTERS = 300
_RUNS_KEPT = 1_000


class PastRequests:
    """The requests that tools have served.

    store: outlives the process; None keeps them here alone. keep_requests: of each tool, the newest.
    keep_characters: of each request.

    >>> past = PastRequests()
    >>> past.learn(["notes.add"], "  write   this down ", run_id="r1")
    ['notes.add']
    >>> past.of("notes.add")
    ('write this down',)
    """

    def __init__(
        self,
        store: PastRequestStore | None = None,
        *,
        keep_requests: int = KEEP_REQUESTS,
        keep_characters: int = KEEP_CHARACTERS,
    ) -> None:
        self._store = store
        self._keep_requests = keep_requests
        self._keep_characters = keep_characters
        self._kept: dict[str, tuple[str, ...]] = {}
        self._runs: dict[str, None] = {}
        if store is not None:
            for request in store.load():
                self._keep(request)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._kept))

    def of(self, tool: str) -> tuple[str, ...]:
        """Return the requests of a tool, the oldest first."""
        return self._kept.get(tool, ())

    def learn(self, tools: Iterable[str], text: str, *, run_id: str = "") -> list[str]:
        """Keep a request for the tools that served it and return those for which that was new.

        Nothing is new in a run that was learnt from before, nor in a text without a word.
        """
        text = self._short(text)
        if not text or run_id in self._runs:
            return []
        requests = [PastRequest(tool, text, run_id) for tool in dict.fromkeys(tools)]
        new = [request for request in requests if self._keep(request)]
        if new and self._store is not None:
            self._store.save(new)
        return [request.tool for request in new]

    def _keep(self, request: PastRequest) -> bool:
        if request.run_id:
            self._runs[request.run_id] = None
            while len(self._runs) > _RUNS_KEPT:
                del self._runs[next(iter(self._runs))]
        text, kept = self._short(request.text), self.of(request.tool)
        if not text or text in kept:
            return False
        self._kept[request.tool] = (*kept, text)[-self._keep_requests :]
        return True

    def _short(self, text: str) -> str:
        """Return a text on one line, cut after a word where it is too long."""
        line = " ".join(text[: 4 * self._keep_characters].split())
        if len(line) <= self._keep_characters:
            return line
        cut = line[: self._keep_characters]
        return cut.rpartition(" ")[0] or cut
