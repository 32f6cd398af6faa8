"""child: a subagent's turn inside a tool call.

Laws: its events come out flat, with the path of calls that led to it; its Run is a part of the parent's, so a pause
inside it is a pause of the whole tree; whatever goes wrong in it is a result of the call, never an exception, but
for what ends the parent too.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sapwood.core.errors import BlockingCallError, RunCancelledError
from sapwood.core.events import AgentEvent
from sapwood.core.ports import Runtime
from sapwood.core.run import Run
from sapwood.loop.spec import ChildTurnSpec, LiveTurn
from sapwood.runtime.wrapped import WrappedRuntime

PARTIAL = "[partial result] {why}."
_WHY = {
    "usage_limit": "the subagent was stopped by a usage limit",
    "stuck": "the subagent repeated itself without progress",
    "max_rounds": "the subagent used up its rounds",
    "max_tokens": "the subagent's reply was cut off",
}


class ChildRuntime(WrappedRuntime):
    """The parent's runtime, for a child: what the child notes is noted by the parent, with the path that led to it.

    lost: why an outcome could not be noted. That ends the parent too, whose turn is kept in the same place.
    """

    def __init__(self, inner: Runtime, call_id: str) -> None:
        super().__init__(inner)
        self.lost: Exception | None = None
        self._call_id = call_id

    async def checkpoint(self, run: Run, event: AgentEvent) -> None:
        """Note nothing: the parent notes each event of the child when it folds it."""

    async def settle(self, event: AgentEvent) -> None:
        """Note an outcome at once, under the path of the child."""
        try:
            await self._inner.settle(event.replace(path=(self._call_id, *event.path)))
        except Exception as error:
            self.lost = error
            raise


class ChildTurn:
    """One subagent at work: iterate `events`, then ask what became of it.

    error: what its turn raised, None where it came to an end or a pause.
    """

    def __init__(self, child: ChildTurnSpec, parent: LiveTurn, call_id: str, rt: Runtime) -> None:
        stored = parent.run.children.get(call_id)
        run = stored.run if stored is not None else Run(f"{parent.run.run_id}/{call_id}")
        self.name = child.name
        self.error: Exception | None = None
        self._child = child
        self._call_id = call_id
        self._rt = ChildRuntime(rt, call_id)
        self._live = LiveTurn(run, child.spec)

    @property
    def run(self) -> Run:
        """The child's run as it is now."""
        return self._live.run

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Yield what happens in the child, with the path that leads to it."""
        from sapwood.loop.turn import run_turn  # it performs this, so it cannot be imported before

        path = (self._call_id,)
        turn = run_turn(self.run, self._child.spec, self._rt, prompt=self._child.prompt, live=self._live)
        try:
            async with aclosing(turn) as events:
                async for event in events:
                    yield event.replace(path=(*path, *event.path))
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # the door: a child that fails leaves its siblings alone
            if error is self._rt.lost:
                raise
            self.error = error
        if self.error is not None and self._live.interrupted is not None:
            yield self._live.interrupted.replace(path=path)

    @property
    def is_paused(self) -> bool:
        """It waits for a person."""
        return self.run.phase == "paused"

    def result(self) -> tuple[str, bool]:
        """Return what the parent's model is shown, and whether it is an error; never blank."""
        run = self.run
        if run.output is not None:
            return run.output, False
        why = _WHY.get(run.stopped_by or "")
        text = run.text.strip()
        if run.stopped_by == "output_missing":
            return f"{self.name} gave no valid output: {run.output_error or 'it never handed one in'}", True
        if not text:
            return f"{self.name} ended without a text{f': {why}' if why else ''}.", bool(why)
        return (f"{text}\n\n{PARTIAL.format(why=why)}" if why else text), False
