"""Runs that wait in the memory of an Agent, as no run store keeps them.

Laws: as with a store, one goes on with a run at a time, a client that leaves or a model that fails loses nothing, and a
run that waits owns its conversation until it is answered or denied; all of that as long as the Agent object.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from sapwood.agent.answers import Answers, answers_of, ids_waiting, keep_remembered, require_current
from sapwood.agent.durable import (
    Keeping,
    MakeSpec,
    OnEnd,
    add_to_conversation,
    closing_of,
    has_open_answers,
    recorded,
    require_progress,
    version_of,
    what_waits,
)
from sapwood.core.errors import ConfigError, ConflictError, ConversationBusyError, RunPausedError
from sapwood.core.events import AgentEvent
from sapwood.core.evolve import evolve
from sapwood.core.ports import Runtime
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript
from sapwood.loop.spec import LiveTurn
from sapwood.loop.turn import run_turn


class _Waiting(msgspec.Struct, frozen=True):
    """A run that waits; paused: as it was when it last did, asked: all that it ever asked."""

    run: Run
    history: Transcript
    keeping: Keeping
    paused: Run
    asked: frozenset[str]

    @property
    def is_pending(self) -> bool:
        """A person is still to answer it, or has answered it and nothing came of that yet."""
        return self.run.phase == "paused" or self.run.messages == self.paused.messages or has_open_answers(self.run)


class PausedRuns:
    """The runs of one Agent that wait, by their id; what goes on is taken, and nobody else can take it then.

    >>> from sapwood.core.run import Run
    >>> runs = PausedRuns()
    >>> runs.keep(Run("r1", phase="paused"), Transcript(), Keeping())
    >>> "r1" in runs, "r2" in runs
    (True, False)
    """

    def __init__(self) -> None:
        self._idle: dict[str, _Waiting] = {}
        self._taken: dict[str, _Waiting] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._idle or run_id in self._taken

    def keep(self, run: Run, history: Transcript, keeping: Keeping) -> None:
        """Keep a run that pauses."""
        before = self._taken.pop(run.run_id, None)
        asked = ids_waiting(run)
        if before is not None:
            asked |= before.asked
        self._idle[run.run_id] = _Waiting(run, history, before.keeping if before else keeping, run, asked)

    async def resumed(
        self, make: MakeSpec, run_id: str, answers: Answers, rt: Runtime, *, on_end: OnEnd
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of a later segment of a run; it raises as `durable.resumed_turn` does."""
        waiting = self._take(run_id)
        run, live = waiting.run, None
        try:
            await _require_unmoved(waiting, rt)
            spec = recorded(make(waiting.history), waiting.keeping, run, None)
            try:
                events = answers_of(run, answers, rt.now())
            except ConfigError:
                require_current(run, answers, waiting.asked)
                raise
            require_progress(run, events, spec)
            live = LiveTurn(run, spec, on_end=on_end)
            async with aclosing(run_turn(run, spec, rt, answers=events, live=live)) as turn:
                async for event in turn:
                    keep_remembered(event, run, answers, spec.gate, rt.new_id())
                    yield event
        finally:
            self._give_back(waiting, live.run if live is not None else run)

    async def free(self, keeping: Keeping, rt: Runtime) -> None:
        """See to it that no run here stands on the conversation; it raises as a run store's conversations do."""
        taken = [item for item in self._taken.values() if _is_on(item, keeping)]
        if taken:
            run_id = taken[0].run.run_id
            raise ConversationBusyError(
                f"run {run_id!r} goes on, on conversation {keeping.conversation_id!r}; wait for its end, or give "
                'on_busy="wait"',
                run_id=run_id,
            )
        for item in [item for item in self._idle.values() if _is_on(item, keeping)]:
            if item.is_pending and keeping.on_pending == "raise":
                raise RunPausedError(f'{what_waits(item.run)}, or give on_pending="deny"')
            # Another process may have added turns meanwhile, as nothing in the store told it to wait.
            run = item.run.replace(base_seq=await version_of(keeping, rt))
            waiting = self._take(run.run_id)
            try:
                for event in closing_of(run):
                    run = evolve(run, event)
                await add_to_conversation(keeping, run, rt)
            except BaseException:
                self._give_back(waiting, item.run)
                raise
            del self._taken[run.run_id]

    def _take(self, run_id: str) -> _Waiting:
        # In one step, as turns may run in several threads.
        waiting = self._idle.pop(run_id, None)
        if waiting is None:
            raise ConflictError(f"somebody else goes on with run {run_id!r}; wait for its end")
        self._taken[run_id] = waiting
        return waiting

    def _give_back(self, waiting: _Waiting, run: Run) -> None:
        """Let others take the run, unless it is over, or has paused again and may be taken already."""
        if self._taken.get(run.run_id) is not waiting:
            return
        if run.phase != "ended":
            self._idle[run.run_id] = msgspec.structs.replace(waiting, run=run)
        del self._taken[run.run_id]


async def _require_unmoved(waiting: _Waiting, rt: Runtime) -> None:
    """Raise ConflictError where the turn could not enter its conversation at its end; before it does anything."""
    version = await version_of(waiting.keeping, rt)
    if version != waiting.run.base_seq:
        raise ConflictError(
            f"conversation {waiting.run.conversation_id!r} is at version {version}, and run {waiting.run.run_id!r} "
            f"started from {waiting.run.base_seq}: another turn was added. Close it with a prompt under "
            'on_pending="deny"; a store that keeps the runs as well would have made the other turn wait'
        )


def _is_on(item: _Waiting, keeping: Keeping) -> bool:
    return item.run.conversation_id == keeping.conversation_id and item.keeping.conversations is keeping.conversations
