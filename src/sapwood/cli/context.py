"""`sapwood context`: what a model sees, or saw: by an agent and a prompt, or by a stored run.

Law: no model is asked and nothing is saved.
"""

import argparse
import json

import msgspec
from rich.console import Console
from rich.text import Text

from sapwood.agent.agent import Agent
from sapwood.cli.ask_store import get
from sapwood.cli.chat import load_agent
from sapwood.cli.runs import kept_runs, whole_id
from sapwood.cli.view import ledger_table
from sapwood.core.errors import ConfigError
from sapwood.core.ledger import ContextLedger
from sapwood.core.run import Run


def run_context(options: argparse.Namespace, console: Console | None = None) -> int:
    """Show a ledger and return the exit code, 1 where the request would not fit; raises SapwoodError."""
    console = console or Console(highlight=False)
    ledgers = [_of_prompt(options)] if options.run is None else _of_run(options)
    if options.json:
        # Not through the console, which would break the lines at its width.
        print(json.dumps([msgspec.to_builtins(item) for item in ledgers], ensure_ascii=False, indent=2))
    else:
        for number, ledger in enumerate(ledgers):
            if len(ledgers) > 1:
                console.print(Text(f"round {number}", style="bold"))
            console.print(ledger_table(ledger))
    too_long = [item for item in ledgers if item.window and item.estimated_tokens > item.window]
    if too_long and not options.json:
        over = too_long[0].estimated_tokens - too_long[0].window
        console.print(Text(f"It is {over:,} tokens over the window, and would not be sent.", style="red"))
    return 1 if too_long else 0


def _of_prompt(options: argparse.Namespace) -> ContextLedger:
    if not options.agent or not options.prompt:
        raise ConfigError(
            "give an agent and a prompt: sapwood context --agent module:name PROMPT; or a stored run with --run"
        )
    agent: Agent = load_agent(options.agent)
    ledger = agent.preview(options.prompt).ledger
    assert ledger is not None  # a preview has one
    return ledger


def _of_run(options: argparse.Namespace) -> list[ContextLedger]:
    """Return the ledgers of a run's rounds, or of one of them."""
    keeping = kept_runs(options.db, load_agent(options.agent) if options.agent else None)
    runs = keeping.runs
    assert runs is not None  # kept_runs gives one that has it
    run_id = whole_id(keeping, options.run)
    run: Run = get(runs.load, run_id)
    ledgers = [item.ledger for item in run.rounds if item.ledger is not None]
    if run.ledger is not None and len(run.rounds) == run.round and run.phase not in ("idle", "ended"):
        ledgers.append(run.ledger)
    if not ledgers:
        raise ConfigError(f"run {run_id!r} has called no model yet")
    if options.round is None:
        return ledgers
    if not 0 <= options.round < len(ledgers):
        raise ConfigError(f"run {run_id!r} has the rounds 0 to {len(ledgers) - 1}, not {options.round}")
    return [ledgers[options.round]]
