"""What the library asks of the world: runtimes and stores, as protocols.

Law: the loop and the sources reach the world only through these.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from sapwood.core.events import AgentEvent
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message
from sapwood.core.model import AnyIterable
from sapwood.core.past_request import PastRequest
from sapwood.core.run import Run
from sapwood.core.stored import Compacted, Conversation, ConversationSummary, RunStatus, RunSummary, StoredRun
from sapwood.core.tools import MaybeAwaitable

T = TypeVar("T")


class Runtime(Protocol):
    """Who performs what the loop asks for: this thread, asyncio, an engine, a recording."""

    async def call(
        self,
        step: str,
        fn: Callable[..., MaybeAwaitable[T]],
        *args: Any,
        timeout: float | None = None,
        effect: bool = False,
        waits: bool = False,
        shielded: bool = False,
    ) -> T:
        """Call a function, plain or async, and return what it returns.

        step: a name for logs and engines. timeout: seconds; raises TimeoutError past them.
        effect: it is a tool, whose outcome must not be lost and which takes an execution slot.
        waits: it may take long without doing anything, as a person who is asked: it must hold up nothing else.
        shielded: it reads or writes a store: a plain one never holds up an event loop, and it runs to its end
        whatever is cancelled meanwhile or was before.
        """
        ...

    def stream(self, step: str, fn: Callable[..., AnyIterable[T]], *args: Any) -> AsyncGenerator[T, None]:
        """Yield what the function's result yields; closing this closes that."""
        ...

    def merge(self, flows: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Yield from several flows as they go; each waits until its item was taken."""
        ...

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Note that an event was folded into the run."""
        ...

    async def settle(self, event: AgentEvent) -> None:
        """Note the outcome of a call as soon as its function has returned, before anybody is told of it.

        Its checkpoint comes once the event is taken, which a consumer that stops pulling may never do.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def background(self, name: str, fn: Callable[[], MaybeAwaitable[None]]) -> None:
        """Run something that nobody waits for; its failure is logged."""
        ...

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def random(self) -> float:
        """A number from 0 to 1, for jitter."""
        ...

    def new_id(self) -> str:
        """An id that was never used before."""
        ...


@runtime_checkable
class MemoryStore(Protocol):
    """A long-term memory (guide D's one stable interface); `all()` may be added and is not required."""

    def save(
        self, text: str, *, kind: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> MaybeAwaitable[MemoryRecord]:
        """Keep a text and return its record."""
        ...

    def search(
        self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0
    ) -> MaybeAwaitable[list[MemoryRecord]]:
        """Return at most k records above min_score, best first, with their scores."""
        ...

    def forget(self, id: str) -> MaybeAwaitable[bool]:
        """Remove a record; False where there was none of that id."""
        ...


@runtime_checkable
class ConversationStore(Protocol):
    """Where the messages of conversations are kept. Each method may be plain or async.

    Laws: a turn's messages enter at its end, together and once; what an append writes is what is new.
    """

    def load(self, conversation_id: str) -> MaybeAwaitable[Conversation]:
        """Return a conversation; of an unknown id, one without messages, at version 0."""
        ...

    def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        *,
        after: int,
        run_id: str,
        fence: int,
        compacted: Compacted | None = None,
    ) -> MaybeAwaitable[int]:
        """Add the messages of a turn and return the version reached.

        after: the version last seen; another one raises ConflictError. run_id: the turn; one that was added
        already adds nothing and returns the version that it reached then. fence: what `RunStore.begin` or `claim`
        returned; one that is no longer valid raises ConflictError. 0 for a turn whose run nobody stores, which is
        refused while a stored run holds the conversation. compacted: applied to the past messages first.
        """
        ...

    def delete(self, conversation_id: str) -> MaybeAwaitable[bool]:
        """Remove a conversation, with its runs where the same store keeps them; False where there was none.

        Raises ConversationBusyError while a turn runs on it.
        """
        ...

    def list(
        self, *, limit: int = 100, prefix: str = "", before: str | None = None
    ) -> MaybeAwaitable[Sequence[ConversationSummary]]:
        """Return the conversations whose id begins so, the one that was begun last first.

        before: only those that were begun before this one, to go on with a list; none where it is not known.
        """
        ...


@runtime_checkable
class RunStore(Protocol):
    """Where the events of runs are kept, and who may add to them. Each method may be plain or async.

    Laws: one holder at a time for each run and for each conversation. A hold ends with the segment, with `release`,
    or with its holder; each new one has a higher fence than the one before, and what comes with a lower one is refused.
    """

    def begin(
        self,
        run_id: str,
        conversation_id: str | None,
        base_seq: int,
        prompt: Message,
        *,
        past: Sequence[Message] = (),
        first: Sequence[AgentEvent] = (),
    ) -> MaybeAwaitable[int]:
        """Begin a run, hold it and its conversation, and return the fence for its appends.

        base_seq: the version of the conversation that the turn starts from; another one raises ConflictError.
        past: the messages before the prompt, where there is no conversation. first: events to store in the same step,
        so that no run is ever without its prompt. Raises ConversationBusyError, with the
        run that is in the way, and ConflictError for a run_id that was begun before.
        """
        ...

    def append(self, run_id: str, events: Sequence[AgentEvent], *, after: int, fence: int) -> MaybeAwaitable[int]:
        """Add events, all or none, and return the version reached: the number of events stored. Deltas are left out.

        after: the version last seen. A TurnFinished ends the hold: the run is paused where a person must answer, and
        over for every other cause. Raises ConflictError for another version or a fence that is no longer valid,
        StoreError for a run that is over, HistoryDiverged for a call with other arguments than were recorded.
        """
        ...

    def claim(self, run_id: str) -> MaybeAwaitable[StoredRun]:
        """Take a run over, to go on with it in a new segment.

        Raises ConflictError while somebody alive holds it, ConversationBusyError while another run holds its
        conversation, StoreError for an unknown id or a run that is over, HistoryDiverged for one that does not fold.
        """
        ...

    def load(self, run_id: str) -> MaybeAwaitable[Run]:
        """Return the run, folded from its events; nobody holds it for that."""
        ...

    def events(self, run_id: str, *, after: int = 0) -> MaybeAwaitable[Sequence[AgentEvent]]:
        """Return the events stored after this version, in order."""
        ...

    def release(self, run_id: str, fence: int) -> MaybeAwaitable[None]:
        """End a hold without an end of the segment (it raised, it was closed); does nothing for another fence."""
        ...

    def waiting(self, conversation_id: str | None = None) -> MaybeAwaitable[Sequence[RunSummary]]:
        """Return the runs that are not over, of one conversation or of all, the one that began last first."""
        ...

    def list(
        self,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        conversation_id: str | None = None,
        before: str | None = None,
    ) -> MaybeAwaitable[Sequence[RunSummary]]:
        """Return runs, the one that began last first.

        before: only those that began before this one, to go on with a list; none where it is not known.
        """
        ...

    def summary(self, run_id: str) -> MaybeAwaitable[RunSummary]:
        """Return the short form of a run; raises StoreError for an unknown id."""
        ...

    def delete(self, run_id: str) -> MaybeAwaitable[bool]:
        """Remove a run; False where there was none. Raises ConflictError while somebody alive holds it."""
        ...


class ArrayOfRows(Protocol):
    """Anything that NumPy takes as an array, such as one of its own."""

    def __array__(self) -> Any:
        """Return the array."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors, for searches by meaning.

    >>> class Letters:
    ...     name = "letters/1"
    ...     def embed(self, texts):
    ...         return [[text.count("a"), text.count("b")] for text in texts]
    >>> isinstance(Letters(), Embedder)
    True
    """

    @property
    def name(self) -> str:
        """Stands for the vectors in an index cache: another name, and the cache is made anew."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]] | ArrayOfRows:
        """Return one vector for each text, all of one length; a NumPy array of rows will do."""
        ...


@runtime_checkable
class PastRequestStore(Protocol):
    """Where the requests that lazy tools have served outlive the process. Its methods are plain functions.

    >>> class Kept:
    ...     def __init__(self):
    ...         self.rows = []
    ...     def load(self):
    ...         return self.rows
    ...     def save(self, requests):
    ...         self.rows += requests
    >>> isinstance(Kept(), PastRequestStore)
    True
    """

    def load(self) -> Sequence[PastRequest]:
        """Return what was saved, the oldest first; asked once, before the first search."""
        ...

    def save(self, requests: Sequence[PastRequest]) -> None:
        """Keep these too. What is over the bounds is left out when it is loaded, so old ones may be dropped."""
        ...


Vectors: TypeAlias = Literal["auto"] | bool | Embedder
"""Search by meaning: `auto` where the extra `vectors` is installed, True, False, or an embedder of one's own."""

IndexCache: TypeAlias = str | Path | bytes
"""Where an index is kept: a file, which is written where it is missing or of other tools; or the bytes of one."""
