"""Turns that outlive their process: begun on a stored conversation, noted in a run store, resumed from there.

Laws: one turn at a time on a conversation; a run that waits for a person owns its conversation until it is answered
or denied; one that a crash or an error broke off is closed by the next prompt, and what it had done stays in the
history; nothing that a store holds is trusted to a client: answers are checked against the stored requests.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from sapwood.agent.answers import Answers, answers_of, asked_in, keep_remembered, require_current
from sapwood.core.decide import CloseRound, Finish, decide
from sapwood.core.errors import ConfigError, ConflictError, ConversationBusyError, RunPausedError, StoreError
from sapwood.core.events import AgentEvent, RoundFinished, ToolFinished, TurnFinished
from sapwood.core.evolve import evolve
from sapwood.core.journal import ends_segment
from sapwood.core.limits import LimitBreach
from sapwood.core.messages import Message
from sapwood.core.ports import ConversationStore, RunStore, Runtime
from sapwood.core.run import OpenCall, Run
from sapwood.core.stored import Compacted, Conversation, StoredRun, require_id
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.transcript import INTERRUPTED, Transcript
from sapwood.core.usage import RoundUsage
from sapwood.loop.call_events import finished
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.saving import SavingRuntime

OnPending: TypeAlias = Literal["raise", "deny"]
OnBusy: TypeAlias = Literal["raise", "wait"]
MakeSpec: TypeAlias = Callable[[Transcript], TurnSpec]
OnEnd: TypeAlias = Callable[[LiveTurn], None]

MOVED_ON = "Denied: the user moved on to something else."
NOT_BEGUN = "Not run: the turn was broken off before."
ANOTHER_PROMPT = "another prompt came"
ANSWERING = ("turn_resumed", "approval_resolved", "limit_extended", "context_updated")
"""Events of a segment that has done nothing with the answers yet."""
BUSY_SECONDS = 0.05
"""How long a prompt waits before it looks again whether a conversation is free; each time twice as long, up to 1 s."""


class Frees(Protocol):
    """What has runs on conversations whose runs no store keeps."""

    async def free(self, keeping: "Keeping", rt: Runtime) -> None:
        """See to it that none of them stands on the conversation."""
        ...


class Keeping(msgspec.Struct, frozen=True):
    """Where an agent keeps its turns. Either store may be missing.

    conversation_id: the conversation that its prompts belong to. on_pending: what a prompt does while a run waits for
    a person: `raise`, or `deny` what it waits for. on_busy: what it does while another turn runs.
    """

    runs: RunStore | None = None
    conversations: ConversationStore | None = None
    conversation_id: str | None = None
    on_pending: OnPending = "raise"
    on_busy: OnBusy = "raise"


async def stored_turn(
    keeping: Keeping,
    make: MakeSpec,
    prompt: Message,
    history: Transcript,
    rt: Runtime,
    *,
    on_end: OnEnd,
    paused: Frees,
    run_id: str | None = None,
) -> AsyncGenerator[AgentEvent, None]:
    """Yield the events of a new turn that is kept. paused: asked where no run store is. run_id: names the run.

    Raises ConversationBusyError, RunPausedError, and what the stores raise, before any model is called.
    """
    delay = BUSY_SECONDS
    while True:
        begun = False
        try:
            async with aclosing(_turn(keeping, make, prompt, history, rt, on_end, paused, run_id)) as events:
                async for event in events:
                    begun = True
                    yield event
            return
        except ConversationBusyError:
            if begun or keeping.on_busy == "raise":
                raise
        await rt.sleep(delay)
        delay = min(1.0, delay * 2)


async def history_of(keeping: Keeping, rt: Runtime) -> Transcript:
    """Return the messages of the conversation; none where there is no conversation."""
    if keeping.conversations is None or keeping.conversation_id is None:
        return Transcript()
    loaded = await _kept(rt, "conversation.load", keeping.conversations.load, keeping.conversation_id)
    return Transcript.of(loaded.messages)


async def resumed_turn(
    keeping: Keeping, make: MakeSpec, run_id: str, answers: Answers, rt: Runtime, *, on_end: OnEnd
) -> AsyncGenerator[AgentEvent, None]:
    """Yield the events of a later segment of a stored run.

    Raises ConfigError for an answer to what was never asked or of the wrong kind, RunPausedError where nothing was
    answered, ConflictError where somebody else goes on with the run, or was first: it is answered, or has ended.
    """
    runs = keeping.runs
    if runs is None:
        raise ConfigError("there is no run store to resume from; give the agent one with with_run_store(...)")
    if not answers.is_empty:
        # Looked at before it is claimed, so that a wrong answer is no reason to take the run from anybody.
        await _fitting_answers(runs, await _kept(rt, "run.load", runs.load, run_id), answers, rt)
    saving = SavingRuntime(rt, runs, run_id=run_id)
    stored = await _taken(saving, runs, run_id, answers, rt)
    try:
        _require_own(keeping, stored)
        events = await _fitting_answers(runs, stored.run, answers, rt)
        history, is_recorded = Transcript.of(stored.past), False
        if keeping.conversations is not None and stored.conversation_id is not None:
            loaded = await _kept(rt, "conversation.load", keeping.conversations.load, stored.conversation_id)
            history, is_recorded = _before(loaded, stored.run)
        spec = make(history)
        if is_recorded and not _is_over(stored.run, spec, rt):
            await _closed(keeping, stored, saving, rt, ANOTHER_PROMPT)
            raise ConflictError(f"run {run_id!r} was closed, as another prompt came; what it did is in the history")
        require_progress(stored.run, events, spec)
        run = stored.run.replace(conversation_id=stored.conversation_id)
        if is_recorded:  # what was left out of the history is out of the one that was loaded
            run = run.replace(dropped=0, past=None)
        spec = recorded(spec, keeping, run, saving)
        live = LiveTurn(run, spec, on_end=on_end)
        async with aclosing(run_turn(run, spec, saving, answers=events, live=live)) as turn:
            async for event in turn:
                keep_remembered(event, stored.run, answers, spec.gate, rt.new_id())
                yield event
    finally:
        await saving.release()


async def _taken(saving: SavingRuntime, runs: RunStore, run_id: str, answers: Answers, rt: Runtime) -> StoredRun:
    try:
        return await saving.claim()
    except ConflictError:
        raise
    except StoreError:
        if not answers.is_empty:  # it may have ended between the look and the claim
            await _fitting_answers(runs, await _kept(rt, "run.load", runs.load, run_id), answers, rt)
        raise


async def _fitting_answers(runs: RunStore, run: Run, answers: Answers, rt: Runtime) -> tuple[AgentEvent, ...]:
    """Return the events of these answers.

    Raises ConflictError where the run has moved on since it asked, ConfigError for what it never asked.
    """
    try:
        return answers_of(run, answers, rt.now())
    except ConfigError as error:
        problem = error
    require_current(run, answers, asked_in(await _kept(rt, "run.events", runs.events, run.run_id)))
    raise problem


def _require_own(keeping: Keeping, stored: StoredRun) -> None:
    if stored.conversation_id is not None and keeping.conversations is None:
        raise ConfigError(
            f"run {stored.run.run_id!r} belongs to conversation {stored.conversation_id!r}, whose messages this agent "
            f"cannot read; give it with_conversation(store, {stored.conversation_id!r})"
        )


def _before(loaded: Conversation, run: Run) -> tuple[Transcript, bool]:
    """Return the history without the messages of the run, and whether they were in it: it broke off at its very end."""
    own = Transcript.of(run.messages)[:]
    if loaded.version == run.base_seq or loaded.messages[-len(own) :] != own:
        return Transcript.of(loaded.messages), False
    return Transcript.of(loaded.messages[: -len(own)]), True


def _is_over(run: Run, spec: TurnSpec, rt: Runtime) -> bool:
    """Tell whether all that was left to this run is to say that it has ended."""
    spec.pool.rebuild(run)
    spent = LiveTurn(run, spec).spent(run, rt.monotonic(), 0)
    if isinstance(decide(run, spec.policy, spent), CloseRound):  # which may wait, so it need not be stored
        run = evolve(run, RoundFinished(round=run.round, usage=RoundUsage(run.round)))
    return isinstance(decide(run, spec.policy, spent), Finish)


def require_progress(run: Run, answers: Sequence[AgentEvent], spec: TurnSpec) -> None:
    """Raise RunPausedError where the run would only pause again after these events."""
    after = run
    for event in answers:
        after = evolve(after, event)
    is_stuck = run.phase == "paused" and not after.can_go_on()
    if is_stuck and (spec.gate.approve is None or after.asks):
        raise RunPausedError(what_waits(run))


def has_open_answers(run: Run) -> bool:
    """Tell whether a call waits for a person, or was answered and has not run."""
    return any(item.state in ("waiting", "decided") for _, item in run.open_calls())


def what_waits(run: Run) -> str:
    """Return what a run waits for, and how to go on with it."""
    if run.can_go_on():
        return f"run {run.run_id!r} was answered, and nobody has gone on with it yet; resume it"
    waiting = ", ".join(f"{request.id} ({request.name})" for request in run.waiting())
    if waiting:
        return f"run {run.run_id!r} waits for an answer to {waiting}; resume it with decisions"
    limits = ", ".join(str(breach) for breach in _limits(run))
    return f"run {run.run_id!r} waits at {limits}; resume it with extend=, or extend={{}} to let it finish"


def _limits(run: Run) -> tuple[LimitBreach, ...]:
    below = (breach for child in run.children.values() for breach in _limits(child.run))
    return (*(run.limits if run.asks else ()), *below)


async def _turn(
    keeping: Keeping,
    make: MakeSpec,
    prompt: Message,
    history: Transcript,
    rt: Runtime,
    on_end: OnEnd,
    paused: Frees,
    run_id: str | None,
) -> AsyncGenerator[AgentEvent, None]:
    version = 0
    if keeping.conversations is not None and keeping.conversation_id is not None:
        if len(history):
            raise ConfigError("messages= has no place here: with_conversation (or with_memory) has the history")
        await (_free(keeping, keeping.runs, rt) if keeping.runs is not None else paused.free(keeping, rt))
        loaded = await _kept(rt, "conversation.load", keeping.conversations.load, keeping.conversation_id)
        history, version = Transcript.of(loaded.messages), loaded.version
    run = start_run(run_id or rt.new_id()).replace(conversation_id=keeping.conversation_id, base_seq=version)
    saving = None
    if keeping.runs is not None:
        saving = SavingRuntime(
            rt,
            keeping.runs,
            run_id=run.run_id,
            conversation_id=keeping.conversation_id,
            base_seq=version,
            past=() if keeping.conversation_id is not None else history[:],
        )
    spec = recorded(make(history), keeping, run, saving)
    live = LiveTurn(run, spec, on_end=on_end)
    try:
        async with aclosing(run_turn(run, spec, saving or rt, prompt=prompt, live=live)) as events:
            async for event in events:
                yield event
    except ConflictError as error:
        if saving is None or saving.fence or await version_of(keeping, rt) == version:
            raise
        raise ConversationBusyError(
            f"another turn on conversation {keeping.conversation_id!r} came first ({error}); send the prompt again, or "
            'give on_busy="wait"'
        ) from error
    finally:
        if saving is not None:
            await saving.release()
        elif live.run.phase not in ("new", "ended", "paused") and spec.record is not None:
            # No run store could close this turn later, so what it did enters the history now.
            await _kept(rt, "conversation.append", spec.record, live.run)


async def version_of(keeping: Keeping, rt: Runtime) -> int:
    """Return the version that the conversation is at now; 0 where there is none."""
    store, conversation_id = keeping.conversations, keeping.conversation_id
    if store is None or conversation_id is None:
        return 0
    loaded: Conversation = await _kept(rt, "conversation.load", store.load, conversation_id)
    return loaded.version


def recorded(spec: TurnSpec, keeping: Keeping, run: Run, saving: SavingRuntime | None) -> TurnSpec:
    """Return the spec with what adds the messages of this run to its conversation, where it has one."""
    store, conversation_id = keeping.conversations, run.conversation_id
    if store is None or conversation_id is None:
        return spec

    def record(run: Run) -> MaybeAwaitable[int]:
        return _append(store, conversation_id, run, saving.fence if saving is not None else 0)

    return msgspec.structs.replace(spec, record=record)


def _append(store: ConversationStore, conversation_id: str, run: Run, fence: int) -> MaybeAwaitable[int]:
    is_shortened = run.dropped or run.past is not None
    return store.append(
        conversation_id,
        Transcript.of(run.messages)[:],
        after=run.base_seq,
        run_id=run.run_id,
        fence=fence,
        compacted=Compacted(run.dropped, run.past) if is_shortened else None,
    )


async def _free(keeping: Keeping, runs: RunStore, rt: Runtime) -> None:
    """See to it that no other run stands on the conversation.

    Raises ConversationBusyError where one runs, RunPausedError where one waits for a person and is not to be denied.
    """
    for other in await _kept(rt, "run.waiting", runs.waiting, keeping.conversation_id):
        if other.status == "running":
            raise ConversationBusyError(
                f"run {other.run_id!r} runs on conversation {keeping.conversation_id!r}; wait for its end, or give "
                'on_busy="wait"',
                run_id=other.run_id,
            )
        # One that was answered, and with which nobody has gone on yet, still belongs to who answered.
        waiting: Run = await _kept(rt, "run.load", runs.load, other.run_id)
        if keeping.on_pending == "raise" and await _is_pending(runs, waiting, rt):
            raise RunPausedError(f'{what_waits(waiting)}, or give on_pending="deny"')
        await _moved_on(keeping, runs, other.run_id, rt)


async def _is_pending(runs: RunStore, run: Run, rt: Runtime) -> bool:
    """Tell whether a person is still to answer the run, or has answered it and nothing came of that yet."""
    if run.phase in ("paused", "ended"):
        return run.phase == "paused"
    journal: Sequence[AgentEvent] = await _kept(rt, "run.events", runs.events, run.run_id)
    ends = [place for place, event in enumerate(journal) if ends_segment(event)]
    if not ends:  # it never paused: who was asked was there, and is gone
        return False
    return has_open_answers(run) or all(event.type in ANSWERING for event in journal[ends[-1] + 1 :])


async def _moved_on(keeping: Keeping, runs: RunStore, run_id: str, rt: Runtime) -> None:
    """Close a run for a new prompt, which another prompt, or whoever resumes it, may be doing or have done as well."""
    saving = SavingRuntime(rt, runs, run_id=run_id)
    try:
        stored = await saving.claim()
    except ConflictError as error:
        raise ConversationBusyError(
            f"somebody else goes on with run {run_id!r} on conversation {keeping.conversation_id!r}, or closes it "
            f'({error}); wait for its end, or give on_busy="wait"',
            run_id=run_id,
        ) from error
    except StoreError:
        unfinished = await _kept(rt, "run.waiting", runs.waiting, keeping.conversation_id)
        if any(item.run_id == run_id for item in unfinished):
            raise
        return  # it is over, or was deleted
    try:
        await _closed(keeping, stored, saving, rt, ANOTHER_PROMPT)
    finally:
        await saving.release()


async def record_answers(runs: RunStore, run_id: str, answers: Answers, rt: Runtime) -> Run:
    """Note answers to a run that waits, and return it; whoever resumes it goes on with them.

    Raises as `resumed_turn` does.
    """
    await _fitting_answers(runs, await _kept(rt, "run.load", runs.load, run_id), answers, rt)
    saving = SavingRuntime(rt, runs, run_id=run_id)
    stored = await _taken(saving, runs, run_id, answers, rt)
    try:
        run = stored.run
        for event in await _fitting_answers(runs, run, answers, rt):
            run = evolve(run, event)
            await saving.checkpoint(run, event)
        return run
    finally:
        await saving.release()


async def close(keeping: Keeping, runs: RunStore, run_id: str, rt: Runtime, *, why: str = ANOTHER_PROMPT) -> None:
    """End a run that nobody goes on with: its open calls are answered, and what it did enters the conversation."""
    saving = SavingRuntime(rt, runs, run_id=run_id)
    stored = await saving.claim()
    try:
        await _closed(keeping, stored, saving, rt, why)
    finally:
        await saving.release()


async def _closed(keeping: Keeping, stored: StoredRun, saving: SavingRuntime, rt: Runtime, why: str) -> None:
    run = stored.run.replace(conversation_id=stored.conversation_id)
    for event in closing_of(run):
        run = evolve(run, event)
        await saving.checkpoint(run, event)
    await add_to_conversation(keeping, run, rt, fence=stored.fence)
    ended = TurnFinished(text=run.text, diagnostics=run.diagnostics("cancelled", why))
    await saving.checkpoint(evolve(run, ended), ended)


def closing_of(run: Run) -> Sequence[ToolFinished]:
    """Return an answer to each open call of a run that nobody goes on with."""
    return [_unanswered(item) for item in run.calls if item.state != "done"]


async def add_to_conversation(keeping: Keeping, run: Run, rt: Runtime, *, fence: int = 0) -> None:
    """Add the messages of a run that nobody goes on with to its conversation, where it has one."""
    store, conversation_id = keeping.conversations, run.conversation_id
    if store is not None and conversation_id is not None:
        await _kept(rt, "conversation.append", lambda: _append(store, conversation_id, run, fence))


def _unanswered(item: OpenCall) -> ToolFinished:
    text = {"waiting": MOVED_ON, "running": INTERRUPTED}.get(item.state, NOT_BEGUN)
    return finished(item, item.call, text, is_error=True)


async def _kept(rt: Runtime, step: str, fn: Callable[..., Any], *args: Any) -> Any:
    return await rt.call(step, fn, *args, shielded=True)


class Keeps(Protocol):
    """A store of several kinds, such as `SqliteStore`."""

    @property
    def runs(self) -> RunStore:
        """Where runs are kept."""
        ...

    @property
    def conversations(self) -> ConversationStore:
        """Where conversations are kept."""
        ...


def keeping_of(
    store: object, conversation_id: str, *, before: Keeping, on_pending: OnPending, on_busy: OnBusy
) -> Keeping:
    """Return where turns are kept; raises ConfigError for what is no store, or no such choice."""
    conversations: Any = getattr(store, "conversations", store)
    if not _has(conversations, "load", "append"):
        raise ConfigError(f"a conversation store has load and append, as SqliteStore(path); not {type(store).__name__}")
    if on_pending not in ("raise", "deny"):
        raise ConfigError(f'on_pending is "raise" or "deny", not {on_pending!r}')
    if on_busy not in ("raise", "wait"):
        raise ConfigError(f'on_busy is "raise" or "wait", not {on_busy!r}')
    require_id(conversation_id, "conversation")
    runs = getattr(store, "runs", None) or before.runs
    return Keeping(runs, conversations, conversation_id, on_pending, on_busy)


def with_runs(keeping: Keeping, store: object) -> Keeping:
    """Return the same with a run store; raises ConfigError for what is none."""
    runs: Any = getattr(store, "runs", store)
    if not _has(runs, "begin", "append", "claim"):
        raise ConfigError(f"a run store has begin and append, as SqliteStore(path); not {type(store).__name__}")
    return msgspec.structs.replace(keeping, runs=runs)


def _has(store: object, *methods: str) -> bool:
    """Tell whether a store has these methods; one may stand before another and find them as they are asked for."""
    return all(callable(getattr(store, name, None)) for name in methods)
