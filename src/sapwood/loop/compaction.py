"""compaction: how a request that is too long, or soon will be, becomes shorter before it is made.

Laws: the sources are asked first; where none answers, or too little came of it, the oldest exchanges that nobody
pinned are left out, and at last results of this turn are shortened, so that what can fit does. The prompt and the
last exchange always stay; a call never loses its result.
"""

from collections.abc import AsyncGenerator, Sequence

from sapwood.context.ladder import clear_results, is_kept, is_summary, tokens_of, trim_results
from sapwood.context.plan import droppable
from sapwood.context.source import Exchange, History
from sapwood.core.events import AgentEvent, CompactionFinished, CompactionStarted, ContextUpdated
from sapwood.core.evolve import evolve
from sapwood.core.ledger import LedgerLine
from sapwood.core.messages import Message, Summary, ToolResult
from sapwood.core.ports import Runtime
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript, as_it_was, exchanges
from sapwood.core.usage import Usage
from sapwood.loop.spec import LiveTurn

LEAST_RESULT_TOKENS = 200
"""A result of this turn is never cut to less, where results alone are more than the window takes."""


async def compact(run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Ask the sources and the history option; where that is not enough, leave out what does not fit."""
    spec = live.spec
    before = live.next_call_estimate(run)
    yield CompactionStarted()
    failures, used = list[ContextUpdated](), list[Usage]()
    is_first = not run.round or bool(run.room)
    messages = live.messages(run)
    answer = None
    # Sources that could do nothing are not asked again before there is something new to shorten.
    if run.room or not run.size_after or before > run.size_after + _room(run, live) // 8:
        answer = await spec.context.compact(
            messages,
            room=_room(run, live),
            history=_measured(run, live),
            call=rt.call,
            failed=failures.append,
            used=used.append,
            with_option=is_first,
        )
    for failure in failures:
        yield failure
    end = CompactionFinished(tokens_before=before, upto=run.dropped)
    if answer is not None:
        end = _told(answer, run, live, end)
    told = evolve(run, end)
    if spec.context.trim_history:
        end = _fitted(end, run, live)
    after = evolve(run, end)
    usage = sum(used[1:], start=used[0]) if used else None
    live.forget()
    tokens_after = live.next_call_estimate(after)
    lines = (*_lines(run, told, live), *_lines(told, after, live))
    live.forget()
    yield end.replace(tokens_after=tokens_after, lines=lines, usage=usage)


def _room(run: Run, live: LiveTurn) -> int:
    """Return the tokens that a request may take: the window, or less since the provider found one too long."""
    window = live.spec.window
    return min(window or run.room, run.room or window)


def _measured(run: Run, live: LiveTurn) -> History:
    past = exchanges(live.past(run))
    own = exchanges(run.messages)
    beside = live.next_call_estimate(run) + live.source_room(run)
    groups = (*past, *own)
    beside -= tokens_of(groups, live.size)
    return History(
        groups,
        current=len(past),
        beside=max(0, beside),
        size=live.size,
        excess=live.history_excess(run),
    )


def _told(answer: Sequence[Message], run: Run, live: LiveTurn, end: CompactionFinished) -> CompactionFinished:
    """Return what sources made of past and present messages, told apart again."""
    start = _start_of_turn(answer, run)
    kept = list(answer[start or 0 :])
    results: dict[str, str] = {}
    missing: list[int] = []
    for index in reversed(range(len(run.messages))):
        own = run.messages[index]
        place = next((place for place in reversed(range(len(kept))) if _is_same(kept[place], own)), None)
        if place is None:
            missing.append(index)
            continue
        results.update(_changed(kept[place], own))
        del kept[place]
    past = live.past(run)
    left = tuple(Transcript.of([*answer[: start or 0], *kept]))
    own_upto = _left_out(sorted(missing), run) if start is not None else 0
    if left == tuple(past):
        return end.replace(results=results, own_upto=own_upto)
    gone = len(past) - len(left)
    if run.past is None and gone > 0 and left == past[gone:]:
        return end.replace(upto=run.dropped + gone, results=results, own_upto=own_upto)
    return end.replace(upto=0, past=left, results=results, own_upto=own_upto)


def _start_of_turn(answer: Sequence[Message], run: Run) -> int | None:
    """Return where this turn begins in what a source gave back; None where it left the prompt out.

    Only what stands from there on may be this turn's: an earlier turn may hold the same calls, with the same keys.
    """
    if run.prompt is None:
        return None
    return next((place for place in reversed(range(len(answer))) if answer[place] == run.prompt), None)


def _is_same(message: Message, own: Message) -> bool:
    if message.role != "tool" or own.role != "tool":
        return message == own
    return as_it_was(message) == as_it_was(own)


def _changed(message: Message, own: Message) -> dict[str, str]:
    pairs = zip(message.tool_results, own.tool_results, strict=True)
    return {new.key: new.text for new, old in pairs if new.content != old.content}


def _left_out(missing: Sequence[int], run: Run) -> int:
    """Return how many messages of this turn go: those after the prompt, in whole exchanges, and never the last."""
    if not run.round:
        return 0
    groups = exchanges(run.messages)
    gone = 0
    for group in groups[1:-1]:
        places = range(1 + gone, 1 + gone + len(group))
        if not all(place in missing for place in places):
            break
        gone += len(group)
    return gone


def _fitted(end: CompactionFinished, run: Run, live: LiveTurn) -> CompactionFinished:
    """Return a compaction after which the request fits, where anything can still be done about it.

    A result that alone takes much of the window is cut first, so that it does not drive all else out.
    """
    for step in (_without_giants, _without_oldest, _with_one_result, _with_cut_results):
        after = evolve(run, end)
        excess = _past_excess(after, live) if step is _without_oldest else _excess(after, live)
        if excess > 0:
            end = step(end, run, live, excess)
    return end


def _excess(run: Run, live: LiveTurn) -> int:
    live.forget()  # it is a run that may come to be, beside others of its kind
    window = _room(run, live)
    return live.next_call_estimate(run) + live.source_room(run) - window if window else 0


def _past_excess(run: Run, live: LiveTurn) -> int:
    """Return by how much past messages are too long: for the window, or for the share that the budget gives them."""
    return max(_excess(run, live), live.history_excess(run))


def _without_giants(end: CompactionFinished, run: Run, live: LiveTurn, excess: int) -> CompactionFinished:
    """Cut results of this turn of more than a quarter of the window to that."""
    history = _own_history(end, run, live)
    return _with_results(end, run, trim_results(history, limit=_room(run, live) // 4, note=_cut_word, with_last=True))


def _without_oldest(end: CompactionFinished, run: Run, live: LiveTurn, excess: int) -> CompactionFinished:
    """Leave out past exchanges, oldest first: those that nothing holds, then summaries and what loaded tools.

    A quarter of the window is freed beside what is needed, or half of what would stay where that is less: a request
    whose beginning moves is not in the provider's cache, and must not be the rule once a conversation is long.
    """
    after = evolve(run, end)
    past = live.past(after)
    groups = exchanges(past)
    gone: set[int] = set()
    over_window = _excess(after, live)
    for candidates in (_loose(groups, live), _held(groups, live)):
        sizes = [tokens_of([groups[place]], live.size) for place in candidates]
        stays = sum(sizes) - excess
        spare = max(0, min(_room(run, live) // 4, stays // 2, stays - live.spec.context.history_floor))
        count = droppable(sizes, excess + spare) if excess > 0 else 0
        gone.update(candidates[:count])
        # What is held goes for the sake of the window alone, and not for that of a share.
        excess = over_window - sum(sizes[:count])
    _drop_first_answers(groups, gone, live)
    left = tuple(message for place, group in enumerate(groups) if place not in gone for message in group)
    count = len(past) - len(left)
    if after.past is None and left == past[count:]:
        return end.replace(upto=after.dropped + count)
    return end.replace(upto=0, past=left)


def _drop_first_answers(groups: Sequence[Exchange], gone: set[int], live: LiveTurn) -> None:
    """Let what is left begin with the user, as providers demand: an answer whose question went goes, too."""
    for place, group in enumerate(groups):
        if place in gone:
            continue
        if group[0].role == "user" or _is_held(group, place, live):
            return
        gone.add(place)


def _loose(groups: Sequence[Exchange], live: LiveTurn) -> list[int]:
    return [place for place, group in enumerate(groups) if not _is_held(group, place, live)]


def _held(groups: Sequence[Exchange], live: LiveTurn) -> list[int]:
    """Return the places of what goes last; what is pinned never goes."""
    return [
        place
        for place, group in enumerate(groups)
        if _is_held(group, place, live) and not any(message.pinned for message in group)
    ]


def _is_held(group: Exchange, place: int, live: LiveTurn) -> bool:
    return is_kept(group) or is_summary(group) or live.spec.context.stays(group, place)


def _with_one_result(end: CompactionFinished, run: Run, live: LiveTurn, excess: int) -> CompactionFinished:
    """Clear all results of this turn but those of the newest exchange."""
    return _with_results(end, run, clear_results(_own_history(end, run, live), _cleared_word, keep=1))


def _with_cut_results(end: CompactionFinished, run: Run, live: LiveTurn, excess: int) -> CompactionFinished:
    """Cut the largest results as far as it takes."""
    history = _own_history(end, run, live)
    results = [part for group in history for message in group for part in message.tool_results]
    sizes = [history.size(Message("tool", (part,))) for part in results]
    limit = max(sizes, default=0)
    while limit > LEAST_RESULT_TOKENS and sum(max(0, size - limit) for size in sizes) < excess + LEAST_RESULT_TOKENS:
        limit = limit * 3 // 4
    limit = max(LEAST_RESULT_TOKENS, limit - LEAST_RESULT_TOKENS // 4)
    return _with_results(end, run, trim_results(history, limit=limit, note=_cut_word, with_last=True))


def _own_history(end: CompactionFinished, run: Run, live: LiveTurn) -> History:
    return History(exchanges(evolve(run, end).messages), size=live.size)


def _with_results(end: CompactionFinished, run: Run, shorter: History) -> CompactionFinished:
    messages = [message for group in shorter for message in group]
    results: dict[str, str] = {}
    for message, own in zip(messages, evolve(run, end).messages, strict=True):
        results.update(_changed(message, own))
    return end.replace(results={**end.results, **results})


def _cleared_word(result: ToolResult, tokens: int) -> str:
    return f"[This result of {result.name} ({tokens:,} tokens) was cleared, as the context is full.]"


def _cut_word(result: ToolResult, tokens: int) -> str:
    return "[Cut, as the context is full.]"


def _lines(run: Run, after: Run, live: LiveTurn) -> tuple[LedgerLine, ...]:
    """Return what the ledger says of a step, by comparing what stood before with what stands now."""
    if (run.past, run.dropped, run.messages) == (after.past, after.dropped, after.messages):
        return ()
    live.forget()
    old = [*live.past(run), *run.messages]
    live.forget()
    new = [*live.past(after), *after.messages]
    lines: list[LedgerLine] = []
    shorter = _shorter_results(old, new, live)
    if shorter:
        saved = sum(before - now for before, now in shorter)
        label = f"{len(shorter)} tool results"
        lines.append(LedgerLine("compaction", label, "tool_results", saved, "cleared", "older than those kept whole"))
    known, before = {id(message) for message in new}, {id(message) for message in old}
    whole = [as_it_was(message) for message in new if id(message) not in before]
    gone = [message for message in old if id(message) not in known and as_it_was(message) not in whole]
    if not gone:
        return tuple(lines)
    size = sum(live.size(message) for message in gone)
    fresh = (message for message in new if id(message) not in before)
    is_summarised = any(isinstance(part, Summary) for message in fresh for part in message.content)
    label = f"{len(gone)} earlier messages"
    if is_summarised:
        lines.append(LedgerLine("compaction", label, "history", size, "summarised", "a summary stands in their place"))
    else:
        lines.append(LedgerLine("history", label, "history", size, "skipped", "the oldest that do not fit the window"))
    return tuple(lines)


def _shorter_results(old: Sequence[Message], new: Sequence[Message], live: LiveTurn) -> list[tuple[int, int]]:
    """Return the tokens of each result that was shortened, before and after."""
    found: list[tuple[int, int]] = []
    by_what = {(result.key, _whole(result)): result for message in old for result in message.tool_results}
    for message in new:
        for result in message.tool_results:
            before = by_what.get((result.key, _whole(result)))
            if before is not None and before.content != result.content:
                found.append((live.size(Message("tool", (before,))), live.size(Message("tool", (result,)))))
    return found


def _whole(result: ToolResult) -> str:
    return repr(result.content if result.whole is None else result.whole)
