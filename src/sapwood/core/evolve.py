"""evolve: the run after an event, and the only way in which a run changes.

Laws: pure; the same events that the user sees; an event of a subagent changes the run of that subagent, which is a
part of this one. It folds in any order in which calls that overlap may end.
"""

import re
from collections.abc import Iterable
from typing import assert_never

from sapwood.core.diagnostics import ChildTurn
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    LimitExtended,
    MessageAdded,
    MessageInterrupted,
    OutputChecked,
    OutputDelta,
    ProviderWaiting,
    RoundFinished,
    RoundRestarted,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
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
from sapwood.core.limits import LimitBreach
from sapwood.core.messages import Message, Opaque, Recalled, Text, ToolCall, ToolResult
from sapwood.core.run import Child, OpenCall, Phase, Run, most_repeated
from sapwood.core.tools import FINAL_RESULT, effective
from sapwood.core.transcript import with_results
from sapwood.core.usage import Usage

_KEY = re.compile(r"r\d+c\d+\Z")


def evolve(run: Run, event: AgentEvent) -> Run:
    """Return the run after the event. Deltas and announcements change nothing.

    An event of a subagent changes the run of that subagent, which is a part of this one.
    """
    if event.path:
        return _child_changed(run, event)
    match event:  # those of every round first
        case ToolFinished() | ToolStarted() | ToolRunning() | ApprovalRequested() | ApprovalResolved():
            return _call_changed(run, event)
        case MessageAdded():
            return _message_added(run, event)
        case RoundStarted(ledger=ledger, wrap_up=wrap_up):
            return run.replace(phase="calling", ledger=ledger, wrapping=wrap_up or run.wrapping)
        case RoundFinished():
            return _round_finished(run, event)
        case TurnStarted(run_id=run_id, prompt=prompt):
            messages = (*run.messages, prompt) if prompt is not None else run.messages
            return run.replace(run_id=run_id, phase="idle", messages=messages)
        case TurnResumed(asks_again=asks_again):
            return _resumed(run, asks_again)
        case ContextUpdated():
            return _context_updated(run, event)
        case ContextPrepared(lines=lines):
            return run.replace(prepared=True, lines=(*run.lines, *lines))
        case CompactionFinished():
            return _compacted(run, event)
        case MessageInterrupted():
            return _interrupted(run, event)
        case TurnFinished(output=output, diagnostics=diagnostics):
            cause = diagnostics.stopped_by
            phase: Phase = "paused" if cause in ("approval", "limit_ask") else "ended"
            output = output if output is not None else run.output  # of a turn that something else ended
            return run.replace(phase=phase, stopped_by=cause, output=output, asks=cause == "limit_ask")
        case UsageLimitReached():
            breach = LimitBreach(event.kind, event.used, event.limit, event.scope, event.tool)
            return run.replace(limits=(*run.limits, breach))
        case LimitExtended():
            return _limit_extended(run, event)
        case OutputChecked():
            return _output_checked(run, event)
        case RoundRestarted():
            return _restarted(run, event)
        case (
            TextDelta()
            | ThinkingDelta()
            | OutputDelta()
            | CompactionStarted()
            | ProviderWaiting()
            | ServerToolStarted()
            | ServerToolFinished()
        ):
            return run
        case _:
            assert_never(event)


def _context_updated(run: Run, event: ContextUpdated) -> Run:
    if event.op == "loaded":
        skills = (event.skill,) if event.skill and event.skill not in run.skills else ()
        return run.replace(loaded=_with_loaded(run, event.tools), skills=(*run.skills, *skills))
    if event.op != "recalled" or not event.text:
        return run
    run = run.replace(loaded=_with_loaded(run, event.tools)) if event.tools else run
    block = Recalled(event.text, event.source, event.tools)
    if event.placement == "system" or run.prompt is None:
        return run.replace(recalled=(*run.recalled, block))
    # Beside the prompt, and kept there, so that the prefix does not move in later turns.
    place = sum(isinstance(part, Recalled) for part in run.prompt.content)
    content = (*run.prompt.content[:place], block, *run.prompt.content[place:])
    return run.replace(messages=(run.prompt.replace(content=content), *run.messages[1:]))


def _with_loaded(run: Run, names: Iterable[str]) -> tuple[str, ...]:
    return (*run.loaded, *(name for name in names if name not in run.loaded))


