"""SavingRuntime: any runtime, with the events of the turn kept in a run store as they come.

Laws: what must not be lost is durable before the turn goes on; events are stored in the order of their coming; a store
that fails ends the turn, as a turn that goes on unrecorded would repeat its effects after a crash.
"""

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from inspect import isawaitable
from typing import Any, TypeVar

from sapwood.core import fault
from sapwood.core.errors import StoreError
from sapwood.core.events import AgentEvent, ToolFinished, ToolRunning, TurnStarted
from sapwood.core.journal import ends_segment, is_journaled
from sapwood.core.messages import Message
from sapwood.core.ports import RunStore, Runtime
from sapwood.core.run import Run
from sapwood.core.stored import StoredRun
from sapwood.core.tools import MaybeAwaitable
from sapwood.runtime.wrapped import WrappedRuntime

T = TypeVar("T")
_log = logging.getLogger(__name__)

MAY_WAIT = frozenset(
    {
        "context_updated",  # nothing depends on it before the reply that saw the text, or the result that loaded tools
        "context_prepared",  # is selected again, for a request that is made again
        "compaction_started",
        "round_started",  # the model is asked again
        "provider_waiting",
        "server_tool_started",  # the reply, which comes whole later, says it all
        "server_tool_finished",
        "tool_started",  # only ToolRunning says that something may have happened
        "round_finished",  # follows from the reply and its results
    }
)
"""Events that are stored with the next one that must be durable. If a crash takes them, the run does again what they
tell of, and nobody can know. An event of any other kind, also of one made later, is durable before the turn goes on."""


