"""The usage pool: what a turn and all turns below it have used, shared by the whole tree; and their one clock.

Laws: one pool for one tree of agents; it can be rebuilt from the Run of the turn at its top; what a call may use is
set aside before it begins, so that calls that overlap cannot overshoot together; the clock stands still while a
person is waited for.
"""

from sapwood.core.events import AgentEvent, CompactionFinished, MessageAdded, MessageInterrupted, RoundRestarted
from sapwood.core.limits import LimitBreach, Tally, UsageLimits, refuses_call
from sapwood.core.run import Run


class Stopwatch:
    """Seconds that passed, without those in which a person was waited for."""

    __slots__ = ("_since", "_waiting", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None
        self._waiting = 0

    def read(self, now: float) -> float:
        """Return the seconds up to now, on the runtime's monotonic clock; the first reading starts it."""
        if self._waiting:
            return self.seconds
        if self._since is not None:
            self.seconds += max(0.0, now - self._since)
        self._since = now
        return self.seconds

    def wait(self, now: float) -> None:
        """Stop: a person is asked."""
        self.read(now)
        self._waiting += 1
        self._since = None

    def go_on(self, now: float) -> None:
        """Go on: the person has answered."""
        self._waiting -= 1
        self.read(now)


class UsagePool:
    """What one tree of agents has used and may use.

    limits: None where nothing is limited. before: what earlier segments of the turn used.
    """

    __slots__ = ("_asked", "_base", "before_seconds", "clock", "limits", "tally")

    def __init__(self, limits: UsageLimits | None = None) -> None:
        self._base = self.limits = limits
        self.tally = Tally()
        self._asked = Tally()
        self.clock = Stopwatch()
        self.before_seconds = 0.0

    def rebuild(self, run: Run) -> None:
        """Take up what a stored run and the subagents in it used, and by how much its limits were raised."""
        self.tally = run.whole_tally()
        for _, item in run.open_calls():
            if item.has_passed_limits:  # it keeps its place: whoever is new comes after it
                self.tally = self.tally.with_call(item.name)
        self._asked = Tally()
        self.clock = Stopwatch()
        self.before_seconds = run.tally.seconds
        self.extend(run)

    def extend(self, run: Run) -> None:
        """Raise the limits as far as a person has raised them in this run, which is the one at the top."""
        if self._base is not None:
            self.limits = self._base.extended(run.extra("run"))

    def spent(self, now: float) -> Tally:
        """Return what was used, and set aside for model calls that are under way."""
        total = self.tally + self._asked if self._asked.requests else self.tally
        return total.replace(seconds=self.before_seconds + self.clock.read(now))

    def reserve_call(self, name: str) -> LimitBreach | None:
        """Count a tool call that is about to be answered, or return the limit that refuses it."""
        breach = refuses_call(self.limits, self.tally, name, "run")
        if breach is None:
            self.tally = self.tally.with_call(name)
        return breach

    def reserve_model_call(self, next_call: Tally) -> "Reservation":
        """Set aside what a model call is thought to use, until the reservation is given back."""
        self._asked = self._asked + next_call
        return Reservation(self, next_call)

    def settle_model_call(self, next_call: Tally) -> None:
        """Take back what was set aside."""
        asked, given = self._asked.usage, next_call.usage
        usage = asked.replace(
            prompt_tokens=asked.prompt_tokens - given.prompt_tokens,
            completion_tokens=asked.completion_tokens - given.completion_tokens,
        )
        self._asked = self._asked.replace(
            usage=usage,
            requests=self._asked.requests - next_call.requests,
            cost_usd=max(0.0, self._asked.cost_usd - next_call.cost_usd),
        )

    def note(self, event: AgentEvent) -> None:
        """Count what a model call used."""
        match event:
            case MessageAdded(usage=usage, message=message) if usage is not None and message.role == "assistant":
                self.tally = self.tally.with_reply(usage)
            case MessageInterrupted(usage=usage) | RoundRestarted(usage=usage) | CompactionFinished(usage=usage) if (
                usage is not None
            ):
                self.tally = self.tally.with_reply(usage)
            case _:
                pass


class Reservation:
    """What is set aside for one model call, as long as it runs; others of the tree see it as used.

    It is given back once: before what was really used is noted, as both would count else, and at the latest when the
    `with` ends. Without a pool nothing is set aside.
    """

    __slots__ = ("_next_call", "_pool")

    def __init__(self, pool: UsagePool | None, next_call: Tally) -> None:
        self._pool = pool
        self._next_call = next_call

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Give it back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.settle_model_call(self._next_call)
