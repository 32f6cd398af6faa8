"""The world of a simulated turn: time, ids, chance, a model, tools with effects and stores, all from one seed.

Laws: nothing here asks the system for time, chance or a thread, so a seed is a whole history; what a life that has
crashed still tries to write, or to do, does not happen.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from sapwood import ToolContext, tool
from sapwood.core import fault
from sapwood.core.cancel import CancelToken
from sapwood.core.errors import (
    AuthenticationError,
    ContextOverflowError,
    RateLimitError,
    ServerError,
    StepTimeoutError,
    StoreError,
    ToolError,
)
from sapwood.core.events import AgentEvent
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.transcript import repair
from sapwood.core.usage import Usage
from sapwood.llm.scripted import ScriptedReply, call, calls, says
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime
from sapwood.stores.holder import Clock
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.faults import Crash, names

POINTS = [name for name in names() if not name.startswith("files.")]  # those are no step of a turn
BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
LEASE_SECONDS = 3_000.0
MANY = 10_000
"""Sleeps that no scenario comes near."""
USAGE = Usage(prompt_tokens=40, completion_tokens=10)
FILLER = "the quick brown fox jumps over the lazy dog " * 12


class Effect(NamedTuple):
    """Something that a tool did to the world outside."""

    key: str
    run_id: str
    path: tuple[str, ...]
    call: str
    tool: str
    what: str
    life: "Life"


class InjectedError(StoreError):
    """A store that fails because the seed says so."""


class Life:
    """One process: it lives until it crashes.

    token: cancels the turn that it runs. failed: something besides its consumer has come between a tool and the store.
    owed: the holds that it could not give up, which a store gives up with the next thing that it can write.
    """

    def __init__(self) -> None:
        self.alive = True
        self.failed = False
        self.token = CancelToken()
        self.point, self.visits = "", 0
        self.cancel_in = 0
        self.store: Any = None
        self.owed: list[tuple[Any, ...]] = []

    def reached(self, point: str) -> None:
        """Die at the fault point that was chosen, at the visit that was chosen."""
        if not self.alive:
            raise Crash("dead")
        if point == self.point:
            self.visits -= 1
            if self.visits == 0:
                self.alive, self.failed = False, True
                raise Crash(point)


class World:
    """All that a scenario shares.

    acknowledged: what was shown to consumers, by run. expired: requests that nobody had answered in time.
    returned: the calls whose function came to its end. log: what happened, in words.
    """

    def __init__(self, seed: int, folder: Path | None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.seconds = 0.0
        self.numbers = iter(range(1, 1_000_000))
        self.effects: list[Effect] = []
        self.acknowledged: dict[str, list[AgentEvent]] = {}
        self.expired: set[tuple[str, ...]] = set()
        self.returned: set[str] = set()
        self.log: list[str] = []
        self.faults = True
        self.life = Life()
        self.on_sleep: Callable[[], None] | None = None
        self._sleeps = 0
        self._folder = folder
        self._old: list[Any] = []
        self._memory = InProcessStore() if folder is None else None
        self.max_bytes = self.chance.choice([None, None, 222_000, 292_000]) if folder is not None else None
        self.born()

    # -- lives and stores --------------------------------------------------------------------------

    def born(self) -> Life:
        """Begin a new life on what the last one left in the store; the last one is not closed, it is just gone."""
        life = self.life = Life()
        fault.watch(lambda point: self.life.reached(point))
        if self._folder is None:
            self._memory = self._memory.reopened() if self._memory is not None else None
            inner: Any = self._memory
        else:
            self.seconds += LEASE_SECONDS + 1
            clock = Clock(lambda: self.seconds, lambda: self.seconds)
            path = self._folder / f"{self.seed}.db"
            inner = SqliteStore(path, max_bytes=self.max_bytes, lease_seconds=LEASE_SECONDS, clock=clock)
            self._old.append(inner)
        life.store = Mortal(inner, life, self)
        return life

    @property
    def store(self) -> Any:
        """The store itself, without the faults of a life."""
        return self.life.store.inner

    def close(self) -> None:
        """Let go of all stores."""
        fault.watch(None)
        for store in self._old:
            store.close()

    # -- what the runtimes ask ---------------------------------------------------------------------

    def happens(self, share: float) -> bool:
        """Tell whether something that happens so often happens now."""
        return self.faults and self.chance.random() < share

    def moment(self, life: Life) -> None:
        """Let a moment pass; it may be the one in which somebody stops the turn."""
        self.seconds += 0.01
        if life.cancel_in:
            life.cancel_in -= 1
            if not life.cancel_in:
                life.token.cancel("the user stopped it")

    def slept(self, seconds: float) -> None:
        """Let the time of a sleep pass. Raises AssertionError where a turn sleeps for ever."""
        self.seconds += seconds
        self._sleeps += 1
        assert self._sleeps < MANY, "a turn waits for what never comes"

    def effect(self, name: str, what: str, context: ToolContext) -> str:
        """Do something that cannot be taken back."""
        if not self.life.alive:
            raise Crash("dead")
        if self.happens(0.03):
            raise ToolError("the service is down")
        place = Effect(
            context.idempotency_key, context.run_id, context.path, context.tool_call_key, name, what, self.life
        )
        self.effects.append(place)
        if self.happens(0.03):
            self.life.failed = True
            raise ValueError("it is done, and then something failed")
        return f"wrote {context.idempotency_key}"


# -- stores ------------------------------------------------------------------------------------------


class Mortal:
    """A store in the hands of one life: it fails when the seed says so, and takes nothing from the dead."""

    def __init__(self, inner: Any, life: Life, world: World) -> None:
        self.inner = inner
        self.runs = _Runs(inner.runs, life, world)
        self.conversations = _Conversations(inner.conversations, life, world)


class _Face:
    def __init__(self, inner: Any, life: Life, world: World) -> None:
        self._inner, self._life, self._world = inner, life, world

    def through(self, name: str, args: Any, more: Any) -> Any:
        if not self._life.alive:
            raise Crash("dead")
        if self._world.happens(0.01):
            self._life.failed = True
            if name == "release":
                self._life.owed.append(args)
            raise InjectedError(f"{name}: the file is locked by another program")
        while self._life.owed:
            self._life.store.inner.runs.release(*self._life.owed.pop())
        try:
            result = getattr(self._inner, name)(*args, **more)
        except StoreError:
            self._life.failed = True
            raise
        if self._world.happens(0.005):
            self._life.failed = True
            raise InjectedError(f"{name}: it is done, but the answer was lost")
        return result


def _passed(name: str) -> Any:
    def method(self: _Face, *args: Any, **more: Any) -> Any:
        return self.through(name, args, more)

    return method


RUNS = ("begin", "append", "claim", "load", "events", "release", "waiting", "list", "summary", "delete")
_Runs = type("_Runs", (_Face,), {name: _passed(name) for name in RUNS})
_Conversations = type(
    "_Conversations", (_Face,), {name: _passed(name) for name in ("load", "append", "delete", "list")}
)


# -- runtimes ----------------------------------------------------------------------------------------


class _Virtual:
    world: World
    life: Life

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.world.seconds)

    def monotonic(self) -> float:
        return self.world.seconds

    def random(self) -> float:
        return self.world.chance.random()

    def new_id(self) -> str:
        return f"run{next(self.world.numbers)}"

    def _passes(self, shielded: bool) -> None:
        if not shielded:
            self.world.moment(self.life)
            self.life.token.check()

    def _too_late(self, effect: bool) -> None:
        if effect and self.world.happens(0.02):
            self.world.seconds += 5
            self.life.failed = True
            raise StepTimeoutError("no outcome after 5 s")


class Blocking(_Virtual, BlockingRuntime):
    """The blocking runtime in virtual time."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__(cancel=life.token)
        self.world, self.life = world, life

    async def call(self, step: str, fn: Any, *args: Any, **more: Any) -> Any:
        self._passes(more.get("shielded", False))
        self._too_late(more.get("effect", False))
        result = await super().call(step, fn, *args, **{**more, "timeout": None})
        self._too_late(more.get("effect", False))
        return result

    async def sleep(self, seconds: float) -> None:
        self.world.slept(seconds)
        if self.world.on_sleep is not None:
            self.world.on_sleep()
        self.life.token.check()


