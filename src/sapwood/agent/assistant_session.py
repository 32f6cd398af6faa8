"""AssistantSession: the state of a conversation for a front end that is not React.

Laws: what is said here of `send`, `reset`, `busy` and the callbacks is guide D's, statement by statement; a part is
applied before `on_part` hears of it; `on_done` runs once for every turn, after `busy` was reset.
Source: guide D, "useAssistant"; `packages/react` is the same for React.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeAlias
from uuid import uuid4

from sapwood.agent.agent import Agent
from sapwood.core.assistant import Input, Thread, part_of, reduce, with_prompt
from sapwood.core.assistant_parts import AssistantItem, AssistantPart, UserItem
from sapwood.core.errors import SapwoodError
from sapwood.core.events import ServerToolStarted, ToolStarted
from sapwood.core.parts import AgentPart, to_part
from sapwood.core.struct import Data
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.transcript import Transcript

PartStream: TypeAlias = AsyncIterable[Input] | Iterable[Input]
StreamFunction: TypeAlias = Callable[[str, tuple[AssistantItem, ...]], MaybeAwaitable[PartStream]]
"""(prompt, history before this turn) -> the parts of the answer, or a server's chunks as JSON."""


class DoneTurn(Data, frozen=True):
    """What `on_done` is told. spoken: the prompt was given to `send`, and not read from the input box."""

    spoken: bool
    error: BaseException | None = None


class AssistantSession:
    """A conversation with an agent as a front end shows it: the items, the input box, and whether a turn runs.

    stream: answers a prompt, given the items before it; plain or async, and so is what it returns. on_part: called for
    every part, in order, after it was applied. on_done: called at the end of every turn, failed or not. Both may be
    async.

    >>> import asyncio
    >>> from sapwood.core.parts import AgentTextPart
    >>> session = AssistantSession(lambda prompt, history: [AgentTextPart("He"), AgentTextPart("llo")])
    >>> session.input = "  Hi  "
    >>> asyncio.run(session.send())
    >>> [item.role for item in session.items], session.items[-1].parts[0].text, session.input
    (['user', 'assistant'], 'Hello', '')
    """

    def __init__(
        self,
        stream: StreamFunction,
        *,
        on_part: Callable[[AssistantPart], MaybeAwaitable[None]] | None = None,
        on_done: Callable[[DoneTurn], MaybeAwaitable[None]] | None = None,
    ) -> None:
        self.input = ""
        self._stream = stream
        self._on_part = on_part
        self._on_done = on_done
        self._thread = Thread()
        self._turn: _Turn | None = None

    @classmethod
    def of(
        cls,
        agent: Agent,
        *,
        on_part: Callable[[AssistantPart], MaybeAwaitable[None]] | None = None,
        on_done: Callable[[DoneTurn], MaybeAwaitable[None]] | None = None,
    ) -> "AssistantSession":
        """Return a session that talks to this agent; each turn goes on where the last one ended.

        >>> import asyncio
        >>> from sapwood import Agent
        >>> from sapwood.testing import says, scripted
        >>> session = AssistantSession.of(Agent(llm=scripted(says("Hello"))))
        >>> asyncio.run(session.send("Hi"))
        >>> session.items[-1].parts
        (AgentTextPart(text='Hello'),)
        """
        return cls(_AgentStream(agent), on_part=on_part, on_done=on_done)

    @property
    def items(self) -> tuple[AssistantItem, ...]:
        """What was said, oldest first. What a part does not change stays the same object."""
        return self._thread.items

    @property
    def busy(self) -> bool:
        """Tell whether a turn runs."""
        return self._turn is not None

    async def send(self, override: str | None = None) -> None:
        """Send the text of the input box, or another one, for example a voice transcript.

        Nothing to say, or a turn that runs: no effect at all. It returns when the answer is complete.

        Raises whatever the stream raises, after `busy` was reset and `on_done` ran; what came so far stays.
        """
        prompt = (self.input if override is None else override).strip()
        if not prompt or self._turn is not None:
            return
        history = self.items
        turn = self._turn = _Turn(spoken=override is not None)
        self.input = ""
        self._thread = with_prompt(self._thread, UserItem(uuid4().hex, prompt), uuid4().hex)
        error: BaseException | None = None
        try:
            await self._take(turn, prompt, history)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._turn = None
            await _called(self._on_done, DoneTurn(turn.spoken, error))

    def reset(self) -> None:
        """Empty the thread. A turn that runs goes on, and what it still gives is not shown."""
        if self._turn is not None and self._turn.ghost is None:
            self._turn.ghost = self._thread
        self._thread = Thread()

    async def _take(self, turn: "_Turn", prompt: str, history: tuple[AssistantItem, ...]) -> None:
        given = self._stream(prompt, history)
        source = await given if inspect.isawaitable(given) else given
        async with aclosing(_inputs(source)) as inputs:
            async for item in inputs:
                await self._apply(turn, item)
        if turn.failure is not None:
            raise SapwoodError(turn.failure)

    async def _apply(self, turn: "_Turn", given: Input) -> None:
        thread = reduce(self._thread if turn.ghost is None else turn.ghost, given)
        if turn.ghost is None:
            self._thread = thread
        else:
            turn.ghost = thread
        if isinstance(given, dict) and given.get("type") == "error":
            turn.failure = given["errorText"]
        part = part_of(thread, given)
        if part is not None:
            await _called(self._on_part, part)


class _Turn:
    """A turn that runs. ghost: the thread it goes on filling, unseen, once `reset` emptied the one that is shown."""

    def __init__(self, *, spoken: bool) -> None:
        self.spoken = spoken
        self.ghost: Thread | None = None
        self.failure: str | None = None


class _AgentStream:
    """An agent as a stream function. It keeps the transcript, which says more than the items do."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kept = Transcript()

    async def __call__(self, prompt: str, history: tuple[AssistantItem, ...]) -> AsyncGenerator[AgentPart, None]:
        arguments: dict[str, dict[str, Any]] = {}
        if not history:
            # A thread that was reset is forgotten for good, also where this turn fails.
            self._kept = Transcript()
        async with aclosing(self._agent.astream(prompt, messages=self._kept)) as events:
            async for event in events:
                if event.path:
                    continue  # a subagent's: its answer is the result of the call that started it
                if isinstance(event, ToolStarted):
                    arguments[event.key] = event.tool_input
                elif isinstance(event, ServerToolStarted):
                    arguments[event.tool_call_id] = event.tool_input
                part = to_part(event, arguments, with_context=True)
                if part is not None:
                    yield part
        self._kept = self._agent.last_messages


async def _inputs(source: PartStream) -> AsyncGenerator[Input, None]:
    # What is asked for its items is what has to be closed: a source may make an iterator of its own.
    if isinstance(source, AsyncIterable):
        steps = aiter(source)
        try:
            async for item in steps:
                yield item
        finally:
            close: Callable[[], Any] | None = getattr(steps, "aclose", None)
            if close is not None:
                await close()
        return
    plain = iter(source)
    try:
        for item in plain:
            yield item
    finally:
        end: Callable[[], Any] | None = getattr(plain, "close", None)
        if end is not None:
            end()


async def _called(callback: Callable[[Any], Any] | None, value: Any) -> None:
    result = callback(value) if callback is not None else None
    if isinstance(result, Awaitable):
        await result
