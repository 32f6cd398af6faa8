"""run_turn: decide, perform, fold, repeat, until there is nothing left to do.

Laws: `perform` is one match over the actions; nothing here does I/O of its own: every leaf goes through the
runtime; every nested generator is entered with `aclosing`, so that closing the outer one closes all.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial, reduce
from typing import assert_never

from sapwood.context.render import ledger
from sapwood.core import fault
from sapwood.core.context_edits import made_edits
from sapwood.core.decide import (
    Action,
    CallModel,
    CheckOutput,
    CloseRound,
    Compact,
    Finish,
    Nudge,
    Pause,
    Prepare,
    Raise,
    ReportLimits,
    RunTools,
    Spent,
    decide,
)
from sapwood.core.errors import ToolError, UsageLimitError
from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    OutputChecked,
    OutputDelta,
    RoundFinished,
    TextDelta,
    ThinkingDelta,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UsageLimitReached,
)
from sapwood.core.evolve import evolve
from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.ports import Runtime
from sapwood.core.run import Run
from sapwood.core.usage import RoundUsage, Usage
from sapwood.loop.answers import settled
from sapwood.loop.compaction import compact
from sapwood.loop.model_round import compose, model_round
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.tool_call import run_tools
from sapwood.loop.words import stuck_notice


async def run_turn(
    run: Run,
    spec: TurnSpec,
    rt: Runtime,
    *,
    prompt: Message | None = None,
    answers: Sequence[AgentEvent] = (),
    live: LiveTurn | None = None,
) -> AsyncGenerator[AgentEvent, None]:
    """Yield the events of a turn, from its first or from where a stored run stopped.

    prompt: the user's message of a new run. answers: of a stored one (ApprovalResolved, LimitExtended); noted first,
    where they answer something. live: filled as the turn goes, for whoever needs the run when the turn raises.
    """
    live = live or LiveTurn(run, spec)
    if run.phase == "ended":
        return
    is_resumed, is_pooled = run.phase != "new" and not spec.path, spec.pool.limits is not None
    first = _first(run, spec, prompt)
    run = live.run = evolve(run, first)
    given = tuple(settled(run, answers, rt.now())) if is_resumed else ()
    if is_resumed:  # with the answers: who was answered keeps its place in the pool, also where it had been asked again
        spec.pool.rebuild(reduce(evolve, given, run))
    live.seconds(run, rt.monotonic())
    try:
        await rt.checkpoint(run, first)
        yield first
        for answer in given:
            run = live.run = evolve(run, answer)
            await rt.checkpoint(run, answer)
            yield answer
        await _gather(run, live, rt)
        policy = spec.policy if live.offered.sent else spec.policy.replace(has_tools=False)
        while True:
            if spec.cancel is not None:
                spec.cancel.check()
            action = decide(run, policy, _spent(run, live, rt))
            async with aclosing(perform(action, run, live, rt)) as events:
                async for event in events:
                    if type(event) in _DELTAS:
                        yield event  # neither folded nor checkpointed
                        continue
                    run = live.run = evolve(run, event)
                    if is_pooled and not event.path:
                        spec.pool.note(event)
                    await rt.checkpoint(run, event)
                    if type(event) is TurnFinished and not event.path:
                        live.ended()  # before the consumer sees it, who may leave then
                    yield event
            if isinstance(action, Finish | Pause):
                return
    except BaseException as error:
        live.error = error
        raise
    finally:
        if live.interrupted is not None:
            live.run = evolve(run, live.interrupted)
            spec.pool.note(live.interrupted)
            await rt.checkpoint(live.run, live.interrupted)
        live.ended()


def _first(run: Run, spec: TurnSpec, prompt: Message | None) -> TurnStarted | TurnResumed:
    if run.phase == "new":
        return TurnStarted(run_id=run.run_id, prompt=prompt, agent=spec.agent)
    return TurnResumed(run_id=run.run_id, asks_again=spec.gate.approve is not None)


async def _gather(run: Run, live: LiveTurn, rt: Runtime) -> None:
    """Ask the sources what they contribute; once more, where there is too much of it to send all definitions."""
    context = live.spec.context
    offered = await context.gather(live.turn(run), call=rt.call)
    if live.loading == "deferred" and live.is_too_large_to_defer(offered):
        live.loading = "dispatch"
        offered = await context.gather(live.turn(run), call=rt.call)
    live.offer(offered)


async def first_request(
    run: Run, spec: TurnSpec, rt: Runtime, *, prompt: Message
) -> tuple[ModelRequest, ContextLedger]:
    """Return what the first model call of a turn would send, and its ledger; nothing is sent or saved."""
    live = LiveTurn(run, spec)
    run = evolve(run, TurnStarted(run_id=run.run_id, prompt=prompt))
    await _gather(run, live, rt)
    policy = spec.policy.replace(limits=None)
    while not isinstance(action := decide(run, policy, Spent(next_call_estimate=_estimate(run, live))), CallModel):
        async with aclosing(perform(action, run, live, rt)) as events:
            async for event in events:
                run = evolve(run, event)
    request, sections = compose(action, run, live)
    return request, ledger(sections, run.lines, window=spec.window)


def perform(action: Action, run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Return the events that performing an action brings."""
    match action:
        case CallModel():
            return model_round(action, run, live, rt)
        case RunTools():
            return run_tools(action, live, rt)
        case CloseRound():
            return _close_round(run, live, rt)
        case CheckOutput():
            return _check_output(action, live, rt)
        case Nudge():
            return _nudge(action, live)
        case ReportLimits():
            return _report_limits(action)
        case Raise():
            return _raise(action)
        case Prepare():
            return _prepare(run, live, rt)
        case Compact():
            return compact(run, live, rt)
        case Finish():
            return _finish(action, run, live, rt)
        case Pause():
            return _end(action, run, live)
        case _:
            assert_never(action)


