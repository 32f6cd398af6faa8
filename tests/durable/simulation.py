"""Seeded simulation of turns through everything that may go wrong, with a checker over the whole history.

`simulate(seed)` runs one scenario in this process and raises where a promise was broken; `python simulation.py SEED`
runs one from the command line and prints what happened. Law: a seed is a whole history, so a failing one replays exactly.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from durable.history import check, compactions
from durable.world import FILLER, POINTS, Asyncio, Blocking, InjectedError, Model, World, prompt_of, tools
from sapwood import Agent, ApprovalDecision, ExternalResult, SubagentDefinition, UsageLimits
from sapwood.agent.answers import Answers
from sapwood.agent.durable import close, record_answers
from sapwood.core.errors import (
    ConfigError,
    ConflictError,
    ConversationBusyError,
    DiskFullError,
    LLMError,
    RunCancelledError,
    RunPausedError,
    StoreError,
    UsageLimitError,
)
from sapwood.core.events import AgentEvent, TurnFinished, TurnResumed, TurnStarted
from sapwood.core.run import Run
from sapwood.runtime.blocking import iterate
from sapwood.testing import assert_ordered
from sapwood.testing.faults import Crash

CONVERSATION = "c1"
MAY_FAIL = (Crash, InjectedError, DiskFullError, LLMError, ConnectionError, RunCancelledError, asyncio.CancelledError)
Events = Any


@dataclass
class Answer:
    """The structured output of some scenarios."""

    text: str


class Simulated(Agent):
    """An Agent whose turns run on the runtime of a world."""

    def turn(self, prompt: str, runtime: Any, token: Any) -> Events:
        return self._events(prompt, (), token, runtime)

    def go_on(self, run_id: str, answers: Answers, runtime: Any, token: Any) -> Events:
        return self._resumed(run_id, answers, token, runtime)


class Scenario:
    """One seed: how the agent is set up, and what happens to it. happened: how often what did, by name."""

    def __init__(self, seed: int, folder: Path | None = None) -> None:
        self.world = World(seed, folder)
        self.chance = chance = self.world.chance
        self.happened: Counter[str] = Counter()
        self.asynchronous = chance.random() < 0.4
        self.defers = chance.random() < 0.7
        self.expires = chance.choice([None, None, 500.0])
        self.on_unknown = chance.choice(["error", "ask"])
        self.window = chance.choice([16_384, 2_000])
        self.has_output = chance.random() < 0.25
        self.limits = self._limits()
        self.on_pending = chance.choice(["raise", "deny"])
        self.on_busy = chance.choice(["raise", "wait"])
        self.points = [name for name in POINTS if folder is not None or not name.startswith("store.")]
        self.tools = tools(self.world, asynchronous=self.asynchronous)
        self.agent = self.made()

    def _limits(self) -> UsageLimits | None:
        chance = self.chance
        if chance.random() < 0.6:
            return None
        kind, limit = chance.choice(
            [("tool_calls_limit", 3), ("requests_limit", 4), ("total_tokens_limit", 400), ("tool_calls_limit", 1)]
        )
        more: dict[str, Any] = {kind: limit, "on_limit": chance.choice(["finish", "stop", "ask", "ask", "raise"])}
        return UsageLimits(**more)

    def made(self) -> Simulated:
        """A new agent, as a new process makes it."""
        own = tuple(self.tools)
        deep = SubagentDefinition(name="deep", description="Below.", tools=own)
        helper = SubagentDefinition(name="helper", description="Helps.", tools=own, subagents=(deep,))
        agent = Simulated(llm=Model(self.world), max_tokens=self.window, max_response_tokens=200)
        agent = agent.with_tools(own).with_subagents([helper])
        if self.defers:
            agent = agent.with_approval(defer=True, expires_seconds=self.expires, on_unknown=self.on_unknown)
        else:
            agent = agent.with_approval(self._asked, on_unknown=self.on_unknown)
        if self.limits is not None:
            agent = agent.with_usage_limits(self.limits)
        if self.has_output:
            agent = agent.with_output_model(Answer)
        return agent.with_conversation(
            self.world.life.store, CONVERSATION, on_pending=self.on_pending, on_busy=self.on_busy
        )

    def _asked(self, request: Any) -> ApprovalDecision:
        kind = self.chance.choice(["yes", "yes", "no", "other"])
        self.note(f"asked about {request.id}: {kind}")
        return _decision(kind)

    def note(self, what: str) -> None:
        """Write down what happened, and when."""
        self.happened[what.split()[0]] += 1
        self.world.log.append(f"{self.world.seconds:.2f} {what}")

    # -- the whole ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all turns, finish what is open, and check the history."""
        for number in range(self.chance.randint(1, 4)):
            prompt = prompt_of(number, self._plan(0))
            for attempt in range(40):
                if self._prompted(prompt):
                    break
                if attempt > 20:
                    self._closed_by_hand()  # it was answered, and can come to no end
            else:
                raise AssertionError(f"turn {number} never began")
            if self.chance.random() < 0.5:
                self._something_with_open_runs()
        self._drain()
        check(self.world, CONVERSATION, self.limits)
        store = self.world.store
        journals = {item.run_id: store.runs.events(item.run_id) for item in store.runs.list(limit=1_000)}
        self.happened["compaction"] += compactions(journals)

    def _plan(self, depth: int) -> dict[str, Any]:
        chance = self.chance
        names = ["write", "guarded", "again", "read", "read", "outside", "broken", *(["task"] * (depth < 2))]
        rounds: list[list[list[Any]]] = []
        for _ in range(chance.randint(0, 3 - depth)):
            made = [chance.choice(names) for _ in range(chance.randint(1, 3))]
            if depth < 2 and chance.random() < 0.15:
                made = ["task"] * chance.randint(2, 3)  # they overlap
            rounds.append([self._call(name, depth, place) for place, name in enumerate(made)])
        plan: dict[str, Any] = {"rounds": rounds, "words": chance.choice([1, 3, 20])}
        if self.window < 10_000 and chance.random() < 0.5:
            plan["pad"] = FILLER
        return plan

    def _call(self, name: str, depth: int, place: int) -> list[Any]:
        id = self.chance.choice(["", f"id{place}"])
        if name != "task":
            return [name, f"w{self.chance.randrange(1000)}", id]
        plan = self._plan(depth + 1)
        plan["agent"] = "helper" if depth == 0 else "deep"
        return [name, plan, id]

    # -- one turn ----------------------------------------------------------------------------------

    def _prompted(self, prompt: str) -> bool:
        """Try to begin a turn; tell whether it has begun."""
        choice = self.chance.random()
        if choice < 0.12 and not self.asynchronous:
            return self._two_turns(prompt)
        if choice < 0.22 and not self.asynchronous:
            return self._zombie(lambda: self.agent.turn(prompt, self._runtime(), self.world.life.token))
        return self._segment(lambda: self.agent.turn(prompt, self._runtime(), self.world.life.token), "prompt")

    def _runtime(self) -> Any:
        kind = Asyncio if self.asynchronous else Blocking
        return kind(self.world, self.world.life)

    def _segment(self, start: Callable[[], Events], what: str) -> bool:
        """Run a segment through whatever happens to it; tell whether a run has begun or gone on."""
        life, chance = self.world.life, self.chance
        hazard = chance.choice(["crash", "crash", "cancel", "close", "none", "none"]) if self.world.faults else "none"
        take = 10_000
        if hazard == "crash":
            life.point, life.visits = chance.choice(self.points), chance.choice([1, 1, 2, 3, 5])
        elif hazard == "cancel":
            life.cancel_in = chance.randint(1, 40)
        elif hazard == "close":
            take = chance.randint(1, 25)
        self.note(f"{what} hazard={hazard} point={life.point} take={take}")
        seen: list[AgentEvent] = []
        ended = "raised"
        try:
            self._take(start(), seen, take)
            ended = "ended" if len(seen) < take else "closed"
        except MAY_FAIL as error:
            self.note(f"{type(error).__name__} {error}")
        except (ConversationBusyError, RunPausedError, UsageLimitError, ConflictError) as error:
            if isinstance(error, ConflictError) and "was closed, as another prompt came" not in str(error):
                raise
            self.note(f"{type(error).__name__} {error}")
            if isinstance(error, ConversationBusyError | RunPausedError):
                self._something_with_open_runs()
        self._judged(seen, ended)
        return bool(seen)

    def _take(self, events: Events, seen: list[AgentEvent], take: int) -> None:
        if not self.asynchronous:
            with closing(iterate(events)) as flow:  # type: ignore[type-var]
                for event in flow:
                    seen.append(event)
                    if len(seen) >= take:
                        return
            return
        cancel_in = self.chance.randint(1, 150) if self.world.happens(0.25) else 0

        async def main() -> None:
            task = asyncio.ensure_future(_taken(events, seen, take))
            turns = 0
            while not task.done():
                turns += 1
                if turns == cancel_in:
                    task.cancel()
                await asyncio.sleep(0)
            await task

        asyncio.run(main())

    def _judged(self, seen: list[AgentEvent], ended: str) -> None:
        """Note what the consumer was shown, and begin a new life where the last one is over."""
        life = self.world.life
        if self._shown(seen):
            is_over = any(_is_end(event) for event in seen)
            assert is_over or ended != "ended", "it ended without an end"
            assert_ordered(seen, ended=is_over)
        if not life.alive or life.token.cancelled or self.world.log[-1].partition(" ")[2].startswith(("Inj", "Disk")):
            self._reborn()
        else:
            life.point, life.cancel_in = "", 0
            if self.chance.random() < 0.2:
                self._reborn()

    def _shown(self, seen: list[AgentEvent], *, first: int = 0) -> bool:
        """Keep what a consumer was shown of a run; tell whether it was anything."""
        if seen:
            assert isinstance(seen[0], TurnStarted | TurnResumed)
            self.world.acknowledged.setdefault(seen[0].run_id, []).extend(seen[first:])
        return bool(seen)

    def _reborn(self) -> None:
        if self.world.max_bytes is not None and self.happened["DiskFullError"]:
            self.world.max_bytes = None  # somebody has made room
        self.world.born()
        self.agent = self.made()
        self.note("reborn")

    # -- rivals ------------------------------------------------------------------------------------

    def _zombie(self, start: Callable[[], Events]) -> bool:
        """A process hangs, another one takes over, and the first one wakes up again."""
        seen: list[AgentEvent] = []
        flow = iterate(start())
        refusals = (*MAY_FAIL, ConversationBusyError, RunPausedError, ConflictError, UsageLimitError, ConfigError)
        life = self.world.life
        try:
            for event in flow:
                seen.append(event)
                if len(seen) >= self.chance.randint(1, 20):
                    break
        except refusals as error:
            self.note(f"{type(error).__name__} {error} (before it hung)")
        begun = self._shown(seen)
        self._reborn()
        self.note(f"zombie hangs after {len(seen)} events")
        self._something_with_open_runs()
        if self.world.life.alive and life.alive:
            later: list[AgentEvent] = []
            self.world.life.failed = True  # what the zombie does now, it cannot note
            try:
                for event in flow:
                    later.append(event)
                self.note("zombie went on")
            except (*refusals, StoreError) as error:
                self.note(f"zombie {type(error).__name__} {error}")
            if begun:
                self._shown([seen[0], *later], first=1)
        with suppress(*refusals, StoreError):
            flow.close()  # type: ignore[attr-defined]
        return begun

    def _two_turns(self, prompt: str) -> bool:
        """Another prompt comes while a turn runs: it is refused, or waits for the end of the first."""
        life = self.world.life
        seen: list[AgentEvent] = []
        first = iterate(self.agent.turn(prompt, self._runtime(), life.token))
        self.note("two turns")
        ended = "ended"
        faults, self.world.faults = self.world.faults, False

        def step() -> None:
            nonlocal ended
            try:
                seen.extend(event for _, event in zip(range(4), first, strict=False))
            except BaseException:
                ended = "raised"  # in the wait of the other turn, which may take it for its own
                raise

        try:
            step()
            if seen and not _is_end(seen[-1]):
                self._refused_or_waits(seen, step)
            seen.extend(first)
        except (RunPausedError, ConversationBusyError, UsageLimitError, LLMError, DiskFullError) as error:
            ended = "raised"
            self.note(f"{type(error).__name__} {error}")
        finally:
            first.close()  # type: ignore[attr-defined]
            self.world.faults = faults
        self._judged(seen, ended)
        if not seen:
            self._something_with_open_runs()
        return bool(seen)

    def _refused_or_waits(self, seen: list[AgentEvent], step: Callable[[], None]) -> None:
        assert isinstance(seen[0], TurnStarted)
        token = self.world.life.token
        try:
            list(iterate(self.agent.go_on(seen[0].run_id, Answers(), self._runtime(), token)))
        except ConflictError:
            pass
        else:
            raise AssertionError("two go on with one run")
        if self.on_busy == "raise":
            try:
                list(iterate(self.agent.turn("turn 99 {}", self._runtime(), token)))
            except ConversationBusyError as error:
                assert error.run_id == seen[0].run_id
            else:
                raise AssertionError("two turns run on one conversation")
            return
        self.world.on_sleep = step
        try:
            late = prompt_of(500 + len(self.world.log), {"rounds": []})
            self._waits(late, seen)
        finally:
            self.world.on_sleep = None

    def _waits(self, late: str, seen: list[AgentEvent]) -> None:
        # It is checked in the history: each turn is whole, and they follow each other.
        other: list[AgentEvent] = []
        try:
            other += iterate(self.agent.turn(late, self._runtime(), self.world.life.token))
        except RunPausedError:
            assert isinstance(seen[-1], TurnFinished)
            assert not seen[-1].path
            assert seen[-1].stopped_by in ("approval", "limit_ask")
        except (UsageLimitError, LLMError) as error:
            self.note(f"{type(error).__name__} {error}")
        self.note("waited for the other turn")

    # -- open runs ---------------------------------------------------------------------------------

    def _something_with_open_runs(self) -> None:
        for item in self.world.store.runs.waiting(CONVERSATION):
            if item.status == "running":
                self._reborn()
                return
            choice = self.chance.random()
            run = self.world.store.runs.load(item.run_id)
            if choice < 0.15:
                self._answered_wrongly(run)
            elif choice < 0.3:
                self._recorded(run)
            elif choice < 0.45 and self.expires is not None:
                self.world.seconds += self.expires + 1
                self.note("late")
            elif choice < 0.55 and not self.asynchronous:
                self._zombie(lambda run=run: self._going_on(run))  # type: ignore[misc]
            elif choice < 0.9:
                self._resumed(run)

    def _going_on(self, run: Run) -> Events:
        answers = self._answers(run)
        self.note(f"answers {sorted(answers.decisions)} {answers.extend}")
        return self.agent.go_on(run.run_id, answers, self._runtime(), self.world.life.token)

    def _resumed(self, run: Run) -> None:
        self._segment(lambda: self._going_on(run), "resume")

    def _recorded(self, run: Run) -> None:
        answers = self._answers(run)
        self.note(f"record {sorted(answers.decisions)} {answers.extend}")
        try:
            self._by_hand(record_answers(self.world.life.store.runs, run.run_id, answers, self._runtime()))
        except MAY_FAIL as error:
            self.note(f"{type(error).__name__} {error}")
            self._reborn()

    def _by_hand(self, step: Any) -> None:
        if self.asynchronous:
            asyncio.run(step)
            return
        try:
            step.send(None)
        except StopIteration:
            return
        raise AssertionError("a blocking step tried to suspend")

    def _closed_by_hand(self) -> None:
        faults, self.world.faults, self.world.max_bytes = self.world.faults, False, None
        self._reborn()
        for item in self.world.store.runs.waiting():
            self._by_hand(close(self.agent.keeping, self.world.life.store.runs, item.run_id, self._runtime()))
            self.note("closed")
        self.world.faults = faults

    def _answered_wrongly(self, run: Run) -> None:
        """A wrong answer is refused, and changes nothing."""
        before = self.world.store.runs.events(run.run_id)
        yes = ApprovalDecision(approved=True)
        wrong: list[Answers] = [Answers({"r99c9": yes}), Answers(extend={"moons": 3})]
        for request in run.waiting():
            wrong.append(Answers({request.id: yes, request.key: yes}) if request.key != request.id else wrong[0])
            if request.kind == "external":
                wrong.append(Answers({request.id: yes}))
            else:
                wrong.append(Answers({request.id: ExternalResult("x")}))
        faults, self.world.faults = self.world.faults, False
        try:
            flow = self.agent.go_on(run.run_id, self.chance.choice(wrong), self._runtime(), self.world.life.token)
            self._take(flow, [], 10_000)
        except (ConfigError, ConflictError) as error:
            # The key of a child's call may be the id of one of the turn's own that was answered before.
            if isinstance(error, ConflictError) and "has an answer to" not in str(error):
                raise
            self.note(f"wrong {error}")
        else:
            raise AssertionError("a wrong answer was taken")
        finally:
            self.world.faults = faults
        assert self.world.store.runs.events(run.run_id) == before, "a wrong answer changed something"

    def _answers(self, run: Run, *, all_of_them: bool = False) -> Answers:
        chance = self.chance
        decisions: dict[str, Any] = {}
        for request in run.waiting():
            if request.expires_at is not None and request.expires_at <= self._runtime().now():
                self.world.expired.add((run.run_id, *request.path, request.key, request.kind))
            kind = "yes" if all_of_them else chance.choice(["yes", "yes", "no", "other", "later"])
            if kind == "later":
                continue
            is_external = request.kind == "external" and kind != "no"
            decisions[request.id] = ExternalResult("from outside") if is_external else _decision(kind)
        breaches = _asked_breaches(run)
        if not breaches or (not all_of_them and chance.random() < 0.3):
            return Answers(decisions, by="ann")
        more = 0 if all_of_them else chance.choice([0, 2, 300])
        return Answers(decisions, {breaches[0]: more} if more else {}, by="ann")

    # -- the end -----------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Without faults, everything that is open comes to its end."""
        self.world.faults, self.world.max_bytes = False, None
        self._reborn()
        self.note("drain")
        for _ in range(60):
            opened = self.world.store.runs.waiting()
            if not opened:
                return
            run_id = opened[0].run_id
            run = self.world.store.runs.load(run_id)
            raises = self.limits is not None and self.limits.on_limit == "raise" and run.limits
            if raises or "ContextOverflowError" in self.world.log[-1]:  # it can come to no end of its own
                self._closed_by_hand()
                continue
            answers = self._answers(run, all_of_them=True)
            self._segment(lambda: self.agent.go_on(run_id, answers, self._runtime(), self.world.life.token), "resume")
        raise AssertionError("a run does not come to its end")