class SavingRuntime(WrappedRuntime):
    """Keeps the events of one segment of a run, and does everything else as the inner runtime does.

    inner: performs. runs: keeps. run_id, conversation_id, base_seq, past: of a new run, which begins with its first
    event. fence, version: of one that was claimed; `claim` finds them out. Raises what the store raises, from whatever
    event it was.

    >>> from sapwood import Message
    >>> from sapwood.core.events import TurnStarted
    >>> from sapwood.core.run import Run
    >>> from sapwood.runtime.blocking import BlockingRuntime
    >>> from sapwood.stores.in_process_runs import InProcessStore
    >>> store = InProcessStore()
    >>> runtime = SavingRuntime(BlockingRuntime(), store.runs, run_id="r1")
    >>> try:
    ...     runtime.checkpoint(Run("r1"), TurnStarted(run_id="r1", prompt=Message.user("Hi"))).send(None)
    ... except StopIteration:
    ...     print(store.runs.summary("r1").prompt)
    Hi
    """

    def __init__(
        self,
        inner: Runtime,
        runs: RunStore,
        *,
        run_id: str,
        conversation_id: str | None = None,
        base_seq: int = 0,
        past: Sequence[Message] = (),
        fence: int | None = None,
        version: int = 0,
    ) -> None:
        super().__init__(inner)
        self._runs = runs
        self._run_id = run_id
        self._conversation_id = conversation_id
        self._base_seq = base_seq
        self._past = past
        self._fence = fence
        self._version = version
        self._waiting: list[AgentEvent] = []
        self._sent: tuple[AgentEvent, ...] = ()
        self._settled: set[tuple[str, ...]] = set()
        self._over = False
        self._error: StoreError | None = None
        self._gate: AbstractAsyncContextManager[Any] | None = None

    @property
    def fence(self) -> int:
        """What the store gave for the appends of this segment; 0 before the run has begun."""
        return self._fence or 0

    @property
    def version(self) -> int:
        """How many events of the run are stored."""
        return self._version

    async def claim(self) -> StoredRun:
        """Take the run over, and return it.

        Where this is cancelled while the store answers, the hold is given up again: nobody else would know of it.
        """
        taken: list[StoredRun] = []

        def note(stored: StoredRun) -> None:
            self._fence, self._version = stored.fence, stored.version
            taken.append(stored)

        try:
            await self._call("run.claim", lambda: self._runs.claim(self._run_id), note)
        except BaseException:
            await self.release()
            raise
        return taken[0]

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Store an event, at once or with the next that cannot wait; the first one of a new run begins it."""
        await self._inner.checkpoint(run, event)
        if not is_journaled(event):
            return
        if isinstance(event, ToolFinished) and _call(event) in self._settled:
            self._settled.discard(_call(event))
            return
        self._waiting.append(event)
        if event.type not in MAY_WAIT:
            await self._store(event.prompt if isinstance(event, TurnStarted) else run.prompt)
        if isinstance(event, ToolRunning):
            fault.point("tool.announced")
        if self._over:
            fault.point("turn.committed")

    async def settle(self, event: AgentEvent) -> None:
        """Store the outcome of a call now; its checkpoint, when it comes, stores nothing again."""
        await self._inner.settle(event)
        if not isinstance(event, ToolFinished):
            raise TypeError(f"a call is settled by its tool_finished, not by {event.type}")
        fault.point("tool.returned")
        self._settled.add(_call(event))
        self._waiting.append(event)
        await self._store(None)
        fault.point("tool.settled")

    async def release(self) -> None:
        """End a segment that raised or was closed, so that others may go on with the run at once.

        Does nothing where the run has not begun or the segment has ended. A store that cannot do it is logged: the run
        is free once the lease of this process ends.
        """
        fence, self._waiting = self._fence, []
        if fence is None or self._over:
            return
        self._over = True
        try:
            await self._inner.call("run.release", lambda: self._runs.release(self._run_id, fence), shielded=True)
        except StoreError as error:
            _log.warning("run %r could not be released: %s", self._run_id, error)

    async def _store(self, prompt: Message | None) -> None:
        """Store all that waits. What another flow has stored meanwhile is not stored again.

        Where the store has failed before, its first word counts: that it is at another version now is no news.
        """
        try:
            await self._stored(prompt)
        except StoreError as error:
            if self._error is None:
                self._error = error
            raise self._error from None

    async def _stored(self, prompt: Message | None) -> None:
        async with self._one_at_a_time():
            if self._fence is None:
                await self._call("run.begin", lambda: self._begin(prompt or Message.user()), self._begun)
            if self._waiting:
                await self._call("run.append", self._append, self._appended)
                fault.point("step.recorded")

    def _begin(self, prompt: Message) -> MaybeAwaitable[int]:
        self._sent = tuple(self._waiting)
        return self._runs.begin(
            self._run_id, self._conversation_id, self._base_seq, prompt, past=self._past, first=self._sent
        )

    def _begun(self, fence: int) -> None:
        self._fence = fence
        self._appended(len(self._sent))

    def _append(self) -> MaybeAwaitable[int]:
        self._sent = tuple(self._waiting)
        return self._runs.append(self._run_id, self._sent, after=self._version, fence=self.fence)

    def _appended(self, version: int) -> None:
        self._version = version
        del self._waiting[: len(self._sent)]
        self._over = self._over or ends_segment(self._sent[-1])

    async def _call(self, step: str, fn: Callable[[], MaybeAwaitable[T]], note: Callable[[T], None]) -> None:
        """Call the store, and note its answer even where the turn is cancelled while it answers."""

        async def noted(outcome: Any) -> None:
            note(await outcome)

        def performed() -> Any:
            outcome = fn()
            if isawaitable(outcome):
                return noted(outcome)
            note(outcome)
            return None

        await self._inner.call(step, performed, shielded=True)

    def _one_at_a_time(self) -> AbstractAsyncContextManager[Any]:
        gate = self._gate
        if gate is None:
            # Where nobody has imported asyncio nothing can overlap, and a blocking turn does not pay for the import.
            asyncio = sys.modules.get("asyncio")
            gate = self._gate = asyncio.Lock() if asyncio is not None else nullcontext()
        return gate


def _call(event: ToolFinished) -> tuple[str, ...]:
    return (*event.path, event.key)
