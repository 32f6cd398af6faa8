"""The order of events, as assertions that any test of an agent can make."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    LimitExtended,
    MessageAdded,
    OutputDelta,
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
    UsageLimitReached,
)
from sapwood.core.evolve import evolve
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run
from sapwood.testing.prefix import prefix_shares

_ANSWERS = (ApprovalResolved, LimitExtended)


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

    One TurnStarted (or TurnResumed, and after it the answers) first and one TurnFinished last; rounds do not overlap
    and everything of a round lies in it; each ToolStarted has one ToolFinished with its key before its RoundFinished;
    calls start in the order of their keys; a call that waits for a person runs once there was a yes; a limit is told
    of between rounds, and the round that it grants is the last; the events of a subagent lie between the start and
    the end of its call, and keep the same order among themselves. A turn that pauses may do so inside a round, for
    something that waits.

    ended: the turn came to its end; False for one that raised or was closed.
    """
    own = [event for event in events if not event.path]
    _check(bool(own), "there are no events")
    resumed = isinstance(own[0], TurnResumed)
    _check(isinstance(own[0], TurnStarted | TurnResumed), f"the first event is {own[0].type}")
    _check(events[0] is own[0], f"the first event is {events[0].type} of a subagent")
    for event in own[1:]:
        _check(not isinstance(event, TurnStarted | TurnResumed), f"{event.type} is not the first event")
    if ended:
        _check(isinstance(own[-1], TurnFinished), f"the last event is {own[-1].type}")
        _check(sum(isinstance(event, TurnFinished) for event in own) == 1, "TurnFinished comes more than once")
        _check(events[-1] is own[-1], f"the last event is {events[-1].type} of a subagent")
    answers = list(takewhile(lambda event: isinstance(event, _ANSWERS), events[1:])) if resumed else []
    state = _Rounds(resumed=resumed)
    for answer in answers:
        if not answer.path:
            state.answer(answer)
    rest = [own[0], *events[1 + len(answers) :]]
    for event in rest[1:]:
        if not event.path:
            state.take(event)
    paused = isinstance(own[-1], TurnFinished) and own[-1].stopped_by in ("approval", "limit_ask")
    if ended and not paused:
        _check(state.open is None, f"round {state.open} is still open at the end")
    if isinstance(own[-1], TurnFinished) and own[-1].stopped_by == "approval":
        _check(bool(own[-1].diagnostics.waiting), "the turn pauses, and nothing waits")
    _check_children(rest, resumed=resumed, paused=paused or not ended)


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


def _check_children(events: Sequence[AgentEvent], *, resumed: bool, paused: bool) -> None:
    """Fail unless the events of each subagent lie inside its call, and are in order."""
    below: dict[str, list[AgentEvent]] = {}
    open_calls: set[str] = set()
    finished: dict[str, ToolFinished] = {}
    for event in events:
        if event.path:
            id = event.path[0]
            is_open = id in open_calls or (resumed and id not in below and id not in finished)
            _check(is_open, f"{event.type} of {id} lies outside its call")
            open_calls.add(id)
            below.setdefault(id, []).append(event.replace(path=event.path[1:]))
        elif isinstance(event, ToolStarted):
            open_calls.add(event.tool_call_id)
        elif isinstance(event, ToolFinished):
            open_calls.discard(event.tool_call_id)
            finished[event.tool_call_id] = event
    for id, inner in below.items():
        first = next((event for event in inner if not event.path), None)
        _check(isinstance(first, TurnStarted | TurnResumed), f"the subagent of {id} does not begin with its turn")
        last = next(event for event in reversed(inner) if not event.path)
        _check(paused or id not in open_calls, f"the call {id} of a subagent is never answered")
        has_ended = isinstance(last, TurnFinished)
        if id in finished:
            waits = isinstance(last, TurnFinished) and last.stopped_by in ("approval", "limit_ask")
            _check(not waits, f"the call {id} is answered while its subagent waits")
            _check(has_ended or finished[id].is_error, f"the subagent of {id} never ended, and its call is no error")
        assert_ordered(inner, ended=has_ended)


class _Rounds:
    """What is open while the events of one segment are read."""

    def __init__(self, *, resumed: bool) -> None:
        self.resumed = resumed
        self.open: int | None = None
        self.last = -1
        self.is_last = False
        self.started: dict[str, str] = {}
        self.finished: set[str] = set()
        self.running: set[str] = set()
        self.waiting: dict[str, str] = {}  # key -> why the call may not run

    def answer(self, event: AgentEvent) -> None:
        """Take an answer that a resumed turn began with; what it waits for is known to the stored run alone."""
        if isinstance(event, ApprovalResolved) and not event.approved:
            self.waiting[event.key] = "was denied"

    def take(self, event: AgentEvent) -> None:
        match event:
            case RoundStarted(round=number, wrap_up=wrap_up):
                _check(self.open is None, f"round {number} starts inside round {self.open}")
                _check(self.last < 0 or number == self.last + 1, f"round {number} follows round {self.last}")
                _check(not self.is_last, f"round {number} follows one that was to be the last")
                self.is_last = wrap_up is not None
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
                _check(key not in self.finished, f"call {key} runs after it finished")
                _check(key not in self.running, f"call {key} runs twice")
                _check(key not in self.waiting, f"call {key} runs, though it {self.waiting.get(key)}")
                self.running.add(key)
            case ApprovalRequested(key=key):
                self._inside(event)
                _check(self.resumed or key in self.started, f"call {key} is asked about before it starts")
                _check(key not in self.running | self.finished, f"call {key} is asked about when it runs or has run")
                _check(key not in self.waiting, f"call {key} is asked about twice")
                self.waiting[key] = "waits for an answer"
            case ApprovalResolved(key=key, approved=approved):
                self._inside(event)
                _check(self.resumed or key in self.started, f"call {key} is answered before it starts")
                _check(key not in self.running | self.finished, f"call {key} is answered when it runs or has run")
                self.waiting.pop(key, None)
                if not approved:
                    self.waiting[key] = "was denied"
            case LimitExtended():
                _check(False, "a limit is raised in mid-turn, and not as an answer")
            case ToolFinished(key=key, tool_call_id=public_id):
                self._inside(event)
                _check(self.resumed or key in self.started, f"call {key} finishes before it starts")
                _check(self.started.get(key, public_id) == public_id, f"call {key} changes its id")
                _check(key not in self.finished, f"call {key} finishes twice")
                self.finished.add(key)
            case TextDelta() | ThinkingDelta() | OutputDelta():
                self._inside(event)
            case RoundRestarted(room=room):
                self._inside(event)
                if room:  # it starts once more, after a compaction
                    self.open = None
                    self.is_last = False
            case MessageAdded(message=message) if message.role == "assistant":
                self._inside(event)
            case UsageLimitReached():
                _check(self.open is None, f"{event.type} lies inside a round")
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