def _is_end(event: AgentEvent) -> bool:
    """Tell whether the turn itself has ended, and not a child's."""
    return isinstance(event, TurnFinished) and not event.path


def _asked_breaches(run: Run) -> list[str]:
    found = [breach.name for breach in run.limits] if run.asks else []
    for child in run.children.values():
        found += _asked_breaches(child.run)
    return found


def _decision(kind: str) -> ApprovalDecision:
    other = {"what": "something else"} if kind == "other" else None
    return ApprovalDecision(approved=kind != "no", updated_input=other)


async def _taken(events: Events, seen: list[AgentEvent], take: int) -> None:
    try:
        async for event in events:
            seen.append(event)
            if len(seen) >= take:
                return
    finally:
        await events.aclose()


def simulate(seed: int, folder: Path | None = None) -> Scenario:
    """Run one scenario; folder: where its SQLite file is made, None for a store in memory."""
    scenario = Scenario(seed, folder)
    try:
        scenario.run()
    except BaseException as error:
        error.add_note(f"seed {seed}, store {'in memory' if folder is None else 'SQLite'}")
        raise
    finally:
        scenario.world.close()
    return scenario


if __name__ == "__main__":
    random.seed(0)
    one = int(sys.argv[1])
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    simulation = Scenario(one, place)
    try:
        simulation.run()
    finally:
        print("\n".join(simulation.world.log))
        for item in simulation.world.store.runs.list():
            for event in simulation.world.store.runs.events(item.run_id):
                print(item.run_id, json.dumps(str(event))[:300])
        simulation.world.close()