def _spent(run: Run, live: LiveTurn, rt: Runtime) -> Spent:
    if run.phase != "idle":
        return Spent()  # nothing is looked at before the round is over
    estimate = _estimate(run, live)
    return live.spent(run, rt.monotonic(), estimate) if live.is_limited else Spent(next_call_estimate=estimate)


def _estimate(run: Run, live: LiveTurn) -> int:
    """Return the tokens of the next request. It only matters between rounds, where something can still be done."""
    policy = live.spec.policy
    if run.phase != "idle" or not (policy.window or policy.compact_at or run.room or live.is_limited):
        return 0
    estimate = live.next_call_estimate(run) + live.source_room(run)
    # A history over its own share is to be shortened, too, unless that was tried and nothing new has come.
    is_due = live.history_excess(run) > 0 and (not run.size_after or estimate > run.size_after + policy.window // 8)
    return max(estimate, policy.window + 1) if is_due else estimate


async def _prepare(run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    window = live.spec.window
    room = window - live.next_call_estimate(run) if window else _UNBOUNDED
    events = live.spec.context.select(live.turn(run, room=room), live.spec.meter, call=rt.call)
    async with aclosing(events) as selected:
        async for event in selected:
            yield event


async def _finish(action: Finish, run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    record = live.spec.record
    if record is not None:
        await rt.call("conversation.append", record, run, shielded=True)
        fault.point("conversation.appended")
    kept = live.spec.context.commit(live.turn(run), call=rt.call, background=rt.background)
    async with aclosing(kept) as events:
        async for event in events:
            yield event
    yield _finished(action, run, live)


async def _end(action: Pause, run: Run, live: LiveTurn) -> AsyncGenerator[AgentEvent, None]:
    yield _finished(action, run, live)


def _finished(action: Finish | Pause, run: Run, live: LiveTurn) -> TurnFinished:
    diagnostics = run.diagnostics(action.cause, path=live.spec.path, run_id=live.root_id)
    return TurnFinished(text=run.text, output=run.output, diagnostics=diagnostics)


async def _check_output(action: CheckOutput, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Read the reply's text as the output that is owed."""
    reader = live.spec.output
    if reader is None:  # the policy of a spec made by hand owes what nothing can read
        yield OutputChecked(error="there is nothing that reads an output")
        return
    if action.is_cut and _NUMBER.fullmatch(action.text.strip()):
        yield OutputChecked(error="the reply was cut off, so the number may have been longer")
        return
    try:
        read = partial(reader.read_text, action.text, expose_errors=live.spec.expose_errors)
        instance, text = await rt.call("output", read)
    except ToolError as error:
        yield OutputChecked(error=str(error))
    else:
        live.take_output(instance)
        yield OutputChecked(output=text)


async def _nudge(action: Nudge, live: LiveTurn) -> AsyncGenerator[AgentEvent, None]:
    reader = live.spec.output
    if action.output is not None and reader is not None:
        text = reader.ask_again(action.error, action.output)
    else:
        text = stuck_notice(action.tool, action.count)
    yield MessageAdded(message=Message.user(text), nudge=action.kind)


async def _report_limits(action: ReportLimits) -> AsyncGenerator[AgentEvent, None]:
    for breach in action.breaches:
        yield UsageLimitReached(
            kind=breach.kind, used=breach.used, limit=breach.limit, scope=breach.scope, tool=breach.tool
        )


async def _raise(action: Raise) -> AsyncGenerator[AgentEvent, None]:
    raise UsageLimitError(f"{action.breach} is reached; raise it, or choose another policy", breach=action.breach)
    yield  # pragma: no cover - it makes this a generator


async def _close_round(run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    meter = live.spec.meter
    usage = run.last_usage or Usage()
    results = run.messages[-1] if run.calls else None
    told = run.ledger
    if told is not None and not usage.estimated:
        told = told.replace(
            reported_tokens=usage.input_tokens, cached_tokens=usage.cache_read_tokens, cost_usd=usage.cost_usd
        )
    reply = run.messages[:-1] if run.calls else run.messages
    if told is not None and reply and (made := made_edits(reply[-1])):
        told = told.replace(lines=(*told.lines, *made))
    yield RoundFinished(
        round=run.round,
        usage=RoundUsage(
            run.round,
            usage.prompt_tokens,
            usage.completion_tokens,
            told.sections.get("tools", 0) if told else 0,
            meter.scaled(meter.raw_message(results).tool_results) if results else 0,
            usage.cache_creation_tokens,
            usage.cache_read_tokens,
            # As the limits count them: without those that were refused.
            max(0, run.tally.tool_calls - sum(item.tool_calls for item in run.rounds)),
            usage.cost_usd,
            usage.estimated,
            told,
            run.origin,
            max(0.0, live.seconds(run, rt.monotonic()) - run.tally.seconds),
        ),
    )


_NUMBER = re.compile(r"[-+.\deE]+")
_UNBOUNDED = 1 << 40
_DELTAS = frozenset[type[AgentEvent]]((TextDelta, ThinkingDelta, OutputDelta))
