"""The checker: reads a whole history (journals, conversations, effects) and fails where a promise was broken."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from durable.world import World
from sapwood.agent.durable import MOVED_ON, NOT_BEGUN
from sapwood.core.codec import event_from_json, to_json
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    LimitExtended,
    MessageAdded,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from sapwood.core.journal import fold_journal, is_journaled
from sapwood.core.limits import UsageLimits
from sapwood.core.run import Run
from sapwood.core.transcript import INTERRUPTED, pending_calls, repair
from sapwood.runtime.saving import MAY_WAIT
from sapwood.testing import fold

ONCE = ("write", "guarded")
CLOSED = (MOVED_ON, NOT_BEGUN, INTERRUPTED)
Call = tuple[str, ...]


def check(world: World, conversation_id: str, limits: UsageLimits | None) -> None:
    """Fail unless the history is one that may happen."""
    store = world.store
    summaries = list(reversed(store.runs.list(limit=10_000)))
    assert [item.status for item in summaries] == ["ended"] * len(summaries), "a run is left open"
    journals = {item.run_id: store.runs.events(item.run_id) for item in summaries}
    for run_id, events in journals.items():
        run = store.runs.load(run_id)
        check_journal(run, events)
        check_calls(events)
        check_approvals(events)
        check_limits(run, events, limits)
        check_acknowledged(events, world.acknowledged.get(run_id, []))
    assert set(world.acknowledged) <= set(journals), "a run that was told of is not stored"
    check_effects(world, journals)
    check_conversation(store.conversations.load(conversation_id).messages, journals)


def check_journal(run: Run, events: Sequence[AgentEvent]) -> None:
    """No gap; folding it gives the stored run; it begins and ends once."""
    again = fold_journal(Run(run.run_id, run.conversation_id, run.base_seq), enumerate(events, 1))
    assert again == run == fold(events, Run(run.run_id, run.conversation_id, run.base_seq))
    assert run.phase == "ended"
    assert pending_calls(run.messages) == ()
    assert repair(run.messages) == run.messages, f"the messages of {run.run_id} are not valid"
    own = [event for event in events if not event.path]
    ends = [event for event in own if isinstance(event, TurnFinished)]
    assert [event.stopped_by in ("approval", "limit_ask") for event in ends] == [True] * (len(ends) - 1) + [False]
    assert own[-1] is ends[-1], "something follows the end"


def check_calls(events: Sequence[AgentEvent]) -> None:
    """Every call has exactly one result: also those of subagents, unless the call that led there was broken off."""
    asked = Counter(
        (*event.path, item.key)
        for event in events
        if isinstance(event, MessageAdded) and event.message.role == "assistant"
        for item in event.message.tool_calls
    )
    answered = Counter((*event.path, event.key) for event in events if isinstance(event, ToolFinished))
    assert not [place for place, count in asked.items() if count > 1], "a call was asked for twice"
    assert not [place for place, count in answered.items() if count > 1], "a call has two results"
    assert not set(answered) - set(asked), "a result tells of no call"
    broken_off = {
        (*event.path, event.tool_call_id)
        for event in events
        if isinstance(event, ToolFinished) and event.result in CLOSED
    }
    missing = {place for place in set(asked) - set(answered) if not any(place[: len(b)] == b for b in broken_off)}
    assert not missing, f"calls without a result: {missing}"


def check_approvals(events: Sequence[AgentEvent]) -> None:
    """No guarded function ran without a yes, none after a no, none with another input than the one agreed to."""
    names: dict[Call, str] = {}
    inputs: dict[Call, Any] = {}
    requests: dict[Call, ApprovalRequested] = {}
    answers: dict[Call, ApprovalResolved] = {}
    for event in events:
        place = (*event.path, str(getattr(event, "key", "")))
        match event:
            case ToolStarted():
                names[place], inputs[place] = event.name, event.tool_input
            case ApprovalRequested():
                requests[place] = event
                answers.pop(place, None)
            case ApprovalResolved():
                assert place in requests, f"{place} was answered without being asked"
                assert place not in answers, f"{place} was answered twice"
                assert event.digest == requests[place].digest
                answers[place] = event
            case ToolRunning():
                if names[place] == "outside":
                    raise AssertionError(f"{place} runs here, and is to be done outside")
                if names[place] != "guarded" and place not in requests:
                    continue
                answer = answers.get(place)
                assert answer is not None, f"{place} ran unasked"
                assert answer.approved, f"{place} ran after a no"
                agreed = answer.updated_input or requests[place].tool_input
                assert (event.changed_input or inputs[place]) == agreed, f"{place} ran with another input"
            case _:
                pass


def check_limits(run: Run, events: Sequence[AgentEvent], limits: UsageLimits | None) -> None:
    """Nothing was overspent beyond what the documentation says: the last rounds, and calls in flight."""
    if limits is None:
        return
    extra = Counter[str]()
    for event in events:
        if isinstance(event, LimitExtended):
            extra[event.kind] += int(event.amount)
    tally = run.whole_tally()
    agents = sum(isinstance(event, TurnStarted) for event in events)
    if limits.tool_calls_limit is not None:
        not_run = sum(isinstance(event, ToolFinished) and event.result in CLOSED for event in events)
        assert tally.tool_calls - not_run <= limits.tool_calls_limit + extra["tool_calls"], "too many tool calls"
    if limits.requests_limit is not None:
        assert tally.requests <= limits.requests_limit + extra["requests"] + agents, "too many requests"
    if limits.total_tokens_limit is not None:
        allowed = limits.total_tokens_limit + extra["total_tokens"] + 50 * agents * 2
        assert tally.usage.total_tokens <= allowed, "too many tokens"


def check_acknowledged(events: Sequence[AgentEvent], seen: Sequence[AgentEvent]) -> None:
    """What a consumer was shown is stored, as often as it was shown; and in that order, but for overlapping calls."""
    durable = [event for event in seen if is_journaled(event) and event.type not in MAY_WAIT]
    stored = Counter(_text(event) for event in events)
    shown = Counter(_text(event) for event in durable)
    lost = {text: count for text, count in shown.items() if stored[text] < count}
    assert not lost, f"acknowledged, and not stored: {lost}"
    places = [_text(event) for event in events if not isinstance(event, ToolFinished)]
    at = 0
    for event in durable:
        if not isinstance(event, ToolFinished):
            at = places.index(_text(event), at) + 1


def _text(event: AgentEvent) -> bytes:
    return to_json(event_from_json(to_json(event)))  # 3 and 3.0 are one number


def check_effects(world: World, journals: dict[str, Sequence[AgentEvent]]) -> None:
    """At most one for each key, unless a person said that it may be done again; every one that was settled is there."""
    done = Counter(effect.key for effect in world.effects)
    settled: dict[str, str] = {}
    again = Counter[str]()
    agreed: dict[str, Any] = {}
    for run_id, events in journals.items():
        kinds: dict[Call, str] = {}
        shown: dict[Call, Any] = {}
        for event in events:
            key = f"{run_id}/{'/'.join((*event.path, str(getattr(event, 'key', ''))))}"
            place = (*event.path, str(getattr(event, "key", "")))
            if isinstance(event, ApprovalRequested):
                kinds[place], shown[place] = event.kind, event.tool_input
            elif isinstance(event, ApprovalResolved) and event.approved:
                late = (run_id, *place, kinds[place])
                assert late not in world.expired, f"{key} was agreed to after its time"
                again[key] += kinds[place] == "unknown"
                agreed[key] = event.updated_input or shown[place]
            elif isinstance(event, ToolFinished) and event.result.startswith("wrote "):
                settled[key] = event.result.partition("\n")[0].removeprefix("wrote ")
    for key, told in settled.items():
        assert key == told, "the result of another call"
        assert done[key], f"{key} was settled, and never happened"
    for effect in world.effects:
        if effect.key in world.returned and not effect.life.failed:
            assert effect.key in settled, f"{effect.key} happened, and its outcome was not noted"
        assert effect.run_id in journals, f"{effect.key} belongs to no stored run"
        if effect.tool in ONCE:
            assert done[effect.key] <= 1 + again[effect.key], f"{effect.key} happened {done[effect.key]} times"
        if effect.tool == "guarded":
            assert effect.key in agreed, f"{effect.key} happened, and nobody agreed"
            if not again[effect.key]:
                assert agreed[effect.key] == {"what": effect.what}, f"{effect.key} is not what was agreed to"


def check_conversation(messages: Sequence[Any], journals: dict[str, Sequence[AgentEvent]]) -> None:
    """The turns follow each other in the order of their beginning, each whole and once, but for what was shortened."""
    assert repair(messages) == tuple(messages), "the conversation is not valid"
    expected: list[Any] = []
    for run_id, events in journals.items():
        run = fold(events, Run(run_id))
        if run.past is not None:
            expected = list(run.past)
        expected = expected[run.dropped :] if run.past is None else expected
        expected += run.messages
    assert list(messages) == expected, "the conversation is not what its runs have made of it"


def compactions(journals: dict[str, Sequence[AgentEvent]]) -> int:
    """How often a history was shortened."""
    return sum(
        isinstance(event, CompactionFinished) and bool(event.upto or event.past is not None)
        for events in journals.values()
        for event in events
    )
