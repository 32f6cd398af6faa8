"""answers: what of the answers to a paused run counts.

Laws: an answer counts for a call that was asked about and not answered, once, and only with the digest of what was
shown; after its time a request is denied, whatever the answer, and without one. Nothing here runs anything.
"""

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime

from sapwood.core.events import AgentEvent, ApprovalRequested, ApprovalResolved, LimitExtended, Path
from sapwood.core.run import OpenCall, Run

_log = logging.getLogger(__name__)


def settled(run: Run, answers: Iterable[AgentEvent], now: datetime) -> Iterator[ApprovalResolved | LimitExtended]:
    """Yield the answers that count, and a no to each request whose time is over; the others are logged.

    run: as it is after `TurnResumed`.
    """
    asked = {(path, item.call.key): item.request for path, item in run.open_calls() if _is_asked(item) and item.request}
    for answer in answers:
        if isinstance(answer, LimitExtended):
            yield answer
            continue
        key = (answer.path, answer.key) if isinstance(answer, ApprovalResolved) else None
        request = asked.get(key) if key is not None else None
        if request is None or key is None or not isinstance(answer, ApprovalResolved):
            _log.warning("an answer counts for nothing, as nothing waits for it: %s", _shown(answer))
        elif answer.digest != request.digest:
            _log.warning("an answer counts for nothing, as it is to another input: %s", _shown(answer))
        else:
            del asked[key]
            yield _expired(answer.path, request, by=answer.by) if _is_over(request, now) else answer
    for path, item in run.open_calls():
        request = asked.get((path, item.call.key))
        if request is not None and item.state == "waiting" and _is_over(request, now):
            yield _expired(path, request)


def _is_asked(item: OpenCall) -> bool:
    # `started` with a request: it would be asked about again, by whoever is there now.
    return item.state in ("waiting", "started")


def _is_over(request: ApprovalRequested, now: datetime) -> bool:
    return request.expires_at is not None and now > request.expires_at


def _expired(path: Path, request: ApprovalRequested, *, by: str | None = None) -> ApprovalResolved:
    return ApprovalResolved(
        path=path,
        key=request.key,
        tool_call_id=request.tool_call_id,
        name=request.name,
        approved=False,
        reason=f"nobody answered in time (until {request.expires_at})",
        digest=request.digest,
        by=by,
    )


def _shown(answer: AgentEvent) -> str:
    if not isinstance(answer, ApprovalResolved):
        return answer.type
    return f"{answer.name} {'/'.join((*answer.path, answer.tool_call_id or answer.key))}"
