"""`sapwood runs`: look at stored runs, answer what they wait for, go on with them, end them.

Laws: an answer is checked against the stored request, and recorded before anything runs; only `resume` runs anything,
and for that it needs the agent.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sapwood.agent.agent import Agent
from sapwood.agent.answers import Answers
from sapwood.agent.durable import Keeping, close, record_answers
from sapwood.cli.ask_store import done, get
from sapwood.cli.chat import load_agent
from sapwood.cli.view import TurnView
from sapwood.core.approval import Answer, ApprovalDecision, ApprovalRequest, ExternalResult
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.json_object import is_object
from sapwood.core.ports import RunStore
from sapwood.core.run import Run
from sapwood.core.stored import RunSummary
from sapwood.loop.gate import check
from sapwood.runtime.blocking import BlockingRuntime

SHOWN = 60
COLUMNS = ("run", "status", "conversation", "updated", "prompt")


def run_runs(options: argparse.Namespace, console: Console | None = None) -> int:
    """Perform one action and return the exit code; raises SapwoodError for what cannot be done."""
    console = console or Console(highlight=False)
    agent = load_agent(options.agent) if options.agent else None
    keeping = kept_runs(options.db, agent)
    if options.action == "list":
        return _list(keeping, options, console)
    run_id = whole_id(keeping, options.run)
    match options.action:
        case "show":
            return _show(keeping, run_id, console)
        case "resume":
            return _resume(agent, run_id, options.extend, console)
        case "cancel":
            done(close(keeping, _runs(keeping), run_id, BlockingRuntime(), why="cancelled by a person"))
            console.print(f"{run_id} is over")
            return 0
        case _:
            return _answer(keeping, agent, run_id, options, console)


def kept_runs(path: str | None, agent: Agent | None) -> Keeping:
    """Return where runs are kept: in a file, or where the agent keeps them; raises ConfigError without either."""
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


def whole_id(keeping: Keeping, start: str) -> str:
    """Return the id of the run that begins so; raises ConfigError where there is none, or several."""
    runs: list[RunSummary] = list(get(_runs(keeping).list, limit=10_000))
    found = [item.run_id for item in runs if item.run_id.startswith(start)]
    if start in found or len(found) == 1:
        return start if start in found else found[0]
    if found:
        raise ConfigError(f"several runs begin with {start!r}: {', '.join(found[:5])}")
    raise ConfigError(f"there is no run {start!r}; `sapwood runs list --all` shows those there are")


def _list(keeping: Keeping, options: argparse.Namespace, console: Console) -> int:
    store = _runs(keeping)
    if options.all:
        found = get(store.list, conversation_id=options.conversation)
    else:
        found = get(store.waiting, options.conversation)
    if options.json:
        # Not through the console, which would break the lines at its width.
        print(json.dumps([msgspec.to_builtins(item) for item in found], ensure_ascii=False, indent=2))
        return 0
    if not found:
        console.print(Text("No runs." if options.all else "No run is open.", style="dim"))
        return 0
    _print_table([_row(item) for item in found], console)
    return 0


def _row(item: RunSummary) -> tuple[str, ...]:
    status = item.status if item.status != "ended" else f"ended ({item.stopped_by})"
    updated = f"{item.updated_at:%Y-%m-%d %H:%M:%S}"
    return item.run_id, status, item.conversation_id or "", updated, _short(item.prompt)


def _print_table(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """Print a run as one line: a terminal cuts it at its width, anything else gets it whole."""
    widths = [max(map(cell_len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for number, row in enumerate((COLUMNS, *rows)):
        cells = (set_cell_size(part, width) for part, width in zip(row, widths, strict=True))
        line = Text("  ".join(cells).rstrip(), style="" if number else "bold")
        if console.is_terminal:
            line.truncate(console.width, overflow="ellipsis")
        console.print(line, soft_wrap=True)


def _show(keeping: Keeping, run_id: str, console: Console) -> int:
    store = _runs(keeping)
    summary, run = get(store.summary, run_id), get(store.load, run_id)
    console.print(Text(f"{run_id} · {summary.status} · {_short(summary.prompt)}", style="bold"))
    for number, event in enumerate(get(store.events, run_id), 1):
        where = "  " * len(event.path)
        what = " ".join(str(part) for part in (getattr(event, "name", ""), getattr(event, "result", "")) if part)
        console.print(Text(f"{number:4} {where}{event.type} {_short(what)}", style="dim"))
    for request in run.waiting():
        console.print(Text(f"waits: {request.id} · {request.name} · {json.dumps(request.tool_input)}", style="yellow"))
    for breach in run.limits if run.asks else ():
        console.print(Text(f"waits at {breach}", style="yellow"))
    return 0


def _answer(keeping: Keeping, agent: Agent | None, run_id: str, options: argparse.Namespace, console: Console) -> int:
    store = _runs(keeping)
    request = _request(get(store.load, run_id), options.call)
    answer = _answer_of(request, options)
    if isinstance(answer, ApprovalDecision) and answer.updated_input is not None:
        _require_fitting(agent, request, answer.updated_input, console)
    left = done(record_answers(store, run_id, Answers({request.id: answer}, by=options.by), BlockingRuntime()))
    said = "answered" if isinstance(answer, ExternalResult) else "approved" if answer.approved else "denied"
    console.print(f"{request.name} ({request.id}): {said}", soft_wrap=True)
    waiting = len(left.waiting())
    console.print(
        f"{waiting} more wait" if waiting else f"go on with: sapwood runs resume {run_id} --agent ...", soft_wrap=True
    )
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


def _require_fitting(agent: Agent | None, request: ApprovalRequest, edited: dict[str, Any], console: Console) -> None:
    """Raise ConfigError where an input does not fit the tool of this agent; say so where nobody can tell."""
    bound = agent.tool_called(request.name) if agent is not None and not request.path else None
    if bound is None:
        console.print(Text("--input is checked when the run goes on; --agent checks a tool of it now", style="dim"))
        return
    try:
        check(bound, edited)
    except (ToolError, ValueError, TypeError) as error:  # ours, or of a check of the tool's own
        raise ConfigError(f"--input does not fit {request.name}: {error}") from None


def _request(run: Run, call: str | None) -> ApprovalRequest:
    waiting = run.waiting()
    if call is None and len(waiting) == 1:
        return waiting[0]
    known = ", ".join(f"{item.id} ({item.name})" for item in waiting) or "none"
    if call is None:
        raise ConfigError(f"say which call; those that wait: {known}")
    for item in waiting:
        # The whole id alone: the end of one may stand for another call by the time that it is typed.
        if call == item.id:
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