def _compacted(run: Run, event: CompactionFinished) -> Run:
    run = _broken_off(run, event.usage).replace(
        compacted=run.round,
        dropped=event.upto,
        past=run.past if event.past is None else event.past,
        lines=(*run.lines, *event.lines),
        size_after=event.tokens_after,
    )
    if not event.results and not event.own_upto:
        return run
    first, left = run.messages[:1], run.messages[1 + event.own_upto :]
    changed = (with_results(message, event.results) for message in left)
    return run.replace(messages=(*first, *changed), edits=run.edits + 1)


def _interrupted(run: Run, event: MessageInterrupted) -> Run:
    text = event.message.text
    run = _broken_off(run.replace(phase="idle"), event.usage)
    if not text.strip():
        return run
    kept = event.message.replace(content=(Text(text),), partial=True)
    return run.replace(messages=(*run.messages, kept), texts=(*run.texts, text))


def _broken_off(run: Run, usage: Usage | None) -> Run:
    if usage is None:
        return run
    tally = run.tally.with_reply(usage)
    return run.replace(usage=run.usage + usage, broken_off=run.broken_off + usage, tally=tally)


def _restarted(run: Run, event: RoundRestarted) -> Run:
    run = _broken_off(run, event.usage)
    if not event.room:
        return run
    # The round has not begun; the history is shortened first, whatever was done for it before.
    return run.replace(phase="idle", room=event.room, compacted=run.round - 1)


def _message_added(run: Run, event: MessageAdded) -> Run:
    message = event.message
    if message.role != "assistant":
        return _nudged(run, event)
    usage = event.usage or Usage()
    ids = list(run.call_ids)
    opened: list[OpenCall] = []
    for call in message.tool_calls:
        public_id = call.id if _may_be_public(call, ids) else call.key
        is_output = event.takes_output and effective(call).name == FINAL_RESULT
        opened.append(OpenCall(call, public_id, refused=event.refuse_calls and not is_output))
        ids.append(call.id)
    calls = tuple(opened)
    found = [name for part in message.content if isinstance(part, Opaque) for name in part.loaded]
    return run.replace(
        phase="replied",
        loaded=_with_loaded(run, found) if found else run.loaded,
        # A reply without content is no message: providers refuse it in the next request.
        messages=(*run.messages, message) if message.content else run.messages,
        calls=calls,
        call_ids=tuple(ids),
        had_calls=bool(calls),
        stop_reason=event.stop_reason,
        usage=run.usage + usage,
        last_usage=usage,
        tally=run.tally.with_reply(usage),
        output_read=False,
        origin=message.origin or "",
        texts=(*run.texts, message.text),
    )


def _may_be_public(call: ToolCall, ids: list[str]) -> bool:
    """Tell whether the provider's id can name the call: it is new, no path of ids, and nobody else's key."""
    return (
        bool(call.id) and call.id not in ids and "/" not in call.id and (call.id == call.key or not _KEY.match(call.id))
    )


def _nudged(run: Run, event: MessageAdded) -> Run:
    run = run.replace(messages=(*run.messages, event.message))
    if event.nudge == "stuck":
        return run.replace(nudged=most_repeated(run)[0])
    # A reply without calls is not the end where the model was asked for more.
    return run.replace(stop_reason=None, had_calls=False) if event.nudge == "output" else run


def _round_finished(run: Run, event: RoundFinished) -> Run:
    now = {item.fingerprint for item in run.calls if item.fingerprint}
    return run.replace(
        phase="idle",
        round=run.round + 1,
        rounds=(*run.rounds, event.usage),
        lines=(),
        tally=run.tally.replace(seconds=run.tally.seconds + event.usage.seconds),
        repeats={mark: run.repeats.get(mark, 0) + 1 for mark in now},
        stuck=bool(run.nudged) and run.nudged in now,
        nudged=run.nudged if run.nudged in now else "",
        wrapped=run.wrapping is not None,
    )


def _output_checked(run: Run, event: OutputChecked) -> Run:
    if event.error is None:
        return run.replace(output=event.output, output_error=None, output_read=True)
    return run.replace(output_error=event.error, output_failures=run.output_failures + 1, output_read=True)


def _limit_extended(run: Run, event: LimitExtended) -> Run:
    name = f"{event.scope}/{event.kind}"
    children = run.children
    if event.scope == "run":  # one pool for the whole tree, so whoever paused for it may go on
        children = {id: child.replace(run=_limit_extended(child.run, event)) for id, child in children.items()}
    if not event.amount > 0:  # also of what is no number
        return run.replace(declined=(*run.declined, name), children=children, asks=False)

    def others(breaches: tuple[LimitBreach, ...]) -> tuple[LimitBreach, ...]:
        return tuple(breach for breach in breaches if (breach.scope, breach.name) != (event.scope, event.kind))

    return run.replace(
        extended={**run.extended, name: run.extended.get(name, 0) + event.amount},
        declined=tuple(other for other in run.declined if other != name),
        limits=others(run.limits),
        refused_by=others(run.refused_by),
        children=children,
        asks=False,
    )


