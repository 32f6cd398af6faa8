"""Threads as clients read them: in a list, and whole, message by message.

Laws: a thread's messages are its runs, so a compaction hides nothing from a reader; what a client has after a stream
and what it reads here are the same parts.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from sapwood.core.events import TurnStarted
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.stored import ConversationSummary, RunSummary
from sapwood.server.encode.ai_sdk import AiSdkEncoder, approval_note
from sapwood.server.encode.shown import limit_note
from sapwood.server.encode.ui_message import MessageBuilder, user_message
from sapwood.server.errors import HttpError, posted
from sapwood.server.journal_events import Timed, as_streamed
from sapwood.server.live_runs import LiveRuns
from sapwood.server.principal import Principal, conversation_of, prefix_of, thread_of
from sapwood.server.run_log import Place

MOST = 200
_STATUS = {"running": "running", "paused": "waiting", "interrupted": "interrupted", "ended": "idle"}


class Threads:
    """The threads of the principals of a server."""

    def __init__(self, runs: LiveRuns) -> None:
        self._runs = runs
        self._store = runs.store

    async def listed(self, principal: Principal, limit: int, before: str | None) -> dict[str, Any]:
        """Return threads, the one that was begun last first. before: the id of a thread, to go on with a list."""
        prefix = prefix_of(principal)
        after = posted(conversation_of, principal, before) if before is not None else None
        found = await self._runs.ask(self._store.conversations.list, limit=limit + 1, prefix=prefix, before=after)
        holders = await asyncio.gather(*[self._runs.active(item.id) for item in found[:limit]])
        shown = [_thread(item, holder, principal) for item, holder in zip(found[:limit], holders, strict=True)]
        threads = [item for item in shown if item is not None]
        more = {"next": threads[-1]["id"]} if len(found) > limit and threads else {}
        return {"threads": threads, **more}

    async def read(self, principal: Principal, thread_id: str, limit: int, before: str | None) -> dict[str, Any]:
        """Return a thread with its newest turns; before: the id of a run, for older ones.

        Raises HttpError where there is no such thread.
        """
        conversation_id = posted(conversation_of, principal, thread_id)
        runs = await self._runs.ask(
            self._store.runs.list, limit=limit + 1, conversation_id=conversation_id, before=before
        )
        messages: list[dict[str, Any]] = []
        for item in reversed(runs[:limit]):
            messages += await self._turn(item, thread_id)
        if not runs:
            messages = await self._without_runs(conversation_id, before)
        active = await self._runs.active(conversation_id)
        first = await self._title(conversation_id)
        if not runs and not messages and first is None:
            raise HttpError(404, "not_found", "There is no such thread.")
        state: dict[str, Any] = {"status": "idle", "waiting": [], "limits": []}
        if active is not None:
            state = await self.state(active)
        more = {"next": runs[limit - 1].run_id} if len(runs) > limit else {}
        return {"id": thread_id, "title": first or "", **state, "messages": messages, **more}

    async def delete(self, principal: Principal, thread_id: str) -> None:
        """Remove a thread with its runs; raises HttpError where there is none, ConversationBusyError while one runs."""
        conversation_id = posted(conversation_of, principal, thread_id)
        if not await self._runs.ask(self._store.conversations.delete, conversation_id):
            raise HttpError(404, "not_found", "There is no such thread.")
        grants = self._runs.agent(principal).approvals
        for grant in grants.list():  # another thread may have this name later
            if grant.scope == conversation_id:
                grants.revoke(grant.id)

    async def state(self, summary: RunSummary) -> dict[str, Any]:
        """Return how a run stands: its status, and what it waits for."""
        status = "running" if self._runs.live(summary.run_id) is not None else summary.status
        run: Run = await self._runs.ask(self._store.runs.load, summary.run_id)
        is_paused = status == "paused"
        notes = [approval_note(item.request.replace(path=path)) for path, item in _waiting(run)] if is_paused else []
        return {
            "runId": summary.run_id,
            "status": _STATUS[status],
            "waiting": msgspec.to_builtins(notes),
            "limits": [msgspec.to_builtins(item) for item in _limits(run)] if is_paused else [],
        }

    async def _title(self, conversation_id: str) -> str | None:
        before = None
        while True:  # others may begin with the same letters
            found = await self._runs.ask(
                self._store.conversations.list, limit=MOST, prefix=conversation_id, before=before
            )
            for item in found:
                if item.id == conversation_id:
                    return str(item.title)
            if len(found) < MOST:
                return None
            before = found[-1].id

    async def _turn(self, summary: RunSummary, thread_id: str) -> list[dict[str, Any]]:
        log = self._runs.live(summary.run_id)
        events: Iterable[Timed]
        if log is not None:
            events = [(event, at) for event, at, _ in log.read(Place())]
        else:
            events = as_streamed(await self._runs.stored_events(summary.run_id))
        return list(messages_of(events, summary.run_id, thread_id, is_live=log is not None))

    async def _without_runs(self, conversation_id: str, before: str | None) -> list[dict[str, Any]]:
        """Return the messages of a conversation whose runs nobody kept, as the next turn sees them."""
        if before is not None:
            return []
        loaded = await self._runs.ask(self._store.conversations.load, conversation_id)
        return [_plain(message, number) for number, message in enumerate(loaded.messages) if message.text]


def messages_of(events: Iterable[Timed], run_id: str, thread_id: str, *, is_live: bool) -> Iterable[dict[str, Any]]:
    """Yield the user's message and the assistant's of a run."""
    encoder, builder = AiSdkEncoder(run_id, thread_id), MessageBuilder()
    for event, at in events:
        builder.add(encoder.chunks(event, at))
        if isinstance(event, TurnStarted) and not event.path and event.prompt is not None:
            about = {"runId": run_id, "threadId": thread_id, "startedAt": int(at * 1000)}
            yield user_message(event.prompt, f"{run_id}-prompt", about)
    if not is_live:
        builder.add(encoder.last_chunks())
    yield {"id": run_id, "role": "assistant", "parts": builder.parts, "metadata": builder.metadata}


def _plain(message: Message, number: int) -> dict[str, Any]:
    role = "user" if message.role == "user" else "assistant"
    return {"id": f"m{number}", "role": role, "parts": [{"type": "text", "text": message.text}]}


def _thread(item: ConversationSummary, active: RunSummary | None, principal: Principal) -> dict[str, Any] | None:
    thread_id = thread_of(item.id, principal)
    if thread_id is None:
        return None
    run = {"runId": active.run_id} if active is not None else {}
    return {
        "id": thread_id,
        "title": item.title,
        "startedAt": _time(item.started_at),
        "updatedAt": _time(active.updated_at if active is not None else item.updated_at),
        "status": _STATUS[active.status] if active is not None else "idle",
        **run,
    }


def _time(value: datetime) -> int:
    return int(value.timestamp() * 1000)


def _waiting(run: Run) -> Iterable[Any]:
    return [(path, item) for path, item in run.open_calls() if item.state == "waiting" and item.request is not None]


def _limits(run: Run) -> Iterable[Any]:
    if run.asks:
        yield from (limit_note(breach, asks=True) for breach in run.limits)
    for child in run.children.values():
        yield from _limits(child.run)
