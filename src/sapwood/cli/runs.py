"""`sapwood runs`: look at stored runs, answer what they wait for, go on with them, end them.

Laws: an answer is checked against the stored request, and recorded before anything runs; only `resume` runs anything,
and for that it needs the agent.
"""

import argparse
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sapwood.agent.agent import Agent
from sapwood.agent.answers import Answers
from sapwood.agent.durable import Keeping, close, record_answers
from sapwood.cli.chat import load_agent
from sapwood.cli.view import TurnView
from sapwood.core.approval import Answer, ApprovalDecision, ApprovalRequest, ExternalResult
from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_object
from sapwood.core.ports import RunStore, Runtime
from sapwood.core.run import Run
from sapwood.core.stored import RunSummary
from sapwood.core.tools import MaybeAwaitable
from sapwood.runtime.blocking import BlockingRuntime, iterate

SHOWN = 60
T = TypeVar("T")


def run_runs(options: argparse.Namespace, console: Console | None = None) -> int:
    """Perform one action and return the exit code; raises SapwoodError for what cannot be done."""
    console = console or Console(highlight=False)
    agent = load_agent(options.agent) if options.agent else None
    keeping = _keeping(options.db, agent)
    rt = BlockingRuntime()
    if options.action == "list":
        return _list(keeping, options, console)
    run_id = _whole(keeping, options.run)
    match options.action:
        case "show":
            return _show(keeping, run_id, console)
        case "resume":
            return _resume(agent, run_id, options.extend, console)
        case "cancel":
            _done(close(keeping, _runs(keeping), run_id, rt, why="cancelled by a person"))
            console.print(f"{run_id} is over")
            return 0
        case _:
            return _answer(keeping, run_id, options, rt, console)


def _keeping(path: str | None, agent: Agent | None) -> Keeping:
    if path is not None:
        from sapwood.stores.sqlite import SqliteStore

        if not Path(path).exists():
            raise ConfigError(f"there is no file {path}")
        store = SqliteStore(path)
        return Keeping(store.runs, store.conversations)
    if agent is not None and agent.keeping.runs is not None:
        return agent.keeping
    raise ConfigError("give --db FILE, or --agent module:name of an agent that has a run store")


def _runs(keeping: Keeping) -> RunStore:
    if keeping.runs is None:  # _keeping gives one that has it
        raise ConfigError("there is no run store")
    return keeping.runs


def _whole(keeping: Keeping, start: str) -> str:
    """Return the id of the run that begins so; raises ConfigError where there is none, or several."""
    runs: list[RunSummary] = list(_get(_runs(keeping).list, limit=10_000))
    found = [item.run_id for item in runs if item.run_id.startswith(start)]
    if start in found or len(found) == 1:
        return start if start in found else found[0]
    if found:
        raise ConfigError(f"several runs begin with {start!r}: {', '.join(found[:5])}")
    raise ConfigError(f"there is no run {start!r}; `sapwood runs list --all` shows those there are")


def _list(keeping: Keeping, options: argparse.Namespace, console: Console) -> int:
    store = _runs(keeping)
    if options.all:
        found = _get(store.list, conversation_id=options.conversation)
    else:
        found = _get(store.waiting, options.conversation)
    if not found:
        console.print(Text("No runs." if options.all else "No run is open.", style="dim"))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "status", "conversation", "updated", "prompt"):
        table.add_column(name, no_wrap=name != "prompt")
    for item in found:
        status = item.status if item.status != "ended" else f"ended ({item.stopped_by})"
        updated = f"{item.updated_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(item.run_id, status, item.conversation_id or "", updated, _short(item.prompt))
    console.print(table)
    return 0


def _show(keeping: Keeping, run_id: str, console: Console) -> int:
    store = _runs(keeping)
    summary, run = _get(store.summary, run_id), _get(store.load, run_id)
    console.print(Text(f"{run_id} · {summary.status} · {_short(summary.prompt)}", style="bold"))
    for number, event in enumerate(_get(store.events, run_id), 1):
        where = "  " * len(event.path)
        what = " ".join(str(part) for part in (getattr(event, "name", ""), getattr(event, "result", "")) if part)
        console.print(Text(f"{number:4} {where}{event.type} {_short(what)}", style="dim"))
    for request in run.waiting():
        console.print(Text(f"waits: {request.id} · {request.name} · {json.dumps(request.tool_input)}", style="yellow"))
    for breach in run.limits if run.asks else ():
        console.print(Text(f"waits at {breach}", style="yellow"))
    return 0


def _answer(keeping: Keeping, run_id: str, options: argparse.Namespace, rt: Runtime, console: Console) -> int:
    store = _runs(keeping)
    request = _request(_get(store.load, run_id), options.call)
    answer = _answer_of(request, options)
    left = _done(record_answers(store, run_id, Answers({request.id: answer}, by=options.by), rt))
    console.print(f"{request.name} ({request.id}): {'denied' if options.action == 'deny' else 'approved'}")
    waiting = len(left.waiting())
    console.print(f"{waiting} more wait" if waiting else f"go on with: sapwood runs resume {run_id} --agent ...")
    return 0


def _answer_of(request: ApprovalRequest, options: argparse.Namespace) -> Answer:
    if options.action == "deny":
        return ApprovalDecision(approved=False, reason=options.reason)
    if request.kind == "external":
        if options.result is None:
            raise ConfigError(f"{request.name} runs outside: give its result with --result")
        try:
            return ExternalResult(json.loads(options.result))
        except ValueError:
            return ExternalResult(options.result)
    if options.input is None:
        return ApprovalDecision(approved=True)
    try:
        edited: object = json.loads(options.input)
    except ValueError as error:
        raise ConfigError(f"--input is no JSON: {error}") from None
    if not is_object(edited):
        raise ConfigError("--input must be a JSON object")
    return ApprovalDecision(approved=True, updated_input=edited)


def _request(run: Run, call: str | None) -> ApprovalRequest:
    waiting = run.waiting()
    if call is None and len(waiting) == 1:
        return waiting[0]
    known = ", ".join(f"{item.id} ({item.name})" for item in waiting) or "none"
    if call is None:
        raise ConfigError(f"say which call; those that wait: {known}")
    for item in waiting:
        if call in (item.id, item.tool_call_id):
            return item
    raise ConfigError(f"no call {call!r} waits; those that wait: {known}")


def _resume(agent: Agent | None, run_id: str, extend: list[str], console: Console) -> int:
    if agent is None:
        raise ConfigError("resume runs the agent, so it needs --agent module:name")
    with TurnView(console) as view:
        for event in agent.resume(run_id, extend=_amounts(extend) if extend else None):
            view.show(event)
    return 0


def _amounts(texts: list[str]) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for text in texts:
        kind, _, amount = text.partition("=")
        try:
            amounts[kind] = float(amount)
        except ValueError:
            raise ConfigError(f"--extend is KIND=AMOUNT, such as total_tokens=20000; not {text!r}") from None
    return amounts


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _get(fn: Callable[..., MaybeAwaitable[T]], *args: Any, **options: Any) -> T:
    """Ask a store, plain or async."""
    return _done(BlockingRuntime().call("store", lambda: fn(*args, **options), shielded=True))


def _done(step: Coroutine[Any, Any, T]) -> T:
    """Perform a step that never suspends on a blocking runtime."""

    async def alone() -> AsyncGenerator[T, None]:
        yield await step

    return next(iterate(alone()))