def _resumed(run: Run, asks_again: bool) -> Run:
    if asks_again:
        run = _to_be_asked_again(run)
    if run.phase == "paused":
        has_open = any(item.state != "done" for item in run.calls)
        return run.replace(phase="replied" if has_open else "idle", stopped_by=None)
    return run.replace(phase="idle") if run.phase == "calling" else run


def _to_be_asked_again(run: Run) -> Run:
    calls = tuple(
        item.replace(state="started")
        if item.state == "waiting" and item.request is not None and item.request.kind == "approval"
        else item
        for item in run.calls
    )
    below = {id: child.replace(run=_to_be_asked_again(child.run)) for id, child in run.children.items()}
    return run.replace(calls=calls, children=below)


def _child_changed(run: Run, event: AgentEvent) -> Run:
    id, *rest = event.path
    name = event.agent if isinstance(event, TurnStarted) and not rest else ""
    child = run.children.get(id) or Child(name, Run())
    child = child.replace(run=evolve(child.run, event.replace(path=tuple(rest))))
    return run.replace(children={**run.children, id: child})


def _call_changed(
    run: Run, event: ToolStarted | ToolRunning | ApprovalRequested | ApprovalResolved | ToolFinished
) -> Run:
    match event:
        case ToolStarted(key=key, name=name):
            return _change(run, key, state="started", name=name)
        case ToolRunning(key=key, attempt=attempt, changed_input=changed):
            return _change(run, key, state="running", attempt=attempt, changed_input=changed)
        case ApprovalRequested(key=key):
            return _change(run, key, state="waiting", request=event, decision=None)
        case ApprovalResolved(key=key):
            return _decided(run, event)
        case ToolFinished():
            return _tool_finished(run, event)


def _decided(run: Run, event: ApprovalResolved) -> Run:
    """Return the run with the answer to a call that has not been answered; a second answer counts for nothing."""
    open_states = ("asked", "started", "waiting")
    is_open = any(item.call.key == event.key and item.state in open_states for item in run.calls)
    return _change(run, event.key, state="decided", decision=event) if is_open else run


def _change(run: Run, key: str, **changes: object) -> Run:
    calls = tuple(item.replace(**changes) if item.call.key == key else item for item in run.calls)
    return run.replace(calls=calls)


def _tool_finished(run: Run, event: ToolFinished) -> Run:
    content = (Text(event.result), *(event.content or ()))
    calls = tuple(
        item.replace(
            state="done",
            fingerprint=event.fingerprint,
            result=ToolResult(
                event.key,
                item.call.name,
                content,
                is_error=event.is_error,
                loaded=event.loaded,
                details=event.details,
                skill=event.skill,
            ),
        )
        if item.call.key == event.key
        else item
        for item in run.calls
    )
    run = _accounted(run, event)
    if any(item.state != "done" for item in calls):
        return run.replace(calls=calls)
    results = tuple(item.result for item in calls if item.result is not None)
    if run.phase == "paused":  # it was closed, and that broke off: whoever goes on is still in this round
        run = run.replace(phase="replied", stopped_by=None, asks=False)
    return run.replace(calls=calls, messages=(*run.messages, Message("tool", results)))


def _accounted(run: Run, event: ToolFinished) -> Run:
    """Return the run with what an answered call used, and brought."""
    refused = any(item.refused for item in run.calls if item.call.key == event.key)
    if event.limit is not None:
        run = run.replace(refused_by=(*run.refused_by, event.limit))
    elif not (refused or event.output is not None or event.output_error is not None):
        run = run.replace(tally=run.tally.with_call(event.name))
    if event.output is not None:
        run = run.replace(output=event.output, output_error=None)
    elif event.output_error is not None and run.output is None:
        # A reply is one try, however many outputs it brings.
        failures = run.output_failures + (not run.output_read)
        run = run.replace(output_error=event.output_error, output_failures=failures, output_read=True)
    child = run.children.get(event.tool_call_id)
    if child is None:
        return run
    error = event.result if event.is_error else None
    turn = ChildTurn(event.tool_call_id, child.name, child.run.diagnostics(child.run.stopped_by or "error", error))
    return run.replace(
        children={id: other for id, other in run.children.items() if id != event.tool_call_id},
        child_turns=(*run.child_turns, turn),
        children_tally=run.children_tally + child.run.whole_tally(),
    )