class Asyncio(_Virtual, AsyncioRuntime):
    """The asyncio runtime in virtual time, without threads: every leaf is called on the loop, after some turns of it."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__()
        self.world, self.life = world, life

    async def call(self, step: str, fn: Any, *args: Any, **more: Any) -> Any:
        shielded = more.get("shielded", False)
        if not shielded:
            await loops(self.world)
        self._passes(shielded)
        self._too_late(more.get("effect", False))
        result = fn(*args)
        if asyncio.iscoroutine(result):
            result = await result
        self._too_late(more.get("effect", False))
        return result

    async def sleep(self, seconds: float) -> None:
        self.world.slept(seconds)
        await loops(self.world)


async def loops(world: World) -> None:
    """Let others on the event loop go on, for as many turns of it as the seed says."""
    for _ in range(world.chance.randrange(3)):
        await asyncio.sleep(0)


# -- the model ---------------------------------------------------------------------------------------


class Model:
    """A model whose reply depends on the request alone: the plan of a turn stands in its prompt."""

    profile = ModelProfile("scripted", "scripted")

    def __init__(self, world: World) -> None:
        self._world = world

    def stream(self, request: ModelRequest) -> "Flow":
        messages = tuple(request.transcript)
        assert repair(messages) == messages, "a request has a transcript that is not valid"
        return Flow(self._world, reply_to(request))


class Flow:
    """The stream of one reply, plain and async, which may break off."""

    def __init__(self, world: World, reply: ScriptedReply) -> None:
        self._world = world
        self._chunks = self._broken(reply)

    def __iter__(self) -> Iterator[StreamChunk]:
        return self._chunks

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self._paced()

    async def _paced(self) -> AsyncIterator[StreamChunk]:
        for chunk in self._chunks:
            await loops(self._world)
            yield chunk

    def _broken(self, reply: ScriptedReply) -> Iterator[StreamChunk]:
        world = self._world
        if world.happens(0.05):
            raise world.chance.choice(
                [
                    ServerError("overloaded", status=529),
                    RateLimitError("slow down", status=429, retry_after_seconds=2.0),
                    ConnectionResetError("reset by peer"),
                    AuthenticationError("the key was revoked", status=401),
                    ContextOverflowError("too long"),
                ]
            )
        for chunk in reply.chunks():
            if world.happens(0.01):
                raise ServerError("the connection was lost")
            if world.happens(0.005):
                return  # it ends early, and says nothing
            yield chunk


def prompt_of(number: int, plan: dict[str, Any]) -> str:
    """The prompt of a turn, with its plan."""
    return f"turn {number} {json.dumps(plan)}"


def reply_to(request: ModelRequest) -> ScriptedReply:
    """The reply that the plan has for this place in the turn."""
    messages = tuple(request.transcript)
    own = [
        place
        for place, message in enumerate(messages)
        if message.role == "user" and message.text.startswith(("turn ", "child "))
    ][-1]
    task = messages[own].text
    plan, _ = json.JSONDecoder().raw_decode(task, task.index("{"))
    replies = [message for message in messages[own + 1 :] if message.role == "assistant" and not message.partial]
    rounds = plan["rounds"]
    choice = request.tool_choice
    if len(replies) < len(rounds) and choice in (None, "any", "auto"):
        return calls(*(_call(item) for item in rounds[len(replies)]), text="Let me see. ", usage=USAGE)
    if any(item.name == FINAL_RESULT for item in request.tools) and choice != "none":
        return calls(call(FINAL_RESULT, {"text": "all done"}), usage=USAGE)
    return says(f"{task[:8]} is over. " + "word " * plan.get("words", 3), usage=USAGE)


def _call(item: list[Any]) -> Any:
    name, what, id = item
    if name == "task":
        return call("task", {"agent_name": what["agent"], "task": f"child {json.dumps(what)}"}, id=id)
    if name == "broken":
        return call("write", raw='{"what": ', id=id)
    return call(name, {"what": what}, id=id)


# -- tools -------------------------------------------------------------------------------------------


def tools(world: World, *, asynchronous: bool) -> list[Any]:
    """The tools of all agents."""

    def made(name: str, about: str, act: Callable[[str, ToolContext], str], **more: Any) -> Any:
        def plain(what: str, context: ToolContext) -> str:
            result = act(what, context)
            world.returned.add(context.idempotency_key)
            return result

        async def paced(what: str, context: ToolContext) -> str:
            await loops(world)
            result = act(what, context)
            await loops(world)
            world.returned.add(context.idempotency_key)
            return result

        return tool(paced if asynchronous else plain, name=name, description=about, timeout=5.0, **more)

    def acting(name: str) -> Callable[[str, ToolContext], str]:
        return lambda what, context: world.effect(name, what, context)

    return [
        made("write", "Write.", acting("write")),
        made("guarded", "Write, if a person agrees.", acting("guarded"), requires_approval=True),
        made("again", "Write something that may be written twice.", acting("again"), idempotent=True),
        made("read", "Read.", lambda what, _: f"read {what}", read_only=True),
        made("outside", "Done by somebody outside.", lambda what, _: what, external=True),
    ]
