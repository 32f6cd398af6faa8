"""The order of events, as assertions that any test of an agent can make."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sapwood.core.events import (
    AgentEvent,
    CompactionFinished,
    RoundFinished,
    RoundRestarted,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
)
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run, evolve
from sapwood.testing.prefix import prefix_shares


def fold(events: Iterable[AgentEvent], run: Run | None = None) -> Run:
    """Return the run that these events make of a new one, or of the given one.

    >>> fold([TurnStarted(run_id="r1")]).phase
    'idle'
    """
    run = run or Run()
    for event in events:
        run = evolve(run, event)
    return run


def assert_ordered(events: Sequence[AgentEvent], *, ended: bool = True) -> None:
    """Fail unless one segment of a turn keeps the promised order.

    One TurnStarted (or TurnResumed) first and one TurnFinished last; rounds do not overlap and everything of
    a round lies in it; each ToolStarted has one ToolFinished with its key before its RoundFinished; calls start
    in the order of their keys.

    ended: the turn came to its end; False for one that raised or was closed.
    """
    own = [event for event in events if not event.path]
    _check(bool(own), "there are no events")
    _check(isinstance(own[0], TurnStarted | TurnResumed), f"the first event is {own[0].type}")
    for event in own[1:]:
        _check(not isinstance(event, TurnStarted | TurnResumed), f"{event.type} is not the first event")
    if ended:
        _check(isinstance(own[-1], TurnFinished), f"the last event is {own[-1].type}")
        _check(sum(isinstance(event, TurnFinished) for event in own) == 1, "TurnFinished comes more than once")
    state = _Rounds(resumed=isinstance(own[0], TurnResumed))
    for event in own:
        state.take(event)
    if ended:
        _check(state.open is None, f"round {state.open} is still open at the end")


def assert_prefix_kept(
    requests: Sequence[ModelRequest] | Sequence[bytes], *, relist: bool = False, least_share: float = 0.99
) -> None:
    """Fail unless each request only grows from the one before it.

    Of requests, tools, system texts and earlier messages must be equal. Of bodies as they went over the wire,
    the share of each that is the beginning of the next must be at least `least_share`; cache marks do not count.
    relist: tools may be appended at the end. Give the requests between two compactions.
    """
    asked = [item for item in requests if isinstance(item, ModelRequest)]
    for place, (before, after) in enumerate(pairwise(asked)):
        tools = after.tools[: len(before.tools)] if relist else after.tools
        _check(tools == before.tools, f"the tools of request {place + 1} moved")
        _check(after.system == before.system, f"the system text of request {place + 1} moved")
        earlier = after.transcript[: len(before.transcript)]
        _check(earlier == before.transcript[:], f"earlier messages of request {place + 1} changed")
    bodies = [item for item in requests if isinstance(item, bytes)]
    for place, share in enumerate(prefix_shares(bodies)):
        _check(share >= least_share, f"only {share:.1%} of request {place} begin request {place + 1}")


class _Rounds:
    """What is open while the events of one segment are read."""

    def __init__(self, *, resumed: bool) -> None:
        self.resumed = resumed
        self.open: int | None = None
        self.last = -1
        self.started: dict[str, str] = {}
        self.finished: set[str] = set()

    def take(self, event: AgentEvent) -> None:
        match event:
            case RoundStarted(round=number):
                _check(self.open is None, f"round {number} starts inside round {self.open}")
                _check(self.last < 0 or number == self.last + 1, f"round {number} follows round {self.last}")
                self.open = number
            case RoundFinished(round=number):
                self._close(number)
            case ToolStarted(key=key, tool_call_id=public_id):
                self._inside(event)
                _check(key not in self.started, f"call {key} starts twice")
                _check(all(_order(other) < _order(key) for other in self.started), f"call {key} starts out of order")
                self.started[key] = public_id
            case ToolRunning(key=key):
                self._inside(event)
                _check(self.resumed or key in self.started, f"call {key} runs before it starts")
            case ToolFinished(key=key, tool_call_id=public_id):
                self._inside(event)
                _check(self.resumed or key in self.started, f"call {key} finishes before it starts")
                _check(self.started.get(key, public_id) == public_id, f"call {key} changes its id")
                _check(key not in self.finished, f"call {key} finishes twice")
                self.finished.add(key)
            case TextDelta() | ThinkingDelta():
                self._inside(event)
            case RoundRestarted(room=room):
                self._inside(event)
                if room:  # it starts once more, after a compaction
                    self.open = None
            case CompactionFinished():
                _check(self.open is None, "a compaction lies inside a round")
            case _:
                pass

    def _close(self, number: int) -> None:
        expected = self.open if self.open is not None or not self.resumed else number
        _check(expected == number, f"round {number} finishes, but {self.open} is open")
        missing = set(self.started) - self.finished
        _check(not missing, f"round {number} finishes before its calls {sorted(missing)}")
        self.open, self.last, self.resumed = None, number, False

    def _inside(self, event: AgentEvent) -> None:
        _check(self.resumed or self.open is not None, f"{event.type} lies outside of a round")


def _order(key: str) -> tuple[int, int]:
    number, _, index = key.removeprefix("r").partition("c")
    return int(number), int(index)


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)
